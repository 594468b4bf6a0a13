"""Integer arithmetic of the kernels: 128-bit products, random words, updates of a row.

Each function is one of :mod:`bitstep.golden`, for machine integers. A sum that may need more than
64 bits is a pair ``high * 2**24 + low`` with low in [0, 2**24).
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitstep.compiling import compiled, kernel
from bitstep.golden.sigmoid import NODES, RANGE, SEGMENT_FRACTION
from bitstep.golden.threefry import GROUP, PARITY, ROTATIONS, ROUNDS
from bitstep.pipeline.config import SIGMOID_FRACTION, UPDATE_WIDTH
from bitstep.pipeline.registers import Loss

PAIR_BITS = 24              # bits of the low part of a pair
LOW_MASK = (1 << PAIR_BITS) - 1
TOO_LARGE = 1 << 40         # an update that does not fit
FAR = 1 << 62               # what stands for larger results of :func:`scaled`

_UPDATE_LIMIT = 1 << UPDATE_WIDTH - 1
_NODES = np.array(NODES, np.int64)
_SIGMOID_LIMIT = RANGE << SIGMOID_FRACTION
_LEAST_SQUARES, _SQUARED_HINGE, _HINGE = (
    int(Loss.LEAST_SQUARES), int(Loss.SQUARED_HINGE), int(Loss.HINGE))
_ROTATIONS = np.array([ROTATIONS[number % len(ROTATIONS)] for number in range(ROUNDS)], np.uint32)


class Rule(NamedTuple):
    """Numbers that turn a dot product into an update, all int64.

    Attributes
    ----------
    loss : int
    mantissa, shift : int
        An update of least squares is ``mantissa * difference / 2**shift``; shift from 8 to 56.
    derivative_step : int
        Update of a derivative of 1, with 16 fraction bits.
    label_shift : int
    """

    loss: int
    mantissa: int
    shift: int
    derivative_step: int
    label_shift: int


def _scaled(typing_context, factor, high, low, addend, shift):
    """``floor((factor * (high * 2**24 + low) + addend) / 2**shift)`` through 128 bits.

    What is 2**62 or more in magnitude becomes +-2**62. Arguments are int64, shift from 0 to 63.
    """
    def generate(context, builder, signature, arguments):
        wide = ir.IntType(128)
        factor, high, low, addend, shift = (builder.sext(value, wide) for value in arguments)
        value = builder.add(builder.shl(high, wide(PAIR_BITS)), low)
        value = builder.ashr(builder.add(builder.mul(factor, value), addend), shift)
        for sign, name in ((1, ">"), (-1, "<")):
            limit = wide(sign * FAR)
            value = builder.select(builder.icmp_signed(name, value, limit), limit, value)
        return builder.trunc(value, ir.IntType(64))

    return types.int64(*[types.int64] * 5), generate


# Compiled code calls this without the typing context, which a type checker cannot know.
scaled: Any = intrinsic(_scaled)


@compiled
def dither_addend(dither, shift):
    """Addend of a dither, before a shift: ``((2 dither + 1) << shift) >> 17``."""
    odd = 2 * dither + 1
    return odd << shift - 17 if shift >= 17 else odd >> 17 - shift


@compiled
def sigmoid(argument):
    """:func:`bitstep.golden.sigmoid.sigmoid`."""
    place = min(max(argument, -_SIGMOID_LIMIT), _SIGMOID_LIMIT - 1) + _SIGMOID_LIMIT
    segment, within = place >> SEGMENT_FRACTION, place & (1 << SEGMENT_FRACTION) - 1
    low, high = _NODES[segment], _NODES[segment + 1]
    return low + (((high - low) * within + (1 << SEGMENT_FRACTION - 1)) >> SEGMENT_FRACTION)


@compiled
def update_of(rule, high, low, target, dither):
    """The update c of a row, or TOO_LARGE; :func:`bitstep.golden.steps.update_rule`.

    Parameters
    ----------
    rule : Rule
    high, low : int
        The dot product, a pair.
    target, dither : int

    Returns
    -------
    int
    """
    sign = 1 if target > 0 else -1
    if rule.loss > _HINGE:
        shift = rule.label_shift - SIGMOID_FRACTION
        argument = scaled(-sign, high, low, 1 << shift - 1, shift)
        addend = dither_addend(dither, 32)
        return -sign * scaled(rule.derivative_step, 0, sigmoid(argument), addend, 32)
    low -= target & LOW_MASK
    high += (low >> PAIR_BITS) - (target >> PAIR_BITS)
    low &= LOW_MASK
    if rule.loss != _LEAST_SQUARES:
        active = high < 0 if target > 0 else high > 0 or (high == 0 and low > 0)
        if not active:
            return 0
        if rule.loss == _HINGE:
            return -sign * ((rule.derivative_step + dither) >> 16)
    update = scaled(rule.mantissa, high, low, dither_addend(dither, rule.shift), rule.shift)
    return update if -_UPDATE_LIMIT <= update < _UPDATE_LIMIT else TOO_LARGE


@kernel
def fill_dithers(key, first, dithers):
    """Dithers of the rows from ``first`` on, a multiple of 4; :mod:`bitstep.golden.dither`.

    Parameters
    ----------
    key, first : int
    dithers : ndarray of int64, shape (n_rows,)
        Overwritten.
    """
    for block in range((dithers.size + 3) // 4):
        x, y = _threefry(np.uint32(key), np.uint32(first // 4 + block))
        for place in range(min(4, dithers.size - 4 * block)):
            word = y if place >= 2 else x
            dithers[4 * block + place] = word >> np.uint32(16 * (place & 1)) & np.uint32(0xFFFF)


@compiled
def _threefry(key, counter):
    """One block with key (key, 0) and counter (counter, 0); :mod:`bitstep.golden.threefry`."""
    zero = np.uint32(0)
    keys = (key, zero, np.uint32(key ^ np.uint32(PARITY)))
    x, y = np.uint32(counter + key), zero
    for number in range(ROUNDS):
        x = np.uint32(x + y)
        left = _ROTATIONS[number]
        y = np.uint32(np.uint32(y << left) | np.uint32(y >> np.uint32(np.uint32(32) - left))) ^ x
        if number % GROUP == GROUP - 1:
            injection = number // GROUP + 1
            x = np.uint32(x + keys[injection % 3])
            y = np.uint32(y + keys[(injection + 1) % 3] + np.uint32(injection))
    return x, y
