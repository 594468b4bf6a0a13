"""Bit-plane rows: levels of bit planes, epochs of sequential SGD, and the gradient of all rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bitstep.compiling import compiled, kernel, uncounted
from bitstep.devices.cpu import words
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, Rule, rule_of_row, update_of
from bitstep.devices.cpu.decoding import padded
from bitstep.devices.cpu.derivatives import (
    CENTRED,
    LOGISTIC,
    centred_update,
    derivative_label,
    fine_update,
)
from bitstep.devices.cpu.numbers import epoch_numbers, weights_of
from bitstep.devices.cpu.rows import Arrays, correct, uncounted_arrays
from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Overflow
from bitstep.pipeline.results import UPDATES_LIMIT

# The 8 bits of a byte, each in a byte of a word: first feature lowest.
_SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1,
                        bitorder="little").view("<u8")[:, 0].astype(np.uint64)


class BitPlaneShape(NamedTuple):
    """Shape of bit-plane rows as an epoch reads them.

    Attributes
    ----------
    n_features, row_bits, plane_bytes, block_rows, planes : int
    """

    n_features: int
    row_bits: int
    plane_bytes: int
    block_rows: int
    planes: int


@compiled
def _eight_bits(blocks, block, at, half, both):
    """The bits of 8 features, which begin at a byte or in its middle, each in a byte of a word."""
    bits = np.int64(blocks[block, at]) >> half
    if both:
        bits |= np.int64(blocks[block, at + 1]) << 4
    return _SPREAD[bits & 255]


@compiled
def _transpose_row(blocks, row, shape, levels):
    """Write the levels of a row: int32, shape (padded(n_features),), zeroed beyond the features."""
    start = row % shape.block_rows * shape.row_bits
    half, one = start & 4, np.uint64(1)
    high_planes = min(shape.planes, 8)
    low_planes, offset = shape.planes - high_planes, (1 << shape.planes) - 1
    for first in range(0, shape.row_bits, 8):
        at = (start + first) >> 3
        both = half != 0 and first + 4 < shape.row_bits
        high, low = np.uint64(0), np.uint64(0)
        for _ in range(high_planes):
            high = high << one | _eight_bits(blocks, row // shape.block_rows, at, half, both)
            at += shape.plane_bytes
        for _ in range(low_planes):
            low = low << one | _eight_bits(blocks, row // shape.block_rows, at, half, both)
            at += shape.plane_bytes
        for lane in range(8):
            shift = np.uint64(8 * lane)
            code = np.int64(high >> shift & np.uint64(255)) << low_planes \
                | np.int64(low >> shift & np.uint64(255))
            levels[first + lane] = 2 * code - offset
    for feature in range(shape.n_features, levels.size):
        levels[feature] = 0


@kernel
def take_bit_plane_rows(blocks, shape, rule, epoch, arrays, targets, dithers, first):
    """Take rows from ``first`` on, one for each target.

    Parameters
    ----------
    blocks : ndarray of uint8, shape (blocks, block_bytes)
    shape : BitPlaneShape
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
    blocks, arrays = uncounted(blocks), uncounted_arrays(arrays)
    model, state, levels = arrays.model, arrays.state, arrays.dot_levels
    seen = arrays.seen if epoch.batch > 1 else model
    for i in range(targets.size):
        row = first + i
        if epoch.correction_period and row % epoch.correction_period == 0:
            wrong = correct(epoch, arrays, row)
            if wrong:
                return wrong
        if row % epoch.batch == 0:
            if epoch.batch > 1:
                seen[:] = model
            state[words.SEEN_INTERCEPT] = state[words.INTERCEPT]
        _transpose_row(blocks, row, shape, levels)
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


class GradientArrays(NamedTuple):
    """Arrays of a pass that sums gradients.

    Attributes
    ----------
    model : ndarray of int64, shape (padded(n_features) + 1,)
        Weights, zeros, and the intercept's word.
    levels : ndarray of int32, shape (padded(n_features),)
        Of a row.
    sums : ndarray of int64, shape (padded(n_features) + 2,)
        Of the features, of the intercept, and of all magnitudes of updates.
    weights : ndarray of uint16
        See :class:`bitstep.devices.cpu.rows.Arrays`.
    """

    model: np.ndarray
    levels: np.ndarray
    sums: np.ndarray
    weights: np.ndarray


