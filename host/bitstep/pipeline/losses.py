"""The losses that a pipeline minimises: formulas, and what each asks of hardware and training.

z is the output of a model for a row and y its target: any number for least squares, +1 or -1 for
the other losses.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bitstep.pipeline.parts.widths import SIGMOID_FRACTION
from bitstep.pipeline.registers import LabelFormat, Loss

Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]
MAX_EXPONENT = 700.0        # of a number that is finite in 64 bits
DERIVATIVE_FRACTION = 16    # fraction bits of a derivative that is a label
_CHECKED_ROWS = 1 << 16     # labels that are checked at a time: 0.5 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class LossFunction:
    """A loss.

    Attributes
    ----------
    name : str
        Its name in reports and estimators, and in scikit-learn's SGD estimators, whose
        ``squared_hinge`` is twice ours: it lacks the factor 1/2.
    text : str
        Mean over the K rows as a formula.
    value, derivative : callable
        Loss of every output z with target y, and its derivative by z; arrays of equal shape.
    second : callable
        Its second derivative, for solver ``bit-centred``.
    constant : callable
        Least mean loss that a constant z can have, from mean and variance of the targets; of the
        Huber loss that of least squares, which is no less; of a joint loss the output's part of it
        (:meth:`baseline`).
    loss_family : str
        Solver of the pipelines that minimise it.
    quadratic : bool
        True if its derivative is linear in z, so that corrections can free the gradient from the
        noise of codes (docs/number-formats.md).
    joint : bool
        True if it is one of all outputs of a row together, on the last axis of the arrays; each
        output then counts as having the row's loss, so that means over rows and outputs hold.
    signs : bool
        True if targets must be +1 and -1.
    one_sided : bool
        True if its derivative depends on nothing but the side of a bound that z is on, so that
        refetching decides it.
    bounded : bool
        True if its derivative is at most 1 in magnitude.
    curvature : float
        Lipschitz constant of its derivative; infinite where that jumps.
    clipped : bool
        True if its derivative is that of least squares, clipped at a bound that a training chooses
        (:meth:`within`).
    least_label_shift : int
        Least LABEL_SHIFT of its solver.
    max_derivative : float
        Largest mean derivative of a batch that the automatic range of a model has room for, in
        units of the largest label. A bounded derivative is at most 1; the other half is for its
        rounding.
    model_range : float
        Largest automatic range of a model, in the same units.
    step_fraction, batch_growth, noise_weight, max_step : float
        Of the automatic step, see :func:`bitstep.training.schedules.automatic_step`: its fraction
        of 1 / R, how much longer the batch may make it, how much quantization noise shortens it,
        and its largest value.
    """

    name: str
    text: str
    value: Rule
    derivative: Rule
    constant: Callable[[float, float], float]
    loss_family: str = "linear"
    quadratic: bool = False
    joint: bool = False
    signs: bool = True
    one_sided: bool = False
    bounded: bool = False
    curvature: float = 1.0
    second: Rule | None = None
    clipped: bool = False
    least_label_shift: int = 0
    max_derivative: float
    model_range: float
    step_fraction: float
    batch_growth: float
    noise_weight: float = 0.0
    max_step: float = math.inf

    def baseline(self, moments: Iterable[tuple[float, float]]) -> float:
        """Least mean loss, over rows and outputs, of constant outputs, from mean and variance of
        the targets of each.
        """
        found = [self.constant(*one) for one in moments]
        return sum(found) / (1 if self.joint else len(found))

    def within(self, bound: np.ndarray | float) -> "LossFunction":
        """The loss whose derivative is clipped; one whose derivative never is stays as it is.

        Parameters
        ----------
        bound : float or ndarray of float64, shape (n_outputs,)
            Largest derivative of every output, in the units of its targets.
        """
        if not self.clipped:
            return self
        return replace(self, value=partial(_huber, bound=bound), derivative=partial(
            _clipped_residual, bound=bound))


def _squared_error(values, targets):
    residuals = values - targets
    residuals *= residuals
    residuals /= 2
    return residuals


def _hinge(values, targets):
    short = values * targets
    np.subtract(1, short, out=short)
    return np.maximum(short, 0, out=short)


def _squared_hinge(values, targets):
    short = _hinge(values, targets)
    return short * short / 2


def _log_loss(values, targets):
    margins = values * targets
    # np.logaddexp(0, -margins) takes three times as long. No overflow, however wrong a row is.
    losses = np.exp(-np.abs(margins))
    np.log1p(losses, out=losses)
    return losses - np.minimum(margins, 0)


def _log_derivative(values, targets):
    return -targets / (1 + np.exp(np.minimum(values * targets, MAX_EXPONENT)))


def _log_second(values, targets):
    odds = np.exp(-np.abs(values * targets))
    return odds / np.square(1 + odds)


def _share_of_entropy(mean, variance):
    share = (1 + mean) / 2
    return -share * math.log(share) if share > 0 else 0.0


def _softmax_loss(values, targets):
    values = np.array(values, np.float64)
    values -= values.max(axis=-1, keepdims=True)
    own = np.where(np.broadcast_to(targets, values.shape) > 0, values, 0.0).sum(axis=-1)
    loss = np.log(np.exp(values).sum(axis=-1)) - own
    return np.broadcast_to(loss[..., None], values.shape)


def probabilities(values: np.ndarray) -> np.ndarray:
    """Softmax of output values over the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _softmax_derivative(values, targets):
    return probabilities(values) - (targets > 0)


