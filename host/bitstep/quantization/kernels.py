"""Bit-plane rows in compiled loops: what :class:`bitstep.quantization.bit_planes.BitPlaneEncoder`
computes with NumPy, bit for bit; importing this needs numba.
"""

from typing import NamedTuple

import numpy as np

from bitstep.compiling import assign, compiled, kernel, uncounted
from bitstep.pipeline.bit_planes import PLANES, BitPlaneLayout
from bitstep.quantization.vectors import (
    GROUP,
    LANES,
    TILE,
    all_bits_sums,
    few_bits_sums,
    read_planes,
    turn_tile,
    write_planes,
)

CHUNK = 512             # rows that are summed at a time
FEW = 13                # most bits of codes whose squares fit the 32 bits of a lane

_GROUP_BYTES = GROUP // 8


class Room(NamedTuple):
    """Room for the kernels.

    Attributes
    ----------
    block : ndarray of uint16 or int16, shape (block_rows * row_bits,)
        Codes of a block, with those that fill up rows and block.
    columns : ndarray of int16, shape (TILE, CHUNK)
        Codes of columns, less 2^15.
    """

    block: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, layout: BitPlaneLayout, kind: type[np.integer]) -> "Room":
        """Room for blocks of a layout."""
        return cls(np.zeros(8 * layout.plane_bytes, kind), np.empty((TILE, CHUNK), np.int16))


@kernel
def scale_rows(features, centre, scale, codes):
    """Write the codes of 16 bits of rows: floor((u + 1) 2^15), within 0 and 2^16 - 1.

    Parameters
    ----------
    features : ndarray of float64 or float32, shape (rows, n_features)
    centre, scale : ndarray of float64, shape (n_features,)
    codes : ndarray of uint16, shape (rows, n_features)
        Overwritten.
    """
    features, codes, centre, scale = (uncounted(features), uncounted(codes), uncounted(centre),
                                      uncounted(scale))
    for i in range(features.shape[0]):
        for j in range(features.shape[1]):
            place = np.floor(((np.float64(features[i, j]) - centre[j]) / scale[j] + 1.0) * 32768.0)
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
        Gains the sums of k - 2^(b - 1) and of its squares, with k the codes of b bits,
        each times its row's weight, if there are weights.
    """
    codes, blocks, sums = uncounted(codes), uncounted(blocks), uncounted(sums)
    weights, whole, columns = (uncounted(weights), uncounted(room.block),
                               uncounted(room.columns))
    n_rows, n_features = codes.shape
    row_bits = 8 * plane_bytes // block_rows
    for block in range(blocks.shape[0]):
        for i in range(block_rows):
            row, start = block * block_rows + i, i * row_bits
            if row == n_rows:
                for place in range(start, whole.size):
                    whole[place] = 0
                break
            assign(uncounted(whole[start:start + n_features]), uncounted(codes[row]))
        planes = uncounted(blocks[block])
        for group in range(plane_bytes // _GROUP_BYTES):
            write_planes(whole, group, planes, plane_bytes)
    for first in range(0, n_rows, CHUNK):
        size = min(CHUNK, n_rows - first)
        for start in range(0, n_features, TILE):
            _turn(codes, first, size, start, columns)
            for j in range(start, min(start + TILE, n_features)):
                if weights.size:
                    _add_weighted_sums(columns[j - start, :size], weights[first:first + size],
                                       sums, j)
                else:
                    _add_sums(columns, j - start, size, sums, j)


@compiled
def _turn(codes, first, size, start, columns):
    """Write the columns from ``start`` on of some rows, and zeros up to a multiple of LANES."""
    wide = min(TILE, codes.shape[1] - start)
    whole = size // TILE * TILE if wide == TILE else 0
    for i in range(0, whole, TILE):
        turn_tile(codes, first + i, start, columns, i)
    for j in range(wide):
        for i in range(whole, size):
            columns[j, i] = np.int32(codes[first + i, start + j]) - 32768
        for i in range(size, -(-size // LANES) * LANES):
            columns[j, i] = 0


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
    blocks, codes, whole = uncounted(blocks), uncounted(codes), uncounted(room.block)
    n_rows, n_features = codes.shape
    row_bits, end = 8 * plane_bytes // block_rows, first + n_rows
    for block in range(first // block_rows, -(-end // block_rows)):
        planes = uncounted(blocks[block])
        for group in range(plane_bytes // _GROUP_BYTES):
            read_planes(planes, n_planes, plane_bytes, group, whole)
        start = block * block_rows
        for row in range(max(first, start), min(end, start + block_rows)):
            at = (row - start) * row_bits
            assign(uncounted(codes[row - first]), uncounted(whole[at:at + n_features]))


@compiled
def _add_sums(columns, column, size, sums, j):
    """Add the sums of some rows of a column."""
    groups = -(-size // LANES)
    for bits in range(1, PLANES + 1):
        if bits <= FEW:
            first, second = few_bits_sums(columns, column, groups, PLANES - bits)
        else:
            first, second = all_bits_sums(columns, column, groups, PLANES - bits)
        sums[bits - 1, 0, j] += first
        sums[bits - 1, 1, j] += second


@compiled
def _add_weighted_sums(column, weights, sums, j):
    """As :func:`_add_sums`, times the rows' weights."""
    for bits in range(1, 17):
        first, second, drop = np.int64(0), np.int64(0), np.int32(16 - bits)
        for i in range(column.size):
            value = np.int32(np.int32(column[i]) >> drop)
            weighted = np.int32(value * np.int32(weights[i]))   # from -2^31, which has room
            first += np.int64(weighted)
            second += np.int64(weighted) * np.int64(value)
        sums[bits - 1, 0, j] += first
        sums[bits - 1, 1, j] += second


def scaled_rows(features: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Codes of rows; see :meth:`bitstep.quantization.bit_planes.BitPlaneEncoder.positions`."""
    codes = np.empty(features.shape, np.uint16)
    kind = np.float32 if features.dtype == np.float32 else np.float64
    scale_rows(np.ascontiguousarray(features, kind), centre, scale, codes)
    return codes


def packed_planes(codes: np.ndarray, layout: BitPlaneLayout,
                  weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
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
    sums = np.zeros((16, 2, n_features), np.int64)
    weights = np.empty(0, np.uint16) if weights is None else weights
    pack_planes(np.ascontiguousarray(codes), np.ascontiguousarray(weights), layout.plane_bytes,
                layout.block_rows, blocks, Room.of(layout, np.uint16), sums)
    return blocks, sums


def unpacked_codes(blocks: np.ndarray, n_planes: int, first: int, codes: np.ndarray) -> None:
    """Write codes of 16 bits, less 2^15, of rows from ``first`` on; see :func:`unpack_planes`."""
    layout = BitPlaneLayout(codes.shape[1])
    blocks = blocks.view()
    blocks.flags.writeable = False      # one type for the compiler, mapped from a file or not
    unpack_planes(blocks, n_planes, layout.plane_bytes, layout.block_rows, first,
                  Room.of(layout, np.int16), codes)
