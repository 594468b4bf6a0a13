"""The golden model as a device: no clock, no memory, the same results."""

import time
from collections.abc import Callable

from bitstep.golden.sgd import train
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


class GoldenDevice(Device):
    """The golden model in NumPy: no clock, no tools needed, the same models.

    Runs jobs on :mod:`bitstep.golden`. Models and errors are those of every other device, bit for
    bit. Of the counters it knows ``beats`` (of the finished epochs), ``saturations`` (0, or 1 for
    the run that ended with one) and ``refetched_rows``; the others are None.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline whose limits apply to the jobs.

    Attributes
    ----------
    clock_hz : None
    """

    name = "golden"
    clock_hz = None

    def __init__(self, config: PipelineConfig):
        self.config = config

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None,
              on_models: Callable[[RunResult], None] | None = None) -> RunResult:
        """Run a job; see :meth:`bitstep.pipeline.device.Device.train`. Time is checked between
        epochs.
        """
        check_job(job, self.config)
        finished, started = [], time.monotonic()

        def result(saturations=0):
            counters = dict.fromkeys(COUNTER_NAMES) | {
                "beats": len(finished) * job.n_rows * job.beats, "saturations": saturations,
                "refetched_rows": sum(epoch.refetched_rows for epoch in finished)}
            return collect([epoch.model for epoch in finished],
                           [epoch.intercept for epoch in finished], job.n_features, counters)

        try:
            for epoch in train(job):
                if epoch.saturation:
                    raise run_error(Error.SATURATED, epoch.saturation, result(1), len(job.epochs))
                finished.append(epoch)      # one step: Ctrl-C comes before or after it
                if on_epoch:
                    on_epoch(len(finished))
                if on_models:
                    on_models(result())
                elapsed, started = time.monotonic() - started, time.monotonic()
                if elapsed > timeout_s and len(finished) < len(job.epochs):
                    raise RunTimeoutError(
                        f"Device 'golden' took {elapsed:.1f} s for an epoch, more than the limit "
                        f"of {timeout_s:g} s, with {len(finished)} of {len(job.epochs)} epochs "
                        "done; give it more time or use fewer rows", result())
            return result()
        except KeyboardInterrupt:
            raise TrainingInterrupted(result()) from None

    def close(self) -> None:
        """Nothing to release."""
