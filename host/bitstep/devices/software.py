"""Devices that compute a job on the host's processor, epoch by epoch."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator

from bitstep.golden.gradient import gradient
from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.config import WOVEN, PipelineConfig
from bitstep.pipeline.device import Device, OnWords
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Error
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    DeviceError,
    GradientSum,
    RunResult,
    RunTimeoutError,
    TrainingInterrupted,
    check_job,
    collect,
    run_error,
)
from bitstep.pipeline.woven import WovenLayout


def check_gradient(job: TrainingJob, config: PipelineConfig) -> None:
    """Raise DeviceError unless a job is one whose gradient a pipeline can sum."""
    check_job(job, config)
    if config.row_format != WOVEN or len(job.epochs) != 1:
        raise DeviceError("The gradient of all rows needs woven rows and a job of one epoch, not "
                          f"row format {config.row_format!r} and {len(job.epochs)} epochs")


def _beats(job: TrainingJob, epochs: int) -> int:
    """Beats of the rows of the first epochs of a job."""
    if job.config.row_format != WOVEN:
        return epochs * job.n_rows * job.beats
    layout = WovenLayout(job.n_features)
    return sum(layout.bytes_read(job.n_rows, steps.planes) for steps in job.epochs[:epochs]) \
        // job.config.beat_bytes


class SoftwareDevice(Device):
    """Base class of devices without registers: a subclass computes the models.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline whose limits apply to the jobs.
    """

    clock_hz: float | None = None
    woven = True

    def __init__(self, config: PipelineConfig):
        self.config = config

    @abstractmethod
    def epochs(self, job: TrainingJob) -> Iterator[EpochModel | None]:
        """Compute a job; yield the model after each epoch, and None wherever a look at the clock is
        due.
        """

    def prepare(self, job: TrainingJob) -> None:
        """Do what is not part of a run and its time limit, such as compiling."""

    def result(self, job: TrainingJob, epochs: list[EpochModel], *, saturated: bool) -> RunResult:
        """Result of a run with these finished epochs, and maybe one that saturated after them."""
        counters = dict.fromkeys(COUNTER_NAMES) | {
            "beats": _beats(job, len(epochs)), "saturations": int(saturated),
            "refetched_rows": sum(epoch.refetched_rows for epoch in epochs)}
        return collect([epoch.model for epoch in epochs], [epoch.intercept for epoch in epochs],
                       job.n_features, counters)

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None,
              on_models: Callable[[RunResult], None] | None = None,
              on_words: OnWords | None = None) -> RunResult:
        """Run a job; see :meth:`bitstep.pipeline.device.Device.train`."""
        check_job(job, self.config)
        done: list[EpochModel] = []

        def result(saturated=False):
            return self.result(job, done, saturated=saturated)

        self.prepare(job)
        started = time.monotonic()
        try:
            for epoch in self.epochs(job):
                if epoch and epoch.saturation:
                    raise run_error(Error.SATURATED, epoch.saturation, result(True),
                                    len(job.epochs))
                if epoch:
                    done.append(epoch)
                    if on_epoch:
                        on_epoch(len(done))
                    if on_models:
                        on_models(result())
                    if on_words:
                        on_words(0, epoch.model, epoch.intercept)
                elapsed, started = time.monotonic() - started, time.monotonic()
                if elapsed > timeout_s and len(done) < len(job.epochs):
                    raise RunTimeoutError(
                        f"Device {self.name!r} took {elapsed:.1f} s for {self.portion}, more than "
                        f"the limit of {timeout_s:g} s, with {len(done)} of {len(job.epochs)} "
                        "epochs done; give it more time or use fewer rows", result())
            return result()     # Ctrl-C while counters are computed must lose nothing either
        except KeyboardInterrupt:
            raise TrainingInterrupted(result()) from None

    def gradient(self, job: TrainingJob) -> GradientSum:
        """Sum the updates of all rows; see :meth:`bitstep.pipeline.device.Device.gradient`."""
        check_gradient(job, self.config)
        return gradient(job)

    portion = "an epoch"        # what is computed between two looks at the clock

    def close(self) -> None:
        """Nothing to release."""
