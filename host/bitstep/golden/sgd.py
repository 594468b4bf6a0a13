"""Sequential mini-batch SGD in integers, row after row: the specification of the pipeline."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bitstep.config import MODEL_WIDTH, SHIFT_UNIT, UPDATE_WIDTH
from bitstep.golden.levels import decode, unpack_codes, unpack_labels
from bitstep.job import EpochSteps, TrainingJob
from bitstep.registers import Saturation


@dataclass(frozen=True)
class EpochModel:
    """The model after an epoch, or why there is none.

    Attributes
    ----------
    model : ndarray of int32, shape (n_features,)
        Model words; meaningless if ``saturation`` is not 0.
    intercept : int
        The intercept's word.
    saturation : Saturation
        What left its range in this epoch; a run ends with the first such epoch.
    """

    model: np.ndarray
    intercept: int
    saturation: Saturation = Saturation(0)  # noqa: RUF009 (an immutable flag)


def round_shift(value, shift: int):
    """``value / 2**shift`` rounded to nearest, ties towards plus infinity (``shift`` >= 1); of an
    integer or of an array of exact integers.
    """
    return (value + (1 << shift - 1)) >> shift


def fits(value, width: int) -> bool:
    """Whether an integer, or every integer of an array, fits ``width`` bits, signed."""
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    if isinstance(value, np.ndarray):
        return bool(value.size == 0 or (low <= value.min() and value.max() <= high))
    return low <= value <= high


def correction(model: np.ndarray, coefficients: np.ndarray, steps: EpochSteps) -> np.ndarray:
    """Diagonal correction of every model word: round(x * coefficient * mantissa / 2**shift).

    Parameters
    ----------
    model, coefficients : ndarray of int64, shape (n_features,)
        Model words and the job's coefficients.

    Returns
    -------
    ndarray of object (int), shape (n_features,)
        Exact integers: the products need up to 68 bits.
    """
    factors = coefficients.astype(object) * steps.correction_mantissa
    return round_shift(model.astype(object) * factors, SHIFT_UNIT * steps.correction_shift)


class _Saturated(Exception):
    def __init__(self, kind: Saturation):
        self.kind = kind


def train(job: TrainingJob) -> Iterator[EpochModel]:
    """Run a job; yield the model after each epoch.

    Row by row, with x the model that the row's batch sees (docs/number-formats.md)::

        z = q . x + level * intercept
        c = round(mantissa * (z - (L << label_shift)) / 2 ** (8 * shift))
        model <- model - c g,   intercept <- intercept - c level

    and, before a row whose number is a multiple of the correction period, the correction computed
    at the previous such row is added and the next one is computed. The run ends after an epoch in
    which a value leaves its range.

    Yields
    ------
    EpochModel
        One an epoch, in order; the last one may be saturated.
    """
    labels = unpack_labels(job.labels, job.label_format, job.n_rows) << job.label_shift
    model = job.model.astype(np.int64)
    intercept = int(job.intercept)
    for epoch, steps in enumerate(job.epochs):
        codes = unpack_codes(job.rows[epoch % len(job.rows)], job.config, job.n_features)
        dots, gradients = decode(codes, bits=job.config.bits, family=job.config.family)
        try:
            model, intercept = _epoch(job, steps, dots, gradients, labels.tolist(), model,
                                      intercept)
        except _Saturated as saturated:
            yield EpochModel(model.astype(np.int32), intercept, saturated.kind)
            return
        yield EpochModel(model.astype(np.int32), intercept)


def _epoch(job, steps, dots, gradients, labels, model, intercept):
    """Model and intercept after one pass over the rows."""
    level, period, batch = job.intercept_level, job.correction_period, job.batch
    coefficients = job.coefficients.astype(np.int64)
    shift = SHIFT_UNIT * steps.shift
    update_limit, model_limit = 1 << UPDATE_WIDTH - 1, 1 << MODEL_WIDTH - 1
    level_limit = job.config.level_limit
    model = model.copy()
    bound = model_limit         # no |model word| is larger; finding it anew each row is slow
    pending = None
    seen, seen_intercept = model, intercept
    for row, (dot_row, gradient_row, label) in enumerate(zip(dots, gradients, labels, strict=True)):
        if period and row % period == 0:
            if pending is not None:
                model += pending
                bound = _checked_bound(model)
            exact = correction(model, coefficients, steps)
            if row + period < len(labels):      # a correction that is never added cannot saturate
                if any(not fits(value, MODEL_WIDTH) for value in exact):
                    raise _Saturated(Saturation.CORRECTION)
                pending = exact.astype(np.int64)
        if row % batch == 0:
            seen, seen_intercept = (model.copy() if batch > 1 else model), intercept
        dot = int(dot_row.dot(seen)) + level * seen_intercept
        update = round_shift(steps.mantissa * (dot - label), shift)
        if not -update_limit <= update < update_limit:
            raise _Saturated(Saturation.UPDATE)
        if update:
            model -= update * gradient_row
            intercept -= update * level
            bound += abs(update) * level_limit
            if bound >= model_limit:
                bound = _checked_bound(model)
            if not -model_limit <= intercept < model_limit:
                raise _Saturated(Saturation.MODEL)
    return model, intercept


def _checked_bound(model):
    """Largest magnitude of the model words, which must fit their width."""
    if not fits(model, MODEL_WIDTH):
        raise _Saturated(Saturation.MODEL)
    return int(np.abs(model).max())
