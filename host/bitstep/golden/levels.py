"""Levels of the rows of a job."""

import numpy as np

from bitstep.pipeline.bit_planes import from_bit_planes, middle_levels
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.levels import decode, look_up, unpack_codes


def levels_of(job: TrainingJob, stored: np.ndarray, planes: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels of stored rows of integers, for the dot product and for the gradient.

    Parameters
    ----------
    stored : ndarray of uint8
        One of the job's copies of the rows.
    planes : int
        Bit planes of bit-plane rows; 0 for others.

    Returns
    -------
    dot, gradient : ndarray of int64, shape (n_rows, n_features)
    """
    if planes:
        codes = from_bit_planes(stored, job.n_features, planes, 0, job.n_rows)
        levels = middle_levels(codes, planes)
        return levels, levels
    codes = unpack_codes(stored, job.config.rows, job.n_features)
    if job.codebooks is None:
        return decode(codes, bits=job.config.bits, row_format=job.config.row_format)
    levels = look_up(codes, job.codebooks)
    return levels, levels
