"""The encodings of docs/number-formats.md: from scaled values to codes.

Positions on a grid are fixed-point integers with 24 fraction bits, the precision of float32, and
drawing is an addition: ``(position + random) >> 24`` goes up with exactly the probability that the
fraction says. So rounding is unbiased but for the 2**-25 of a level at which u itself is rounded,
and the bytes depend on nothing but integers. Encoding ``float`` has no grid: its codes are the
values themselves, in single precision.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bitstep.checks import check_choice, is_integer
from bitstep.pipeline.encodings import ENCODINGS
from bitstep.pipeline.levels import decode, unpack_codes
from bitstep.pipeline.memory import pack_codes, pack_floats, unpack_floats
from bitstep.pipeline.parts.formats import FLOAT_BITS, RowFormat, level_limit

FRACTION_BITS = 24


def fine_encodings() -> str:
    """Names of the encodings that may have fine rows, for messages."""
    return " and ".join(repr(name) for name, encoding in ENCODINGS.items() if encoding.cell)


def check_fine(encoding: str) -> None:
    """Raise ValueError unless an encoding may have fine rows."""
    if not ENCODINGS[encoding].cell:
        raise ValueError("Fine rows (16 bits a value) are kept for the encodings "
                         f"{fine_encodings()}, not for {encoding!r}")


@dataclass(frozen=True)
class Grid:
    """The equally spaced levels on [-1, 1] of an encoding; of ``float``, single precision.

    Whatever depends on where levels lie is here: positions, codes, their bytes, variance and fine
    rows. An encoding whose codes are drawn in another way than by one random sample has a subclass,
    which ``Grid(encoding, bits)`` is of. Codebooks have a class of their own
    (:mod:`bitstep.quantization.codebooks`).

    Parameters
    ----------
    encoding : str
        A key of :data:`ENCODINGS`.
    bits : int
        Stored bits of a code, up to 8; 32 for ``float``.

    Attributes
    ----------
    position_type : dtype
        Type of a position, which is all that a code is drawn from.
    samples : int
        Samples that a level is the mean of.
    spare : bool
        True if a code of more than one bit stands for no level.

    Raises
    ------
    ValueError
        If the encoding is unknown or does not exist at these bits.
    """

    encoding: str
    bits: int

    position_type: ClassVar[np.dtype] = np.dtype(np.uint32)
    samples: ClassVar[int] = 1
    spare: ClassVar[bool] = True

    def __new__(cls, encoding: str = "", *_: Any, **__: Any):
        """A grid of the class of the encoding."""
        return super().__new__(_KINDS.get(str(encoding), cls) if cls is Grid else cls)

    def __post_init__(self):
        check_choice("encoding", self.encoding, ENCODINGS)
        least, most = ENCODINGS[self.encoding].min_bits, ENCODINGS[self.encoding].max_bits
        if not is_integer(self.bits, least, most):
            if least == most:
                raise ValueError(f"bits must be {least} for encoding {self.encoding!r}, "
                                 f"not {self.bits!r}")
            hint = "; 32 bits have encoding 'float'" if self.bits == FLOAT_BITS else ""
            raise ValueError(f"bits must be an integer from {least} to {most} for encoding "
                             f"{self.encoding!r}, not {self.bits!r}{hint}")

    @property
    def row_format(self) -> str:
        """Row format of pipelines that decode the codes (bitstep.pipeline.config)."""
        return ENCODINGS[self.encoding].row_format

    @property
    def draws(self) -> int:
        """Random samples that a code holds."""
        return ENCODINGS[self.encoding].draws

    @property
    def intervals(self) -> int:
        """Intervals between the ends -1 and 1 from which a sample is drawn (not of ``float``)."""
        return max(1, (1 << self.bits) - 2)

    def positions(self, scaled: np.ndarray) -> np.ndarray:
        """Places on the grid, clipped to its ends.

        Parameters
        ----------
        scaled : ndarray of float64
            Finite values u; overwritten, to save a pass through memory.

        Returns
        -------
        ndarray of uint32, same shape
            0 at u = -1 to ``intervals << 24`` at u = 1. Of encoding ``float``: float32, u itself.
        """
        half = self.intervals * 2.0 ** (FRACTION_BITS - 1)
        np.multiply(scaled, half, out=scaled)
        np.add(scaled, half, out=scaled)
        np.clip(scaled, 0, 2 * half, out=scaled)
        np.rint(scaled, out=scaled)
        return scaled.astype(np.uint32)

    def codes(self, positions: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Codes drawn for positions.

        Parameters
        ----------
        positions : ndarray of uint32
        rng : numpy.random.Generator
            Advanced by 64-bit words of its bit generator, one for every two samples; not used by
            encodings ``nearest`` and ``float``.

        Returns
        -------
        ndarray of uint8, same shape
            Of encoding ``float``: the positions, which are float32.
        """
        drawn = self._drawn(positions, rng)
        if self.bits > 1:
            # Both grids of two samples and grids of one have their level 0 in the middle.
            drawn -= np.uint32((1 << self.bits - 1) - 1)
        return self._masked(drawn)

    def _drawn(self, positions: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Drawn levels, counted from the lowest one."""
        return _draw(positions, rng)

    def _masked(self, drawn: np.ndarray) -> np.ndarray:
        codes = drawn.astype(np.uint8)
        return np.bitwise_and(codes, np.uint8((1 << self.bits) - 1), out=codes)

    def variance(self, positions: np.ndarray) -> np.ndarray:
        """Variance of the stored level, in units of u squared: a value's share of D_k.

        Parameters
        ----------
        positions : ndarray of uint32 (float32)

        Returns
        -------
        ndarray of float64, same shape
            ``(high - u) (u - low)`` with the levels around u; half of it for the mean of two
            samples, 0 without draws. For ``double`` it is the variance of one sample.
        """
        return self._variance(positions) if self.draws else np.zeros(positions.shape)

    def _variance(self, positions: np.ndarray) -> np.ndarray:
        fraction = (positions & np.uint32((1 << FRACTION_BITS) - 1)) * 2.0 ** -FRACTION_BITS
        result = 1 - fraction
        result *= fraction
        result *= (2 / self.intervals) ** 2 / self.samples
        return result

    def fine_values(self, positions: np.ndarray, fraction: int) -> np.ndarray:
        """Values of fine rows, in units of ``2 ** -fraction`` of a level.

        Rounded from the position that the code is drawn from, so a value lies in the cell of its
        code: with ``f`` the fraction bits of an interval, ``v = floor(p / 2**(24 - f) + 1/2)`` is
        monotone in the position p and exact where p is a multiple of ``2**(24 - f)``. A code of
        ``nearest`` has positions from half an interval below its level to less than half above,
        one of ``stochastic`` from less than an interval below to less than one above. These ends,
        and those of the grid, are such multiples (f is at least 8), so v lies between their
        values: within half an interval, or one, of the level, and within the grid.

        Parameters
        ----------
        positions : ndarray of uint32
        fraction : int
            :attr:`bitstep.pipeline.parts.formats.RowFormat.fine_fraction` of a pipeline for the
            codes.

        Returns
        -------
        ndarray of int16, same shape

        Raises
        ------
        ValueError
            If the encoding has no :attr:`Encoding.cell`.
        """
        check_fine(self.encoding)
        shift = FRACTION_BITS - fraction - (1 if self.bits == 1 else 0)     # 1 bit: 2 levels apart
        values = positions + np.uint32(1 << shift - 1)
        values >>= np.uint32(shift)
        values -= np.uint32(level_limit(self.bits, self.row_format) << fraction)   # wraps, as int16
        return values.astype(np.int16)

    # Stored codes

    def pack(self, codes: np.ndarray, bus_width: int) -> np.ndarray:
        """Rows of beats of codes; the inverse of :meth:`unpack`."""
        return pack_codes(codes, self.bits, bus_width)

    def unpack(self, stored: np.ndarray, rows: RowFormat, n_features: int) -> np.ndarray:
        """Codes of stored rows, shape (n_rows, n_features)."""
        return unpack_codes(stored, rows, n_features)

    def values(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled values that codes stand for in a dot product and in an update, as float64; the
        same array twice but for row format ``two_levels``.
        """
        dots, gradients = decode(codes, bits=self.bits, row_format=self.row_format)
        limit = level_limit(self.bits, self.row_format)
        scaled = dots / limit
        return scaled, scaled if gradients is dots else gradients / limit

    @property
    def has_all_codes(self) -> bool:
        """True if every code is one that an encoder may write."""
        return self.bits == 1 or not self.spare

    def check_codes(self, codes: np.ndarray, name: str) -> None:
        """Raise ValueError for a code in the array of a name that no encoder writes."""
        impossible = 1 << self.bits - 1       # the level below -level_limit
        if not self.has_all_codes and (codes == impossible).any():
            raise ValueError(f"{name} holds code {impossible}, which stands for no level")


class NearestGrid(Grid):
    """Levels that the nearest values are rounded to; ties go up."""

    def _drawn(self, positions, rng):
        del rng
        drawn = positions + np.uint32(1 << FRACTION_BITS - 1)
        drawn >>= FRACTION_BITS
        return drawn


class SymmetricGrid(Grid):
    """Levels that are the sum of two samples."""

    samples = 2

    @property
    def intervals(self):
        """See :attr:`Grid.intervals`: from both of its ends a sample may be drawn."""
        return (1 << self.bits - 1) - 1

    def _drawn(self, positions, rng):
        drawn = _draw(positions, rng)
        drawn += _draw(positions, rng)
        return drawn


class DoubleGrid(Grid):
    """Codes of an interval and two samples of its ends, all of which stand for levels."""

    spare = False

    @property
    def intervals(self):
        """See :attr:`Grid.intervals`: two bits of a code are samples."""
        return 1 << self.bits - 2

    def codes(self, positions, rng):
        """See :meth:`Grid.codes`."""
        lower = positions >> FRACTION_BITS
        np.minimum(lower, self.intervals - 1, out=lower)    # the end 1 closes the last interval
        above = positions - (lower << FRACTION_BITS)
        lower -= np.uint32(self.intervals // 2)
        lower <<= 2
        lower |= _draw(above, rng)
        lower |= _draw(above, rng) << 1
        return self._masked(lower)


class FloatGrid(Grid):
    """Values in single precision, which are their own positions and codes."""

    position_type = np.dtype(np.float32)

    def positions(self, scaled):
        """See :meth:`Grid.positions`."""
        np.clip(scaled, -1, 1, out=scaled)
        return scaled.astype(np.float32)

    def codes(self, positions, rng):
        """See :meth:`Grid.codes`."""
        del rng
        return positions

    def pack(self, codes, bus_width):
        """See :meth:`Grid.pack`."""
        return pack_floats(codes, bus_width)

    def unpack(self, stored, rows, n_features):
        """See :meth:`Grid.unpack`."""
        del rows
        return unpack_floats(stored, n_features)

    def values(self, codes):
        """See :meth:`Grid.values`."""
        values = codes.astype(np.float64)
        return values, values

    def check_codes(self, codes, name):
        """See :meth:`Grid.check_codes`."""
        if not (np.abs(codes) <= 1).all():     # NaN is refused, too
            raise ValueError(f"{name} holds a value that is not in [-1, 1]")


_KINDS = {"nearest": NearestGrid, "double-symmetric": SymmetricGrid, "double": DoubleGrid,
          "float": FloatGrid}


def _draw(positions: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """Ends of the intervals that positions lie in, as uint32, the upper one by the fraction."""
    drawn = random_words(positions.size, rng).reshape(positions.shape)
    drawn >>= 32 - FRACTION_BITS
    drawn += positions
    drawn >>= FRACTION_BITS
    return drawn


def random_words(count: int, rng: np.random.Generator | None) -> np.ndarray:
    """Random words of 32 bits, two from each word of the bit generator: uint32, shape (count,)."""
    if rng is None:
        raise ValueError("rng must be a numpy.random.Generator for an encoding that draws, "
                         "not None")
    if isinstance(rng.bit_generator, np.random.MT19937):
        raise ValueError("rng must draw words of 64 bits, which MT19937 does not; take "
                         "numpy.random.default_rng")
    # Raw words, because NumPy keeps a bit generator's stream for ever but not a Generator's.
    raw = rng.bit_generator.random_raw(-(-count // 2))
    return np.asarray(raw, np.uint64).astype("<u8", copy=False).view("<u4")[:count]


def encode(u: np.ndarray, *, bits: int, encoding: str,
           rng: np.random.Generator | None = None) -> np.ndarray:
    """Codes of scaled values.

    Parameters
    ----------
    u : array of float, any shape
        Finite values in [-1, 1]; what lies beyond (by rounding) counts as the end.
    bits : int
        Stored bits of a code, 1 to 8; at least 2 for the two ``double`` encodings; 32 for
        ``float``.
    encoding : {"nearest", "stochastic", "compensated", "double-symmetric", "double", "float"}
        See docs/number-formats.md. ``nearest`` rounds ties up.
    rng : numpy.random.Generator
        Source of the draws; ``nearest`` and ``float`` need none.

    Returns
    -------
    ndarray of uint8, same shape
        What :func:`bitstep.pipeline.levels.decode` decodes; of ``float``: float32, the values.

    Raises
    ------
    ValueError
        If encoding and bits do not go together, a value is not finite, or there is no rng.
    """
    grid = Grid(encoding, bits)
    values = np.array(u, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("u must be finite; remove NaN and infinity")
    return grid.codes(grid.positions(values), rng)
