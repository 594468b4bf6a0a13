"""Devices that compute a job on the host's processor, epoch by epoch."""

import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from bitstep.checks import check_timeout
from bitstep.golden import softmax
from bitstep.golden.gradient import gradient
from bitstep.golden.sgd import EpochModel
from bitstep.golden.sigmoid import FINE_ARGUMENT
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device, Run
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import DERIVATIVE_FRACTION, LOSSES, has_derivatives
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, BIT_PLANES
from bitstep.pipeline.registers import Loss, Overflow
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    ClassSums,
    DeviceError,
    GradientSum,
    Outcome,
    RangeOverflowError,
    RunResult,
    RunTimeoutError,
    beats_read,
    check_job,
    collect,
)
from bitstep.pipeline.softmax import check_classes


def check_gradient(job: TrainingJob, config: PipelineConfig, derivative_planes: int = 0,
                   derivative_rows: int = 0) -> None:
    """Raise DeviceError unless a job is one whose gradient a pipeline can sum."""
    check_job(job, config)
    if config.row_format != BIT_PLANES or len(job.epochs) != 1:
        raise DeviceError("The gradient of all rows needs bit-plane rows and a job of one epoch, "
                          f"not row format {config.row_format!r} and {len(job.epochs)} epochs")
    rule, planes = LOSSES[job.loss], job.epochs[0].planes
    if has_derivatives(job):
        raise DeviceError("The gradient of all rows needs labels, not derivatives at a centre")
    left = BIT_PLANE_BITS - planes
    if job.loss == Loss.LOGISTIC and job.label_shift - left <= FINE_ARGUMENT:
        raise DeviceError("The gradient of the logistic loss needs a label_shift of at least "
                          f"{FINE_ARGUMENT + 1 + left} at {planes} planes, not {job.label_shift}")
    if not 0 <= derivative_rows <= job.n_rows:
        raise DeviceError(f"Derivatives can be written of 1 to {job.n_rows} rows, or of all by 0, "
                          f"not of {derivative_rows}")
    if not derivative_planes:
        return
    least = DERIVATIVE_FRACTION + BIT_PLANE_BITS - derivative_planes
    if not (rule.signs and math.isfinite(rule.curvature) and 0 < derivative_planes <= planes
            and job.label_shift >= least):
        raise DeviceError(f"Derivatives need a smooth loss of signs, 1 to {planes} planes, as the "
                          f"epoch has, and a label_shift of at least {least}, not "
                          f"{job.loss.name}, {derivative_planes} and {job.label_shift}")


