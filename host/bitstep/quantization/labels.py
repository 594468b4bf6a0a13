"""Labels to the integers that a pipeline compares with dot products."""

from dataclasses import dataclass

import numpy as np

from bitstep.data.dataset import TASKS, DataError
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat

LABEL_FORMATS = {16: LabelFormat.INT16, 32: LabelFormat.INT32}
# Largest L by stored bits. A weight of 32 times the largest label must fit a model word with any
# code, also of 1 bit, so 32 stored bits hold numbers of 27.
LABEL_LIMITS = {16: (1 << 15) - 1, 32: (1 << 26) - 1}
MAX_LABEL = 1e100           # squares of residuals must stay finite
MAX_CLASSES = 256           # more different labels than this are a regression's


@dataclass(frozen=True, eq=False)
class LabelStream:
    """Packed labels and what they stand for: ``y = offset + scale * L``.

    For two classes L is +1 for ``classes[1]`` and -1 for ``classes[0]``, for more it is the
    class's number in ``classes``, from 0; scale 1 and offset 0.
    """

    packed: np.ndarray
    label_format: LabelFormat
    scale: float
    offset: float
    classes: np.ndarray | None


def quantize_labels(labels: np.ndarray, n_rows: int, *, task: str, label_bits: int,
                    center_labels: bool) -> LabelStream:
    """The label stream of a data set.

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
        Whether a regression's offset is the centre of the labels' range (else 0).

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
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, not {task!r}")
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
