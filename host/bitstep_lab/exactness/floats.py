"""SGD and SVRG of least squares in float64, on scaled rows; importing this needs numba.

Their rows count as 32 bits a value.
"""

import numpy as np
from numba import njit

STEPS = (1.0, 0.5, 0.25, 0.1, 0.05)     # over R, the mean squared norm of a row
INNER = (1, 2, 4)                       # passes of SVRG for each gradient of all rows


@njit(nogil=True)
def _sgd_pass(design, targets, model, step):
    for row in range(design.shape[0]):
        residual = np.dot(design[row], model) - targets[row]
        model -= step * residual * design[row]


@njit(nogil=True)
def _svrg_pass(design, centre, gradient, model, step):
    for row in range(design.shape[0]):
        change = np.dot(design[row], model - centre)
        model -= step * (change * design[row] + gradient)


def sgd(design: np.ndarray, targets: np.ndarray, step: float, *, decay: bool,
        epochs: int) -> np.ndarray:
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
            _sgd_pass(design, np.ascontiguousarray(labels), model,
                      step / (epoch + 1) if decay else step)
            models[epoch, number] = model
    return models


def svrg(design: np.ndarray, targets: np.ndarray, step: float, *, inner: int,
         epochs: int) -> np.ndarray:
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
    for number, labels in enumerate(targets.T):
        centre = np.zeros(design.shape[1])
        for outer in range(len(models)):
            with np.errstate(over="ignore", invalid="ignore"):
                gradient = design.T @ (design @ centre - labels) / len(design)
            model = centre.copy()
            for _ in range(inner):
                _svrg_pass(design, centre, gradient, model, step)
            centre = model
            models[outer, number] = model
    return models