def _huber(values, targets, bound):
    size = np.abs(values - targets)
    near = np.minimum(size, bound)
    return near * (size - near / 2)


def _clipped_residual(values, targets, bound):
    return np.clip(values - targets, -bound, bound)


def _unbound(values, targets):
    raise TypeError("the Huber loss has no formula without its bound: see LossFunction.within")


def _half_variance(mean, variance):
    return variance / 2


def _rarer_class(mean, variance):
    return 1 - abs(mean)


def _entropy(mean, variance):
    share = (1 + mean) / 2
    return -float(sum(part * np.log(part) for part in (share, 1 - share) if part > 0))


# Where a plane separates the classes, the logistic loss makes weights grow as long as it is
# trained: to 36 in 20 epochs on 8 normal features. So ranges are larger but for least squares.
_MARGIN_RANGE = 128.0
_BOUNDED_STEP = 16.0        # about what a weight can change at once

LOSSES = {
    Loss.LEAST_SQUARES: LossFunction(
        name="squared_error", text="1/(2K) sum of squared residuals", value=_squared_error,
        derivative=np.subtract, constant=_half_variance, quadratic=True, signs=False,
        max_derivative=4.0, model_range=32.0, step_fraction=0.2, batch_growth=4.0,
        noise_weight=12.0),
    Loss.SQUARED_HINGE: LossFunction(
        name="squared_hinge", text="1/(2K) sum of max(0, 1 - y f(x))^2", value=_squared_hinge,
        derivative=lambda values, targets: np.where(values * targets < 1, values - targets, 0.0),
        second=lambda values, targets: (values * targets < 1).astype(np.float64),
        constant=_half_variance,        # as of least squares: the best one is within [-1, 1]
        max_derivative=4.0, model_range=_MARGIN_RANGE, step_fraction=0.5, batch_growth=2.0),
    Loss.HINGE: LossFunction(
        name="hinge", text="1/K sum of max(0, 1 - y f(x))", value=_hinge,
        derivative=lambda values, targets: np.where(values * targets < 1, -targets, 0.0),
        constant=_rarer_class, one_sided=True, bounded=True, curvature=math.inf,
        max_derivative=2.0, model_range=_MARGIN_RANGE, step_fraction=2.0, batch_growth=4.0,
        max_step=_BOUNDED_STEP),
    Loss.LOGISTIC: LossFunction(
        name="log_loss", text="1/K sum of log(1 + exp(-y f(x)))", value=_log_loss,
        derivative=_log_derivative, constant=_entropy, loss_family="logistic", bounded=True,
        curvature=0.25, second=_log_second,
        # The sigmoid's argument is a dot product shifted right.
        least_label_shift=SIGMOID_FRACTION + 1, max_derivative=2.0, model_range=_MARGIN_RANGE,
        step_fraction=4.0, batch_growth=4.0, max_step=_BOUNDED_STEP),
    Loss.HUBER: LossFunction(
        name="huber", text="1/K sum of r^2/2 where |r| <= e, else e (|r| - e/2), of residuals r",
        value=_unbound, derivative=_unbound, constant=_half_variance, signs=False, clipped=True,
        max_derivative=4.0, model_range=32.0, step_fraction=1.0, batch_growth=2.0),
}


