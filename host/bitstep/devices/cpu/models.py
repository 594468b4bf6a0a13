"""Models of jobs on the native device, between epochs and during one."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitstep.cycles import OpenRows
from bitstep.devices.cpu import float32, integer, portions, words
from bitstep.devices.cpu.arithmetic import Rule
from bitstep.devices.cpu.decoding import byte_tables, padded, row_format
from bitstep.devices.cpu.numbers import (
    arrays_of,
    codebooks_of,
    epoch_numbers,
    read_only,
    weights_of,
)
from bitstep.devices.cpu.refetching import COUNT, OUTCOME, ROW, Flight
from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.registers import Overflow

NO_ROWS = OpenRows(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class NativeEpoch(EpochModel):
    """The model after an epoch, and the rows that a pipeline held up in it."""

    open_rows: OpenRows = NO_ROWS


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
        self.arrays = arrays_of(job, levels, levels.copy() if self.shape.two_levels else levels,
                                byte_tables(job.config), codebooks_of(job))
        self.fine = read_only(np.empty((0, job.n_features), np.int16) if job.fine_rows is None
                               else job.fine_rows)

        depth, portion = (lookahead + 1, portions.PORTION_ROWS) if job.cell_half_levels else (0, 0)
        self.flight = Flight(levels=np.zeros((depth, length), np.int8),
                             updates=np.zeros(depth, np.int64),
                             opened=np.zeros((portion, 2), np.int64), place=np.zeros(3, np.int64))
        self.opened: list[np.ndarray] = []

    def begin(self, rows: np.ndarray, rule: Rule, steps: EpochSteps) -> Callable[..., int]:
        """Begin an epoch over these stored rows; return the function that takes a portion."""
        self.arrays.state[[words.BOUND, words.PENDING, words.REFETCHED]] = words.LIMIT, 0, 0
        self.flight.updates[:] = self.flight.place[:] = 0
        self.opened.clear()
        numbers = epoch_numbers(self.job, steps, self.lookahead)

        def take(*portion):
            self.flight.place[COUNT] = 0
            overflow = integer.take_rows(rows, self.fine, self.shape, rule, numbers, self.arrays,
                                           self.flight, *portion)
            if self.job.cell_half_levels:
                self.opened.append(self.flight.opened[:self.flight.place[COUNT]].copy())
            return overflow
        return take

    def result(self, overflow: Overflow) -> EpochModel:
        """The model as it is now."""
        state = self.arrays.state
        opened = np.concatenate([np.empty((0, 2), np.int64), *self.opened])
        return NativeEpoch(self.arrays.model[:self.job.n_features].copy(),
                           int(state[words.INTERCEPT]), overflow, int(state[words.REFETCHED]),
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
            **{name: np.zeros(shape, np.int64) for name, shape in shapes.items()},
            weights=weights_of(job))
        self.arrays.state[float32.INTERCEPT] = job.intercept

    def begin(self, rows: np.ndarray, rule: Rule, steps: EpochSteps) -> Callable[..., int]:
        """Begin an epoch over these stored rows; return the function that takes a portion."""
        self.arrays.updates[:] = self.arrays.correction[:] = 0
        self.arrays.state[[float32.PENDING, float32.SINCE, float32.OLDEST]] = 0, -1, 0
        numbers = epoch_numbers(self.job, steps)
        return lambda *portion: float32.take_float_rows(
            rows, rule, numbers, self.arrays, *portion)

    def result(self, overflow: Overflow) -> EpochModel:
        """The model as it is now."""
        return EpochModel(self.arrays.model.astype(np.int32),
                          int(self.arrays.state[float32.INTERCEPT]), overflow)
