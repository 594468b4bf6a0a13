"""Rows of integer levels for several models: a tile of rows is decoded once, and every model takes
it while it is in the cache.
"""

from typing import NamedTuple

import numpy as np

from bitstep.compiling import compiled, kernel, uncounted
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, Rule, rule_of_row, update_of
from bitstep.devices.cpu.rows import (
    Arrays,
    begin_batch,
    correct,
    decode,
    epoch_of,
    next_multiple,
    own_words,
)
from bitstep.devices.cpu.words import SEEN_EXPONENT, SEEN_INTERCEPT, UPDATE, apply, dot, proximal

NARROW = 160            # levels of a row up to which models take turns at each row: a row of one
                        # waits for the row before, and those of others fill its waiting cycles
BOUNDARY, BATCH, END = range(3)


class Models(NamedTuple):
    """Arrays of several models, a row each; see :class:`bitstep.devices.cpu.rows.Arrays`.

    Attributes
    ----------
    model, seen, pending : ndarray of int32
    coefficients, state : ndarray of int64
    rules, epochs : ndarray of int64
        Fields of the models' :class:`~bitstep.devices.cpu.arithmetic.Rule` and
        :class:`~bitstep.devices.cpu.rows.Epoch`.
    endings : ndarray of int64, shape (n_models,)
        0, or the Overflow of a model that left a range: it takes no more rows.
    streams, keys : ndarray of int64, shape (n_models,)
        Number of each model's stream of labels, and of dithers.
    turns : ndarray of int64, shape (n_models, 3)
        Rows at which the next correction period, batch and proximal step are due.
    """

    model: np.ndarray
    seen: np.ndarray
    pending: np.ndarray
    coefficients: np.ndarray
    state: np.ndarray
    rules: np.ndarray
    epochs: np.ndarray
    endings: np.ndarray
    streams: np.ndarray
    keys: np.ndarray
    turns: np.ndarray


class Tile(NamedTuple):
    """Room for the levels of some rows.

    Attributes
    ----------
    dot_levels, gradient_levels : ndarray of int8, shape (tile_rows, padded(n_features))
        The same array where codes have one level.
    lookup, codebooks, constants, weights
        See :class:`bitstep.devices.cpu.rows.Arrays`.
    """

    dot_levels: np.ndarray
    gradient_levels: np.ndarray
    lookup: np.ndarray
    codebooks: np.ndarray
    constants: np.ndarray
    weights: np.ndarray


@kernel
def take_tiles(rows, shape, tile, models, labels, dithers, first):
    """Let every model that has not ended take the rows from ``first`` on, one for each label.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n_rows, beats * beat_bytes)
    shape : RowFormat
    tile : Tile
        Overwritten.
    models : Models
        Changed.
    labels, dithers : ndarray of int64, shape (n_streams, n_labels), (n_keys, n_labels)
        Stored labels, and dithers.
    first : int
    """
    rows, labels, dithers = uncounted(rows), uncounted(labels), uncounted(dithers)
    tile, models = _uncounted_tile(tile), _uncounted_models(models)
    dot_levels, gradient_levels = tile.dot_levels, tile.gradient_levels
    arrays, n_models = _arrays(tile, models, 0), models.endings.size
    for k in range(n_models):
        epoch = epoch_of(models.epochs[k])
        models.turns[k, BOUNDARY] = next_multiple(first, epoch.correction_period)
        models.turns[k, BATCH] = next_multiple(first, epoch.batch)
        models.turns[k, END] = next_multiple(first + 1, epoch.proximal_period)
    for start in range(0, labels.shape[1], dot_levels.shape[0]):
        count = min(dot_levels.shape[0], labels.shape[1] - start)
        for i in range(count):
            decode(rows, first + start + i, shape, arrays, dot_levels[i], gradient_levels[i])
        if dot_levels.shape[1] <= NARROW:
            for i in range(count):
                for k in range(n_models):
                    _take_row(tile, models, k, i, first + start + i,
                              labels[models.streams[k], start + i],
                              dithers[models.keys[k], start + i])
        else:
            for k in range(n_models):
                for i in range(count):
                    _take_row(tile, models, k, i, first + start + i,
                              labels[models.streams[k], start + i],
                              dithers[models.keys[k], start + i])


@compiled
def _take_row(tile, models, k, i, row, label, dither):
    """Let a model take row ``i`` of the tile, unless it has ended."""
    if models.endings[k]:
        return
    rule, epoch = _rule(models.rules[k]), epoch_of(models.epochs[k])
    arrays = _arrays(tile, models, k)
    turns, model, state = models.turns[k], arrays.model, arrays.state
    seen = arrays.seen if own_words(epoch) else model
    if row == turns[BOUNDARY]:
        turns[BOUNDARY] += epoch.correction_period
        models.endings[k] = correct(epoch, arrays, row)
        if models.endings[k]:
            return
    if row == turns[BATCH]:
        turns[BATCH] += epoch.batch
        begin_batch(epoch, arrays, seen, row)
    product = (dot(tile.dot_levels[i], seen) << state[SEEN_EXPONENT]) \
        + epoch.level * state[SEEN_INTERCEPT]
    rule = rule_of_row(rule, tile.weights, row, epoch.key)
    if rule.derivative_step < 0:
        models.endings[k] = UPDATE
        return
    update = update_of(rule, product >> PAIR_BITS, product & LOW_MASK, label << rule.label_shift,
                       dither)
    models.endings[k] = apply(epoch, model, tile.gradient_levels[i], update, state)
    if models.endings[k]:
        return
    if row + 1 == turns[END] or (epoch.proximal_period and row + 1 == epoch.n_rows):
        turns[END] += epoch.proximal_period
        proximal(model, epoch.threshold, epoch.box_limit)


@compiled
def _uncounted_tile(tile):
    return Tile(uncounted(tile.dot_levels), uncounted(tile.gradient_levels),
                uncounted(tile.lookup), uncounted(tile.codebooks), uncounted(tile.constants),
                uncounted(tile.weights))


@compiled
def _uncounted_models(models):
    return Models(
        uncounted(models.model), uncounted(models.seen), uncounted(models.pending),
        uncounted(models.coefficients), uncounted(models.state), uncounted(models.rules),
        uncounted(models.epochs), uncounted(models.endings), uncounted(models.streams),
        uncounted(models.keys), uncounted(models.turns))


@compiled
def _arrays(tile, models, k):
    return Arrays(models.model[k], models.seen[k], models.pending[k], models.coefficients[k],
                  tile.constants, tile.dot_levels, tile.gradient_levels, tile.lookup,
                  tile.codebooks, models.state[k], tile.weights)


@compiled
def _rule(row):
    return Rule(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7])
