"""Steps of a row that do not depend on how its update is found: periods, batches, levels."""

from typing import NamedTuple

import numpy as np

from bitstep.compiling import assign, compiled, uncounted
from bitstep.devices.cpu.arithmetic import round_model
from bitstep.devices.cpu.decoding import decode_row, look_up_row
from bitstep.devices.cpu.words import (
    BOUND,
    CORRECTION,
    INTERCEPT,
    LIMIT,
    MODEL,
    PENDING,
    SEEN_EXPONENT,
    SEEN_INTERCEPT,
    correction,
)


class Epoch(NamedTuple):
    """Numbers of an epoch, all int64 (:class:`bitstep.pipeline.job.TrainingJob`).

    Attributes
    ----------
    n_rows, level, batch, correction_period, proximal_period, threshold, box_limit, cell : int
    correction_mantissa, correction_shift : int
        A correction is ``word * coefficient * mantissa / 2**shift``.
    level_limit, fine_fraction : int
        Of the configuration.
    lookahead_margin : int
        With refetching: what updates of 1 by all rows in flight can change of twice a product.
    constant_intercept : int
        Added to the intercept at the boundaries of corrections.
    model_bits : int
        Bits of the words that dot products meet; 0: all.
    key : int
        Key of the epoch.
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
    lookahead_margin: int
    constant_intercept: int
    model_bits: int
    key: int


class Arrays(NamedTuple):
    """Arrays of a run; those of a model have length ``padded(n_features)``, zero at the end.

    Attributes
    ----------
    model, seen : ndarray of int32
        The model, and what the rows of a batch meet.
    pending : ndarray of int32
        Correction that the next boundary adds.
    coefficients, constants : ndarray of int64
        What a correction multiplies with a word, and adds.
    dot_levels, gradient_levels : ndarray of int8 (of bit-plane rows int32)
        Of the row that is taken; the same array where codes have one level.
    lookup : ndarray of uint64, shape (2, 256)
    codebooks : ndarray of int8, shape (n_features, 2 ** bits)
        Of no features where codes are levels.
    state : ndarray of int64
    weights : ndarray of uint16, shape (n_rows,)
        Of no rows where all have the factor 1.
    """

    model: np.ndarray
    seen: np.ndarray
    pending: np.ndarray
    coefficients: np.ndarray
    constants: np.ndarray
    dot_levels: np.ndarray
    gradient_levels: np.ndarray
    lookup: np.ndarray
    codebooks: np.ndarray
    state: np.ndarray
    weights: np.ndarray


@compiled
def epoch_of(row):
    """Numbers of an epoch that are a row of an array, since those of several models are not one
    tuple.
    """
    return Epoch(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9],
                 row[10], row[11], row[12], row[13], row[14], row[15])


@compiled
def uncounted_arrays(arrays):
    """The same arrays without their owners (:data:`bitstep.compiling.uncounted`)."""
    return Arrays(
        uncounted(arrays.model), uncounted(arrays.seen), uncounted(arrays.pending),
        uncounted(arrays.coefficients), uncounted(arrays.constants),
        uncounted(arrays.dot_levels), uncounted(arrays.gradient_levels), uncounted(arrays.lookup),
        uncounted(arrays.codebooks), uncounted(arrays.state), uncounted(arrays.weights))


@compiled
def next_multiple(row, period):
    """Least multiple of a period that is at least ``row``; -1 of period 0. (A division a row would
    take longer than a short row.)
    """
    return row + (-row) % period if period else np.int64(-1)


@compiled
def own_words(epoch):
    """True if the rows of a batch meet words apart from the model's."""
    return epoch.batch > 1 or epoch.model_bits > 0


@compiled
def begin_batch(epoch, arrays, seen, row):
    """Let a batch begin: its rows meet the model as it is now, or rounded to few bits."""
    if epoch.model_bits:
        arrays.state[SEEN_EXPONENT] = round_model(arrays.model, seen, epoch.model_bits, epoch.key,
                                                  row // epoch.batch)
    elif epoch.batch > 1:
        assign(seen, arrays.model)
    arrays.state[SEEN_INTERCEPT] = arrays.state[INTERCEPT]


@compiled
def decode(rows, row, shape, arrays, dot_levels, gradient_levels):
    """Write the levels of a row; where codes have one level, to ``dot_levels`` alone."""
    decode_row(rows, row, shape, shape.dot, arrays.lookup[0], dot_levels)
    if shape.tabled:
        look_up_row(shape, arrays.codebooks, dot_levels)
    if shape.two_levels:
        decode_row(rows, row, shape, shape.gradient, arrays.lookup[1], gradient_levels)


@compiled
def correct(epoch, arrays, row):
    """Add the correction that is due and compute the next one; return 0 or an Overflow."""
    model, pending, state = arrays.model, arrays.pending, arrays.state
    if state[PENDING]:
        low = high = np.int64(0)            # two loops, since one that may end has no vectors
        for j in range(model.size):
            word = np.int64(model[j]) + np.int64(pending[j])
            low, high = min(low, word), max(high, word)
        if low < -LIMIT or high >= LIMIT:
            return MODEL
        for j in range(model.size):
            model[j] = np.int32(model[j] + np.int32(pending[j]))
        state[BOUND] = max(-low, high)
        state[INTERCEPT] += correction(np.int32(0), np.int64(0), epoch.correction_shift,
                                       epoch.constant_intercept * epoch.correction_mantissa)
        if state[INTERCEPT] < -LIMIT or state[INTERCEPT] >= LIMIT:
            return MODEL
    state[PENDING] = row + epoch.correction_period < epoch.n_rows
    if state[PENDING]:
        constant = correction(np.int32(0), np.int64(0), epoch.correction_shift,
                              epoch.constant_intercept * epoch.correction_mantissa)
        if constant < -LIMIT or constant >= LIMIT:
            return CORRECTION
        for j in range(model.size):
            exact = correction(model[j], arrays.coefficients[j] * epoch.correction_mantissa,
                               epoch.correction_shift,
                               arrays.constants[j] * epoch.correction_mantissa)
            if exact < -LIMIT or exact >= LIMIT:
                return CORRECTION
            pending[j] = exact
    return 0
