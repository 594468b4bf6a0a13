"""Kernels of nested indices: ``bitstep_gradients.codecs.ndqsg``, bit for bit."""

import numpy as np

from bitstep.compiling import compiled, kernel
from bitstep_gradients.kernels.rounding import BLOCK, _fill_buckets, _fill_words

FRACTION_BITS = 23
UNUSED = np.uint32(32 - FRACTION_BITS)      # bits of a random word
CENTRED = (1 << FRACTION_BITS) - 1


@compiled
def _nearest(folded, target, up, ratio):
    """Coarse steps from a remainder to the index that is nearest to the side information."""
    coarse, centre = 2 * ratio << FRACTION_BITS, 2 * (target + up) - CENTRED
    return (centre - (folded << FRACTION_BITS + 1) + (coarse >> 1)) // coarse


@kernel
def nest_values(values, side, factors, bucket_size, alpha, most, ratio, word_key, symbols, coarse):
    """Fine indices, and the corrections that the receiver needs.

    Parameters
    ----------
    values, side : float32 array, shape (count,)
        Gradient and side information.
    factors, bucket_size, most, word_key
        See :func:`bitstep_gradients.kernels.rounding.round_values`.
    alpha : float32
    ratio : int64
    symbols : uint8 array, shape (count,)
        Takes the fine indices, plus M.
    coarse : int16 array, shape (count,)
        Takes the coarse steps of corrections.
    """
    words, steps = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.float32)
    limit, level, half = np.float32(most), most >> FRACTION_BITS, ratio // 2
    for start in range(0, values.size, BLOCK):
        _fill_words(word_key[0], word_key[1], word_key[2], start, words)
        _fill_buckets(factors, bucket_size, start, steps)
        for i in range(min(BLOCK, values.size - start)):
            place, up = start + i, np.int64(words[i] >> UNUSED)
            target = min(max(np.rint(alpha * values[place] * steps[i]), -limit), limit)
            near = min(max(np.rint(alpha * side[place] * steps[i]), -limit), limit)
            index = np.int64(target) + up >> FRACTION_BITS
            rest = (index + half) % ratio - half
            symbols[place] = np.uint8(index + level)
            coarse[place] = np.int16((index - rest) // ratio
                                     - _nearest(rest, np.int64(near), up, ratio))


@kernel
def unnest_values(folded, side, factors, bucket_size, alpha, most, ratio, word_key, coarse,
                  symbols):
    """Fine indices of remainders near side information, plus M.

    Parameters
    ----------
    folded : uint8 array, shape (count,)
        Remainders, from 0 to ``ratio`` - 1.
    side, factors, bucket_size, alpha, most, ratio, word_key, coarse
        See :func:`nest_values`.
    symbols : uint8 array, shape (count,)
        Takes the result.

    Returns
    -------
    sound : bool
        False if an index is outside its range.
    """
    words, steps = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.float32)
    limit, level, half = np.float32(most), most >> FRACTION_BITS, ratio // 2
    sound = True
    for start in range(0, folded.size, BLOCK):
        _fill_words(word_key[0], word_key[1], word_key[2], start, words)
        _fill_buckets(factors, bucket_size, start, steps)
        for i in range(min(BLOCK, folded.size - start)):
            place, up = start + i, np.int64(words[i] >> UNUSED)
            near = min(max(np.rint(alpha * side[place] * steps[i]), -limit), limit)
            rest = np.int64(folded[place]) - half
            index = rest + ratio * (coarse[place] + _nearest(rest, np.int64(near), up, ratio))
            sound &= -level <= index <= level
            symbols[place] = np.uint8(index + level)
    return sound


@kernel
def look_up(table, symbols, found):
    """Entries of symbols.

    Parameters
    ----------
    table : uint8 array, shape (256,)
    symbols : uint8 array, shape (count,)
    found : uint8 array, shape (count,)
        Takes the result.
    """
    for i in range(symbols.size):
        found[i] = table[symbols[i]]
