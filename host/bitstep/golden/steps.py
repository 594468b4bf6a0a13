"""From a dot product to the update of the model, for every loss."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from bitstep.golden.dither import DITHER_WIDTH, round_dithered, round_floating
from bitstep.golden.rounding import fits, round_shift
from bitstep.golden.sigmoid import VALUE_FRACTION, sigmoid
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.losses import DERIVATIVE_FRACTION, has_derivatives
from bitstep.pipeline.parts.widths import (
    COEFFICIENT_WIDTH,
    SHIFT_UNIT,
    SIGMOID_FRACTION,
    UPDATE_WIDTH,
)
from bitstep.pipeline.registers import Loss, Overflow

STEP_FRACTION = DITHER_WIDTH        # fraction bits of K
# A smaller K ends with zeros, since a mantissa has 18 bits: rounded up it still fits an update.
MAX_DERIVATIVE_STEP = 1 << UPDATE_WIDTH - 1 + STEP_FRACTION
WEIGHT_TURN = 40503                 # 2^16 over the golden ratio, odd: dithers of weights


class Overflowed(Exception):
    """A value left its range, so the run ends after this epoch."""

    def __init__(self, kind: Overflow):
        super().__init__(kind)
        self.kind = kind


def derivative_step(job: TrainingJob, steps: EpochSteps) -> int:
    """K, the update of a derivative of 1, with 16 fraction bits:
    round(mantissa 2^(label_shift + 16) / 2^(8 shift)); of the Huber loss that of the largest
    derivative, the job's ``derivative_bound`` times as much.
    """
    largest = steps.mantissa * (job.derivative_bound or 1)
    return round_shift(largest << job.label_shift + STEP_FRACTION, SHIFT_UNIT * steps.shift)


def _checked(update: int) -> int:
    """An update, which must fit its width."""
    if not fits(update, UPDATE_WIDTH):
        raise Overflowed(Overflow.UPDATE)
    return update


def row_mantissa(mantissa: int, weight: int, row: int, key: int) -> int:
    """The mantissa of a row with a weight w: mantissa w / 2**16, rounded at random.

    Its dither is not that of the row's update, which meets this mantissa. Those of all rows are
    evenly spread: (key + 40503 row) mod 2**16. Over all of them the mean is mantissa w / 2**16; a
    mantissa that is a multiple of 2**16 is not rounded.

    Parameters
    ----------
    mantissa, key : int
        Of the epoch's :class:`~bitstep.pipeline.job.EpochSteps`.
    weight : int
        16 bits, of the row.
    row : int
        Its number in the epoch.

    Returns
    -------
    int
        From 0 to ``mantissa``.
    """
    return mantissa * weight + ((key + WEIGHT_TURN * row) & 0xFFFF) >> 16


def update_rules(job: TrainingJob, steps: EpochSteps,
                 make: Callable[[TrainingJob, EpochSteps], Any] | None = None
                 ) -> Callable[[int], Any]:
    """The function from a row's number to its update: ``make(job, steps)``, which is
    :func:`update_rule` unless it is given, with the row's own mantissa if rows have weights.

    Raises
    ------
    Overflowed
        As :func:`update_rule`; from the function, if rows have weights.
    """
    make = make or update_rule
    weights = job.weights
    if weights is None:
        rule = make(job, steps)
        return lambda row: rule

    @cache
    def of_mantissa(mantissa):
        return make(job, replace(steps, mantissa=mantissa))

    return lambda row: of_mantissa(
        row_mantissa(steps.mantissa, int(weights[row]), row, steps.key))


def update_rule(job: TrainingJob, steps: EpochSteps) -> Callable[[int, int, int], int]:
    """The function from a dot product z, a target t = L << label_shift and a dither to the update.

    With y = +-1 the label, t = y 2^label_shift, and a row is *active* if y z < 2^label_shift::

        least squares     c = R(mantissa (z - t) / 2^(8 shift))
        squared hinge     the same for active rows, else 0
        hinge             -y R(K / 2^16) for active rows, else 0
        Huber             that of least squares if |z - t| <= derivative_bound 2^label_shift,
                          else R(K / 2^16) with the sign of z - t
        logistic          -y R(K sigmoid(-y z / 2^label_shift) / 2^32)

    with K of :func:`derivative_step`, the piecewise-linear sigmoid of
    :mod:`bitstep.golden.sigmoid`, and R the rounding by the row's dither, to the job's
    ``update_bits`` (:func:`bitstep.golden.dither.round_floating`). Where labels are derivatives d
    at a centre (:func:`~bitstep.pipeline.losses.has_derivatives`), the target holds y and d, and d
    is subtracted from the derivative before it is scaled.

    Raises
    ------
    Overflowed
        From the function, if the update does not fit; at once, if K does not.
    """
    if has_derivatives(job):
        return _centred_rule(job, steps)
    shift, bits = SHIFT_UNIT * steps.shift, job.update_bits

    def least_squares(dot, target, dither):
        return _checked(round_floating(steps.mantissa * (dot - target), shift, dither, bits))

    def active(dot, target):
        return dot < target if target > 0 else dot > target

    def squared_hinge(dot, target, dither):
        return least_squares(dot, target, dither) if active(dot, target) else 0

    if job.loss == Loss.LEAST_SQUARES:
        return least_squares
    if job.loss == Loss.SQUARED_HINGE:
        return squared_hinge
    largest = derivative_step(job, steps)
    if largest >= MAX_DERIVATIVE_STEP:
        raise Overflowed(Overflow.UPDATE)

    def hinge(dot, target, dither):
        if not active(dot, target):
            return 0
        update = round_floating(largest, STEP_FRACTION, dither, bits)
        return _checked(-update if target > 0 else update)

    def logistic(dot, target, dither):
        sign = 1 if target > 0 else -1
        argument = round_shift(-sign * dot, job.label_shift - SIGMOID_FRACTION)
        exact = largest * sigmoid(argument)
        return _checked(-sign * round_floating(exact, STEP_FRACTION + VALUE_FRACTION, dither, bits))

    def huber(dot, target, dither):
        if abs(dot - target) <= job.derivative_bound << job.label_shift:
            return least_squares(dot, target, dither)
        update = round_floating(largest, STEP_FRACTION, dither, bits)
        return _checked(update if dot > target else -update)

    return {Loss.HINGE: hinge, Loss.LOGISTIC: logistic, Loss.HUBER: huber}[job.loss]


def derivative(job: TrainingJob, dot: int, sign: int) -> int:
    """Derivative of a row's loss, in the units of its update.

    Parameters
    ----------
    job : TrainingJob
        At the planes of its rows; with the logistic loss or the squared hinge.
    dot : int
        z.
    sign : int
        y, +1 or -1.

    Returns
    -------
    int
        Of the logistic loss times 2^16; of the squared hinge times 2^label_shift.
    """
    if job.loss == Loss.LOGISTIC:
        return -sign * sigmoid(round_shift(-sign * dot, job.label_shift - SIGMOID_FRACTION))
    return -sign * max(0, (1 << job.label_shift) - sign * dot)


def derivative_label(job: TrainingJob, dot: int, sign: int) -> int:
    """The label that holds y and the derivative at a centre, with 16 fraction bits."""
    found = derivative(job, dot, sign)
    if job.loss != Loss.LOGISTIC:
        found = round_shift(found << 1, job.label_shift - DERIVATIVE_FRACTION + 1)
    return 2 * found + (sign > 0)


def _centred_rule(job, steps):
    """:func:`update_rule` of labels that are derivatives at a centre."""
    logistic = job.loss == Loss.LOGISTIC
    factor = derivative_step(job, steps) if logistic else steps.mantissa
    shift = STEP_FRACTION + VALUE_FRACTION if logistic else SHIFT_UNIT * steps.shift
    left = 0 if logistic else job.label_shift - DERIVATIVE_FRACTION
    if logistic and factor >= MAX_DERIVATIVE_STEP:
        raise Overflowed(Overflow.UPDATE)

    def centred(dot, label, dither):
        change = derivative(job, dot, 1 if label & 1 else -1) - (label >> 1 << left)
        return _checked(round_dithered(factor * change, shift, dither))

    return centred


def proximal_step(model: np.ndarray, threshold: int, limit: int) -> np.ndarray:
    """Soft threshold, then box: sign(X) min(max(|X| - threshold, 0), limit) for every word.

    Parameters
    ----------
    model : ndarray of int64
    threshold, limit : int
        At least 0.

    Returns
    -------
    ndarray of int64, same shape
    """
    return np.sign(model) * np.clip(np.abs(model) - threshold, 0, limit)


def correction(model: np.ndarray, coefficients: np.ndarray, steps: EpochSteps,
               constants: np.ndarray | None = None) -> np.ndarray:
    """Diagonal correction of every model word: round((x * coefficient + constant * 2**18) *
    mantissa / 2**shift).

    Parameters
    ----------
    model, coefficients : ndarray of int64, shape (n_features,)
        Weights and the job's coefficients.
    constants : ndarray of int, shape (n_features,), or None
        None for zeros.

    Returns
    -------
    ndarray of object (int), shape (n_features,)
        Exact integers: the products need up to 69 bits.
    """
    sums = model.astype(object) * coefficients.astype(object)
    if constants is not None:
        sums = sums + (constants.astype(object) << COEFFICIENT_WIDTH)
    return round_shift(sums * steps.correction_mantissa, SHIFT_UNIT * steps.correction_shift)
