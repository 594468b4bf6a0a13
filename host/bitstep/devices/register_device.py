"""Devices behind registers and shared memory, which all run a job in the same way."""

import contextlib
from collections.abc import Callable
from typing import Any

from bitstep.devices.base import Buffer, RegisterAccess
from bitstep.devices.driver import Run, check_identity
from bitstep.pipeline.device import NO_FEW_BITS, Device, OnWords
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import has_derivatives
from bitstep.pipeline.results import DeviceError, GradientSum, RunResult, check_job

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

    shows_models = True     # to on_words: reading a model while the pipeline runs costs little
    clock_hz: float     # pyright: ignore[reportIncompatibleVariableOverride]  # there is one

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None,
              on_models: Callable[[RunResult], None] | None = None,
              on_words: OnWords | None = None) -> RunResult:
        """Run a job to its end; see :meth:`bitstep.pipeline.device.Device.train`."""
        check_identity(self)
        check_job(job, self.config)
        if job.model_bits or job.update_bits:
            raise DeviceError(NO_FEW_BITS.format(self.name))
        if has_derivatives(job):
            raise DeviceError(NO_CENTRED_STEPS.format(self.name, "takes no derivatives as labels"))
        if job.constants is not None or job.constant_intercept:
            raise DeviceError(NO_CENTRED_STEPS.format(self.name,
                                                      "adds no constants to corrections"))
        with contextlib.ExitStack() as stack:
            run = Run(self, job, stack)
            return run.finish(timeout_s, on_epoch, on_models,
                              on_words if self.shows_models else None)

    def gradient(self, job: TrainingJob, *, derivative_planes: int = 0) -> GradientSum:
        """Refuse: no pipeline sums the gradient of all rows."""
        del job, derivative_planes
        raise DeviceError(NO_CENTRED_STEPS.format(self.name, "sums no gradient of all rows"))


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
