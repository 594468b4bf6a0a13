"""Weights of rows and classes as a user gives them; :mod:`bitstep.training.copies` makes rows of a
pass of them.
"""

from typing import Any

import numpy as np


def checked_weights(weights: Any, n_rows: int) -> np.ndarray | None:
    """Weights of rows as float64.

    Parameters
    ----------
    weights : array of numbers, shape (n_rows,), or None
        Finite and not negative, one of them above 0.
    n_rows : int

    Returns
    -------
    ndarray of float64, shape (n_rows,), or None

    Raises
    ------
    ValueError
        If they are anything else.
    """
    if weights is None:
        return None
    try:
        found = np.asarray(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers, one a row ({error})") from error
    if found.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},), one weight a row, not "
                         f"{found.shape}")
    good = np.isfinite(found) & (found >= 0)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError("sample_weight must hold finite numbers of at least 0, not "
                         f"{found[row]:g} (row {row}, counted from 0); a weight of 0 leaves a row "
                         "out")
    if not found.any():
        raise ValueError("sample_weight must hold at least one number above 0: all weights are "
                         "zero, which leaves no row to train on")
    return found


def class_factors(class_weight: Any, classes: np.ndarray, labels: np.ndarray,
                  weights: np.ndarray | None = None) -> np.ndarray | None:
    """Weight of each class.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        ``balanced``: all weight / (number of classes * weight of the class), so that every class
        has the same weight in a pass. A dictionary: weight by class; a class that it lacks has 1.
    classes : ndarray, shape (n_classes,)
    labels : ndarray, shape (n_rows,)
        Elements of ``classes``, where the weight is not 0.
    weights : ndarray of float64, shape (n_rows,), or None
        Of the rows; None: 1 each.

    Returns
    -------
    ndarray of float64, shape (n_classes,), or None
        None if no class has a weight of its own.

    Raises
    ------
    ValueError
        If it is neither, or names what is no class, or a weight is no finite number of at least 0.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        own = np.ones(len(labels)) if weights is None else weights
        of_class = np.array([own[labels == one].sum() for one in classes])
        return own.sum() / (len(classes) * of_class)
    if not isinstance(class_weight, dict):
        raise ValueError("class_weight must be None, 'balanced' or a dictionary of weights by "
                         f"class, not {class_weight!r}")
    known = classes.tolist()
    for label, weight in class_weight.items():
        if label not in known:
            raise ValueError(f"class_weight must hold classes of y only, {_some(known)}, not "
                             f"{label!r}")
        if not isinstance(weight, (int, float, np.number)) or isinstance(weight, bool) \
                or not (np.isfinite(weight) and weight >= 0):
            raise ValueError("class_weight must hold finite numbers of at least 0, not "
                             f"{weight!r} for class {label!r}")
    return np.array([float(class_weight.get(one, 1.0)) for one in known])


def row_weights(weights: np.ndarray | None, class_weight: Any, labels: np.ndarray,
                classes: np.ndarray | None = None) -> np.ndarray | None:
    """Weights of rows, multiplied by those of their classes.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,), or None
        Of :func:`checked_weights`.
    class_weight
        See :func:`class_factors`.
    labels : ndarray, shape (n_rows,)
    classes : ndarray or None
        All classes; None: those of the rows whose weight is above 0. Labels that are no class keep
        their weight.

    Returns
    -------
    ndarray of float64, shape (n_rows,), or None
        None if all are 1.

    Raises
    ------
    ValueError
        As :func:`class_factors`, and if no weight above 0 is left.
    """
    if class_weight is None:
        return weights
    known = np.unique(classes if classes is not None else
                      labels if weights is None else labels[weights > 0])
    factors = class_factors(class_weight, known, labels, weights)
    assert factors is not None
    at = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    found = np.where(known[at] == labels, factors[at], 1.0)
    with np.errstate(over="ignore"):
        found = found if weights is None else weights * found
    if not np.isfinite(found).all():
        raise ValueError("sample_weight times class_weight must fit 64-bit floating point; divide "
                         "one of them by a number")
    if not found.any():
        raise ValueError("class_weight must leave at least one row with a weight above zero, not "
                         f"{class_weight!r}")
    return found


def _some(values: list[Any]) -> str:
    """Values as a list for a message; the first five of many."""
    return ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
