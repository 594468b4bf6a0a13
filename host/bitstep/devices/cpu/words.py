"""Weights: dot products, updates, corrections and proximal steps."""

import numpy as np

from bitstep.compiling import compiled
from bitstep.pipeline.parts.widths import MODEL_WIDTH, UPDATE_WIDTH
from bitstep.pipeline.registers import Overflow

LIMIT = 1 << MODEL_WIDTH - 1
UPDATE_LIMIT = 1 << UPDATE_WIDTH - 1
# Numbers that go on from one call to the next, in the array ``state``, and their count. What a
# batch sees of the model are words times 2**SEEN_EXPONENT.
INTERCEPT, BOUND, PENDING, SEEN_INTERCEPT, REFETCHED, SEEN_EXPONENT = range(6)
STATE = 6
UPDATE, MODEL, CORRECTION = (
    int(Overflow.UPDATE), int(Overflow.MODEL), int(Overflow.CORRECTION))

_HALF = 18                  # bits of the low part of a correction's factor


@compiled
def dot(levels, words):
    """Exact sum of products of levels and weights."""
    total = np.int64(0)
    for j in range(levels.size):
        total += np.int64(levels[j]) * np.int64(words[j])
    return total


@compiled
def apply(epoch, model, levels, update, state):
    """Subtract ``update * levels``; return 0 or an Overflow."""
    if update == 0:
        return 0
    if update < -UPDATE_LIMIT or update >= UPDATE_LIMIT:
        return UPDATE
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
                return MODEL
            model[j] = word
            largest = max(largest, abs(word))
        state[BOUND] = largest
    return move_intercept(epoch, update, state)


@compiled
def move_intercept(epoch, update, state):
    intercept = state[INTERCEPT] - update * epoch.level
    state[INTERCEPT] = intercept
    return 0 if -LIMIT <= intercept < LIMIT else MODEL


@compiled
def correction(word, factor, shift, addend=0):
    """``(word * factor + addend * 2**18) / 2**shift``, rounded to nearest, ties towards plus
    infinity.

    Parameters
    ----------
    word : int
        32 bits, signed.
    factor : int
        36 bits, signed: their product may need 68.
    shift : int
        8 to 56.
    addend : int
        50 bits, signed.
    """
    low = word * (factor & (1 << _HALF) - 1)
    high = word * (factor >> _HALF) + addend
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
