"""Streams that the pipeline reads and writes, and the memory behind them."""
