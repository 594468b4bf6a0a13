"""Residuals and controllers of bits around codecs."""
