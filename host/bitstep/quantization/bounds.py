"""Ranges of columns that stay fixed while rows arrive in chunks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.data.views import RowView


class ClippingWarning(UserWarning):
    """Values outside their range were replaced by its nearer end."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lowest and highest value of columns.

    Parameters
    ----------
    low, high : ndarray of float64, shape (n_columns,)
        Finite, no ``low`` above its ``high``.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def single(self) -> np.ndarray:
        """True for columns of a single value, which have no range yet; shape (n_columns,)."""
        return self.low == self.high

    def union(self, other: "Bounds") -> "Bounds":
        """Bounds of the values of both."""
        return Bounds(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def symmetric(self) -> "Bounds":
        """The least bounds around these that have 0 in their centre."""
        high = np.maximum(-self.low, self.high)
        return Bounds(-high, high)

    def clip(self, values: Any) -> tuple[Any, np.ndarray]:
        """Values within the bounds, and how many of each column were not.

        Parameters
        ----------
        values : ndarray of float or RowView, shape (n_rows, n_columns)

        Returns
        -------
        clipped : ndarray or RowView, same shape
            ``values`` itself if all of them are within.
        outside : ndarray of int, shape (n_columns,)
        """
        if isinstance(values, RowView):
            outside = np.zeros(values.shape[1], np.int64)
            rows = values.in_any_order()
            for _, start, stop in row_blocks(*values.shape):
                outside += self._outside(rows[start:stop])
            return (values.within(self.low, self.high) if outside.any() else values), outside
        outside = self._outside(values)
        return (np.clip(values, self.low, self.high) if outside.any() else values), outside

    def _outside(self, values: np.ndarray) -> np.ndarray:
        return np.count_nonzero(values < self.low, axis=0) \
            + np.count_nonzero(values > self.high, axis=0)


def given_bounds(name: str, asked: Any, n_columns: int) -> Bounds | None:
    """Bounds that a parameter asks for.

    Parameters
    ----------
    name : str
        Name of the parameter, for messages.
    asked : "auto" or pair of float or of arrays of shape (n_columns,)
        Lowest and highest value.
    n_columns : int

    Returns
    -------
    Bounds or None
        None for ``"auto"``.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(asked, str) and asked == "auto":
        return None
    numbers = "two numbers" + (f" or two arrays of shape ({n_columns},)" if n_columns > 1 else "")
    try:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), (n_columns,)) for end in asked)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be 'auto' or a pair (low, high) of {numbers}, "
                         f"not {asked!r}") from error
    good = np.isfinite(low) & np.isfinite(high) & (low < high)
    if not good.all():
        column = int(np.argmin(good))
        where = f" (column {column}, counted from 0)" if n_columns > 1 else ""
        raise ValueError(f"{name} must be a pair of finite numbers, the first below the second, "
                         f"not {low[column]:g} and {high[column]:g}{where}")
    return Bounds(low, high)


def fixed_bounds(seen: Bounds, *, before: Bounds | None = None, given: Bounds | None = None,
                 growing: bool = False, symmetric: bool = False) -> Bounds:
    """Bounds in effect for a chunk of rows, which contain all that were in effect before.

    What a user gives is fixed, and so is what was in effect before, unless it is still growing. A
    column without a range takes that of the chunk: every column of the first chunk, and columns of
    a single value so far.

    Parameters
    ----------
    seen : Bounds
        Those of the chunk.
    before, given : Bounds or None
        Those in effect before, and those asked for.
    growing : bool
        True if ``before`` is of so few rows that the chunk may widen it; what is given it does not
        widen.
    symmetric : bool
        True for bounds that have 0 in their centre.

    Returns
    -------
    Bounds
    """
    fixed = given or before or seen
    if before is not None:
        fixed = fixed.union(before)
    if symmetric:
        fixed, seen = fixed.symmetric(), seen.symmetric()
    wider = fixed.union(seen)
    free = fixed.single | (growing and given is None)
    return Bounds(np.where(free, wider.low, fixed.low), np.where(free, wider.high, fixed.high))


def describe_outside(count: int, seen: Bounds, bounds: Bounds, outside: np.ndarray,
                     text: str) -> str:
    """Clause that says how many values are outside, and where most of them are.

    Parameters
    ----------
    count : int
        All values.
    seen : Bounds
        Lowest and highest one of each column.
    bounds, outside
        See :meth:`Bounds.clip`.
    text : str
        Name of the values.
    """
    column = int(np.argmax(outside))
    name = f"column {column} (counted from 0)" if len(outside) > 1 else "they"
    verb = "holds" if len(outside) > 1 else "are"
    return (f"{outside.sum()} of {count} {text} ({name} {verb} {seen.low[column]:g} "
            f"to {seen.high[column]:g}, the range is {bounds.low[column]:g} to "
            f"{bounds.high[column]:g})")
