"""Counts of places on a grid, between which values lie."""

import numpy as np


def split_counts(lower: np.ndarray, shares: np.ndarray, size: int) -> np.ndarray:
    """Counts of the places of a grid, where a value between two of them counts for both.

    Parameters
    ----------
    lower : ndarray of int, shape (n,)
        The place below each value, from 0 to ``size - 2``.
    shares : ndarray of float64, shape (n,)
        Part of each value that counts for the place above.
    size : int
        Places.

    Returns
    -------
    ndarray of float64, shape (size,)
    """
    lower = lower.astype(np.intp, copy=False)       # on 32-bit machines bincount takes no others
    return np.bincount(lower, 1 - shares, size) + np.bincount(lower + 1, shares, size)
