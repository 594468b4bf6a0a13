"""Weights of rows as rows of a pass hold them: 16 bits each, of which the ratio counts.

A stored weight w is the factor w / 2**16 of a row's updates (:attr:`TrainingJob.weights
<bitstep.pipeline.job.TrainingJob>`). Weights in ratios of whole numbers up to 65,535 are exact;
others are rounded by at most 2**-17 of the largest.
"""

import numpy as np

from bitstep.pipeline.shapes import WEIGHT_BITS

MAX_WEIGHT = (1 << WEIGHT_BITS) - 1
_FEW = 16                   # different weights, of which a common unit is looked for
_RATIO = 1e-12              # of whole numbers, relative: what division rounds


def stored_weights(weights: np.ndarray) -> np.ndarray:
    """Weights as 16 bits hold them.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Finite and above 0.

    Returns
    -------
    ndarray of uint16, shape (n_rows,)
        At least 1. Of at most 16 different weights in ratios of whole numbers the whole numbers,
        times the largest power of two: so fewer bits of a step are needed for an exact product.

    Examples
    --------
    >>> stored_weights(np.array([0.5, 1.0, 1.5])).tolist()
    [16384, 32768, 49152]
    """
    values, places = np.unique(weights, return_inverse=True)
    found = _whole(values) if len(values) <= _FEW else None
    if found is None:
        found = np.maximum(np.rint(values / values[-1] * MAX_WEIGHT), 1)
    return found.astype(np.uint16)[places.reshape(-1)]


def _whole(values):
    """Whole numbers in the ratio of rising values, or None."""
    most = int(MAX_WEIGHT * (values[0] / values[-1]))       # of the least
    found = values[:, None] * (np.arange(1, most + 1) / values[0])
    whole = (np.abs(found - np.rint(found)) <= _RATIO * found).all(axis=0)
    if not whole.any():
        return None
    numbers = np.rint(found[:, whole.argmax()])
    return numbers * 2.0 ** (WEIGHT_BITS - int(numbers[-1]).bit_length())


def mean_weight(stored: np.ndarray | None) -> float:
    """Mean factor of the rows; 1 without weights."""
    return 1.0 if stored is None else float(stored.mean(dtype=np.float64)) / (1 << WEIGHT_BITS)


def largest_weight(stored: np.ndarray | None) -> float:
    """Largest weight over the mean one; 1 without weights."""
    return 1.0 if stored is None else float(stored.max()) / float(stored.mean(dtype=np.float64))


def fraction_bits(stored: np.ndarray | None) -> int:
    """Bits that the weights have below their largest common power of two, of 16: a step whose
    mantissa has as many zeros at its end is not rounded by any row.
    """
    if stored is None:
        return 0
    together = int(np.bitwise_or.reduce(stored))
    return WEIGHT_BITS - (together & -together).bit_length() + 1
