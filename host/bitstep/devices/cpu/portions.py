"""Portions of an epoch: rows that are taken between two looks at clock and keyboard."""

from collections.abc import Iterator

import numpy as np

from bitstep.devices.cpu.arithmetic import fill_dithers
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.registers import LabelFormat

PORTION_VALUES = 1 << 24    # values in a portion: some 10 milliseconds
PORTION_ROWS = 1 << 16
LABEL_BITS = {LabelFormat.SIGN: 1, LabelFormat.INT16: 16, LabelFormat.INT32: 32}


def portions(job: TrainingJob, n_models: int = 1) -> Iterator[tuple[int, int]]:
    """First row and number of rows of every portion of an epoch, of so many models."""
    size = min(PORTION_ROWS, max(8, PORTION_VALUES // job.n_features // n_models // 8 * 8))
    for first in range(0, job.n_rows, size):
        yield first, min(size, job.n_rows - first)


def labels_of(job: TrainingJob, first: int, n_rows: int) -> np.ndarray:
    """Stored labels of rows, int64; ``first`` is a multiple of 8."""
    packed = job.labels[first * LABEL_BITS[job.label_format] // 8:]
    return unpack_labels(packed, job.label_format, n_rows)


def dithers_of(key: int, first: int, n_rows: int) -> np.ndarray:
    """Dithers of rows, int64; ``first`` is a multiple of 4."""
    dithers = np.empty(n_rows, np.int64)
    fill_dithers(key, first, dithers)
    return dithers
