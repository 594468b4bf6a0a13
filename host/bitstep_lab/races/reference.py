"""What races are measured against: optima in float64, and SGD in float64 to tune steps with."""

import numpy as np

from bitstep.pipeline.registers import Loss

DENSE_COLUMNS = 1024        # that least squares of any rank are solved for by singular values
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
    if loss == Loss.LEAST_SQUARES:
        return _least_squares(features, targets, l2)
    from scipy.optimize import minimize
    values = []
    rows = np.ascontiguousarray(features, np.float64)
    for target in targets.T:
        start = np.zeros(rows.shape[1] + 1)
        for smoothing in SMOOTHING if loss == Loss.HINGE else (0.0,):
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
    if len(gram) <= DENSE_COLUMNS:
        weights = np.linalg.lstsq(gram, pull, rcond=1e-13)[0]
    else:       # a hundred times faster; what it adds to the penalty does not show in the loss
        weights = np.linalg.solve(gram + 1e-12 * np.trace(gram) * np.eye(len(gram)), pull)
    residuals = rows @ weights - goal
    return float((residuals ** 2).mean() / 2 + l2 / 2 * (weights ** 2).sum(axis=0).mean())


def _objective(model, rows, target, loss, l2, smoothing):
    """Value and gradient; ``smoothing`` rounds the hinge's corner off."""
    weights, intercept = model[:-1], model[-1]
    margin = target * (rows @ weights + intercept)
    if loss == Loss.LOGISTIC:
        value, slope = np.logaddexp(0, -margin), -1 / (1 + np.exp(np.minimum(margin, 700)))
    elif loss == Loss.SQUARED_HINGE:
        short = np.maximum(1 - margin, 0)
        value, slope = short ** 2 / 2, -short
    else:
        short = np.maximum(1 - margin, 0)
        if smoothing:       # quadratic within this distance of the corner
            near = short < smoothing
            value = np.where(near, short ** 2 / (2 * smoothing), short - smoothing / 2)
            slope = -np.minimum(short / smoothing, 1)
        else:
            value, slope = short, -(short > 0).astype(float)
    pull = slope * target / len(rows)
    gradient = np.append(rows.T @ pull + l2 * weights, pull.sum())
    return value.mean() + l2 / 2 * weights @ weights, gradient


def sgd(dots: np.ndarray, gradients: np.ndarray, targets: np.ndarray, *, first_steps: np.ndarray,
        shares: np.ndarray, loss: Loss, batch: int = 1, l2: float = 0.0,
        variance: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Sequential mini-batch SGD in float64, for several first steps at once.

    What the pipelines do but for their rounding of models and updates, and for corrections that
    they collect over some rows.

    Parameters
    ----------
    dots, gradients : ndarray of float, shape (n_rows, n_features)
        What a row is in dot products and in updates; the same array but for family ``double``.
    targets : ndarray of float64, shape (n_rows, n_outputs)
    first_steps : ndarray of float64, shape (n_first,)
        Step of the first epoch of every candidate.
    shares : ndarray of float64, shape (epochs,)
        Steps of the epochs, as shares of the first.
    variance : ndarray of float64, shape (n_features,), optional
        Quantization variance that the corrections take out.

    Returns
    -------
    weights : ndarray of float64, shape (epochs, n_first, n_outputs, n_features)
    intercepts : ndarray of float64, shape (epochs, n_first, n_outputs)
        Not finite where a candidate diverged.
    """
    n_rows, n_features = dots.shape
    n_first, n_outputs = len(first_steps), targets.shape[1]
    growth = (0.0 if variance is None else variance) - l2
    corrected = bool(np.any(growth))
    model = np.zeros((n_first, n_outputs, n_features))
    intercept = np.zeros((n_first, n_outputs))
    models, intercepts = [], []
    same = gradients is dots
    with np.errstate(over="ignore", invalid="ignore"):
        for share in shares:
            steps = (share * first_steps)[:, None, None]
            for start in range(0, n_rows, batch):
                rows = np.asarray(dots[start:start + batch], np.float64)
                others = rows if same else gradients[start:start + batch]
                values = model.reshape(-1, n_features) @ rows.T
                values = values.reshape(n_first, n_outputs, -1) + intercept[..., None]
                slopes = _slopes(loss, values, targets[start:start + batch].T) * (steps / batch)
                if corrected:
                    model += steps * (len(rows) / batch) * growth * model
                model -= (slopes.reshape(-1, len(rows)) @ others).reshape(model.shape)
                intercept -= slopes.sum(axis=2)
            models.append(model.copy())
            intercepts.append(intercept.copy())
    return np.array(models), np.array(intercepts)


def _slopes(loss, values, targets):
    """Derivative of the loss of every output value."""
    if loss == Loss.LEAST_SQUARES:
        return values - targets
    margins = values * targets
    if loss == Loss.LOGISTIC:
        return -targets / (1 + np.exp(np.minimum(margins, 700)))
    if loss == Loss.HINGE:
        return np.where(margins < 1, -targets, 0.0)
    return np.where(margins < 1, values - targets, 0.0)
