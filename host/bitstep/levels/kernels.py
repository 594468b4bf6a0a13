"""Loops of the solver, compiled by numba. They compute what ``layers`` does, bit for bit."""

import numpy as np

from bitstep.compiling import kernel, routine

LANE = 16           # candidates that run in vectors


@routine
def _sum_least(starts, places, slopes, low, high, place, factor, end, lanes):
    """Least cost over k from low to high, and the first k that has it.

    ``lanes`` is room for LANE numbers: least costs over every LANE-th k, found in vectors.
    """
    least, first = np.inf, low
    whole = low + (high + 1 - low) // LANE * LANE
    if whole > low:
        for lane in range(LANE):
            lanes[lane] = np.inf
        for k in range(low, whole, LANE):
            part = slice(k, k + LANE)
            some_starts, some_places, some_slopes = starts[part], places[part], slopes[part]
            for lane in range(LANE):
                value = some_starts[lane] + place * some_slopes[lane] \
                    + factor * some_places[lane] + end
                lanes[lane] = value if value < lanes[lane] else lanes[lane]
        for lane in range(LANE):
            least = min(least, lanes[lane])
        while first < whole - 1 and \
                starts[first] + place * slopes[first] + factor * places[first] + end != least:
            first += 1
    for k in range(whole, high + 1):
        value = starts[k] + place * slopes[k] + factor * places[k] + end
        if value < least:
            least, first = value, k
    return least, first


@routine
def _sum_lane(starts, places, slopes, factors, ends, first, low, high, after, best):
    """All k from low to high for LANE candidates from ``first``, which run in vectors."""
    lane = slice(first, first + LANE)
    j_places, factors, ends, after, best = (places[lane], factors[lane], ends[lane], after[lane],
                                            best[lane])
    for j in range(LANE):
        after[j] = np.inf
    for k in range(low, high + 1):
        start, slope, place = starts[k], slopes[k], places[k]
        for j in range(LANE):
            value = start + j_places[j] * slope + factors[j] * place + ends[j]
            better = (value < after[j]) & (k <= first + j)
            after[j] = value if better else after[j]
            best[j] = k if better else best[j]


@kernel
def sum_layer(starts, places, slopes, factors, ends):
    """A layer of ``SumCosts``; see ``layers.next_layer``."""
    size = places.size
    after, best = np.empty(size), np.zeros(size + 1, np.int64)
    best[size] = size - 1
    stride, lanes = _top_stride(size), np.empty(LANE)
    while stride:
        if stride == LANE // 2:
            # Between two candidates of the stride before, all at once.
            for first in range(0, size - LANE + 1, LANE):
                low = best[first - 1] if first else 0
                _sum_lane(starts, places, slopes, factors, ends, first, low,
                          best[first + LANE - 1], after, best)
        start = size // LANE * LANE if stride < LANE else 0
        for j in range(start + stride - 1, size, 2 * stride):
            low = best[j - stride] if j >= stride else 0
            high = min(best[min(j + stride, size)], j)
            after[j], best[j] = _sum_least(starts, places, slopes, low, high, places[j],
                                           factors[j], ends[j], lanes)
        stride //= 2
    return after, best[:size]


@routine
def _top_stride(size):
    """The least power of two of at least ``size``."""
    stride = 1
    while stride < size:
        stride *= 2
    return stride


@kernel
def fill_row(places, weights, row, costs, arms):
    """A row of the tables of ``SplitCosts``."""
    size, half = places.size, 1 << row
    for middle in range(half, size, 2 * half):
        for sign in (-1, 1):
            weight = moment = cost = arm = 0.0
            for step in range(1, half + (sign < 0)):
                here = middle + sign * step
                if here >= size:
                    break
                gap = sign * (places[here] - places[here - sign])
                arm += gap * weight
                cost += gap * moment
                arms[here], costs[here] = arm, cost
                weight += weights[here]
                moment += weights[here] * (sign * (places[here] - places[middle]))


@routine
def _split_least(before, places, weights, costs, arms, low, high, j):
    least, first = np.inf, low
    k = low
    while k <= min(high, j - 1):
        row = 0
        while (k ^ j) >> (row + 1):
            row += 1
        middle = j >> row << row
        right = places[j] - places[middle]
        turn, end = arms[row, j] + weights[middle] * right, costs[row, j]
        while k <= min(high, middle - 1):
            value = before[k] + (costs[row, k] + right * arms[row, k]
                                 + (places[middle] - places[k]) * turn + end)
            if value < least:
                least, first = value, k
            k += 1
    if high == j and before[j] < least:
        least, first = before[j], j
    return least, first


@kernel
def split_layer(before, places, weights, costs, arms):
    """A layer of ``SplitCosts``; see ``layers.next_layer``."""
    size = places.size
    after, best = np.empty(size), np.zeros(size + 1, np.int64)
    best[size] = size - 1
    stride = _top_stride(size)
    while stride:
        for j in range(stride - 1, size, 2 * stride):
            low = best[j - stride] if j >= stride else 0
            high = min(best[min(j + stride, size)], j)
            after[j], best[j] = _split_least(before, places, weights, costs, arms, low, high, j)
        stride //= 2
    return after, best[:size]


@kernel
def split_weights(values, low, per_unit, bins):
    """Weights of ``bins`` + 1 equally spaced places; see ``optimal.split_weights``."""
    lower, upper = np.zeros(bins + 1), np.zeros(bins + 1)
    for value in values:
        place = (value - low) * per_unit
        edge = min(int(place), bins - 1)
        share = place - edge
        lower[edge] += 1 - share
        upper[edge + 1] += share
    return lower + upper
