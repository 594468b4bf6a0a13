"""Column scaling: features to [-1, 1], and models back to the units of the features."""

from dataclasses import dataclass, field

import numpy as np

from bitstep.checks import check_choice
from bitstep.data.blocks import row_blocks
from bitstep.data.dataset import DataError, first_not_finite
from bitstep.data.ranges import ColumnRanges

SCALERS = ("minmax", "maxabs")


@dataclass(frozen=True, eq=False)
class Scaler:
    """``u = (a - centre) / scale`` for each column.

    Parameters
    ----------
    kind : {"minmax", "maxabs"}
        How it was fitted.
    centre, scale : ndarray of float64, shape (n_features,)
        In the features' units; every scale is positive.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    kind: str
    centre: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)

    def __post_init__(self):
        check_choice("scaler", self.kind, SCALERS)
        if self.centre.ndim != 1 or self.centre.shape != self.scale.shape:
            raise ValueError("centre and scale must have shape (n_features,), not "
                             f"{self.centre.shape} and {self.scale.shape}")
        if not (np.isfinite(self.centre).all() and (self.scale > 0).all()
                and np.isfinite(self.scale).all()):
            raise ValueError("centre must be finite and scale finite and positive")

    def transform(self, features: np.ndarray) -> np.ndarray:
        """Scaled features.

        Parameters
        ----------
        features : ndarray of float, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, same shape
            In [-1, 1] for the rows that the scaler was fitted to, up to rounding.
        """
        return (features - self.centre) / self.scale

    def unscale_model(self, weights: np.ndarray,
                      intercept: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """A model of scaled features as a model of the features.

        Parameters
        ----------
        weights : ndarray of float, shape (..., n_features)
            One model, or several in the leading dimensions.
        intercept : float or ndarray of float, shape (...)

        Returns
        -------
        coef : ndarray of float64, shape (..., n_features)
        intercept : ndarray of float64, shape (...)
            ``features @ coef + intercept`` equals ``transform(features) @ weights`` plus the
            intercept given.
        """
        coef = weights / self.scale
        return coef, np.asarray(intercept - coef @ self.centre)

    def scale_model(self, coef: np.ndarray,
                    intercept: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """A model of the features as a model of scaled features: undoes :meth:`unscale_model`."""
        return coef * self.scale, np.asarray(intercept + coef @ self.centre)


def fit_scaler(features: np.ndarray, kind: str = "minmax") -> Scaler:
    """The scaler that takes each column to [-1, 1].

    Parameters
    ----------
    features : ndarray of numbers, shape (n_rows, n_features)
        Read in blocks, so it may be a memory map.
    kind : {"minmax", "maxabs"}
        ``minmax``: centre and half of the range; ``maxabs``: centre 0 and the largest magnitude.
        A column without a range (``maxabs``: of zeros) has scale 1, so that u is 0.

    Returns
    -------
    Scaler

    Raises
    ------
    DataError
        If a value is not finite; the message names its row and column.
    ValueError
        If the kind is unknown.
    """
    check_choice("scaler", kind, SCALERS)           # before a pass over the features
    return scaler_of_ranges(*column_ranges(features), kind)


def column_ranges(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value of each column.

    Parameters
    ----------
    features : ndarray of numbers, shape (n_rows, n_features)
        Read in blocks, so it may be a memory map.

    Returns
    -------
    low, high : ndarray of float64, shape (n_features,)

    Raises
    ------
    DataError
        If a value is not finite; the message names its row and column.
    """
    ranges = ColumnRanges()
    for _, start, stop in row_blocks(*features.shape):
        ranges.add(features[start:stop])
    low, high = ranges.low, ranges.high
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        row, column = first_not_finite(features) or (0, 0)
        raise DataError(f"features must be finite, not {features[row, column]} (row {row}, column "
                        f"{column}, counted from 0); remove the row or fill in a value")
    return low, high


def scaler_of_ranges(low: np.ndarray, high: np.ndarray, kind: str) -> Scaler:
    """The scaler of columns whose least and largest values are known; see :func:`fit_scaler`."""
    if kind == "maxabs":
        centre, scale = np.zeros(len(low)), np.maximum(-low, high)
    else:
        centre = np.where(low == high, low, low / 2 + high / 2)     # their sum may overflow
        # The centre is rounded; the larger side keeps every u within [-1, 1].
        scale = np.maximum(high - centre, centre - low)
    return Scaler(kind, centre, np.where(scale == 0, 1.0, scale))
