"""Kernels of QCS: ``bitstep_gradients.codecs.qcs``, bit for bit."""

import numpy as np

from bitstep.compiling import compiled, kernel

LARGEST = float(np.finfo(np.float32).max)


@compiled
def _transform(values):
    """Hadamard transform of a power of two of integers, in place."""
    n, width = values.size, 1
    if n >= 8:
        for i in range(0, n, 8):        # three steps at once: pairs, fours and eights
            a, b, c, d = values[i], values[i + 1], values[i + 2], values[i + 3]
            e, f, g, h = values[i + 4], values[i + 5], values[i + 6], values[i + 7]
            a, b, c, d, e, f, g, h = a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h
            a, b, c, d, e, f, g, h = a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h
            values[i], values[i + 1], values[i + 2], values[i + 3] = a + e, b + f, c + g, d + h
            values[i + 4], values[i + 5] = a - e, b - f
            values[i + 6], values[i + 7] = c - g, d - h
        width = 8
    while width < n:
        for start in range(0, n, 2 * width):
            low, high = values[start:start + width], values[start + width:start + 2 * width]
            for i in range(width):
                first, second = low[i], high[i]
                low[i] = first + second
                high[i] = first - second
        width *= 2


@compiled
def _sign(words, place):
    """1, or -1 where bit ``place`` of the words is set."""
    bit = np.uint32(words[place >> 5] >> np.uint32(place & 31)) & np.uint32(1)
    return 1 - 2 * np.int64(bit)


@kernel
def transform_rows(values):
    """Hadamard transform of every row, in place.

    Parameters
    ----------
    values : int64 array, shape (rows, n)
        n is a power of two.
    """
    for row in values:
        _transform(row)


@kernel
def project(values, units, signs, first, dithers, rows, room, half_range, largest, symbols):
    """Symbols of the chosen rows of the transforms of equal buckets.

    Parameters
    ----------
    values : float32 array, shape (buckets, size)
    units : float64 array, shape (buckets,)
        Factors to fixed point, powers of two; 0 for buckets that are sent as zeros.
    signs : uint32 array
        Random signs, 32 in a word.
    first : int64
        Place of the first value's sign.
    dithers : uint32 array, shape (buckets * k,)
        Random words; their upper 23 bits count.
    rows : int64 array, shape (k,)
        Chosen rows.
    room : int64 array, shape (n,)
    half_range : int64
        Q F, below 2**31, F = 2**23.
    largest : float32 array, shape (buckets,)
        Takes the largest magnitude of a bucket's numbers.
    symbols : uint8 array, shape (buckets * k,)
        Takes the result.
    """
    buckets, size = values.shape
    sent, limit = np.empty(rows.size, np.float32), np.float32(half_range)
    for bucket in range(buckets):
        place = first + bucket * size
        for i in range(size):
            exact = np.int64(np.rint(np.float64(values[bucket, i]) * units[bucket]))
            room[i] = exact * _sign(signs, place + i)
        room[size:] = 0
        _transform(room)
        most = np.float32(0)
        for i in range(rows.size):
            sent[i] = np.float32(room[rows[i]])
            most = max(most, abs(sent[i]))
        largest[bucket] = most
        factor = np.float32(limit / most) if most > 0 else np.float32(0)
        place = bucket * rows.size
        for i in range(rows.size):
            target = min(max(np.rint(sent[i] * factor), -limit), limit)
            up = np.int64(dithers[place + i] >> np.uint32(9))
            symbols[place + i] = np.uint8(np.int64(target) + half_range + up >> 23)


@kernel
def restore_rows(symbols, units, signs, first, dithers, rows, room, half_range, values):
    """Values of symbols: the inverse of :func:`project`.

    Parameters
    ----------
    symbols : uint8 array, shape (buckets * k,)
    units : float64 array, shape (buckets,)
        Values of one unit of the transformed integers.
    signs, first, dithers, rows, room, half_range
        See :func:`project`.
    values : float32 array, shape (buckets, size)
        Takes the result.
    """
    buckets, size = values.shape
    for bucket in range(buckets):
        place = bucket * rows.size
        room[:] = 0
        for i in range(rows.size):
            up = np.int64(dithers[place + i] >> np.uint32(9))
            number = (np.int64(symbols[place + i]) << 23) - half_range - up
            room[rows[i]] = 2 * number + ((1 << 23) - 1)
        _transform(room)
        place = first + bucket * size
        for i in range(size):
            value = np.float64(room[i] * _sign(signs, place + i)) * units[bucket]
            values[bucket, i] = np.float32(min(max(value, -LARGEST), LARGEST))
