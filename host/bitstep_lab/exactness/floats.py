"""SGD, SVRG and SAGA in float64, on scaled rows; importing this needs numba.

Their rows count as 32 bits a value.
"""

import math

import numpy as np
from numba import njit

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss

STEPS = (1.0, 0.5, 0.25, 0.1, 0.05)     # over the curvature times the mean squared norm of a row
CLASS_STEPS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1)      # the same of the losses of classes
INNER = (1, 2, 4)                       # passes of SVRG for each gradient of all rows

_LEAST_SQUARES, _SQUARED_HINGE = int(Loss.LEAST_SQUARES), int(Loss.SQUARED_HINGE)


@njit(nogil=True)
def _slope(loss, value, target):
    """Derivative of least squares, squared hinge or logistic loss."""
    if loss == _LEAST_SQUARES:
        return value - target
    if loss == _SQUARED_HINGE:
        return value - target if value * target < 1 else 0.0
    return -target / (1 + math.exp(min(value * target, 700.0)))


@njit(nogil=True)
def _sgd_pass(loss, design, targets, model, step, ridge):
    for row in range(design.shape[0]):
        slope = _slope(loss, np.dot(design[row], model), targets[row])
        model -= step * (slope * design[row] + ridge * model)


@njit(nogil=True)
def _svrg_pass(loss, design, targets, centre, gradient, model, step, ridge):
    for row in range(design.shape[0]):
        change = _slope(loss, np.dot(design[row], model), targets[row]) \
            - _slope(loss, np.dot(design[row], centre), targets[row])
        model -= step * (change * design[row] + ridge * (model - centre) + gradient)


@njit(nogil=True)
def _saga_pass(loss, design, targets, order, slopes, mean, model, step, ridge):
    for row in order:
        slope = _slope(loss, np.dot(design[row], model), targets[row])
        change = slope - slopes[row]
        model -= step * (change * design[row] + mean + ridge * model)
        mean += change / design.shape[0] * design[row]
        slopes[row] = slope


def _ridge(design: np.ndarray, l2: float) -> np.ndarray:
    """Penalty of every weight: none of the intercept."""
    return np.append(np.full(design.shape[1] - 1, l2), 0.0)


def sgd(design: np.ndarray, targets: np.ndarray, step: float, *, decay: bool, epochs: int,
        loss: Loss = Loss.LEAST_SQUARES, l2: float = 0.0) -> np.ndarray:
    """Models after every epoch, with step ``step``, or ``step / epoch``.

    Parameters
    ----------
    design : ndarray of float64, shape (n_rows, n_features + 1)
    targets : ndarray of float64, shape (n_rows, n_outputs)

    Returns
    -------
    ndarray of float64, shape (epochs, n_outputs, n_features + 1)
    """
    models = np.zeros((epochs, targets.shape[1], design.shape[1]))
    for number, labels in enumerate(targets.T):
        model = np.zeros(design.shape[1])
        for epoch in range(epochs):
            _sgd_pass(int(loss), design, np.ascontiguousarray(labels), model,
                      step / (epoch + 1) if decay else step, _ridge(design, l2))
            models[epoch, number] = model
    return models


def svrg(design: np.ndarray, targets: np.ndarray, step: float, *, inner: int, epochs: int,
         loss: Loss = Loss.LEAST_SQUARES, l2: float = 0.0) -> np.ndarray:
    """Models after every outer step (Johnson and Zhang, NIPS 2013, the last inner model is kept).

    An outer step reads all rows ``1 + inner`` times.

    Parameters
    ----------
    design, targets
        See :func:`sgd`.
    inner : int
        Passes for each gradient of all rows.
    epochs : int
        Passes over the rows; the last outer step is left out if it does not fit.

    Returns
    -------
    ndarray of float64, shape (epochs // (1 + inner), n_outputs, n_features + 1)
    """
    models = np.zeros((epochs // (1 + inner), targets.shape[1], design.shape[1]))
    ridge = _ridge(design, l2)
    for number, labels in enumerate(targets.T):
        labels = np.ascontiguousarray(labels)
        centre = np.zeros(design.shape[1])
        for outer in range(len(models)):
            with np.errstate(over="ignore", invalid="ignore"):
                slopes = LOSSES[loss].derivative(design @ centre, labels)
                gradient = design.T @ slopes / len(design) + ridge * centre
            model = centre.copy()
            for _ in range(inner):
                _svrg_pass(int(loss), design, labels, centre, gradient, model, step, ridge)
            centre = model
            models[outer, number] = model
    return models


def saga(design: np.ndarray, targets: np.ndarray, step: float, *, epochs: int,
         loss: Loss = Loss.LEAST_SQUARES, l2: float = 0.0) -> np.ndarray:
    """Models after every epoch (Defazio, Bach and Lacoste-Julien, NIPS 2014), rows drawn anew in
    each; parameters and result as of :func:`sgd`.
    """
    models = np.zeros((epochs, targets.shape[1], design.shape[1]))
    for number, labels in enumerate(targets.T):
        labels = np.ascontiguousarray(labels)
        model, rng = np.zeros(design.shape[1]), np.random.default_rng(0)
        slopes = LOSSES[loss].derivative(design @ model, labels)
        mean = design.T @ slopes / len(design)
        for epoch in range(epochs):
            _saga_pass(int(loss), design, labels, rng.permutation(len(design)), slopes, mean,
                       model, step, _ridge(design, l2))
            models[epoch, number] = model
    return models
