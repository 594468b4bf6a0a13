"""Labels to the integers that a pipeline compares with dot products."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bitstep.checks import check_choice
from bitstep.data.dataset import MAX_CLASSES, TASKS, DataError, check_unmasked
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.shapes import LABEL_BITS, label_bytes

LABEL_FORMATS = {16: LabelFormat.INT16, 32: LabelFormat.INT32}
# Largest L by stored bits. A weight of 32 times the largest label must fit a model word with any
# code, also of 1 bit, so 32 stored bits hold numbers of 27.
LABEL_LIMITS = {16: (1 << 15) - 1, 32: (1 << 26) - 1}
MAX_LABEL = 1e100           # squares of residuals must stay finite, and above 0
LEAST_RANGE = 1 / MAX_LABEL
LABEL_BLOCK = 1 << 16       # labels of a block: whole words of every format
_WORD_ROWS = 64             # labels that fill whole words of every format
SPREAD_ROWS = 1 << 16       # whose labels tell their spread
NORMAL_MEDIAN = 1.4826      # standard deviation of a normal variable over its median distance
FAR = 500.0                 # spreads; 16 bits then have 65 steps for each


@dataclass(frozen=True, eq=False)
class LabelStream:
    """Stored labels, and the values that they stand for.

    Parameters
    ----------
    stored : ndarray of uint8
        Stored labels, whole 8-byte words.
    label_format : LabelFormat
        ``SIGN`` for two classes, ``INT16`` for more, ``INT16`` or ``INT32`` for a regression.
    scale, offset : float
        A label is ``offset + scale * L``, with L the stored integer; 1 and 0 for classes.
    classes : ndarray of float64 or str, shape (n_classes,), or None
        Two classes: those of L = -1 and L = +1; more: those of L = 0, 1, 2 and so on. In increasing
        order; None for a regression. A pipeline trains on two; of more, one against the rest
        (:func:`bitstep.training.train.class_outputs`).
    limit : int or None
        Largest magnitude of L in the range that a regression's labels were given; None: the range
        is that of the labels themselves.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    stored: np.ndarray = field(repr=False)
    label_format: LabelFormat
    scale: float
    offset: float
    classes: np.ndarray | None
    limit: int | None = None

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return "regression" if self.classes is None else "classification"

    def integers(self, n_rows: int) -> np.ndarray:
        """The first stored labels L, shape (n_rows,); +1 and -1 for format ``SIGN``."""
        return unpack_labels(self.stored, self.label_format, n_rows)

    def part(self, start: int, stop: int) -> np.ndarray:
        """Stored labels of the rows from ``start`` to ``stop``, as :meth:`integers`."""
        base = start - start % _WORD_ROWS
        first, last = (label_bytes(row, self.label_format) for row in (base, stop))
        return unpack_labels(self.stored[first:last], self.label_format, stop - base)[start - base:]

    def blocks(self, n_rows: int) -> Iterator[np.ndarray]:
        """Stored labels of all rows of a data set, a block at a time."""
        for start in range(0, n_rows, LABEL_BLOCK):
            yield self.part(start, min(start + LABEL_BLOCK, n_rows))

    def largest(self, n_rows: int) -> int:
        """Largest magnitude of a stored label of a data set."""
        return max(int(np.abs(part).max()) for part in self.blocks(n_rows))

    def __post_init__(self):
        if not (np.isfinite(self.offset) and 0 < self.scale < np.inf):
            raise ValueError("label_offset must be finite and label_scale finite and positive, not "
                             f"{self.offset} and {self.scale}")
        if self.classes is None:
            if self.label_format == LabelFormat.SIGN:
                raise ValueError("1-bit labels must have classes")
            return
        count = len(self.classes)
        if self.classes.ndim != 1 or not 2 <= count <= MAX_CLASSES \
                or not (self.classes[1:] > self.classes[:-1]).all():
            raise ValueError(f"classes must be 2 to {MAX_CLASSES} increasing numbers or names, "
                             f"not {self.classes}")
        expected = LabelFormat.SIGN if count == 2 else LabelFormat.INT16
        if self.label_format != expected:
            raise ValueError(f"labels of {count} classes must be {expected.name}, "
                             f"not {LabelFormat(self.label_format).name}")
        if count > 2:
            # With the padding, whose zeros are a class's number, too.
            stored = 8 * self.stored.size // LABEL_BITS[expected]
            ends = [(part.min(), part.max()) for part in self.blocks(stored)]
            low, high = min(low for low, _ in ends), max(high for _, high in ends)
            if low < 0 or high >= count:
                raise ValueError(f"labels of {count} classes must be numbers from 0 to "
                                 f"{count - 1}, not {low} to {high}")


