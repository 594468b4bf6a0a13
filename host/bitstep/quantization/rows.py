"""Quantized rows: from features to packed codes, and back to the numbers that they stand for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from bitstep.checks import check_integer
from bitstep.data.blocks import Workspace, row_blocks
from bitstep.data.dataset import DataError
from bitstep.pipeline.config import MAX_FEATURES, PipelineConfig, level_limit
from bitstep.pipeline.levels import decode, unpack_codes
from bitstep.pipeline.memory import pack_codes, pack_floats, unpack_floats
from bitstep.pipeline.shapes import MAX_COPIES, check_fine_rows, check_rows
from bitstep.quantization.encodings import ENCODINGS, Grid, check_fine, fine_encodings
from bitstep.quantization.scaling import Scaler, fit_scaler


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedRows:
    """Packed rows, and what their codes stand for.

    Parameters
    ----------
    bits, encoding, bus_width : int, str, int
        Stored bits of a value, how they were drawn, and bits of a beat.
    n_features : int
        Features of a row.
    packed : tuple of ndarray of uint8, each of shape (n_rows, beats * bus_width / 8)
        Packed codes, one array a copy; epoch e reads ``packed[e % len(packed)]``.
    scaler : Scaler
        Features to u in [-1, 1].
    variance : ndarray of float64, shape (n_features,)
        D_k of docs/number-formats.md, in units of u squared: the mean over rows of the variance of
        the stored level (for ``double`` of one sample, for ``nearest`` and ``float`` 0).
    seed : int
        Seed of the draws.
    fine_rows : ndarray of int16, shape (n_rows, n_features), or None
        The rows with 16 bits a value, for refetching: in units of ``2 ** -fine_fraction`` of a
        level (:attr:`bitstep.pipeline.config.PipelineConfig.fine_fraction`), each value in the
        cells of its codes. Encodings ``nearest`` and ``stochastic`` only.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    bits: int
    encoding: str
    bus_width: int
    n_features: int
    packed: tuple[np.ndarray, ...] = field(repr=False)
    scaler: Scaler
    variance: np.ndarray = field(repr=False)
    seed: int
    fine_rows: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        Grid(self.encoding, self.bits)
        check_rows(self.packed, self.config, self.n_features)
        columns = (self.n_features,)
        if self.scaler.centre.shape != columns or self.variance.shape != columns:
            raise ValueError(f"scaler and variance must have shape {columns}, not "
                             f"{self.scaler.centre.shape} and {self.variance.shape}")
        if not (np.isfinite(self.variance).all() and (self.variance >= 0).all()):
            raise ValueError("variance must be finite and not negative")
        if self.fine_rows is not None:
            check_fine(self.encoding)
            check_fine_rows(self.fine_rows, self.n_rows, self.n_features)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.packed[0].shape[0]

    @property
    def copies(self) -> int:
        """Number of independently drawn copies of the rows."""
        return len(self.packed)

    @property
    def row_format(self) -> str:
        """Row format of pipelines that decode the codes, of
        :data:`bitstep.pipeline.config.ROW_FORMATS`.
        """
        return ENCODINGS[self.encoding].row_format

    @property
    def config(self) -> PipelineConfig:
        """The least pipeline that reads the rows: their bus width, bits, row format and
        features.
        """
        return PipelineConfig(bus_width=self.bus_width, bits=self.bits, row_format=self.row_format,
                              max_features=self.n_features)

    @property
    def level_limit(self) -> int:
        """Weight of u = 1 in a dot product: the largest level, or 2**22 for ``float``."""
        return level_limit(self.bits, self.row_format)

    @property
    def cell_half_levels(self) -> int:
        """Largest difference of a value of a fine row to the level of its code, in half levels
        (1, 2 or 4); 0 if there are no fine rows.
        """
        if self.fine_rows is None:
            return 0
        return ENCODINGS[self.encoding].cell * (2 if self.bits == 1 else 1)

    def codes(self, copy: int = 0, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Unpacked codes of the rows from ``start`` to ``stop`` of a copy.

        Returns
        -------
        ndarray of uint8, shape (stop - start, n_features)
            Of encoding ``float``: float32, the values.
        """
        return self._unpack(self.packed[copy][start:stop])

    def levels(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled features that the codes of some rows of the first copy stand for.

        Returns
        -------
        dots, gradients : ndarray of float64, shape (rows chosen, n_features)
            Both samples of row format ``two_levels``; the same array twice for the others.
        """
        codes = self._unpack(np.ascontiguousarray(self.packed[0][rows]))
        if self.row_format == "float32":
            values = codes.astype(np.float64)
            return values, values
        dots, gradients = decode(codes, bits=self.bits, row_format=self.row_format)
        scaled = dots / self.level_limit
        return scaled, scaled if gradients is dots else gradients / self.level_limit

    def values(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled features of some rows, as exactly as they are known: of the fine rows where there
        are some, else :meth:`levels`, whose shapes these are.
        """
        if self.fine_rows is None:
            return self.levels(rows)
        scale = self.level_limit * 2.0 ** self.config.fine_fraction
        values = self.fine_rows[rows] / scale
        return values, values

    def _unpack(self, packed):
        if self.row_format == "float32":
            return unpack_floats(packed, self.n_features)
        return unpack_codes(packed, self.config, self.n_features)


def quantize_rows(features: np.ndarray, *, bits: int, encoding: str = "compensated",
                  bus_width: int = 64, scaler: str = "minmax", copies: int = 1, seed: int = 0,
                  fine_rows: bool = False,
                  progress: Callable[[int], None] | None = None) -> QuantizedRows:
    """Scale, encode and pack rows.

    The same arguments give the same bytes on every machine: block i of copy c has a random stream
    of its own, ``PCG64(SeedSequence(seed, spawn_key=(c, i)))``, and a block's size depends on the
    number of features only. Beyond its result it needs a few MB (or one row, if that is more).

    Parameters
    ----------
    features : ndarray of numbers, shape (n_rows, n_features)
        Finite; read in blocks, so it may be a memory map.
    bits : int
        Stored bits of a value, 1 to 8; at least 2 for the two ``double`` encodings; 32 for
        ``float``.
    encoding : {"nearest", "stochastic", "compensated", "double-symmetric", "double", "float"}
        See docs/number-formats.md.
    bus_width : {64, 128, 256, 512}
        Bits of a beat.
    scaler : {"minmax", "maxabs"}
        How columns are taken to [-1, 1].
    copies : int
        Independently drawn copies of the rows, 1 to 255. ``nearest`` and ``float`` draw nothing,
        so their copies share one array.
    seed : int
        At least 0.
    fine_rows : bool
        True to keep fine rows, too (16 bits a value), so that a pipeline can fetch them again; for
        encodings ``nearest`` and ``stochastic``.
    progress : callable, optional
        Called after each block of rows with the number of rows done.

    Returns
    -------
    QuantizedRows

    Raises
    ------
    DataError
        If features cannot be used; the message names row and column.
    ValueError
        If another argument is out of range.
    """
    grid = Grid(encoding, bits)
    features = checked_features(features)
    config = PipelineConfig(bus_width=bus_width, bits=bits, row_format=grid.row_format,
                            max_features=features.shape[1])
    _check_options(encoding, copies, seed, fine_rows)
    scaling = fit_scaler(features, scaler)
    draws = ENCODINGS[encoding].draws
    row_bytes = config.beats(features.shape[1]) * config.beat_bytes
    packed = tuple(np.empty((len(features), row_bytes), np.uint8)
                   for _ in range(copies if draws else 1))
    fine = np.empty(features.shape, np.int16) if fine_rows else None
    total = 0.0
    for block, (start, stop, positions, noise) in enumerate(_blocks(features, scaling, grid)):
        total = total + noise
        for copy, rows in enumerate(packed):
            rows[start:stop] = _pack(grid, positions, bus_width, (seed, copy, block))
        if fine is not None:
            fine[start:stop] = grid.fine_values(positions, config.fine_fraction)
        if progress is not None:
            progress(stop)
    return QuantizedRows(
        bits=int(bits), encoding=encoding, bus_width=bus_width, n_features=features.shape[1],
        packed=packed if draws else packed * copies, scaler=scaling, seed=int(seed), fine_rows=fine,
        variance=np.reshape(total, (-1, features.shape[1])).sum(axis=0) / len(features))


def _pack(grid: Grid, positions: np.ndarray, bus_width: int,
          stream: tuple[int, int, int]) -> np.ndarray:
    """Packed codes of a block; the stream of its draws is that of seed, copy and block."""
    seed, *key = stream
    rng = None
    if ENCODINGS[grid.encoding].draws:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
    codes = grid.codes(positions, rng)
    return pack_floats(codes, bus_width) if grid.row_format == "float32" \
        else pack_codes(codes, grid.bits, bus_width)


def _blocks(features: np.ndarray, scaling: Scaler, grid: Grid) \
        -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """First row, end row, positions on the grid, and sum of the variances of each block of rows.

    The sums have as many entries as some rows have values together; entry i is of column
    ``i % n_features``.
    """
    n_rows, n_features = features.shape
    work = Workspace(n_rows, n_features)
    centre, scale = (np.tile(part, work.joined) for part in (scaling.centre, scaling.scale))
    draws = ENCODINGS[grid.encoding].draws
    for _, start, stop in row_blocks(n_rows, n_features):
        work.fill(features[start:stop])
        np.subtract(work.wide, centre, out=work.wide)
        np.divide(work.wide, scale, out=work.wide)
        positions = grid.positions(work.rows)[:stop - start]
        work.rows[:stop - start] = grid.variance(positions) if draws else 0
        work.rows[stop - start:] = 0
        yield start, stop, positions, work.wide.sum(axis=0)


def _check_options(encoding, copies, seed, fine_rows):
    check_integer("copies", copies, 1, MAX_COPIES)
    check_integer("seed", seed, 0)
    if fine_rows and not ENCODINGS[encoding].cell:
        raise ValueError(f"fine_rows must be False for encoding {encoding!r}, not {fine_rows!r}: "
                         f"they are kept for the encodings {fine_encodings()}")


def checked_features(features: np.ndarray) -> np.ndarray:
    """Features as an array of shape (n_rows, n_features); DataError if they are none."""
    features = np.asarray(features)
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise DataError("features must be numbers of shape (n_rows, n_features), not "
                        f"{features.dtype} of shape {features.shape}")
    if features.shape[0] < 1 or not 1 <= features.shape[1] <= MAX_FEATURES:
        raise DataError(f"features must have at least one row and 1 to {MAX_FEATURES} columns, "
                        f"not shape {features.shape}")
    return features
