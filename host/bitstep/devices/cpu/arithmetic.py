"""Integer arithmetic of the kernels: 128-bit products, random words, updates of a row, and
the model of few bits.

Each function is one of :mod:`bitstep.golden`, for machine integers. A sum that may need more than
64 bits is a pair ``high * 2**24 + low`` with low in [0, 2**24).
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitstep.compiling import assign, compiled, kernel, uncounted
from bitstep.devices.cpu.words import UPDATE_LIMIT
from bitstep.golden.rounded_model import FEATURES_PER_WORD, STREAM, TURN, WORDS_PER_BLOCK
from bitstep.golden.sigmoid import NODES, RANGE, SEGMENT_FRACTION
from bitstep.golden.steps import MAX_DERIVATIVE_STEP, WEIGHT_TURN
from bitstep.golden.threefry import GROUP, PARITY, ROTATIONS, ROUNDS
from bitstep.pipeline.parts.widths import SIGMOID_FRACTION
from bitstep.pipeline.registers import Loss

PAIR_BITS = 24              # bits of the low part of a pair
LOW_MASK = (1 << PAIR_BITS) - 1
TOO_LARGE = 1 << 40         # an update that does not fit
FAR = 1 << 62               # what stands for larger results of :func:`scaled`

_NODES = np.array(NODES, np.int64)
_SIGMOID_LIMIT = RANGE << SIGMOID_FRACTION
LEAST_SQUARES, _HINGE, _LOGISTIC, _HUBER = (
    int(Loss.LEAST_SQUARES), int(Loss.HINGE), int(Loss.LOGISTIC), int(Loss.HUBER))
_ROTATIONS = np.array([ROTATIONS[number % len(ROTATIONS)] for number in range(ROUNDS)], np.uint32)


class Rule(NamedTuple):
    """Numbers that turn a dot product into an update, all int64.

    Attributes
    ----------
    loss : int
    mantissa, shift : int
        An update of least squares is ``mantissa * difference / 2**shift``; shift from 8 to 56.
    derivative_step : int
        Update of a derivative of 1, with 16 fraction bits; of the Huber loss of its largest one.
    label_shift : int
    update_bits : int
        Bits of an update, times a power of two; 0: all.
    bound_high, bound_low : int
        Of the Huber loss: largest difference to the target that is not clipped, a pair. Of other
        losses what a derivative of 1 is in those units.
    """

    loss: int
    mantissa: int
    shift: int
    derivative_step: int
    label_shift: int
    update_bits: int
    bound_high: int
    bound_low: int


def _scaled(typing_context, factor, high, low, addend, shift):
    """``floor((factor * (high * 2**24 + low) + addend) / 2**shift)`` through 128 bits.

    What is 2**62 or more in magnitude becomes +-2**62. Arguments are int64, shift from 0 to 127.
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
def scaled_in_64(factor, high, low, addend, shift):
    """:func:`scaled` in 64 bits: of a factor of 25 bits, ``high`` of 38, ``low`` of 25 with its
    sign, and a shift from 24 to 56; in a loop it compiles to vectors.
    """
    return factor * high + (factor * low + addend >> PAIR_BITS) >> shift - PAIR_BITS


@compiled
def rule_of_row(rule, weights, row, key):
    """The rule with the mantissa of a row (:func:`bitstep.golden.steps.row_mantissa`), if there are
    ``weights``; its derivative step is -1 if it does not fit.
    """
    if weights.size == 0:
        return rule
    place = (key + WEIGHT_TURN * row) & 0xFFFF
    mantissa = (rule.mantissa * np.int64(weights[row]) + place) >> 16
    step: Any = rule.derivative_step
    if step:
        step = scaled(mantissa << 16, rule.bound_high, rule.bound_low,
                      np.int64(1) << rule.shift - 1, rule.shift)
        step = step if step < MAX_DERIVATIVE_STEP else np.int64(-1)
    return Rule(rule.loss, mantissa, rule.shift, step, rule.label_shift, rule.update_bits,
                rule.bound_high, rule.bound_low)


@compiled
def dither_addend(dither, shift):
    """Addend of a dither, before a shift: ``((2 dither + 1) << shift) >> 17``."""
    odd = 2 * dither + 1
    return odd << shift - 17 if shift >= 17 else odd >> 17 - shift


