"""Runs of full passes: one sums the gradient of all rows, one writes the derivatives of rows."""

import contextlib
from dataclasses import replace

import numpy as np

from bitstep.devices.base import Buffer
from bitstep.devices.derivatives import joined_counters
from bitstep.devices.driver import Run
from bitstep.pipeline.config import MODEL_WIDTH
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import LabelFormat, Saturation
from bitstep.pipeline.results import COUNTER_NAMES, GradientSum, SaturationError, collect
from bitstep.pipeline.shapes import label_bytes


class GradientRun(Run):
    """A run that sums the gradient of a job's loss at its model: an epoch of one batch, in which no
    word leaves its range. It is the low half of a sum of 64 bits, whose high half is written behind
    it (docs/memory-layout.md). Parameters as of :class:`bitstep.devices.driver.Run`.
    """

    registers = {"GRADIENT": 1, "DERIVATIVES": 0}

    def __init__(self, device, job: TrainingJob, stack: contextlib.ExitStack):
        super().__init__(device, replace(
            job, batch=job.n_rows, correction_period=0, proximal_period=0, constants=None,
            constant_intercept=0), stack)

    @property
    def blocks(self) -> int:
        """Blocks as large as a model that an epoch writes: both halves of the sums."""
        return 2

    def sums(self, timeout_s: float) -> GradientSum:
        """Run to the end; return what the words of the first model have lost."""
        job = self.job
        try:
            self.finish(timeout_s)
        except SaturationError as error:
            return GradientSum(np.zeros(job.n_features, np.int64), 0, error.saturation,
                               counters=error.result.counters)
        low, high = self.results()
        words = job.model - _joined(low.models[0], high.models[0])
        intercept = job.intercept - _joined(low.intercepts, high.intercepts)
        return GradientSum(words, int(intercept[0]), counters=low.counters,
                           planes_read=job.epochs[0].planes)


class DerivativeRun(GradientRun):
    """A run that writes the derivative of each row's loss at the first planes of its code, as
    labels of format INT32.

    It is a run of a gradient whose step makes the derivative, with 16 fraction bits, the update of
    a row
    (:func:`bitstep.devices.derivatives.derivative_job`); they are written in place of the gradient.
    """

    registers = {"GRADIENT": 1, "DERIVATIVES": 1}

    @property
    def n_written(self) -> int:
        """Bytes of the labels."""
        return label_bytes(self.job.n_rows, LabelFormat.INT32)

    def results(self):
        """The job's model, which such a run does not change, after a run that was finished."""
        done = min(self.read("EPOCHS_DONE"), 1)
        counters = {name: self.read_pair(name.upper()) for name in COUNTER_NAMES}
        return [collect([self.job.model] * done, [self.job.intercept] * done, self.job.n_features,
                        counters)]

    def beside(self, gradient: GradientSum, timeout_s: float) -> GradientSum:
        """Run to the end; return a gradient together with the derivatives."""
        try:
            counters = self.finish(timeout_s).counters
            saturation, derivatives = Saturation(0), self._derivatives()
        except SaturationError as error:
            counters, saturation, derivatives = error.result.counters, error.saturation, None
        return replace(gradient, saturation=saturation, derivatives=derivatives,
                       planes_read=gradient.planes_read + self.job.epochs[0].planes,
                       counters=joined_counters(gradient.counters, counters))

    def _derivatives(self):
        self.models.from_device()
        found, kept = self.models.array[:self.n_written].copy(), self.device.kept_rows
        if kept is not None:
            kept.keep_labels(found, self.models)
        return found

    def _buffer(self, name, n_bytes, *arguments) -> Buffer:
        # The labels may stay in memory for the runs that read them.
        kept = self.device.kept_rows if name == "models" else None
        return super()._buffer(name, n_bytes, *arguments, **({"kept": kept} if kept else {}))


def _joined(low, high):
    """Sums of 64 bits of their halves, both signed."""
    return low + (high.astype(np.int64) << MODEL_WIDTH)
