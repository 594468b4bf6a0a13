"""Measurements of training over many machines, on a cluster of this one (docs/results/dask.md)."""
