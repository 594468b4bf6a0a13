"""Optima in float64, against which races are measured."""

import numpy as np

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss

PACKED_COLUMNS = 1024        # that least squares of any rank are solved for by singular values
SMOOTHING = (1e-1, 1e-2, 1e-3)      # of the hinge's corner, while its optimum is looked for


def optimum(features: np.ndarray, targets: np.ndarray, *, loss: Loss, l2: float) -> float:
    """Least mean of loss and penalty that a linear model with intercept has.

    Least squares are solved by their normal equations; the squared hinge and the logistic loss
    by L-BFGS; the hinge by L-BFGS with its corner smoothed ever less, so that the result is
    above the true optimum by at most 5e-4, half of the last smoothing.

    Parameters
    ----------
    features : ndarray of float, shape (n_rows, n_features)
        Scaled features, in which the penalty counts.
    targets : ndarray of float64, shape (n_rows, n_outputs)
    loss : Loss
    l2 : float
        Penalty l2/2 |x|^2 on the weights of an output.

    Returns
    -------
    float
        The mean over the outputs.
    """
    if LOSSES[loss].quadratic:
        return _least_squares(features, targets, l2)
    from scipy.optimize import minimize
    values = []
    rows = np.ascontiguousarray(features, np.float64)
    for target in targets.T:
        start = np.zeros(rows.shape[1] + 1)
        for smoothing in SMOOTHING if LOSSES[loss].one_sided else (0.0,):
            found = minimize(_objective, start, args=(rows, target, loss, l2, smoothing), jac=True,
                             method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10_000,
                                                         "maxcor": 30, "ftol": 1e-12,
                                                         "gtol": 1e-9})
            start = found.x
        value = float(_objective(start, rows, target, loss, l2, 0.0)[0])
        values.append(value)
    return float(np.mean(values))


def _least_squares(features, targets, l2):
    rows = np.asarray(features, np.float64)
    centre = rows.mean(axis=0)
    rows = rows - centre
    goal = targets - targets.mean(axis=0)
    gram = rows.T @ rows / len(rows) + l2 * np.eye(rows.shape[1])
    pull = rows.T @ goal / len(rows)
    if len(gram) <= PACKED_COLUMNS:
        weights = np.linalg.lstsq(gram, pull, rcond=1e-13)[0]
    else:       # a hundred times faster; what it adds to the penalty does not show in the loss
        weights = np.linalg.solve(gram + 1e-12 * np.trace(gram) * np.eye(len(gram)), pull)
    residuals = rows @ weights - goal
    return float((residuals ** 2).mean() / 2 + l2 / 2 * (weights ** 2).sum(axis=0).mean())


def _objective(model, rows, target, loss, l2, smoothing):
    """Value and gradient; ``smoothing`` rounds the hinge's corner off."""
    weights, intercept = model[:-1], model[-1]
    outputs = rows @ weights + intercept
    if smoothing:       # quadratic within this distance of the corner
        short = np.maximum(1 - target * outputs, 0)
        value = np.where(short < smoothing, short ** 2 / (2 * smoothing), short - smoothing / 2)
        slope = -np.minimum(short / smoothing, 1) * target
    else:
        value = LOSSES[loss].value(outputs, target)
        slope = LOSSES[loss].derivative(outputs, target)
    pull = slope / len(rows)
    gradient = np.append(rows.T @ pull + l2 * weights, pull.sum())
    return value.mean() + l2 / 2 * weights @ weights, gradient
