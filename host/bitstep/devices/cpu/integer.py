"""Rows of integer levels: :class:`bitstep.golden.integer.IntegerEpoch`, compiled."""

from bitstep.compiling import kernel, uncounted
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, rule_of_row, update_of
from bitstep.devices.cpu.refetching import drain, pass_boundary, take_row
from bitstep.devices.cpu.rows import (
    begin_batch,
    correct,
    decode,
    next_multiple,
    own_words,
    uncounted_arrays,
)
from bitstep.devices.cpu.words import SEEN_EXPONENT, SEEN_INTERCEPT, UPDATE, apply, dot, proximal


@kernel
def take_rows(rows, fine, shape, rule, epoch, arrays, flight, targets, dithers, first):
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
    flight : Flight
        Changed with refetching.
    targets, dithers : ndarray of int64
    first : int

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    rows, fine, arrays = uncounted(rows), uncounted(fine), uncounted_arrays(arrays)
    model, state = arrays.model, arrays.state
    dot_levels, gradient_levels = arrays.dot_levels, arrays.gradient_levels
    seen = arrays.seen if own_words(epoch) else model
    boundary, batch = (next_multiple(first, epoch.correction_period),
                       next_multiple(first, epoch.batch))
    end = next_multiple(first + 1, epoch.proximal_period)
    for i in range(targets.size):
        row = first + i
        if row == boundary:
            boundary += epoch.correction_period
            wrong = correct(epoch, arrays, row)
            if wrong:
                return wrong
            pass_boundary(flight)
        if row == batch:
            batch += epoch.batch
            begin_batch(epoch, arrays, seen, row)
        decode(rows, row, shape, arrays, dot_levels, gradient_levels)
        product = (dot(dot_levels, seen) << state[SEEN_EXPONENT]) \
            + epoch.level * state[SEEN_INTERCEPT]
        own = rule_of_row(rule, arrays.weights, row, epoch.key)
        if own.derivative_step < 0:
            return UPDATE
        if epoch.cell:
            wrong = take_row(row, fine[row], own, rule.derivative_step, epoch, arrays, flight,
                             product, targets[i], dithers[i])
        else:
            update = update_of(own, product >> PAIR_BITS, product & LOW_MASK, targets[i],
                               dithers[i])
            wrong = apply(epoch, model, gradient_levels, update, state)
        if wrong:
            return wrong
        if row + 1 == end or (epoch.proximal_period and row + 1 == epoch.n_rows):
            end += epoch.proximal_period
            proximal(model, epoch.threshold, epoch.box_limit)
            drain(flight, flight.updates.size)
    return 0
