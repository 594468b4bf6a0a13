"""Levels of one stored row at a time (docs/memory-layout.md), as int8.

A level is computed from its code by the same steps for every width and row format::

    level = ((code >> drop ^ sign) + (code >> sample & both)) * double - offset

Codes of 8 and 4 bits take them one by one, which compiles to vectors. For 1 and 2 bits a
lookup table has the levels of all codes in a byte. The other widths, whose codes straddle bytes,
and short rows spread 8 codes to the bytes of a 64-bit word.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bitstep.compiling import compiled
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode

SHORT = 64                  # values of a row for which vectors take longer to begin than to work
BLOCK = 32                  # arrays of levels have such a length, so that loops have no rest

_BYTES = 0x0101_0101_0101_0101      # 1 in every byte
_TOPS = 0x8080_8080_8080_8080


class Level(NamedTuple):
    """The steps from a code to a level, of this module's formula.

    Attributes
    ----------
    drop, sign, sample, both, double, offset : int
    kept_bytes, sign_bytes, both_bytes, offset_bytes : uint64
        Bits of a code that stay after ``drop``, and three of the numbers above, in every byte.
    """

    drop: int
    sign: int
    sample: int
    both: int
    double: int
    offset: int
    kept_bytes: np.uint64
    sign_bytes: np.uint64
    both_bytes: np.uint64
    offset_bytes: np.uint64


class RowFormat(NamedTuple):
    """Shape of a stored row; numbers alone, since arrays in here would be counted in every row.

    Attributes
    ----------
    bits, lanes, beat_bytes, n_features : int
    four, two, one : uint64
        Places of 4, 2 and 1 codes when 8 of them are spread to bytes.
    dot, gradient : Level
        Steps to the level of the dot product and of the gradient.
    two_levels : bool
        True if the two differ.
    tabled : bool
        True if codes are indices into codebooks.
    """

    bits: int
    lanes: int
    beat_bytes: int
    n_features: int
    four: np.uint64
    two: np.uint64
    one: np.uint64
    dot: Level
    gradient: Level
    two_levels: bool
    tabled: bool


def padded(n_features: int) -> int:
    """Length of the arrays of levels and of weights: at least 8 more than the features."""
    return -(-(n_features + 8) // BLOCK) * BLOCK


def row_format(config: PipelineConfig, n_features: int) -> RowFormat:
    """The format of rows of integer codes."""
    bits, two = config.bits, config.row_format == "two_levels"
    dot, gradient = (_level(bits, sample if two else None) for sample in (0, 1))
    return RowFormat(
        bits=bits, lanes=config.rows.lanes, beat_bytes=config.rows.beat_bytes,
        n_features=n_features,
        four=_places(4, bits), two=_places(2, bits), one=_places(1, bits),
        dot=dot, gradient=gradient, two_levels=two, tabled=config.codebooks)


def _places(codes, bits):
    """Bits of every other group of so many codes, each at the start of 8 bits a code."""
    return np.uint64(sum((1 << codes * bits) - 1 << start for start in range(0, 64, 16 * codes)))


def _level(bits, sample):
    """Steps of a level: of the one level of a code, or of one of its two samples."""
    drop, both = (0, 0) if sample is None else (2, 1)
    interval = bits - drop                  # bits of a two's complement number
    if interval == (1 if sample is None else 0):
        sign, double, offset = 0, 2, 1      # one bit: its levels are -1 and 1
    else:
        sign, double = 1 << interval - 1, 1
        offset = sign
    kept = (1 << interval) - 1
    return Level(drop, sign, sample or 0, both, double, offset,
                 *(np.uint64(value * _BYTES) for value in (kept, sign, both, offset)))


def byte_tables(config: PipelineConfig) -> np.ndarray:
    """Levels of all codes in a byte, an int8 each, of codes of 1 and 2 bits.

    Returns
    -------
    ndarray of uint64, shape (2, 256)
        For the dot product and for the gradient; zeros for other widths.
    """
    lookup = np.zeros((2, 256, 8), np.int8)
    if (bits := config.bits) <= 2:
        places = bits * np.arange(8 // bits, dtype=np.int64)
        codes = np.arange(256)[:, None] >> places & (1 << bits) - 1
        lookup[:, :, :8 // bits] = decode(codes.astype(np.uint8), bits=bits,
                                          row_format=config.row_format)
    return lookup.view(np.uint64)[:, :, 0]


def _load_word(typing_context, rows, row, position):
    """The 8 bytes from a position of a row on, which need not be aligned, as uint64."""
    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        width = cgutils.unpack_tuple(builder, array.shape, 2)[1]
        place = builder.add(builder.mul(arguments[1], width), arguments[2])
        return builder.load(_pointer(builder, array, place), align=1)

    return types.uint64(rows, types.int64, types.int64), generate


def _store_word(typing_context, levels, position, word):
    """Write 8 levels, the bytes of a uint64, to a position that need not be aligned."""
    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        builder.store(arguments[2], _pointer(builder, array, arguments[1]), align=1)
        return context.get_dummy_value()

    return types.void(levels, types.int64, types.uint64), generate


def _pointer(builder, array, place):
    return builder.bitcast(builder.gep(array.data, [place]), ir.IntType(64).as_pointer())


# Compiled code calls these without the typing context, which a type checker cannot know.
load_word: Any = intrinsic(_load_word)
store_word: Any = intrinsic(_store_word)


@compiled
def decode_row(rows, row, shape, level, lookup, levels):
    """Write the levels of a row.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n_rows, beats * beat_bytes)
    row : int
    shape : RowFormat
    level : Level
    lookup : ndarray of uint64, shape (256,)
        One of :func:`byte_tables`.
    levels : ndarray of int8, shape (padded(n_features),)
        Overwritten up to ``n_features``, zeroed beyond.
    """
    n_features = shape.n_features
    if shape.bits == 8 and not shape.two_levels:
        for i in range(0, n_features, 8):       # codes are levels
            store_word(levels, i, load_word(rows, row, i))
    elif shape.bits == 8 and n_features > SHORT:
        for i in range(n_features):
            levels[i] = _level_of(np.int32(rows[row, i]), level)
    elif shape.bits == 4 and n_features > SHORT and not shape.two_levels:
        for i in range(n_features + 1 >> 1):    # with constants, so that vectors of bytes suffice
            codes = rows[row, i]
            levels[2 * i] = np.int8((codes & 15 ^ 8) - 8)
            levels[2 * i + 1] = np.int8((codes >> 4 ^ 8) - 8)
    elif shape.bits == 4 and n_features > SHORT:
        for i in range(n_features + 1 >> 1):
            codes = np.int32(rows[row, i])
            levels[2 * i] = _level_of(codes & np.int32(15), level)
            levels[2 * i + 1] = _level_of(codes >> np.int32(4), level)
    elif shape.bits <= 2:
        shift = 4 - shape.bits                  # of codes in a byte
        for i in range((n_features + (1 << shift) - 1) >> shift):
            store_word(levels, i << shift, lookup[rows[row, i]])
    else:
        _spread(rows, row, shape, level, levels)
    store_word(levels, n_features, np.uint64(0))


@compiled
def look_up_row(shape, tables, levels):
    """Replace the levels of a row, decoded as if there were no tables, by those of the tables.

    Parameters
    ----------
    shape : RowFormat
    tables : ndarray of int8, shape (n_features, 2 ** bits)
    levels : ndarray of int8
        As :func:`decode_row` leaves them; changed.
    """
    one = np.int8(shape.bits == 1)          # whose levels are -1 and 1
    mask = (1 << shape.bits) - 1
    for i in range(shape.n_features):
        levels[i] = tables[i, (levels[i] + one) >> one & mask]


@compiled
def _level_of(code, level):
    value = (code >> np.int32(level.drop) ^ np.int32(level.sign)) + (
        code >> np.int32(level.sample) & np.int32(level.both))
    return np.int8(value * np.int32(level.double) - np.int32(level.offset))


@compiled
def _spread(rows, row, shape, level, levels):
    """Codes that straddle bytes: 8 of them lie in ``bits`` bytes of a beat."""
    width, end, eight = np.uint64(shape.bits), rows.shape[1], np.uint64(8)
    four, two, one = np.uint64(4), np.uint64(2), np.uint64(1)
    drop, sample, tops = np.uint64(level.drop), np.uint64(level.sample), np.uint64(_TOPS)
    feature = beat = 0
    while beat < end:                       # a range with a step would divide
        last = min(feature + shape.lanes, shape.n_features)
        at = beat
        while feature < last:
            start = min(at, end - 8)        # nothing is read beyond the row
            word = load_word(rows, row, start) >> np.uint64(8 * (at - start))
            word = word & shape.four | (word >> four * width & shape.four) << four * eight
            word = word & shape.two | (word >> two * width & shape.two) << two * eight
            word = word & shape.one | (word >> one * width & shape.one) << one * eight
            value = ((word >> drop & level.kept_bytes ^ level.sign_bytes)
                     + (word >> sample & level.both_bytes))
            # Each byte minus the offset: a borrow stays within its byte.
            store_word(levels, feature, ((value | tops) - level.offset_bytes) ^ tops)
            feature = min(feature + 8, last)
            at += shape.bits
        beat += shape.beat_bytes
