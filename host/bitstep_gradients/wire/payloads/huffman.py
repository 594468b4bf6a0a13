"""Huffman coding of symbols, with the counts of the message itself."""

import numpy as np

from bitstep_gradients import kernels
from bitstep_gradients.errors import MessageError
from bitstep_gradients.wire.payloads.base import Payload, check_length, check_same, count_symbols
from bitstep_gradients.wire.payloads.tables import pack_table, unpack_table

LIMIT = 15                  # bits of the longest code: a decoder's table has 2**15 places
_PIECE = 2**16              # bytes that are searched at once for the places of codes


class Huffman(Payload):
    """Canonical Huffman code of at most 15 bits a symbol: a table of lengths, then the codes.

    The lengths are the best ones for the message's counts within that limit. A symbol that no
    other joins has a code of one bit. Codes of one length ascend with their symbols, and shorter
    ones come before longer ones; the first bit of a code is the lowest free bit of the payload.
    """

    number, name = 3, "huffman"

    def encode(self, symbols, n_symbols):
        symbols = np.asarray(symbols)
        if not symbols.size:
            return b""
        counts = count_symbols(symbols, n_symbols)
        lengths = code_lengths(counts)
        loops = kernels.find_kernels()
        if loops:
            packed = np.empty((int(counts @ lengths) + 7) // 8, np.uint8)
            loops.pack_codes(np.ascontiguousarray(symbols), codes(lengths), lengths, packed)
            return pack_table(lengths) + packed.tobytes()
        places = np.arange(lengths.max())
        digits = (codes(lengths)[:, None] >> places & 1).astype(np.uint8)
        bits = digits[symbols][(places < lengths[:, None])[symbols]]
        return pack_table(lengths) + np.packbits(bits, bitorder="little").tobytes()

    def decode(self, payload, count, n_symbols, dtype=np.int64):
        if not count:
            check_length(payload, 0)
            return np.zeros(0, dtype)
        lengths, coded = unpack_table(payload, n_symbols)
        used = np.flatnonzero(lengths)
        if lengths.max() > LIMIT or not used.size or \
                np.sum(2**(LIMIT - lengths[used])) not in (2**LIMIT, 2**(LIMIT - used.size)):
            raise MessageError("the message's code lengths make no Huffman code")
        if count > 8 * len(coded):
            raise MessageError(f"the message has {count} symbols, and their codes have only "
                               f"{len(coded)} bytes")
        symbols, end = _find(np.frombuffer(coded, np.uint8), count, lengths, dtype)
        check_length(coded, (end + 7) // 8)
        return check_same(symbols, payload, self.encode(symbols, n_symbols))

    def expected_bits(self, count, probabilities):
        """The length for the expected counts; symbols expected less than half a time are left out
        of the table.
        """
        expected = count * np.asarray(probabilities, np.float64)
        if not count:
            return 0
        rounded = np.where(expected < 0.5, 0, np.rint(256 * expected)).astype(np.int64)
        rounded[np.argmax(expected)] += 1
        lengths = code_lengths(rounded)
        return 8 * len(pack_table(lengths)) + float(expected @ lengths) + 3.5


def code_lengths(counts: np.ndarray, limit: int = LIMIT) -> np.ndarray:
    """Lengths of the best prefix code with a limit, by package-merge (Larmore and Hirschberg,
    "A fast algorithm for optimal length-limited Huffman codes", JACM 1990).

    Parameters
    ----------
    counts : ndarray of int64, shape (n_symbols,)
        At least one is not 0, and at most ``2**limit``.
    limit : int
        Bits of the longest code.

    Returns
    -------
    lengths : ndarray of int64, shape (n_symbols,)
        0 for a symbol without counts.
    """
    lengths = np.zeros(counts.size, np.int64)
    used = np.flatnonzero(counts)
    if used.size > 2**limit:
        raise ValueError(f"{used.size} symbols have no codes of {limit} bits")
    if used.size == 1:
        lengths[used] = 1
        return lengths
    used = used[np.argsort(counts[used], kind="stable")]
    leaves = items = counts[used]
    levels = []                 # which items of a level are leaves; the others are packages
    for _ in range(limit - 1):
        packages = items[:items.size // 2 * 2].reshape(-1, 2).sum(axis=1)
        merged = np.concatenate([leaves, packages])
        order = np.argsort(merged, kind="stable")
        levels.append(order < leaves.size)
        items = merged[order]
    depths, size = np.zeros(used.size, np.int64), 2 * used.size - 2
    for is_leaf in reversed(levels):
        n_leaves = int(is_leaf[:size].sum())
        depths[:n_leaves] += 1
        size = 2 * (size - n_leaves)
    depths[:size] += 1
    lengths[used] = depths
    return lengths


def codes(lengths: np.ndarray) -> np.ndarray:
    """Canonical codes, their first bit lowest: int64, shape of ``lengths``; 0 without a length."""
    patterns, code, before = np.zeros_like(lengths), 0, 0
    for symbol in np.argsort(lengths, kind="stable"):
        length = int(lengths[symbol])
        if length:
            code <<= length - before
            patterns[symbol] = int(f"{code:0{length}b}"[::-1], 2)
            code, before = code + 1, length
    return patterns


def decoding_table(lengths: np.ndarray) -> np.ndarray:
    """For every 15 bits that may come next: the symbol times 16, plus the length of its code.

    Returns
    -------
    table : ndarray of int32, shape (2**15,)
        0 where no code begins so.
    """
    table = np.zeros(2**LIMIT, np.int32)
    for symbol, code in enumerate(codes(lengths).tolist()):
        if lengths[symbol]:
            table[code::2**int(lengths[symbol])] = 16 * symbol + lengths[symbol]
    return table


def _find(coded: np.ndarray, count: int, lengths: np.ndarray,
          dtype: type) -> tuple[np.ndarray, int]:
    """Symbols of a type, and the bits that they take.

    A compiled loop goes from code to code. Without it NumPy looks up the code at every bit as if
    one began there, and a loop goes from one to the next.
    """
    table, parts, place, n_found = decoding_table(lengths), [], 0, 0
    loops = kernels.find_kernels()
    if loops:
        symbols = np.empty(count, dtype)
        end = loops.find_codes(coded, table, LIMIT, symbols)
        if end < 0:
            raise _no_codes()
        return symbols, end
    padded = np.append(coded, np.zeros(2, np.uint8)).astype(np.uint32)
    for start in range(0, coded.size, _PIECE):
        first, second, third = (padded[start + i:][:min(_PIECE, coded.size - start)]
                                for i in range(3))
        windows = (first | second << 8 | third << 16)[:, None] >> np.arange(8, dtype=np.uint32)
        entries = table[(windows & (2**LIMIT - 1)).reshape(-1)]
        steps, places, place = (entries & 15).tolist(), [], place - 8 * start
        while place < len(steps) and n_found + len(places) < count:
            places.append(place)
            place += steps[place] or len(steps)
        parts.append(entries[places])
        place, n_found = place + 8 * start, n_found + len(places)
    entries = np.concatenate(parts)
    if entries.size < count or not entries.all():
        raise _no_codes()
    return (entries >> 4).astype(dtype), place


def _no_codes() -> MessageError:
    return MessageError("the message's codes end before its symbols, or are no codes")
