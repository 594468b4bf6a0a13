"""Base of the codecs with levels that are not uniform, and NUQSGD."""

import zlib

import numpy as np

from bitstep.checks import check_bool, check_choice, is_number
from bitstep_gradients.codecs.levels import bounds, rounding
from bitstep_gradients.codecs.levels.rounding import ONE
from bitstep_gradients.codecs.levels.scaled import Scaled, level_count, read_scales
from bitstep_gradients.vectors import NORMS, bucket_starts, checked_vector, of_buckets


def around_zero(magnitudes: np.ndarray, *, zero: bool) -> np.ndarray:
    """Levels of magnitudes: their negatives, 0 if it is one, and themselves."""
    return np.concatenate([-magnitudes[::-1], [0.0] * zero, magnitudes])


class Levelled(Scaled):
    """Stochastic rounding of v / |v| to levels from -1 to 1 that both sides know.

    A message has the scale of every bucket (float32), then the symbols. Its header has a checksum
    of the levels.

    Parameters
    ----------
    levels : int
        Number of levels, from 2 to 256. Symmetric ones are an even number, or odd with zero.
    bits : int
        In place of ``levels``: 2**bits levels, or 2**bits - 1 with a zero level; from 1 (with a
        zero level: 2) to 8. Default: 3.
    symmetric : bool
        True: with every level its negative is one.
    zero : bool
        True: 0 is a level.
    norm : {"l2", "linf"}
    bucket_size, payload
        See :class:`bitstep_gradients.codecs.base.Codec`.
    """

    told = "symmetric", "zero", "norm"

    def __init__(self, *, levels: int | None = None, bits: int | None = None,
                 symmetric: bool = True, zero: bool = False, norm: str = "l2", **common):
        super().__init__(**common)
        check_choice("norm", norm, NORMS)
        check_bool("symmetric", symmetric)
        check_bool("zero", zero)
        self.symmetric, self.zero, self.norm = bool(symmetric), bool(zero), norm
        self.n_levels = level_count(levels, bits, symmetric=self.symmetric, zero=self.zero)
        self._fixed = np.zeros(0, np.int64)

    @property
    def levels(self) -> np.ndarray:
        """Levels in units of the norm: float64, shape (n_levels,)."""
        return self._fixed / ONE

    @levels.setter
    def levels(self, levels):
        self._fixed = rounding.fixed_levels(levels)

    @property
    def magnitudes(self) -> np.ndarray:
        """The positive levels."""
        return self.levels[self._fixed > 0]

    @property
    def parameter(self):
        return self.n_levels

    @property
    def state_tag(self):
        return zlib.crc32(self._fixed.astype("<i8").tobytes()) or 1

    def _encode(self, values, key):
        scales = self.scales(values)
        symbols = rounding.symbols_of(values, scales, self.bucket_size, self._fixed, key)
        return scales.astype("<f4").tobytes() + self.coding.encode(symbols, self.n_levels)

    def _decode(self, body, count, key, side):
        scales, rest = read_scales(body, self.n_buckets(count))
        symbols = self.coding.decode(rest, count, self.n_levels, np.uint8)
        levels = (self._fixed / ONE).astype(np.float32)     # exact
        with np.errstate(under="ignore"):
            return levels[symbols] * of_buckets(scales, count, self.bucket_size)

    # Statistics

    def _statistics(self, values):
        scales = self.scales(values)
        lower, up, variances = rounding.shares(
            rounding.targets(values, scales, self.bucket_size), self._fixed)
        squares = of_buckets(scales.astype(np.float64)**2, values.size, self.bucket_size)
        return rounding.symbol_probabilities(lower, up, self.n_levels), variances * squares

    def _sent_bits(self, count):
        return 32 * self.n_buckets(count)

    def variance_bound(self, vector):
        """The smaller of two bounds for each bucket of d values and the norm s: Theorem 2 (with a
        zero level) or 9 (without one) of the ALQ paper, for symmetric levels; and d s^2 / 4 times
        the square of the largest gap. Buckets sent as zeros add their squares.
        """
        flat = checked_vector(vector)[0].reshape(-1)
        if not flat.size:
            return 0.0
        starts = bucket_starts(flat.size, self.bucket_size)
        sizes = np.diff(np.append(starts, flat.size))
        gap = np.max(np.diff(self.levels))
        limits = sizes * self.scales(flat).astype(np.float64)**2 * gap**2 / 4
        if self.symmetric:
            factors = {size: bounds.variance_factor(self.magnitudes, size, zero=self.zero)
                       for size in set(sizes.tolist())}
            squares = np.add.reduceat(flat.astype(np.float64)**2, starts)
            limits = np.minimum(limits, squares * [factors[size] for size in sizes.tolist()])
        return float(limits.sum()) + self.lost(vector)

    def code_length_bound(self, vector) -> float:
        """Bound of the expected bits of scales and Huffman-coded levels (ALQ paper, appendix D):
        Theorem 3 with a zero level, where signs take a bit of their own, else Theorem 10.

        Parameters
        ----------
        vector : ndarray or BFloat16
            See ``encode``.
        """
        shares, count = self.probabilities(vector), np.size(checked_vector(vector)[0])
        signs = 0.0
        if self.zero:
            half = self.n_levels // 2
            shares = np.append(shares[half], shares[half + 1:] + shares[half - 1::-1])
            sizes = np.diff(np.append(bucket_starts(count, self.bucket_size), count))
            signs = sum(bounds.nonzero_bound(self.magnitudes[0], int(size), norm=self.norm)
                        for size in sizes)
        return 32 * self.n_buckets(count) + signs + count * (bounds.entropy(shares) + 1)


class NuQsgd(Levelled):
    """``nuqsgd``: exponential levels 0, p**s, ..., p, 1 and their negatives (Ramezani-Kebrya et
    al., JMLR 2021). With p = 1/2 this is natural dithering (Horvath et al., 2019).

    Parameters
    ----------
    p : float
        Ratio of two levels, between 0 and 1; p**s must be at least 2**-30.
    zero : bool
        True (default): 0 is a level.
    levels, bits, norm, bucket_size, payload
        See :class:`Levelled`.
    """

    name, number = "nuqsgd", 7
    preset = ("symmetric",)
    told = "p", "zero", "norm"

    def __init__(self, *, p: float = 0.5, zero: bool = True, **common):
        super().__init__(zero=zero, **common)
        if not is_number(p) or not 0 < p < 1:
            raise ValueError(f"p must be between 0 and 1, not {p!r}")
        count = self.n_levels // 2
        if p**(count - 1) < 2.0**-30:
            raise ValueError(f"the least level p**{count - 1} must be at least 2**-30, which "
                             f"{p}**{count - 1} is not; take fewer bits or a greater p")
        self.p = float(p)
        self.levels = around_zero(exponential(p, count), zero=self.zero)


def exponential(p: float, count: int) -> np.ndarray:
    """The levels p**(count - 1), ..., p, 1."""
    return float(p) ** np.arange(count - 1, -1, -1, dtype=np.int64)
