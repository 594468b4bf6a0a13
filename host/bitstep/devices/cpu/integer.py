"""Rows of integer levels: :class:`bitstep.golden.integer.IntegerEpoch`, compiled."""

from typing import NamedTuple

import numpy as np

from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, TOO_LARGE, update_of
from bitstep.devices.cpu.compiling import compiled, kernel
from bitstep.devices.cpu.decoding import decode_row
from bitstep.pipeline.config import MODEL_WIDTH
from bitstep.pipeline.registers import Saturation

LIMIT = 1 << MODEL_WIDTH - 1
# Numbers that go on from one call to the next, in the array ``state``.
INTERCEPT, BOUND, PENDING, SEEN_INTERCEPT, REFETCHED = range(5)

_UPDATE, _MODEL, _CORRECTION = (
    int(Saturation.UPDATE), int(Saturation.MODEL), int(Saturation.CORRECTION))
_HALF = 18                  # bits of the low part of a correction's factor


class Epoch(NamedTuple):
    """Numbers of an epoch, all int64 (:class:`bitstep.pipeline.job.TrainingJob`).

    Attributes
    ----------
    n_rows, level, batch, correction_period, proximal_period, threshold, box_limit, cell : int
    correction_mantissa, correction_shift : int
        A correction is ``word * coefficient * mantissa / 2**shift``.
    level_limit, fine_fraction : int
        Of the configuration.
    """

    n_rows: int
    level: int
    batch: int
    correction_period: int
    proximal_period: int
    threshold: int
    box_limit: int
    cell: int
    correction_mantissa: int
    correction_shift: int
    level_limit: int
    fine_fraction: int


class Arrays(NamedTuple):
    """Arrays of a run; those of a model have length ``padded(n_features)``, zero at the end.

    Attributes
    ----------
    model, seen : ndarray of int32
        The model, and what the rows of a batch meet.
    pending : ndarray of int32
        Correction that the next boundary adds.
    coefficients : ndarray of int64
    dot_levels, gradient_levels : ndarray of int8
        Of the row that is taken; the same array where codes have one level.
    tables : ndarray of uint64, shape (2, 256)
    state : ndarray of int64
    """

    model: np.ndarray
    seen: np.ndarray
    pending: np.ndarray
    coefficients: np.ndarray
    dot_levels: np.ndarray
    gradient_levels: np.ndarray
    tables: np.ndarray
    state: np.ndarray


@kernel
def take_rows(rows, fine, shape, rule, epoch, arrays, targets, dithers, first):
    """Take rows from ``first`` on, one for each target.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n_rows, beats * beat_bytes)
    fine : ndarray of int16, shape (n_rows, n_features)
        Fine rows, or of no rows.
    shape : RowFormat
    rule : Rule
    epoch : Epoch
    arrays : Arrays
        Changed.
    targets, dithers : ndarray of int64
    first : int

    Returns
    -------
    int
        0, or the Saturation of the row that left a range.
    """
    model, state = arrays.model, arrays.state
    dot_levels, gradient_levels = arrays.dot_levels, arrays.gradient_levels
    dot_table, gradient_table = arrays.tables[0], arrays.tables[1]
    seen = arrays.seen if epoch.batch > 1 else model
    for i in range(targets.size):
        row = first + i
        if epoch.correction_period and row % epoch.correction_period == 0:
            wrong = _correct(epoch, arrays, row)
            if wrong:
                return wrong
        if row % epoch.batch == 0:
            if epoch.batch > 1:
                seen[:] = model
            state[SEEN_INTERCEPT] = state[INTERCEPT]
        decode_row(rows, row, shape, shape.dot, dot_table, dot_levels)
        if shape.two_levels:
            decode_row(rows, row, shape, shape.gradient, gradient_table, gradient_levels)
        product = dot(dot_levels, seen) + epoch.level * state[SEEN_INTERCEPT]
        if epoch.cell and _undecided(epoch, dot_levels, model, product, targets[i]):
            wrong = _refetch(fine[row], rule, epoch, arrays, targets[i], dithers[i])
        else:
            update = update_of(rule, product >> PAIR_BITS, product & LOW_MASK, targets[i],
                               dithers[i])
            wrong = _apply(epoch, model, gradient_levels, update, state)
        if wrong:
            return wrong
        if epoch.proximal_period and ((row + 1) % epoch.proximal_period == 0
                                      or row + 1 == epoch.n_rows):
            proximal(model, epoch.threshold, epoch.box_limit)
    return 0


