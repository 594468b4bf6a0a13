"""Views of rows: sparse, repeated or clipped rows, made a block at a time when they are read."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bitstep.data.blocks import row_blocks


class RowView:
    """Rows of a matrix that exist as dense values only while a block of them is read.

    It needs 8 bytes a row for an order, and nothing else beside its source. A block of a sparse
    matrix is made anew in every pass.

    Parameters
    ----------
    source : ndarray or sparse matrix of scipy, shape (any, n_features)
        Of float64 or float32.
    order : ndarray of int64, shape (n_rows,), or None
        Row of the source for each row of the view; None: the rows of the source.
    ends : sequence of (ndarray, ndarray)
        Lowest and highest value of each column that counts as such, applied one after the other.

    Attributes
    ----------
    shape : (int, int)
    dtype : dtype
        Of the blocks.
    """

    ndim = 2

    def __init__(self, source: Any, order: np.ndarray | None = None,
                 ends: tuple[tuple[np.ndarray, np.ndarray], ...] = ()):
        self._source = source.tocsr() if is_sparse(source) else source
        self._order, self._ends = order, ends
        n_rows = source.shape[0] if order is None else len(order)
        self.shape = (int(n_rows), int(source.shape[1]))
        self.dtype = np.dtype(np.float64) if ends else source.dtype

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The values of some rows that follow each other."""
        block = self._source[rows if self._order is None else self._order[rows]]
        if is_sparse(block):
            block = block.toarray()
        for low, high in self._ends:
            block = np.clip(block, low, high)
        return block

    def take(self, rows: np.ndarray) -> "RowView":
        """Some of the rows, by their numbers, as a view."""
        return RowView(self._source, rows if self._order is None else self._order[rows],
                       self._ends)

    def in_any_order(self) -> "RowView":
        """The same rows, in an order that is fast to read."""
        if self._order is None:
            return self
        first = _first(self._order)
        if first is None:
            return RowView(self._source, np.sort(self._order), self._ends)
        return RowView(self._source[first:first + len(self)], None, self._ends)     # no copy

    def within(self, low: np.ndarray, high: np.ndarray) -> "RowView":
        """The same rows, in which what is beyond two ends counts as the nearer one."""
        return RowView(self._source, self._order, (*self._ends, (low, high)))


def _first(order: np.ndarray) -> int | None:
    """First of some rows, if they follow each other, in any order, and each comes once."""
    if not len(order):
        return None
    first = int(order.min())
    places = order - first
    seen = np.zeros(len(order), bool)
    seen[places[places < len(order)]] = True
    return first if seen.all() else None


def rows_at(matrix: Any, rows: np.ndarray) -> Any:
    """Some rows of an array or a :class:`RowView`, by their numbers."""
    return matrix.take(rows) if isinstance(matrix, RowView) else matrix[rows]


def in_any_order(matrix: Any) -> Any:
    """An array or :class:`RowView` with the same rows, for what does not depend on their order."""
    return matrix.in_any_order() if isinstance(matrix, RowView) else matrix


def view_of(matrix: Any, rows: np.ndarray) -> RowView:
    """Some rows of an array, a sparse matrix or a :class:`RowView`, by their numbers."""
    return matrix.take(rows) if isinstance(matrix, RowView) else RowView(matrix, rows)


def is_sparse(matrix: Any) -> bool:
    """Return True for a sparse matrix or array of scipy, which need not be installed."""
    return hasattr(matrix, "tocsr") and hasattr(matrix, "toarray")


def dense_blocks(matrix: Any) -> Iterator[np.ndarray]:
    """Dense rows of a matrix: all of an array at once, blocks of a sparse matrix.

    Parameters
    ----------
    matrix : ndarray or sparse matrix of scipy, shape (n_rows, n_features)
    """
    if not is_sparse(matrix):
        yield matrix
        return
    view = RowView(matrix)
    for _, start, stop in row_blocks(*view.shape):
        yield view[start:stop]
