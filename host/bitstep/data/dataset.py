"""A data set in memory, its split, and the synthetic sets of the ZipML paper."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

TASKS = ("regression", "classification")
MAX_CLASSES = 256           # more different labels than this are a regression's


class DataError(ValueError):
    """Data, a data file or the name of a data set cannot be used.

    The message names the place (file and line, or row and column), what was found, what must hold
    and what to do.
    """


class NoLabelError(DataError):
    """A row, or the whole file, has no label."""


class NoRowsError(DataError):
    """A data file has no row, as writers of many files leave some."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Dense features and one label a row.

    Parameters
    ----------
    name : str
        What plots and messages call it.
    features : ndarray of float64 or float32, shape (n_rows, n_features)
        Finite values.
    labels : ndarray of float64, shape (n_rows,)
        Finite values; for a classification any number stands for a class.
    task : {"regression", "classification"}
        What the labels are.
    feature_names : tuple of str, optional
        One name a column.
    class_names : tuple of str, optional
        Names of the classes, if they have some; then labels are their numbers, from 0.

    Raises
    ------
    DataError
        If the parts do not fit each other or a value is not finite.
    """

    name: str
    features: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    task: str
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    class_names: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.features.shape[1]

    def __post_init__(self):
        if self.task not in TASKS:
            raise DataError(f"{self.name}: task must be one of {', '.join(TASKS)}, "
                            f"not {self.task!r}")
        if self.features.ndim != 2 or self.features.dtype not in (np.float32, np.float64):
            raise DataError(f"{self.name}: features must be float32 or float64 of shape (rows, "
                            f"columns), not {self.features.dtype} of shape {self.features.shape}")
        if self.labels.shape != (self.n_rows,) or self.labels.dtype != np.float64:
            raise DataError(f"{self.name}: labels must be float64 of shape ({self.n_rows},), one a "
                            f"row, not {self.labels.dtype} of shape {self.labels.shape}")
        check_unmasked(f"{self.name}: features", self.features)
        check_unmasked(f"{self.name}: labels", self.labels)
        if self.n_features < 1:
            raise DataError(f"{self.name}: a row must have at least one feature, not 0")
        if self.class_names is not None and self.task == "regression":
            raise DataError(f"{self.name}: task must be classification, since the labels are names "
                            f"({', '.join(self.class_names[:3])}), not 'regression'")
        names = self.feature_names
        if names is not None and len(names) != self.n_features:
            raise DataError(f"{self.name}: there must be {self.n_features} feature_names, one a "
                            f"column, not {len(names)}")
        bad = first_not_finite(self.features)
        if bad is not None:
            row, column = bad
            raise DataError(f"{self.name}: features must be finite, not "
                            f"{self.features[row, column]} (row {row}, column {column}, counted "
                            "from 0); remove the row or fill in a value")
        if not np.isfinite(self.labels).all():
            row = int(np.argmin(np.isfinite(self.labels)))
            raise DataError(f"{self.name}: labels must be finite, not {self.labels[row]} (row "
                            f"{row}, counted from 0); remove the row")


def first_not_finite(features: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first value that is NaN or infinite; None if there is none.

    Parameters
    ----------
    features : ndarray of float, shape (n_rows, n_features)
    """
    rows = max(1, (1 << 20) // max(1, features.shape[1]))
    for start in range(0, features.shape[0], rows):
        finite = np.isfinite(features[start:start + rows])
        if not finite.all():
            row, column = np.unravel_index(int(np.argmin(finite)), finite.shape)
            return start + int(row), int(column)
    return None


def check_unmasked(name: str, values: Any) -> None:
    """Raise DataError for a masked array of NumPy with masked values: other libraries read what is
    behind the mask.

    Parameters
    ----------
    name : str
        Name of the values, for the message.
    values : object
        What was given.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        mask = np.ma.getmaskarray(values)
        first = ", ".join(f"{axis} {place}" for axis, place in zip(
            ("row", "column"), np.argwhere(mask)[0], strict=False))
        raise DataError(f"{name} must have no masked values, but has {mask.sum()} (the first in "
                        f"{first}, counted from 0); fill them in (numpy.ma.filled), or leave "
                        "these rows out")


def split(dataset: Dataset, train_rows: int | None = None, shuffle: bool = True,
          seed: int = 0) -> tuple[Dataset, Dataset]:
    """Training and test set.

    Parameters
    ----------
    dataset : Dataset
    train_rows : int, optional
        Rows to train on; the others are the test set. Default: all, with an empty test set.
    shuffle : bool
        Whether rows are drawn by the permutation of :func:`shuffled`; if not, the first rows train.
    seed : int
        Seed of the permutation.

    Returns
    -------
    train, test : Dataset

    Raises
    ------
    DataError
        If the data set has fewer rows.
    """
    chosen, others = split_rows(dataset.name, dataset.n_rows, train_rows, shuffle, seed)
    train, test = (replace(dataset, features=dataset.features[rows], labels=dataset.labels[rows])
                   for rows in (chosen, others))
    return train, test


def split_rows(name: str, n_rows: int, train_rows: int | None, shuffle: bool,
               seed: int) -> tuple[slice | np.ndarray, slice | np.ndarray]:
    """Numbers of the rows of training and test set, in their order; see :func:`split`.

    Parameters
    ----------
    name : str
        Data set, for the message.
    n_rows : int
    """
    count = n_rows if train_rows is None else train_rows
    if not 1 <= count <= n_rows:
        raise DataError(f"{name}: train_rows must be from 1 to {n_rows}, the rows of the data set, "
                        f"not {train_rows}")
    if not shuffle:
        return slice(0, count), slice(count, None)
    order = shuffled(n_rows, seed)
    return order[:count], order[count:]


def shuffled(n_rows: int, seed: int) -> np.ndarray:
    """Numbers of rows in the order of a shuffle: a permutation from ``Generator(PCG64(seed))``.

    Estimators and the command line have the same one.
    """
    return np.random.Generator(np.random.PCG64(seed)).permutation(n_rows)


def noisy(n_features: int = 100, seed: int = 0) -> Dataset:
    """10,000 rows as of :func:`synthetic`, but with noise of half the labels' deviation."""
    made = synthetic(n_features, 10_000, seed, noise=0.5)
    return Dataset(f"noisy-{n_features}", made.features, made.labels, "regression")


def synthetic(n_features: int = 100, n_rows: int = 20_000, seed: int = 0,
              noise: float = 0.01) -> Dataset:
    """Regression on Gaussian features, the Synthetic 10, 100 and 1000 of the ZipML paper.

    The paper (Zhang et al., ICML 2017, table 1) gives the sizes only: 10,000 rows to train and
    10,000 to test. Here features and true weights are standard normal and independent, and a label
    is ``features @ weights / sqrt(n_features)`` plus normal noise, so that a label's variance is
    near 1 for every number of features.

    Parameters
    ----------
    n_features, n_rows : int
        Columns and rows, at least 1.
    seed : int
        Seed of ``Generator(PCG64(seed))``.
    noise : float
        Standard deviation of the noise, in units of the labels.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If a size is below 1 or the noise is negative.
    """
    if min(n_features, n_rows) < 1 or not noise >= 0:
        raise DataError("A synthetic data set must have n_features and n_rows of at least 1 and "
                        f"noise of at least 0, not {n_features}, {n_rows} and {noise}")
    rng = np.random.Generator(np.random.PCG64(seed))
    weights = rng.standard_normal(n_features) / np.sqrt(n_features)
    features = rng.standard_normal((n_rows, n_features))
    labels = features @ weights + noise * rng.standard_normal(n_rows)
    return Dataset(f"synthetic-{n_features}", features, labels, "regression")
