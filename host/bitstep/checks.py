"""Checks of parameters."""

import math
from collections.abc import Iterable
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


def is_number(value: Any, low: float = -np.inf) -> "TypeGuard[float]":
    """Return True for a finite real number of Python or NumPy of at least ``low``; a bool is none.

    Parameters
    ----------
    value : object
        What was given.
    low : float
    """
    return isinstance(value, (int, float, np.integer, np.floating)) \
        and not isinstance(value, bool) and bool(low <= value) and fits_float(value)


def fits_float(value: Any) -> bool:
    """Return True for a real number that is finite as one of 64 bits: integers may be larger."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_integer(name: str, value: Any, low: int, high: float = np.inf) -> None:
    """Raise ValueError unless a parameter is an integer from ``low`` to ``high``."""
    if not is_integer(value, low, high):
        limits = f"from {low} to {high}" if high < np.inf else f"of at least {low}"
        raise ValueError(f"{name} must be an integer {limits}, not {value!r}")


def check_timeout(timeout_s: Any) -> None:
    """Raise ValueError unless a limit on time is a number of seconds: no other one ends a wait."""
    if not is_number(timeout_s, 0):
        raise ValueError(f"timeout_s must be a number of seconds, at least 0, not {timeout_s!r}")


def check_bool(name: str, value: Any) -> None:
    """Raise ValueError unless a parameter is True or False, of Python or NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, not {value!r}")


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise ValueError unless a parameter is one of some choices."""
    choices = tuple(choices)
    if isinstance(value, bool) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")
