"""Quantizing to bit-plane rows: one copy, from which every precision of 1 to 16 bits is read."""

import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bitstep.checks import check_choice, check_integer, is_integer
from bitstep.data.blocks import block_rows, row_blocks
from bitstep.pipeline.bit_planes import (
    PLANES,
    BitPlaneLayout,
    from_bit_planes,
    middle_levels,
    to_bit_planes,
)
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import SCALERS, encoding_of
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, BIT_PLANES
from bitstep.pipeline.shapes import check_rows, check_weights
from bitstep.quantization.scaling import Scaler
from bitstep.quantization.weights import WeightSums, weight_sums

_HALF = 1 << BIT_PLANE_BITS - 1
_LOW_BITS = 32
_CHECKED_BYTES = 1 << 23    # of rows that are checked at a time


def label_bits_of(encoding: str) -> int:
    """Stored bits of a regression's label, if nothing else is asked for."""
    return encoding_of(encoding).label_bits


@dataclass(frozen=True, kw_only=True)
class BitPlaneOptions:
    """Choices of how rows become bit-plane rows.

    Parameters
    ----------
    bus_width, scaler, seed
        See :func:`bitstep.quantization.quantize_rows`. The bytes depend on the scaler alone; the
        seed is that of the updates' dither.

    Raises
    ------
    ValueError
        If one is out of range.
    """

    bus_width: int = 64
    scaler: str = "minmax"
    seed: int = 0

    copies = 1
    fine_rows = False

    def __post_init__(self):
        check_integer("seed", self.seed, 0)
        check_choice("scaler", self.scaler, SCALERS)
        self.config(1)

    def config(self, n_features: int) -> PipelineConfig:
        """The least pipeline that reads the rows."""
        return PipelineConfig(bus_width=self.bus_width, bits=BIT_PLANE_BITS, row_format=BIT_PLANES,
                              max_features=n_features)


