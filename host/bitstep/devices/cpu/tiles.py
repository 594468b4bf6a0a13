"""Rows of integer levels for several models: a tile of rows is decoded once, and every model takes
it while it is in the cache.
"""

from typing import NamedTuple

import numpy as np

from bitstep.compiling import compiled, kernel, uncounted
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, Rule, update_of
from bitstep.devices.cpu.rows import (
    Arrays,
    Epoch,
    begin_row,
    decode,
    ends_period,
    uncounted_arrays,
)
from bitstep.devices.cpu.words import SEEN_INTERCEPT, apply, dot, proximal


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
        0, or the Saturation of a model that left a range: it takes no more rows.
    streams, keys : ndarray of int64, shape (n_models,)
        Number of each model's stream of labels, and of dithers.
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


class Tile(NamedTuple):
    """Room for the levels of some rows.

    Attributes
    ----------
    dot_levels, gradient_levels : ndarray of int8, shape (tile_rows, padded(n_features))
        The same array where codes have one level.
    lookup, level_tables
        See :class:`bitstep.devices.cpu.rows.Arrays`.
    """

    dot_levels: np.ndarray
    gradient_levels: np.ndarray
    lookup: np.ndarray
    level_tables: np.ndarray


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
    rows, count = uncounted(rows), labels.shape[1]
    dot_levels, gradient_levels = uncounted(tile.dot_levels), uncounted(tile.gradient_levels)
    arrays = uncounted_arrays(_arrays(tile, models, 0))
    for start in range(0, count, dot_levels.shape[0]):
        stop = min(start + dot_levels.shape[0], count)
        for i in range(start, stop):
            decode(rows, first + i, shape, arrays, dot_levels[i - start],
                   gradient_levels[i - start])
        for k in range(models.endings.size):
            if models.endings[k] == 0:
                models.endings[k] = _take_tile(
                    _rule(models.rules[k]), _epoch(models.epochs[k]), _arrays(tile, models, k),
                    labels[models.streams[k], start:stop], dithers[models.keys[k], start:stop],
                    first + start)


@compiled
def _take_tile(rule, epoch, arrays, labels, dithers, first):
    """Take decoded rows; return 0, or the Saturation of the row that left a range."""
    arrays, labels, dithers = uncounted_arrays(arrays), uncounted(labels), uncounted(dithers)
    model, state = arrays.model, arrays.state
    dot_levels, gradient_levels = arrays.dot_levels, arrays.gradient_levels
    seen = arrays.seen if epoch.batch > 1 else model
    for i in range(labels.size):
        wrong = begin_row(epoch, arrays, seen, first + i)
        if wrong:
            return wrong
        product = dot(dot_levels[i], seen) + epoch.level * state[SEEN_INTERCEPT]
        update = update_of(rule, product >> PAIR_BITS, product & LOW_MASK,
                           labels[i] << rule.label_shift, dithers[i])
        wrong = apply(epoch, model, gradient_levels[i], update, state)
        if wrong:
            return wrong
        if ends_period(epoch, first + i):
            proximal(model, epoch.threshold, epoch.box_limit)
    return 0


@compiled
def _arrays(tile, models, k):
    return Arrays(models.model[k], models.seen[k], models.pending[k], models.coefficients[k],
                  tile.dot_levels, tile.gradient_levels, tile.lookup, tile.level_tables,
                  models.state[k])


@compiled
def _rule(row):
    return Rule(row[0], row[1], row[2], row[3], row[4])


@compiled
def _epoch(row):
    return Epoch(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9],
                 row[10], row[11], row[12])
