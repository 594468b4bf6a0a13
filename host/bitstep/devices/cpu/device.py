"""The native device: every job of the golden model, compiled by numba."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bitstep.cycles import Memory, OpenRows, count_epochs
from bitstep.devices.cpu import float32, integer, words
from bitstep.devices.cpu.arithmetic import Rule, fill_dithers
from bitstep.devices.cpu.decoding import byte_tables, padded, row_format
from bitstep.devices.cpu.refetching import COUNT, OUTCOME, ROW, Flight
from bitstep.devices.software import SoftwareDevice
from bitstep.golden.sgd import EpochModel
from bitstep.golden.steps import MAX_DERIVATIVE_STEP, derivative_step
from bitstep.machine import available_cores
from bitstep.pipeline.config import SHIFT_UNIT, PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.registers import LabelFormat, Loss, Saturation
from bitstep.pipeline.results import RunResult

PORTION_VALUES = 1 << 24    # values between two looks at clock and keyboard: some 10 milliseconds
PORTION_ROWS = 1 << 16
NO_ROWS = OpenRows(np.empty(0, np.int64), np.empty(0, np.int64))
LABEL_BITS = {LabelFormat.SIGN: 1, LabelFormat.INT16: 16, LabelFormat.INT32: 32}


@dataclass(frozen=True)
class NativeEpoch(EpochModel):
    """The model after an epoch, and the rows that a pipeline held up in it."""

    open_rows: OpenRows = NO_ROWS


class CpuDevice(SoftwareDevice):
    """The golden model's integers in compiled loops: the same models, bit for bit, at native speed.

    Rows are read as they are packed, so a job needs no more memory than they do. Time is checked
    every few milliseconds. The counters are those of the pipeline, by :mod:`bitstep.cycles`; of
    a run that saturated, only those that the golden model knows.

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
        rule = Rule(int(job.loss), 0, SHIFT_UNIT, 0, job.label_shift)
        none = np.empty(0, np.int64)
        fill_dithers(0, 0, none)
        self._model(job).begin(_read_only(job.rows[0]), rule, job.epochs[0])(none, none, 0)

    def _model(self, job: TrainingJob) -> "IntegerModel | FloatModel":
        if job.config.row_format == "float32":
            return FloatModel(job)
        return IntegerModel(job, self.config.effective_lookahead(job.beats))

    def result(self, job: TrainingJob, epochs: list[EpochModel], *, saturated: bool) -> RunResult:
        """Result of a run, with the pipeline's counters unless it saturated."""
        known = super().result(job, epochs, saturated=saturated)
        if saturated:
            return known
        opened = [epoch.open_rows for epoch in epochs if isinstance(epoch, NativeEpoch)]
        counters, ends = count_epochs(job, self.memory, config=self.config, epochs=len(epochs),
                                      open_rows=opened)
        return replace(known, counters=counters, epoch_cycles=tuple(ends))

    def epochs(self, job: TrainingJob) -> Iterator[EpochModel | None]:
        """Compute a job; yield the model after each epoch, and None every few milliseconds."""
        model = self._model(job)
        for number, steps in enumerate(job.epochs):
            step = derivative_step(job, steps)
            linear = job.loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE)
            if step >= MAX_DERIVATIVE_STEP and not linear:
                yield model.result(Saturation.UPDATE)
                return
            rule = Rule(int(job.loss), steps.mantissa, SHIFT_UNIT * steps.shift,
                        0 if linear else step, job.label_shift)
            take = model.begin(_read_only(job.rows[number % len(job.rows)]), rule, steps)
            saturation = 0
            for first, targets, dithers in portions(job, steps.key):
                saturation = take(targets, dithers, first)
                if saturation:
                    break
                if self._interrupted.is_set():
                    raise KeyboardInterrupt
                yield None
            yield model.result(Saturation(saturation))
            if saturation:
                return


