"""Numbers and arrays of a job as the kernels take them."""

import numpy as np

from bitstep.devices.cpu import words
from bitstep.devices.cpu.arithmetic import LOW_MASK, PAIR_BITS, Rule
from bitstep.devices.cpu.derivatives import CENTRED
from bitstep.devices.cpu.rows import Arrays, Epoch
from bitstep.golden.steps import MAX_DERIVATIVE_STEP, derivative_step
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.losses import has_derivatives
from bitstep.pipeline.parts.widths import SHIFT_UNIT
from bitstep.pipeline.registers import Loss


def rule_of(job: TrainingJob, steps: EpochSteps) -> Rule | None:
    """Numbers of an epoch's updates; None if the step of a derivative of 1 does not fit."""
    step = derivative_step(job, steps)
    linear = job.loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE)
    if step >= MAX_DERIVATIVE_STEP and not linear and job.weights is None:
        return None
    loss = int(job.loss) + (CENTRED if has_derivatives(job) else 0)
    bound = (job.derivative_bound or 1) << job.label_shift
    # A row with a weight has a step of its own, which may fit where this one does not.
    step = 0 if linear else min(max(step, job.weighted), MAX_DERIVATIVE_STEP)
    return Rule(loss, steps.mantissa, SHIFT_UNIT * steps.shift, step,
                job.label_shift, job.update_bits, bound >> PAIR_BITS, bound & LOW_MASK)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that may not be written: one type for the compiler, mapped from a file or not."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def weights_of(job: TrainingJob) -> np.ndarray:
    """Weights of the rows of a job; of no rows if it has none."""
    return read_only(np.empty(0, np.uint16) if job.weights is None else job.weights)


def arrays_of(job: TrainingJob, levels: np.ndarray, gradient_levels: np.ndarray,
              lookup: np.ndarray, codebooks: np.ndarray) -> Arrays:
    """Arrays of a run that begins with the model of a job."""
    arrays = Arrays(
        **{name: np.zeros(levels.size, np.int32) for name in ("model", "seen", "pending")},
        **{name: np.zeros(levels.size, np.int64) for name in ("coefficients", "constants")},
        dot_levels=levels, gradient_levels=gradient_levels, lookup=lookup, codebooks=codebooks,
        state=np.zeros(words.STATE, np.int64), weights=weights_of(job))
    arrays.model[:job.n_features] = job.model
    arrays.coefficients[:job.n_features] = job.coefficients
    if job.constants is not None:
        arrays.constants[:job.n_features] = job.constants
    arrays.state[words.INTERCEPT] = job.intercept
    return arrays


def codebooks_of(job: TrainingJob) -> np.ndarray:
    """The tables of a job; of no features if it has none."""
    tables = np.empty((0, 1), np.int8) if job.codebooks is None else job.codebooks
    return read_only(np.ascontiguousarray(tables))


def epoch_numbers(job: TrainingJob, steps: EpochSteps, lookahead: int = 0) -> Epoch:
    """Numbers of an epoch, as the kernels take them."""
    # Levels of fewer planes are smaller.
    limit = job.config.rows.level_limit >> job.config.rows.planes - steps.planes
    margin = job.cell_half_levels * lookahead * job.n_features * job.config.rows.level_limit
    return Epoch(
        job.n_rows, job.intercept_level, job.batch, job.correction_period, job.proximal_period,
        steps.threshold, job.box_limit, job.cell_half_levels, steps.correction_mantissa,
        SHIFT_UNIT * steps.correction_shift, limit,
        job.config.rows.fine_fraction,
        margin, job.constant_intercept, job.model_bits, steps.key)
