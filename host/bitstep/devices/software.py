"""Devices that compute a job on the host's processor, epoch by epoch."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator

from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Error
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    RunResult,
    RunTimeoutError,
    TrainingInterrupted,
    check_job,
    collect,
    run_error,
)


class SoftwareDevice(Device):
    """Base class of devices without registers: a subclass computes the models.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline whose limits apply to the jobs.
    """

    clock_hz: float | None = None

    def __init__(self, config: PipelineConfig):
        self.config = config

    @abstractmethod
    def epochs(self, job: TrainingJob) -> Iterator[EpochModel | None]:
        """Compute a job; yield the model after each epoch, and None wherever a look at the clock is
        due.
        """

    def counters(self, job: TrainingJob, epochs: list[EpochModel], *,
                 saturated: bool) -> dict[str, int | None]:
        """Counters of a run with these finished epochs, and one that saturated after them."""
        return dict.fromkeys(COUNTER_NAMES) | {
            "beats": len(epochs) * job.n_rows * job.beats, "saturations": int(saturated),
            "refetched_rows": sum(epoch.refetched_rows for epoch in epochs)}

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None) -> RunResult:
        """Run a job; see :meth:`bitstep.pipeline.device.Device.train`."""
        check_job(job, self.config)
        on_epoch = on_epoch or (lambda epochs_done: None)
        done: list[EpochModel] = []

        def result(saturated=False):
            return collect([epoch.model for epoch in done], [epoch.intercept for epoch in done],
                           job.n_features, self.counters(job, done, saturated=saturated))

        started = time.monotonic()
        try:
            for epoch in self.epochs(job):
                if epoch and epoch.saturation:
                    raise run_error(Error.SATURATED, epoch.saturation, result(True),
                                    len(job.epochs))
                if epoch:
                    done.append(epoch)
                    on_epoch(len(done))
                elapsed, started = time.monotonic() - started, time.monotonic()
                if elapsed > timeout_s and len(done) < len(job.epochs):
                    raise RunTimeoutError(
                        f"Device {self.name!r} took {elapsed:.1f} s for {self.portion}, more than "
                        f"the limit of {timeout_s:g} s, with {len(done)} of {len(job.epochs)} "
                        "epochs done; give it more time or use fewer rows", result())
        except KeyboardInterrupt:
            raise TrainingInterrupted(result()) from None
        return result()

    portion = "an epoch"        # what is computed between two looks at the clock

    def close(self) -> None:
        """Nothing to release."""
