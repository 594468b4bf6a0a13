"""Bit-plane rows: epochs of sequential SGD, and the gradient of all rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bitstep.compiling import assign, compiled, kernel, uncounted
from bitstep.devices.cpu import words
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, Rule, rule_of_row, update_of
from bitstep.devices.cpu.codes import write_levels
from bitstep.devices.cpu.decoding import padded
from bitstep.devices.cpu.derivatives import (
    CENTRED,
    LOGISTIC,
    centred_update,
    derivative_label,
    fine_update,
)
from bitstep.devices.cpu.numbers import arrays_of, epoch_numbers
from bitstep.devices.cpu.rows import correct, uncounted_arrays
from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Overflow
from bitstep.pipeline.results import UPDATES_LIMIT


@kernel
def take_bit_plane_rows(codes, place, drop, rule, epoch, arrays, targets, dithers, first):
    """Take rows from ``first`` on, one for each target.

    Parameters
    ----------
    codes : ndarray of int16, shape (rows, n_features)
        See :mod:`bitstep.devices.cpu.codes`.
    place : int
        Place of row ``first`` in ``codes``.
    drop : int
        Bits of a code that are not read: 16 less the planes.
    rule : Rule
    epoch : Epoch
    arrays : Arrays
        Changed; levels are int32.
    targets, dithers : ndarray of int64
    first : int

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    codes, arrays = uncounted(codes), uncounted_arrays(arrays)
    model, state, levels = arrays.model, arrays.state, arrays.dot_levels
    n_features, drop = codes.shape[1], np.int32(drop)
    seen = arrays.seen if epoch.batch > 1 else model
    for i in range(targets.size):
        row = first + i
        if epoch.correction_period and row % epoch.correction_period == 0:
            wrong = correct(epoch, arrays, row)
            if wrong:
                return wrong
        if row % epoch.batch == 0:
            if epoch.batch > 1:
                assign(seen, model)
            state[words.SEEN_INTERCEPT] = state[words.INTERCEPT]
        write_levels(codes, place + i, drop, n_features, levels)
        product = words.dot(levels, seen) + epoch.level * state[words.SEEN_INTERCEPT]
        high, low = product >> PAIR_BITS, product & LOW_MASK
        own = rule_of_row(rule, arrays.weights, row, epoch.key)
        if own.derivative_step < 0:
            return words.UPDATE
        if rule.loss >= CENTRED:
            update = centred_update(own, high, low, targets[i], dithers[i])
        else:
            update = update_of(own, high, low, targets[i], dithers[i])
        wrong = words.apply(epoch, model, levels, update, state)
        if wrong:
            return wrong
        if epoch.proximal_period and ((row + 1) % epoch.proximal_period == 0
                                      or row + 1 == epoch.n_rows):
            words.proximal(model, epoch.threshold, epoch.box_limit)
    return 0


class GradientSums(NamedTuple):
    """Sums of a pass over some rows; those of several parts of the rows are added.

    Attributes
    ----------
    features : ndarray of int64, shape (n_features,)
        Of updates times codes.
    updates : ndarray of int64, shape (2,)
        Of updates, and of their magnitudes.
    """

    features: np.ndarray
    updates: np.ndarray

    @classmethod
    def zeros(cls, n_features: int) -> "GradientSums":
        """Sums over no rows."""
        return cls(np.zeros(n_features, np.int64), np.zeros(2, np.int64))

    def of_levels(self) -> np.ndarray:
        """Sums of updates times levels: a level is twice the code, and 1."""
        return 2 * self.features + self.updates[0]


@kernel
def add_gradients(codes, place, drop, rule, level, model, intercept, sums, targets, dithers,
                  weights, key, first, planes, written):
    """Add the gradients of rows, one for each target; :mod:`bitstep.golden.gradient`.

    Parameters
    ----------
    codes, place, drop, rule, targets, dithers
        See :func:`take_bit_plane_rows`.
    level : int
        Level of the intercept's input.
    model : ndarray of int32, shape (n_features,)
    intercept : int
    sums : GradientSums
        Changed.
    weights : ndarray of uint16, shape (n_rows,) or (0,)
        Of all rows.
    key, first : int
        Key of the epoch; number of the first row.
    planes : int
        Planes at which derivatives are written, or 0.
    written : ndarray of int64, shape (at most rows,)
        Overwritten by those of the first ones (:func:`bitstep.golden.steps.derivative_label`).

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    codes, model, features, updates = (uncounted(codes), uncounted(model),
                                       uncounted(sums.features), uncounted(sums.updates))
    weights = uncounted(weights)
    drop, left = np.int32(drop), np.int32(16 - planes)
    # A dot product of levels is twice that of codes, and the sum of the weights.
    always = level * intercept
    for j in range(model.size):
        always += np.int64(model[j])
    for i in range(targets.size):
        product = 2 * _dot(codes, place + i, drop, model) + always
        high, low = product >> PAIR_BITS, product & LOW_MASK
        own = rule_of_row(rule, weights, first + i, key)
        if own.derivative_step < 0:
            return words.UPDATE
        if rule.loss == LOGISTIC:
            update = fine_update(own, high, low, targets[i], dithers[i])
        else:
            update = update_of(own, high, low, targets[i], dithers[i])
        if update < -words.UPDATE_LIMIT or update >= words.UPDATE_LIMIT:
            return words.UPDATE
        updates[1] += abs(update)
        if updates[1] >= UPDATES_LIMIT:
            return words.UPDATE
        updates[0] += update
        for j in range(model.size):
            features[j] += update * np.int64(np.int32(codes[place + i, j]) >> drop)
        if i < written.size:
            # The first planes of a code are the code of fewer bits.
            product = 2 * _dot(codes, place + i, left, model) + always
            product -= (level - (level >> left - drop)) * intercept
            written[i] = derivative_label(rule, product >> PAIR_BITS, product & LOW_MASK,
                                          targets[i], left - drop)
    return 0


@compiled
def _dot(codes, row, drop, model):
    """Exact sum of products of codes and weights."""
    total = np.int64(0)
    for j in range(model.size):
        total += np.int64(np.int32(codes[row, j]) >> drop) * np.int64(model[j])
    return total


class BitPlaneModel:
    """Model of a job on bit-plane rows, between epochs and during one.

    Parameters
    ----------
    job : TrainingJob
    """

    def __init__(self, job: TrainingJob):
        self.job = job
        levels = np.zeros(padded(job.n_features), np.int32)
        self.arrays = arrays_of(job, levels, levels, np.empty(0, np.uint64),
                                np.empty((0, 1), np.int8))

    def begin(self, rule: Rule, steps) -> Callable[..., int]:
        """Begin an epoch; return the function that takes a portion of codes."""
        self.arrays.state[[words.BOUND, words.PENDING]] = words.LIMIT, 0
        numbers = epoch_numbers(self.job.at(steps), steps)
        return lambda codes, place, *portion: take_bit_plane_rows(
            codes, place, PLANES - steps.planes, rule, numbers, self.arrays, *portion)

    def result(self, overflow: Overflow) -> EpochModel:
        """The model as it is now."""
        return EpochModel(self.arrays.model[:self.job.n_features].copy(),
                          int(self.arrays.state[words.INTERCEPT]), overflow)
