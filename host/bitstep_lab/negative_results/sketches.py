"""Tests for rows to read again with 16 bits a value, of appendix G of the ZipML paper.

The hinge loss's gradient depends on the sign of 1 - z, z = y (a . x), and a rounded row may have it
wrong. Two tests find rows for which it could be: bounds from the l1 norm of the model (G.4), which
never miss one, and an estimate from Johnson-Lindenstrauss sketches of row and model (G.3), which
misses one with a small probability.
"""

import math

import numpy as np

from bitstep.checks import check_integer


def sign_matrix(n_features: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """A Johnson-Lindenstrauss matrix of random signs.

    Both sides make it from one shared seed, as theorem 5 of the paper allows, so it is never sent.

    Parameters
    ----------
    n_features, size : int
        Columns, and rows: the length of a sketch. At least 1.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float64, shape (size, n_features)
        Independent entries, 1 / sqrt(size) or its negative, each with probability one half.

    Raises
    ------
    ValueError
        If ``n_features`` or ``size`` is not a positive integer.
    """
    for name, value in (("n_features", n_features), ("size", size)):
        check_integer(name, value, 1)
    return (2.0 * rng.integers(0, 2, (size, n_features), dtype=np.int8) - 1) / math.sqrt(size)


def sketch_error(size: int, failure: float) -> float:
    """Bound of the error of a scalar product of two sketches.

    For unit vectors, ``4 <Ma, Mx> = |M (a + x)|^2 - |M (a - x)|^2``. Each of these squares is off
    by more than a factor of 1 +- gamma with a probability of at most 2 exp(-(size / 2) (gamma^2 / 2
    - gamma^3 / 3)) (Achlioptas, Journal of Computer and System Sciences 66, 2003), so the product
    is off by more than gamma with at most twice that. The sum of the squared lengths is 4.

    Parameters
    ----------
    size : int
        Length of the sketches.
    failure : float
        Probability, in (0, 1), with which the bound need not hold: tau in the paper.

    Returns
    -------
    float
        gamma: ``|<Ma, Mx> - a . x| <= gamma |a| |x|`` for two vectors that do not depend on M,
        with a probability of at least ``1 - failure``. Infinite below the least size for which
        gamma is at most 1, ``12 ln(4 / failure)``.

    Raises
    ------
    ValueError
        If size or failure is out of range.
    """
    check_integer("size", size, 1)
    if not 0 < failure < 1:
        raise ValueError(f"failure must be above 0 and below 1, not {failure}")
    needed = 2 * math.log(4 / failure) / size
    if needed > 1 / 6:
        return math.inf
    low, high = 0.0, 1.0        # gamma^2 / 2 - gamma^3 / 3 rises from 0 to 1/6 between them
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if middle ** 2 / 2 - middle ** 3 / 3 >= needed else (middle, high)
    return high


def sketched_residuals(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray,
                       matrix: np.ndarray) -> np.ndarray:
    """Unbiased estimates c of 1 - y (a . x) from sketches of rows and models.

    Corollary 4 has c = 1 - y (|Ma - Mx|^2 - |Ma|^2 - |Mx|^2), which is 1 + 2 y <Ma, Mx>: sign and
    factor are slips. This is 1 - y <Ma, Mx>.

    Parameters
    ----------
    rows : ndarray of float64, shape (n_rows, n_features)
    labels : ndarray of float64, shape (n_rows,)
        1 or -1.
    weights : ndarray of float64, shape (n_models, n_features)
    matrix : ndarray of float64, shape (size, n_features)
        Of :func:`sign_matrix`.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_models)

    Raises
    ------
    ValueError
        If the numbers of features differ.
    """
    features = {rows.shape[1], weights.shape[1], matrix.shape[1]}
    if len(features) != 1:
        raise ValueError("rows, weights and matrix must have as many columns, not "
                         f"{rows.shape[1]}, {weights.shape[1]} and {matrix.shape[1]}")
    return 1 - labels[:, None] * ((rows @ matrix.T) @ (weights @ matrix.T).T)


def sketch_refetch(estimates: np.ndarray, gap: np.ndarray | float) -> np.ndarray:
    """Rows to read again by their sketches: ``|c| <= 2 gap`` (G.3.1).

    Parameters
    ----------
    estimates : ndarray of float64
        Of :func:`sketched_residuals`, each off by at most ``gap``, except by failure.
    gap : ndarray or float
        delta in the paper; not negative.

    Returns
    -------
    ndarray of bool
        Where it is False and the estimate did not fail, the estimate has the sign of 1 - z.

    Raises
    ------
    ValueError
        If a gap is negative.
    """
    if np.min(gap) < 0:
        raise ValueError(f"gap must not be negative, not {np.min(gap)}")
    return np.abs(estimates) <= 2 * np.asarray(gap)


def residual_bounds(rounded: np.ndarray, labels: np.ndarray, weights: np.ndarray,
                    spacing: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of 1 - y (a . x) from a rounded row (G.4).

    They are the value of the rounded row, plus and minus ``|x|_1 spacing``.

    Parameters
    ----------
    rounded : ndarray of float64, shape (n_rows, n_features)
        Each value at most ``spacing`` from that of the row.
    labels : ndarray of float64, shape (n_rows,)
        1 or -1.
    weights : ndarray of float64, shape (n_models, n_features)
    spacing : float, or ndarray of float64, shape (n_features,)
        Distance of two levels for stochastic rounding, half of that for rounding to nearest: 1 / s
        in the paper. Not negative; 0 for a feature that is exact.

    Returns
    -------
    low, high : ndarray of float64, shape (n_rows, n_models)

    Raises
    ------
    ValueError
        If the spacing is negative.
    """
    if np.min(spacing) < 0:
        raise ValueError(f"spacing must not be negative, not {np.min(spacing)}")
    middle = 1 - labels[:, None] * (rounded @ weights.T)
    reach = (np.abs(weights) * spacing).sum(axis=1)
    return middle - reach, middle + reach


def bounds_refetch(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Rows to read again by their bounds: those of which the sign of 1 - z is not certain.

    Parameters
    ----------
    low, high : ndarray of float64
        Of :func:`residual_bounds`.

    Returns
    -------
    ndarray of bool
    """
    return (low <= 0) & (high >= 0)
