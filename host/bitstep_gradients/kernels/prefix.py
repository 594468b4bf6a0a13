"""Kernels of the payload ``huffman``, bit for bit the NumPy code's results."""

import numpy as np

from bitstep.compiling import kernel


@kernel
def count_symbols(symbols, counts):
    """Add the number of times that each symbol occurs to ``counts`` (int64 array)."""
    for symbol in symbols:
        counts[np.uint64(symbol)] += 1


@kernel
def pack_codes(symbols, codes, lengths, packed):
    """Write the codes of symbols, the lowest bit first.

    Parameters
    ----------
    symbols : array of integers, shape (count,)
    codes, lengths : int64 array, shape (n_symbols,)
        Lengths from 1 to 15 for all symbols that occur.
    packed : uint8 array
        Takes the result; has the bytes that it takes.
    """
    rest, n_rest, place = np.uint64(0), 0, 0
    for symbol in symbols:
        rest |= np.uint64(np.uint64(codes[symbol]) << np.uint64(n_rest))
        n_rest += lengths[symbol]
        while n_rest >= 8:
            packed[place] = np.uint8(rest & np.uint64(255))
            rest >>= np.uint64(8)
            n_rest -= 8
            place += 1
    if n_rest:
        packed[place] = np.uint8(rest)


@kernel
def find_codes(packed, table, limit, symbols):
    """Read codes.

    Parameters
    ----------
    packed : uint8 array
    table : int32 array, shape (2**limit,)
        See ``decoding_table``.
    limit : int64
        Bits of the longest code, at most 15.
    symbols : array of integers, shape (count,)
        Takes the symbols.

    Returns
    -------
    end : int64
        Bits that the codes take; -1 if there is no code where one should begin, or if the codes
        end before the symbols.
    """
    rest, n_rest, place = np.uint64(0), 0, 0
    mask = np.uint64((1 << limit) - 1)
    for i in range(symbols.size):
        while n_rest < limit and place < packed.size:
            rest |= np.uint64(np.uint64(packed[place]) << np.uint64(n_rest))
            n_rest += 8
            place += 1
        entry = table[np.int64(rest & mask)]
        length = entry & 15
        if entry == 0 or length > n_rest:
            return -1
        symbols[i] = entry >> 4
        rest >>= np.uint64(length)
        n_rest -= length
    return 8 * place - n_rest
