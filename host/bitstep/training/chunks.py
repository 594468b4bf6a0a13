"""Chunks of rows that one model is trained on, one after the other: ranges that stay, and draws
that differ.
"""

import warnings
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.data.views import rows_at
from bitstep.quantization import column_ranges
from bitstep.quantization.bounds import Bounds, ClippingWarning, describe_outside, fixed_bounds

FINGERPRINT_VALUES = 1 << 20
RANGE_ROWS = 10         # rows whose range may count as that of rows to come


@dataclass(frozen=True, eq=False)
class Clipped:
    """Columns within their bounds.

    Attributes
    ----------
    values : ndarray of float or RowView, shape (n_rows, n_columns)
    bounds : Bounds
        Those in effect.
    count : int
        Values that were outside, and are now the nearer end.
    outside : str
        A clause that says where they are; empty if there are none.
    clip : ndarray of float64, shape (2, n_columns), or None
        Of a scaler, see :class:`bitstep.quantization.Scaler`.
    """

    values: Any
    bounds: Bounds
    count: int
    outside: str
    clip: np.ndarray | None = None


def clipped(values: Any, name: str, *, before: Bounds | None,
            given: Bounds | None, rows_before: int,
            symmetric: bool, clip: np.ndarray | None = None) -> Clipped:
    """Settle the bounds of columns, and clip the columns to them.

    Parameters
    ----------
    values : ndarray of float or RowView, shape (n_rows, n_columns)
        Finite.
    name : str
        Name of the values in messages.
    before, given, symmetric
        See :func:`bitstep.quantization.bounds.fixed_bounds`.
    rows_before : int
        Rows that ``before`` is of; it grows while they are less than 10.
    clip : ndarray of float64, shape (2, n_columns), or None
        Of a scaler. What is beyond counts among the values outside, but is no news.
    """
    beyond = 0
    if clip is not None:
        values, cut = Bounds(*clip).clip(values)
        beyond = int(cut.sum())
    seen = Bounds(*column_ranges(values))
    bounds = fixed_bounds(seen, before=before, given=given, growing=rows_before < RANGE_ROWS,
                          symmetric=symmetric)
    within, outside = values, np.zeros(values.shape[1], np.int64)
    if (seen.low < bounds.low).any() or (seen.high > bounds.high).any():
        within, outside = bounds.clip(values)
    text = describe_outside(values.size, seen, bounds, outside, name) if outside.any() \
        else ""
    return Clipped(within, bounds, beyond + int(outside.sum()), text, clip)


def warn_of_clipping(parts: list[str]) -> None:
    """Warn once of values outside their ranges, in the words of an estimator.

    Parameters
    ----------
    parts : list of str
        Clauses of :attr:`Clipped.outside`, empty ones among them.
    """
    found = " and ".join(filter(None, parts))
    if found:
        warnings.warn(
            f"{found}: what lies outside counts as the nearer end. Ranges are those of the first "
            "rows, or what was given; to go on with wider ones, set feature_range or label_range "
            "to (low, high). This warning comes once a model; clipped_ counts all such values",
            ClippingWarning, stacklevel=5)


def opened_model(coef: np.ndarray, intercept: np.ndarray, before: Bounds,
                 after: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """A model without the weights of columns that had a single value so far, and now have a range.

    What such a weight is was left open; its part of the output goes to the intercept, so that the
    outputs of all rows so far stay.

    Parameters
    ----------
    coef : ndarray of float64, shape (n_outputs, n_features)
    intercept : ndarray of float64, shape (n_outputs,)
    before, after : Bounds
        Of the features.

    Returns
    -------
    coef, intercept : ndarray of float64, of the same shapes
    """
    opened = before.single & ~after.single
    moved = coef[:, opened] @ before.low[opened]
    return np.where(opened, 0.0, coef), intercept + moved


def fingerprint(features: Any) -> int:
    """A number from 0 to 2**32 - 1 that equal rows share; of many rows, some speak for all.

    Parameters
    ----------
    features : ndarray of float or RowView, shape (n_rows, n_features)
    """
    n_rows, n_features = features.shape
    count = min(n_rows, max(1, FINGERPRINT_VALUES // n_features))
    rows = rows_at(features, np.linspace(0, n_rows - 1, count).astype(np.int64)) \
        if count < n_rows else features
    found = zlib.crc32(str(features.shape).encode())
    for _, start, stop in row_blocks(*rows.shape):
        found = zlib.crc32(np.ascontiguousarray(rows[start:stop]).data, found)
    return found


def chunk_seed(seed: int, features: Any, first: int) -> int:
    """Seed for the draws of a chunk.

    With one seed for all of them, row i of every chunk would be rounded by the same random numbers,
    and a stream of single rows would be rounded alike for ever. So a chunk has the seed itself only
    if its rows are those of the first one, and else a seed of its own.

    Parameters
    ----------
    seed : int
        At least 0.
    features : ndarray of float or RowView, shape (n_rows, n_features)
    first : int
        :func:`fingerprint` of the first rows.
    """
    own = fingerprint(features)
    if own == first:
        return seed
    return int(np.random.SeedSequence([seed, own]).generate_state(1)[0])
