"""Rows to train a network on, and rows to test it with."""

from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np

from bitstep.data import split
from bitstep.data.dataset import DataError
from bitstep_lab.races.race_data import race_data

IMAGES = ("digits", "mnist")        # their features are the pixels of square images
TEST_SHARE = 5                      # one row of so many tests the model


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows to train on and rows to test with, as models take them.

    Parameters
    ----------
    name : str
        Name, size and origin.
    features, test_features : ndarray of float32, shape (rows, columns)
        Pixels from 0 to 1, or columns with mean 0 and variance 1 over the rows to train on.
    labels, test_labels : ndarray, shape (rows,)
        Classes from 0 on (int64), or values with mean 0 and variance 1 (float32).
    n_classes : int
        0 for a regression.
    side : int
        Pixels on each side of an image; 0: the rows are no images.
    """

    name: str
    features: np.ndarray
    labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    n_classes: int
    side: int

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return self.features.shape[1]


def load_samples(source: str, *, side: int = 0, rows: int | None = None,
                 data_home: str | Path | None = None) -> Samples:
    """Load a data set. The split is the same at every call.

    Parameters
    ----------
    source : str
        A key of :func:`bitstep_lab.races.race_data.race_data`.
    side : int
        Size to which images are resized; 0: none.
    rows : int, optional
        Rows to draw, tests included; default: all.
    data_home : path, optional
        Folder with files of named data sets.

    Returns
    -------
    samples : Samples

    Raises
    ------
    DataError
        If there are no such data, or too few rows.
    """
    data = race_data(source, rows=rows, data_home=data_home)
    n_test = data.dataset.n_rows // TEST_SHARE
    if not n_test:
        raise DataError(f"{source}: there must be at least {TEST_SHARE} rows, one to test the "
                        f"model, not {data.dataset.n_rows}")
    train, test = split(data.dataset, data.dataset.n_rows - n_test)
    size = isqrt(train.n_features) if source in IMAGES else 0
    if size:
        parts = [part.features.astype(np.float32) for part in (train, test)]
        most = max(float(parts[0].max()), 1.0)
        parts = [resized(part / np.float32(most), size, side or size) for part in parts]
    else:
        parts = [part.astype(np.float32) for part in _near_one(train.features, test.features)]
        mean, deviation = parts[0].mean(axis=0), parts[0].std(axis=0)
        deviation[deviation == 0] = 1
        parts = [(part - mean) / deviation for part in parts]
    if data.dataset.task == "regression":
        values = _near_one(train.labels, test.labels)
        centre, spread = values[0].mean(), values[0].std() or 1.0
        labels = [((part - centre) / spread).astype(np.float32) for part in values]
        n_classes = 0
    else:
        classes = np.unique(data.dataset.labels)
        labels = [np.searchsorted(classes, part.labels) for part in (train, test)]
        n_classes = len(classes)
    return Samples(data.title, parts[0], labels[0], parts[1], labels[1], n_classes,
                   size and (side or size))


def _near_one(*parts: np.ndarray) -> list[np.ndarray]:
    """Columns divided by powers of two, so that neither float32 nor a square overflows; digits stay
    as they are.
    """
    most = np.max([np.abs(part).max(axis=0) for part in parts], axis=0)
    return [np.ldexp(part, -np.frexp(most)[1]) for part in parts]


def resized(images: np.ndarray, size: int, side: int) -> np.ndarray:
    """Resize square images by linear interpolation between the centres of pixels.

    Parameters
    ----------
    images : ndarray of float32, shape (rows, size * size)
    size, side : int
        Pixels on each side, before and after.

    Returns
    -------
    images : ndarray of float32, shape (rows, side * side)
    """
    if size == side:
        return images
    places = np.clip((np.arange(side) + 0.5) * size / side - 0.5, 0, size - 1)
    lower = np.minimum(places.astype(np.int64), max(size - 2, 0))
    weights = np.zeros((side, size))
    weights[np.arange(side), np.minimum(lower + 1, size - 1)] = places - lower
    weights[np.arange(side), lower] += 1 - (places - lower)
    grids = images.reshape(-1, size, size)
    found = np.einsum("ri,nij,cj->nrc", weights, grids, weights, optimize=True)
    return found.astype(np.float32).reshape(-1, side * side)
