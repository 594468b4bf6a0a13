"""ADAQUANT of the ZipML paper (appendix I): intervals by greedy merging of pairs."""

from math import floor

import numpy as np

from bitstep.levels.points import Points, interval_costs


def adaquant_levels(points, n_intervals: int, *, gamma: float = 1.0, delta: float = 1.0,
                    weights=None) -> np.ndarray:
    """Find levels in nearly linear time whose variance is near that of few optimal intervals.

    The result has at most 2 (1 + gamma) k + delta intervals for k ``n_intervals``, and its variance
    is at most 1 + 1 / gamma times the least one of k intervals (Theorem 9). As printed, Algorithm 1
    takes any delta, but below 1 it may not end: of 2 (1 + gamma) k + 1 intervals, it merges
    (1 + gamma) k pairs and divides all of them again.

    Parameters
    ----------
    points : array_like of numbers, any shape and order
    n_intervals : int
        Intervals k to be compared with, at least 1.
    gamma : float
        Positive. (1 + gamma) k is rounded up to an integer.
    delta : float
        At least 1: intervals more, for fewer rounds.
    weights : array_like of numbers, as many as points, optional

    Returns
    -------
    levels : ndarray of float64
        Rising; among the points.

    Raises
    ------
    TypeError, ValueError
        For a parameter outside its range.
    """
    if not 0 < gamma < np.inf or not 1 <= delta < np.inf:
        raise ValueError(f"gamma must be positive and delta at least 1, not {gamma} and {delta}")
    if n_intervals < 1:
        raise ValueError(f"n_intervals must be at least 1, not {n_intervals}")
    every = Points.of(points, weights)
    levels, kept = every.values, -floor(-(1 + gamma) * n_intervals)
    while levels.size - 1 > 2 * kept + floor(delta):
        # Pairs of intervals; where their number is odd, the last one stays by itself.
        merged = levels[::2] if levels.size % 2 else np.append(levels[::2], levels[-1])
        middles = levels[1:-1:2]
        costs = interval_costs(every, merged)[:middles.size]
        worst = np.argsort(-costs, kind="stable")[:kept]
        levels = np.sort(np.concatenate([merged, middles[worst]]))
    return levels
