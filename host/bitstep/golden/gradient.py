"""The gradient of all rows at one model: the full pass of bit-centred training.

The model does not change during the pass, so a row's update c is its derivative alone, times the
scale of the epoch's mantissa, and the sum over the rows is the gradient::

    z = q . x + level * intercept
    c = the update of bitstep.golden.steps.update_rule
    gradient <- gradient + c q,   intercept's gradient <- it + c level

Sums have 64 bits: in 32, c would have to be so small for the sum of many rows to fit that its
rounding would hide the gradient near the optimum. The run saturates if the sum of all |c| times
the largest level could leave them.
"""

import numpy as np

from bitstep.golden.dither import dithers
from bitstep.golden.levels import levels_of
from bitstep.golden.steps import Saturated, update_rule
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Saturation
from bitstep.pipeline.results import GradientSum

SUM_WIDTH = 64              # bits of a word of the gradient, signed


def gradient(job: TrainingJob) -> GradientSum:
    """Sum the updates of all rows, without making them.

    Parameters
    ----------
    job : TrainingJob
        Of woven rows and one epoch; its model, planes, mantissa, shift and key are used.

    Returns
    -------
    GradientSum
    """
    steps = job.epochs[0]
    then = job.at(steps)
    update_of, level = update_rule(then, steps), then.intercept_level
    levels, _ = levels_of(job, job.rows[0], steps.planes)
    # As Python integers: a dot product of many features may have 64 bits and more.
    offset, words = level * int(job.intercept), job.model.astype(np.int64)
    updates = []
    try:
        for row, target, dither in zip(levels, then.targets(0, job.n_rows).tolist(),
                                       dithers(steps.key, job.n_rows).tolist(), strict=True):
            updates.append(update_of(int(row.dot(words)) + offset, target, dither))
    except Saturated as saturated:
        return GradientSum(np.zeros_like(words), 0, saturated.kind)
    if sum(map(abs, updates)) << steps.planes >= 1 << SUM_WIDTH - 1:
        return GradientSum(np.zeros_like(words), 0, Saturation.UPDATE)
    return GradientSum(np.array(updates, np.int64) @ levels, sum(updates) * level)
