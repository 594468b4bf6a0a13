"""Steps and periods of a job: from real numbers and wishes to what the registers hold."""

import math
from collections.abc import Callable

from bitstep.checks import is_integer
from bitstep.golden.rounding import round_shift
from bitstep.golden.steps import MAX_DERIVATIVE_STEP, STEP_FRACTION
from bitstep.pipeline.parts.widths import MANTISSA_WIDTH, MAX_SHIFT, SHIFT_UNIT
from bitstep.training.objective import Objective

MIN_MANTISSA = 64           # a smaller one would be rounded by more than 0.8 %
MIN_DERIVATIVE_STEP = 64    # least K, in its last bit: a smaller one is rounded by more than 0.8 %
MAX_GROWTH = 0.05           # largest relative change of a weight by one correction
PROXIMAL_ROWS = 256         # rows between proximal steps that are enough by themselves
PROXIMAL_STEPS = 8          # least proximal steps of an epoch, where there are as many batches
MAX_SHRINKING = 0.25        # largest threshold, in units of the largest label
_HUGE = 2.0 ** 100          # of which no mantissa can be
_TINY = 2.0 ** -1000        # with less, digits of quotients are lost


class ShortStepError(ValueError):
    """A step is too small to be represented.

    Attributes
    ----------
    step : float
    least : float
        The least step that is not; infinite if it cannot be told.
    """

    def __init__(self, message: str, step: float, least: float):
        super().__init__(message)
        self.step, self.least = step, least


def blame_penalty(error: ShortStepError, objective: Objective, most: float) -> ValueError:
    """The error for a step that is too small; where that is so because of ``l2``, which nobody
    would see from the step, one that says so.

    Parameters
    ----------
    error : ShortStepError
    objective : Objective
    most : float
        Largest step that its ridge penalty allows in the same epoch; infinite without one.
    """
    told = error.least < math.inf
    if most >= error.least or (not told and error.step < 0.99 * most):
        return error
    limit = f"at most {objective.l2 * most / error.least:.2g}" if told else "smaller"
    return ValueError(f"l2 must be {limit} for these rows and epochs, not {objective.l2:g}: it "
                      "asks for steps that are too small for the step registers")


def step_mantissa(scale: float, step: float) -> tuple[int, int]:
    """Mantissa and shift nearest to ``scale``, with the most significant bits that fit.

    Raises
    ------
    ValueError
        If ``scale`` is too large or too small to be represented; the message names ``step``.
    """
    if not scale < _HUGE:
        raise ValueError(f"A step of {step:.6g} is too large for the step registers; choose a "
                         "smaller one")
    if scale < _TINY:
        raise ShortStepError(f"A step of {step:.6g} is too small for the step registers; choose a "
                             "larger one", step, math.inf)
    mantissa, shift = widest_mantissa(scale)
    limit = 1 << MANTISSA_WIDTH
    if mantissa >= limit:
        largest = step * (limit - 1) / mantissa
        raise ValueError(f"A step of {step:.6g} is too large for the step registers; choose one "
                         f"of at most {largest:.6g}")
    if mantissa < MIN_MANTISSA:
        smallest = step / scale * MIN_MANTISSA * 2.0 ** -(SHIFT_UNIT * MAX_SHIFT)
        raise ShortStepError(f"A step of {step:.6g} is too small for the step registers; choose "
                             f"one of at least {smallest:.6g}, or a smaller batch", step,
                             smallest)
    return mantissa, shift


def correction_mantissa(factor: float) -> tuple[int, int]:
    """Like a step's; one too small to be represented changes no model word, so it may be 0.

    Raises
    ------
    ValueError
        If ``factor`` is too large.
    """
    mantissa, shift = widest_mantissa(min(factor, _HUGE))
    if mantissa >= 1 << MANTISSA_WIDTH:
        raise ValueError("The diagonal correction is too large to be represented; choose a smaller "
                         "step or l2")
    return mantissa, shift