@dataclass(frozen=True, eq=False, kw_only=True)
class BitPlaneRows:
    """Bit-plane rows, and what their codes stand for; they stand in for
    :class:`bitstep.quantization.rows.QuantizedRows`.

    Parameters
    ----------
    n_rows, n_features, bus_width : int
    stored : tuple of one ndarray of uint8, shape (blocks, block_bytes)
        See :mod:`bitstep.pipeline.bit_planes`.
    scaler : Scaler
        Features to u in [-1, 1].
    excess : ndarray of float64, shape (16, n_features)
        What a column's variance over the rows gains by rounding to b bits, in row b - 1: the
        variance of its levels less that of its levels of 16 bits, in units of u squared.
    seed : int
        Seed of the dither.
    moments : ndarray of float64, shape (2, n_features), or None
        Mean and variance over the rows of each column of u, of 16 bits; None of a file that does
        not have them.
    shifts : ndarray of float64, shape (16, n_features), or None
        What a column's mean over the rows gains by rounding to b bits, in row b - 1, in units of
        u; None of a file that does not have it.
    weights : ndarray of uint16, shape (n_rows,), or None
        Weights of the rows (:mod:`bitstep.quantization.weights`), by which ``excess``,
        ``moments`` and ``shifts`` count; None: all alike.
    level_sums : LevelSums or None
        What ``moments``, ``shifts`` and ``excess`` are made of, at every precision; None of a
        file.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    n_rows: int
    n_features: int
    bus_width: int
    stored: tuple[np.ndarray, ...] = field(repr=False)
    scaler: Scaler
    excess: np.ndarray = field(repr=False)
    seed: int
    moments: np.ndarray | None = field(default=None, repr=False)
    shifts: np.ndarray | None = field(default=None, repr=False)
    weights: np.ndarray | None = field(default=None, repr=False)
    level_sums: "LevelSums | None" = field(default=None, repr=False)

    bits = BIT_PLANE_BITS
    encoding = row_format = BIT_PLANES
    copies = 1
    fine_rows = codebooks = None
    cell_half_levels = 0
    exact = True

    def __post_init__(self):
        check_rows(self.stored, self.config.rows, self.n_features)
        blocks = BitPlaneLayout(self.n_features).blocks(self.n_rows)
        if not is_integer(self.n_rows, 1) or len(self.stored) != 1 \
                or len(self.stored[0]) != blocks:
            raise ValueError(f"stored must be one array of {blocks} blocks for {self.n_rows} rows, "
                             f"not {len(self.stored)} of {len(self.stored[0])}")
        check_weights(self.weights, self.n_rows)
        columns = (self.n_features,)
        if self.scaler.centre.shape != columns or self.excess.shape != (PLANES, *columns) \
                or not np.isfinite(self.excess).all():
            raise ValueError(f"scaler and excess must be of shape {columns} and "
                             f"{(PLANES, *columns)} and finite, not {self.scaler.centre.shape} and "
                             f"{self.excess.shape}")
        if self.moments is not None and not (self.moments.shape == (2, *columns)
                                             and (np.abs(self.moments[0]) <= 1).all()
                                             and (self.moments[1] >= 0).all()
                                             and (self.moments[1] <= 1).all()):
            raise ValueError(f"moments must be means from -1 to 1 and variances from 0 to 1 of "
                             f"{self.n_features} columns, not {self.moments.tolist()}")
        if self.shifts is not None and not (self.shifts.shape == (PLANES, *columns)
                                            and (np.abs(self.shifts) <= 1).all()):
            raise ValueError(f"shifts must be numbers from -1 to 1 of shape {(PLANES, *columns)}, "
                             f"not {self.shifts.tolist()}")

    @property
    def config(self) -> PipelineConfig:
        """The least pipeline that reads the rows."""
        return PipelineConfig(bus_width=self.bus_width, bits=self.bits, row_format=BIT_PLANES,
                              max_features=self.n_features)

    def for_bus(self, bus_width: int) -> "BitPlaneRows":
        """Return the rows for a bus of another width: the same bytes."""
        return replace(self, bus_width=bus_width)

    @property
    def level_limit(self) -> int:
        """Weight of u = 1 in a dot product of all planes."""
        return self.config.rows.level_limit

    @property
    def variance(self) -> np.ndarray:
        """Zeros: nothing is drawn."""
        return np.zeros(self.n_features)

    @cached_property
    def column_moments(self) -> np.ndarray:
        """``moments``, counted from the codes of a file that does not have them."""
        return self._counted(PLANES) if self.moments is None else self.moments

    def code_moments(self, planes: int) -> np.ndarray:
        """Mean and variance over the rows of the levels of each column at a precision.

        Returns
        -------
        ndarray of float64, shape (2, n_features)
        """
        if self.shifts is None:
            return self._counted(planes)
        return self.column_moments + np.array([self.shifts[planes - 1], self.excess[planes - 1]])

    def _counted(self, planes: int) -> np.ndarray:
        """:meth:`code_moments`, from the codes."""
        sums = LevelSums((2, self.n_features))
        for _, start, stop in row_blocks(self.n_rows, self.n_features):
            sums.add(_sums(self.codes(planes, start, stop), planes,
                           None if self.weights is None else self.weights[start:stop]))
        count = self.n_rows if self.weights is None else int(self.weights.sum(dtype=np.int64))
        return _moments(sums.of_levels(count)[None], count, [planes])[0]

    @property
    def mean_square(self) -> float:
        """Mean over the rows of |u|^2, of 16 bits."""
        means, variances = self.column_moments
        return float((means * means + variances).sum())

    @property
    def weight_sums(self) -> WeightSums:
        """Facts of the weights."""
        return weight_sums(self.weights, self.n_rows)

    def penalty_units(self, fit_intercept: bool = True) -> np.ndarray:
        """Square of each column's unit in a penalty of standardized columns: its variance, or
        without an intercept its mean square; 1 of a column with a single value.

        Returns
        -------
        ndarray of float64, shape (n_features,)
            Above 0.
        """
        means, variances = self.column_moments
        squares = variances if fit_intercept else variances + means * means
        return np.where(variances > 0, squares, 1.0)

    def codes(self, planes: int = PLANES, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Codes of the rows from ``start`` to ``stop``, uint16, at a precision."""
        stop = self.n_rows if stop is None else stop
        return from_bit_planes(self.stored[0], self.n_features, planes, start, stop)

    def levels(self, rows: slice | np.ndarray, planes: int = PLANES) -> tuple[np.ndarray,
                                                                             np.ndarray]:
        """Scaled features that the codes of some rows stand for, twice the same array.

        Returns
        -------
        dots, gradients : ndarray of float64, shape (rows chosen, n_features)
        """
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n_rows)
            codes = self.codes(planes, start, max(start, stop))[::step]
        else:
            chosen = np.asarray(rows)
            size = BitPlaneLayout(self.n_features).block_rows
            codes = np.empty((len(chosen), self.n_features), np.uint16)
            for block in np.unique(chosen // size):
                inside = chosen // size == block
                start = int(block) * size
                part = self.codes(planes, start, min(start + size, self.n_rows))
                codes[inside] = part[chosen[inside] - start]
        values = middle_levels(codes, planes) / (1 << planes)
        return values, values

    def values(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled features of some rows, as exactly as they are known: :meth:`levels`."""
        return self.levels(rows)

    def check_padding(self, release: Callable[[], None] = lambda: None) -> None:
        """Raise ValueError unless all bits without a feature of a row are 0.

        Parameters
        ----------
        release : callable
            Called after each piece of the rows, to give back a map's memory.
        """
        layout = BitPlaneLayout(self.n_features)
        real = np.zeros((layout.block_rows, layout.row_bits), np.uint8)
        real[:, :self.n_features] = 1
        whole = len(self.stored[0]) - 1
        last = real.copy()
        last[self.n_rows - whole * layout.block_rows:] = 0
        step = max(1, _CHECKED_BYTES // layout.block_bytes)
        for first in range(0, whole + 1, step):
            part = self.stored[0][first:first + step].reshape(-1, PLANES, layout.plane_bytes)
            padding = ~np.packbits(real.reshape(-1), bitorder="little")
            wrong = (part[:whole - first] & padding).any()
            if first + step > whole:
                wrong |= (part[-1] & ~np.packbits(last.reshape(-1), bitorder="little")).any()
            if wrong:
                raise ValueError("padding in rows_0 is not 0")
            release()


def _sums(codes: np.ndarray, planes: int, weights: np.ndarray | None) -> np.ndarray:
    """Sums over a block's rows of v = k - 2^(planes - 1), with k the codes of so many bits, and of
    v^2, each times its row's weight.
    """
    values = codes.astype(np.int64) - (1 << planes - 1)
    weighted = values if weights is None else values * weights[:, None].astype(np.int64)
    return np.stack([weighted.sum(axis=0), (weighted * values).sum(axis=0)])


class LevelSums:
    """Sums of levels and of their squares over rows, exactly: those of parts of the rows add up to
    those of all, in any order.

    Of a block 64 bits have room: |v| of :func:`_sums` is at most 2^15, a weight is below 2^16, and
    a block has at most 2^17 rows.

    Parameters
    ----------
    shape : tuple of int
        (2, n_features), or (16, 2, n_features) of every precision.
    """

    def __init__(self, shape: tuple[int, ...]):
        self._high, self._low = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def add(self, sums: np.ndarray) -> None:
        """Take in the sums of a block, by :func:`_sums`."""
        self._high += sums >> _LOW_BITS
        self._low += sums & (1 << _LOW_BITS) - 1

    @staticmethod
    def together(parts: Sequence["LevelSums"]) -> "LevelSums":
        """The sums over the rows of several parts."""
        found = LevelSums(parts[0]._high.shape)
        for one in parts:
            found._high += one._high
            found._low += one._low
        return found

    def of_levels(self, count: int) -> np.ndarray:
        """Sums of levels, 2 v + 1, and of their squares, as Python's integers; ``count`` is the sum
        of the weights.
        """
        sums = self._high.astype(object) * (1 << _LOW_BITS) + self._low.astype(object)
        first, second = sums[..., 0, :], sums[..., 1, :]
        return np.stack([2 * first + count, 4 * (second + first) + count], axis=-2)

    def moments(self, count: int) -> np.ndarray:
        """Means and variances of columns at every precision, shape (16, 2, n_features); ``count``
        is the sum of the weights.
        """
        return _moments(self.of_levels(count), count, range(1, PLANES + 1))


def _moments(sums: np.ndarray, count: int, planes: Sequence[int]) -> np.ndarray:
    """Means and variances of columns at some precisions, from sums of levels and of their squares
    as Python's integers, of which quotients are rounded once.
    """
    units = np.array([count << number for number in planes], object)[:, None]
    first, second = sums[:, 0], sums[:, 1]
    return np.stack([first / units, (count * second - first * first) / (units * units)],
                    axis=1).astype(np.float64)


class BitPlaneEncoder:
    """Blocks of scaled rows to blocks of planes, in order; it stands in for
    :class:`bitstep.quantization.encoder.RowEncoder`.

    Parameters
    ----------
    options : BitPlaneOptions
    scaler : Scaler
    n_rows : int
        Rows of all blocks.
    weights : ndarray of uint16, shape (n_rows,), or None
        Weights of the rows.

    Attributes
    ----------
    block_rows : int
        Rows of every block that :meth:`encode` takes but the last one: whole blocks of planes.
    level_sums : LevelSums
        Of the blocks so far, at every precision.
    """

    bits, encoding = BIT_PLANE_BITS, BIT_PLANES
    codebooks = None
    n_arrays = 1
    position_type = np.dtype(np.uint16)

    def __init__(self, options: BitPlaneOptions, scaler: Scaler, n_rows: int,
                 weights: np.ndarray | None = None):
        self.weights, self._first = weights, 0
        self._count = n_rows if weights is None else int(weights.sum(dtype=np.int64))
        options.config(len(scaler.centre))
        self.n_rows, self.n_features = n_rows, len(scaler.centre)
        self.bus_width, self.seed, self.scaler = options.bus_width, int(options.seed), scaler
        layout = BitPlaneLayout(self.n_features)
        self.block_rows = layout.block_rows * max(
            1, block_rows(self.n_features) // layout.block_rows)
        self.level_sums = LevelSums((PLANES, 2, self.n_features))

    @property
    def array_names(self) -> list[str]:
        """Name of the array of the rows."""
        return ["rows_0"]

    @property
    def excess(self) -> np.ndarray:
        """See :class:`BitPlaneRows`, after the last block."""
        variances = self._code_moments[:, 1]
        return variances - variances[-1]

    @property
    def moments(self) -> np.ndarray:
        """See :class:`BitPlaneRows`, after the last block."""
        return self._code_moments[-1]

    @property
    def shifts(self) -> np.ndarray:
        """See :class:`BitPlaneRows`, after the last block."""
        means = self._code_moments[:, 0]
        return means - means[-1]

    @cached_property
    def _code_moments(self) -> np.ndarray:
        """Means and variances of columns at every precision, shape (16, 2, n_features)."""
        return self.level_sums.moments(self._count)

    def shapes(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """Type and shape of the array of all rows."""
        layout = BitPlaneLayout(self.n_features)
        return {"rows_0": (np.dtype(np.uint8), (layout.blocks(self.n_rows), layout.block_bytes))}

    def positions(self, features: np.ndarray) -> np.ndarray:
        """Codes of 16 bits of features.

        Parameters
        ----------
        features : ndarray of numbers, shape (rows, n_features)
            Finite.

        Returns
        -------
        ndarray of uint16, same shape
            floor((u + 1) 2^15), within 0 and 2^16 - 1.
        """
        if _compiled():
            from bitstep.quantization.kernels import scaled_rows
            return scaled_rows(features, self.scaler.centre, self.scaler.scale)
        with np.errstate(over="ignore"):    # infinity, beyond a given scaler, counts as the end
            scaled = (np.asarray(features, np.float64) - self.scaler.centre) / self.scaler.scale
        scaled += 1
        scaled *= _HALF
        return np.clip(np.floor(scaled), 0, 2 * _HALF - 1).astype(np.uint16)

    def encode(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Transpose the codes of the next block.

        Parameters
        ----------
        positions : ndarray of uint16, shape (rows, n_features)
            Of its rows: ``block_rows``, or the rest of the last block.

        Returns
        -------
        dict of str to ndarray
            Its part of the array of :meth:`shapes`.
        """
        weights = None
        if self.weights is not None:
            weights = self.weights[self._first:self._first + len(positions)]
            self._first += len(positions)
        blocks, sums = self.packed(positions, weights)
        self.count(sums)
        return {"rows_0": blocks}

    def count(self, sums: np.ndarray) -> None:
        """Take in the sums of :meth:`packed`."""
        self.level_sums.add(sums)

    @staticmethod
    def packed(positions: np.ndarray,
               weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Blocks of planes of codes, and the sums of :func:`_sums` at every precision; any thread
        may call it.

        Returns
        -------
        blocks : ndarray of uint8, shape (blocks, block_bytes)
        sums : ndarray of int, shape (16, 2, n_features)
        """
        if _compiled():
            from bitstep.quantization.kernels import packed_planes
            return packed_planes(positions, BitPlaneLayout(positions.shape[1]), weights)
        return to_bit_planes(positions), np.stack([
            _sums(positions >> np.uint16(PLANES - planes), planes, weights)
            for planes in range(1, PLANES + 1)])


@functools.cache
def _compiled() -> bool:
    """True where numba is installed, which computes the same in compiled loops."""
    return importlib.util.find_spec("numba") is not None
