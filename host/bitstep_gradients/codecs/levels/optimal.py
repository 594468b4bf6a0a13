"""Levels that are optimal for the very vector, sent with it. Own variant."""

from itertools import pairwise

import numpy as np

from bitstep.checks import check_choice
from bitstep.levels import optimal_levels
from bitstep_gradients.codecs.levels import rounding
from bitstep_gradients.codecs.levels.rounding import ONE, ROUNDING_STREAM
from bitstep_gradients.codecs.levels.scaled import Scaled, level_count, read_scales
from bitstep_gradients.errors import MessageError
from bitstep_gradients.vectors import bucket_starts, checked_vector, of_buckets

BINS = 1024


class Optimal(Scaled):
    """``optimal``: levels of the least variance for the values of each bucket, or of all buckets.

    Levels are in units of the bucket's largest absolute value, as integers of 31 bits. A message
    has the scale of every bucket (float32), then the levels (4 bytes each, shared ones once), then
    the symbols. Levels are exact for buckets of at most 1024 values, else from a histogram.

    Parameters
    ----------
    levels : int
        Number of levels, from 2 to 256.
    bits : int
        In place of ``levels``: 2**bits, from 1 to 8. Default: 3.
    per : {"bucket", "tensor"}
        Whose levels: each bucket has its own, or all share one set, for which a value's variance
        counts in the square of its bucket's scale.
    bucket_size, payload
        See :class:`bitstep_gradients.codecs.base.Codec`.
    """

    name, number = "optimal", 15

    def __init__(self, *, levels: int | None = None, bits: int | None = None, per: str = "bucket",
                 **common):
        super().__init__(**common)
        check_choice("per", per, ("bucket", "tensor"))
        self.n_levels = level_count(levels, bits, symmetric=False, zero=False)
        self.per = per

    @property
    def parameter(self):
        return self.n_levels << 1 | (self.per == "tensor")

    def _quantized(self, values):
        """Scales, integers t, and levels: int64, shape (n_sets, n_levels)."""
        scales = self.scales(values)
        numbers = rounding.targets(values, scales, self.bucket_size)
        if self.per == "tensor" and values.size:
            weights = of_buckets(scales.astype(np.float64)**2, values.size, self.bucket_size)
            # Squares of scales in units of the greatest, so that none overflows or vanishes.
            weights = weights / weights.max() if weights.any() else None
            return scales, numbers, self._levels(numbers, weights)[None]
        parts = np.split(numbers, bucket_starts(values.size, self.bucket_size)[1:])
        sets = [self._levels(part, None) for part in parts if part.size]
        return scales, numbers, np.array(sets, np.int64).reshape(len(sets), self.n_levels)

    def _levels(self, numbers, weights):
        """The best levels as integers; the last one again where there are fewer."""
        levels = optimal_levels(numbers.astype(np.float64), self.n_levels, weights=weights,
                                method="exact" if numbers.size <= BINS else "histogram", bins=BINS)
        levels = np.unique(np.rint(levels).astype(np.int64))
        return np.append(levels, np.full(self.n_levels - levels.size, levels[-1]))

    def _by_set(self, count):
        """Slices of the values that share levels."""
        if self.per == "tensor":
            return [slice(0, count)] * bool(count)
        starts = bucket_starts(count, self.bucket_size).tolist()
        return [slice(*pair) for pair in pairwise([*starts, count])]

    def _encode(self, values, key):
        scales, numbers, sets = self._quantized(values)
        words = key.words(values.size, stream=ROUNDING_STREAM)
        symbols = np.zeros(values.size, np.uint8)
        for part, levels in zip(self._by_set(values.size), sets, strict=True):
            symbols[part] = rounding.rounded(numbers[part], levels, words[part])
        return scales.astype("<f4").tobytes() + sets.astype("<i4").tobytes() \
            + self.coding.encode(symbols, self.n_levels)

    def _decode(self, body, count, key, side):
        scales, rest = read_scales(body, self.n_buckets(count))
        parts = self._by_set(count)
        size = 4 * self.n_levels * len(parts)
        if len(rest) < size:
            raise MessageError(f"the message must have {len(parts)} sets of {self.n_levels} levels")
        sets = np.frombuffer(rest[:size], "<i4").reshape(-1, self.n_levels).astype(np.int64)
        if (np.diff(sets) < 0).any() or (np.abs(sets) > ONE).any():
            raise MessageError(f"the message's levels must rise from at least {-ONE} to at most "
                               f"{ONE}")
        symbols = self.coding.decode(rest[size:], count, self.n_levels, np.uint8)
        units = of_buckets(scales.astype(np.float64), count, self.bucket_size) / ONE
        values = np.zeros(count)
        for part, levels in zip(parts, sets, strict=True):
            values[part] = levels[symbols[part]]
        return (values * units).astype(np.float32)

    # Statistics

    def _statistics(self, values):
        scales, numbers, sets = self._quantized(values)
        counts, variances = np.zeros(self.n_levels), np.zeros(values.size)
        for part, levels in zip(self._by_set(values.size), sets, strict=True):
            lower, up, variances[part] = rounding.shares(numbers[part], levels)
            counts += rounding.symbol_probabilities(lower, up, self.n_levels) * lower.size
        squares = of_buckets(scales.astype(np.float64)**2, values.size, self.bucket_size)
        return counts / max(values.size, 1), variances * squares

    def _sent_bits(self, count):
        return 32 * (self.n_buckets(count) + self.n_levels * len(self._by_set(count)))

    def variance_bound(self, vector):
        """A quarter of the square of a step for each value, where uniform levels over the range of
        the values have the step range / (n - 1). The best levels are no worse; those of a histogram
        may be as if the step were longer by one bin.
        """
        flat = checked_vector(vector)[0].reshape(-1).astype(np.float64)
        if not flat.size:
            return 0.0
        starts = bucket_starts(flat.size, self.bucket_size)
        sizes = np.diff(np.append(starts, flat.size))
        if self.per == "bucket":
            spans = np.maximum.reduceat(flat, starts) - np.minimum.reduceat(flat, starts)
        else:
            spans = 2 * np.maximum.reduceat(np.abs(flat), starts)
        steps = spans * (1 / (self.n_levels - 1) + 1 / BINS)
        return float(np.sum(sizes * steps**2) / 4) + self.lost(vector)
