"""Dynamic programming over intervals, vectorised in NumPy.

``costs[j]``, the least cost of i intervals that end at candidate j, is the minimum over k of the
least cost of i - 1 intervals that end at k and the cost of the interval from k to j. The cost
satisfies the quadrangle inequality, so the best k rises with j (Wu and Rokne 1989; QUIVER,
arXiv 2402.03158). A layer is computed in strides: between two candidates whose best k is known,
only the k between those are tried. That takes O(n log n) a layer.

``SumCosts`` takes an interval's cost from running sums, which lose digits where the points lie in
clusters that are far apart. ``SplitCosts`` adds only terms that are not negative: O(n log n) of
memory, and no digit lost.
"""

from functools import cache
from itertools import pairwise
from math import isqrt
from typing import Protocol

import numpy as np

from bitstep.levels.points import Points, running_sum

CHUNK = 1 << 20             # pairs at a time
ROOM = 1 << 28              # best k that are kept


class Costs(Protocol):
    """Costs of intervals between candidates."""

    size: int               # candidates

    def of(self, k: np.ndarray, j: np.ndarray, before: np.ndarray) -> np.ndarray:
        """``before[k]`` plus the cost from k to j, for k <= j."""
        ...

    def layer(self, before: np.ndarray) -> "tuple[np.ndarray, np.ndarray] | None":
        """The same as :func:`next_layer`, compiled; None: it cannot."""
        ...


class SumCosts:
    """Costs from running sums w, b and g of the weights times 1, x and x^2."""

    def __init__(self, points: Points):
        c, w = points.values, points.weights
        w, b, g = running_sum(w), running_sum(w * c), running_sum(w * c * c)
        self.size, self.places = c.size, c
        # The cost is (g_k - c_k b_k) + c_j slopes_k + c_k factors_j + (c_j b_j - g_j).
        self.starts = g - c * b
        self.slopes = c * w - b
        self.factors = b - c * w
        self.ends = c * b - g

    def of(self, k, j, before):
        """See :class:`Costs`."""
        return (before + self.starts)[k] + self.places[j] * self.slopes[k] \
            + self.factors[j] * self.places[k] + self.ends[j]

    def layer(self, before):
        """See :class:`Costs`."""
        if (kernels := compiled_kernels()) is None:
            return None
        return kernels.sum_layer(before + self.starts, self.places, self.slopes, self.factors,
                                 self.ends)


