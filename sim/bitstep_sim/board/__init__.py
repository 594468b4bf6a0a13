"""The simulated board: compiled RTL, its memory, and the device."""
