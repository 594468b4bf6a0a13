"""Blocks of rows that stay in a core's cache."""

from collections.abc import Iterator

import numpy as np

# Values of a block. The bytes of a quantized data set depend on it (each block has a random stream
# of its own), so it must never change: 32,768 values take 0.6 MB with all that is made of them.
BLOCK_VALUES = 1 << 15

# Values that a row operation should have for NumPy's loop to outweigh its overhead.
_WIDE = 512


def block_rows(n_features: int) -> int:
    """Rows of a block of a data set with so many features."""
    return max(1, BLOCK_VALUES // n_features)


def row_blocks(n_rows: int, n_features: int) -> Iterator[tuple[int, int, int]]:
    """Number, first row and end row of each block of rows."""
    size = block_rows(n_features)
    for block, start in enumerate(range(0, n_rows, size)):
        yield block, start, min(start + size, n_rows)


class Workspace:
    """A float64 block with a second view in which short rows are joined to long ones.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the data; a block never has more rows.

    Attributes
    ----------
    rows : ndarray of float64, shape (block rows, n_features)
        The block; it may have more rows than are in use.
    wide : ndarray of float64, shape (block rows / joined, joined * n_features)
        The same memory.
    joined : int
        Rows in a row of ``wide``.
    """

    def __init__(self, n_rows: int, n_features: int):
        self.joined = max(1, _WIDE // n_features)
        size = min(block_rows(n_features), n_rows)
        self.rows = np.zeros((-(-size // self.joined) * self.joined, n_features))
        self.wide = self.rows.reshape(-1, self.joined * n_features)

    def fill(self, features: np.ndarray) -> None:
        """Copy a block of rows; rows beyond it repeat its first one."""
        self.rows[:len(features)] = features
        self.rows[len(features):] = features[0]
