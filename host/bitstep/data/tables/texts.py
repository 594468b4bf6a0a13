"""Tables of LIBSVM and comma-separated text, which are parsed anew in every pass."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bitstep.data.columns.labels import LAST, LabelColumn, TextLabels
from bitstep.data.columns.text import count_csv_rows, csv_rows
from bitstep.data.libsvm import (
    SparseRows,
    checked_width,
    count_libsvm_rows,
    first_index,
    has_pairs,
    labels_only,
    sparse_rows,
)
from bitstep.data.ranges import ColumnRanges
from bitstep.data.tables.table import Piece, Progress, Survey, Table, guarded, readable, row_ranges
from bitstep.data.tails import ColumnTails


class TextTable(Table):
    """Rows of a text.

    Parameters
    ----------
    path : Path
    opener : callable
        Opens the file for reading bytes, decompressed.
    name, task
        See :class:`bitstep.data.tables.table.Table`.
    """

    sequential = True

    def __init__(self, path: Path, opener: Callable[..., Any], name: str, task: str | None = None):
        super().__init__(name, path, task)
        self._path, self._opener = path, opener

    def _open(self) -> Any:
        return self._opener(self._path, "rb")

    def _count(self, count: Callable[[BinaryIO], int]) -> int:
        with readable(self.path), self._open() as file:
            return count(file)


class CsvTable(TextTable):
    """Rows of a text of columns; see :func:`bitstep.data.columns.text.read_csv`.

    Parameters
    ----------
    label_column : str, int, NoLabel or callable
        See :func:`bitstep.data.columns.labels.label_position`.
    """

    def __init__(self, *arguments: Any, label_column: LabelColumn = LAST):
        super().__init__(*arguments)
        self._label_column = label_column
        self._task, self._surveyed = self.task, False

    def count_rows(self) -> int:
        """Number of rows, from a quick pass."""
        return self._count(partial(count_csv_rows, path=self._path))

    def survey(self, chosen: np.ndarray | None = None,
               progress: Progress | None = None) -> Survey:
        """Read labels, ranges and the names of classes; see :meth:`Table.survey`."""
        found = super().survey(chosen, progress)
        labels, self.class_names = self._labels.in_order(found.labels)
        self._surveyed = True
        return found._replace(labels=labels)

    def read(self, chosen: np.ndarray | None = None) -> Iterator[Piece]:
        """Rows in pieces; see :meth:`Table.read`."""
        start = 0
        self._labels = TextLabels(self._path, self.class_names if self._surveyed else None)
        with self._open() as file:
            for rows in csv_rows(file, self._path, self._label_column, self._labels):
                self.n_features, self.feature_names = rows.features.shape[1], rows.names
                if not self._surveyed:
                    self.class_names = self._labels.names
                self.task = self._task or ("classification" if self.class_names else None)
                piece = Piece(np.arange(start, start + len(rows.labels)), rows.features,
                              rows.labels).select(chosen)
                if len(piece.rows):
                    yield piece
                start += len(rows.labels)
                if chosen is not None and start > chosen[-1]:
                    return


class LibsvmTable(TextTable):
    """Rows of a LIBSVM text; see :func:`bitstep.data.libsvm.read_libsvm`.

    The whole text says how many columns there are and which index is the first: they are known
    after :meth:`survey`, or :meth:`fix_columns`.

    Parameters
    ----------
    n_features : int or None
        Columns, if they are known.
    """

    def __init__(self, *arguments: Any, n_features: int | None = None):
        super().__init__(*arguments)
        self._asked, self._base = n_features, -1

    def count_rows(self) -> int:
        """Number of rows, from a quick pass."""
        return self._count(count_libsvm_rows)

    @property
    def base(self) -> int:
        """Index of the first column, once it is known."""
        return self._base

    def fix_columns(self, n_features: int) -> None:
        """Find the first index, by a quick pass that takes the place of a survey.

        Parameters
        ----------
        n_features : int
            Columns, unless they are known.

        Raises
        ------
        DataError
            If no row has a feature.
        """
        if not self._count(has_pairs):
            raise labels_only(self._path)
        self._base, self.n_features = self._count(first_index), self._asked or n_features

    def survey(self, chosen: np.ndarray | None = None,
               progress: Progress | None = None) -> Survey:
        """Read labels, ranges and the columns; see :meth:`Table.survey`."""
        self.check_unchanged()
        ranges, labels, done, base, end = ColumnRanges(), [], 0, 1, 0
        tails = ColumnTails(self._expected(chosen))
        for rows in guarded(self.path, self._sparse()):
            labels.append(rows.labels)
            if len(rows.indices):
                base = min(base, int(rows.indices.min()))
                end = max(end, int(rows.indices.max()) + 1)
            for piece in _dense(rows, done, 0, max(end, 1)):
                picked = piece.select(chosen)
                if len(picked.rows):
                    ranges.add(picked.features)
                    tails.add(picked.features)
            done += len(rows.labels)
            if progress is not None:
                progress(done)
        self.check_unchanged()
        self.n_features = checked_width(max(end - base, 0), self._asked, self._path)
        self._base, self._n_surveyed = base, done
        ranges.keep(base, self.n_features)
        tails.keep(base, self.n_features)
        return Survey(np.concatenate(labels), ranges.low, ranges.high, tails)

    def read(self, chosen: np.ndarray | None = None) -> Iterator[Piece]:
        """Rows in pieces; see :meth:`Table.read`."""
        assert self._base >= 0, "survey or fix_columns comes first"
        start = 0
        for rows in self._sparse():
            if len(rows.indices):
                found = int(rows.indices.max()) + 1 - self._base
                checked_width(found, self.n_features, self._path)
            for piece in _dense(rows, start, self._base, self.n_features):
                piece = piece.select(chosen)
                if len(piece.rows):
                    yield piece
            start += len(rows.labels)
            if chosen is not None and start > chosen[-1]:
                return

    def _sparse(self) -> Iterator[SparseRows]:
        with self._open() as file:
            yield from sparse_rows(file, self._path)


def _dense(rows: SparseRows, first: int, base: int, width: int) -> Iterator[Piece]:
    """Pieces of dense rows, the first of which has number ``first``."""
    for numbers in row_ranges(len(rows.labels), width):
        part = rows.part(int(numbers[0]), int(numbers[-1]) + 1)
        features = np.zeros((len(numbers), width))
        part.fill(features, base)
        yield Piece(first + numbers, features, part.labels)


