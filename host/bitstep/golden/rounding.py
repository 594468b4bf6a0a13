"""Rounding and ranges of the integers of a run."""

import numpy as np


def round_shift(value, shift: int):
    """``value / 2**shift`` rounded to nearest, ties towards plus infinity (``shift`` >= 1); of an
    integer or of an array of exact integers.
    """
    return (value + (1 << shift - 1)) >> shift


def fits(value, width: int) -> bool:
    """True if an integer, or every integer of an array, fits ``width`` bits, signed."""
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    if isinstance(value, np.ndarray):
        return bool(value.size == 0 or (low <= value.min() and value.max() <= high))
    return low <= value <= high
