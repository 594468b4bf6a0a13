"""Kernels of uniform levels: the decisions of ``bitstep_gradients.codecs.uniform``, bit for bit.

Values are taken in blocks that stay in the first cache: random words, then symbols or values. Each
inner loop is one that LLVM turns into vector instructions.
"""

import numpy as np

from bitstep.compiling import compiled, kernel
from bitstep.golden.threefry import PARITY, ROTATIONS

LARGEST = np.finfo(np.float32).max
BLOCK = 2048                # values; an even number, so that no pair of words is split
_A, _B, _C, _D, _E, _F, _G, _H = ROTATIONS


@compiled
def _turned(x, y, left):
    """One round of Threefry."""
    x = np.uint32(x + y)
    y = np.uint32(np.uint32(y << np.uint32(left)) | np.uint32(y >> np.uint32(32 - left)))
    return x, np.uint32(y ^ x)


@compiled
def _first_four(x, y):
    x, y = _turned(x, y, _A)
    x, y = _turned(x, y, _B)
    x, y = _turned(x, y, _C)
    return _turned(x, y, _D)


@compiled
def _second_four(x, y):
    x, y = _turned(x, y, _E)
    x, y = _turned(x, y, _F)
    x, y = _turned(x, y, _G)
    return _turned(x, y, _H)


@compiled
def _threefry(first, second, third, x, y):
    """:func:`bitstep.golden.threefry.threefry` for one counter; ``third`` is the key's parity."""
    x, y = _first_four(np.uint32(x + first), np.uint32(y + second))
    x, y = np.uint32(x + second), np.uint32(y + np.uint32(third + np.uint32(1)))
    x, y = _second_four(x, y)
    x, y = np.uint32(x + third), np.uint32(y + np.uint32(first + np.uint32(2)))
    x, y = _first_four(x, y)
    x, y = np.uint32(x + first), np.uint32(y + np.uint32(second + np.uint32(3)))
    x, y = _second_four(x, y)
    x, y = np.uint32(x + second), np.uint32(y + np.uint32(third + np.uint32(4)))
    x, y = _first_four(x, y)
    return np.uint32(x + third), np.uint32(y + np.uint32(first + np.uint32(5)))


@compiled
def _fill_words(first, second, stream, start, words):
    """Random words from number ``start`` (even) on: ``bitstep_gradients.Key.words``."""
    third = np.uint32(np.uint32(PARITY) ^ first ^ second)
    pair = np.uint32(start >> 1)
    for i in range(words.size // 2):
        x, y = _threefry(first, second, third, np.uint32(pair + np.uint32(i)), stream)
        words[2 * i] = x
        words[2 * i + 1] = y


@compiled
def _fill_buckets(per_bucket, bucket_size, start, filled):
    """The numbers of the values from number ``start`` on, one a bucket. Places behind the last
    bucket stay as they are.
    """
    bucket, place = start // bucket_size, 0
    end = (bucket + 1) * bucket_size - start
    while place < filled.size and bucket < per_bucket.size:
        number = per_bucket[bucket]
        end = min(end, filled.size)
        for i in range(place, end):
            filled[i] = number
        place, end, bucket = end, end + bucket_size, bucket + 1


@kernel
def fill_words(word_key, start, words):
    """Random words from number ``start`` on, which is even, into a uint32 array of even size.

    ``word_key`` is that of :func:`round_values`.
    """
    _fill_words(word_key[0], word_key[1], word_key[2], start, words)


@kernel
def round_values(values, factors, bucket_size, most, word_key, fraction_bits, symbols):
    """Symbols of values: ``((t + u) >> fraction_bits) + M`` with t = rint(v f), clipped.

    Parameters
    ----------
    values : float32 array, shape (count,)
    factors : float32 array, shape (n_buckets,)
    bucket_size : int64
        At least 1.
    most : int64
        Largest t, ``M * 2**fraction_bits``, below 2**30.
    word_key : uint32 array, shape (3,)
        Both words of the key, and the stream.
    fraction_bits : int64
    symbols : uint8 array, shape (count,)
        Takes the result.
    """
    words, steps = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.float32)
    unused, bits = np.uint32(32 - fraction_bits), np.int32(fraction_bits)
    level, limit = np.int32(most >> fraction_bits), np.float32(most)
    for start in range(0, values.size, BLOCK):
        part, found = values[start:start + BLOCK], symbols[start:start + BLOCK]
        _fill_words(word_key[0], word_key[1], word_key[2], start, words)
        _fill_buckets(factors, bucket_size, start, steps)
        for i in range(part.size):
            target = np.rint(part[i] * steps[i])
            target = min(max(target, -limit), limit)
            up = np.int32(words[i] >> unused)
            found[i] = np.uint8(np.int32((np.int32(target) + up) >> bits) + level)


@kernel
def restore_values(symbols, units, bucket_size, level, word_key, fraction_bits, values):
    """Values of symbols: ``((k << fraction_bits + 1) + d) * unit`` with k = symbol - M, clipped.

    Parameters
    ----------
    symbols : uint8 array, shape (count,)
    units : float32 array, shape (n_buckets,)
    bucket_size : int64
        At least 1.
    level : int64
        M.
    word_key : uint32 array, shape (3,) or (0,)
        Both words of the key, and the stream. Empty: d is 0; else it is ``F - 1 - 2 u`` with
        F = 2**fraction_bits and u the dither of :func:`round_values`.
    fraction_bits : int64
    values : float32 array, shape (count,)
        Takes the result.
    """
    words, steps = np.zeros(BLOCK, np.uint32), np.empty(BLOCK, np.float32)
    unused, bits = np.uint32(32 - fraction_bits), np.int32(fraction_bits + 1)
    middle = np.int32(level << fraction_bits + 1)
    if word_key.size:
        middle -= np.int32((1 << fraction_bits) - 1)
    for start in range(0, symbols.size, BLOCK):
        part, found = symbols[start:start + BLOCK], values[start:start + BLOCK]
        if word_key.size:
            _fill_words(word_key[0], word_key[1], word_key[2], start, words)
        _fill_buckets(units, bucket_size, start, steps)
        for i in range(part.size):
            dither = np.int32(np.uint32(words[i] >> unused) << np.uint32(1))
            number = np.int32(np.int32(np.int32(part[i]) << bits) - middle - dither)
            value = np.float32(number) * steps[i]
            found[i] = min(max(value, -LARGEST), LARGEST)
