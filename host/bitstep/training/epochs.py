"""Diagonal corrections between the epochs of a job, where none fits within them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import numpy as np

from bitstep.golden.rounding import fits
from bitstep.golden.steps import correction, proximal_step
from bitstep.pipeline.device import Device, OnWords
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps, TrainingJob
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep.pipeline.registers import Saturation
from bitstep.pipeline.results import (
    RunError,
    RunResult,
    SaturationError,
    TrainingInterrupted,
    collect,
)
from bitstep.training.counters import sum_counters
from bitstep.training.objective import Training
from bitstep.training.planning import Plan
from bitstep.training.precision import LADDER, PrecisionRunner


def runner_of(device: Device, made: Plan) -> Device:
    """The device that runs a planned job: ``device`` itself, or an :class:`EpochRunner` on it."""
    return EpochRunner(device) if made.between_epochs else device


def planned(device: Device, make: Callable[..., Plan], training: Training) -> tuple[Plan, Device]:
    """The plan that ``make`` makes of a training, and what runs it on a device."""
    if training.planes != "auto":
        made = make(training)
        return made, runner_of(device, made)
    ladder = {planes: make(replace(training, planes=(planes,) * len(training.steps)))
              for planes in LADDER}
    first = ladder[LADDER[0]]
    return first, PrecisionRunner(runner_of(device, first), {
        planes: one.job.epochs for planes, one in ladder.items()})


class EpochRunner(Device):
    """A device that corrects the model after each epoch.

    A pipeline makes diagonal corrections between batches. Where an epoch has one batch only (or
    fewer rows than floating-point rows need between two corrections), it makes none. Here each
    epoch is a run of its own, and the host corrects its result::

        e = round(x * coefficient * mantissa / 2**shift), x the model before the epoch
        x <- prox(x after the rows of the epoch + e)

    For a batch of all rows that is the exact gradient step: rows and correction see the same model.

    Parameters
    ----------
    device : Device
        Runs the rows; it stays open.
    """

    def __init__(self, device: Device):
        self.device = device
        self.name, self.config, self.clock_hz = device.name, device.config, device.clock_hz

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None,
              on_models: Callable[[RunResult], None] | None = None,
              on_words: OnWords | None = None) -> RunResult:
        """Run a job; see :meth:`bitstep.pipeline.device.Device.train`. Counters are sums over the
        runs.
        """
        runs = _Runs(job)
        try:
            while runs.left:
                runs.add_epoch(self.device, timeout_s)
                if on_epoch:
                    on_epoch(len(runs.done))
                if on_models:
                    on_models(runs.result())
                if on_words:
                    model, intercept, _ = runs.done[-1]
                    on_words(0, model, intercept)
            return runs.result()
        except KeyboardInterrupt:
            raise TrainingInterrupted(runs.result()) from None

    def close(self) -> None:
        """Nothing to release."""


class _Runs:
    """Finished epochs of a job, each of a run of its own."""

    def __init__(self, job: TrainingJob):
        self.job = job
        # Model words, intercept word and cycles of each epoch; one list, since Ctrl-C may come.
        self.done: list[tuple[np.ndarray, int, int | None]] = []
        self.counters: list[dict[str, int | None]] = []

    @property
    def left(self) -> int:
        """Epochs that are not finished."""
        return len(self.job.epochs) - len(self.done)

    def result(self) -> RunResult:
        """The finished epochs."""
        models, intercepts, cycles = zip(*self.done, strict=True) if self.done else ((), (), ())
        found = collect(models, intercepts, self.job.n_features, sum_counters(self.counters))
        if not cycles or None in cycles:
            return found
        return replace(found, epoch_cycles=tuple(accumulate(cycles)))

    def add_epoch(self, device: Device, timeout_s: float) -> None:
        """Run the next epoch, and correct its model."""
        job, number = self.job, len(self.done)
        before, intercept, _ = self.done[-1] if number else (job.model, job.intercept, None)
        one = replace(job, epochs=job.epochs[number:number + 1], model=before,
                      intercept=intercept, rows=(job.rows[number % len(job.rows)],),
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
        model = self._corrected(before, result, job.epochs[number])
        self.done.append((model, int(result.intercepts[-1]),
                          result.epoch_cycles[-1] if result.epoch_cycles else None))

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
        raise SaturationError(len(self.done) + 1, kind, self.result())
