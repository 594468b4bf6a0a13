"""Data sets in memory as tables, and tables as data sets in memory."""

from collections.abc import Iterator

import numpy as np

from bitstep.data.dataset import Dataset
from bitstep.data.tables.table import Piece, Table, row_ranges, task_of_labels


class MemoryTable(Table):
    """A data set in memory as a table.

    Parameters
    ----------
    dataset : Dataset
    """

    def __init__(self, dataset: Dataset):
        super().__init__(dataset.name, None, dataset.task)
        self._dataset, self.n_features = dataset, dataset.n_features
        self.feature_names, self.class_names = dataset.feature_names, dataset.class_names

    def count_rows(self) -> int:
        """Number of rows."""
        return self._dataset.n_rows

    def all_labels(self) -> np.ndarray:
        """Labels of all rows."""
        return self._dataset.labels

    def read(self, chosen: np.ndarray | None = None) -> Iterator[Piece]:
        """Rows in pieces; see :meth:`Table.read`."""
        data = self._dataset
        for rows in row_ranges(data.n_rows if chosen is None else len(chosen), self.n_features):
            rows = rows if chosen is None else chosen[rows]
            yield Piece(rows, data.features[rows], data.labels[rows])


def to_dataset(table: Table) -> Dataset:
    """All rows of a table in memory, where that is enough."""
    n_rows = table.count_rows()
    features, labels = np.zeros((0, table.n_features)), np.empty(n_rows)
    for piece in table.pieces():
        if not len(features):       # the first piece knows the type
            features = np.empty((n_rows, table.n_features), piece.features.dtype)
        features[piece.rows], labels[piece.rows] = piece.features, piece.labels
    return Dataset(table.name, features, labels, table.task or task_of_labels(labels),
                   table.feature_names, table.class_names)