class SoftwareDevice(Device):
    """Base class of devices without registers: a subclass computes the models.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline whose limits apply to the jobs.
    """

    clock_hz: float | None = None
    bit_planes = True
    few_bits = True
    joint_classes = True

    def __init__(self, config: PipelineConfig):
        self.config = config

    @abstractmethod
    def epochs(self, job: TrainingJob) -> Iterator[EpochModel | None]:
        """Compute a job; yield the model after each epoch, and None wherever a look at the clock is
        due.
        """

    def prepare(self, job: TrainingJob) -> None:
        """Do what is not part of a run and its time limit, such as compiling."""

    def result(self, job: TrainingJob, epochs: list[EpochModel], *, overflowed: bool) -> RunResult:
        """Result of a run with these finished epochs, and maybe one that overflowed after them: a
        pipeline reads it to its end, counts on, and takes rows of epochs to come into its queue.
        """
        counters = dict.fromkeys(COUNTER_NAMES) | {
            "beats": None if overflowed else beats_read(job, len(epochs)),
            "overflows": None if overflowed else 0,
            "refetched_rows": None if overflowed and job.cell_half_levels else
            sum(epoch.refetched_rows for epoch in epochs)}
        return collect([epoch.model for epoch in epochs], [epoch.intercept for epoch in epochs],
                       job.n_features, counters)

    def begin(self, jobs: Sequence[TrainingJob], *, timeout_s: float = 60.0,
              to_the_end: bool = True) -> Run:
        """See :meth:`bitstep.pipeline.device.Device.begin`."""
        del to_the_end
        (job,) = jobs
        check_job(job, self.config)
        self.prepare(job)
        return SoftwareRun(self, job, timeout_s)

    def gradient(self, job: TrainingJob, *, derivative_planes: int = 0, derivative_rows: int = 0,
                 timeout_s: float = 60.0) -> GradientSum:
        """Sum the updates of all rows; see :meth:`bitstep.pipeline.device.Device.gradient`."""
        del timeout_s
        check_gradient(job, self.config, derivative_planes, derivative_rows)
        return gradient(job, derivative_planes, derivative_rows)

    def class_gradients(self, jobs: Sequence[TrainingJob], *, derivative_planes: int = 0,
                        derivative_rows: int = 0) -> ClassSums:
        """See :meth:`bitstep.pipeline.device.Device.class_gradients`."""
        check_classes(jobs, derivatives=False)
        check_gradient(jobs[0], self.config, derivative_planes, derivative_rows)
        return softmax.gradients(jobs, derivative_planes, derivative_rows)

    def class_epochs(self, jobs: Sequence[TrainingJob]) -> Iterator[list[EpochModel] | None]:
        """Compute jobs of all classes; yield as :meth:`epochs` does, models of all of them."""
        return softmax.train(jobs)

    def prepare_classes(self, jobs: Sequence[TrainingJob]) -> None:
        """Do for all classes what :meth:`prepare` does."""

    def train_classes(self, jobs: Sequence[TrainingJob], *,
                      timeout_s: float = 60.0) -> list[RunResult]:
        """See :meth:`bitstep.pipeline.device.Device.train_classes`."""
        check_timeout(timeout_s)
        check_classes(jobs, derivatives=True)
        check_job(jobs[0], self.config)
        self.prepare_classes(jobs)
        done: list[list[EpochModel]] = []
        overflow, started = Overflow(0), time.monotonic()
        for models in self.class_epochs(jobs):
            overflow = models[0].overflow if models else overflow
            if models and not overflow:
                done.append(models)
            elapsed, started = time.monotonic() - started, time.monotonic()
            if elapsed > timeout_s and len(done) < len(jobs[0].epochs):
                raise self.timeout(elapsed, timeout_s, len(done), jobs[0],
                                   self._class_results(jobs, done)[0])
        results = self._class_results(jobs, done)
        if overflow:
            raise RangeOverflowError(overflow, results[0])
        return results

    def _class_results(self, jobs: Sequence[TrainingJob],
                       done: list[list[EpochModel]]) -> list[RunResult]:
        """Results of all classes. No pipeline has such passes, so there are no cycles."""
        counters = dict.fromkeys(COUNTER_NAMES) | {
            "beats": beats_read(jobs[0], len(done)), "overflows": 0, "refetched_rows": 0}
        return [collect([models[place].model for models in done],
                        [models[place].intercept for models in done], job.n_features,
                        dict.fromkeys(COUNTER_NAMES, 0) if place else counters)
                for place, job in enumerate(jobs)]

    def timeout(self, elapsed: float, timeout_s: float, done: int, job: TrainingJob,
                result: RunResult) -> RunTimeoutError:
        """The error of a run that took too long."""
        return RunTimeoutError(
            f"Device {self.name!r} took {elapsed:.1f} s for {self.portion}, more than the limit of "
            f"{timeout_s:g} s, with {done} of {len(job.epochs)} epochs done; give it more time or "
            "use fewer rows", result)

    portion = "an epoch"        # what is computed between two looks at the clock

    def close(self) -> None:
        """Nothing to release."""


class SoftwareRun(Run):
    """A run of one job on the host's processor.

    Parameters
    ----------
    device : SoftwareDevice
    job : TrainingJob
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.begin`.
    """

    def __init__(self, device: SoftwareDevice, job: TrainingJob, timeout_s: float):
        check_timeout(timeout_s)
        self.device, self.job, self.timeout_s = device, job, timeout_s
        self.jobs = [job]
        self.done: list[EpochModel] = []
        self.overflow = Overflow(0)

    def epochs(self) -> Iterator[int]:
        """See :meth:`bitstep.pipeline.device.Run.epochs`."""
        started = time.monotonic()
        for epoch in self.device.epochs(self.job):
            if epoch and epoch.overflow:
                self.overflow = epoch.overflow
                return
            if epoch:
                self.done.append(epoch)
                yield len(self.done)
            elapsed, started = time.monotonic() - started, time.monotonic()
            if elapsed > self.timeout_s and len(self.done) < len(self.job.epochs):
                raise self.device.timeout(elapsed, self.timeout_s, len(self.done), self.job,
                                          self._result())

    def outcomes(self) -> list[Outcome]:
        """See :meth:`bitstep.pipeline.device.Run.outcomes`."""
        if self.overflow:
            return [RangeOverflowError(self.overflow, self._result())]
        return [self._result()]

    def words(self) -> Iterator[tuple[int, np.ndarray, int]]:
        """See :meth:`bitstep.pipeline.device.Run.words`."""
        if self.done:
            yield 0, self.done[-1].model, self.done[-1].intercept

    def _result(self) -> RunResult:
        return self.device.result(self.job, self.done, overflowed=bool(self.overflow))