def checked_derivative_step(mantissa: int, exponent: int, label_shift: int, step: float) -> int:
    """K, the update of a derivative of 1, with 16 fraction bits
    (:func:`bitstep.golden.steps.derivative_step`).

    Parameters
    ----------
    mantissa, exponent : int
        Step of the updates, as the hardware takes it: mantissa 2^(-8 exponent).
    label_shift : int
        Shift from a stored label to the units of a dot product.
    step : float
        The step that a user asked for, for the message.

    Raises
    ------
    ValueError
        If it is too large for an update or too coarse; the message names ``step``.
    """
    rounded = round_shift(mantissa << label_shift + STEP_FRACTION, SHIFT_UNIT * exponent)
    if rounded >= MAX_DERIVATIVE_STEP:
        raise ValueError(f"A step of {step:.6g} is too large for the model's range; choose one of "
                         f"less than {step * MAX_DERIVATIVE_STEP / rounded:.6g}, or a larger "
                         "model_range")
    if rounded < MIN_DERIVATIVE_STEP:
        exact = mantissa * 2.0 ** (label_shift + STEP_FRACTION - SHIFT_UNIT * exponent)
        least = step * MIN_DERIVATIVE_STEP / exact
        raise ShortStepError(f"A step of {step:.6g} is too small for the model's range; choose one "
                             f"of at least {least:.6g}, a smaller batch or a smaller model_range",
                             step, least)
    return rounded


def automatic_period(n_rows: int, batch: int, growth: float, above: int = 0) -> int:
    """Rows between diagonal corrections.

    The largest ``batch * 2**n`` for which one correction changes a weight by at most 5 % (it
    acts one period late, so it must stay a small change) and an epoch has at least 16
    corrections (fewer would act on too few of its rows). Never less than ``batch``, and more
    than ``above``.

    Parameters
    ----------
    growth : float
        Relative change of a weight by the correction of one batch: largest step times largest
        ``|D_j - l2|``.
    above : int
        Look-ahead that the period must be more than.
    """
    period = least_period(batch, above)
    while 2 * period <= n_rows / 16 and 2 * period / batch * growth <= MAX_GROWTH:
        period *= 2
    return period


def least_period(batch: int, above: int) -> int:
    """The least of :func:`automatic_period`: the least ``batch * 2**n`` that is more than
    ``above``.
    """
    period = batch
    while period <= above:
        period *= 2
    return period


def automatic_proximal_period(n_rows: int, batch: int, shrinking: float = 0.0) -> int:
    """Rows between proximal steps.

    The pipeline applies every update before a proximal step and starts anew after it, so steps
    should be rare; but what they cut off between two of them comes back, and meanwhile the
    intercept follows a model that they are about to remove. So the period is the least ``batch *
    2**n`` of at least 256 rows, or, if that is shorter, the largest with which an epoch has at
    least 8 steps and no threshold is more than a quarter of the largest label. Never less than
    ``batch``.

    Parameters
    ----------
    shrinking : float
        What one batch adds to a threshold, in units of the largest label: largest step times l1.
    """
    period = batch
    while (period < PROXIMAL_ROWS and 2 * period * PROXIMAL_STEPS <= n_rows
           and 2 * period / batch * shrinking <= MAX_SHRINKING):
        period *= 2
    return period


def correction_period(asked: int | str, n_rows: int, batch: int, growth: float,
                      above: int) -> int:
    """Rows between diagonal corrections: what was asked for, or :func:`automatic_period`.

    Parameters
    ----------
    asked : int, "auto" or "within"
        What a user asked for.
    n_rows, batch : int
        Rows of an epoch and of a batch.
    growth : float
        See :func:`automatic_period`.
    above : int
        Rows that the period must exceed: the look-ahead of floating-point rows, else 0.

    Raises
    ------
    ValueError
        If there is no such period, or the one asked for is not possible.
    """
    if n_rows <= batch:
        raise ValueError(f"The batch must be less than the rows ({n_rows}) where L2 or the "
                         f"encoding needs diagonal corrections, which are made between batches; "
                         f"not {batch}")
    if asked in ("auto", "within"):
        period = automatic_period(n_rows, batch, growth, above)
        if period >= n_rows:
            raise ValueError(f"The rows must be more than {period} for L2 with floating-point rows "
                             f"and this pipeline's look-ahead of {above}, not {n_rows}; choose a "
                             "smaller lookahead")
        return period
    if not is_integer(asked, batch) or asked % batch or not above < asked < n_rows:
        more = f", more than the look-ahead ({above})" if above else ""
        raise ValueError(f"correction_period must be 'auto' or a multiple of the batch ({batch}) "
                         f"below the rows ({n_rows}){more}, not {asked!r}")
    return int(asked)


def widest_mantissa(scale: float, whole: Callable[[float], int] = round) -> tuple[int, int]:
    """Largest shift at which the mantissa fits, and that mantissa (or shift 1's); ``whole`` makes
    an integer of it.
    """
    for shift in range(MAX_SHIFT, 0, -1):
        mantissa = whole(scale * 2.0 ** (SHIFT_UNIT * shift))
        if mantissa < 1 << MANTISSA_WIDTH or shift == 1:
            return mantissa, shift
    raise AssertionError("MAX_SHIFT must be at least 1")
