"""Weights of rows as rows of a pass hold them: 16 bits each, of which the ratio counts.

A stored weight w is the factor w / 2**16 of a row's updates (:attr:`TrainingJob.weights
<bitstep.pipeline.job.TrainingJob>`). Weights in ratios of whole numbers up to 65,535 are exact;
others are rounded by at most 2**-17 of the largest.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bitstep.pipeline.shapes import WEIGHT_BITS

MAX_WEIGHT = (1 << WEIGHT_BITS) - 1
FEW = 16                    # different weights, of which a common unit is looked for
_RATIO = 1e-12              # of whole numbers, relative: what division rounds


def stored_weights(weights: np.ndarray, values: np.ndarray | None = None,
                   largest: float | None = None) -> np.ndarray:
    """Weights as 16 bits hold them.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Finite and above 0.
    values : ndarray of float64, shape (n_values,), or None
        Of a part of the rows: all different weights of all rows, rising, if they are at most
        :data:`FEW`.
    largest : float or None
        Of a part of the rows, if they are more: what no weight of all rows is above.

    Returns
    -------
    ndarray of uint16, shape (n_rows,)
        At least 1. Of few ``values`` in ratios of whole numbers the whole numbers, times the
        largest power of two: so fewer bits of a step are needed for an exact product.

    Examples
    --------
    >>> stored_weights(np.array([0.5, 1.0, 1.5])).tolist()
    [16384, 32768, 49152]
    """
    if values is None and largest is None:
        values = np.unique(weights)
        if len(values) > FEW:
            values, largest = None, values[-1]
    if values is None:
        return np.maximum(np.rint(weights / largest * MAX_WEIGHT), 1).astype(np.uint16)
    found = _whole(values)
    if found is None:
        found = np.maximum(np.rint(values / values[-1] * MAX_WEIGHT), 1)
    return found.astype(np.uint16)[np.searchsorted(values, weights)]


def _whole(values):
    """Whole numbers in the ratio of rising values, or None."""
    most = int(MAX_WEIGHT * (values[0] / values[-1]))       # of the least
    found = values[:, None] * (np.arange(1, most + 1) / values[0])
    whole = (np.abs(found - np.rint(found)) <= _RATIO * found).all(axis=0)
    if not whole.any():
        return None
    numbers = np.rint(found[:, whole.argmax()])
    return numbers * 2.0 ** (WEIGHT_BITS - int(numbers[-1]).bit_length())


class WeightSums(NamedTuple):
    """Facts of the stored weights of rows, which merge; rows without weights have 2**16 each.

    Attributes
    ----------
    n_rows : int
    total : int
        Sum of the weights.
    largest : int
    together : int
        Bitwise or of the weights.
    """

    n_rows: int
    total: int
    largest: int
    together: int

    @property
    def weighted(self) -> bool:
        """True if rows have weights."""
        return self.largest <= MAX_WEIGHT

    @property
    def mean(self) -> float:
        """Mean factor of the rows."""
        return self.total / (self.n_rows << WEIGHT_BITS)

    @property
    def largest_of_mean(self) -> float:
        """Largest weight over the mean one."""
        return self.largest * self.n_rows / self.total

    @property
    def fraction_bits(self) -> int:
        """Bits that the weights have below their largest common power of two, of 16: a step whose
        mantissa has as many zeros at its end is not rounded by any row.
        """
        return WEIGHT_BITS - (self.together & -self.together).bit_length() + 1


def weight_sums(stored: np.ndarray | None, n_rows: int) -> WeightSums:
    """Facts of the weights of so many rows, at least one; None: they have none."""
    if stored is None:
        one = 1 << WEIGHT_BITS
        return WeightSums(n_rows, n_rows * one, one, one)
    return WeightSums(n_rows, int(stored.sum(dtype=np.int64)), int(stored.max()),
                      int(np.bitwise_or.reduce(stored)))


def merged_sums(parts: Iterable[WeightSums]) -> WeightSums:
    """Facts of the rows of several sets."""
    counts, totals, largest, together = zip(*parts, strict=True)
    return WeightSums(sum(counts), sum(totals), max(largest),
                      int(np.bitwise_or.reduce(np.array(together, np.int64))))
