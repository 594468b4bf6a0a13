"""Sequential mini-batch SGD in integers, row after row: the specification of the pipeline."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bitstep.golden import float32
from bitstep.golden.dither import dithers
from bitstep.golden.integer import IntegerEpoch
from bitstep.golden.levels import levels_of
from bitstep.golden.steps import Overflowed
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Overflow


@dataclass(frozen=True)
class EpochModel:
    """The model after an epoch, or why there is none.

    Attributes
    ----------
    model : ndarray of int32, shape (n_features,)
        Weights; meaningless if ``overflow`` is not 0.
    intercept : int
        The intercept's word.
    overflow : Overflow
        What left its range in this epoch; a run ends with the first such epoch.
    refetched_rows : int
        Rows of this epoch that were fetched again with 16 bits a value.
    """

    model: np.ndarray
    intercept: int
    overflow: Overflow = Overflow(0)  # noqa: RUF009 (an immutable flag)
    refetched_rows: int = 0


def train(job: TrainingJob) -> Iterator[EpochModel]:
    """Run a job; yield the model after each epoch.

    Row by row, with x the model that the row's batch sees (docs/number-formats.md)::

        z = q . x + level * intercept
        c = the update that the loss asks for, rounded by the row's dither
            (bitstep.golden.steps.update_rule)
        model <- model - c g,   intercept <- intercept - c level

    and, before a row whose number is a multiple of the correction period, the correction computed
    at the previous such row is added and the next one is computed; after the rows of a proximal
    period, and after the last one, every model word takes a proximal step. With ``model_bits`` x is
    the model rounded at random (:mod:`bitstep.golden.rounded_model`). Rows of row format
    ``float32`` follow :mod:`bitstep.golden.float32` instead, whose products are rounded. The run
    ends after an epoch in which a value leaves its range.

    Yields
    ------
    EpochModel
        One an epoch, in order; the last one may be overflowed.
    """
    model = job.model.astype(np.int64)
    intercept = int(job.intercept)
    for number, steps in enumerate(job.epochs):
        stored, then = job.rows[number % len(job.rows)], job.at(steps)
        if job.config.row_format == "float32":
            epoch = float32.FloatEpoch(job, steps, model, intercept)
            values = float32.decode(stored, job)
        else:
            values = levels_of(job, stored, steps.planes)
            epoch = IntegerEpoch(then, steps, model, intercept)
        rows = zip(*values, then.targets(0, job.n_rows).tolist(),
                   dithers(steps.key, job.n_rows).tolist(), strict=True)
        overflow = Overflow(0)
        try:
            epoch.run(rows)
        except Overflowed as overflowed:
            overflow = overflowed.kind
        model, intercept = epoch.model, epoch.intercept
        yield EpochModel(model.astype(np.int32), intercept, overflow, epoch.refetched_rows)
        if overflow:
            return


