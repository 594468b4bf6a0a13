"""Column scaling: features to [-1, 1], and models back to the units of the features."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bitstep.checks import check_choice
from bitstep.data.blocks import block_rows, row_blocks
from bitstep.data.dataset import DataError, check_unmasked, first_not_finite
from bitstep.data.ranges import ColumnRanges
from bitstep.data.tails import TAIL_ROWS, ColumnTails, tail_count
from bitstep.data.views import RowView, in_any_order, rows_at
from bitstep.machine import in_threads
from bitstep.pipeline.encodings import SCALERS
from bitstep.pipeline.parts.widths import MAX_FEATURES

CLIP_ROWS = 1000        # a column is clipped at its quantiles of one value in so many
MIN_CLIP_ROWS = 100     # of fewer rows, one value at each end is too much of a column
_CLIP_GAIN = 2.0        # least shrinking of a range for which a column is clipped: a bit
_WASTE = 0.99           # share of the levels that a hundredth of the values may take
# Share of values that are not 0 below which dense rows are slow; smaller data are trained at once.
SPARSE_SHARE, SPARSE_VALUES = 0.005, 1 << 22
_RANGE_BLOCKS = 16      # whose ranges a core finds at a time: of fewer, threads wait for Python
_PART = 1 << 19         # values of a sample that are looked at together: 4 MB


class RangeWarning(UserWarning):
    """A few values take nearly all levels of a column."""


@dataclass(frozen=True, eq=False)
class Scaler:
    """``u = (a - centre) / scale`` for each column.

    Parameters
    ----------
    kind : {"quantile", "minmax", "maxabs"}
        How it was fitted.
    centre, scale : ndarray of float64, shape (n_features,)
        In the features' units; every scale is positive.
    clip : ndarray of float64, shape (2, n_features), or None
        Lowest and highest value of each column that counts as such: what is beyond counts as the
        nearer one, in training and prediction. Infinite for columns that are not clipped; None if
        no column is.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    kind: str
    centre: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)
    clip: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self):
        check_choice("scaler", self.kind, SCALERS)
        if self.centre.ndim != 1 or self.centre.shape != self.scale.shape:
            raise ValueError("centre and scale must have shape (n_features,), not "
                             f"{self.centre.shape} and {self.scale.shape}")
        if not (np.isfinite(self.centre).all() and (self.scale > 0).all()
                and np.isfinite(self.scale).all()):
            raise ValueError("centre must be finite and scale finite and positive")
        if self.clip is not None:
            check_clip(self.clip, len(self.scale))

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
        return (clipped_features(features, self.clip) - self.centre) / self.scale

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
            intercept given, for features within ``clip``.
        """
        coef = weights / self.scale
        return coef, np.asarray(intercept - self._at_centre(coef))

    def scale_model(self, coef: np.ndarray,
                    intercept: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """A model of the features as a model of scaled features: undoes :meth:`unscale_model`."""
        return coef * self.scale, np.asarray(intercept + self._at_centre(coef))

    def _at_centre(self, coef: np.ndarray) -> np.ndarray:
        """Products of models with the centre, one after the other: in a product of matrices the
        last bits of a model's depend on the others.
        """
        found = [(model * self.centre).sum() for model in coef.reshape(-1, coef.shape[-1])]
        return np.reshape(found, coef.shape[:-1])


def check_clip(clip: np.ndarray, n_features: int) -> None:
    """Raise ValueError unless an array can be the ``clip`` of a :class:`Scaler`."""
    if clip.shape != (2, n_features) or not (clip[0] < clip[1]).all():
        raise ValueError(f"clip must have shape (2, {n_features}), each column's first value below "
                         f"its second, not {clip.shape}")


def clipped_features(features: np.ndarray, clip: np.ndarray | None) -> np.ndarray:
    """Features within the ``clip`` of a :class:`Scaler`; themselves if nothing is clipped."""
    return features if clip is None else np.clip(features, clip[0], clip[1])


def clipped_share(features: Any, clip: np.ndarray) -> float:
    """Share of the values beyond the ``clip`` of a :class:`Scaler`; rows are read in blocks."""
    beyond, rows = 0, in_any_order(features)
    for _, start, stop in row_blocks(*features.shape):
        block = rows[start:stop]
        beyond += np.count_nonzero((block < clip[0]) | (block > clip[1]))
    return beyond / max(1, features.shape[0] * features.shape[1])


class Columns(NamedTuple):
    """Ranges and tails of columns.

    Attributes
    ----------
    low, high : ndarray of float64, shape (n_features,)
        Least and largest value of each column.
    tails : ColumnTails
    """

    low: np.ndarray
    high: np.ndarray
    tails: ColumnTails

    def clip(self) -> np.ndarray | None:
        """The ``clip`` of a scaler ``quantile``: of the columns whose range between two quantiles
        is at most half of their range.

        Beyond a quantile are k values of the column, with k a thousandth of the rows, rounded up
        (less in wide data of many rows, see :func:`bitstep.data.tails.tail_count`). A column with
        a single value between its quantiles is left as it is: it may be one of rare ones. So are
        all columns of less than 100 rows.
        """
        n_rows = self.tails.n_rows
        if n_rows < MIN_CLIP_ROWS:
            return None
        low, high = self.tails.ends(tail_count(n_rows, len(self.low), CLIP_ROWS))
        with np.errstate(over="ignore"):        # halves, since ranges may overflow
            clipped = (low < high) & (self.high / 2 - self.low / 2
                                      >= _CLIP_GAIN * (high / 2 - low / 2))
        if not clipped.any():
            return None
        return np.array([np.where(clipped, low, -np.inf), np.where(clipped, high, np.inf)])

    def waste(self) -> str | None:
        """A sentence on the column of which a hundredth of the values takes 99 % of the levels or
        more, if levels span its range; None if there is none.
        """
        n_rows = self.tails.n_rows
        if n_rows < MIN_CLIP_ROWS:
            return None
        low, high = self.tails.ends(tail_count(n_rows, len(self.low)))
        with np.errstate(over="ignore"):
            used = (high / 2 - low / 2) / np.maximum(self.high / 2 - self.low / 2, 1e-320)
        used[low >= high] = 1.0                 # one value, and a few others: nothing to gain
        column = int(np.argmin(used))
        if 1 - used[column] < _WASTE:
            return None
        others = int(np.sum(1 - used >= _WASTE)) - 1
        more = f", and so do those of {others} more" if others else ""
        return (f"column {column} (counted from 0) is from {self.low[column]:g} to "
                f"{self.high[column]:g}, but {100 - 200 / TAIL_ROWS:g} % of its values are from "
                f"{low[column]:g} to {high[column]:g}: the others take "
                f"{100 * (1 - used[column]):.4g} % of its levels{more}")


def fit_scaler(features: np.ndarray, kind: str = "minmax",
               on_waste: Callable[[str], None] | None = None) -> Scaler:
    """The scaler that takes each column to [-1, 1].

    Parameters
    ----------
    features : ndarray of numbers, shape (n_rows, n_features)
        Read in blocks, so it may be a memory map.
    kind : {"quantile", "minmax", "maxabs"}
        ``minmax``: centre and half of the range; ``maxabs``: centre 0 and the largest magnitude;
        ``quantile``: as ``minmax``, of columns that are clipped first (:meth:`Columns.clip`).
        A column without a range (``maxabs``: of zeros) has scale 1, so that u is 0.
    on_waste : callable, optional
        Called with the sentence of :meth:`Columns.waste`, unless the kind is ``quantile``.

    Returns
    -------
    Scaler

    Raises
    ------
    DataError
        If the features are no numbers of this shape, or one is not finite; the message names its
        row and column.
    ValueError
        If the kind is unknown.
    """
    check_choice("scaler", kind, SCALERS)       # before a pass over the features
    features = checked_features(features)
    if kind != "quantile" and on_waste is None:
        return scaler_of_ranges(*column_ranges(features), kind)
    return scaler_of_columns(columns_of(features), kind, on_waste)


def checked_features(features: Any) -> Any:
    """Features as an array or a view of shape (n_rows, n_features); DataError for others."""
    check_unmasked("features", features)
    if not isinstance(features, RowView):
        features = np.asarray(features)
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        raise DataError("features must be numbers of shape (n_rows, n_features), not "
                        f"{features.dtype} of shape {features.shape}")
    if features.shape[0] < 1 or not 1 <= features.shape[1] <= MAX_FEATURES:
        raise DataError(f"features must have at least one row and 1 to {MAX_FEATURES} columns, "
                        f"not shape {features.shape}")
    return features


def columns_of(features: Any) -> Columns:
    """Ranges and tails of the columns of rows; see :func:`column_ranges`.

    Warns
    -----
    UserWarning
        If so few values are not 0 that a trainer of sparse rows is faster.
    """
    warn_of_zeros(features)
    low, high = column_ranges(features)
    tails = ColumnTails(len(features))
    tails.add(in_any_order(features))
    return Columns(low, high, tails)


def warn_of_zeros(features: Any) -> None:
    """Warn of rows that are nearly all zeros, by a sample of them.

    Parameters
    ----------
    features : ndarray of numbers or RowView, shape (n_rows, n_features)
    """
    n_rows, n_features = features.shape
    if n_rows * n_features < SPARSE_VALUES:
        return
    count = min(n_rows, max(1, SPARSE_VALUES // n_features))
    sample = np.linspace(0, n_rows - 1, count).astype(np.int64)
    parts = np.array_split(sample, -(-count * n_features // _PART))
    share = sum(np.count_nonzero(rows_at(features, part)[:]) for part in parts if len(part)) \
        / (count * n_features)
    if share < SPARSE_SHARE:
        warnings.warn(
            f"only {100 * share:.2g} % of the values are not 0, and dense rows take the time and "
            "the memory of all of them: a trainer of sparse rows is faster, such as "
            "scikit-learn's SGDClassifier or SGDRegressor, or liblinear", stacklevel=2)


def scaler_of_columns(columns: Columns, kind: str,
                      on_waste: Callable[[str], None] | None) -> Scaler:
    """The scaler of columns whose ranges and tails are known; see :func:`fit_scaler`."""
    if kind == "quantile":
        clip = columns.clip()
        bounds = columns.low, columns.high
        if clip is not None:
            bounds = np.maximum(bounds[0], clip[0]), np.minimum(bounds[1], clip[1])
        return scaler_of_ranges(*bounds, kind, clip)
    waste = columns.waste() if on_waste else None
    if on_waste and waste:
        on_waste(waste)
    return scaler_of_ranges(columns.low, columns.high, kind)


def column_ranges(features: Any) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value of each column.

    Parameters
    ----------
    features : ndarray of numbers or RowView, shape (n_rows, n_features)
        Read in blocks, so it may be a memory map.

    Returns
    -------
    low, high : ndarray of float64, shape (n_features,)

    Raises
    ------
    DataError
        If the features are no numbers of this shape, or one is not finite; the message names its
        row and column.
    """
    def ends_of(start: int) -> np.ndarray:
        part = ColumnRanges()
        part.add(rows[start:start + size])
        return np.stack([part.low, part.high])

    features = checked_features(features)
    ranges, rows = ColumnRanges(), in_any_order(features)
    size = _RANGE_BLOCKS * block_rows(features.shape[1])
    for ends in in_threads(ends_of, range(0, len(features), size)):
        ranges.add(ends)
    low, high = ranges.low, ranges.high
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        check_finite(features)
    return low, high


def check_finite(features: Any) -> None:
    """Raise DataError, with row and column, if a value of rows is not finite."""
    if place := first_not_finite(features):
        row, column = place
        found = features[row:row + 1][0, column]
        raise DataError(f"features must be finite, not {found} (row {row}, column "
                        f"{column}, counted from 0); remove the row or fill in a value")


def scaler_of_ranges(low: np.ndarray, high: np.ndarray, kind: str,
                     clip: np.ndarray | None = None) -> Scaler:
    """The scaler of columns whose least and largest values, within ``clip``, are known; see
    :func:`fit_scaler`.
    """
    if kind == "maxabs":
        centre, scale = np.zeros(len(low)), np.maximum(-low, high)
    else:
        centre = np.where(low == high, low, low / 2 + high / 2)     # their sum may overflow
        # The centre is rounded; the larger side keeps every u within [-1, 1].
        scale = np.maximum(high - centre, centre - low)
    return Scaler(kind, centre, np.where(scale == 0, 1.0, scale), clip)
