"""Devices behind registers and shared memory, which all run a job in the same way."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from bitstep.devices.base import Buffer, RegisterAccess
from bitstep.devices.driver import Run, check_identity
from bitstep.devices.joint_runs import runs_of, same_run
from bitstep.pipeline.device import NO_FEW_BITS, Device, OnWords
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import has_derivatives
from bitstep.pipeline.results import (
    DeviceError,
    GradientSum,
    ModelsInterrupted,
    Outcome,
    RunResult,
    SaturationError,
    check_job,
)

NO_CENTRED_STEPS = ("The pipeline of device '{}' {}, which solver 'bit-centred' needs; choose "
                    "device 'cpu' or 'golden', or another solver")


class RegisterDevice(RegisterAccess, Device):
    """Base class of devices with registers and shared memory.

    A subclass defines ``read``, ``write``, ``allocate``, ``wait`` and ``close``, and sets the
    attributes.

    Attributes
    ----------
    name, config, identity, clock_hz
        See :class:`~bitstep.pipeline.device.Device` and
        :class:`~bitstep.devices.base.RegisterAccess`.
    """

    few_bits = True         # where the pipeline has the options
    shows_models = True     # to on_words: reading a model while the pipeline runs costs little
    clock_hz: float     # pyright: ignore[reportIncompatibleVariableOverride]  # there is one

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None,
              on_models: Callable[[RunResult], None] | None = None,
              on_words: OnWords | None = None) -> RunResult:
        """Run a job to its end; see :meth:`bitstep.pipeline.device.Device.train`."""
        check_identity(self)
        self._check(job)
        with contextlib.ExitStack() as stack:
            run = Run(self, job, stack)
            return run.finish(timeout_s, on_epoch, on_models,
                              on_words if self.shows_models else None)

    def gradient(self, job: TrainingJob, *, derivative_planes: int = 0) -> GradientSum:
        """Refuse: no pipeline sums the gradient of all rows."""
        del job, derivative_planes
        raise DeviceError(NO_CENTRED_STEPS.format(self.name, "sums no gradient of all rows"))

    def _check(self, job):
        """Raise DeviceError unless the pipeline can run a job."""
        check_job(job, self.config)
        if (job.model_bits and not self.config.model_bits) \
                or (job.update_bits and not self.config.rounded_updates):
            raise DeviceError(NO_FEW_BITS.format(self.name))
        if has_derivatives(job):
            raise DeviceError(NO_CENTRED_STEPS.format(self.name, "takes no derivatives as labels"))
        if job.constants is not None or job.constant_intercept:
            raise DeviceError(NO_CENTRED_STEPS.format(self.name,
                                                      "adds no constants to corrections"))

    @property
    def models(self) -> int:    # pyright: ignore[reportIncompatibleVariableOverride]
        """Models that one pass over the rows trains: those of the pipeline."""
        return self.config.models

    def shares_pass(self, one: TrainingJob, other: TrainingJob) -> bool:
        """True if one run can train the models of two jobs."""
        return same_run(one, other)

    def train_models(self, jobs: Sequence[TrainingJob], *, timeout_s: float = 60.0,
                     on_epoch: Callable[[int], None] | None = None,
                     on_words: OnWords | None = None,
                     to_the_end: bool = True) -> list[Outcome]:
        """Train models, as many in a run as the pipeline has and as can share one
        (:func:`bitstep.devices.joint_runs.same_run`); see
        :meth:`bitstep.pipeline.device.Device.train_models`.
        """
        if self.models == 1:
            return super().train_models(jobs, timeout_s=timeout_s, on_epoch=on_epoch,
                                        on_words=on_words, to_the_end=to_the_end)
        check_identity(self)
        for job in jobs:
            self._check(job)
        outcomes: list[Outcome] = []
        before = 0
        for members in runs_of(jobs, self.models):
            report = (lambda done, before=before: on_epoch(before + done)) if on_epoch else None
            first = len(outcomes)
            show = (lambda number, words, intercept, first=first: on_words(
                first + number, words, intercept)) if on_words and self.shows_models else None
            with contextlib.ExitStack() as stack:
                run = Run(self, members[0], stack, members[1:], to_the_end=to_the_end)
                try:
                    outcomes += run.finish_models(timeout_s, report, show)
                except ModelsInterrupted as stopped:
                    raise ModelsInterrupted([*outcomes, *stopped.outcomes]) from None
            if not to_the_end and any(isinstance(one, SaturationError) for one in outcomes):
                break
            before += sum(len(job.epochs) for job in members)
        return outcomes


class ForwardingDevice(RegisterDevice):
    """A device whose accesses go to another one; subclasses watch or change some of them.

    Parameters
    ----------
    device : RegisterDevice
        The other one; what is not defined here is taken from it.
    """

    def __init__(self, device: RegisterDevice):
        self.device: Any = device
        self.name, self.config = device.name, device.config
        self.identity, self.clock_hz = device.identity, device.clock_hz

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def read(self, offset: int) -> int:
        """Read a register of the other device."""
        return self.device.read(offset)

    def write(self, offset: int, value: int) -> None:
        """Write a register of the other device."""
        self.device.write(offset, value)

    def allocate(self, n_bytes: int) -> Buffer:
        """Allocate memory of the other device."""
        return self.device.allocate(n_bytes)

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Wait as the other device does."""
        return self.device.wait(done, timeout_s)

    def close(self) -> None:
        """Close the other device."""
        self.device.close()