@compiled
def rounded(factor, high, low, dither, shift, bits):
    """``factor * (high * 2**24 + low) / 2**shift``, rounded at random, to integers of few bits
    times a power of two (:func:`bitstep.golden.dither.round_floating`).

    What is 2**62 or more in magnitude becomes +-2**62. Arguments are int64, shift from 8 to 56.
    """
    if bits == 0:
        return scaled(factor, high, low, dither_addend(dither, shift), shift)
    whole = scaled(factor, high, low, 0, shift)
    # Down to twice the least update, a number may be rounded up to it: in 2 bits -1.1 * 2**31 is
    # -2 * 2**31 or -1 * 2**31. Beyond that nothing is an update, however it is rounded.
    if whole < -2 * UPDATE_LIMIT or whole >= UPDATE_LIMIT:
        return whole
    size, drop = whole if whole >= 0 else ~whole, 0
    while size >> drop >= np.int64(1) << bits - 1:
        drop += 1
    # The dither's last bit weighs 2**-17 of the last place that stays: no finer ones are needed.
    left = min(shift + drop, 17)
    value = scaled(factor, high, low, 0, shift + drop - left)
    return ((value + dither_addend(dither, left)) >> left) << drop


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
    sign = np.int64(1) if target > 0 else np.int64(-1)
    # One call of what rounds, with numbers of one type: each call is compiled apart.
    factor, shift, turn = rule.mantissa, rule.shift, np.int64(1)
    if rule.loss == _LOGISTIC:
        left = rule.label_shift - SIGMOID_FRACTION
        high, low = np.int64(0), sigmoid(scaled(-sign, high, low, np.int64(1) << left - 1, left))
        factor, shift, turn = rule.derivative_step, np.int64(32), -sign
    else:
        low -= target & LOW_MASK
        high += (low >> PAIR_BITS) - (target >> PAIR_BITS)
        low &= LOW_MASK
        bounded = False
        if rule.loss == _HUBER:
            above = high > rule.bound_high or (high == rule.bound_high and low > rule.bound_low)
            below = high + rule.bound_high + (low + rule.bound_low >> PAIR_BITS) < 0
            bounded, turn = above or below, np.int64(-1) if below else np.int64(1)
        elif rule.loss != LEAST_SQUARES:
            active = high < 0 if target > 0 else high > 0 or (high == 0 and low > 0)
            if not active:
                return np.int64(0)
            if rule.loss == _HINGE:
                bounded, turn = True, -sign
        if bounded:
            factor, shift = rule.derivative_step, np.int64(16)
            high, low = np.int64(0), np.int64(1)
    return fitting(turn * rounded(factor, high, low, dither, shift, rule.update_bits))


@compiled
def fitting(update):
    """An update, or TOO_LARGE."""
    return update if -UPDATE_LIMIT <= update < UPDATE_LIMIT else TOO_LARGE


@kernel
def fill_dithers(key, first, dithers):
    """Dithers of the rows from ``first`` on, a multiple of 4; :mod:`bitstep.golden.dither`.

    Parameters
    ----------
    key, first : int
    dithers : ndarray of int64, shape (n_rows,)
        Overwritten.
    """
    write_dithers(key, first, uncounted(dithers))


@compiled
def write_dithers(key, first, dithers):
    """:func:`fill_dithers` for kernels."""
    key, stream = np.uint32(key), np.uint32(0)
    half, low = np.uint32(16), np.uint32(0xFFFF)
    blocks = dithers.size // 4          # whole ones, whose loop compiles to vectors
    for block in range(blocks):
        x, y = threefry(key, stream, np.uint32(first // 4 + block), stream)
        dithers[4 * block] = x & low
        dithers[4 * block + 1] = x >> half
        dithers[4 * block + 2] = y & low
        dithers[4 * block + 3] = y >> half
    x, y = threefry(key, stream, np.uint32(first // 4 + blocks), stream)
    for place in range(dithers.size % 4):
        word = y if place >= 2 else x
        dithers[4 * blocks + place] = word >> np.uint32(16 * (place & 1)) & low


@compiled
def threefry(key, stream, counter, batch):
    """One block with key (key, stream) and counter (counter, batch), all uint32;
    :mod:`bitstep.golden.threefry`.
    """
    keys = (key, stream, np.uint32(np.uint32(key ^ stream) ^ np.uint32(PARITY)))
    x, y = np.uint32(counter + key), np.uint32(batch + stream)
    for number in range(ROUNDS):
        x = np.uint32(x + y)
        left = _ROTATIONS[number]
        y = np.uint32(np.uint32(y << left) | np.uint32(y >> np.uint32(np.uint32(32) - left))) ^ x
        if number % GROUP == GROUP - 1:
            injection = number // GROUP + 1
            x = np.uint32(x + keys[injection % 3])
            y = np.uint32(y + keys[(injection + 1) % 3] + np.uint32(injection))
    return x, y


@compiled
def round_model(model, seen, bits, key, batch):
    """Round the model at random to integers of few bits times a power of two;
    :mod:`bitstep.golden.rounded_model`.

    Parameters
    ----------
    model : ndarray of int32
    seen : ndarray of int32, same shape
        Overwritten by the integers.
    bits, key, batch : int

    Returns
    -------
    int
        Exponent of the power of two.
    """
    largest = np.int64(0)
    for j in range(model.size):
        largest = max(largest, abs(np.int64(model[j])))
    exponent, limit = np.int64(0), (np.int64(1) << bits - 1) - 1
    while largest > limit << exponent:
        exponent += 1
    if exponent == 0:
        assign(seen, model)
        return exponent
    x = y = np.uint32(0)
    for first in range(0, model.size, FEATURES_PER_WORD):
        group = first // FEATURES_PER_WORD
        if group % WORDS_PER_BLOCK == 0:
            x, y = threefry(np.uint32(key), np.uint32(STREAM),
                            np.uint32(group // WORDS_PER_BLOCK), np.uint32(batch))
        word = np.int64(x if group % WORDS_PER_BLOCK < 2 else y) >> 16 * (group % 2)
        for j in range(first, min(first + FEATURES_PER_WORD, model.size)):
            dither = (word + TURN * (j - first)) & 0xFFFF
            seen[j] = np.int64(model[j]) + dither_addend(dither, exponent) >> exponent
    return exponent
