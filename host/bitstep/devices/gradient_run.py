"""A run that sums the gradient of all rows."""

import contextlib
from dataclasses import replace

import numpy as np

from bitstep.devices.base import RegisterAccess
from bitstep.devices.driver import Run
from bitstep.pipeline.config import MODEL_WIDTH
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Saturation
from bitstep.pipeline.results import GradientSum, SaturationError


class GradientRun(Run):
    """Run of one epoch whose batch holds all rows, in which no model word leaves its range: it is
    the low half of a sum of 64 bits, whose high half is written behind it (docs/memory-layout.md).

    Parameters
    ----------
    device : RegisterAccess
        Its pipeline has ``sums_gradients``.
    job : TrainingJob
        Of woven rows and one epoch. Its batch, corrections and proximal steps do not count.
    stack : contextlib.ExitStack
        Frees the buffers at its end.
    """

    is_gradient = True
    blocks = 2      # pyright: ignore[reportAssignmentType]

    def __init__(self, device: RegisterAccess, job: TrainingJob, stack: contextlib.ExitStack):
        super().__init__(device, replace(
            job, batch=job.n_rows, correction_period=0, proximal_period=0, constants=None,
            constant_intercept=0), stack)

    def gradient(self, timeout_s: float) -> GradientSum:
        """Run to the end; return what the words of the first model have lost."""
        job = self.job
        try:
            self.finish(timeout_s)
        except SaturationError as error:
            return GradientSum(np.zeros(job.n_features, np.int64), 0, error.saturation,
                               counters=error.result.counters)
        low, high = self._results()
        words = job.model - _joined(low.models[0], high.models[0])
        intercept = job.intercept - _joined(low.intercepts, high.intercepts)
        return GradientSum(words, int(intercept[0]), Saturation(0), counters=low.counters)


def _joined(low, high):
    """Sums of 64 bits of their halves, both signed."""
    return low + (high.astype(np.int64) << MODEL_WIDTH)
