"""A run that sums the gradient of all rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from bitstep.pipeline.config import MODEL_WIDTH
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Saturation
from bitstep.pipeline.results import GradientSum, SaturationError


def gradient_job(job: TrainingJob) -> TrainingJob:
    """The job of a run that sums the gradient at another job's model: one batch, in which no word
    leaves its range. It is the low half of a sum of 64 bits, whose high half is written behind it
    (docs/memory-layout.md).
    """
    return replace(job, batch=job.n_rows, correction_period=0, proximal_period=0, constants=None,
                   constant_intercept=0)


def gradient_of(run: Any, timeout_s: float) -> GradientSum:
    """Run a :class:`bitstep.devices.driver.Run` of such a job to its end; return what the words of
    the first model have lost.
    """
    job = run.job
    try:
        run.finish(timeout_s)
    except SaturationError as error:
        return GradientSum(np.zeros(job.n_features, np.int64), 0, error.saturation,
                           counters=error.result.counters)
    low, high = run.results()
    words = job.model - _joined(low.models[0], high.models[0])
    intercept = job.intercept - _joined(low.intercepts, high.intercepts)
    return GradientSum(words, int(intercept[0]), Saturation(0), counters=low.counters)


def _joined(low, high):
    """Sums of 64 bits of their halves, both signed."""
    return low + (high.astype(np.int64) << MODEL_WIDTH)
