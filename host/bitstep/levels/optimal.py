"""Levels of the least variance: exact, and three methods that look at fewer candidates."""

import numpy as np

from bitstep.levels.adaquant import adaquant_levels
from bitstep.levels.counting import split_counts
from bitstep.levels.layers import SplitCosts, SumCosts, best_candidates, compiled_kernels
from bitstep.levels.points import Points, interval_costs, running_sum

METHODS = ("exact", "histogram", "discretised", "adaquant")
BINS = 1024
TOLERANCE = 1e-9            # of the variance, for which running sums are trusted


def optimal_levels(points, n_levels: int, *, weights=None, method: str = "exact",
                   bins: int = BINS) -> np.ndarray:
    """Find levels for which stochastic rounding of points has the least variance.

    A point x between the levels a and b is rounded to one of them with the mean x and the variance
    (b - x)(x - a). Some optimum has its levels among the points, with the least and the greatest
    one (ZipML paper, Lemma 3).

    Parameters
    ----------
    points : array_like of numbers, any shape and order
    n_levels : int
        At least 2.
    weights : array_like of numbers, as many as points, optional
        Weight of each point's variance, at least 0; default: 1.
    method : {"exact", "histogram", "discretised", "adaquant"}
        ``exact``: O(s n log n), n distinct points, s levels; at most 1 GiB besides some copies of
        the points.
        ``histogram``: the best levels among ``bins`` + 1 equally spaced ones. One pass over the
        points, which need no order, then O(s bins log bins).
        ``discretised``: the best levels among ``bins`` places, half of them equally spaced and half
        with as many points between them (ZipML paper, Theorem 2, with a = b = 2).
        ``adaquant``: the best levels among those of :func:`adaquant_levels` with gamma = 1 for as
        many intervals (ZipML paper, section 3.2).
    bins : int
        For ``histogram`` and ``discretised``: from 1 to 2**24.

    Returns
    -------
    levels : ndarray of float64, shape (at most n_levels,)
        Rising. Fewer where there are fewer distinct points or candidates, or where more would not
        make the variance less.

    Raises
    ------
    TypeError, ValueError
        For points or weights that are not finite numbers, or another parameter outside its range.
    """
    _check_integer("n_levels", n_levels, 2, 2**31)
    _check_integer("bins", bins, 1, 2**24)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if method == "histogram" and weights is None:
        values = np.asarray(points).reshape(-1)
        if values.size and values.dtype in (np.float32, np.float64):
            found = _histogram(values, n_levels, bins)
            if found is not None:
                return found
    every = Points.of(points, weights)
    if every.values.size <= n_levels:
        return every.values
    # Distances must not overflow, nor their products vanish.
    exponent = -_exponent(every.values[0], every.values[-1])
    scaled = Points(np.ldexp(every.values, exponent), every.weights / every.weights.max())
    if method == "exact":
        return every.values[_exact(scaled, n_levels)]
    places = _places(scaled, n_levels, method, bins)
    if places.size > n_levels:
        places = places[_exact(scaled.on(places), n_levels)]
    levels = np.ldexp(places, -exponent)
    levels[[0, -1]] = every.values[[0, -1]]     # a point next to 0 is 0 beside large ones
    return levels


def _places(points, n_levels, method, bins):
    """Candidates of a method: rising, the least and the greatest point among them."""
    low, high = points.values[0], points.values[-1]
    if method == "adaquant":
        return adaquant_levels(points.values, n_levels - 1, weights=points.weights)
    if method == "histogram":
        return np.unique(np.linspace(low, high, bins + 1))
    total = running_sum(points.weights)
    shares = np.arange(1, bins - bins // 2) / (bins - bins // 2) * total[-1]
    return np.unique(np.concatenate([np.linspace(low, high, bins // 2 + 1), [high],
                                     points.values[np.searchsorted(total, shares)]]))


def level_cost(points, levels, *, weights=None) -> float:
    """Variance of stochastic rounding, summed over points.

    Parameters
    ----------
    points : array_like of numbers
    levels : array_like of numbers, shape (n,)
        At least 2, rising, around all points.
    weights : array_like of numbers, as many as points, optional

    Returns
    -------
    cost : float
        Sum of w (b - x)(x - a) over points x between the levels a and b.

    Raises
    ------
    ValueError
        For levels that do not enclose the points, or bad points or weights.
    """
    every, levels = Points.of(points, weights), np.asarray(levels, np.float64)
    if levels.ndim != 1 or levels.size < 2 or not (np.diff(levels) >= 0).all() \
            or not levels[0] <= every.values[0] <= every.values[-1] <= levels[-1]:
        raise ValueError("levels must be at least 2 rising numbers, from at most "
                         f"{every.values[0]} to at least {every.values[-1]}, not {levels}")
    return float(interval_costs(every, levels).sum())


def _exact(points: Points, n_levels: int) -> np.ndarray:
    """Numbers of the points that are the best levels.

    Running sums lose digits: their errors are within some units of the last place of W R^2, with W
    the weights' sum and R the greatest distance from the mean. If these could matter, sums without
    cancellation follow.
    """
    centre = np.average(points.values, weights=points.weights)
    centred = Points(points.values - centre, points.weights)
    chosen = best_candidates(SumCosts(centred), n_levels)
    found = interval_costs(points, points.values[chosen]).sum()
    reach = max(-centred.values[0], centred.values[-1])
    error = 8 * np.finfo(np.float64).eps * points.weights.sum() * reach**2
    if error <= TOLERANCE * found:
        return chosen
    return best_candidates(SplitCosts(points), n_levels)


def _histogram(values, n_levels, bins):
    """Levels from one pass over values (float32 or float64, shape (n,)); None if places
    between them are not all distinct, or out of range.
    """
    low, high = float(values.min()), float(values.max())
    if not np.isfinite([low, high]).all():
        Points.of(values)       # says what is wrong
    if low == high:
        return np.array([low])
    exponent = _exponent(low, high)
    if abs(exponent) > 500:
        return None                 # squares would overflow or vanish
    places = np.linspace(low, high, bins + 1)
    if not (np.diff(places) > 0).all():
        return None
    if places.size <= n_levels:
        return places
    points = Points(places, split_weights(values, low, bins / (high - low), bins) / values.size)
    return places[_exact(points, n_levels)]


def split_weights(values: np.ndarray, low: float, per_unit: float, bins: int) -> np.ndarray:
    """Points moved to equally spaced places, as by ``Points.on``.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (n,)
    low : float
        The first place.
    per_unit : float
        Places a unit.
    bins : int
        Places less 1.

    Returns
    -------
    weights : ndarray of float64, shape (bins + 1,)
    """
    if (kernels := compiled_kernels()) is not None:
        return kernels.split_weights(values, low, per_unit, bins)
    place = (values.astype(np.float64) - low) * per_unit
    edges = np.minimum(place.astype(np.int64), bins - 1)
    shares = place - edges
    return split_counts(edges, shares, bins + 1)


def _exponent(low, high) -> int:
    """The power of two that is just above the absolute values."""
    return int(np.frexp(max(abs(low), abs(high)))[1])


def _check_integer(name, value, low, high):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) \
            or not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, not {value!r}")
