"""The golden model: what every pipeline, simulated board and driver must reproduce bit for bit.

Written from the mathematics (docs/number-formats.md), with NumPy and Python integers only.
"""
