"""Comparison of gradient codecs: one training by several workers, once with every codec."""
