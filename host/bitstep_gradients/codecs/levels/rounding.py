"""Stochastic rounding to any levels, decided in integers.

A value v of a bucket with the scale s becomes t = rint(|v| f) with v's sign, f = 2**30 / s; the
quotient and the product are rounded to float32. Levels are integers L_0 < ... < L_n-1 from -2**30
to 2**30. With L_i <= t < L_i+1, the symbol is i + 1 if u (L_i+1 - L_i) < 2**32 (t - L_i), else i,
where u is a random word of 32 bits. Both sides are below 2**63 + 1.
"""

import numpy as np

from bitstep.levels.counting import split_counts
from bitstep_gradients import kernels
from bitstep_gradients.keys import Key
from bitstep_gradients.vectors import of_buckets

ONE = 2**30
ROUNDING_STREAM = 1         # of the key's random words


def fixed_levels(levels: np.ndarray) -> np.ndarray:
    """Levels as integers: multiples of 2**-30 that float32 can hold.

    Parameters
    ----------
    levels : ndarray of float64, shape (n,)
        Rising, from -1 to 1, n from 2 to 2**8.

    Returns
    -------
    fixed : ndarray of int64, shape (n,)

    Raises
    ------
    ValueError
        If two levels become the same integer.
    """
    near = np.rint(np.asarray(levels, np.float64) * ONE).astype(np.float32)
    return check_fixed(near.astype(np.int64), near.size)


def separated(levels: np.ndarray, least: float) -> np.ndarray:
    """Levels that differ as integers: the same ones, or, where some are too close together, ones
    that are 2**-24 or more apart.

    Parameters
    ----------
    levels : ndarray of float64, shape (n,)
        Rising; the last one is 1.
    least : float
        Below the first one, a multiple of 2**-24.
    """
    if (np.diff(np.rint(levels * ONE).astype(np.float32), prepend=least * ONE) > 0).all():
        return levels
    steps, units = np.arange(levels.size), 2.0**24
    rising = np.maximum.accumulate(np.rint(levels * units) - steps) + steps
    rising = np.maximum(rising, least * units + 1 + steps)
    return np.minimum(rising, units - steps[::-1]) / units


def check_fixed(fixed: np.ndarray, size: int) -> np.ndarray:
    """Check integers that are to be levels.

    Raises
    ------
    ValueError
        Unless they are ``size`` rising integers from -2**30 to 2**30.
    """
    fixed = np.asarray(fixed)
    if fixed.shape != (size,) or fixed.dtype.kind not in "iu" \
            or not (np.diff(fixed.astype(np.int64)) > 0).all() \
            or abs(int(fixed[0])) > ONE or abs(int(fixed[-1])) > ONE:
        raise ValueError(f"levels must be {size} rising integers from {-ONE} to {ONE}, not {fixed}")
    return fixed.astype(np.int64)


def targets(values: np.ndarray, scales: np.ndarray, bucket_size: int) -> np.ndarray:
    """The integers t of values (float32): int64, shape of ``values``; 0 where the scale is 0."""
    exact = np.rint(values * of_buckets(_factors(scales), values.size, bucket_size))
    return np.clip(exact.astype(np.int64), -ONE, ONE)


def _factors(scales):
    factors = np.zeros_like(scales)
    np.divide(np.float32(ONE), scales, out=factors, where=scales > 0)
    return factors


def intervals(numbers: np.ndarray, fixed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place of integers t between levels.

    Parameters
    ----------
    numbers : ndarray of int64, shape (count,)
        Taken as the nearest level where they are beyond the first or the last one.
    fixed : ndarray of int64, shape (n,)
        Rising; equal ones may be at the end.

    Returns
    -------
    lower : ndarray of int64
        Number i of the level below.
    offsets, gaps : ndarray of int64
        t - L_i and L_i+1 - L_i.
    """
    numbers = np.clip(numbers, fixed[0], fixed[-1])
    lower = np.clip(np.searchsorted(fixed, numbers, side="right") - 1, 0, fixed.size - 2)
    return lower, numbers - fixed[lower], fixed[lower + 1] - fixed[lower]


def symbols_of(values: np.ndarray, scales: np.ndarray, bucket_size: int, fixed: np.ndarray,
               key: Key) -> np.ndarray:
    """Symbols of values (float32), rounded by the key's words: integers, shape of ``values``."""
    loops = kernels.find_kernels()
    if not loops:
        words = key.words(values.size, stream=ROUNDING_STREAM)
        return rounded(targets(values, scales, bucket_size), fixed, words)
    symbols = np.empty(values.size, np.uint8)
    loops.round_to_levels(values, _factors(scales), bucket_size or max(values.size, 1), fixed,
                          np.array([*key.words_key, ROUNDING_STREAM], np.uint32), symbols)
    return symbols


def rounded(numbers: np.ndarray, fixed: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Symbols of integers t, rounded by random words of 32 bits: integers."""
    loops = kernels.find_kernels()
    if loops:
        symbols = np.empty(numbers.size, np.uint8)
        loops.round_targets(numbers, fixed, words, symbols)
        return symbols
    lower, offsets, gaps = intervals(numbers, fixed)
    thresholds = offsets.astype(np.uint64) << np.uint64(32)
    return lower + (words.astype(np.uint64) * gaps.astype(np.uint64) < thresholds)


def shares(numbers: np.ndarray, fixed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exact statistics of the rounding.

    Returns
    -------
    lower : ndarray of int64
    up : ndarray of float64
        Probability of the level above.
    variances : ndarray of float64
        In units of the scale's square.
    """
    lower, offsets, gaps = intervals(numbers, fixed)
    up = np.divide(offsets, gaps, out=np.zeros(offsets.shape), where=gaps > 0)
    return lower, up, up * (1 - up) * (gaps / ONE)**2


def symbol_probabilities(lower: np.ndarray, up: np.ndarray, n_levels: int) -> np.ndarray:
    """Mean probability of every symbol: float64, shape (n_levels,)."""
    return split_counts(lower, up, n_levels) / max(lower.size, 1)
