"""Bit-plane rows: codes of 16 bits, stored bit plane by bit plane (docs/memory-layout.md).

A value's code of b bits is the first b bits of its code of 16, so one stored copy has the rows at
every precision. (The layout of bits follows the idea of MLWeaving: Wang, Kara, Zhang, Alonso,
Mutlu and Zhang, "Accelerating generalized linear models with MLWeaving", VLDB 12(7), 2019.)
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

PLANES = 16                 # bits of a stored code
GROUP = 4                   # bits that a row's plane is a multiple of
MIN_PLANE_BYTES = 512       # least bytes of a plane of a block: 4 bursts of the narrowest bus
ALIGNMENT = 64              # bytes of a beat of the widest bus, which planes are multiples of
CHUNK_UNITS = 16            # most units of ``ALIGNMENT`` bytes of a plane that are read at a time


@dataclass(frozen=True)
class BitPlaneLayout:
    """Places of the bits of bit-plane rows in memory.

    Parameters
    ----------
    n_features : int
        Features of a row, at least 1.
    """

    n_features: int

    @property
    def row_bits(self) -> int:
        """Bits of a plane of a row: one for each feature, padded to groups of 4."""
        return -(-self.n_features // GROUP) * GROUP

    @property
    def block_rows(self) -> int:
        """Rows of a block: the least number for which a plane has at least 512 bytes, and whole
        beats on every bus.
        """
        beat = 8 * ALIGNMENT
        unit = beat // math.gcd(beat, self.row_bits)
        return unit * -(-8 * MIN_PLANE_BYTES // (unit * self.row_bits))

    @property
    def plane_bytes(self) -> int:
        """Bytes of a plane of a block."""
        return self.block_rows * self.row_bits // 8

    @property
    def block_bytes(self) -> int:
        """Bytes of all planes of a block."""
        return PLANES * self.plane_bytes

    def blocks(self, n_rows: int) -> int:
        """Blocks of so many rows; the last one may be padded with zeros."""
        return -(-n_rows // self.block_rows)

    def bytes_read(self, n_rows: int, planes: int) -> int:
        """Bytes of the first planes of all rows; of the last block, of the rows that it has, in
        whole beats of every bus.
        """
        whole, rest = divmod(n_rows, self.block_rows)
        last = -(-rest * self.row_bits // (8 * ALIGNMENT)) * ALIGNMENT
        return planes * (whole * self.plane_bytes + last)

    def chunks(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Parts of the planes of all rows, in the order in which a pipeline reads them: so many
        bytes of each plane that it wants, of one plane after the other.

        Yields
        ------
        (int, int)
            Place of the part of the first plane, and its bytes, which are at most 1,024. The part
            of each further plane comes ``plane_bytes`` after that of the one before.
        """
        left = self.bytes_read(n_rows, 1)
        for block in range(self.blocks(n_rows)):
            end = min(left, self.plane_bytes)
            for start in range(0, end, CHUNK_UNITS * ALIGNMENT):
                yield (block * self.block_bytes + start,
                       min(end - start, CHUNK_UNITS * ALIGNMENT))
            left -= end


def to_bit_planes(codes: np.ndarray) -> np.ndarray:
    """Blocks of planes; the inverse of :func:`from_bit_planes`.

    Parameters
    ----------
    codes : ndarray of uint16, shape (n_rows, n_features)

    Returns
    -------
    ndarray of uint8, shape (blocks, block_bytes)

    Raises
    ------
    ValueError
        If the codes are not uint16 in two dimensions.
    """
    if codes.dtype != np.uint16 or codes.ndim != 2 or codes.shape[1] < 1:
        raise ValueError("codes must be uint16 of shape (n_rows, n_features), not "
                         f"{codes.dtype} of shape {codes.shape}")
    n_rows, n_features = codes.shape
    layout = BitPlaneLayout(n_features)
    blocks = layout.blocks(n_rows)
    bits = np.zeros((blocks * layout.block_rows, layout.row_bits), np.uint8)
    bit_planes = np.zeros((blocks, PLANES, layout.plane_bytes), np.uint8)
    for plane in range(PLANES):
        bits[:n_rows, :n_features] = codes >> np.uint16(PLANES - 1 - plane) & np.uint16(1)
        bit_planes[:, plane] = np.packbits(bits.reshape(blocks, -1), axis=1, bitorder="little")
    return bit_planes.reshape(blocks, -1)


def from_bit_planes(bit_planes: np.ndarray, n_features: int, planes: int, start: int,
                    stop: int) -> np.ndarray:
    """Codes of some rows at a precision.

    Parameters
    ----------
    bit_planes : ndarray of uint8, shape (blocks, block_bytes)
    n_features : int
    planes : int
        Bits of the codes, 1 to 16.
    start, stop : int
        First row, and the one after the last.

    Returns
    -------
    ndarray of uint16, shape (stop - start, n_features)
        Each below ``2 ** planes``.
    """
    layout = BitPlaneLayout(n_features)
    rows = layout.block_rows
    first = start // rows
    part = bit_planes[first:layout.blocks(stop)].reshape(-1, PLANES, layout.plane_bytes)
    codes = np.zeros((len(part) * rows, n_features), np.uint16)
    for plane in range(planes):
        bits = np.unpackbits(part[:, plane], axis=1, bitorder="little")
        codes <<= np.uint16(1)
        codes |= bits.reshape(-1, layout.row_bits)[:, :n_features]
    return codes[start - first * rows:stop - first * rows]


def middle_levels(codes: np.ndarray, planes: int) -> np.ndarray:
    """Levels of codes, the middles of their cells: 2 k + 1 - 2^b of a code k of b bits.

    Parameters
    ----------
    codes : ndarray of uint16
        Each below ``2 ** planes``.
    planes : int
        b; the level 2^b stands for the value 1.

    Returns
    -------
    ndarray of int64, same shape
        Odd numbers from 1 - 2^b to 2^b - 1.
    """
    return 2 * codes.astype(np.int64) + 1 - (1 << planes)
