"""The quantized data set: packed rows and labels, and what their integers stand for."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from bitstep.checks import is_integer
from bitstep.data.dataset import DataError
from bitstep.pipeline.config import MAX_FEATURES, PipelineConfig, ceil_div, level_limit
from bitstep.pipeline.job import label_bytes
from bitstep.pipeline.levels import unpack_codes, unpack_labels
from bitstep.pipeline.memory import pack_codes, pack_floats, unpack_floats
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization.blocks import Workspace, row_blocks
from bitstep.quantization.encodings import ENCODINGS, FULL_CELLS, Grid
from bitstep.quantization.labels import MAX_CLASSES, quantize_labels
from bitstep.quantization.scaling import Scaler, fit_scaler

MAX_COPIES = 255


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantizedDataset:
    """What a pipeline reads, and how to understand what it computes.

    Parameters
    ----------
    bits, encoding, bus_width : int, str, int
        Stored bits of a value, how they were drawn, and bits of a beat.
    n_features : int
        Features of a row.
    rows : tuple of ndarray of uint8, each of shape (n_rows, beats * bus_width / 8)
        Packed codes, one array a copy; epoch e reads ``rows[e % len(rows)]``.
    labels : ndarray of uint8
        Packed labels, whole 8-byte words.
    label_format : LabelFormat
        ``SIGN`` for two classes, ``INT16`` for more, ``INT16`` or ``INT32`` for a regression.
    label_scale, label_offset : float
        A label is ``label_offset + label_scale * L``.
    classes : ndarray of float64, shape (n_classes,), or None
        Two classes: those of L = -1 and L = +1; more: those of L = 0, 1, 2 and so on. In increasing
        order; None for a regression. A pipeline trains on two; of more, one against the rest
        (:func:`bitstep.training.train.class_outputs`).
    scaler : Scaler
        Features to u in [-1, 1].
    variance : ndarray of float64, shape (n_features,)
        D_k of docs/number-formats.md, in units of u squared: the mean over rows of the variance of
        the stored level (for ``double`` of one sample, for ``nearest`` and ``float`` 0).
    seed : int
        What the codes were drawn with.
    full : ndarray of int16, shape (n_rows, n_features), or None
        The rows at full precision, for refetching: in units of ``2 ** -full_fraction`` of a level
        (:attr:`bitstep.pipeline.config.PipelineConfig.full_fraction`), each value in the cells of
        its codes. Encodings ``nearest`` and ``stochastic`` only.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    bits: int
    encoding: str
    bus_width: int
    n_features: int
    rows: tuple[np.ndarray, ...] = field(repr=False)
    labels: np.ndarray = field(repr=False)
    label_format: LabelFormat
    label_scale: float
    label_offset: float
    classes: np.ndarray | None
    scaler: Scaler
    variance: np.ndarray = field(repr=False)
    seed: int
    full: np.ndarray | None = field(default=None, repr=False)

    @property
    def family(self) -> str:
        """Family of pipelines that decode the codes: ``single``, ``double`` or ``float``."""
        return ENCODINGS[self.encoding].family

    @property
    def level_limit(self) -> int:
        """What u = 1 counts in a dot product: the largest level, or 2**22 for ``float``."""
        return level_limit(self.bits, self.family)

    @property
    def refetch_cell(self) -> int:
        """Largest difference of a value at full precision to the level of its code, in half
        levels (1, 2 or 4); 0 if there are no rows at full precision.
        """
        if self.full is None:
            return 0
        return FULL_CELLS[self.encoding] * (2 if self.bits == 1 else 1)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows[0].shape[0]

    @property
    def copies(self) -> int:
        """Number of independently drawn copies of the rows."""
        return len(self.rows)

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return "regression" if self.classes is None else "classification"

    def __post_init__(self):
        Grid(self.encoding, self.bits)
        beats = ceil_div(self.n_features, self.row_config.lanes)
        if not 1 <= self.copies <= MAX_COPIES or self.rows[0].ndim != 2 or self.n_rows < 1:
            raise ValueError(f"rows must be 1 to {MAX_COPIES} arrays of at least one row")
        shape = (self.n_rows, beats * self.bus_width // 8)
        for copy in self.rows:
            if copy.shape != shape or copy.dtype != np.uint8:
                raise ValueError(f"rows must be uint8 of shape {shape}, not {copy.dtype} of shape "
                                 f"{copy.shape}")
        expected = label_bytes(self.n_rows, self.label_format)
        if self.labels.shape != (expected,) or self.labels.dtype != np.uint8:
            raise ValueError(f"labels must be uint8 of shape ({expected},), not "
                             f"{self.labels.dtype} of shape {self.labels.shape}")
        if not (np.isfinite(self.label_offset) and 0 < self.label_scale < np.inf):
            raise ValueError("label_offset must be finite and label_scale finite and positive, not "
                             f"{self.label_offset} and {self.label_scale}")
        self._check_classes()
        columns = (self.n_features,)
        if self.scaler.centre.shape != columns or self.variance.shape != columns:
            raise ValueError(f"scaler and variance must have shape {columns}, not "
                             f"{self.scaler.centre.shape} and {self.variance.shape}")
        if not (np.isfinite(self.variance).all() and (self.variance >= 0).all()):
            raise ValueError("variance must be finite and not negative")
        self._check_full()

    def _check_full(self):
        if self.full is None:
            return
        if self.encoding not in FULL_CELLS:
            raise ValueError("Rows at full precision are kept for the encodings "
                             f"{' and '.join(map(repr, FULL_CELLS))}, not for {self.encoding!r}")
        shape = (self.n_rows, self.n_features)
        if self.full.shape != shape or self.full.dtype != np.int16:
            raise ValueError(f"full must be int16 of shape {shape}, not {self.full.dtype} of shape "
                             f"{self.full.shape}")

    def _check_classes(self):
        if self.classes is None:
            if self.label_format == LabelFormat.SIGN:
                raise ValueError("1-bit labels must have classes")
            return
        count = len(self.classes)
        if self.classes.ndim != 1 or not 2 <= count <= MAX_CLASSES \
                or not (np.diff(self.classes) > 0).all():
            raise ValueError(f"classes must be 2 to {MAX_CLASSES} increasing numbers, "
                             f"not {self.classes}")
        expected = LabelFormat.SIGN if count == 2 else LabelFormat.INT16
        if self.label_format != expected:
            raise ValueError(f"labels of {count} classes must be {expected.name}, "
                             f"not {LabelFormat(self.label_format).name}")
        if count > 2:
            numbers = unpack_labels(self.labels, self.label_format, self.n_rows)
            if numbers.min() < 0 or numbers.max() >= count:
                raise ValueError(f"labels of {count} classes must be numbers from 0 to "
                                 f"{count - 1}, not {numbers.min()} to {numbers.max()}")

    def label_values(self) -> np.ndarray:
        """Labels of the rows: the elements of ``classes``, or, of a regression, the values that
        the stored integers stand for.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
        """
        stored = unpack_labels(self.labels, LabelFormat(self.label_format), self.n_rows)
        if self.classes is None:
            return self.label_offset + self.label_scale * stored
        return self.classes[stored if len(self.classes) > 2 else (stored > 0).astype(int)]

    @property
    def row_config(self) -> PipelineConfig:
        """The least pipeline that reads the rows: their bus width, bits, family and features."""
        return PipelineConfig(bus_width=self.bus_width, bits=self.bits, family=self.family,
                              max_features=self.n_features)

    def codes(self, copy: int = 0, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Unpacked codes of the rows from ``start`` to ``stop`` of a copy.

        Returns
        -------
        ndarray of uint8, shape (stop - start, n_features)
            Of encoding ``float``: float32, the values.
        """
        if self.family == "float":
            return unpack_floats(self.rows[copy][start:stop], self.n_features)
        return unpack_codes(self.rows[copy][start:stop], self.row_config, self.n_features)

    def with_labels(self, labels: np.ndarray, *, task: str = "classification",
                    label_bits: int | None = None,
                    center_labels: bool = True) -> "QuantizedDataset":
        """This data set with other labels and the same packed rows, which are not copied.

        Parameters and errors as in :func:`quantize`; for one class against the rest, pass
        ``labels == class``.
        """
        stream = quantize_labels(labels, self.n_rows, task=task,
                                 label_bits=_label_bits(label_bits, self.family),
                                 center_labels=center_labels)
        return replace(self, labels=stream.packed, label_format=stream.label_format,
                       label_scale=stream.scale, label_offset=stream.offset,
                       classes=stream.classes)


def quantize(features: np.ndarray, labels: np.ndarray, *, bits: int,
             encoding: str = "compensated", bus_width: int = 64, scaler: str = "minmax",
             copies: int = 1, seed: int = 0, task: str = "regression",
             label_bits: int | None = None, center_labels: bool = True, full: bool = False,
             progress: Callable[[int], None] | None = None) -> QuantizedDataset:
    """Scale, encode and pack a data set.

    The same arguments give the same bytes on every machine: block i of copy c has a random stream
    of its own, ``PCG64(SeedSequence(seed, spawn_key=(c, i)))``, and a block's size depends on the
    number of features only. Beyond its result it needs a few MB (or one row, if that is more).

    Parameters
    ----------
    features : ndarray of numbers, shape (n_rows, n_features)
        Finite; read in blocks, so it may be a memory map.
    labels : array of numbers, shape (n_rows,)
        Finite; 2 to 256 distinct ones for a classification.
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
    task : {"regression", "classification"}
        What the labels are.
    label_bits : {16, 32} or None
        Stored bits of a regression's label; None: 16, or 32 for encoding ``float``.
    center_labels : bool
        Whether a regression's labels are counted from the centre of their range (else from 0).
    full : bool
        Whether the rows are kept at full precision, too (16 bits a value), so that a pipeline can
        fetch them again; for encodings ``nearest`` and ``stochastic``.
    progress : callable, optional
        Called after each block of rows with the number of rows done.

    Returns
    -------
    QuantizedDataset

    Raises
    ------
    DataError
        If features or labels cannot be used; the message names row and column.
    ValueError
        If another argument is out of range.
    """
    grid = Grid(encoding, bits)
    features = _checked(features)
    n_rows, n_features = features.shape
    config = PipelineConfig(bus_width=bus_width, bits=bits, family=grid.family,
                            max_features=n_features)
    for name, value, low, high in (("copies", copies, 1, MAX_COPIES), ("seed", seed, 0, np.inf)):
        if not is_integer(value, low, high):
            limits = f"from {low} to {high}" if high < np.inf else f"of at least {low}"
            raise ValueError(f"{name} must be an integer {limits}, not {value!r}")
    if full and encoding not in FULL_CELLS:
        raise ValueError(f"full must be False for encoding {encoding!r}, not {full!r}: rows are "
                         "kept at full precision for the encodings "
                         f"{' and '.join(map(repr, FULL_CELLS))}")
    stream = quantize_labels(labels, n_rows, task=task,
                             label_bits=_label_bits(label_bits, grid.family),
                             center_labels=center_labels)
    scaling = fit_scaler(features, scaler)
    draws = ENCODINGS[encoding].draws
    row_bytes = config.beats(n_features) * config.beat_bytes
    rows = tuple(np.empty((n_rows, row_bytes), np.uint8) for _ in range(copies if draws else 1))
    kept = np.empty(features.shape, np.int16) if full else None
    work = Workspace(n_rows, n_features)
    centre, scale = (np.tile(part, work.joined) for part in (scaling.centre, scaling.scale))
    total = np.zeros(work.wide.shape[1])
    for block, start, stop in row_blocks(n_rows, n_features):
        work.fill(features[start:stop])
        np.subtract(work.wide, centre, out=work.wide)
        np.divide(work.wide, scale, out=work.wide)
        positions = grid.positions(work.rows)[:stop - start]
        for copy, packed in enumerate(rows):
            stream_of_block = np.random.SeedSequence(seed, spawn_key=(copy, block))
            rng = np.random.Generator(np.random.PCG64(stream_of_block)) if draws else None
            codes = grid.codes(positions, rng)
            packed[start:stop] = pack_floats(codes, bus_width) if grid.family == "float" \
                else pack_codes(codes, bits, bus_width)
        if kept is not None:
            kept[start:stop] = grid.full_precision(positions, config.full_fraction)
        if draws:
            work.rows[:stop - start] = grid.variance(positions)
            work.rows[stop - start:] = 0
            total += work.wide.sum(axis=0)
        if progress is not None:
            progress(stop)
    return QuantizedDataset(
        bits=int(bits), encoding=encoding, bus_width=bus_width, n_features=n_features,
        rows=rows if draws else rows * copies, labels=stream.packed,
        label_format=stream.label_format, label_scale=stream.scale, label_offset=stream.offset,
        classes=stream.classes, scaler=scaling, seed=int(seed), full=kept,
        variance=total.reshape(-1, n_features).sum(axis=0) / n_rows)


def _label_bits(label_bits, family):
    if label_bits is None:
        return 32 if family == "float" else 16
    return label_bits


def _checked(features: np.ndarray) -> np.ndarray:
    features = np.asarray(features)
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise DataError("features must be numbers of shape (n_rows, n_features), not "
                        f"{features.dtype} of shape {features.shape}")
    if features.shape[0] < 1 or not 1 <= features.shape[1] <= MAX_FEATURES:
        raise DataError(f"features must have at least one row and 1 to {MAX_FEATURES} columns, "
                        f"not shape {features.shape}")
    return features