def middle_and_spread(blocks: Iterable[np.ndarray], n_rows: int) -> tuple[float, float]:
    """Median of a regression's labels, and their standard deviation as far as outliers do not
    count: 1.4826 times the median of the distances to the median. Where half of the labels are
    alike it is the standard deviation itself.

    Parameters
    ----------
    blocks : iterable of ndarray
        All labels in their order, ``LABEL_BLOCK`` of them in each but the last. At most 65,536
        rows, evenly spaced, tell for all.
    n_rows : int
        Number of labels.
    """
    stride = -(-n_rows // SPREAD_ROWS)
    some = np.concatenate([block[-(start % stride) % stride::stride] for start, block in zip(
        itertools.count(0, LABEL_BLOCK), blocks)])
    middle = np.median(some)
    spread = NORMAL_MEDIAN * np.median(np.abs(some - middle))
    return float(middle), float(spread or np.std(some))


def near_range(labels: np.ndarray, loss: Loss) -> tuple[float, float] | None:
    """Range in which labels are stored if it is narrower than their own; else None.

    Only a loss with a clipped derivative narrows it, to 500 spreads on either side of the median. A
    label farther off is far beyond the bound, where the derivative does not depend on it. Storing
    it as it is would leave few integers to the others.

    Parameters
    ----------
    labels : array of numbers, shape (n_rows,)
        Finite.
    loss : Loss
        Loss that is trained on them.
    """
    if not LOSSES[loss].clipped:
        return None
    values = np.asarray(labels, np.float64)
    # Of labels that :func:`quantize_labels` refuses.
    with np.errstate(over="ignore", invalid="ignore"):
        middle, spread = middle_and_spread(
            (values[start:start + LABEL_BLOCK] for start in range(0, len(values), LABEL_BLOCK)),
            len(values))
        low, high = float(values.min()), float(values.max())
        near = max(low, middle - FAR * spread), min(high, middle + FAR * spread)
    return near if near != (low, high) else None


def sign_labels(signs: np.ndarray) -> LabelStream:
    """Labels +1 and -1 as one output of a classification has them.

    Unlike :func:`quantize_labels` it accepts a single sign: in a part of the data some class may be
    missing.

    Parameters
    ----------
    signs : ndarray, shape (n_rows,)
        One column of :func:`bitstep.training.train.class_targets`.
    """
    return LabelStream(pack_labels(signs.astype(np.int64), LabelFormat.SIGN), LabelFormat.SIGN,
                       1.0, 0.0, np.array([-1.0, 1.0]))


def quantize_labels(labels: np.ndarray, n_rows: int, *, task: str = "regression",
                    label_bits: int = 16, center_labels: bool = True,
                    label_range: tuple[float, float] | None = None) -> LabelStream:
    """Store labels as integers, and pack them.

    Parameters
    ----------
    labels : array of numbers, shape (n_rows,)
        Finite.
    n_rows : int
        Rows of the features.
    task : {"regression", "classification"}
        A classification has 2 to 256 distinct labels. Two are stored as a bit each, more as
        int16.
    label_bits : {16, 32}
        Stored bits of a regression's label; L is rounded to nearest, at most 2**15 - 1 in
        magnitude with 16 bits and 2**26 - 1 with 32.
    center_labels : bool
        True for a regression's offset in the centre of the labels' range (else 0).
    label_range : (float, float) or None
        Lowest and highest label of a regression; labels beyond count as the nearer one. None: the
        range of the labels.

    Returns
    -------
    LabelStream

    Raises
    ------
    DataError
        If the labels do not fit the features or the task.
    ValueError
        If task or label_bits are unknown, or the range is empty.
    """
    check_choice("task", task, TASKS)
    if label_bits not in LABEL_FORMATS:
        raise ValueError(f"label_bits must be 16 or 32, not {label_bits!r}")
    values = _finite(labels, n_rows)
    if task == "classification":
        return _classes(values)
    if label_range is None:
        return _numbers(values, label_bits, (float(values.min()), float(values.max())),
                        center_labels)
    low, high = map(float, label_range)
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError("label_range must be two finite numbers, the lower one first, not "
                         f"{label_range!r}")
    return replace(_numbers(np.clip(values, low, high), label_bits, (low, high), center_labels),
                   limit=LABEL_LIMITS[label_bits])


def _finite(labels: np.ndarray, n_rows: int) -> np.ndarray:
    """Labels as float64; DataError unless there is a finite number for each row."""
    check_unmasked("labels", labels)
    values = np.asarray(labels)
    if values.shape != (n_rows,):
        raise DataError(f"labels must have shape ({n_rows},), one a row of the features, "
                        f"not {values.shape}")
    if values.dtype.kind not in "fiub":
        raise DataError(f"labels must be numbers, not {values.dtype}; replace class names by "
                        "numbers")
    values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise DataError(f"labels must be finite, not {values[row]} (row {row}, counted from 0); "
                        "remove the row")
    return values


def _numbers(values: np.ndarray, label_bits: int, span: tuple[float, float],
             center: bool) -> LabelStream:
    """Labels of a regression, counted from the centre of their range or from 0."""
    low, high = span
    offset = low / 2 + high / 2 if center else 0.0
    limit = LABEL_LIMITS[label_bits]
    # Constant labels, all L = 0, fit any scale: take that of a range from -1 to 1.
    largest = max(high - offset, offset - low) or 1.0
    scale = largest / limit
    if not scale > 0 or largest > MAX_LABEL:
        raise DataError("labels must have a range that fits 64-bit floating point, below "
                        f"{MAX_LABEL:g} in magnitude, not {low:g} to {high:g}; scale them")
    if low < high and max(high - offset, offset - low) < LEAST_RANGE:
        raise DataError(f"labels must be all the same or have a range of at least {LEAST_RANGE:g}, "
                        f"not {low:g} to {high:g}; scale them")
    stored = _pack(values, LABEL_FORMATS[label_bits], lambda part: np.clip(
        np.rint((part - offset) / scale), -limit, limit).astype(np.int64))
    return LabelStream(stored, LABEL_FORMATS[label_bits], scale, offset, None)


def _classes(values: np.ndarray) -> LabelStream:
    classes = distinct(values)
    if len(classes) == 1:
        raise DataError(f"A classification must have two classes, but every label is "
                        f"{classes[0]:g}; check the labels, or how rows were split")
    if len(classes) > MAX_CLASSES:
        raise DataError(f"A classification must have at most {MAX_CLASSES} classes, but the labels "
                        f"take {len(classes)} values; train a regression on them")
    if len(classes) > 2:
        stored = _pack(values, LabelFormat.INT16, lambda part: np.searchsorted(classes, part))
        return LabelStream(stored, LabelFormat.INT16, 1.0, 0.0, classes)
    stored = _pack(values, LabelFormat.SIGN, lambda part: np.where(part == classes[1], 1, -1))
    return LabelStream(stored, LabelFormat.SIGN, 1.0, 0.0, classes)


def distinct(values: np.ndarray) -> np.ndarray:
    """Values that occur, in increasing order; as numpy.unique, but with little memory for few."""
    found = values[:0]
    for start in range(0, len(values), LABEL_BLOCK):
        found = np.unique(np.concatenate([found, np.unique(values[start:start + LABEL_BLOCK])]))
    return found


def broken_class(classes: np.ndarray) -> float | None:
    """The least of more than two classes that is no whole number: such labels are the values of a
    regression. None if there is no such class.
    """
    if len(classes) < 3 or classes.dtype.kind != "f":
        return None
    broken = classes[classes != np.rint(classes)]
    return float(broken[0]) if len(broken) else None


def _pack(values: np.ndarray, label_format: LabelFormat,
          integers: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Stored labels, whose integers are made for a block at a time."""
    stored = np.empty(label_bytes(len(values), label_format), np.uint8)
    for start in range(0, len(values), LABEL_BLOCK):
        part = pack_labels(integers(values[start:start + LABEL_BLOCK]), label_format)
        first = label_bytes(start, label_format)
        stored[first:first + len(part)] = part
    return stored
