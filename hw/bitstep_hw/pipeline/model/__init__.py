"""The model: its memory, and everything that walks through it."""
