"""Quantized rows: from features to stored codes, and back to the numbers that they stand for."""

from dataclasses import dataclass, field, replace

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import ENCODINGS
from bitstep.pipeline.shapes import (
    check_codebooks,
    check_fine_rows,
    check_rows,
    check_weights,
)
from bitstep.quantization.codebooks import grid_of
from bitstep.quantization.encodings import Grid, check_fine
from bitstep.quantization.scaling import Scaler
from bitstep.quantization.weights import WeightSums, weight_sums

_ROWS_AT_ONCE = 1 << 16     # whose codes are unpacked at the same time


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedRows:
    """Stored rows, and what their codes stand for.

    Parameters
    ----------
    bits, encoding, bus_width : int, str, int
        Stored bits of a value, how they were drawn, and bits of a beat.
    n_features : int
        Features of a row.
    stored : tuple of ndarray of uint8, each of shape (n_rows, beats * bus_width / 8)
        Stored codes, one array a copy; epoch e reads ``stored[e % len(stored)]``.
    scaler : Scaler
        Features to u in [-1, 1].
    variance : ndarray of float64, shape (n_features,)
        D_k of docs/number-formats.md, in units of u squared: the mean over rows of the variance of
        the stored level (for ``double`` of one sample, for ``nearest`` and ``float`` 0).
    seed : int
        Seed of the draws.
    fine_rows : ndarray of int16, shape (n_rows, n_features), or None
        The rows with 16 bits a value, for refetching: in units of ``2 ** -fine_fraction`` of a
        level (:attr:`bitstep.pipeline.parts.formats.RowFormat.fine_fraction`), each value in the
        cells of its codes. Encodings ``nearest`` and ``stochastic`` only.
    codebooks : ndarray of int8, shape (n_features, 2 ** bits), or None
        Level of each column's codes, in units of u / 127; None: levels are equally spaced.
    weights : ndarray of uint16, shape (n_rows,), or None
        Weights of the rows (:mod:`bitstep.quantization.weights`), by which ``variance`` counts;
        None: all alike.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    bits: int
    encoding: str
    bus_width: int
    n_features: int
    stored: tuple[np.ndarray, ...] = field(repr=False)
    scaler: Scaler
    variance: np.ndarray = field(repr=False)
    seed: int
    fine_rows: np.ndarray | None = field(default=None, repr=False)
    codebooks: np.ndarray | None = field(default=None, repr=False)
    weights: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        Grid(self.encoding, self.bits)
        check_rows(self.stored, self.config.rows, self.n_features)
        columns = (self.n_features,)
        if self.scaler.centre.shape != columns or self.variance.shape != columns:
            raise ValueError(f"scaler and variance must have shape {columns}, not "
                             f"{self.scaler.centre.shape} and {self.variance.shape}")
        if not (np.isfinite(self.variance).all() and (self.variance >= 0).all()):
            raise ValueError("variance must be finite and not negative")
        check_weights(self.weights, self.n_rows)
        if self.fine_rows is not None:
            check_fine(self.encoding)
            check_fine_rows(self.fine_rows, self.n_rows, self.n_features)
        if self.codebooks is not None:
            if not ENCODINGS[self.encoding].tabled:
                raise ValueError(f"encoding {self.encoding!r} cannot have codebooks")
            check_codebooks(self.codebooks, self.config.rows, self.n_features)
            if (np.diff(self.codebooks.astype(np.int64), axis=1) < 0).any():
                raise ValueError("codebooks must rise from code to code")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stored[0].shape[0]

    @property
    def grid(self) -> Grid:
        """What the codes stand for."""
        return grid_of(self.encoding, self.bits, self.codebooks)

    @property
    def weight_sums(self) -> WeightSums:
        """Facts of the weights."""
        return weight_sums(self.weights, self.n_rows)

    @property
    def copies(self) -> int:
        """Number of independently drawn copies of the rows."""
        return len(self.stored)

    @property
    def row_format(self) -> str:
        """Row format of pipelines that decode the codes, of
        :data:`bitstep.pipeline.parts.formats.ROW_FORMATS`.
        """
        return ENCODINGS[self.encoding].row_format

    @property
    def config(self) -> PipelineConfig:
        """The least pipeline that reads the rows: their bus width, bits, row format and
        features.
        """
        return PipelineConfig(bus_width=self.bus_width, bits=self.bits, row_format=self.row_format,
                              max_features=self.n_features,
                              codebooks=self.codebooks is not None)

    @property
    def level_limit(self) -> int:
        """Weight of u = 1 in a dot product: the largest level, or 2**22 for ``float``."""
        return self.config.rows.level_limit

    @property
    def exact(self) -> bool:
        """True if :meth:`values` are those of the rows, and no codes of few bits."""
        return self.fine_rows is not None or self.config.rows.floating

    @property
    def cell_half_levels(self) -> int:
        """Largest difference of a value of a fine row to the level of its code, in half levels
        (1, 2 or 4); 0 if there are no fine rows.
        """
        if self.fine_rows is None:
            return 0
        return ENCODINGS[self.encoding].cell * (2 if self.bits == 1 else 1)

    def for_bus(self, bus_width: int) -> "QuantizedRows":
        """Return the rows for a bus of another width: the same codes, in other beats.

        Parameters
        ----------
        bus_width : {64, 128, 256, 512}
            Bits of a beat.
        """
        if bus_width == self.bus_width:
            return self
        return replace(self, bus_width=bus_width, stored=tuple(
            np.concatenate([self.grid.pack(self._unpack(copy[start:start + _ROWS_AT_ONCE]),
                                           bus_width)
                            for start in range(0, len(copy), _ROWS_AT_ONCE)])
            for copy in self.stored))

    def codes(self, copy: int = 0, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Codes of the rows from ``start`` to ``stop`` of a copy.

        Returns
        -------
        ndarray of uint8, shape (stop - start, n_features)
            Of encoding ``float``: float32, the values.
        """
        return self._unpack(self.stored[copy][start:stop])

    def levels(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled features that the codes of some rows of the first copy stand for.

        Returns
        -------
        dots, gradients : ndarray of float64, shape (rows chosen, n_features)
            Both samples of row format ``two_levels``; the same array twice for the others.
        """
        return self.grid.values(self._unpack(np.ascontiguousarray(self.stored[0][rows])))

    def values(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scaled features of some rows, as exactly as they are known: of the fine rows where there
        are some, else :meth:`levels`, whose shapes these are.
        """
        if self.fine_rows is None:
            return self.levels(rows)
        scale = self.level_limit * 2.0 ** self.config.rows.fine_fraction
        values = self.fine_rows[rows] / scale
        return values, values

    def _unpack(self, stored):
        return self.grid.unpack(stored, self.config.rows, self.n_features)
