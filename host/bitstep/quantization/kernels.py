"""Bit-plane rows in compiled loops: what :class:`bitstep.quantization.bit_planes.BitPlaneEncoder`
computes with NumPy, bit for bit; importing this needs numba.
"""

from typing import NamedTuple

import numpy as np

from bitstep.compiling import compiled, kernel, uncounted
from bitstep.pipeline.bit_planes import BitPlaneLayout

CHUNK = 512             # rows whose sums have room in 32 bits
FEW = 11                # most bits of codes whose squares have room there

_BYTE = np.uint64(255)


class Room(NamedTuple):
    """Room for the kernels.

    Attributes
    ----------
    high, low : ndarray of uint8, shape (block_rows * row_bits,)
        High and low bytes of a block's codes, a byte for each bit of a plane.
    words : ndarray of uint64, shape (plane_bytes,)
        Bytes of 8 codes.
    column : ndarray of int16, shape (rows,)
        Codes of a column, less 2^15.
    """

    high: np.ndarray
    low: np.ndarray
    words: np.ndarray
    column: np.ndarray

    @classmethod
    def of(cls, layout: BitPlaneLayout, n_rows: int = 0) -> "Room":
        """Room for blocks of a layout, and columns of so many rows."""
        bits = 8 * layout.plane_bytes
        return cls(np.zeros(bits, np.uint8), np.zeros(bits, np.uint8),
                   np.zeros(layout.plane_bytes, np.uint64), np.empty(n_rows, np.int16))


@kernel
def scale_rows(features, centre, scale, codes):
    """Write the codes of 16 bits of rows: floor((u + 1) 2^15), within 0 and 2^16 - 1.

    Parameters
    ----------
    features : ndarray of float64, shape (rows, n_features)
    centre, scale : ndarray of float64, shape (n_features,)
    codes : ndarray of uint16, shape (rows, n_features)
        Overwritten.
    """
    features, codes, centre, scale = (uncounted(features), uncounted(codes), uncounted(centre),
                                      uncounted(scale))
    for i in range(features.shape[0]):
        for j in range(features.shape[1]):
            place = np.floor(((features[i, j] - centre[j]) / scale[j] + 1.0) * 32768.0)
            codes[i, j] = np.int32(min(max(place, 0.0), 65535.0))


@kernel
def pack_planes(codes, weights, plane_bytes, block_rows, blocks, room, sums):
    """Transpose codes into blocks of planes, and sum them at every precision.

    Parameters
    ----------
    codes : ndarray of uint16, shape (rows, n_features)
        Of whole blocks, or the last rows.
    weights : ndarray of uint16, shape (rows,) or (0,)
    plane_bytes, block_rows : int
        Of :class:`bitstep.pipeline.bit_planes.BitPlaneLayout`.
    blocks : ndarray of uint8, shape (blocks, block_bytes)
        Overwritten.
    room : Room
    sums : ndarray of int64, shape (16, 2, n_features)
        Overwritten by the sums of k - 2^(b - 1) and of its squares, with k the codes of b bits,
        each times its row's weight, if there are weights.
    """
    codes, blocks, sums = uncounted(codes), uncounted(blocks), uncounted(sums)
    weights = uncounted(weights)
    high, low, words, column = (uncounted(room.high), uncounted(room.low), uncounted(room.words),
                                uncounted(room.column))
    n_rows, n_features = codes.shape
    row_bits = 8 * plane_bytes // block_rows
    high[:] = 0
    low[:] = 0
    for block in range(blocks.shape[0]):
        for i in range(block_rows):
            row, start = block * block_rows + i, i * row_bits
            if row == n_rows:
                high[start:] = 0
                low[start:] = 0
                break
            for j in range(n_features):
                high[start + j] = codes[row, j] >> 8
                low[start + j] = codes[row, j] & 255
        _write_planes(high.view(np.uint64), words, blocks[block, :8 * plane_bytes])
        _write_planes(low.view(np.uint64), words, blocks[block, 8 * plane_bytes:])
    sums[:] = 0
    for j in range(n_features):
        for i in range(n_rows):
            column[i] = np.int32(codes[i, j]) - 32768
        if weights.size:
            _add_weighted_sums(column[:n_rows], weights, sums, j)
            continue
        for first in range(0, n_rows, CHUNK):
            _add_sums(column[first:min(first + CHUNK, n_rows)], sums, j)


@compiled
def _write_planes(found, words, planes):
    """Write 8 planes of codes of 8 bits, which are the bytes of words."""
    for k in range(words.size):
        words[k] = _transposed(found[k])
    for plane in range(8):
        start, shift = plane * words.size, np.uint64(8 * (7 - plane))
        for k in range(words.size):
            planes[start + k] = words[k] >> shift & _BYTE


