"""Steps of :mod:`bitstep.quantization.kernels` that take many values at a time, as vectors that
LLVM has for every processor; importing this needs numba.

A loop over bits of values compiles to scalars, however it is written: the mask of a comparison,
its inverse, and the transposing of a tile need vectors of their own. The first lane of a mask is
the lowest bit, as it is wherever bytes are little-endian.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

GROUP = 32              # codes whose bits are taken out or put together at a time
TILE = 8                # rows and columns of a tile
LANES = 16              # values of a column that are summed at a time

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_WORD = ir.IntType(GROUP)
_BYTES, _CODES = (ir.VectorType(kind, GROUP) for kind in (_BYTE, _SHORT))
_SIGN = -1 << 15        # the bit by which a code of 16 bits and a code less 2^15 differ


def array_of(context, builder, signature, arguments, number):
    return context.make_array(signature.args[number])(context, builder, arguments[number])


def width_of(builder, array):
    return cgutils.unpack_tuple(builder, array.shape, 2)[1]


def address(builder, start, place, kind):
    """Address of a vector at a place of an array, which need not be aligned."""
    return builder.bitcast(builder.gep(start, [place]), kind.as_pointer())


def same(kind, value):
    return ir.Constant(kind, [value] * kind.count)


def spread(builder, value, kind):
    """A vector of which every lane is a value."""
    none = ir.Constant(kind, ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(none, value, _INT(0)), none,
                                  same(ir.VectorType(_INT, kind.count), 0))


def _write_planes(typing_context, codes, group, planes, plane_bytes):
    """Write the 16 planes of a group of codes.

    Parameters
    ----------
    codes : ndarray of uint16, shape (groups * GROUP,)
    group : int
    planes : ndarray of uint8, shape (16 * plane_bytes,)
        Changed: a bit of each code in each plane.
    plane_bytes : int
    """
    def generate(context, builder, signature, arguments):
        codes, planes = (array_of(context, builder, signature, arguments, number)
                         for number in (0, 2))
        _, group, _, plane_bytes = arguments
        found = builder.load(
            address(builder, codes.data, builder.mul(group, _LONG(GROUP)), _CODES), align=2)
        place = builder.mul(group, _LONG(GROUP // 8))
        for byte in (builder.trunc(builder.lshr(found, same(_CODES, 8)), _BYTES),
                     builder.trunc(found, _BYTES)):
            for _ in range(8):
                first = builder.icmp_signed("<", byte, same(_BYTES, 0))
                builder.store(builder.bitcast(first, _WORD),
                              address(builder, planes.data, place, _WORD), align=1)
                place = builder.add(place, plane_bytes)
                byte = builder.add(byte, byte)
        return context.get_dummy_value()

    return types.void(codes, types.int64, planes, types.int64), generate


def _read_planes(typing_context, planes, n_planes, plane_bytes, group, codes):
    """Write a group of codes, less 2^15, from their first planes; the other bits are 0.

    Parameters
    ----------
    planes : ndarray of uint8, shape (16 * plane_bytes,)
    n_planes : int
        0 to 16.
    plane_bytes, group : int
    codes : ndarray of int16, shape (groups * GROUP,)
        Changed.
    """
    def generate(context, builder, signature, arguments):
        planes, codes = (array_of(context, builder, signature, arguments, number)
                         for number in (0, 4))
        _, n_planes, plane_bytes, group, _ = arguments
        place = builder.mul(group, _LONG(GROUP // 8))
        whole = same(_CODES, 0)
        for first in (0, 8):
            left = builder.sub(n_planes, _LONG(first))
            left = builder.select(builder.icmp_signed("<", left, _LONG(0)), _LONG(0), left)
            left = builder.select(builder.icmp_signed(">", left, _LONG(8)), _LONG(8), left)
            byte = _first_bits(builder, planes, left,
                               builder.add(place, builder.mul(plane_bytes, _LONG(first))),
                               plane_bytes)
            shift = builder.trunc(builder.sub(_LONG(16 - first), left), _SHORT)
            # Of no planes the byte is 0, which no shift changes.
            shift = builder.select(builder.icmp_signed("==", left, _LONG(0)), _SHORT(0), shift)
            whole = builder.or_(whole, builder.shl(builder.zext(byte, _CODES),
                                                   spread(builder, shift, _CODES)))
        builder.store(builder.xor(whole, same(_CODES, _SIGN)), address(
            builder, codes.data, builder.mul(group, _LONG(GROUP)), _CODES), align=2)
        return context.get_dummy_value()

    return types.void(planes, types.int64, types.int64, types.int64, codes), generate


def _first_bits(builder, planes, n_planes, place, plane_bytes):
    """Codes of so many planes, one in each byte."""
    bits = cgutils.alloca_once(builder, _BYTES)
    builder.store(same(_BYTES, 0), bits)
    with cgutils.for_range(builder, n_planes) as loop:
        at = builder.add(place, builder.mul(plane_bytes, loop.index))
        word = builder.load(address(builder, planes.data, at, _WORD), align=1)
        before = builder.load(bits)
        builder.store(builder.sub(builder.add(before, before), _masks(builder, word)), bits)
    return builder.load(bits)


def _masks(builder, word):
    """A byte of each bit of a word, 0 or -1. (A cast to a vector of bits compiles to scalars.)"""
    words = builder.bitcast(spread(builder, word, ir.VectorType(_WORD, 8)), _BYTES)
    # The word's byte with the bit of each lane, from a copy in the same half of the vector.
    picks = ir.Constant(ir.VectorType(_INT, GROUP),
                        [lane // 16 * 16 + lane // 8 for lane in range(GROUP)])
    places = ir.Constant(_BYTES, [1 << lane % 8 for lane in range(GROUP)])
    chosen = builder.and_(builder.shuffle_vector(words, words, picks), places)
    return builder.sext(builder.icmp_unsigned("==", chosen, places), _BYTES)


def _turn_tile(typing_context, codes, row, column, columns, place):
    """Transpose a tile of codes, less 2^15.

    Parameters
    ----------
    codes : ndarray of uint16, shape (rows, n_features)
    row, column : int
        Of the first of ``TILE`` rows and of as many columns.
    columns : ndarray of int16, shape (TILE, length)
        Changed: of each column, the values from ``place`` on.
    place : int
    """
    def generate(context, builder, signature, arguments):
        codes, columns = (array_of(context, builder, signature, arguments, number)
                          for number in (0, 3))
        _, row, column, _, place = arguments
        kind, picks = ir.VectorType(_SHORT, TILE), ir.VectorType(_INT, TILE)
        width, length = width_of(builder, codes), width_of(builder, columns)
        at, lines = builder.add(builder.mul(row, width), column), []
        for _ in range(TILE):
            lines.append(builder.load(address(builder, codes.data, at, kind), align=2))
            at = builder.add(at, width)
        half = TILE // 2
        for _ in range(TILE.bit_length() - 1):
            lines = [builder.shuffle_vector(lines[line], lines[line + half], ir.Constant(
                picks, [pick for lane in range(first, first + half)
                        for pick in (lane, TILE + lane)]))
                for line in range(half) for first in (0, half)]
        for line in lines:
            builder.store(builder.xor(line, same(kind, _SIGN)),
                          address(builder, columns.data, place, kind), align=2)
            place = builder.add(place, length)
        return context.get_dummy_value()

    return types.void(codes, types.int64, types.int64, columns, types.int64), generate


def _sums_of(room_bits):
    """A step that sums; the sums of squares that vectors keep have so many bits."""
    def sums(typing_context, columns, column, groups, drop):
        """Sum of ``value >> drop`` of the first values of a column, and of its squares.

        Parameters
        ----------
        columns : ndarray of int16, shape (TILE, length)
        column : int
        groups : int
            Of ``LANES`` values each.
        drop : int
            0 to 15.

        Returns
        -------
        (int, int)
        """
        def generate(context, builder, signature, arguments):
            columns = array_of(context, builder, signature, arguments, 0)
            _, column, groups, drop = arguments
            start = builder.gep(columns.data,
                                [builder.mul(column, width_of(builder, columns))])
            kind = ir.VectorType(_SHORT, LANES)
            drops = spread(builder, builder.trunc(drop, _SHORT), kind)
            room = ir.VectorType(ir.IntType(room_bits), LANES // 2)
            totals = [cgutils.alloca_once(builder, vector)
                      for vector in (ir.VectorType(_INT, LANES // 2), room)]
            for total in totals:
                builder.store(same(total.type.pointee, 0), total)
            with cgutils.for_range(builder, groups) as loop:
                at = builder.mul(loop.index, _LONG(LANES))
                values = builder.sext(
                    builder.ashr(builder.load(address(builder, start, at, kind), align=2), drops),
                    ir.VectorType(_INT, LANES))
                squares = _pairs(builder, builder.mul(values, values))
                if room_bits > 32:
                    squares = builder.zext(squares, room)
                for total, found in zip(totals, (_pairs(builder, values), squares), strict=True):
                    builder.store(builder.add(builder.load(total), found), total)
            wide = ir.VectorType(_LONG, LANES // 2)
            first, second = map(builder.load, totals)
            second = second if room_bits > 32 else builder.zext(second, wide)
            return cgutils.pack_array(
                builder, [total_of(builder, builder.sext(first, wide)), total_of(builder, second)])

        return types.UniTuple(types.int64, 2)(columns, types.int64, types.int64,
                                              types.int64), generate
    return sums


def _pairs(builder, values):
    """Sums of every two neighbours, element by element: LLVM knows them, of products, as one
    instruction.
    """
    half = ir.VectorType(_INT, LANES // 2)
    even = odd = ir.Constant(half, ir.Undefined)
    for lane in range(LANES // 2):
        even = builder.insert_element(
            even, builder.extract_element(values, _INT(2 * lane)), _INT(lane))
        odd = builder.insert_element(
            odd, builder.extract_element(values, _INT(2 * lane + 1)), _INT(lane))
    return builder.add(even, odd)


def total_of(builder, values):
    kind = values.type
    add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_LONG, [kind]),
        f"llvm.vector.reduce.add.v{kind.count}i64")
    return builder.call(add, [values])


# Compiled code calls these without the typing context, which a type checker cannot know.
write_planes: Any = intrinsic(_write_planes)
read_planes: Any = intrinsic(_read_planes)
turn_tile: Any = intrinsic(_turn_tile)
few_bits_sums: Any = intrinsic(_sums_of(32))
all_bits_sums: Any = intrinsic(_sums_of(64))
