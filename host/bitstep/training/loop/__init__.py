"""The loop of a training, and what is done around each of its epochs."""