# The logistic loss of the classes of a multinomial model, whose jobs are those of LOGISTIC. The
# curvature of log sum exp is at most 1/2.
MULTINOMIAL = replace(
    LOSSES[Loss.LOGISTIC], text="1/K sum of -log p(y), p the softmax of the classes' f(x)",
    value=_softmax_loss, derivative=_softmax_derivative, constant=_share_of_entropy, joint=True,
    curvature=0.5, second=None)


def formula_of(loss: Loss | LossFunction) -> LossFunction:
    """The loss of a number; a loss with its bound is one already."""
    return LOSSES[loss] if isinstance(loss, Loss) else loss


def loss_named(name: str) -> LossFunction:
    """The loss of a name; KeyError if there is none."""
    return {loss.name: loss for loss in LOSSES.values()}[name]


def losses_of(loss_family: str) -> dict[Loss, LossFunction]:
    """The losses that pipelines of a family minimise, the usual one first."""
    return {loss: rule for loss, rule in LOSSES.items() if rule.loss_family == loss_family}


def solver_shift(loss_family: str) -> int:
    """Least label shift of a pipeline's solver, of labels that are no derivatives."""
    return max(rule.least_label_shift for rule in losses_of(loss_family).values())


def least_shift(job: Any) -> int:
    """Least label shift of the labels of a training job, with all planes."""
    return DERIVATIVE_FRACTION if has_derivatives(job) else LOSSES[job.loss].least_label_shift


def check_derivatives(job: Any) -> None:
    """Raise ValueError unless labels that are derivatives at a centre are such as the loss has.

    Parameters
    ----------
    job : bitstep.pipeline.job.TrainingJob
    """
    if not has_derivatives(job):
        return
    ends: list[int] = []
    for first in range(0, job.n_rows, _CHECKED_ROWS):
        labels = job.stored_labels(first, min(_CHECKED_ROWS, job.n_rows - first))
        down = -(labels & 1)                                # downhill for y = +1, uphill for -1
        sizes = ((labels >> 1) ^ down) - down
        ends += [int(sizes.min()), int(sizes.max())]
    limit = 1 << DERIVATIVE_FRACTION if LOSSES[job.loss].bounded else 1 << (
        job.config.rows.dot_width - 1 + DERIVATIVE_FRACTION - job.label_shift)
    if min(ends) < 0 or max(ends) > limit:
        raise ValueError(f"Derivatives of the loss {job.loss.name} must have the sign of -y and at "
                         f"most the size {limit}, not sizes from {min(ends)} to {max(ends)}")


def has_derivatives(job: Any) -> bool:
    """True if the labels of a training job are derivatives of its loss at a centre.

    Such a label is 2 d + (1 if y = +1 else 0), with d = l'(q.x, y) 2^16 at the centre x of
    bit-centred training. A row's update is then that of l'(q.x, y) - d 2^-16
    (:func:`bitstep.golden.steps.update_rule`). They are bit-plane rows of a smooth loss, with
    labels of format INT32.

    Parameters
    ----------
    job : bitstep.pipeline.job.TrainingJob
    """
    rule = LOSSES[job.loss]
    return job.config.rows.centred and job.label_format == LabelFormat.INT32 \
        and rule.signs and math.isfinite(rule.curvature)
