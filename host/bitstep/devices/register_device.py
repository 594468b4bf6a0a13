"""Devices behind registers and shared memory, which all run a job in the same way."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bitstep.devices.base import Buffer, KeptRows, RegisterAccess
from bitstep.devices.derivatives import derivative_job
from bitstep.devices.driver import RegisterRun, check_identity
from bitstep.devices.joint_runs import runs_of, same_run
from bitstep.devices.software import check_gradient
from bitstep.devices.turns import Turns
from bitstep.pipeline.device import ALL_BITS, Device, Run
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.needs import missing_rounding
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.pipeline.results import (
    DeviceError,
    GradientSum,
    RangeOverflowError,
    check_job,
    collect,
    result_of,
    sum_counters,
)
from bitstep.pipeline.shapes import label_bytes

NO_GRADIENT = ("The pipeline of device '{}' cannot sum the gradient of all rows, which solver "
               "'bit-centred' needs: it must have corrections and mini-batches; build such a "
               "pipeline, or choose device 'cpu' or 'golden'")


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
    shows_models = True     # reading a model while the pipeline runs costs little
    clock_hz: float     # pyright: ignore[reportIncompatibleVariableOverride]  # there is one

    @property
    def turns(self) -> Turns:
        """Who has registers and memory; made when it is first asked for, by whichever thread."""
        return vars(self).setdefault("_turns", Turns())

    def begin(self, jobs: Sequence[TrainingJob], *, timeout_s: float = 60.0,
              to_the_end: bool = True) -> Run:
        """Load a run into the device's memory and registers; see
        :meth:`bitstep.pipeline.device.Device.begin`.
        """
        with self.turns.held(self.name):
            check_identity(self)
        for job in jobs:
            self._check(job)
        return RegisterRun(self, jobs, timeout_s, to_the_end=to_the_end)

    def parts(self, jobs: Sequence[TrainingJob]) -> Iterator[list[TrainingJob]]:
        """Yield jobs in their order, as many together as the pipeline has models and as can share
        a run (:func:`bitstep.devices.joint_runs.same_run`).
        """
        return runs_of(jobs, self.models)

    def gradient(self, job: TrainingJob, *, derivative_planes: int = 0, derivative_rows: int = 0,
                 timeout_s: float = 60.0) -> GradientSum:
        """Sum the updates of all rows; see :meth:`bitstep.pipeline.device.Device.gradient`.

        A pipeline writes derivatives in a run of its own, which reads their planes again.
        """
        with self.turns.held(self.name):
            check_identity(self)
        self._check(job)
        check_gradient(job, self.config, derivative_planes, derivative_rows)
        if not self.config.stages.full_passes:
            raise DeviceError(NO_GRADIENT.format(self.name))
        with GradientRun(self, job, timeout_s) as run:
            found = run.sums()
        if found.overflow or not derivative_planes:
            return found
        written = derivative_job(job, derivative_planes, derivative_rows)
        with DerivativeRun(self, written, timeout_s) as run:
            return run.beside(found)

    @contextlib.contextmanager
    def keep_rows(self) -> Iterator[None]:
        """Let rows stay in the device's memory from run to run; see
        :meth:`bitstep.pipeline.device.Device.keep_rows`.
        """
        if self.kept_rows is not None:
            yield
            return
        kept = self.kept_rows = KeptRows()
        try:
            yield
        finally:
            if self.kept_rows is kept:
                self.kept_rows = None
            # Another thread may have a run that reads them.
            self.turns.afterwards(kept.free_all)

    def _check(self, job):
        """Raise DeviceError unless the pipeline can run a job."""
        check_job(job, self.config)
        for what, bits, option in missing_rounding(job, self.config):
            raise DeviceError(ALL_BITS.format(self.name, what, bits, f"bitstep rtl {option}"))

    @property
    def models(self) -> int:    # pyright: ignore[reportIncompatibleVariableOverride]
        """Models that one pass over the rows trains: those of the pipeline."""
        return self.config.models

    def shares_pass(self, one: TrainingJob, other: TrainingJob) -> bool:
        """True if one run can train the models of two jobs."""
        return same_run(one, other)


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

    @property
    def turns(self) -> Turns:
        """Those of the other device, whose registers these are."""
        return self.device.turns

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


class GradientRun(RegisterRun):
    """A run that sums the gradient of a job's loss at its model: an epoch of one batch, in which no
    word leaves its range. It is the low half of a sum of 64 bits, whose high half is written behind
    it (docs/memory-layout.md).

    Parameters
    ----------
    device : RegisterDevice
    job : TrainingJob
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.begin`.
    """

    registers = {"GRADIENT": 1, "DERIVATIVES": 0}

    def __init__(self, device: RegisterDevice, job: TrainingJob, timeout_s: float):
        super().__init__(device, [replace(
            job, batch=job.n_rows, correction_period=0, proximal_period=0, constants=None,
            constant_intercept=0)], timeout_s)
        self.flags_models = False

    def _load(self):
        if self.kept is not None:
            self.kept.free_labels()     # of the gradient before
        super()._load()

    @property
    def blocks(self) -> int:
        """Blocks as large as a model that an epoch writes: both halves of the sums."""
        return 2

    def sums(self) -> GradientSum:
        """Run to the end; return what the words of the first model have lost."""
        job = self.job
        (outcome,) = self.finish()
        if isinstance(outcome, RangeOverflowError):
            return GradientSum(np.zeros(job.n_features, np.int64), 0, outcome.overflow,
                               counters=outcome.result.counters)
        low, high = self.results()
        self._check_place()
        words = job.model - _joined(low.models[0], high.models[0])
        intercept = job.intercept - _joined(low.intercepts, high.intercepts)
        return GradientSum(words, int(intercept[0]), counters=low.counters)


class DerivativeRun(GradientRun):
    """A run that writes the derivative of each row's loss at the first planes of its code, as
    labels of format INT32.

    It is a run of a gradient whose step makes the derivative, with 16 fraction bits, the update of
    a row (:func:`bitstep.devices.derivatives.derivative_job`); they are written in place of the
    gradient.
    """

    registers = {"GRADIENT": 1, "DERIVATIVES": 1}

    @property
    def n_written(self) -> int:
        """Bytes of the labels."""
        return label_bytes(self.job.n_rows, LabelFormat.INT32)

    def results(self):
        """The job's model, which such a run does not change, after a run that was finished."""
        done = self.epochs_done()
        return [collect([self.job.model] * done, [self.job.intercept] * done, self.job.n_features,
                        self.counters())]

    def beside(self, gradient: GradientSum) -> GradientSum:
        """Run to the end; return a gradient together with the derivatives."""
        (outcome,) = self.finish()
        overflow, derivatives = (outcome.overflow, None) \
            if isinstance(outcome, RangeOverflowError) else (Overflow(0), self._derivatives())
        return replace(gradient, overflow=overflow, derivatives=derivatives,
                       counters=sum_counters(
                           [gradient.counters, result_of(outcome).counters]))

    def _derivatives(self):
        self.models.from_device()
        found, kept = self.models.array[:self.n_written].copy(), self.kept
        if kept is not None:
            kept.keep_labels(found, self.models)
        return found

    def _buffer(self, name, n_bytes, *arguments) -> Buffer:
        # The labels may stay in memory for the runs that read them.
        kept = self.kept if name == "models" else None
        return super()._buffer(name, n_bytes, *arguments, **({"kept": kept} if kept else {}))


def _joined(low, high):
    """Sums of 64 bits of their halves, both signed."""
    return low + (high.astype(np.int64) << MODEL_WIDTH)
