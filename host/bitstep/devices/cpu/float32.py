"""Rows of single-precision numbers: :class:`bitstep.golden.float32.FloatEpoch`, compiled."""

from typing import NamedTuple

import numpy as np

from bitstep.compiling import assign, compiled, kernel, uncounted
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, TOO_LARGE, rule_of_row, update_of
from bitstep.devices.cpu.words import CORRECTION, LIMIT, MODEL, UPDATE, correction, proximal
from bitstep.pipeline.parts.formats import FLOAT_GUARD

# Numbers that go on from one call to the next, in the array ``state``; SINCE counts the rows since
# the last boundary, -1 before the first one.
INTERCEPT, PENDING, SINCE, SEEN_INTERCEPT, OLDEST = range(5)

_BIAS = 150                 # exponent field of m 2^0, with m's 23 fraction bits counted in
_FAR = 62                   # a shift beyond every product's width: what is left rounds to 0


class FloatArrays(NamedTuple):
    """Arrays of a run, all int64; the first five have length ``n_features``.

    Attributes
    ----------
    model : ndarray
        Words with every update but those of the last D + 1 rows.
    correction, pending : ndarray
        What rows see on top of the words, and what the next boundary lets them see.
    seen : ndarray
        What row D of a batch met.
    coefficients : ndarray
    mantissas, exponents : ndarray, shape (D + 1, n_features)
        The last rows; the oldest is number ``state[OLDEST]``.
    updates : ndarray, shape (D + 1,)
        Their updates, 0 for no row.
    state : ndarray
    weights : ndarray of uint16
        See :class:`bitstep.devices.cpu.rows.Arrays`.
    """

    model: np.ndarray
    correction: np.ndarray
    pending: np.ndarray
    seen: np.ndarray
    coefficients: np.ndarray
    mantissas: np.ndarray
    exponents: np.ndarray
    updates: np.ndarray
    state: np.ndarray
    weights: np.ndarray


