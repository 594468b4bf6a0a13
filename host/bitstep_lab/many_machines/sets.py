"""Data sets in partitions, and their optima, found where the rows are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import delayed
from sklearn.datasets import load_digits

from bitstep.data import load

NEWTON_STEPS = 25
OBJECTIVE_ROWS = 100_000
NAMED = ("cadata", "cpusmall", "digits")


def named_set(name: str, data_home: str | Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows in standardized columns, without those of a single value, and labels."""
    if name == "digits":
        found: Any = load_digits(return_X_y=True)
        features, labels = found
    else:
        data = load(name, data_home=data_home)
        features, labels = np.asarray(data.features, np.float64), np.asarray(data.labels)
    order = np.random.default_rng(0).permutation(len(features))
    features = features[order][:, features.std(axis=0) > 0]
    return (features - features.mean(axis=0)) / features.std(axis=0), labels[order]


def _drawn(number: int, n_rows: int, n_features: int, classes: bool,
           correlation: float) -> np.ndarray:
    """Rows of a partition, and the label as a last column: float32."""
    rng = np.random.default_rng([7, number])
    rows = np.empty((n_rows, n_features + 1), np.float32)
    rows[:, :-1] = rng.standard_normal((n_rows, n_features), np.float32)
    for column in range(1, n_features) if correlation else ():
        rows[:, column] = correlation * rows[:, column - 1] \
            + (1 - correlation ** 2) ** 0.5 * rows[:, column]
    weights = np.random.default_rng(8).standard_normal(n_features) / np.sqrt(n_features)
    outputs = rows[:, :-1] @ (2 * weights).astype(np.float32)
    rows[:, -1] = rng.random(n_rows) < 1 / (1 + np.exp(-outputs)) if classes \
        else outputs + rng.standard_normal(n_rows, np.float32)
    return rows


def generated(n_rows: int, n_features: int, parts: int, *, classes: bool = False,
              correlation: float = 0.0) -> Any:
    """Normal rows with labels of a linear or a logistic model in the last column; columns are
    correlated with the one before.

    Returns
    -------
    dask.array of float32, shape (n_rows, n_features + 1)
        Every partition is drawn on the worker that takes it.
    """
    ends = np.linspace(0, n_rows, parts + 1).astype(int)
    return da.concatenate([da.from_delayed(
        delayed(_drawn, pure=True)(number, stop - start, n_features, classes, correlation),
        (stop - start, n_features + 1), np.float32)
        for number, (start, stop) in enumerate(pairwise(ends.tolist()))])


def generated_rows(n_rows: int, n_features: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of :func:`generated` in this process."""
    ends = np.linspace(0, n_rows, parts + 1).astype(int)
    features, labels = np.empty((n_rows, n_features), np.float32), np.empty(n_rows, np.float32)
    for number, (start, stop) in enumerate(pairwise(ends.tolist())):
        rows = _drawn(number, stop - start, n_features, False, 0.0)
        features[start:stop], labels[start:stop] = rows[:, :-1], rows[:, -1]
    return features, labels


def objective(model: Any, features: np.ndarray, labels: np.ndarray) -> float:
    """Mean loss of a fitted model, of least squares or softmax, and the penalty of
    ``Ridge(alpha=1)`` or ``LogisticRegression(C=1)``: what both minimise, divided by the rows.
    """
    total, count = 0.0, len(features)
    for start in range(0, count, OBJECTIVE_ROWS):
        some, wanted = (one[start:start + OBJECTIVE_ROWS] for one in (features, labels))
        values = some.astype(np.float64) @ model.coef_.T.astype(np.float64) + model.intercept_
        if hasattr(model, "classes_"):
            at = values[np.arange(len(some)), np.searchsorted(model.classes_, wanted)]
            total += (np.logaddexp.reduce(values, axis=1) - at).sum()
        else:
            total += ((values - wanted) ** 2).sum() / 2
    return float((total + (model.coef_.astype(np.float64) ** 2).sum() / 2) / count)


def _gram(rows: np.ndarray) -> np.ndarray:
    """Products of all columns and of a column of ones, which is the first."""
    whole = np.column_stack([np.ones(len(rows)), rows]).astype(np.float64)
    return whole.T @ whole


def _logistic(rows: np.ndarray, model: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Gradient, Hessian and loss of a logistic model, intercept first, summed over rows."""
    whole = np.column_stack([np.ones(len(rows)), rows[:, :-1]]).astype(np.float64)
    margins = whole @ model
    shares = 1 / (1 + np.exp(-margins))
    return (whole.T @ (shares - rows[:, -1]), (whole * (shares * (1 - shares))[:, None]).T @ whole,
            float((np.logaddexp(0, margins) - rows[:, -1] * margins).sum()))


def _losses(rows: np.ndarray, models: np.ndarray) -> np.ndarray:
    whole = np.column_stack([np.ones(len(rows)), rows[:, :-1]]).astype(np.float64)
    margins = whole @ models.T
    return (np.logaddexp(0, margins) - rows[:, -1:] * margins).sum(axis=0)


def _over(client: Any, rows: Any, function: Callable[[np.ndarray], Any]) -> list[Any]:
    """What a function gives for every partition, on its worker."""
    blocks = rows.to_delayed().ravel().tolist()
    return client.gather(client.compute([delayed(function, pure=False)(one) for one in blocks]))


@dataclass(frozen=True, eq=False)
class Optimum:
    """Distance of models to the least mean loss on all rows, without a penalty.

    Attributes
    ----------
    least : float
    excess : callable
        Takes models, shape (n_models, n_features + 1), intercept first; gives (loss - least) /
        least of each.
    """

    least: float
    excess: Callable[[np.ndarray], np.ndarray]


def optimum(client: Any, rows: Any, *, classes: bool = False) -> Optimum:
    """The optimum of rows whose last column is the label."""
    count = rows.shape[0]
    if not classes:
        gram = sum(_over(client, rows, _gram)) / count
        inner, cross, square = gram[:-1, :-1], gram[:-1, -1], gram[-1, -1]
        best = np.linalg.solve(inner, cross)
        least = (square - cross @ best) / 2

        def excess(models: np.ndarray) -> np.ndarray:
            apart = models - best       # of a parabola, so that nothing cancels
            return np.einsum("mi,ij,mj->m", apart, inner, apart) / 2 / least

        return Optimum(float(least), excess)
    model = np.zeros(rows.shape[1])
    for _ in range(NEWTON_STEPS):
        found = _over(client, rows, partial(_logistic, model=model))
        gradient, bend = (np.sum([one[part] for one in found], axis=0) for part in (0, 1))
        if np.abs(gradient).max() < 1e-9 * count:
            break
        model = model - np.linalg.solve(bend, gradient)

    def losses(models: np.ndarray) -> np.ndarray:
        return np.sum(_over(client, rows, partial(_losses, models=models)), axis=0) / count

    least = float(losses(model[None])[0])
    return Optimum(least, lambda models: losses(models) / least - 1)