@kernel
def unpack_planes(blocks, n_planes, plane_bytes, block_rows, first, room, codes):
    """Write codes of 16 bits, less 2^15: the inverse of :func:`pack_planes`.

    Parameters
    ----------
    blocks : ndarray of uint8, shape (blocks, block_bytes)
    n_planes : int
        Planes that are read; the other bits of a code are 0.
    plane_bytes, block_rows
        See :func:`pack_planes`.
    first : int
        Row of the first code.
    room : Room
    codes : ndarray of int16, shape (rows, n_features)
        Overwritten.
    """
    blocks, codes = uncounted(blocks), uncounted(codes)
    high, low, words = uncounted(room.high), uncounted(room.low), uncounted(room.words)
    n_rows, n_features = codes.shape
    row_bits, end = 8 * plane_bytes // block_rows, first + n_rows
    for block in range(first // block_rows, -(-end // block_rows)):
        _read_planes(blocks[block, :8 * plane_bytes], min(n_planes, 8), words,
                     high.view(np.uint64))
        _read_planes(blocks[block, 8 * plane_bytes:], max(n_planes - 8, 0), words,
                     low.view(np.uint64))
        start = block * block_rows
        for row in range(max(first, start), min(end, start + block_rows)):
            at = (row - start) * row_bits
            for j in range(n_features):
                codes[row - first, j] = (np.int32(high[at + j]) << np.int32(8)
                                         | np.int32(low[at + j])) - np.int32(32768)


@compiled
def _read_planes(planes, n_planes, words, found):
    """Write codes of 8 bits, as bytes of words, from their first planes."""
    words[:] = 0
    for plane in range(n_planes):
        start, shift = plane * words.size, np.uint64(8 * (7 - plane))
        for k in range(words.size):
            words[k] |= np.uint64(planes[start + k]) << shift
    for k in range(words.size):
        found[k] = _transposed(words[k])


@compiled
def _transposed(word):
    """The transposed matrix of 8 x 8 bits, a row in each byte: by halves, as is common."""
    swap = (word ^ word >> np.uint64(7)) & np.uint64(0x00AA_00AA_00AA_00AA)
    word ^= swap ^ swap << np.uint64(7)
    swap = (word ^ word >> np.uint64(14)) & np.uint64(0x0000_CCCC_0000_CCCC)
    word ^= swap ^ swap << np.uint64(14)
    swap = (word ^ word >> np.uint64(28)) & np.uint64(0xF0F0_F0F0)
    return word ^ swap ^ swap << np.uint64(28)


@compiled
def _add_sums(column, sums, j):
    """Add the sums of some rows of a column."""
    square, total = np.int64(0), np.int32(0)
    for i in range(column.size):
        square += np.int32(column[i]) * np.int32(column[i])
        total = np.int32(total + np.int32(column[i]))
    sums[15, 0, j] += total
    sums[15, 1, j] += square
    for bits in range(1, FEW + 1):
        first, second, drop = np.int32(0), np.int32(0), np.int32(16 - bits)
        for i in range(column.size):
            value = np.int32(column[i]) >> drop
            first = np.int32(first + np.int32(value))
            second = np.int32(second + np.int32(value) * np.int32(value))
        sums[bits - 1, 0, j] += first
        sums[bits - 1, 1, j] += second
    # With r the bits that are dropped, 2^drop times the value is the value of 16 bits less r.
    for bits in range(FEW + 1, 16):
        left, mixed, dropped = np.int32(0), np.int32(0), np.int32(0)
        mask = np.int32((1 << 16 - bits) - 1)
        for i in range(column.size):
            rest = np.int32(column[i]) & mask
            left = np.int32(left + np.int32(rest))
            mixed = np.int32(mixed + np.int32(column[i]) * np.int32(rest))
            dropped = np.int32(dropped + np.int32(rest) * np.int32(rest))
        sums[bits - 1, 0, j] += (np.int64(total) - left) >> 16 - bits
        sums[bits - 1, 1, j] += (square - 2 * np.int64(mixed) + dropped) >> 2 * (16 - bits)


@compiled
def _add_weighted_sums(column, weights, sums, j):
    """As :func:`_add_sums`, times the rows' weights."""
    for bits in range(1, 17):
        first, second, drop = np.int64(0), np.int64(0), np.int32(16 - bits)
        for i in range(column.size):
            value = np.int32(column[i]) >> drop
            weighted = np.int64(value) * np.int64(weights[i])
            first += weighted
            second += weighted * np.int64(value)
        sums[bits - 1, 0, j] += first
        sums[bits - 1, 1, j] += second


def scaled_rows(features: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Codes of rows; see :meth:`bitstep.quantization.bit_planes.BitPlaneEncoder.positions`."""
    codes = np.empty(features.shape, np.uint16)
    scale_rows(np.ascontiguousarray(features, np.float64), centre, scale, codes)
    return codes


def packed_planes(codes: np.ndarray, layout: BitPlaneLayout,
                  weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of planes, and the sums of :func:`pack_planes`.

    Parameters
    ----------
    codes : ndarray of uint16, shape (rows, n_features)
    layout : BitPlaneLayout
    weights : ndarray of uint16, shape (n_rows,), or None

    Returns
    -------
    blocks : ndarray of uint8, shape (blocks, block_bytes)
    sums : ndarray of int64, shape (16, 2, n_features)
    """
    n_rows, n_features = codes.shape
    blocks = np.empty((layout.blocks(n_rows), layout.block_bytes), np.uint8)
    sums = np.empty((16, 2, n_features), np.int64)
    weights = np.empty(0, np.uint16) if weights is None else weights
    pack_planes(np.ascontiguousarray(codes), np.ascontiguousarray(weights), layout.plane_bytes,
                layout.block_rows, blocks, Room.of(layout, n_rows), sums)
    return blocks, sums


def unpacked_codes(blocks: np.ndarray, n_planes: int, first: int, codes: np.ndarray) -> None:
    """Write codes of 16 bits, less 2^15, of rows from ``first`` on; see :func:`unpack_planes`."""
    layout = BitPlaneLayout(codes.shape[1])
    blocks = blocks.view()
    blocks.flags.writeable = False      # one type for the compiler, mapped from a file or not
    unpack_planes(blocks, n_planes, layout.plane_bytes, layout.block_rows, first,
                  Room.of(layout), codes)
