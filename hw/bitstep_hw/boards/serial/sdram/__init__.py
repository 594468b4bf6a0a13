"""A shared memory of SDRAM: its timings, its controller, and the ports in front of it."""
