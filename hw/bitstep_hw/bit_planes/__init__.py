"""Bit-plane rows: the planes that an epoch reads, and values in lanes from their beats."""
