"""Mini-batch SGD in float64: the reference of races, reports and experiments."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from bitstep.pipeline.losses import LossFunction, formula_of
from bitstep.pipeline.registers import Loss

Derivative = Callable[[np.ndarray, np.ndarray], np.ndarray]
Gradient = Callable[[slice, np.ndarray], np.ndarray]
Projection = Callable[[slice, np.ndarray, np.ndarray], None]


def descend(models: np.ndarray, steps: np.ndarray, *, n_rows: int, batch: int, gradient: Gradient,
            project: Projection | None = None) -> Iterator[np.ndarray]:
    """Take a step against the gradient for each batch of rows, in the order of the rows.

    Parameters
    ----------
    models : ndarray of float64
        One or more models, of any shape; changed in place.
    steps : ndarray of float64, shape (epochs, ...)
        Factors of the gradient, one entry for each epoch; an entry has a shape that broadcasts
        with ``models``.
    n_rows, batch : int
        Rows of an epoch and of a batch; the last batch of an epoch may be shorter.
    gradient : callable
        ``gradient(part, models)`` returns the gradient of the rows in the slice ``part``, in the
        shape of ``models``.
    project : callable, optional
        ``project(part, models, step)`` changes ``models`` in place after each step.

    Yields
    ------
    ndarray of float64
        A copy of the models after each epoch.
    """
    for step in steps:
        for start in range(0, n_rows, batch):
            part = slice(start, min(start + batch, n_rows))
            models -= step * gradient(part, models)
            if project is not None:
                project(part, models, step)
        yield models.copy()


def sgd(rows: np.ndarray, targets: np.ndarray, steps: np.ndarray, *,
        loss: Loss | LossFunction | Derivative, batch: int = 1, l2: float = 0.0, l1: float = 0.0,
        box: float = np.inf, period: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Train linear models with intercept from zero, for several schedules at once.

    This is the algorithm of the pipelines (docs/number-formats.md) without the rounding of models
    and updates. The ridge penalty acts in every batch; pipelines collect it over some rows.

    Parameters
    ----------
    rows : ndarray of float, shape (n_rows, n_features)
        Scaled features, or the levels of their codes.
    targets : ndarray of float64, shape (n_rows, n_outputs)
    steps : ndarray of float64, shape (epochs, n_schedules)
        A column for each schedule.
    loss : Loss, LossFunction or callable
        A loss, the Huber loss with its bound, or ``derivative(values, targets)`` in its place: the
        derivative by each value that a model gives.
    batch : int
        Rows of a batch. A shorter last batch is divided by ``batch`` all the same.
    l2 : float
        Penalty l2/2 |x|^2 on the weights of an output.
    l1, box : float
        Penalty l1 |x|_1 and largest size of a weight, which count only with a ``period``.
    period : int
        Rows between proximal steps, a multiple of ``batch``; 0 for none. One more follows an
        epoch's last row, and all of an epoch add up to its rows.

    Returns
    -------
    weights : ndarray of float64, shape (epochs, n_schedules, n_outputs, n_features)
    intercepts : ndarray of float64, shape (epochs, n_schedules, n_outputs)
        Not finite where SGD diverged.
    """
    n_rows, n_features = rows.shape
    slopes_of = formula_of(loss).derivative if isinstance(loss, Loss | LossFunction) else loss

    def gradient(part, models):
        values = np.asarray(rows[part], np.float64)
        weights = models[..., :-1]
        outputs = weights @ values.T + models[..., -1:]
        slopes = slopes_of(outputs, targets[part].T) / batch
        changes = np.empty_like(models)
        changes[..., :-1] = slopes @ values
        changes[..., -1] = slopes.sum(axis=-1)
        if l2:
            changes[..., :-1] += len(values) / batch * l2 * weights
        return changes

    project = partial(_proximal_step, n_rows, period, l1 / batch, box) if period else None
    start = np.zeros((steps.shape[1], targets.shape[1], n_features + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        models = np.array(list(descend(start, steps[..., None, None], n_rows=n_rows, batch=batch,
                                       gradient=gradient, project=project)))
    return models[..., :-1], models[..., -1]


def _proximal_step(n_rows, period, l1, box, part, models, step):
    """Shrink and clip the weights if a period or an epoch ends with this batch."""
    if part.stop % period == 0 or part.stop == n_rows:
        threshold = l1 * step * n_rows / -(-n_rows // period)
        weights = models[..., :-1]
        models[..., :-1] = np.sign(weights) * np.clip(np.abs(weights) - threshold, 0, box)