def portions(job: TrainingJob, key: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Targets and dithers of an epoch, a portion at a time, with the number of its first row."""
    size = min(PORTION_ROWS, max(8, PORTION_VALUES // job.n_features // 8 * 8))
    for first in range(0, job.n_rows, size):
        n_rows = min(size, job.n_rows - first)
        labels = job.labels[first * LABEL_BITS[job.label_format] // 8:]
        targets = unpack_labels(labels, job.label_format, n_rows) << job.label_shift
        dithers = np.empty(n_rows, np.int64)
        fill_dithers(key, first, dithers)
        yield first, targets, dithers


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that may not be written: one type for the compiler, mapped from a file or not."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _level_tables(job: TrainingJob) -> np.ndarray:
    """The tables of a job; of no features if it has none."""
    tables = np.empty((0, 1), np.int8) if job.level_tables is None else job.level_tables
    return _read_only(np.ascontiguousarray(tables))


def _epoch_numbers(job: TrainingJob, steps: EpochSteps, lookahead: int = 0) -> integer.Epoch:
    margin = job.cell_half_levels * lookahead * job.n_features * job.config.level_limit
    return integer.Epoch(
        job.n_rows, job.intercept_level, job.batch, job.correction_period, job.proximal_period,
        steps.threshold, job.box_limit, job.cell_half_levels, steps.correction_mantissa,
        SHIFT_UNIT * steps.correction_shift, job.config.level_limit, job.config.fine_fraction,
        margin)


class IntegerModel:
    """Model of a job on integer levels, between epochs and during one.

    Parameters
    ----------
    job : TrainingJob
    lookahead : int
        Rows by which the model in the pipeline's memory trails; it decides the open rows alone.
    """

    def __init__(self, job: TrainingJob, lookahead: int):
        self.job, self.lookahead = job, lookahead
        self.shape = row_format(job.config, job.n_features)
        length = padded(job.n_features)
        levels = np.zeros(length, np.int8)
        self.arrays = integer.Arrays(
            model=np.zeros(length, np.int32), seen=np.zeros(length, np.int32),
            pending=np.zeros(length, np.int32), coefficients=np.zeros(length, np.int64),
            dot_levels=levels, gradient_levels=levels.copy() if self.shape.two_levels else levels,
            lookup=byte_tables(job.config), level_tables=_level_tables(job),
            state=np.zeros(5, np.int64))
        self.arrays.model[:job.n_features] = job.model
        self.arrays.coefficients[:job.n_features] = job.coefficients
        self.arrays.state[words.INTERCEPT] = job.intercept
        self.fine = _read_only(np.empty((0, job.n_features), np.int16) if job.fine_rows is None
                               else job.fine_rows)

        depth, portion = (lookahead + 1, PORTION_ROWS) if job.cell_half_levels else (0, 0)
        self.flight = Flight(levels=np.zeros((depth, length), np.int8),
                             updates=np.zeros(depth, np.int64),
                             opened=np.zeros((portion, 2), np.int64), place=np.zeros(3, np.int64))
        self.opened: list[np.ndarray] = []

    def begin(self, rows: np.ndarray, rule: Rule, steps: EpochSteps) -> Callable[..., int]:
        """Begin an epoch over these packed rows; return the function that takes a portion."""
        self.arrays.state[[words.BOUND, words.PENDING, words.REFETCHED]] = words.LIMIT, 0, 0
        self.flight.updates[:] = self.flight.place[:] = 0
        self.opened.clear()
        numbers = _epoch_numbers(self.job, steps, self.lookahead)

        def take(*portion):
            self.flight.place[COUNT] = 0
            saturation = integer.take_rows(rows, self.fine, self.shape, rule, numbers, self.arrays,
                                           self.flight, *portion)
            if self.job.cell_half_levels:
                self.opened.append(self.flight.opened[:self.flight.place[COUNT]].copy())
            return saturation
        return take

    def result(self, saturation: Saturation) -> EpochModel:
        """The model as it is now."""
        state = self.arrays.state
        opened = np.concatenate([np.empty((0, 2), np.int64), *self.opened])
        return NativeEpoch(self.arrays.model[:self.job.n_features].copy(),
                           int(state[words.INTERCEPT]), saturation, int(state[words.REFETCHED]),
                           OpenRows(opened[:, ROW], opened[:, OUTCOME]))


class FloatModel:
    """Model of a job on floating-point rows, between epochs and during one.

    Parameters
    ----------
    job : TrainingJob
    """

    def __init__(self, job: TrainingJob):
        self.job = job
        n_features, depth = job.n_features, job.lookahead + 1
        shapes = dict.fromkeys(("correction", "pending", "seen"), (n_features,)) | dict.fromkeys(
            ("mantissas", "exponents"), (depth, n_features)) | {"updates": (depth,), "state": (5,)}
        self.arrays = float32.FloatArrays(
            model=job.model.astype(np.int64), coefficients=job.coefficients.astype(np.int64),
            **{name: np.zeros(shape, np.int64) for name, shape in shapes.items()})
        self.arrays.state[float32.INTERCEPT] = job.intercept

    def begin(self, rows: np.ndarray, rule: Rule, steps: EpochSteps) -> Callable[..., int]:
        """Begin an epoch over these packed rows; return the function that takes a portion."""
        self.arrays.updates[:] = self.arrays.correction[:] = 0
        self.arrays.state[[float32.PENDING, float32.SINCE, float32.OLDEST]] = 0, -1, 0
        numbers = _epoch_numbers(self.job, steps)
        return lambda *portion: float32.take_float_rows(
            rows, rule, numbers, self.arrays, *portion)

    def result(self, saturation: Saturation) -> EpochModel:
        """The model as it is now."""
        return EpochModel(self.arrays.model.astype(np.int32),
                          int(self.arrays.state[float32.INTERCEPT]), saturation)
