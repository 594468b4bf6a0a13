"""From features to the stored codes of a file or an array, one block of rows after the other."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bitstep.checks import check_choice, check_integer
from bitstep.data.blocks import Workspace, block_rows
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import ENCODINGS, SCALERS
from bitstep.pipeline.parts.exclusions import reason_of
from bitstep.pipeline.parts.formats import CODEBOOK_LEVEL_BITS
from bitstep.pipeline.shapes import MAX_COPIES
from bitstep.quantization.codebooks import PlaceCounts, check_levels, grid_of
from bitstep.quantization.encodings import Grid, fine_encodings
from bitstep.quantization.scaling import Scaler


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Choices of how rows are quantized; see :func:`bitstep.quantization.quantize_rows`.

    Raises
    ------
    ValueError
        If one is out of range, or they do not go together.
    """

    bits: int
    encoding: str = "compensated"
    bus_width: int = 64
    scaler: str = "minmax"
    copies: int = 1
    seed: int = 0
    fine_rows: bool = False
    levels: str = "uniform"

    def __post_init__(self):
        Grid(self.encoding, self.bits)
        check_integer("copies", self.copies, 1, MAX_COPIES)
        check_integer("seed", self.seed, 0)
        if self.fine_rows and not ENCODINGS[self.encoding].cell:
            raise ValueError(f"fine_rows must be False for encoding {self.encoding!r}, not "
                             f"{self.fine_rows!r}: they are kept for the encodings "
                             f"{fine_encodings()}")
        check_choice("scaler", self.scaler, SCALERS)
        check_levels(self.levels, self.encoding, self.bits)
        if self.fine_rows and self.levels != "uniform":
            raise ValueError(f"fine_rows must be False for levels {self.levels!r}: "
                             + reason_of("refetching", "codebooks"))

    def config(self, n_features: int) -> PipelineConfig:
        """The least pipeline that reads the rows."""
        return PipelineConfig(bus_width=self.bus_width, bits=self.bits,
                              row_format=ENCODINGS[self.encoding].row_format,
                              max_features=n_features, codebooks=self.levels != "uniform")


def tables_for(options: RowOptions, scaler: Scaler,
               pieces: Iterable[np.ndarray]) -> np.ndarray | None:
    """Tables of the levels that have the least variance for some rows: a pass over them; None for
    uniform levels, without a pass.

    Parameters
    ----------
    options : RowOptions
    scaler : Scaler
    pieces : iterable of ndarray of numbers, shape (rows, n_features)
        At most :func:`bitstep.data.blocks.block_rows` rows each.

    Returns
    -------
    ndarray of int8, shape (n_features, 2 ** bits), or None
    """
    if options.levels == "uniform":
        return None
    n_features = len(scaler.centre)
    # Positions on the grid of all levels are those of 8-bit codes.
    encoder = RowEncoder(RowOptions(bits=CODEBOOK_LEVEL_BITS, encoding="stochastic"), scaler,
                         block_rows(n_features))
    counts = PlaceCounts(n_features)
    for piece in pieces:
        counts.add(encoder.positions(piece))
    return counts.tables(options.bits)


