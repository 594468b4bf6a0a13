"""Checks of parameters."""

from typing import Any, TypeGuard

import numpy as np


def is_integer(value: Any, low: float = -np.inf, high: float = np.inf) -> "TypeGuard[int]":
    """Return True for an integer of Python or NumPy from ``low`` to ``high``.

    A bool is none: True in place of a number is a mistake.

    Parameters
    ----------
    value : object
        What was given.
    low, high : float
        Least and largest value.
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)) \
        and bool(low <= value <= high)
