"""Codes of bit-plane rows as the kernels take them: an int16 a value, in the order of the features.

A code k of 16 bits is kept as ``k - 2^15``. The level of its first b bits is then
``2 (code >> 16 - b) + 1``, which compiles to vectors, where transposing a row takes some ten times
as long. So the rows that a device read last are kept decoded where memory has room for them, 2
bytes a value; of others a portion is transposed in every pass, of the planes that it reads.
"""

import weakref
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bitstep.compiling import compiled, kernel, uncounted
from bitstep.devices.cpu.decoding import store_word
from bitstep.devices.cpu.numbers import read_only
from bitstep.devices.cpu.portions import portions
from bitstep.machine import available_memory
from bitstep.pipeline.bit_planes import PLANES, BitPlaneLayout
from bitstep.pipeline.job import TrainingJob

ROOM = 0.5                      # share of the free memory that decoded rows may take
PORTION_VALUES = 1 << 18        # values of a portion of rows that are not kept: 0.5 MB

# The 8 bits of a byte, each in a byte of a word: first feature lowest.
_SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1,
                        bitorder="little").view("<u8")[:, 0].astype(np.uint64)
_MIDDLE = np.uint64(0x8000_8000_8000_8000)      # 2^15 in each of four codes


class BitPlaneShape(NamedTuple):
    """Shape of stored bit-plane rows.

    Attributes
    ----------
    n_features, row_bits, plane_bytes, block_rows : int
    """

    n_features: int
    row_bits: int
    plane_bytes: int
    block_rows: int


@compiled
def _eight_bits(blocks, block, at, half, both):
    """The bits of 8 features, which begin at a byte or in its middle, each in a byte of a word."""
    bits = np.int64(blocks[block, at]) >> half
    if both:
        bits |= np.int64(blocks[block, at + 1]) << 4
    return _SPREAD[bits & 255]


@compiled
def _four_codes(high, low):
    """Codes whose high and low bytes are the lower four bytes of two words."""
    high = (high | high << np.uint64(16)) & np.uint64(0x0000_FFFF_0000_FFFF)
    high = (high | high << np.uint64(8)) & np.uint64(0x00FF_00FF_00FF_00FF)
    low = (low | low << np.uint64(16)) & np.uint64(0x0000_FFFF_0000_FFFF)
    low = (low | low << np.uint64(8)) & np.uint64(0x00FF_00FF_00FF_00FF)
    return (high << np.uint64(8) | low) ^ _MIDDLE


@kernel
def transpose_rows(blocks, shape, planes, first, codes):
    """Write the codes of rows from ``first`` on, one row for each of ``codes``.

    Parameters
    ----------
    blocks : ndarray of uint8, shape (blocks, block_bytes)
    shape : BitPlaneShape
    planes : int
        Planes that are read; the other bits of a code are 0.
    first : int
    codes : ndarray of uint8, shape (rows, 2 * n_features)
        Bytes of int16, overwritten.
    """
    blocks, codes = uncounted(blocks), uncounted(codes)
    high_planes = min(planes, 8)
    low_planes, mask = planes - high_planes, np.uint64(0xFFFF_FFFF)
    for i in range(codes.shape[0]):
        row, out = first + i, codes[i]
        block, start = row // shape.block_rows, row % shape.block_rows * shape.row_bits
        half = start & 4
        for feature in range(0, shape.n_features, 8):
            at = (start + feature) >> 3
            both = half != 0 and feature + 4 < shape.row_bits
            high, low = np.uint64(0), np.uint64(0)
            for _ in range(high_planes):
                high = high << np.uint64(1) | _eight_bits(blocks, block, at, half, both)
                at += shape.plane_bytes
            for _ in range(low_planes):
                low = low << np.uint64(1) | _eight_bits(blocks, block, at, half, both)
                at += shape.plane_bytes
            high, low = high << np.uint64(8 - high_planes), low << np.uint64(8 - low_planes)
            one = _four_codes(high & mask, low & mask)
            two = _four_codes(high >> np.uint64(32), low >> np.uint64(32))
            if feature + 8 <= shape.n_features:
                store_word(out, 2 * feature, one)
                store_word(out, 2 * feature + 8, two)
            else:
                for byte in range(2 * (shape.n_features - feature)):
                    word = one if byte < 8 else two
                    out[2 * feature + byte] = word >> np.uint64(8 * (byte & 7)) & np.uint64(255)


@compiled
def write_levels(codes, row, drop, n_features, levels):
    """Write the levels of a row's first ``16 - drop`` planes: int32, of the features alone."""
    for j in range(n_features):
        levels[j] = (np.int32(codes[row, j]) >> drop) * np.int32(2) + np.int32(1)


class Portion(NamedTuple):
    """Rows of an epoch that are taken together.

    Attributes
    ----------
    codes : ndarray of int16, shape (rows, n_features)
        Some rows, those of the portion among them.
    place : int
        Place of the portion's first row in ``codes``.
    first, n_rows : int
        First row of the portion, and its rows.
    """

    codes: np.ndarray
    place: int
    first: int
    n_rows: int


class DecodedRows:
    """The rows that a device read last, decoded."""

    def __init__(self):
        self._kept: dict[int, tuple[weakref.ref, int, np.ndarray]] = {}

    def portions(self, job: TrainingJob, number: int, planes: int) -> Iterator[Portion]:
        """Portions of all rows of a copy, in order.

        Parameters
        ----------
        job : TrainingJob
            Of bit-plane rows.
        number : int
            Of the copy.
        planes : int
            Planes of the codes that are asked for; their other bits may be anything.

        Yields
        ------
        Portion
            To be used before the next one is asked for, unless all rows are kept.
        """
        codes = self.kept(job, number)
        if codes is not None:
            for first, n_rows in portions(job):
                yield Portion(codes, first, first, n_rows)
            return
        codes = np.empty((0, job.n_features), np.int16)
        for first, n_rows in portions(job, values=PORTION_VALUES):
            if len(codes) < n_rows:
                codes = np.empty((n_rows, job.n_features), np.int16)
            _transpose(job, number, planes, first, codes[:n_rows])
            yield Portion(codes, 0, first, n_rows)

    def kept(self, job: TrainingJob, number: int) -> np.ndarray | None:
        """All rows of a copy, decoded once; None where memory has no room for them."""
        stored = job.rows[number]
        self._kept = {key: entry for key, entry in self._kept.items()
                      if any(entry[0]() is copy for copy in job.rows)}
        found = self._kept.get(id(stored))
        if found is not None and found[1] == job.n_rows:
            return found[2]
        if 2 * job.n_rows * job.n_features > ROOM * available_memory():
            return None
        codes = np.empty((job.n_rows, job.n_features), np.int16)
        for first, n_rows in portions(job):
            _transpose(job, number, PLANES, first, codes[first:first + n_rows])
        self._kept[id(stored)] = weakref.ref(stored), job.n_rows, codes
        return codes

    def forget(self) -> None:
        """Give the memory back."""
        self._kept.clear()


def _transpose(job, number, planes, first, codes):
    layout = BitPlaneLayout(job.n_features)
    shape = BitPlaneShape(job.n_features, layout.row_bits, layout.plane_bytes, layout.block_rows)
    transpose_rows(read_only(job.rows[number]), shape, planes, first, codes.view(np.uint8))
