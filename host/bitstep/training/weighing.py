"""Weights of rows on their way to a pass in which they go along with the rows.

How often a row stands in a pass, and the 16 bits of its weight, depend on the weights of all rows.
:class:`Weighed` has what they depend on: it merges, exactly and in any order, so that parts of the
rows on several machines have the weights of all rows in one place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from bitstep.quantization.weights import FEW, MAX_WEIGHT, stored_weights

OFF = 0.1                   # of a stored weight, relative, that is worth a word
FEW_UNITS = 1 / (2 * OFF)   # more of them are rounded by less than that
HEAVY = 4                   # times the mean weight, of a row that stands in a pass once
COUNTED = 1 << 53           # largest sum of whole weights that are numbers of rows
_HALF = 27                  # low bits of a mantissa, which are summed apart


@dataclass(frozen=True)
class Weighed:
    """Facts of the weights of rows, or of no row.

    Attributes
    ----------
    n_rows : int
    total : Fraction
        Sum of the weights, exactly.
    least, largest : float
    whole : bool
        True if all are whole numbers.
    values : tuple of float or None
        All different weights, rising; None if they are more than 16.
    """

    n_rows: int
    total: Fraction
    least: float
    largest: float
    whole: bool
    values: tuple[float, ...] | None

    def rule(self) -> "WeightRule":
        """What these weights decide; of at least one row."""
        return WeightRule(self)


def weigh(weights: np.ndarray) -> Weighed:
    """Facts of weights of rows.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Finite and above 0.
    """
    if not len(weights):
        return Weighed(0, Fraction(0), np.inf, 0.0, True, ())
    values = np.unique(weights)
    return Weighed(len(weights), exact_sum(weights), float(values[0]), float(values[-1]),
                   not (values % 1).any(), _few(values))


def weigh_counts(values: np.ndarray, counts: np.ndarray) -> Weighed:
    """Facts of rows of which so many have each of some weights."""
    values, counts = values[counts > 0], counts[counts > 0]
    found = weigh(values)
    total = sum((int(count) * Fraction(float(value))
                 for value, count in zip(values, counts, strict=True)), Fraction(0))
    return Weighed(int(counts.sum()), total, *_ends(found))


def weigh_together(parts: Sequence[Weighed]) -> Weighed:
    """Facts of the rows of several parts."""
    values = None
    if all(one.values is not None for one in parts):
        values = _few(np.unique(np.concatenate([one.values or () for one in parts])))
    return Weighed(
        sum(one.n_rows for one in parts), sum((one.total for one in parts), Fraction(0)),
        min(one.least for one in parts), max(one.largest for one in parts),
        all(one.whole for one in parts), values)


def _few(values: np.ndarray) -> tuple[float, ...] | None:
    return tuple(values.tolist()) if len(values) <= FEW else None


def _ends(found: Weighed) -> tuple[float, float, bool, tuple[float, ...] | None]:
    return found.least, found.largest, found.whole, found.values


def exact_sum(values: np.ndarray) -> Fraction:
    """Sum of finite numbers of at least 0, exactly, so that their order does not matter."""
    if not len(values):
        return Fraction(0)
    fractions, exponents = np.frexp(values)
    first = int(exponents.min())
    places = exponents - first
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    total = 0
    for shift, part in ((_HALF, mantissas >> _HALF), (0, mantissas & ((1 << _HALF) - 1))):
        sums = np.zeros(int(places.max()) + 1, np.int64)
        np.add.at(sums, places, part)
        total += sum(int(sums[place]) << int(place) + shift for place in np.flatnonzero(sums))
    return total * Fraction(2) ** (first - 53)


@dataclass(frozen=True)
class WeightRule:
    """How rows with weights stand in a pass.

    A row of more than :data:`HEAVY` times the mean weight stands in the pass several times, with
    equal parts of it: an update would overshoot. That makes at most a quarter more rows.

    Parameters
    ----------
    weighed : Weighed
        Of all rows.
    """

    weighed: Weighed

    @cached_property
    def _heavy(self) -> float:
        """Weight of a row that stands in a pass once, at most, in units of the largest."""
        found = self.weighed
        return float(HEAVY * found.total / (found.n_rows * Fraction(found.largest)))

    @property
    def weighted(self) -> bool:
        """True if rows of a pass differ in weight."""
        return self.weighed.least < self.weighed.largest

    @property
    def coarse(self) -> bool:
        """True if the least weight has so few units that some may be off by more than
        :data:`OFF`.
        """
        stored = self.stored(np.array([self.weighed.least]))
        return stored is not None and stored[0] <= FEW_UNITS

    def shares(self, weights: np.ndarray) -> np.ndarray:
        """Weights in units of the largest, above 0."""
        return np.maximum(weights / self.weighed.largest, np.finfo(np.float64).tiny)

    def counts(self, weights: np.ndarray) -> np.ndarray:
        """How often rows of these weights stand in a pass, as floating-point numbers."""
        return np.maximum(np.ceil(weights / self.weighed.largest / self._heavy), 1)

    def stored(self, weights: np.ndarray) -> np.ndarray | None:
        """Weights of rows wherever they stand in a pass, uint16; None if all are alike."""
        if not self.weighted:
            return None
        if self.weighed.values is None:
            return stored_weights(self._parts(weights), largest=min(1.0, self._heavy))
        values = np.unique(self._parts(np.array(self.weighed.values)))
        return stored_weights(self._parts(weights), values)

    def ratios(self, weights: np.ndarray) -> np.ndarray | None:
        """Stored weights over those asked for, relative to the largest; None if all are within
        :data:`OFF` of these.
        """
        stored = self.stored(weights)
        if stored is None or stored.min() > FEW_UNITS:
            return None
        parts = np.maximum(self._parts(weights), np.finfo(np.float64).tiny)
        if self.weighed.values is None:
            largest, top = min(1.0, self._heavy), MAX_WEIGHT
        else:
            values = np.unique(self._parts(np.array(self.weighed.values)))
            largest, top = values[-1], int(stored_weights(values, values)[-1])
        found = stored / parts * (largest / top)
        return found if (abs(found - 1) > OFF).any() else None

    @property
    def rows_meant(self) -> int:
        """Rows that a pass stands for: of whole weights that differ, which are those of repeated
        rows, their sum; else each row once, also if it stands in the pass several times. Sums of
        more than :data:`COUNTED` count no rows: floating-point numbers of that size are all whole.
        """
        whole = self.weighted and self.weighed.whole and self.weighed.total <= COUNTED
        return int(self.weighed.total) if whole else self.weighed.n_rows

    def _parts(self, weights: np.ndarray) -> np.ndarray:
        return weights / self.weighed.largest / self.counts(weights)
