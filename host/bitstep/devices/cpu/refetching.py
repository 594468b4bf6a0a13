"""Rows that may be fetched again, and which of them the hardware holds up for that.

The model needs the decisions of :class:`bitstep.golden.integer.IntegerEpoch` alone. Which rows a
pipeline with look-ahead *replays* decides how many cycles it takes (:mod:`bitstep.cycles`): those
that the words in its store, which lack the updates in flight, leave open.
"""

from typing import NamedTuple

import numpy as np

from bitstep.compiling import compiled
from bitstep.cycles.refetching import ACTIVE, BY_CODES, INACTIVE
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, update_of
from bitstep.devices.cpu.words import (
    BOUND,
    INTERCEPT,
    LIMIT,
    MODEL,
    REFETCHED,
    apply,
    dot,
    move_intercept,
)
from bitstep.golden.steps import MAX_DERIVATIVE_STEP, STEP_FRACTION

ROW, OUTCOME = range(2)     # columns of the open rows
SLOT, COUNT, SINCE = range(3)   # entries of ``place``


class Flight(NamedTuple):
    """The last D + 1 rows of a pipeline with look-ahead D, and the rows found open.

    Attributes
    ----------
    levels : ndarray of int8, shape (D + 1, padded(n_features))
    updates : ndarray of int64, shape (D + 1,)
        0 for a row without data, and for one whose update is in the store.
    opened : ndarray of int64, shape (n, 2)
        Number of an open row and its outcome, as :class:`bitstep.cycles.OpenRows` has them.
    place : ndarray of int64, shape (3,)
        The oldest row's number in ``levels``, how many rows were found open, and how many rows,
        at most D + 1, have passed since the last boundary of corrections.
    """

    levels: np.ndarray
    updates: np.ndarray
    opened: np.ndarray
    place: np.ndarray


@compiled
def drain(flight, n_rows):
    """Let so many rows without data pass."""
    for _ in range(n_rows):
        flight.updates[flight.place[SLOT]] = 0
        _pass_row(flight)


@compiled
def pass_boundary(flight):
    """Fill a period of corrections that is shorter than D + 1 rows, and begin the next one."""
    drain(flight, flight.updates.size - flight.place[SINCE])
    flight.place[SINCE] = 0


@compiled
def _pass_row(flight):
    depth = flight.updates.size
    flight.place[SLOT] = (flight.place[SLOT] + 1) % depth
    flight.place[SINCE] = min(flight.place[SINCE] + 1, depth)


@compiled
def take_row(row, fine, rule, step, epoch, arrays, flight, product, target, dither):
    """Decide and apply a row whose levels are decoded; return 0 or an Overflow.

    Parameters
    ----------
    row : int
    fine : ndarray of int16, shape (n_features,)
    rule : Rule
        With the row's own mantissa.
    step : int
        Derivative step of the epoch, which bounds those of rows; 2**47 if it is larger.
    epoch : Epoch
    arrays : Arrays
    flight : Flight
    product, target, dither : int
        Dot product of the codes, label in its units, dither of the row.
    """
    levels, model, state = arrays.dot_levels, arrays.model, arrays.state
    depth = flight.updates.size
    fetched = undecided(epoch, levels, model, product, target)
    replayed = depth > 1 and _left_open(rule.mantissa, step, epoch, model, flight,
                                        product - target)
    if replayed:
        drain(flight, depth)
    if fetched:
        wrong, active = _fetch(fine, rule, epoch, arrays, target, dither)
        outcome, update = ACTIVE if active else INACTIVE, 0
        state[REFETCHED] += 1
    else:
        update = update_of(rule, product >> PAIR_BITS, product & LOW_MASK, target, dither)
        wrong = apply(epoch, model, levels, update, state)
        outcome = BY_CODES
    if replayed or fetched:
        flight.opened[flight.place[COUNT], ROW] = row
        flight.opened[flight.place[COUNT], OUTCOME] = outcome
        flight.place[COUNT] += 1
    if depth > 1:
        slot = flight.place[SLOT]
        flight.updates[slot] = update
        if update:
            flight.levels[slot] = levels
        _pass_row(flight)
    return wrong


@compiled
def undecided(epoch, levels, model, product, target):
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
def _left_open(mantissa, step, epoch, model, flight, difference):
    """True if the words in the store do not decide a row (:class:`bitstep.cycles.OpenRows`).

    The row that is the oldest in flight has reached the store when this one meets it.
    """
    if mantissa == 0 or step >= MAX_DERIVATIVE_STEP:
        return True
    total = np.int64(0)
    oldest, depth = flight.place[SLOT], flight.updates.size
    flying = 0
    for age in range(1, depth):
        flying += flight.updates[(oldest + age) % depth] != 0
    for j in range(model.size):
        word = np.int64(model[j])
        if flying:
            for age in range(1, depth):
                other = (oldest + age) % depth
                word += flight.updates[other] * np.int64(flight.levels[other, j])
        total += abs(word)
    margin = ((step >> STEP_FRACTION) + 1) * epoch.lookahead_margin
    return abs(2 * difference) <= epoch.cell * total + margin


@compiled
def _fetch(values, rule, epoch, arrays, target, dither):
    """Decide and apply a fine row; return 0 or an Overflow, and whether the row is active."""
    model, state, fraction = arrays.model, arrays.state, epoch.fine_fraction
    product = dot(values, model) + (epoch.level * state[INTERCEPT] << fraction)
    update = update_of(rule, product >> PAIR_BITS, product & LOW_MASK, target << fraction, dither)
    difference = product - (target << fraction)
    active = difference < 0 if target > 0 else difference > 0
    if update == 0:
        return 0, active
    half, largest = np.int64(1) << fraction - 1, np.int64(0)
    for j in range(values.size):
        word = np.int64(model[j]) - ((update * np.int64(values[j]) + half) >> fraction)
        if word < -LIMIT or word >= LIMIT:
            return MODEL, active
        model[j] = word
        largest = max(largest, abs(word))
    state[BOUND] = largest
    return move_intercept(epoch, update, state), active
