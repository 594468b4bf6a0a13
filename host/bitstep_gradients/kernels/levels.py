"""Kernels of levels that are not uniform: ``bitstep_gradients.codecs.levels.rounding``, bit for
bit.
"""

import numpy as np

from bitstep.compiling import compiled, kernel
from bitstep_gradients.kernels.rounding import BLOCK, _fill_buckets, _fill_words


@compiled
def _round_block(targets, fixed, words, below, symbols):
    """Symbols of the integers t of a block; ``below`` is room for the numbers of their levels."""
    first, last = np.int32(fixed[0]), np.int32(fixed[-1])
    for i in range(symbols.size):
        targets[i] = min(max(targets[i], first), last)
        below[i] = 0
    for j in range(1, fixed.size - 1):          # vector instructions: faster than a search
        level = np.int32(fixed[j])
        for i in range(symbols.size):
            below[i] += targets[i] >= level
    for i in range(symbols.size):
        lower = below[i]
        offset = np.uint64(np.int64(targets[i]) - fixed[lower])
        gap = np.uint64(fixed[lower + 1] - fixed[lower])
        up = np.uint64(words[i]) * gap < np.uint64(offset << np.uint64(32))
        symbols[i] = np.uint8(lower + up)


@kernel
def round_to_levels(values, factors, bucket_size, fixed, word_key, symbols):
    """Symbols of values: t = rint(v f), rounded to a level above or below.

    Parameters
    ----------
    values : float32 array, shape (count,)
    factors : float32 array, shape (n_buckets,)
    bucket_size : int64
        At least 1.
    fixed : int64 array, shape (n_levels,)
        Levels as integers from -2**30 to 2**30, at most 256.
    word_key : uint32 array, shape (3,)
        Both words of the key, and the stream.
    symbols : uint8 array, shape (count,)
        Takes the result.
    """
    words, steps = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.float32)
    targets, below = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    limit = np.float32(2.0**30)
    for start in range(0, values.size, BLOCK):
        part, found = values[start:start + BLOCK], symbols[start:start + BLOCK]
        _fill_words(word_key[0], word_key[1], word_key[2], start, words)
        _fill_buckets(factors, bucket_size, start, steps)
        for i in range(part.size):
            target = np.rint(part[i] * steps[i])
            targets[i] = np.int32(min(max(target, -limit), limit))
        _round_block(targets, fixed, words, below, found)


@kernel
def round_targets(numbers, fixed, words, symbols):
    """Symbols of integers t, by given random words.

    Parameters
    ----------
    numbers : int64 array, shape (count,)
        From -2**30 to 2**30.
    fixed : int64 array, shape (n_levels,)
        See :func:`round_to_levels`; equal levels may be at the end.
    words : uint32 array, shape (count,)
    symbols : uint8 array, shape (count,)
        Takes the result.
    """
    targets, below = np.empty(BLOCK, np.int32), np.empty(BLOCK, np.int32)
    for start in range(0, numbers.size, BLOCK):
        part, found = numbers[start:start + BLOCK], symbols[start:start + BLOCK]
        for i in range(part.size):
            targets[i] = np.int32(part[i])
        _round_block(targets, fixed, words[start:start + BLOCK], below, found)
