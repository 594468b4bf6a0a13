"""Levels of the rows of a job."""

import numpy as np

from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.levels import decode, look_up, unpack_codes
from bitstep.pipeline.woven import middle_levels, unweave


def levels_of(job: TrainingJob, packed: np.ndarray, planes: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels of packed rows of integers, for the dot product and for the gradient.

    Parameters
    ----------
    packed : ndarray of uint8
        One of the job's copies of the rows.
    planes : int
        Bit planes of woven rows; 0 for others.

    Returns
    -------
    dot, gradient : ndarray of int64, shape (n_rows, n_features)
    """
    if planes:
        codes = unweave(packed, job.n_features, planes, 0, job.n_rows)
        levels = middle_levels(codes, planes)
        return levels, levels
    codes = unpack_codes(packed, job.config.rows, job.n_features)
    if job.level_tables is None:
        return decode(codes, bits=job.config.bits, row_format=job.config.row_format)
    levels = look_up(codes, job.level_tables)
    return levels, levels