@kernel
def add_gradients(blocks, shape, rule, level, key, arrays, targets, dithers, first, planes,
                  written):
    """Add the gradients of rows from ``first`` on; :mod:`bitstep.golden.gradient`.

    Parameters
    ----------
    blocks, shape, rule, targets, dithers, first
        See :func:`take_bit_plane_rows`.
    level : int
        Level of the intercept's input.
    key : int
        Key of the epoch.
    arrays : GradientArrays
        Changed.
    planes : int
        Planes at which derivatives are written, or 0.
    written : ndarray of int64, shape (rows,) or (0,)
        Overwritten by them (:func:`bitstep.golden.steps.derivative_label`).

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    blocks, model, levels, sums = (uncounted(blocks), uncounted(arrays.model),
                                   uncounted(arrays.levels), uncounted(arrays.sums))
    for i in range(targets.size):
        _transpose_row(blocks, first + i, shape, levels)
        product = level * model[levels.size] + words.dot(levels, model)
        high, low = product >> PAIR_BITS, product & LOW_MASK
        own = rule_of_row(rule, arrays.weights, first + i, key)
        if own.derivative_step < 0:
            return words.UPDATE
        if rule.loss == LOGISTIC:
            update = fine_update(own, high, low, targets[i], dithers[i])
        else:
            update = update_of(own, high, low, targets[i], dithers[i])
        if update < -words.UPDATE_LIMIT or update >= words.UPDATE_LIMIT:
            return words.UPDATE
        sums[levels.size + 1] += abs(update)
        if sums[levels.size + 1] >= UPDATES_LIMIT:
            return words.UPDATE
        for j in range(levels.size):
            sums[j] += update * np.int64(levels[j])
        sums[levels.size] += update * level
        if written.size:
            # The first planes of a code are the code of fewer bits; a level is 2 k + 1 - 2^b.
            left = shape.planes - planes
            product = (level >> left) * model[levels.size]
            for j in range(shape.n_features):
                code = (np.int64(levels[j]) - 1 + (1 << shape.planes)) >> left + 1
                product += (2 * code + 1 - (1 << planes)) * model[j]
            written[i] = derivative_label(rule, product >> PAIR_BITS, product & LOW_MASK,
                                          targets[i], left)
    return 0


def bit_plane_shape(job: TrainingJob, planes: int) -> BitPlaneShape:
    """The shape of a job's rows."""
    layout = BitPlaneLayout(job.n_features)
    return BitPlaneShape(job.n_features, layout.row_bits, layout.plane_bytes, layout.block_rows,
                      planes)


class BitPlaneModel:
    """Model of a job on bit-plane rows, between epochs and during one.

    Parameters
    ----------
    job : TrainingJob
    """

    def __init__(self, job: TrainingJob):
        self.job = job
        length, n_features = padded(job.n_features), job.n_features
        levels, none = np.zeros(length, np.int32), np.empty(0, np.uint64)
        self.arrays = Arrays(
            **{name: np.zeros(length, np.int32) for name in ("model", "seen", "pending")},
            **{name: np.zeros(length, np.int64) for name in ("coefficients", "constants")},
            dot_levels=levels, gradient_levels=levels, lookup=none,
            codebooks=np.empty((0, 1), np.int8), state=np.zeros(words.STATE, np.int64),
            weights=weights_of(job))
        self.arrays.model[:n_features] = job.model
        self.arrays.coefficients[:n_features] = job.coefficients
        if job.constants is not None:
            self.arrays.constants[:n_features] = job.constants
        self.arrays.state[words.INTERCEPT] = job.intercept

    def begin(self, rows: np.ndarray, rule: Rule, steps) -> Callable[..., int]:
        """Begin an epoch over these stored rows; return the function that takes a portion."""
        self.arrays.state[[words.BOUND, words.PENDING]] = words.LIMIT, 0
        numbers = epoch_numbers(self.job.at(steps), steps)
        shape = bit_plane_shape(self.job, steps.planes)
        return lambda *portion: take_bit_plane_rows(rows, shape, rule, numbers, self.arrays,
                                                    *portion)

    def result(self, overflow: Overflow) -> EpochModel:
        """The model as it is now."""
        return EpochModel(self.arrays.model[:self.job.n_features].copy(),
                          int(self.arrays.state[words.INTERCEPT]), overflow)
