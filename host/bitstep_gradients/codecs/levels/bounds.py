"""Bounds of variance and code length for any levels (ALQ paper, Theorems 2, 3, 9 and 10).

Magnitudes are the positive levels l_1 < ... < l_s+1 = 1 for values divided by their L2 or
largest-value norm.
"""

import numpy as np

_P = np.linspace(0, 1, 257)[:-1]
# K_p of Theorem 2, with its limit 1/4 for p = 0.
_K = 1 / (2 - _P) * ((1 - _P) / (2 - _P))**(1 - _P)


def variance_factor(magnitudes: np.ndarray, count: int, *, zero: bool) -> float:
    """Bound of E|Q(v) - v|^2 / |v|^2.

    Parameters
    ----------
    magnitudes : ndarray of float64, shape (s + 1,)
    count : int
        Values d of a bucket.
    zero : bool
        True: 0 is a level (Theorem 2: the infimum over p in (0, 1) is taken over 256 of them).
        False: -l_1 is the level below l_1 (Theorem 9).

    Returns
    -------
    factor : float
    """
    ratio = np.max(magnitudes[1:] / magnitudes[:-1], initial=1.0)
    between = (ratio - 1)**2 / (4 * ratio)
    least = magnitudes[0] * np.sqrt(count)
    near = np.min(_K * least**(2 - _P)) if zero else least**2
    return float(between + near)


def entropy(probabilities: np.ndarray) -> float:
    """Entropy in bits."""
    some = probabilities[probabilities > 0]
    return float(-np.sum(some * np.log2(some)))


def nonzero_bound(least: float, count: int, *, norm: str) -> float:
    """Bound of the expected values that are not rounded to 0 (ALQ paper, Lemma 3).

    Parameters
    ----------
    least : float
        The least positive level.
    count : int
        Values of a bucket.
    norm : {"l2", "linf"}
        For ``linf`` the lemma says no more than ``count``.
    """
    return min(least**-2 + count**0.5 / least, count) if norm == "l2" else float(count)
