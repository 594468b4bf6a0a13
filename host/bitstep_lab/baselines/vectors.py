"""The two loops over a row as LLVM vectors; importing this needs numba.

LLVM vectorises both loops by itself, but the product then ends in several sums of vectors and a
scalar loop, one after the other, and sequential SGD waits for that in every row. Here one group of
sums takes all of a row: as many blocks of 64 values as fit, then 32, 16, 8, 4, 2 and 1 where they
are left. Product and update cut a row alike, because a load of what has just been stored is fast
only if it lies within one store.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16                  # a register of AVX-512, two of AVX2, four of SSE or NEON
SUMS = 4                    # independent sums, because an addition takes several cycles
FLOAT, INDEX = ir.FloatType(), ir.IntType(32)


def _dot(typing_context, row, model):
    """``row . model[:len(row)]`` in float32, in any order; the row is of float32 or int8."""
    def generate(context, builder, signature, arguments):
        row, model = _arrays(context, builder, signature, arguments)
        element = context.get_data_type(signature.args[0].dtype)
        zero = ir.Constant(ir.VectorType(FLOAT, LANES), None)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(SUMS)]

        def add(at, lanes, number):
            product = builder.fmul(_load(builder, row, at, lanes, element),
                                   _load(builder, model, at, lanes, FLOAT), flags=("contract",))
            if lanes < LANES:
                nothing = ir.Constant(ir.VectorType(FLOAT, lanes), None)
                product = builder.shuffle_vector(
                    product, nothing, _indices([*range(lanes), *[lanes] * (LANES - lanes)]))
            total = builder.fadd(builder.load(sums[number]), product, flags=("contract",))
            builder.store(total, sums[number])

        _blocks(builder, row.shape, add)
        first, second, third, fourth = (builder.load(partial) for partial in sums)
        total = builder.fadd(builder.fadd(first, second), builder.fadd(third, fourth))
        lanes = LANES
        while lanes > 1:
            lanes //= 2
            halves = [builder.shuffle_vector(total, total, _indices(range(at, at + lanes)))
                      for at in (0, lanes)]
            total = builder.fadd(*halves)
        return builder.extract_element(total, INDEX(0))

    return types.float32(row, model), generate


def _combine(typing_context, row, model, keep, change):
    """``model[:len(row)] <- keep model - change row`` in float32; the row is of float32 or int8."""
    def generate(context, builder, signature, arguments):
        row, model = _arrays(context, builder, signature, arguments)
        element = context.get_data_type(signature.args[0].dtype)

        def update(at, lanes, number):
            kept, changed = (
                builder.fmul(_spread(builder, factor, lanes),
                             _load(builder, array, at, lanes, kind), flags=("contract",))
                for factor, array, kind in ((arguments[2], model, FLOAT),
                                            (arguments[3], row, element)))
            pointer = _pointer(builder, model, at, lanes, FLOAT)
            builder.store(builder.fsub(kept, changed, flags=("contract",)), pointer, align=4)

        _blocks(builder, row.shape, update)
        return context.get_dummy_value()

    return types.void(row, model, types.float32, types.float32), generate


# Compiled code calls these without the typing context, which a type checker cannot know.
dot: Any = intrinsic(_dot)
combine: Any = intrinsic(_combine)


def _arrays(context, builder, signature, arguments):
    return [context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(signature.args[:2], arguments[:2], strict=True)]


def _blocks(builder, shape, body):
    """Cut a row into blocks.

    ``body(at, lanes, number)`` makes the code of the block of ``lanes`` values from ``at`` on;
    ``number`` is that of the sum it belongs to.
    """
    length = cgutils.unpack_tuple(builder, shape, 1)[0]
    whole = length.type(LANES * SUMS)
    rounds = builder.udiv(length, whole)
    with cgutils.for_range(builder, rounds) as loop:
        for number in range(SUMS):
            body(builder.add(builder.mul(loop.index, whole), length.type(number * LANES)), LANES,
                 number)
    at, size, number = builder.mul(rounds, whole), LANES * SUMS, 0
    while size > 1:
        size //= 2
        left = builder.and_(length, length.type(size))
        with builder.if_then(builder.icmp_unsigned("!=", left, length.type(0))):
            for start in range(0, size, LANES):
                body(builder.add(at, length.type(start)), min(size, LANES), number % SUMS)
                number += 1
        at = builder.add(at, left)


def _pointer(builder, array, at, lanes, element):
    return builder.bitcast(builder.gep(array.data, [at]),
                           ir.VectorType(element, lanes).as_pointer())


def _load(builder, array, at, lanes, element):
    """A vector of float32; int8 becomes that in registers."""
    pointer = _pointer(builder, array, at, lanes, element)
    if element == FLOAT:
        return builder.load(pointer, align=4)
    return builder.sitofp(builder.load(pointer, align=1), ir.VectorType(FLOAT, lanes))


def _spread(builder, value, lanes):
    """The same value in every lane."""
    kind = ir.VectorType(FLOAT, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, INDEX(0))
    return builder.shuffle_vector(first, first, _indices([0] * lanes))


def _indices(numbers):
    numbers = list(numbers)
    return ir.Constant(ir.VectorType(INDEX, len(numbers)), numbers)
