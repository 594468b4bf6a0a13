"""Runs of planned jobs on a device, with diagonal corrections between epochs that are too short
for any within them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bitstep.golden.rounding import fits
from bitstep.golden.steps import correction, proximal_step
from bitstep.pipeline.config import MODEL_WIDTH
from bitstep.pipeline.device import Device
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps, TrainingJob
from bitstep.pipeline.registers import Saturation
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    RunError,
    RunResult,
    SaturationError,
    TrainingInterrupted,
    collect,
)
from bitstep.training.planning import Plan


def run_plan(device: Device, made: Plan, *, timeout_s: float = 60.0,
             on_epoch: Callable[[int], None] | None = None) -> RunResult:
    """Run a planned job to its end.

    A pipeline makes diagonal corrections between batches. Where an epoch has one batch only (or
    fewer rows than floating-point rows need between two corrections), it makes none. Then each
    epoch is a run of its own, and the host corrects its result::

        e = round(x * coefficient * mantissa / 2**shift), x the model before the epoch
        x <- prox(x after the rows of the epoch + e)

    For a batch of all rows that is the exact gradient step: rows and correction see the same model.

    Parameters
    ----------
    device, timeout_s, on_epoch
        See :meth:`bitstep.pipeline.device.Device.train`, whose errors this raises, too.
    made : Plan

    Returns
    -------
    RunResult
        Models of every epoch; counters are sums over the runs.
    """
    if not made.between_epochs:
        return device.train(made.job, timeout_s=timeout_s, on_epoch=on_epoch)
    return _EpochRuns(made.job).run(device, timeout_s, on_epoch or (lambda epochs_done: None))


def sum_counters(counters: Sequence[dict[str, int | None]]) -> dict[str, int | None]:
    """Sums over runs; None where a device cannot know."""
    total: dict[str, int | None] = {}
    for name in COUNTER_NAMES:
        values = [run.get(name) for run in counters]
        total[name] = None if None in values else sum(filter(None, values))
    return total


class _EpochRuns:
    """The epochs of a job as runs of their own, each followed by a correction."""

    def __init__(self, job: TrainingJob):
        self.job = job
        self.models: list[np.ndarray] = []
        self.intercepts: list[int] = []
        self.counters: list[dict[str, int | None]] = []

    def run(self, device, timeout_s, on_epoch):
        """Run all epochs."""
        model, intercept = self.job.model, int(self.job.intercept)
        try:
            for number, steps in enumerate(self.job.epochs):
                result = self._epoch(device, timeout_s, number, model, intercept)
                model = self._corrected(model, result, steps)
                intercept = int(result.intercepts[-1])
                self.models.append(model)
                self.intercepts.append(intercept)
                on_epoch(len(self.models))
        except KeyboardInterrupt:
            raise TrainingInterrupted(self.result()) from None
        return self.result()

    def result(self) -> RunResult:
        """The finished epochs."""
        return collect(self.models, self.intercepts, self.job.n_features,
                       sum_counters(self.counters))

    def _epoch(self, device, timeout_s, number, model, intercept) -> RunResult:
        """The rows of an epoch, without correction and proximal steps."""
        job = self.job
        one = replace(job, epochs=job.epochs[number:number + 1],
                      rows=(job.rows[number % len(job.rows)],), model=model, intercept=intercept,
                      proximal_period=0, box_limit=MODEL_LIMIT)
        try:
            result = device.train(one, timeout_s=timeout_s)
        except SaturationError as error:
            self.counters.append(error.result.counters)
            raise SaturationError(number + 1, error.saturation, self.result()) from None
        except RunError as error:
            self.counters.append(error.result.counters)
            error.args = (f"Run {number + 1} of {len(job.epochs)}, one an epoch: {error.args[0]}",)
            error.result = self.result()
            raise
        self.counters.append(result.counters)
        return result

    def _corrected(self, before: np.ndarray, result: RunResult, steps: EpochSteps) -> np.ndarray:
        """Model words after the rows, the correction and the proximal step of an epoch."""
        job = self.job
        exact = correction(before.astype(np.int64), job.coefficients.astype(np.int64), steps)
        kind = Saturation.CORRECTION
        if all(fits(value, MODEL_WIDTH) for value in exact):
            words = result.models[-1].astype(np.int64) + exact.astype(np.int64)
            if job.proximal_period:
                words = proximal_step(words, steps.threshold, job.box_limit)
            if fits(words, MODEL_WIDTH):
                return words.astype(np.int32)
            kind = Saturation.MODEL
        done = len(self.models)
        raise SaturationError(done + 1, kind, self.result())
