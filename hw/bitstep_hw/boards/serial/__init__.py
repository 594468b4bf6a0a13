"""A whole system behind a serial port."""
