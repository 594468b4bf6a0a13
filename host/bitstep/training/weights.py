"""Weights of rows and classes, as rows that a pass reads several times or not at all.

A pipeline gives every row it reads the same step. A weight could scale the step only by a factor
that is stored with the row, which no row format has; to read a row several times needs nothing of
the hardware. So a row of weight w is read w times in a pass, and a training with whole weights has
the bits of one on the repeated rows, on every device. Of a weight that is not whole the rest is
drawn: the row is read floor(w) or ceil(w) times, w times on average.

The copies of a row are spread evenly over the pass: copy j of c copies of row i of n stands at
(i / n + j / c) modulo 1 of it. Copies that follow each other would pull the model to one row, many
times in turn: of 6,000 rows of two classes, 9 to 1, with ``class_weight="balanced"`` and log loss,
the balanced accuracy is .733 with spread copies and .715 without (logistic regression in float:
.732).

Quantized rows take memory for every copy; the rows that they are made of take 8 bytes a copy
(:class:`bitstep.data.views.RowView`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bitstep.data.views import RowView, is_sparse
from bitstep.training.chunks import fingerprint

MAX_PASS_ROWS = 1 << 26     # rows of a pass, unless the data have a quarter of them


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
    found = found if weights is None else weights * found
    if not found.any():
        raise ValueError("class_weight must leave at least one row with a weight above zero, not "
                         f"{class_weight!r}")
    return found


def weighted_order(weights: np.ndarray, seed: Callable[[], int],
                   groups: np.ndarray | None = None) -> np.ndarray:
    """Rows of a pass in their order: each as often as its weight says, copies spread evenly.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Of :func:`checked_weights`.
    seed : callable
        Gives the seed of what is drawn; called if a weight is not whole.
    groups : ndarray of int, shape (n_rows,), or None
        Class of each row. What is drawn is balanced within each: a class whose weights add up to W
        has floor(W) or ceil(W) rows in the pass.

    Returns
    -------
    ndarray of int, shape (rows of a pass,)
        Without a row if the weights are small and none was drawn.

    Raises
    ------
    ValueError
        If a pass would have more than 2**26 rows, and more than four times those there are: more
        is a slip, and would take the memory of the machine.
    """
    total, most = float(weights.sum()), max(MAX_PASS_ROWS, 4 * len(weights))
    if total > most:
        raise ValueError(f"The weights of all rows must add up to at most {most:,}, since "
                         f"a row is read as often as its weight says, not to {total:g}; divide "
                         "all of them by a number")
    counts = np.floor(weights)
    rest = weights - counts
    if rest.any():
        counts += _drawn(rest, seed(), groups)
    counts = counts.astype(np.intp)     # 32-bit machines repeat by no others
    rows = np.flatnonzero(counts)
    counts = counts[rows]
    if (counts == 1).all():
        return rows
    number = np.repeat(np.arange(len(rows)), counts)
    copy = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = (number / len(rows) + copy / counts[number]) % 1.0
    return rows[number[np.argsort(places, kind="stable")]]


def pass_rows(features: Any, targets: np.ndarray, weights: np.ndarray | None,
              seed: Callable[[], int], groups: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
    """Rows of a pass and their targets.

    Parameters
    ----------
    features : ndarray or sparse matrix of scipy, shape (n_rows, n_features)
    targets : ndarray, shape (n_rows, n_outputs)
    weights, groups
        See :func:`weighted_order`; None: all rows once. Rows of weight 0 have no part in the
        result.
    seed : callable
        Gives a seed, which is mixed with the values of the rows: chunks of a stream draw
        numbers of their own.

    Returns
    -------
    features : ndarray or RowView, shape (rows of a pass, n_features)
    targets : ndarray, shape (rows of a pass, n_outputs)
    """
    if weights is None or (weights == 1).all():
        return (RowView(features) if is_sparse(features) else features), targets
    rows = np.flatnonzero(weights)

    def own_seed() -> int:
        entropy = [max(0, seed()), fingerprint(RowView(features, rows))]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    order = rows[weighted_order(weights[rows], own_seed, None if groups is None else groups[rows])]
    return RowView(features, order), targets[order]


def _drawn(rest: np.ndarray, seed: int, groups: np.ndarray | None) -> np.ndarray:
    """1 or 0 for each row, 1 with probability ``rest``: systematic sampling in a random order."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    order = rng.permutation(len(rest))
    if groups is not None:
        order = order[np.argsort(groups[order], kind="stable")]
    ends = np.floor(np.cumsum(rest[order]) + rng.random())
    found = np.empty(len(rest))
    found[order] = np.diff(ends, prepend=0.0)
    return found


def _some(values: list[Any]) -> str:
    """Values as a list for a message; the first five of many."""
    return ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
