"""Ranges of columns, from pieces of rows."""

import numpy as np

# Values that a row operation should have for NumPy's loop to outweigh its overhead.
_WIDE = 512


class ColumnRanges:
    """Least and largest value of every column of the rows so far.

    Attributes
    ----------
    low, high : ndarray of float64, shape (n_features,)
        NaN where a value is NaN. Zero has no sign.
    """

    def __init__(self):
        self._low = self._high = np.zeros(0)
        self._empty = True

    @property
    def low(self) -> np.ndarray:
        """Least values."""
        return self._low + 0.0      # which makes 0 of -0, in whatever order they came

    @property
    def high(self) -> np.ndarray:
        """Largest values."""
        return self._high + 0.0

    def add(self, features: np.ndarray) -> None:
        """Take in rows.

        Parameters
        ----------
        features : ndarray of numbers, shape (n_rows, n_features)
            At least one row. There may be more columns than before: then they were 0.
        """
        low, high = (_reduce(features, rule) for rule in (np.minimum, np.maximum))
        if self._empty:
            self._low, self._high, self._empty = low, high, False
            return
        more = features.shape[1] - len(self._low)
        if more:        # pad takes longer than a block
            self._low, self._high = (np.pad(part, (0, more)) for part in (self._low, self._high))
        with np.errstate(invalid="ignore"):
            np.minimum(self._low, low, out=self._low)
            np.maximum(self._high, high, out=self._high)

    def keep(self, first: int, n_columns: int) -> None:
        """Drop the columns before ``first``, and add columns of zeros up to ``n_columns``."""
        self._low, self._high = (
            np.pad(part[first:], (0, n_columns - len(part[first:])))
            for part in (self._low, self._high))


def _reduce(features: np.ndarray, rule: np.ufunc) -> np.ndarray:
    """Reduce columns; short rows are joined to long ones first."""
    n_features = features.shape[1]
    joined = max(1, _WIDE // n_features)
    whole = len(features) // joined * joined
    parts = [features[whole:]]
    if whole:
        wide = np.ascontiguousarray(features[:whole]).reshape(-1, joined * n_features)
        with np.errstate(invalid="ignore"):     # of NaN, which is found by who asks for the range
            parts.append(rule.reduce(wide, axis=0).reshape(joined, n_features))
    with np.errstate(invalid="ignore"):
        return rule.reduce(np.concatenate(parts), axis=0).astype(np.float64)
