"""Kernels of the payloads ``fixed`` and ``radix``, bit for bit the NumPy code's bytes."""

import numpy as np

from bitstep.compiling import compiled, kernel

# A function of this file with a constant for ``width`` or ``n_symbols`` is compiled for it: its
# inner loop becomes vector instructions, and divisions become multiplications.


@compiled
def _pack_bytes(symbols, width, packed):
    """Symbols of 1, 2 or 4 bits: some fill a byte."""
    share = 8 // width
    for i in range(symbols.size // share):
        byte = np.uint8(0)
        for j in range(share):
            byte |= np.uint8(symbols[share * i + j] << np.uint8(width * j))
        packed[i] = byte


@compiled
def _unpack_bytes(packed, width, symbols):
    share, mask = 8 // width, np.uint8((1 << width) - 1)
    for i in range(symbols.size // share):
        byte = packed[i]
        for j in range(share):
            symbols[share * i + j] = np.uint8(byte >> np.uint8(width * j)) & mask


@compiled
def _pack_eights(symbols, width, packed):
    """Eight symbols fill ``width`` bytes."""
    for i in range(symbols.size // 8):
        word = np.uint64(0)
        for j in range(8):
            word |= np.uint64(np.uint64(symbols[8 * i + j]) << np.uint64(width * j))
        for j in range(width):
            packed[width * i + j] = np.uint8(word >> np.uint64(8 * j))


@compiled
def _unpack_eights(packed, width, symbols):
    mask = np.uint64((1 << width) - 1)
    for i in range(symbols.size // 8):
        word = np.uint64(0)
        for j in range(width):
            word |= np.uint64(np.uint64(packed[width * i + j]) << np.uint64(8 * j))
        for j in range(8):
            symbols[8 * i + j] = np.uint8(np.uint64(word >> np.uint64(width * j)) & mask)


@kernel
def pack_fixed(symbols, width, packed):
    """Pack symbols of ``width`` bits, 1 to 7, the lowest bits first.

    Parameters
    ----------
    symbols : uint8 array, shape (count,)
    width : int64
    packed : uint8 array, shape ((count * width + 7) // 8,)
        Takes the result.
    """
    if width == 1:
        _pack_bytes(symbols, 1, packed)
    elif width == 2:
        _pack_bytes(symbols, 2, packed)
    elif width == 3:
        _pack_eights(symbols, 3, packed)
    elif width == 4:
        _pack_bytes(symbols, 4, packed)
    elif width == 5:
        _pack_eights(symbols, 5, packed)
    elif width == 6:
        _pack_eights(symbols, 6, packed)
    else:
        _pack_eights(symbols, 7, packed)
    whole = symbols.size // 8 * 8
    if whole < symbols.size:
        word = np.uint64(0)
        for i in range(whole, symbols.size):
            word |= np.uint64(symbols[i]) << np.uint64(width * (i - whole))
        for i in range(whole // 8 * width, packed.size):
            packed[i] = np.uint8(word & np.uint64(255))
            word >>= np.uint64(8)


@kernel
def unpack_fixed(packed, width, symbols):
    """Undo :func:`pack_fixed`; return the largest symbol, 0 if there is none."""
    if width == 1:
        _unpack_bytes(packed, 1, symbols)
    elif width == 2:
        _unpack_bytes(packed, 2, symbols)
    elif width == 3:
        _unpack_eights(packed, 3, symbols)
    elif width == 4:
        _unpack_bytes(packed, 4, symbols)
    elif width == 5:
        _unpack_eights(packed, 5, symbols)
    elif width == 6:
        _unpack_eights(packed, 6, symbols)
    else:
        _unpack_eights(packed, 7, symbols)
    whole = symbols.size // 8 * 8
    word = np.uint64(0)
    for i in range(packed.size - 1, whole // 8 * width - 1, -1):
        word = np.uint64(word << np.uint64(8)) | np.uint64(packed[i])
    for i in range(whole, symbols.size):
        symbols[i] = np.uint8(word & np.uint64((1 << width) - 1))
        word >>= np.uint64(width)
    largest = np.uint8(0)
    for i in range(symbols.size):
        largest = max(largest, symbols[i])
    return largest


@compiled
def _pack_groups(symbols, n_symbols, group, width, packed):
    """Whole groups, then the bits that they leave over: the next byte, and how many it has."""
    rest, n_rest, place = np.uint64(0), 0, 0
    for i in range(symbols.size // group):
        number = np.uint64(0)
        for j in range(group - 1, -1, -1):
            number = np.uint64(number * np.uint64(n_symbols) + np.uint64(symbols[group * i + j]))
        rest |= np.uint64(number << np.uint64(n_rest))
        n_rest += width
        while n_rest >= 8:
            packed[place] = np.uint8(rest & np.uint64(255))
            rest >>= np.uint64(8)
            n_rest -= 8
            place += 1
    return rest, n_rest, place


@kernel
def pack_radix(symbols, n_symbols, group, width, packed):
    """Pack groups of symbols as digits of numbers of ``width`` bits, at most 56.

    Parameters
    ----------
    symbols : uint8 array, shape (count,)
    n_symbols, group, width : int64
        See ``radix_group``.
    packed : uint8 array
        Takes the result; has the bytes that it takes.
    """
    if n_symbols == 3:
        rest, n_rest, place = _pack_groups(symbols, 3, 5, 8, packed)
    else:
        rest, n_rest, place = _pack_groups(symbols, n_symbols, group, width, packed)
    number = np.uint64(0)
    for i in range(symbols.size - 1, symbols.size // group * group - 1, -1):
        number = np.uint64(number * np.uint64(n_symbols) + np.uint64(symbols[i]))
    rest |= np.uint64(number << np.uint64(n_rest))
    for i in range(place, packed.size):
        packed[i] = np.uint8(rest & np.uint64(255))
        rest >>= np.uint64(8)


@compiled
def _unpack_groups(packed, n_symbols, group, width, symbols):
    """Whole groups; what is left: the bits read but not used, how many, the next byte, the largest
    remainder above the digits (0 in sound payloads).
    """
    rest, n_rest, place, beyond = np.uint64(0), 0, 0, np.uint64(0)
    mask = np.uint64((1 << width) - 1)
    for i in range(symbols.size // group):
        while n_rest < width:
            rest |= np.uint64(np.uint64(packed[place]) << np.uint64(n_rest))
            n_rest += 8
            place += 1
        number = np.uint64(rest & mask)
        rest >>= np.uint64(width)
        n_rest -= width
        for j in range(group):
            higher = np.uint64(number // np.uint64(n_symbols))
            symbols[group * i + j] = np.uint8(number - np.uint64(higher * np.uint64(n_symbols)))
            number = higher
        beyond = max(beyond, number)
    return rest, n_rest, place, beyond


@kernel
def unpack_radix(packed, n_symbols, group, width, last_width, symbols):
    """Undo :func:`pack_radix`, whose last, shorter group takes ``last_width`` bits.

    Returns
    -------
    sound : bool
        False if a number has more digits than its group.
    """
    if n_symbols == 3:
        rest, n_rest, place, beyond = _unpack_groups(packed, 3, 5, 8, symbols)
    else:
        rest, n_rest, place, beyond = _unpack_groups(packed, n_symbols, group, width, symbols)
    number = rest
    for i in range(place, packed.size):
        number |= np.uint64(np.uint64(packed[i]) << np.uint64(n_rest))
        n_rest += 8
    number &= np.uint64((1 << last_width) - 1)
    for i in range(symbols.size // group * group, symbols.size):
        higher = np.uint64(number // np.uint64(n_symbols))
        symbols[i] = np.uint8(number - np.uint64(higher * np.uint64(n_symbols)))
        number = higher
    return beyond == 0 and number == 0