class SplitCosts:
    """Costs from sums on both sides of a point m between k and j.

    With L the cost from k to m and R that from m to j, the cost from k to j is
    L + R + (c_j - c_m) P + (c_m - c_k) Q + w_m (c_m - c_k)(c_j - c_m), where P is the sum of
    w (x - c_k) over the points between k and m, and Q that of w (c_j - x) between m and j.
    The table has a row for each power of two 2^h. There m is the middle of the block of
    2^(h + 1) candidates that k and j are in, on either side of it.
    """

    def __init__(self, points: Points):
        self.places, self.weights = points.values, points.weights
        self.size = self.places.size
        rows = max(self.size - 1, 1).bit_length()
        self.costs = np.zeros((rows, self.size))
        self.arms = np.zeros((rows, self.size))
        kernels = compiled_kernels()
        for row in range(rows):
            if kernels is not None:
                kernels.fill_row(self.places, self.weights, row, self.costs[row], self.arms[row])
            else:
                self._fill(row)

    def _fill(self, row):
        """Walk away from the middles of all blocks at once."""
        half = 1 << row
        blocks = -(-self.size // (2 * half))
        missing = blocks * 2 * half - self.size
        places = np.append(self.places, np.full(missing, self.places[-1]))
        weights = np.append(self.weights, np.zeros(missing))
        places, weights = places.reshape(blocks, -1), weights.reshape(blocks, -1)
        costs, arms = np.zeros((2, *places.shape))
        middle = places[:, half:half + 1]
        for side in (slice(half - 1, None, -1), slice(half + 1, None)):
            x, w = places[:, side], weights[:, side]
            gaps = np.abs(np.diff(x, axis=1, prepend=middle))
            weight = np.cumsum(w, axis=1)
            moment = np.cumsum(w * np.abs(x - middle), axis=1)
            arms[:, side][:, 1:] = np.cumsum(gaps[:, 1:] * weight[:, :-1], axis=1)
            costs[:, side][:, 1:] = np.cumsum(gaps[:, 1:] * moment[:, :-1], axis=1)
        self.costs[row], self.arms[row] = (one.reshape(-1)[:self.size] for one in (costs, arms))

    def of(self, k, j, before):
        """See :class:`Costs`."""
        row = np.maximum(np.frexp((k ^ j).astype(np.float64))[1] - 1, 0)
        middle = np.minimum(j >> row << row, self.size - 1)
        right = self.places[j] - self.places[middle]
        left = self.places[middle] - self.places[k]
        cost = self.costs[row, k] + right * self.arms[row, k] \
            + left * (self.arms[row, j] + self.weights[middle] * right) + self.costs[row, j]
        return before[k] + cost         # 0 for k = j: the first row has no points between

    def layer(self, before):
        """See :class:`Costs`."""
        if (kernels := compiled_kernels()) is None:
            return None
        return kernels.split_layer(before, self.places, self.weights, self.costs, self.arms)


@cache
def compiled_kernels():
    """The module of compiled loops; None where numba is not installed."""
    try:
        from bitstep.levels import kernels
    except ImportError:
        return None
    return kernels


def next_layer(costs: Costs, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least costs with one interval more, and the best k for each j.

    Parameters
    ----------
    costs : Costs
        Of n candidates.
    before : ndarray of float64, shape (n,)
        Least cost up to each candidate.

    Returns
    -------
    after : ndarray of float64, shape (n,)
    best : ndarray of int64, shape (n,)
        The least k among equals.
    """
    size = costs.size
    after, best = np.empty(size), np.zeros(size + 1, np.int64)
    best[size] = size - 1           # behind the last one
    stride = 1 << max(size - 1, 1).bit_length()
    while stride:
        ends = np.arange(stride - 1, size, 2 * stride)
        lows = np.where(ends >= stride, best[ends - stride], 0)
        highs = np.minimum(best[np.minimum(ends + stride, size)], ends)
        for some in _chunks(highs - lows + 1):
            after[ends[some]], best[ends[some]] = _least(costs, before, ends[some], lows[some],
                                                         highs[some])
        stride >>= 1
    return after, best[:size]


def _chunks(lengths):
    """Slices of ranges that have some CHUNK pairs each."""
    total = np.cumsum(lengths)
    cuts = np.searchsorted(total, np.arange(CHUNK, total[-1] if total.size else 0, CHUNK))
    edges = np.unique(np.concatenate([[0], cuts, [lengths.size]]))
    return [slice(*pair) for pair in pairwise(edges)]


def _least(costs, before, ends, lows, highs):
    """Least cost for each end over its k from low to high, and the first k that has it."""
    lengths = (highs - lows + 1).astype(np.intp)    # 32-bit machines repeat by no others
    starts = np.cumsum(lengths) - lengths
    k = np.arange(lengths.sum()) + np.repeat(lows - starts, lengths)
    found = costs.of(k, np.repeat(ends, lengths), before)
    least = np.minimum.reduceat(found, starts)
    places = np.flatnonzero(found == np.repeat(least, lengths))
    return least, k[places[np.searchsorted(places, starts)]]


def best_candidates(costs: Costs, n_levels: int) -> np.ndarray:
    """Numbers of the candidates that are the levels, the first and the last one among them.

    The best k of all layers are kept, 4 bytes each. Where they are more than ROOM, layers are kept
    for one block of them at a time, and computed twice.

    Parameters
    ----------
    costs : Costs
    n_levels : int
        At least 2; fewer than there are candidates.

    Returns
    -------
    chosen : ndarray of int64, shape (at most n_levels,)
        Rising. Fewer where more would not make the cost less.
    """
    size, n_layers = costs.size, max(n_levels - 3, 0)
    zero, every = np.zeros(size, np.int64), np.arange(size)
    least, blocks, choices = costs.of(zero, every, np.zeros(size)), [], []
    length = n_layers if n_layers * size <= ROOM else isqrt(n_layers - 1) + 1
    for done in range(0, n_layers, max(length, 1)):
        blocks.append((least, min(length, n_layers - done)))
        least, choices = _layers(costs, *blocks[-1])
    chosen = [size - 1]
    if n_levels > 2:
        chosen.append(int(np.argmin(costs.of(every, np.full(size, size - 1), least))))
    while blocks:
        before, count = blocks.pop()
        for best in reversed(choices or _layers(costs, before, count)[1]):
            chosen.append(int(best[chosen[-1]]))
        choices = []
    # An interval from a candidate to itself costs nothing: it is one that was not needed.
    return np.unique(np.array([0, *chosen], np.int64))


def _layers(costs, least, count):
    """Some layers: the last one's least costs, and the best k of each."""
    choices = []
    for _ in range(count):
        least, best = costs.layer(least) or next_layer(costs, least)
        choices.append(best.astype(np.int32 if costs.size < 2**31 else np.int64))
    return least, choices