class RowEncoder:
    """Blocks of scaled rows to stored codes, in order.

    Block i of copy c has a random stream of its own, ``PCG64(SeedSequence(seed, spawn_key=(c,
    i)))``, so a block can be encoded when its rows are there, wherever they come from.

    Parameters
    ----------
    options : RowOptions
    scaler : Scaler
        Features to u in [-1, 1].
    n_rows : int
        Rows of all blocks.
    tables : ndarray of int8, shape (n_features, 2 ** bits), or None
        Codebooks; needed unless levels are ``uniform``.
    weights : ndarray of uint16, shape (n_rows,), or None
        Weights of the rows.

    Attributes
    ----------
    bits, encoding, bus_width, seed, scaler, n_features, codebooks
        As in :class:`bitstep.quantization.rows.QuantizedRows`.
    n_rows : int
    block_rows : int
        Rows of every block but the last one.
    n_arrays : int
        Copies that differ: 1 for encodings without draws.
    """

    def __init__(self, options: RowOptions, scaler: Scaler, n_rows: int,
                 tables: np.ndarray | None = None, weights: np.ndarray | None = None):
        # Of weights alone the ratio counts.
        self._shares = None if weights is None else weights / weights.mean(dtype=np.float64)
        self.n_rows, self.n_features = n_rows, len(scaler.centre)
        self.bits, self.encoding = int(options.bits), options.encoding
        self.bus_width, self.seed = options.bus_width, int(options.seed)
        self.scaler = scaler
        self.block_rows = block_rows(self.n_features)
        self._grid = grid_of(self.encoding, self.bits, tables)
        self.n_arrays = options.copies if self._grid.draws else 1
        self._names = [f"rows_{min(copy, self.n_arrays - 1)}" for copy in range(options.copies)]
        self._config, self._fine_rows = options.config(self.n_features), options.fine_rows
        self.codebooks = tables
        self._work = Workspace(n_rows, self.n_features)
        self._centre, self._scale = (np.tile(part, self._work.joined)
                                     for part in (scaler.centre, scaler.scale))
        self._noise = np.zeros(self._work.wide.shape[1])
        self._blocks = 0

    @property
    def array_names(self) -> list[str]:
        """Name of the array of each copy, ``rows_0`` and so on."""
        return list(self._names)

    @property
    def position_type(self) -> np.dtype:
        """Type of a position on the grid, which is all that a code is drawn from."""
        return self._grid.position_type

    @property
    def variance(self) -> np.ndarray:
        """Mean quantization variance of every column, after the last block."""
        return self._noise.reshape(-1, self.n_features).sum(axis=0) / self.n_rows

    def shapes(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """Type and shape of the arrays of all rows: ``rows_0`` and so on, and ``fine_rows``."""
        row_bytes = self._config.rows.beats(self.n_features) * self._config.rows.beat_bytes
        arrays: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
            f"rows_{copy}": (np.dtype(np.uint8), (self.n_rows, row_bytes))
            for copy in range(self.n_arrays)}
        if self._fine_rows:
            arrays["fine_rows"] = (np.dtype(np.int16), (self.n_rows, self.n_features))
        return arrays

    def positions(self, features: np.ndarray) -> np.ndarray:
        """Places of features on the grid.

        Parameters
        ----------
        features : ndarray of numbers, shape (rows, n_features)
            Finite; at most ``block_rows`` rows, of any block.

        Returns
        -------
        ndarray of :attr:`position_type`, same shape
        """
        work = self._work
        work.fill(features)
        with np.errstate(over="ignore"):    # infinity, beyond a given scaler, counts as the end
            np.subtract(work.wide, self._centre, out=work.wide)
            np.divide(work.wide, self._scale, out=work.wide)
            return self._grid.positions(work.rows)[:len(features)]

    def encode(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Draw and pack the codes of the next block.

        Parameters
        ----------
        positions : ndarray, shape (rows, n_features)
            Positions of its rows: ``block_rows``, or the rest of the last block.

        Returns
        -------
        dict of str to ndarray
            Its part of every array of :meth:`shapes`.
        """
        rows = self._work.rows
        rows[:len(positions)] = self._grid.variance(positions)
        rows[len(positions):] = 0
        if self._shares is not None:
            first = self._blocks * self.block_rows
            rows[:len(positions)] *= self._shares[first:first + len(positions), None]
        self._noise += self._work.wide.sum(axis=0)
        parts = {f"rows_{copy}": self._pack(positions, copy) for copy in range(self.n_arrays)}
        if self._fine_rows:
            parts["fine_rows"] = self._grid.fine_values(positions, self._config.rows.fine_fraction)
        self._blocks += 1
        return parts

    def _pack(self, positions: np.ndarray, copy: int) -> np.ndarray:
        rng = None
        if self._grid.draws:
            key = np.random.SeedSequence(self.seed, spawn_key=(copy, self._blocks))
            rng = np.random.Generator(np.random.PCG64(key))
        return self._grid.pack(self._grid.codes(positions, rng), self.bus_width)
