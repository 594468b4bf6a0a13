"""Weights of classes on the command line: rows to train on with the weight of their class."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.cli.options import UsageError, class_text
from bitstep.data import Dataset
from bitstep.options.rules import Request
from bitstep.options.table import weights_of
from bitstep.training.copies import Pass, pass_rows
from bitstep.training.weights import row_weights
from bitstep.writing import first_of


def asked_weight(request: Request) -> Any:
    """Weights by class that the options ask for: ``balanced``, a dictionary or None."""
    asked = request["class_weight"]
    return asked if asked in (None, "balanced") else weights_of(asked)


def weighted_rows(dataset: Dataset, weight: Any, seed: int, along: bool) -> Pass:
    """Rows of a pass, as an estimator with this ``class_weight`` reads them, with their labels.

    Parameters
    ----------
    dataset : Dataset
        Rows to train on.
    weight : "balanced", dict of float by str, or None
    seed : int
    along : bool
        True if weights go along with the rows (:func:`bitstep.training.copies.go_along`).

    Raises
    ------
    UsageError
        If a weight is that of no class, or less than two classes are left.
    """
    labels = dataset.labels
    if weight is None:
        return Pass(dataset.features, labels)
    classes = np.unique(labels)
    if isinstance(weight, dict):
        weight = {label_of(name, classes, dataset.class_names): value
                  for name, value in weight.items()}
        left = [one for one in classes if weight.get(one, 1.0) > 0]
        if len(left) < 2:
            raise UsageError("--class-weight must leave at least two classes with a weight above "
                             f"0, not {len(left)}")
    weights = row_weights(None, weight, labels)
    assert weights is not None
    found = pass_rows(dataset.features, labels, weights, lambda: seed,
                      np.searchsorted(classes, labels), along=along)
    if found.note:
        print(f"bitstep: warning: {found.note}", file=sys.stderr)
    return found


def label_of(text: str, classes: np.ndarray, names: Sequence[str] | None = None) -> Any:
    """Label of a class that an option names.

    Parameters
    ----------
    text : str
    classes : ndarray
        All labels: numbers, of names if there are any, or strings.
    names : sequence of str or None

    Raises
    ------
    UsageError
        If it is none.
    """
    if names is not None:
        found = float(names.index(text)) if text in names else None
    elif classes.dtype.kind not in "fiub":
        found = text
    else:
        try:
            found = float(text)
        except ValueError:
            found = None
    if found is None or found not in classes:
        known = [names[int(one)] if names else one if isinstance(one, str) else class_text(one)
                 for one in classes.tolist()]
        raise UsageError(f"--class-weight must name classes of the data, {first_of(known, 10)}, "
                         f"not {text!r}")
    return found
