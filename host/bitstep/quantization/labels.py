"""Labels to the integers that a pipeline compares with dot products."""

from dataclasses import dataclass, field

import numpy as np

from bitstep.checks import check_choice
from bitstep.data.dataset import TASKS, DataError
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.shapes import LABEL_BITS

LABEL_FORMATS = {16: LabelFormat.INT16, 32: LabelFormat.INT32}
# Largest L by stored bits. A weight of 32 times the largest label must fit a model word with any
# code, also of 1 bit, so 32 stored bits hold numbers of 27.
LABEL_LIMITS = {16: (1 << 15) - 1, 32: (1 << 26) - 1}
MAX_LABEL = 1e100           # squares of residuals must stay finite
MAX_CLASSES = 256           # more different labels than this are a regression's


@dataclass(frozen=True, eq=False)
class LabelStream:
    """Packed labels, and the values that they stand for.

    Parameters
    ----------
    packed : ndarray of uint8
        Packed labels, whole 8-byte words.
    label_format : LabelFormat
        ``SIGN`` for two classes, ``INT16`` for more, ``INT16`` or ``INT32`` for a regression.
    scale, offset : float
        A label is ``offset + scale * L``, with L the stored integer; 1 and 0 for classes.
    classes : ndarray of float64, shape (n_classes,), or None
        Two classes: those of L = -1 and L = +1; more: those of L = 0, 1, 2 and so on. In increasing
        order; None for a regression. A pipeline trains on two; of more, one against the rest
        (:func:`bitstep.training.train.class_outputs`).

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    packed: np.ndarray = field(repr=False)
    label_format: LabelFormat
    scale: float
    offset: float
    classes: np.ndarray | None

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return "regression" if self.classes is None else "classification"

    def integers(self, n_rows: int) -> np.ndarray:
        """The first stored labels L, shape (n_rows,); +1 and -1 for format ``SIGN``."""
        return unpack_labels(self.packed, self.label_format, n_rows)

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
                or not (np.diff(self.classes) > 0).all():
            raise ValueError(f"classes must be 2 to {MAX_CLASSES} increasing numbers, "
                             f"not {self.classes}")
        expected = LabelFormat.SIGN if count == 2 else LabelFormat.INT16
        if self.label_format != expected:
            raise ValueError(f"labels of {count} classes must be {expected.name}, "
                             f"not {LabelFormat(self.label_format).name}")
        if count > 2:
            # With the padding, whose zeros are a class's number, too.
            numbers = self.integers(8 * self.packed.size // LABEL_BITS[expected])
            if numbers.min() < 0 or numbers.max() >= count:
                raise ValueError(f"labels of {count} classes must be numbers from 0 to "
                                 f"{count - 1}, not {numbers.min()} to {numbers.max()}")


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
                    label_bits: int = 16, center_labels: bool = True) -> LabelStream:
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

    Returns
    -------
    LabelStream

    Raises
    ------
    DataError
        If the labels do not fit the features or the task.
    ValueError
        If task or label_bits are unknown.
    """
    check_choice("task", task, TASKS)
    if label_bits not in LABEL_FORMATS:
        raise ValueError(f"label_bits must be 16 or 32, not {label_bits!r}")
    values = np.asarray(labels)
    if values.shape != (n_rows,):
        raise DataError(f"labels must have shape ({n_rows},), one a row of the features, "
                        f"not {values.shape}")
    if values.dtype.kind not in "fiub":
        raise DataError(f"labels must be numbers, not {values.dtype}; replace class names by "
                        "numbers")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise DataError(f"labels must be finite, not {values[row]} (row {row}, counted from 0); "
                        "remove the row")
    if task == "classification":
        return _classes(values)
    low, high = float(values.min()), float(values.max())
    offset = low / 2 + high / 2 if center_labels else 0.0
    limit = LABEL_LIMITS[label_bits]
    # Constant labels, all L = 0, fit any scale: take that of a range from -1 to 1.
    largest = max(high - offset, offset - low) or 1.0
    scale = largest / limit
    if not scale > 0 or largest > MAX_LABEL:
        raise DataError("labels must have a range that fits 64-bit floating point, below "
                        f"{MAX_LABEL:g} in magnitude, not {low:g} to {high:g}; scale them")
    levels = np.clip(np.rint((values - offset) / scale), -limit, limit).astype(np.int64)
    label_format = LABEL_FORMATS[label_bits]
    return LabelStream(pack_labels(levels, label_format), label_format, scale, offset, None)


def _classes(values: np.ndarray) -> LabelStream:
    classes, numbers = np.unique(values, return_inverse=True)
    if len(classes) == 1:
        raise DataError(f"A classification must have two classes, but every label is "
                        f"{classes[0]:g}; check the labels, or how rows were split")
    if len(classes) > MAX_CLASSES:
        raise DataError(f"A classification must have at most {MAX_CLASSES} classes, but the labels "
                        f"take {len(classes)} values; train a regression on them")
    if len(classes) > 2:
        return LabelStream(pack_labels(numbers.reshape(-1), LabelFormat.INT16), LabelFormat.INT16,
                           1.0, 0.0, classes)
    packed = pack_labels(np.where(values == classes[1], 1, -1), LabelFormat.SIGN)
    return LabelStream(packed, LabelFormat.SIGN, 1.0, 0.0, classes)
