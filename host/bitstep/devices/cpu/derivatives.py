"""Derivatives of smooth losses, for bit-centred training: :mod:`bitstep.golden.steps` and
:mod:`bitstep.golden.gradient` for machine integers.
"""

import numpy as np

from bitstep.compiling import compiled
from bitstep.devices.cpu.arithmetic import (
    LOW_MASK,
    PAIR_BITS,
    dither_addend,
    fitting,
    scaled,
    scaled_in_64,
    sigmoid,
)
from bitstep.golden.sigmoid import (
    BOWS,
    FINE_ARGUMENT,
    FINE_NODES,
    FINE_RANGE,
    FINE_SEGMENT,
    FINE_VALUE,
)
from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.parts.widths import SIGMOID_FRACTION
from bitstep.pipeline.registers import Loss

CENTRED = 16                # added to the loss of a rule whose labels are derivatives at a centre
LOGISTIC = int(Loss.LOGISTIC)

_NODES, _BOWS = np.array(FINE_NODES, np.int64), np.array(BOWS, np.int64)
_FINE_LIMIT = FINE_RANGE << FINE_ARGUMENT
_FINE_SHIFT = 16 + FINE_VALUE


@compiled
def _fine_sigmoid(argument):
    """:func:`bitstep.golden.sigmoid.fine_sigmoid`."""
    place = min(max(argument, -_FINE_LIMIT), _FINE_LIMIT - 1) + _FINE_LIMIT
    segment, within = place >> FINE_SEGMENT, place & (1 << FINE_SEGMENT) - 1
    rise = (_NODES[segment + 1] - _NODES[segment]) << FINE_SEGMENT
    bow = _BOWS[segment] * ((1 << FINE_SEGMENT) - within)
    half = np.int64(1) << 2 * FINE_SEGMENT - 1
    return _NODES[segment] + ((within * (rise + bow) + half) >> 2 * FINE_SEGMENT)


@compiled
def _shifted(sign, high, low, shift):
    """``sign * (high * 2**24 + low) / 2**shift``, rounded to nearest, ties towards plus infinity.

    For the dot products of bit-plane rows, which 62 bits hold: it takes less time than 128 bits.
    """
    return (sign * ((high << PAIR_BITS) + low) + (np.int64(1) << shift - 1)) >> shift


@compiled
def fine_update(rule, high, low, target, dither):
    """The update of a row in the gradient of the logistic loss, whose dot product is a pair."""
    sign = np.int64(1) if target > 0 else np.int64(-1)
    shift, step = rule.label_shift - FINE_ARGUMENT, rule.derivative_step
    argument = _shifted(-sign, high, low, shift)
    addend = dither_addend(dither, np.int64(_FINE_SHIFT))
    return -sign * scaled_in_64(_fine_sigmoid(argument), step >> PAIR_BITS, step & LOW_MASK,
                                addend, _FINE_SHIFT)


@compiled
def _logistic_derivative(label_shift, high, low, sign):
    shift = label_shift - SIGMOID_FRACTION
    return -sign * sigmoid(_shifted(-sign, high, low, shift))


@compiled
def _hinge_derivative(label_shift, high, low, sign):
    """Of the squared hinge, as a pair."""
    low -= (np.int64(sign) << label_shift) & LOW_MASK
    high += (low >> PAIR_BITS) - ((np.int64(sign) << label_shift) >> PAIR_BITS)
    low &= LOW_MASK
    active = high < 0 if sign > 0 else high > 0 or (high == 0 and low > 0)
    return (high, low) if active else (np.int64(0), np.int64(0))


@compiled
def centred_update(rule, high, low, label, dither):
    """The update of a row whose label is a derivative at a centre, or TOO_LARGE."""
    sign, derivative = 1 if label & 1 else -1, label >> 1
    if rule.loss == CENTRED + LOGISTIC:
        change = _logistic_derivative(rule.label_shift, high, low, sign) - derivative
        update = scaled(rule.derivative_step, 0, change, dither_addend(dither, np.int64(32)), 32)
    else:
        high, low = _hinge_derivative(rule.label_shift, high, low, sign)
        derivative <<= rule.label_shift - DERIVATIVE_FRACTION
        low -= derivative & LOW_MASK
        high += (low >> PAIR_BITS) - (derivative >> PAIR_BITS)
        update = scaled(rule.mantissa, high, low & LOW_MASK, dither_addend(dither, rule.shift),
                        rule.shift)
    return fitting(update)


@compiled
def derivative_label(rule, high, low, target, left):
    """:func:`bitstep.golden.steps.derivative_label` at ``left`` planes less than the rule's."""
    sign = 1 if target > 0 else -1
    label_shift = rule.label_shift - left
    if rule.loss == LOGISTIC:
        found = _logistic_derivative(label_shift, high, low, sign)
    else:
        high, low = _hinge_derivative(label_shift, high, low, sign)
        shift = label_shift - DERIVATIVE_FRACTION + 1
        found = scaled(2, high, low, np.int64(1) << shift - 1, shift)
    return 2 * found + (1 if sign > 0 else 0)
