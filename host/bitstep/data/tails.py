"""Tails of columns: their smallest and largest values, from pieces of rows, in little memory."""

import numpy as np

from bitstep.data.blocks import row_blocks

TAIL_VALUES = 1 << 18       # values of all columns that a tail holds: 3 MB with their columns
TAIL_ROWS = 200             # a tail has the values of one row in so many
_PENDING = 1 << 16          # values that wait before they are sorted


def tail_count(n_rows: int, n_features: int, share: int = TAIL_ROWS) -> int:
    """Values at an end of a column that are one in ``share`` of its rows.

    Parameters
    ----------
    n_rows, n_features : int
    share : int
        At least :data:`TAIL_ROWS`.

    Returns
    -------
    int
        ``n_rows / share``, rounded up, but at most what :data:`TAIL_VALUES` have room for. It
        depends on the shape of the rows alone, however they come.
    """
    return min(-(-n_rows // share), max(1, TAIL_VALUES // n_features))


class ColumnTails:
    """Smallest and largest values of every column of the rows so far, exactly.

    Parameters
    ----------
    n_rows : int or None
        Rows that will come; None if nobody knows, which takes more memory.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    """

    def __init__(self, n_rows: int | None = None):
        self.n_rows, self._expected, self._width = 0, n_rows, 0
        self._sides = (_Tail(-1.0), _Tail(1.0))     # largest and smallest values

    def add(self, features: np.ndarray) -> None:
        """Take in rows; see :meth:`bitstep.data.ranges.ColumnRanges.add`."""
        self._widen(features.shape[1])
        capacity = self._capacity()
        for _, start, stop in row_blocks(*features.shape):
            for side in self._sides:
                side.add(features[start:stop], capacity)
        self.n_rows += len(features)

    def keep(self, first: int, n_columns: int) -> None:
        """Drop the columns before ``first``, and add columns of zeros up to ``n_columns``."""
        for side in self._sides:
            side.drop(first)
        self._width -= first
        self._widen(n_columns)

    def ends(self, beyond: int) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest value of each column without some at either end.

        Parameters
        ----------
        beyond : int
            Values that are left out at an end, at most :func:`tail_count` of the rows so far, and
            less than these.

        Returns
        -------
        low, high : ndarray of float64, shape (n_features,)
        """
        high, low = (side.value(beyond, self._width, self._capacity()) for side in self._sides)
        return low, high

    def _capacity(self) -> int:
        # Text may turn out to have a column less than indices: what one less has room for is
        # enough for every width that is to come.
        room = max(1, TAIL_VALUES // max(1, self._width - 1))
        if self._expected is not None:
            room = min(room, -(-self._expected // TAIL_ROWS))
        return room + 1         # and the value that is not left out

    def _widen(self, n_columns: int) -> None:
        """Add columns that were 0 in all rows so far."""
        for side in self._sides:
            side.widen(self._width, n_columns, min(self.n_rows, self._capacity()))
        self._width = max(self._width, n_columns)


class _Tail:
    """The smallest values of each column, or, with sign -1, of the columns' negatives."""

    def __init__(self, sign: float):
        self._sign = sign
        self._columns = np.zeros(0, np.int32)       # sorted by column, then by value
        self._values = np.zeros(0)
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._n_waiting = 0
        self._limits = np.zeros(0)                  # values from here on are not in the tail

    def add(self, block: np.ndarray, capacity: int) -> None:
        """Take in rows."""
        if len(block) > 2 * capacity:               # most values are in no tail of the block
            at = capacity - 1 if self._sign > 0 else len(block) - capacity
            if not np.isfinite(self._limits).any():
                parted = np.partition(block, at, axis=0)
                block = parted[:capacity] if self._sign > 0 else parted[-capacity:]
        inside = block < self._limits if self._sign > 0 else block > -self._limits
        places = np.flatnonzero(inside)             # much faster than nonzero
        self._wait((places % block.shape[1]).astype(np.int32),
                   block.ravel()[places].astype(np.float64) * self._sign, capacity)

    def widen(self, width: int, n_columns: int, zeros: int) -> None:
        """Columns from ``width`` up to ``n_columns``, which had so many zeros."""
        new = max(0, n_columns - width)
        self._limits = np.concatenate([self._limits, np.full(new, np.inf)])
        if new and zeros:
            self._wait(np.repeat(np.arange(width, n_columns, dtype=np.int32), zeros),
                       np.zeros(new * zeros), zeros)

    def drop(self, first: int) -> None:
        """Forget the columns before ``first``."""
        self._waiting.append((self._columns, self._values))
        self._waiting = [(columns[columns >= first] - first, values[columns >= first])
                         for columns, values in self._waiting]
        self._columns, self._values = np.zeros(0, np.int32), np.zeros(0)
        self._limits = self._limits[first:]

    def value(self, number: int, width: int, capacity: int) -> np.ndarray:
        """A value of each column by its number, from 0."""
        self._sort(width, capacity)
        starts = np.searchsorted(self._columns, np.arange(width))
        return self._values[starts + number] * self._sign + 0.0      # which makes 0 of -0

    def _wait(self, columns: np.ndarray, values: np.ndarray, capacity: int) -> None:
        if len(columns):
            self._waiting.append((columns, values))
            self._n_waiting += len(columns)
            most = capacity * len(self._limits)
            if np.isfinite(self._limits).any():
                most += _PENDING
            if self._n_waiting >= most:
                self._sort(len(self._limits), capacity)

    def _sort(self, width: int, capacity: int) -> None:
        """Bring the values that wait into the tail, and drop what is beyond its capacity."""
        parts = [(self._columns, self._values), *self._waiting]
        columns = np.concatenate([part[0] for part in parts])
        values = np.concatenate([part[1] for part in parts])
        self._waiting, self._n_waiting = [], 0
        # Columns by radix, which 16 bits have, then each by itself: five times as fast as lexsort.
        kind = np.uint16 if width <= 1 << 16 else np.int32
        order = np.argsort(columns.astype(kind), kind="stable")
        columns, values = columns[order], values[order]
        starts = np.searchsorted(columns, np.arange(width))
        for first, end in zip(starts, [*starts[1:], len(columns)], strict=True):
            values[first:end].sort()
        rank = np.arange(len(columns)) - starts[columns]
        self._columns, self._values = columns[rank < capacity], values[rank < capacity]
        ends = np.searchsorted(self._columns, np.arange(width), side="right")
        starts = np.searchsorted(self._columns, np.arange(width))
        full = ends - starts >= capacity
        self._limits = np.full(width, np.inf)
        self._limits[full] = self._values[ends[full] - 1]
