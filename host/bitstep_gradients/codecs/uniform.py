"""Codecs with uniform levels: QSGD, TernGrad, DQSG.

A bucket of scale s has 2 M + 1 levels, k s / M for k = -M .. M. The decision is taken in integers.
With F = 2**23:

- t = rint(v * f), f = M F / s; the product and the quotient are rounded to float32
- k = floor((t + u) / F), where u is a random integer from 0 to F - 1

So E[k] = t / F: stochastic rounding. DQSG makes the same decision, with u shared by sender and
receiver, and the receiver subtracts it again: v' = (k F - u + (F - 1) / 2) s / (M F).
"""

import numpy as np

from bitstep.checks import check_integer, is_number
from bitstep.levels.counting import split_counts
from bitstep_gradients import kernels
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.errors import MessageError
from bitstep_gradients.keys import Key
from bitstep_gradients.vectors import (
    bucket_norms,
    bucket_starts,
    bucket_sums,
    checked_vector,
    of_buckets,
)

FRACTION_BITS = 23
FRACTION = 2**FRACTION_BITS
MAX_LEVELS = 127
LEAST_SCALE = np.float32(2.0**-96)      # below it the factor f is beyond float32
LARGEST = np.finfo(np.float32).max
DITHER_STREAM = 0                       # of the key's random words


