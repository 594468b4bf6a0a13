"""The native device: every job of the golden model, compiled by numba."""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bitstep.cycles import Memory
from bitstep.cycles.run import Counted, counting
from bitstep.devices.cpu.arithmetic import Rule
from bitstep.devices.cpu.bit_planes import BitPlaneModel, GradientSums, add_gradients
from bitstep.devices.cpu.codes import DecodedRows, Portion
from bitstep.devices.cpu.joint import JointRun
from bitstep.devices.cpu.models import FloatModel, IntegerModel, NativeEpoch
from bitstep.devices.cpu.numbers import read_only, rule_of, weights_of
from bitstep.devices.cpu.portions import dithers_of, portions
from bitstep.devices.cpu.products import whole
from bitstep.devices.cpu.softmax import class_sums, compile_passes, train_classes
from bitstep.devices.derivatives import derivative_job
from bitstep.devices.software import SoftwareDevice, check_gradient
from bitstep.golden.rounding import fits
from bitstep.golden.sgd import EpochModel
from bitstep.machine import available_cores, in_threads
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Run, share_rows
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.needs import missing_rounding
from bitstep.pipeline.parts.widths import SHIFT_UNIT
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    UPDATES_LIMIT,
    ClassSums,
    Counters,
    Ends,
    GradientSum,
    RunResult,
    check_job,
    sum_counters,
)
from bitstep.pipeline.softmax import check_classes

MAX_MODELS = 64     # models of a pass: beyond, decoding rows costs nothing beside the models


