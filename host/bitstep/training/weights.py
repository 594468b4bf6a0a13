"""Weights of rows and classes as a user gives them; :mod:`bitstep.training.copies` makes rows of a
pass of them.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from bitstep.data.dataset import check_unmasked
from bitstep.training.weighing import exact_sum
from bitstep.writing import first_of

NO_WEIGHT = ("sample_weight must hold at least one number above 0: all weights are zero, which "
             "leaves no row to train on")


def checked_weights(weights: Any, n_rows: int, *, part: bool = False) -> np.ndarray | None:
    """Weights of rows as float64.

    Parameters
    ----------
    weights : array of numbers, shape (n_rows,), number or None
        Finite and not negative, one of them above 0. One number is the weight of every row.
    n_rows : int
    part : bool
        True if there are other rows, so that all may be 0.

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
    check_unmasked("sample_weight", weights)
    try:
        found = np.asarray(weights)
        if np.iscomplexobj(found):          # NumPy would leave out imaginary parts, and warn
            raise TypeError("some are complex")
        found = found.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers, one a row ({error})") from error
    if not found.ndim:
        found = np.full(n_rows, found)
    if found.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},), one weight a row, not "
                         f"{found.shape}")
    good = np.isfinite(found) & (found >= 0)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError("sample_weight must hold finite numbers of at least 0, not "
                         f"{found[row]:g} (row {row}, counted from 0); a weight of 0 leaves a row "
                         "out")
    if not part and not found.any():
        raise ValueError(NO_WEIGHT)
    return found


def class_sums(labels: np.ndarray, weights: np.ndarray | None,
               classes: np.ndarray) -> list[Fraction]:
    """Weight of all rows of each class, exactly; without weights their number."""
    return [Fraction(int((labels == one).sum())) if weights is None
            else exact_sum(weights[labels == one]) for one in classes]


def class_factors(class_weight: Any, classes: np.ndarray,
                  sums: Sequence[Fraction]) -> np.ndarray | None:
    """Weight of each class.

    Parameters
    ----------
    class_weight : None, "balanced" or dict
        ``balanced``: all weight / (number of classes * weight of the class), so that every class
        has the same weight in a pass. A dictionary: weight by class; a class that it lacks has 1.
        One that names every class may name others, too: rows of a fold may lack a rare class.
    classes : ndarray, shape (n_classes,)
    sums : sequence of Fraction
        Weight of the rows of each class (:func:`class_sums`).

    Returns
    -------
    ndarray of float64, shape (n_classes,), or None
        None if no class has a weight of its own.

    Raises
    ------
    ValueError
        If it is neither, or names what is no class but not every class, or a weight is no finite
        number of at least 0.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.array([float(sum(sums) / (len(classes) * one)) if one else 1.0 for one in sums])
    if not isinstance(class_weight, dict):
        raise ValueError("class_weight must be None, 'balanced' or a dictionary of weights by "
                         f"class, not {class_weight!r}")
    known = classes.tolist()
    whole = all(one in class_weight for one in known)
    for label, weight in class_weight.items():
        if label not in known and not whole:
            raise ValueError("class_weight must hold classes of y only, "
                             f"{first_of(known, 5, repr)}, not {label!r}")
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
        All classes; None: those of the rows whose weight is above 0, or, as a dictionary may name,
        of all rows. Labels that are no class keep their weight.

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
    rows = slice(None) if weights is None or isinstance(class_weight, dict) else weights > 0
    known = np.unique(labels[rows] if classes is None else classes)
    factors = class_factors(class_weight, known, class_sums(labels, weights, known))
    assert factors is not None
    found = products(weights, labels, known, factors)
    if not found.any():
        raise ValueError("class_weight must leave at least one row with a weight above zero, not "
                         f"{class_weight!r}")
    return found


def products(weights: np.ndarray | None, labels: np.ndarray, classes: np.ndarray,
             factors: np.ndarray) -> np.ndarray:
    """Weights of rows times those of their classes; parameters as of :func:`row_weights`.

    Parameters
    ----------
    factors : ndarray of float64, shape (n_classes,)
        Of :func:`class_factors`.

    Raises
    ------
    ValueError
        If a product is no finite number.
    """
    at = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    found = np.where(classes[at] == labels, factors[at], 1.0)
    with np.errstate(over="ignore"):
        found = found if weights is None else weights * found
    if not np.isfinite(found).all():
        raise ValueError("sample_weight times class_weight must fit 64-bit floating point; divide "
                         "one of them by a number")
    return found
