"""Scores of predictions for the partitions of Dask collections: sums of each, added up.

They are scikit-learn's ``accuracy_score`` and ``r2_score`` of all rows together.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score

from bitstep.dask.sources import part_of
from bitstep.data.dataset import DataError


class PartScore(NamedTuple):
    """Sums over the rows of a partition.

    Attributes
    ----------
    n_rows : int
    weight : float
        Of the rows; their number, if they have no weights.
    good : float
        Weight of the rows whose label was predicted; 0 of a regression.
    mean, spread, error : ndarray of float64, shape (n_targets,), or 0
        Weighted mean of the targets, and sums of squared distances of the targets from it and from
        the predictions; 0 of a classification and without weight.
    """

    n_rows: int
    weight: float
    good: float = 0.0
    mean: Any = 0.0
    spread: Any = 0.0
    error: Any = 0.0


def part_score(local: Any, source: Sequence[Any]) -> PartScore:
    """Sums for the score of an ordinary estimator on a partition.

    Parameters
    ----------
    local : bitstep.LowPrecisionRegressor or bitstep.LowPrecisionClassifier
        Fitted, without names of features.
    source : sequence
        Arguments of :func:`bitstep.dask.sources.part_of`, computed.

    Raises
    ------
    DataError
        If the partition cannot be used; the message names it.
    """
    part = part_of(*source)
    if not len(part.features):
        return PartScore(0, 0.0)
    classes = local._is_classifier
    part = part.checked(classes)
    predicted, targets, n_rows = local.predict(part.features), part.targets, len(part.targets)
    if predicted.shape != targets.shape:
        raise DataError(f"{part.where}: y must have shape {predicted.shape}, as of the fit, not "
                        f"{targets.shape}")
    weights = np.ones(n_rows) if part.weights is None else part.weights
    weight = float(weights.sum())
    if classes:
        try:
            good = accuracy_score(targets, predicted, sample_weight=weights, normalize=False)
        except (TypeError, ValueError) as error:        # numbers beside names
            raise DataError(f"{part.where}: labels must be of the kind that the model was trained "
                            f"on, {predicted.dtype}, not {targets.dtype} ({error})") from error
        return PartScore(n_rows, weight, float(good))
    if not weight:
        return PartScore(n_rows, weight)
    mean = np.average(targets, axis=0, weights=weights)
    return PartScore(n_rows, weight, 0.0, mean, weights @ (targets - mean) ** 2,
                     weights @ (targets - predicted) ** 2)


def accuracy_of(parts: Sequence[PartScore]) -> float:
    """Share of the weight of all rows whose label was predicted.

    Raises
    ------
    DataError
        If no row has a weight.
    """
    return sum(one.good for one in parts) / _weight(parts)


def r2_of(parts: Sequence[PartScore]) -> float:
    """R2 of all rows, the mean over the targets; NaN, with a warning, of a single row.

    Raises
    ------
    DataError
        If no row has a weight.
    """
    whole = _weight(parts)
    if sum(one.n_rows for one in parts) < 2:
        warnings.warn("R2 needs two rows at least", UndefinedMetricWarning, stacklevel=3)
        return float("nan")
    mean = sum(one.weight * one.mean for one in parts) / whole
    spread = np.atleast_1d(sum(one.spread + one.weight * (one.mean - mean) ** 2 for one in parts))
    error = np.atleast_1d(sum(one.error for one in parts))
    # As scikit-learn has it of targets with one value: 1 if all are predicted, else 0.
    shares = np.divide(error, spread, out=(error > 0).astype(np.float64), where=spread > 0)
    return float(np.mean(1 - shares))


def _weight(parts: Sequence[PartScore]) -> float:
    """Weight of all rows."""
    if not any(one.n_rows for one in parts):
        raise DataError(f"X must have at least one row; all {len(parts)} partitions are empty")
    found = sum(one.weight for one in parts)
    if not found:
        raise DataError("sample_weight must hold at least one number above 0")
    return found
