"""Diagonal corrections between the epochs of a job, where none fits within them.

A pipeline makes diagonal corrections between batches. Where an epoch has one batch only (or fewer
rows than floating-point rows need between two corrections), it makes none. Then each epoch is a run
of its own, and the host corrects its result::

    e = round(x * coefficient * mantissa / 2**shift), x the model before the epoch
    x <- prox(x after the rows of the epoch + e)

For a batch of all rows that is the exact gradient step: rows and correction see the same model.
"""

from dataclasses import replace

import numpy as np

from bitstep.golden.rounding import fits
from bitstep.golden.steps import correction, proximal_step
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps, TrainingJob
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep.pipeline.registers import Overflow


def without_corrections(job: TrainingJob) -> TrainingJob:
    """The rows of the next epoch of a job, to which :func:`corrected` adds the rest."""
    return replace(job, epochs=job.epochs[:1], rows=job.rows[:1], proximal_period=0,
                   box_limit=MODEL_LIMIT)


def corrected(job: TrainingJob, before: np.ndarray, after: np.ndarray,
              steps: EpochSteps) -> np.ndarray | Overflow:
    """Weights after the rows, the correction and the proximal step of an epoch, or what left
    its range.

    Parameters
    ----------
    job : TrainingJob
    before, after : ndarray of int32, shape (n_features,)
        Model before the epoch, and after its rows.
    steps : EpochSteps
    """
    exact = correction(before.astype(np.int64), job.coefficients.astype(np.int64), steps)
    if not all(fits(value, MODEL_WIDTH) for value in exact):
        return Overflow.CORRECTION
    words = after.astype(np.int64) + exact.astype(np.int64)
    if job.proximal_period:
        words = proximal_step(words, steps.threshold, job.box_limit)
    return words.astype(np.int32) if fits(words, MODEL_WIDTH) else Overflow.MODEL
