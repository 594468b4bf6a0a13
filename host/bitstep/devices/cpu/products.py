"""Products of some rows of codes at a time, as vectors that LLVM has for every processor.

No row of a full pass waits for the row before, so weights and sums are read once for some rows. A
loop in Python would test in every row whether arrays overlap, and take the last features one by
one.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bitstep.quantization.vectors import address, array_of, same, spread, total_of, width_of

ROWS = 4                # that are taken at a time
LANES = 8               # features of a vector

_AHEAD = 1 << 12        # codes between those that are taken and those that memory is asked for
_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_CODES, _WORDS, _WIDE = (ir.VectorType(kind, LANES) for kind in (_SHORT, _INT, _LONG))


def whole(n_features: int) -> int:
    """Length of the arrays of weights and of sums: whole vectors."""
    return -(-n_features // LANES) * LANES


def empty_codes(n_rows: int, n_features: int) -> np.ndarray:
    """An array for codes, int16 of shape (n_rows, n_features); vectors may read beyond its end."""
    size = n_rows * n_features
    return np.empty(size + LANES, np.int16)[:size].reshape(n_rows, n_features)


def _starts(builder, codes, row, last):
    """Places of the first codes of ROWS rows; the last row there is stands for those beyond it."""
    for _ in range(ROWS):
        yield builder.mul(row, width_of(builder, codes))
        row = builder.add(row, builder.zext(builder.icmp_signed("<", row, last), _LONG))


def _values(builder, codes, place, drops):
    """A vector of codes, as 64 bits each; without ``drops`` of all their bits."""
    found = builder.load(address(builder, codes.data, place, _CODES), align=2)
    return builder.sext(found if drops is None else builder.ashr(found, drops), _WIDE)


def _both(builder, drop):
    """Two branches: codes with all their bits, which take an instruction less, and with fewer."""
    drops = spread(builder, builder.trunc(drop, _SHORT), _CODES)
    with builder.if_else(builder.icmp_signed("==", drop, _LONG(0))) as branches:
        for branch, fewer in zip(branches, (None, drops), strict=True):
            with branch:
                yield fewer


def _vectors(builder, array):
    """Loop over the places of an array's vectors."""
    size = cgutils.unpack_tuple(builder, array.shape, 1)[0]
    return cgutils.for_range_slice(builder, _LONG(0), size, _LONG(LANES))


def _fetch(builder, start, place):
    """Ask for codes of later rows: a processor foresees one row after the other, but not some at a
    time, and would wait for memory half of the time.
    """
    kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), *[_INT] * 3])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(fetch, [address(builder, start, builder.add(place, _LONG(_AHEAD)), _BYTE),
                         _INT(0), _INT(3), _INT(1)])    # to read, often, data


def _dot_rows(typing_context, codes, row, last, drop, model, products, first):
    """Exact sums of ``code >> drop`` times weight, one for each of ROWS rows.

    Parameters
    ----------
    codes : ndarray of int16, shape (n_rows, n_features)
        Of :func:`empty_codes`.
    row, last : int
        The first row, and the last one there is.
    drop : int
        0 to 15.
    model : ndarray of int32, shape (whole(n_features),)
        Zeros beyond the features.
    products : ndarray of int64
        Those from ``first`` on are overwritten.
    first : int
    """
    def generate(context, builder, signature, arguments):
        codes, model, products = (array_of(context, builder, signature, arguments, number)
                                  for number in (0, 4, 5))
        _, row, last, drop, _, _, first = arguments
        starts = list(_starts(builder, codes, row, last))
        totals = [cgutils.alloca_once_value(builder, same(_WIDE, 0)) for _ in range(ROWS)]
        for drops in _both(builder, drop):
            with _vectors(builder, model) as (place, _):
                # All vectors of ROWS rows together ask for as many codes as they take.
                _fetch(builder, codes.data,
                       builder.add(starts[0], builder.mul(place, _LONG(ROWS))))
                words = builder.sext(
                    builder.load(address(builder, model.data, place, _WORDS), align=4), _WIDE)
                for start, total in zip(starts, totals, strict=True):
                    values = _values(builder, codes, builder.add(start, place), drops)
                    terms = builder.mul(values, words)
                    builder.store(builder.add(builder.load(total), terms), total)
        for number, total in enumerate(totals):
            builder.store(total_of(builder, builder.load(total)),
                          builder.gep(products.data, [builder.add(first, _LONG(number))]))
        return context.get_dummy_value()

    return types.void(codes, *[types.int64] * 3, model, products, types.int64), generate


