"""Train dense linear models on FPGAs from data streamed at 1 to 8 bits per value."""
