"""Data sets: reading files and named sets, splitting them, and synthetic ones.

Everything here but the bundled sets and downloads works with NumPy alone.
"""

from bitstep.data.dataset import DataError, Dataset, split, synthetic
from bitstep.data.sources import dataset_names, load, open_table

__all__ = ["DataError", "Dataset", "dataset_names", "load", "open_table", "split",
           "synthetic"]