def _add_rows(typing_context, codes, row, last, drop, updates, first, sums):
    """Add to each feature's sum ``code >> drop`` of each of ROWS rows, times its update.

    Parameters
    ----------
    codes, row, last, drop
        See :func:`_dot_rows`.
    updates : ndarray of int64
        Those from ``first`` on are of 32 bits, signed, and 0 for rows beyond the last.
    first : int
    sums : ndarray of int64, shape (whole(n_features),)
        Changed; those beyond the features may be anything.
    """
    def generate(context, builder, signature, arguments):
        codes, updates, sums = (array_of(context, builder, signature, arguments, number)
                                for number in (0, 4, 6))
        _, row, last, drop, _, first, _ = arguments
        starts, factors = list(_starts(builder, codes, row, last)), []
        for number in range(ROWS):
            update = builder.load(builder.gep(updates.data, [builder.add(first, _LONG(number))]))
            # Of 32 bits, so that a product takes one instruction.
            narrow = spread(builder, builder.trunc(update, _INT), _WORDS)
            factors.append(builder.sext(narrow, _WIDE))
        for drops in _both(builder, drop):
            with _vectors(builder, sums) as (place, _):
                where = address(builder, sums.data, place, _WIDE)
                total = builder.load(where, align=8)
                for start, factor in zip(starts, factors, strict=True):
                    values = _values(builder, codes, builder.add(start, place), drops)
                    total = builder.add(total, builder.mul(values, factor))
                builder.store(total, where, align=8)
        return context.get_dummy_value()

    return types.void(codes, *[types.int64] * 3, updates, types.int64, sums), generate


def _share_rows(typing_context, shares, row, number, shift, weights, sums):
    """Add to the sums of the columns up to a number ``(share * factor >> shift) * weight >> 16``
    of each of ROWS rows, with ``factor`` the row's share of that number.

    Parameters
    ----------
    shares : ndarray of uint32, shape (n_rows, whole(n_columns))
    row : int
        The first row.
    number, shift : int
    weights : ndarray of int64, shape (n_rows,)
        At most 2**16; of rows, from the first one of ``shares`` on.
    sums : ndarray of int64, shape (whole(n_columns),)
        Changed; those beyond the number may be anything.
    """
    def generate(context, builder, signature, arguments):
        shares, weights, sums = (array_of(context, builder, signature, arguments, place)
                                 for place in (0, 4, 5))
        _, row, number, shift, _, _ = arguments
        shifts, whole_weight = spread(builder, shift, _WIDE), same(_WIDE, 16)
        rows = []
        for _ in range(ROWS):
            start = builder.mul(row, width_of(builder, shares))
            factor = builder.load(builder.gep(shares.data, [builder.add(start, number)]))
            weight = builder.load(builder.gep(weights.data, [row]))
            rows.append((start, spread(builder, builder.zext(factor, _LONG), _WIDE),
                         spread(builder, weight, _WIDE)))
            row = builder.add(row, _LONG(1))
        end = builder.add(number, _LONG(1))
        with cgutils.for_range_slice(builder, _LONG(0), end, _LONG(LANES)) as (place, _):
            where = address(builder, sums.data, place, _WIDE)
            total = builder.load(where, align=8)
            for start, factor, weight in rows:
                found = builder.load(address(
                    builder, shares.data, builder.add(start, place), _WORDS), align=4)
                term = builder.lshr(builder.mul(builder.zext(found, _WIDE), factor), shifts)
                total = builder.add(total, builder.lshr(builder.mul(term, weight), whole_weight))
            builder.store(total, where, align=8)
        return context.get_dummy_value()

    return types.void(shares, *[types.int64] * 3, weights, sums), generate


# Compiled code calls these without the typing context, which a type checker cannot know.
dot_rows: Any = intrinsic(_dot_rows)
add_rows: Any = intrinsic(_add_rows)
share_rows: Any = intrinsic(_share_rows)
