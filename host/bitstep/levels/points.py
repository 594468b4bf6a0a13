"""Points that levels are sought for, and sums over them.

Points x with weights w, rounded stochastically to the levels a <= x <= b around them, have the
variance (b - x)(x - a). The cost of an interval is the sum of w (b - x)(x - a) over its points.
"""

from dataclasses import dataclass

import numpy as np

BLOCK = 1024


@dataclass(frozen=True)
class Points:
    """Distinct points in rising order.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    weights : ndarray of float64, shape (n,)
        Not negative.
    """

    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, points, weights=None) -> "Points":
        """Check points in any order, sort them and join equal ones.

        Raises
        ------
        TypeError
            For points or weights that are not numbers.
        ValueError
            For points that are none or not finite, or weights that do not fit them.
        """
        values = _numbers("points", points)
        if weights is None:
            values = np.sort(values)
            places = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
            counts = np.diff(np.append(places, values.size))
            return cls(values[places], counts.astype(np.float64))
        weights = _numbers("weights", weights)
        if weights.shape != values.shape or not (weights >= 0).all() or not weights.any():
            raise ValueError(f"weights must be {values.size} numbers of at least 0, one for each "
                             "point and not all 0")
        values, weights = values[weights > 0], weights[weights > 0]
        order = np.argsort(values, kind="stable")
        values, weights = values[order], weights[order]
        places = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
        return cls(values[places], np.add.reduceat(weights, places))

    def on(self, places: np.ndarray) -> "Points":
        """The points moved to places: each weight is divided between the two places around its
        point, in the shares of stochastic rounding. That adds the same constant to the cost of all
        levels that are among the places.

        Parameters
        ----------
        places : ndarray of float64, shape (m,)
            Rising strictly, around all points.
        """
        lower = np.clip(np.searchsorted(places, self.values, side="right") - 1, 0, places.size - 2)
        shares = (self.values - places[lower]) / (places[lower + 1] - places[lower])
        return Points(places, np.bincount(lower, self.weights * (1 - shares), places.size)
                      + np.bincount(lower + 1, self.weights * shares, places.size))


def _numbers(name, values) -> np.ndarray:
    """Values as float64, shape (n,)."""
    values = np.asarray(values)
    if values.dtype.kind not in "iuf" and values.size:
        raise TypeError(f"{name} must be real numbers, not {values.dtype}")
    values = values.astype(np.float64).reshape(-1)
    if not values.size or not np.isfinite(values).all():
        wrong = np.count_nonzero(~np.isfinite(values))
        raise ValueError(f"{name} must be at least one finite number, but {wrong} of {values.size} "
                         "are not finite")
    return values


def running_sum(terms: np.ndarray) -> np.ndarray:
    """Sums of the first 1, 2, ... terms; in blocks, so that their errors stay small."""
    whole = terms.size // BLOCK * BLOCK
    inner = np.cumsum(terms[:whole].reshape(-1, BLOCK), axis=1)
    before = np.cumsum(inner[:, -1])
    inner[1:] += before[:-1, None]
    base = before[-1] if before.size else 0.0
    return np.concatenate([inner.reshape(-1), base + np.cumsum(terms[whole:])])


def interval_costs(points: Points, levels: np.ndarray) -> np.ndarray:
    """Cost of every interval between two levels: float64, shape (levels - 1,).

    All terms are sums of products of distances, none of them negative, so nothing cancels.
    """
    x = points.values
    lower = np.clip(np.searchsorted(levels, x, side="right") - 1, 0, levels.size - 2)
    terms = points.weights * (levels[lower + 1] - x) * (x - levels[lower])
    return np.bincount(lower, terms, levels.size - 1)