class Uniform(Codec):
    """Base of the codecs with uniform levels.

    Parameters
    ----------
    levels : int
        Levels M on each side of zero, from 1 to 127.
    bits : int
        In place of ``levels``: M = 2**(bits - 1) - 1, from 2 to 8.
    bucket_size, payload
        See :class:`bitstep_gradients.codecs.base.Codec`.
    """

    payloads = ("fixed", "radix", "huffman", "range")
    norm = "linf"
    subtractive = False

    def __init__(self, *, levels: int | None = None, bits: int | None = None, **common):
        super().__init__(**common)
        if levels is not None and bits is not None:
            raise ValueError("levels and bits say the same; give one of them")
        if bits is not None:
            check_integer("bits", bits, 2, 8)
            levels = 2**(bits - 1) - 1
        levels = 1 if levels is None else levels
        check_integer("levels", levels, 1, MAX_LEVELS)
        self.levels = int(levels)

    @property
    def parameter(self):
        return self.levels

    @property
    def n_symbols(self) -> int:
        """Symbols of the payload: k + M."""
        return 2 * self.levels + 1

    def prepare(self, values: np.ndarray) -> np.ndarray:
        """Values that are quantized, where they are not the ones given: float32, same shape."""
        return values

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Scale of every bucket: float32, shape (n_buckets,); 0 for one that is sent as zeros."""
        norms = bucket_norms(values, self.bucket_size, self.norm)
        return np.where(norms < LEAST_SCALE, np.float32(0), norms)

    def _encode(self, values, key):
        values = self.prepare(values)
        scales = self.scales(values)
        symbols = self._symbols(values, scales, key)
        return scales.astype("<f4").tobytes() + self.coding.encode(symbols, self.n_symbols)

    def _decode(self, body, count, key, side):
        size = 4 * self.n_buckets(count)
        scales = np.frombuffer(body, "<f4", size // 4) if len(body) >= size else np.zeros(0)
        if scales.nbytes != size or not (np.isfinite(scales) & (scales >= 0)).all():
            raise MessageError(f"the message must have {size // 4} scales, finite and not negative")
        symbols = self.coding.decode(body[size:], count, self.n_symbols, np.uint8)
        with np.errstate(under="ignore"):
            units = scales / np.float32(2 * self.levels * FRACTION)
        return self._values(symbols, units, key)

    def _symbols(self, values, scales, key):
        """Symbols of values, shape (count,)."""
        loops = kernels.find_kernels()
        if not loops:
            targets = self.targets(values, scales)
            return (targets + self._dither(values.size, key) >> FRACTION_BITS) + self.levels
        symbols = np.empty(values.size, np.uint8)
        loops.round_values(values, self._factors(scales), self.bucket_size or max(values.size, 1),
                           self.levels * FRACTION, word_key(key), FRACTION_BITS, symbols)
        return symbols

    def _values(self, symbols, units, key):
        """Values of symbols for the buckets' units, s / (2 M F): float32, shape (count,)."""
        loops = kernels.find_kernels()
        if loops:
            values = np.empty(symbols.size, np.float32)
            words = word_key(key) if self.subtractive else np.zeros(0, np.uint32)
            loops.restore_values(symbols, units, self.bucket_size or max(symbols.size, 1),
                                 self.levels, words, FRACTION_BITS, values)
            return values
        numbers = (symbols.astype(np.int32) - self.levels) << FRACTION_BITS + 1
        if self.subtractive:
            numbers += FRACTION - 1 - 2 * self._dither(symbols.size, key)
        with np.errstate(under="ignore", over="ignore"):
            values = numbers.astype(np.float32) * of_buckets(units, symbols.size, self.bucket_size)
        return np.clip(values, -LARGEST, LARGEST)       # a dither beyond a scale near the limit

    def targets(self, values: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """The integers t of values: int32, shape of ``values``."""
        most, factors = self.levels * FRACTION, self._factors(scales)
        exact = np.rint(values * of_buckets(factors, values.size, self.bucket_size))
        return np.clip(exact.astype(np.int64), -most, most).astype(np.int32)

    def _factors(self, scales):
        factors = np.zeros_like(scales)
        np.divide(np.float32(self.levels * FRACTION), scales, out=factors, where=scales > 0)
        return factors

    def _dither(self, count, key):
        words = key.words(count, stream=DITHER_STREAM)
        return (words >> np.uint32(32 - FRACTION_BITS)).astype(np.int32)

    # Statistics

    def _fractions(self, vector) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values after preparation, their place between two levels in [0, 1), steps s / M."""
        values, _ = checked_vector(vector)
        values = self.prepare(values.reshape(-1))
        scales = self.scales(values)
        steps = of_buckets(scales.astype(np.float64) / self.levels, values.size, self.bucket_size)
        return values, self.targets(values, scales) % FRACTION / FRACTION, steps

    def expected_error(self, vector):
        _, places, steps = self._fractions(vector)
        shares = places * (1 - places) if not self.subtractive else np.full(places.shape, 1 / 12)
        return float(np.sum(shares * steps**2) + np.sum(self._square_of_bias(vector)))

    def bias(self, vector):
        """Rounding has none, but a bucket whose scale is below 2**-96 is sent as zeros."""
        values, _ = checked_vector(vector)
        flat = values.reshape(-1)
        prepared = self.prepare(flat)
        sent = of_buckets(self.scales(prepared) > 0, flat.size, self.bucket_size)
        return (np.where(sent, prepared, 0) - flat).reshape(values.shape)

    def _square_of_bias(self, vector):
        return self.bias(vector).astype(np.float64)**2

    def variance_bound(self, vector):
        """d s^2 / (4 M^2) a bucket of d values for stochastic rounding, d s^2 / (12 M^2) with the
        dither subtracted (Lemma 2 of the DQSG paper), and the square of the bias.
        """
        _, _, steps = self._fractions(vector)
        share = 12 if self.subtractive else 4
        return float(np.sum(steps**2) / share + np.sum(self._square_of_bias(vector)))

    def probabilities(self, vector) -> np.ndarray:
        """Mean probability of every symbol: float64, shape (n_symbols,)."""
        values, _ = checked_vector(vector)
        values = self.prepare(values.reshape(-1))
        targets = self.targets(values, self.scales(values))
        lower, places = targets // FRACTION + self.levels, targets % FRACTION / FRACTION
        counts = split_counts(lower, places, self.n_symbols + 1)
        return counts[:-1] / max(values.size, 1)

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        scales = 32 * self.n_buckets(values.size)
        return self.overhead_bits(values.shape, dtype) + scales \
            + self.coding.expected_bits(values.size, self.probabilities(vector))


def word_key(key: Key) -> np.ndarray:
    """Key and stream of the dither, as the kernels take them."""
    return np.array([*key.words_key, DITHER_STREAM], np.uint32)


class Qsgd(Uniform):
    """``qsgd``: stochastic rounding of v / |v|, L2 norm (Alistarh et al., NeurIPS 2017)."""

    name, number, norm = "qsgd", 3, "l2"

    def variance_bound(self, vector):
        """The smaller of d s^2 / (4 M^2) and min(d / M^2, sqrt(d) / M) s^2 (Lemma 3.1 of the QSGD
        paper) for each bucket of d values and norm s; d / M^2 is never the smallest.
        """
        values, _ = checked_vector(vector)
        scales = self.scales(values.reshape(-1)).astype(np.float64)
        sizes = np.diff(np.append(bucket_starts(values.size, self.bucket_size), values.size))
        factors = np.minimum(sizes / (4 * self.levels**2), np.sqrt(sizes) / self.levels)
        return float(np.sum(factors * scales**2) + np.sum(self._square_of_bias(vector)))


class QsgdLinf(Uniform):
    """``qsgd-linf``: the same with the largest absolute value as the scale."""

    name, number = "qsgd-linf", 4


class TernGrad(Uniform):
    """``terngrad``: three levels, and values clipped at some standard deviations (Wen et al.,
    NeurIPS 2017). The clipping biases it.

    Parameters
    ----------
    clip : float or None
        Standard deviations of a bucket beyond which values are clipped; None: none is.
    bucket_size, payload
        See :class:`bitstep_gradients.codecs.base.Codec`.
    """

    name, number, preset, told = "terngrad", 5, ("levels", "bits"), ("clip",)

    def __init__(self, *, clip: float | None = 2.5, **common):
        super().__init__(levels=1, **common)
        if clip is not None and not (is_number(clip) and clip > 0):
            raise ValueError(f"clip must be a positive number or None, not {clip!r}")
        self.clip = clip

    def prepare(self, values):
        if self.clip is None or not values.size:
            return values
        starts = bucket_starts(values.size, self.bucket_size)
        sizes = np.diff(starts, append=values.size)
        means = bucket_sums(values, self.bucket_size) / sizes
        deviations = np.sqrt(bucket_sums(values, self.bucket_size, means) / sizes)
        limits = np.minimum(self.clip * deviations, LARGEST).astype(np.float32)
        # A constant bucket has no deviation, and nothing in it is an outlier.
        limits = np.where(limits > 0, limits, LARGEST)
        limits = limits[0] if limits.size == 1 \
            else of_buckets(limits, values.size, self.bucket_size)
        return np.clip(values, -limits, limits)


class Dqsg(Uniform):
    """``dqsg``: rounding with subtractive dither (the DQSG paper, Algorithm 1). The receiver makes
    the sender's dither from the key. The error is uniform, independent of the values, with the
    variance (s / M)^2 / 12.
    """

    name, number, subtractive = "dqsg", 6, True
