"""Bit-centred training: outer steps around passes over few bits, to the exact optimum."""