@kernel
def take_float_rows(rows, rule, epoch, arrays, targets, dithers, first):
    """Take rows from ``first`` on, one for each target.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n_rows, beats * beat_bytes)
    rule : Rule
    epoch : Epoch
    arrays : FloatArrays
        Changed.
    targets, dithers : ndarray of int64
    first : int

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    rows, arrays = uncounted(rows), _uncounted_arrays(arrays)
    state = arrays.state
    for i in range(targets.size):
        row = first + i
        wrong = _apply_oldest(epoch, arrays)
        if epoch.correction_period and row % epoch.correction_period == 0:
            state[SINCE] = 0
            if state[PENDING]:
                assign(arrays.correction, arrays.pending)
        wrong = wrong or _settle_correction(epoch, arrays, row)
        if wrong:
            return wrong
        _decode(rows[row], arrays)
        high, low = _dot(epoch, arrays, row % epoch.batch)
        own = rule_of_row(rule, arrays.weights, row, epoch.key)
        update = update_of(own, high, low, targets[i], dithers[i])
        if update == TOO_LARGE or own.derivative_step < 0:
            return UPDATE
        _append(arrays, update)
        last = row + 1 == epoch.n_rows
        if epoch.proximal_period and ((row + 1) % epoch.proximal_period == 0 or last):
            wrong = _drain(epoch, arrays, row)
            proximal(arrays.model, epoch.threshold, epoch.box_limit)
        if last:
            wrong = wrong or _drain(epoch, arrays, epoch.n_rows)
        if wrong:
            return wrong
    return 0


@compiled
def _uncounted_arrays(arrays):
    return FloatArrays(
        uncounted(arrays.model), uncounted(arrays.correction), uncounted(arrays.pending),
        uncounted(arrays.seen), uncounted(arrays.coefficients), uncounted(arrays.mantissas),
        uncounted(arrays.exponents), uncounted(arrays.updates), uncounted(arrays.state),
        uncounted(arrays.weights))


@compiled
def _decode(row, arrays):
    """Write mantissas and exponents of a row where the oldest was; subnormal numbers count as 0."""
    words = row.view(np.uint32)
    mantissas = arrays.mantissas[arrays.state[OLDEST]]
    exponents = arrays.exponents[arrays.state[OLDEST]]
    for j in range(mantissas.size):
        word = np.int64(words[j])
        exponents[j] = word >> 23 & 0xFF
        mantissa = 0 if exponents[j] == 0 else word & 0x7F_FFFF | 0x80_0000
        mantissas[j] = -mantissa if word >> 31 else mantissa


@compiled
def _align(product, shift):
    shift = min(shift, _FAR)
    return (product + (np.int64(1) << shift - 1)) >> shift


@compiled
def _dot(epoch, arrays, position):
    """Dot product, as a pair, of the newest row with the model that its batch sees."""
    state, depth = arrays.state, arrays.updates.size
    newest = state[OLDEST]
    mantissas, exponents = arrays.mantissas[newest], arrays.exponents[newest]
    constant = 1 if epoch.level else 0
    high = low = np.int64(0)
    if position == depth - 1:
        for j in range(arrays.seen.size):
            arrays.seen[j] = arrays.model[j] + arrays.correction[j]
        state[SEEN_INTERCEPT] = state[INTERCEPT]
    if position >= depth - 1:
        for j in range(mantissas.size):
            term = _align(mantissas[j] * arrays.seen[j], _BIAS - FLOAT_GUARD - exponents[j])
            high, low = high + (term >> PAIR_BITS), low + (term & LOW_MASK)
        low += constant * state[SEEN_INTERCEPT] << FLOAT_GUARD
    else:
        for j in range(mantissas.size):
            term = _align(mantissas[j] * (arrays.model[j] + arrays.correction[j]),
                          _BIAS - FLOAT_GUARD - exponents[j])
            high, low = high + (term >> PAIR_BITS), low + (term & LOW_MASK)
        low += constant * state[INTERCEPT] << FLOAT_GUARD
    for distance in range(position + 1, depth):     # rows before that are not of the same batch
        other = (newest + depth - distance) % depth
        update = arrays.updates[other]
        if update:
            more, less = _row_product(mantissas, exponents, arrays.mantissas[other],
                                      arrays.exponents[other])
            less += constant << FLOAT_GUARD
            high, low = high - update * more, low - update * less
        high, low = high + (low >> PAIR_BITS), low & LOW_MASK
    return high + (low >> PAIR_BITS), low & LOW_MASK


@compiled
def _row_product(mantissas, exponents, others, other_exponents):
    """Product of two rows, as a pair."""
    high = low = np.int64(0)
    for j in range(mantissas.size):
        term = _align(mantissas[j] * others[j],
                      2 * _BIAS - FLOAT_GUARD - exponents[j] - other_exponents[j])
        high, low = high + (term >> PAIR_BITS), low + (term & LOW_MASK)
    return high + (low >> PAIR_BITS), low & LOW_MASK


@compiled
def _append(arrays, update):
    """Let the newest row wait with its update; the next one is then the oldest."""
    newest = arrays.state[OLDEST]
    arrays.updates[newest] = update
    arrays.state[OLDEST] = (newest + 1) % arrays.updates.size


@compiled
def _apply_oldest(epoch, arrays):
    """Take the oldest row's update from the words; return 0 or an Overflow."""
    state, model = arrays.state, arrays.model
    oldest = state[OLDEST]
    update = arrays.updates[oldest]
    if update == 0:
        return 0
    mantissas, exponents = arrays.mantissas[oldest], arrays.exponents[oldest]
    outside = False
    for j in range(model.size):
        word = model[j] - _align(update * mantissas[j], _BIAS - exponents[j])
        outside |= word < -LIMIT or word >= LIMIT
        model[j] = word
    if epoch.level:
        state[INTERCEPT] -= update
    outside |= state[INTERCEPT] < -LIMIT or state[INTERCEPT] >= LIMIT
    return MODEL if outside else 0


@compiled
def _settle_correction(epoch, arrays, row):
    """Write the correction into the words in the row D after a boundary, and compute the next one;
    return 0 or an Overflow.
    """
    state, model, period = arrays.state, arrays.model, epoch.correction_period
    if state[SINCE] < 0:
        return 0
    state[SINCE] += 1
    if state[SINCE] != arrays.updates.size:
        return 0
    outside = False
    for j in range(model.size):
        model[j] += arrays.correction[j]
        outside |= model[j] < -LIMIT or model[j] >= LIMIT
        arrays.correction[j] = 0
    state[PENDING] = 0
    if outside:
        return MODEL
    boundary = min(row, epoch.n_rows - 1) // period * period
    if boundary + period < epoch.n_rows:
        for j in range(model.size):
            arrays.pending[j] = correction(
                model[j], arrays.coefficients[j] * epoch.correction_mantissa,
                epoch.correction_shift)
            outside |= arrays.pending[j] < -LIMIT or arrays.pending[j] >= LIMIT
        state[PENDING] = 1
    return CORRECTION if outside else 0


@compiled
def _drain(epoch, arrays, row):
    """Rows without data, until every update has reached the words; return 0 or an Overflow."""
    for _ in range(arrays.updates.size):
        wrong = _apply_oldest(epoch, arrays)
        wrong = wrong or _settle_correction(epoch, arrays, row)
        if wrong:
            return wrong
        _append(arrays, 0)
    return 0
