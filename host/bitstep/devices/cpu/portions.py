"""Portions of an epoch: rows that are taken between two looks at clock and keyboard."""

from collections.abc import Iterator

import numpy as np

from bitstep.devices.cpu.arithmetic import fill_dithers
from bitstep.pipeline.job import TrainingJob

PORTION_VALUES = 1 << 24    # values in a portion: some 10 milliseconds
PORTION_ROWS = 1 << 16
SHARES = 2                  # portions for each thread, so that all of them end together,
SHARE_VALUES = 1 << 20      # unless they would be smaller than this, which takes some 0.2 ms


def portions(job: TrainingJob, n_models: int = 1,
             values: int = PORTION_VALUES) -> Iterator[tuple[int, int]]:
    """First row and number of rows of every portion of an epoch, of so many models; a portion has
    at most so many values for all models, but at least 8 rows.
    """
    size = min(PORTION_ROWS, max(8, values // job.n_features // n_models // 8 * 8))
    for first in range(0, job.n_rows, size):
        yield first, min(size, job.n_rows - first)


def shares(job: TrainingJob, threads: int) -> Iterator[tuple[int, int]]:
    """:func:`portions` for threads that work at the same time: several for each if rows suffice."""
    share = job.n_rows * job.n_features // (SHARES * threads)
    return portions(job, values=min(PORTION_VALUES, max(SHARE_VALUES, share)))


def dithers_of(key: int, first: int, n_rows: int) -> np.ndarray:
    """Dithers of rows, int64; ``first`` is a multiple of 4."""
    dithers = np.empty(n_rows, np.int64)
    fill_dithers(key, first, dithers)
    return dithers
