"""Bit-plane rows: epochs of sequential SGD, and the gradient of all rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bitstep.compiling import assign, compiled, kernel, uncounted
from bitstep.devices.cpu import words
from bitstep.devices.cpu.arithmetic import (
    LEAST_SQUARES,
    LOW_MASK,
    PAIR_BITS,
    Rule,
    rule_of_row,
    scaled_in_64,
    update_of,
    write_dithers,
)
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
from bitstep.devices.cpu.products import ROWS, add_rows, dot_rows, whole
from bitstep.devices.cpu.rows import correct, uncounted_arrays
from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Overflow

BLOCK = 8 * ROWS        # rows of a full pass whose updates are computed together


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
    features : ndarray of int64, shape (whole(n_features),)
        Of updates times codes.
    updates : ndarray of int64, shape (2,)
        Of updates, and of their magnitudes.
    products, dithers, block : ndarray of int64, shape (BLOCK,)
        Room for dot products, dithers and updates of some rows.
    """

    features: np.ndarray
    updates: np.ndarray
    products: np.ndarray
    dithers: np.ndarray
    block: np.ndarray

    @classmethod
    def zeros(cls, n_features: int) -> "GradientSums":
        """Sums over no rows."""
        sizes = whole(n_features), 2, BLOCK, BLOCK, BLOCK
        return cls(*(np.zeros(size, np.int64) for size in sizes))

    def of_levels(self, n_features: int) -> np.ndarray:
        """Sums of updates times levels: a level is twice the code, and 1."""
        return 2 * self.features[:n_features] + self.updates[0]


@kernel
def add_gradients(codes, place, drop, rule, level, model, intercept, sums, targets, weights, key,
                  first, planes, written):
    """Add the gradients of rows, one for each target; :mod:`bitstep.golden.gradient`.

    Parameters
    ----------
    codes, place, drop, rule, targets
        See :func:`take_bit_plane_rows`; ``codes`` are of
        :func:`bitstep.devices.cpu.products.empty_codes`.
    level : int
        Level of the intercept's input.
    model : ndarray of int32, shape (whole(n_features),)
        Zeros beyond the features.
    intercept : int
    sums : GradientSums
        Changed.
    weights : ndarray of uint16, shape (n_rows,) or (0,)
        Of all rows.
    key, first : int
        Key of the epoch; number of the first row, a multiple of 4.
    planes : int
        Planes at which derivatives are written, or 0.
    written : ndarray of int64, shape (at most rows,)
        Overwritten by those of the first ones (:func:`bitstep.golden.steps.derivative_label`).

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    codes, model, weights = uncounted(codes), uncounted(model), uncounted(weights)
    targets, written = uncounted(targets), uncounted(written)
    products, dithers, updates = (uncounted(sums.products), uncounted(sums.dithers),
                                  uncounted(sums.block))
    features, totals = uncounted(sums.features), uncounted(sums.updates)
    left = 16 - planes
    # A dot product of levels is twice that of codes, and the sum of the weights.
    always = level * intercept
    for j in range(model.size):
        always += np.int64(model[j])
    always_of_fewer = always - (level - (level >> left - drop)) * intercept
    for start in range(0, targets.size, BLOCK):
        count = min(BLOCK, targets.size - start)
        row, last = place + start, place + start + count - 1
        block_products(codes, row, last, drop, model, always, products)
        write_dithers(key, first + start, dithers)
        if not _block_updates(rule, weights, key, first, start, count, products, targets, dithers,
                              updates):
            return words.UPDATE
        largest = np.int64(0)
        for k in range(count):
            largest = max(largest, updates[k] ^ updates[k] >> 63)
            totals[0] += updates[k]
            totals[1] += abs(updates[k])
        if largest >= words.UPDATE_LIMIT:
            return words.UPDATE
        for k in range(count, BLOCK):
            updates[k] = 0
        for k in range(0, count, ROWS):
            add_rows(codes, row + k, last, drop, updates, k, features)
        if start < written.size:
            # The first planes of a code are the code of fewer bits.
            block_products(codes, row, last, left, model, always_of_fewer, products)
            for k in range(min(count, written.size - start)):
                written[start + k] = derivative_label(
                    rule, products[k] >> PAIR_BITS, products[k] & LOW_MASK, targets[start + k],
                    left - drop)
    return 0


@compiled
def block_products(codes, row, last, drop, model, always, products):
    """Dot products of levels, of the rows up to the last."""
    for k in range(0, last - row + 1, ROWS):
        dot_rows(codes, row + k, last, drop, model, products, k)
    for k in range(BLOCK):
        products[k] = 2 * products[k] + always


@compiled
def _block_updates(rule, weights, key, first, start, count, products, targets, dithers, updates):
    """Updates of a block's rows; return False if the step of one does not fit.

    The first two loops compile to vectors, and take a fifth of the third's time.
    """
    if rule.loss == LOGISTIC and weights.size == 0:
        for k in range(count):
            updates[k] = fine_update(rule, products[k] >> PAIR_BITS, products[k] & LOW_MASK,
                                     targets[start + k], dithers[k])
    elif rule.loss == LEAST_SQUARES and weights.size == 0 and rule.shift >= PAIR_BITS:
        for k in range(count):
            target = targets[start + k]
            updates[k] = scaled_in_64(
                rule.mantissa, (products[k] >> PAIR_BITS) - (target >> PAIR_BITS),
                (products[k] & LOW_MASK) - (target & LOW_MASK),
                2 * dithers[k] + 1 << rule.shift - 17, rule.shift)
    else:
        for k in range(count):
            high, low, row = products[k] >> PAIR_BITS, products[k] & LOW_MASK, start + k
            own = rule_of_row(rule, weights, first + row, key)
            if own.derivative_step < 0:
                return False
            if rule.loss == LOGISTIC:
                updates[k] = fine_update(own, high, low, targets[row], dithers[k])
            else:
                updates[k] = update_of(own, high, low, targets[row], dithers[k])
    return True


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