class CpuDevice(SoftwareDevice):
    """The golden model's integers in compiled loops: the same models, bit for bit, at native speed.

    Rows are read as they are stored, so a job needs no more memory than they do. Time is checked
    every few milliseconds. The counters are those of the pipeline, by :mod:`bitstep.cycles`, but
    for ``overflows`` of a run that left its range; all are None of such a run that fetches rows
    again.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline whose limits apply to the jobs, and whose cycles are counted: of each job as of a
        run of its own, however many models the pipeline trains at a time
        (:func:`bitstep.cycles.count_epochs` counts them together, ``others``).
    clock_hz : float
        Clock that ``memory_gbps`` and reports of speed refer to, below 1e12.
    memory_latency : int
        Cycles from an address to its data, 1 to 100,000.
    memory_gbps : float or None
        Memory bandwidth in 10^9 bytes per second, 0.01 to 1e6, shared by all ports; None does not
        limit it.

    Raises
    ------
    ValueError
        If clock, latency or bandwidth are out of range.
    """

    name = "cpu"
    portion = "a portion of an epoch"
    models = MAX_MODELS

    def __init__(self, config: PipelineConfig, *, clock_hz: float = 100e6,
                 memory_latency: int = 20, memory_gbps: float | None = None):
        self.memory = Memory.of(clock_hz, memory_latency, memory_gbps)
        super().__init__(config)
        self.clock_hz = clock_hz
        self.workers = available_cores()
        self._interrupted = threading.Event()
        self._decoded = DecodedRows()

    def end_jobs(self, on: bool) -> None:
        """End the jobs in all threads, or let them run again."""
        (self._interrupted.set if on else self._interrupted.clear)()

    def prepare(self, job: TrainingJob) -> None:
        """Compile what the job needs, or load it from the cache, by taking no rows."""
        rule = Rule(int(job.loss), 0, SHIFT_UNIT, 0, job.label_shift, job.update_bits, 0, 0)
        none = np.empty(0, np.int64)
        dithers_of(0, 0, 0)
        model = self._model(job)
        if isinstance(model, BitPlaneModel):
            self._decoded.kept(job, 0)
            codes = np.empty((0, job.n_features), np.int16)
            model.begin(rule, job.epochs[0])(codes, 0, none, none, 0)
        else:
            model.begin(read_only(job.rows[0]), rule, job.epochs[0])(none, none, 0)

    def close(self) -> None:
        """Give back the memory of decoded rows."""
        self._decoded.forget()

    def _model(self, job: TrainingJob) -> IntegerModel | FloatModel | BitPlaneModel:
        rows = job.config.rows
        if rows.floating:
            return FloatModel(job)
        if rows.planes:
            return BitPlaneModel(job)
        return IntegerModel(job, self.config.ahead.of_rows(job.beats))

    def result(self, job: TrainingJob, epochs: list[EpochModel], *, overflowed: bool) -> RunResult:
        """Result of a run, with the pipeline's counters if there is such a pipeline. A run that
        fetches rows again and overflows has none: which rows it fetches then is not known.
        """
        known = super().result(job, epochs, overflowed=overflowed)
        if missing_rounding(job, self.config) or (overflowed and job.cell_half_levels):
            return known
        opened = [epoch.open_rows for epoch in epochs if isinstance(epoch, NativeEpoch)]
        count = counting(job, self.memory, config=self.config, epochs=len(epochs),
                         overflowed=overflowed, open_rows=opened)
        # Of bit planes and of rows that are fetched again most cycles are simulated, which takes
        # longer than most trainings.
        return replace(known, counters=Counters(functools.partial(_counters, count)),
                       epoch_cycles=Ends(functools.partial(_ends, count), len(epochs)))

    def epochs(self, job: TrainingJob) -> Iterator[EpochModel | None]:
        """Compute a job; yield the model after each epoch, and None every few milliseconds."""
        model = self._model(job)
        for number, steps in enumerate(job.epochs):
            then = job.at(steps)
            rule = rule_of(then, steps)
            if rule is None:
                yield model.result(Overflow.UPDATE)
                return
            overflow = 0
            for take, first, n_rows in self._portions(job, number, model, rule):
                overflow = take(then.targets(first, n_rows),
                                dithers_of(steps.key, first, n_rows), first)
                if overflow:
                    break
                self._look()
                yield None
            yield model.result(Overflow(overflow))
            if overflow:
                return

    def _portions(self, job: TrainingJob, number: int,
                  model: IntegerModel | FloatModel | BitPlaneModel, rule: Rule):
        """Portions of an epoch: the function that takes it, first row and number of rows."""
        copy, steps = number % len(job.rows), job.epochs[number]
        if isinstance(model, BitPlaneModel):
            take = model.begin(rule, steps)
            for codes, place, first, n_rows in self._decoded.portions(job, copy, steps.planes):
                yield functools.partial(take, codes, place), first, n_rows
        else:
            take = model.begin(read_only(job.rows[copy]), rule, steps)
            for first, n_rows in portions(job):
                yield take, first, n_rows

    def _look(self) -> None:
        """Raise KeyboardInterrupt if jobs are to end (:meth:`end_jobs`)."""
        if self._interrupted.is_set():
            raise KeyboardInterrupt

    def gradient(self, job: TrainingJob, *, derivative_planes: int = 0, derivative_rows: int = 0,
                 timeout_s: float = 60.0) -> GradientSum:
        """Sum the updates of all rows; see :meth:`bitstep.pipeline.device.Device.gradient`."""
        del timeout_s
        check_gradient(job, self.config, derivative_planes, derivative_rows)
        steps = job.epochs[0]
        then = job.at(steps)
        model = np.zeros(whole(job.n_features), np.int32)
        model[:job.n_features] = job.model
        written = np.zeros((derivative_rows or job.n_rows) if derivative_planes else 0, np.int64)
        rule, weights = rule_of(then, steps), weights_of(job)

        def add(portion: Portion) -> tuple[int, GradientSums]:
            codes, place, first, n_rows = portion
            sums = GradientSums.zeros(job.n_features)
            return add_gradients(
                codes, place, PLANES - steps.planes, rule, then.intercept_level, model,
                job.intercept, sums, then.targets(first, n_rows), weights, steps.key, first,
                derivative_planes, written[first:first + n_rows]), sums

        sums, overflow = GradientSums.zeros(job.n_features), int(Overflow.UPDATE)
        if rule is not None:
            for overflow, part in self._in_threads(add, job, steps.planes):
                sums.features[:] += part.features
                sums.updates[:] += part.updates
                if sums.updates[1] >= UPDATES_LIMIT:
                    overflow = overflow or int(Overflow.UPDATE)
                if overflow:
                    break
        if overflow or (written.size and not fits(written, 32)):
            return GradientSum(np.zeros(job.n_features, np.int64), 0, Overflow.UPDATE)
        counters = self._count_passes(job, derivative_planes, derivative_rows) \
            if self.config.stages.full_passes else dict.fromkeys(COUNTER_NAMES)
        return GradientSum(
            sums.of_levels(job.n_features), int(sums.updates[0]) * then.intercept_level,
            derivatives=pack_labels(written, LabelFormat.INT32) if written.size else None,
            counters=counters)

    def class_gradients(self, jobs: Sequence[TrainingJob], *, derivative_planes: int = 0,
                        derivative_rows: int = 0) -> ClassSums:
        """See :meth:`bitstep.pipeline.device.Device.class_gradients`."""
        check_classes(jobs, derivatives=False)
        check_gradient(jobs[0], self.config, derivative_planes, derivative_rows)
        return class_sums(jobs, derivative_planes, derivative_rows, lambda work: self._in_threads(
            work, jobs[0], jobs[0].epochs[0].planes))

    def prepare_classes(self, jobs: Sequence[TrainingJob]) -> None:
        """Compile what the jobs need, or load it from the cache."""
        compile_passes(jobs)

    def class_epochs(self, jobs: Sequence[TrainingJob]) -> Iterator[list[EpochModel] | None]:
        """Compute jobs of all classes; see :meth:`epochs`."""
        for models in train_classes(jobs, self._decoded.portions):
            self._look()
            yield models

    def _in_threads(self, work: Callable[[Portion], Any], job: TrainingJob,
                    planes: int) -> Iterator[Any]:
        """Results of all portions of a job's rows, in order; portions of rows that are kept are
        worked on at the same time.
        """
        parts = self._decoded.shares(job, 0, self.workers)
        results = map(work, self._decoded.portions(job, 0, planes)) if parts is None \
            else in_threads(work, parts, self.workers)
        for result in results:
            self._look()
            yield result

    def _count_passes(self, job, derivative_planes, derivative_rows):
        """Counters of the pipeline's runs for a gradient and for derivatives."""
        options = {"config": self.config, "gradient": True}
        counts = [counting(job, self.memory, **options)]
        if derivative_planes:
            counts.append(counting(
                derivative_job(job, derivative_planes, derivative_rows), self.memory,
                derivatives=True, **options))
        return sum_counters([Counters(functools.partial(_counters, count)) for count in counts])

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
        return not (first.config.rows.floating or first.config.rows.planes) \
            and not any(job.cell_half_levels for job in jobs) \
            and all(share_rows(first, job) for job in jobs[1:])


def _counters(count: Callable[[], Counted]) -> dict[str, int | None]:
    return count()[0]


def _ends(count: Callable[[], Counted]) -> list[int]:
    return count()[1]
