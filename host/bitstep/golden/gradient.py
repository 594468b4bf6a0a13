"""The gradient of all rows at one model: the full pass of bit-centred training.

The model does not change during the pass, so a row's update c is its derivative alone, times the
scale of the epoch's mantissa, and the sum over the rows is the gradient::

    z = q . x + level * intercept
    c = the update of bitstep.golden.steps.update_rule; of the logistic loss with the finer sigmoid
        of bitstep.golden.sigmoid.fine_sigmoid
    gradient <- gradient + c q,   intercept's gradient <- it + c level

Sums have 64 bits: in 32, c would have to be so small for the sum of many rows to fit that its
rounding would hide the gradient near the optimum. The run overflows if the sum of all |c| reaches
2^47, so that times the largest level of 16 planes it could leave them.

The pass can also write the derivative of each row's loss at the first planes of its code, with
which the inner passes begin: their dot product is a part of that of all planes.
"""

from collections.abc import Callable

import numpy as np

from bitstep.golden.dither import dithers, round_dithered
from bitstep.golden.levels import levels_of
from bitstep.golden.rounding import fits, round_shift
from bitstep.golden.sigmoid import FINE_ARGUMENT, FINE_VALUE, fine_sigmoid
from bitstep.golden.steps import (
    MAX_DERIVATIVE_STEP,
    STEP_FRACTION,
    Overflowed,
    derivative_label,
    derivative_step,
    update_rule,
    update_rules,
)
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.pipeline.results import UPDATES_LIMIT, GradientSum


def gradient(job: TrainingJob, derivative_planes: int = 0,
             derivative_rows: int = 0) -> GradientSum:
    """Sum the updates of all rows, without making them.

    Parameters
    ----------
    job : TrainingJob
        Of bit-plane rows and one epoch; its model, planes, mantissa, shift and key are used.
    derivative_planes, derivative_rows : int
        See :meth:`bitstep.pipeline.device.Device.gradient`.

    Returns
    -------
    GradientSum
    """
    steps = job.epochs[0]
    then = job.at(steps)
    level = then.intercept_level
    words = job.model.astype(np.int64)
    failed = GradientSum(np.zeros_like(words), 0, Overflow.UPDATE)
    updates = []
    try:
        rule_of = update_rules(then, steps, _rule)
        for row, (dot, target, dither) in enumerate(zip(
                _dots(job, steps.planes), then.targets(0, job.n_rows).tolist(),
                dithers(steps.key, job.n_rows).tolist(), strict=True)):
            updates.append(rule_of(row)(dot, target, dither))
    except Overflowed:
        return failed
    if sum(map(abs, updates)) >= UPDATES_LIMIT:
        return failed
    derivatives = None
    if derivative_planes:
        at_planes = job.at(EpochSteps(0, 1, planes=derivative_planes))
        labels = [derivative_label(at_planes, dot, sign) for dot, sign in zip(
            _dots(job, derivative_planes), job.stored_labels(0, job.n_rows).tolist(), strict=True)]
        labels = labels[:derivative_rows or job.n_rows]
        if not all(fits(label, 32) for label in labels):
            return failed
        derivatives = pack_labels(np.array(labels), LabelFormat.INT32)
    levels, _ = levels_of(job, job.rows[0], steps.planes)
    return GradientSum(np.array(updates, np.int64) @ levels, sum(updates) * level,
                       derivatives=derivatives)


def _dots(job: TrainingJob, planes: int) -> list[int]:
    """Dot products of all rows, as Python integers: of many features they may have 64 bits."""
    levels, _ = levels_of(job, job.rows[0], planes)
    level = job.at(EpochSteps(0, 1, planes=planes)).intercept_level
    words, offset = job.model.astype(np.int64), level * int(job.intercept)
    return [int(row.dot(words)) + offset for row in levels]


def _rule(job: TrainingJob, steps: EpochSteps) -> Callable[[int, int, int], int]:
    """The function from dot product, target and dither to the update."""
    if job.loss != Loss.LOGISTIC:
        return update_rule(job, steps)
    largest = derivative_step(job, steps)
    if largest >= MAX_DERIVATIVE_STEP:
        raise Overflowed(Overflow.UPDATE)

    def logistic(dot: int, target: int, dither: int) -> int:
        sign = 1 if target > 0 else -1
        argument = round_shift(-sign * dot, job.label_shift - FINE_ARGUMENT)
        return -sign * round_dithered(largest * fine_sigmoid(argument),
                                      STEP_FRACTION + FINE_VALUE, dither)

    return logistic
