"""The native device: every job of the golden model, compiled by numba."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.devices.cpu.arithmetic import Rule
from bitstep.devices.cpu.bit_planes import (
    BitPlaneModel,
    GradientArrays,
    add_gradients,
    bit_plane_shape,
)
from bitstep.devices.cpu.decoding import padded
from bitstep.devices.cpu.joint import JointRun
from bitstep.devices.cpu.models import FloatModel, IntegerModel, NativeEpoch
from bitstep.devices.cpu.numbers import read_only, rule_of, weights_of
from bitstep.devices.cpu.portions import dithers_of, portions
from bitstep.devices.derivatives import derivative_job
from bitstep.devices.software import SoftwareDevice, check_gradient
from bitstep.golden.rounding import fits
from bitstep.golden.sgd import EpochModel
from bitstep.machine import available_cores
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Run, share_rows
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.widths import SHIFT_UNIT
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    GradientSum,
    RunResult,
    check_job,
    sum_counters,
)

MAX_MODELS = 64     # models of a pass: beyond, decoding rows costs nothing beside the models


class CpuDevice(SoftwareDevice):
    """The golden model's integers in compiled loops: the same models, bit for bit, at native speed.

    Rows are read as they are stored, so a job needs no more memory than they do. Time is checked
    every few milliseconds. The counters are those of the pipeline, by :mod:`bitstep.cycles`; of
    a run that overflowed, only those that the golden model knows.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline whose limits apply to the jobs, and whose cycles are counted.
    clock_hz : float
        Clock that ``memory_gbps`` and reports of speed refer to.
    memory_latency : int
        Cycles from an address to its data.
    memory_gbps : float or None
        Memory bandwidth in 10^9 bytes per second, shared by all ports; None does not limit it.
    """

    name = "cpu"
    portion = "a portion of an epoch"
    models = MAX_MODELS

    def __init__(self, config: PipelineConfig, *, clock_hz: float = 100e6,
                 memory_latency: int = 20, memory_gbps: float | None = None):
        if not clock_hz > 0:
            raise ValueError(f"clock_hz must be above 0, not {clock_hz}")
        super().__init__(config)
        self.clock_hz = clock_hz
        self.workers = available_cores()
        self._interrupted = threading.Event()
        self.memory = Memory(memory_latency,
                             None if memory_gbps is None else memory_gbps * 1e9 / clock_hz)

    def end_jobs(self, on: bool) -> None:
        """End the jobs in all threads, or let them run again."""
        (self._interrupted.set if on else self._interrupted.clear)()

    def prepare(self, job: TrainingJob) -> None:
        """Compile what the job needs, or load it from the cache, by taking no rows."""
        rule = Rule(int(job.loss), 0, SHIFT_UNIT, 0, job.label_shift, job.update_bits, 0, 0)
        none = np.empty(0, np.int64)
        dithers_of(0, 0, 0)
        self._model(job).begin(read_only(job.rows[0]), rule, job.epochs[0])(none, none, 0)

    def _model(self, job: TrainingJob) -> IntegerModel | FloatModel | BitPlaneModel:
        if job.config.row_format == "float32":
            return FloatModel(job)
        if job.config.row_format == BIT_PLANES:
            return BitPlaneModel(job)
        return IntegerModel(job, self.config.effective_lookahead(job.beats))

    def result(self, job: TrainingJob, epochs: list[EpochModel], *, overflowed: bool) -> RunResult:
        """Result of a run, with the pipeline's counters unless it overflowed or there is no such
        pipeline.
        """
        known = super().result(job, epochs, overflowed=overflowed)
        rounds = (job.model_bits and not self.config.model_bits) \
            or (job.update_bits and not self.config.rounded_updates)
        if overflowed or rounds:
            return known
        opened = [epoch.open_rows for epoch in epochs if isinstance(epoch, NativeEpoch)]
        counters, ends = count_epochs(job, self.memory, config=self.config, epochs=len(epochs),
                                      open_rows=opened)
        return replace(known, counters=counters, epoch_cycles=tuple(ends))

    def epochs(self, job: TrainingJob) -> Iterator[EpochModel | None]:
        """Compute a job; yield the model after each epoch, and None every few milliseconds."""
        model = self._model(job)
        for number, steps in enumerate(job.epochs):
            then = job.at(steps)
            rule = rule_of(then, steps)
            if rule is None:
                yield model.result(Overflow.UPDATE)
                return
            take = model.begin(read_only(job.rows[number % len(job.rows)]), rule, steps)
            overflow = 0
            for first, n_rows in portions(job):
                overflow = take(then.targets(first, n_rows),
                                  dithers_of(steps.key, first, n_rows), first)
                if overflow:
                    break
                self._look()
                yield None
            yield model.result(Overflow(overflow))
            if overflow:
                return

    def _look(self) -> None:
        """Raise KeyboardInterrupt if jobs are to end (:meth:`end_jobs`)."""
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def gradient(self, job: TrainingJob, *, derivative_planes: int = 0,
                 timeout_s: float = 60.0) -> GradientSum:
        """Sum the updates of all rows; see :meth:`bitstep.pipeline.device.Device.gradient`."""
        del timeout_s
        check_gradient(job, self.config, derivative_planes)
        steps = job.epochs[0]
        then = job.at(steps)
        length = padded(job.n_features)
        sums, model = np.zeros(length + 2, np.int64), np.zeros(length + 1, np.int64)
        model[:job.n_features], model[length] = job.model, job.intercept
        written = np.zeros(job.n_rows if derivative_planes else 0, np.int64)
        rule, overflow = rule_of(then, steps), int(Overflow.UPDATE)
        for first, n_rows in portions(job) if rule else ():
            overflow = add_gradients(
                read_only(job.rows[0]), bit_plane_shape(job, steps.planes), rule,
                then.intercept_level, steps.key,
                GradientArrays(model, np.zeros(length, np.int32), sums, weights_of(job)),
                then.targets(first, n_rows), dithers_of(steps.key, first, n_rows), first,
                derivative_planes, written[first:first + n_rows])
            self._look()
            if overflow:
                break
        if overflow or (written.size and not fits(written, 32)):
            return GradientSum(np.zeros(job.n_features, np.int64), 0, Overflow.UPDATE)
        counters = None
        if self.config.stages.full_passes:
            counters = self._count_passes(job, derivative_planes)
        return GradientSum(
            sums[:job.n_features], int(sums[length]),
            derivatives=pack_labels(written, LabelFormat.INT32) if written.size else None,
            counters=counters or dict.fromkeys(COUNTER_NAMES))

    def _count_passes(self, job, derivative_planes):
        """Counters of the pipeline's runs for a gradient and for derivatives."""
        options = {"config": self.config, "gradient": True}
        counters = count_epochs(job, self.memory, **options)[0]
        if not derivative_planes:
            return counters
        return sum_counters([counters, count_epochs(
            derivative_job(job, derivative_planes), self.memory, derivatives=True, **options)[0]])

    def parts(self, jobs: Sequence[TrainingJob]) -> Iterator[list[TrainingJob]]:
        """Yield all jobs together, if one pass over their rows trains them, or one by one."""
        if self.joins(jobs):
            yield list(jobs)
        else:
            yield from super().parts(jobs)

    def begin(self, jobs: Sequence[TrainingJob], *, timeout_s: float = 60.0,
              to_the_end: bool = True) -> Run:
        """See :meth:`bitstep.pipeline.device.Device.begin`."""
        if len(jobs) == 1:
            return super().begin(jobs, timeout_s=timeout_s)
        for job in jobs:
            check_job(job, self.config)
        return JointRun(self, jobs, self._look, timeout_s=timeout_s, to_the_end=to_the_end)

    def joins(self, jobs: Sequence[TrainingJob]) -> bool:
        """True if one pass over the rows trains the models of these jobs."""
        first = jobs[0]
        return first.config.row_format not in ("float32", BIT_PLANES) \
            and not any(job.cell_half_levels for job in jobs) \
            and all(share_rows(first, job) for job in jobs[1:])