@compiled
def dot(levels, words):
    """Exact sum of products of levels and model words."""
    total = np.int64(0)
    for j in range(levels.size):
        total += np.int64(levels[j]) * np.int64(words[j])
    return total


@compiled
def _apply(epoch, model, levels, update, state):
    """Subtract ``update * levels``; return 0 or a Saturation."""
    if update == 0:
        return 0
    if update == TOO_LARGE:
        return _UPDATE
    state[BOUND] += abs(update) * epoch.level_limit
    if state[BOUND] < LIMIT:                # no word can leave 32 bits
        factor = np.int32(update)
        for j in range(levels.size):
            model[j] = np.int32(model[j] - factor * np.int32(levels[j]))
    else:
        largest = np.int64(0)
        for j in range(levels.size):
            word = np.int64(model[j]) - update * np.int64(levels[j])
            if word < -LIMIT or word >= LIMIT:
                return _MODEL
            model[j] = word
            largest = max(largest, abs(word))
        state[BOUND] = largest
    return _move_intercept(epoch, update, state)


@compiled
def _move_intercept(epoch, update, state):
    intercept = state[INTERCEPT] - update * epoch.level
    state[INTERCEPT] = intercept
    return 0 if -LIMIT <= intercept < LIMIT else _MODEL


@compiled
def _correct(epoch, arrays, row):
    """Add the correction that is due and compute the next one; return 0 or a Saturation."""
    model, pending, state = arrays.model, arrays.pending, arrays.state
    if state[PENDING]:
        largest = np.int64(0)
        for j in range(model.size):
            word = np.int64(model[j]) + pending[j]
            if word < -LIMIT or word >= LIMIT:
                return _MODEL
            model[j] = word
            largest = max(largest, abs(word))
        state[BOUND] = largest
    state[PENDING] = row + epoch.correction_period < epoch.n_rows
    if state[PENDING]:
        for j in range(model.size):
            exact = correction(model[j], arrays.coefficients[j] * epoch.correction_mantissa,
                               epoch.correction_shift)
            if exact < -LIMIT or exact >= LIMIT:
                return _CORRECTION
            pending[j] = exact
    return 0


@compiled
def correction(word, factor, shift):
    """``word * factor / 2**shift``, rounded to nearest, ties towards plus infinity.

    Parameters
    ----------
    word : int
        32 bits, signed.
    factor : int
        36 bits, signed: their product may need 68.
    shift : int
        8 to 56.
    """
    low = word * (factor & (1 << _HALF) - 1)
    high = word * (factor >> _HALF)
    if shift > _HALF:
        high += (low >> _HALF) + (np.int64(1) << shift - 1 - _HALF)
        return high >> shift - _HALF
    low += np.int64(1) << shift - 1
    return (high << _HALF - shift) + (low >> shift)


@compiled
def proximal(model, threshold, limit):
    """Soft threshold and box, for every word."""
    for j in range(model.size):
        word = np.int64(model[j])
        size = min(max(abs(word) - threshold, 0), limit)
        model[j] = size if word > 0 else -size


@compiled
def _undecided(epoch, levels, model, product, target):
    """True if the fine row may be on either side of the hinge."""
    above = below = np.int64(0)             # sums of |word| that may move the product up, down
    limit = epoch.level_limit
    for j in range(levels.size):
        word, level = np.int64(model[j]), np.int64(levels[j])
        size, outwards = abs(word), level if word > 0 else -level
        above += size if outwards != limit else 0
        below += size if outwards != -limit else 0
    high, low = 2 * product + epoch.cell * above, 2 * product - epoch.cell * below
    if target > 0:
        return low < 2 * target <= high
    return low <= 2 * target < high


@compiled
def _refetch(values, rule, epoch, arrays, target, dither):
    """Decide and apply a fine row; return 0 or a Saturation."""
    model, state, fraction = arrays.model, arrays.state, epoch.fine_fraction
    state[REFETCHED] += 1
    product = dot(values, model) + ((epoch.level * state[INTERCEPT]) << fraction)
    update = update_of(rule, product >> PAIR_BITS, product & LOW_MASK, target << fraction, dither)
    if update == 0:
        return 0
    half, largest = np.int64(1) << fraction - 1, np.int64(0)
    for j in range(values.size):
        word = np.int64(model[j]) - ((update * np.int64(values[j]) + half) >> fraction)
        if word < -LIMIT or word >= LIMIT:
            return _MODEL
        model[j] = word
        largest = max(largest, abs(word))
    state[BOUND] = largest
    return _move_intercept(epoch, update, state)
