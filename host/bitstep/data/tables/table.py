"""Tables: rows of a data set that are read in pieces, so that the file may be larger than memory.

A table is read in passes. The first one, :meth:`Table.survey`, finds labels and ranges, and, of
text, how many rows and columns there are; a later one gives the same rows again.
"""

import abc
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from bitstep.data.dataset import DataError, first_not_finite
from bitstep.data.npz import BROKEN
from bitstep.data.ranges import ColumnRanges
from bitstep.data.tails import ColumnTails

PIECE_VALUES = 1 << 20      # of a piece of rows: 8 MB in float64

Progress = Callable[[int], None]
_Item = TypeVar("_Item")


class Piece(NamedTuple):
    """Some rows of a table.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
        Numbers of the rows in the file, from 0, in increasing order.
    features : ndarray of float64 or float32, shape (n_rows, n_features)
    labels : ndarray of float64, shape (n_rows,)
    """

    rows: np.ndarray
    features: np.ndarray
    labels: np.ndarray

    def select(self, chosen: np.ndarray | None) -> "Piece":
        """The rows that are among the chosen ones, which increase; None is all."""
        if chosen is None:
            return self
        first, last = np.searchsorted(chosen, [self.rows[0], self.rows[-1] + 1])
        at = np.searchsorted(self.rows, chosen[first:last])
        return Piece(self.rows[at], self.features[at], self.labels[at])


class Survey(NamedTuple):
    """Findings of the first pass over a table.

    Attributes
    ----------
    labels : ndarray of float64, shape (n_rows,)
        Labels of all rows of the table.
    low, high : ndarray of float64, shape (n_features,)
        Least and largest value of every column of the chosen rows.
    tails : ColumnTails
        Of the chosen rows.
    """

    labels: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tails: ColumnTails


class Table(abc.ABC):
    """A data set whose rows are read in pieces.

    Parameters
    ----------
    name : str
        What messages call it.
    path : Path or None
        Its file, if it has one.
    task : {"regression", "classification"} or None
        What the labels are; None: that of :func:`task_of_labels`.

    Attributes
    ----------
    n_features : int
        Columns; of LIBSVM text, known after a survey.
    feature_names : tuple of str, or None
    class_names : tuple of str, or None
        Names of the classes, if they have some; then labels are their numbers, from 0. Before a
        survey those so far.
    sequential : bool
        True if rows can only be reached by reading all before them.
    """

    n_features: int
    feature_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    sequential = False

    def __init__(self, name: str, path: Path | None, task: str | None = None):
        self.name, self.path, self.task = name, path, task
        self._state = self._found()
        self._n_surveyed: int | None = None

    @abc.abstractmethod
    def count_rows(self) -> int:
        """Number of rows; of text, from a quick pass that counts lines."""

    @abc.abstractmethod
    def read(self, chosen: np.ndarray | None = None) -> Iterator[Piece]:
        """Rows in the order of the file, in pieces of about :data:`PIECE_VALUES` values.

        Parameters
        ----------
        chosen : ndarray of int, or None
            Numbers of the rows to read, in increasing order; None for all.
        """

    def all_labels(self) -> np.ndarray:
        """Labels of all rows, from a pass of their own."""
        return np.concatenate([piece.labels for piece in self.read()])

    def pieces(self, chosen: np.ndarray | None = None) -> Iterator[Piece]:
        """:meth:`read`, with checks of what was read.

        Raises
        ------
        DataError
            If a value is not finite, or the file is not the one of the first pass.
        """
        self.check_unchanged()
        count = 0
        for piece in guarded(self.path, self.read(chosen)):
            count += len(piece.rows)
            if self._n_surveyed is not None and piece.rows[-1] >= self._n_surveyed:
                raise self._changed()
            self._check_finite(piece)
            yield piece
        self.check_unchanged()
        expected = self._n_surveyed if chosen is None else len(chosen)
        if expected not in (None, count):
            raise self._changed()

    def survey(self, chosen: np.ndarray | None = None,
               progress: Progress | None = None) -> Survey:
        """Read labels and ranges.

        Parameters
        ----------
        chosen : ndarray of int, or None
            Rows whose ranges are wanted, in increasing order; None for all. Labels are of all
            rows in any case.
        progress : callable, optional
            Called with the number of rows done.

        Raises
        ------
        DataError
            If the file is malformed or a value is not finite; with row and column.
        """
        ranges, labels, done = ColumnRanges(), [], 0
        tails = ColumnTails(self._expected(chosen))
        for piece in self.pieces(None if self.sequential else chosen):
            labels.append(piece.labels)
            picked = piece.select(chosen) if self.sequential else piece
            if len(picked.rows):
                ranges.add(picked.features)
                tails.add(picked.features)
            done += len(piece.rows)
            if progress is not None:
                progress(done)
        if self.sequential or chosen is None:
            found = np.concatenate(labels)
        else:
            with readable(self.path):
                found = self.all_labels()
            check_labels(self.name, found, np.arange(len(found)))
        self._n_surveyed = len(found)
        return Survey(found, ranges.low, ranges.high, tails)

    def _expected(self, chosen: np.ndarray | None) -> int | None:
        """Rows that a survey looks at; None if only the survey will tell."""
        if chosen is not None:
            return len(chosen)
        return None if self.sequential else self.count_rows()

    def check_unchanged(self) -> None:
        """Raise DataError if the file is not the one that was opened, or changed since."""
        if self._found() != self._state:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError(f"{self.path or self.name}: the file changed while it was read; it must "
                         "stay as it is until the command is over; run the command again")

    def _found(self):
        try:
            state = os.stat(self.path) if self.path is not None else None
        except OSError:
            return ()       # it is gone
        return state and (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)

    def _check_finite(self, piece: Piece) -> None:
        place = first_not_finite(piece.features)
        if place is not None:
            row, column = place
            raise DataError(f"{self.name}: features must be finite, not "
                            f"{piece.features[row, column]} (row {piece.rows[row]}, column "
                            f"{column}, counted from 0); remove the row or fill in a value")
        check_labels(self.name, piece.labels, piece.rows)


@contextlib.contextmanager
def readable(path: Path | None) -> Iterator[None]:
    """Turn the errors of reading a file into a DataError that names it.

    Parameters
    ----------
    path : Path or None
        None: nothing is turned.
    """
    try:
        yield
    except BROKEN as error:
        if path is None:
            raise
        raise DataError(f"{path}: the file cannot be read ({error}); it must be a whole "
                        f"{path.suffix} file; copy or create it again") from error


def guarded(path: Path | None, items: Iterator[_Item]) -> Iterator[_Item]:
    """Items that are read from a file, inside :func:`readable`."""
    while True:
        with readable(path):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def row_ranges(n_rows: int, n_features: int) -> Iterator[np.ndarray]:
    """Numbers of rows, in pieces of :data:`PIECE_VALUES` values."""
    size = max(1, PIECE_VALUES // n_features)
    for start in range(0, n_rows, size):
        yield np.arange(start, min(start + size, n_rows))


def check_labels(name: str, labels: np.ndarray, rows: np.ndarray) -> None:
    """Raise DataError for a label that is not finite.

    Parameters
    ----------
    name : str
        Data set, for the message.
    rows : ndarray of int
        Number of each label's row.
    """
    finite = np.isfinite(labels)
    if not finite.all():
        at = int(np.argmin(finite))
        raise DataError(f"{name}: labels must be finite, not {labels[at]} (row {rows[at]}, counted "
                        "from 0); remove the row")


def task_of_labels(labels: np.ndarray) -> str:
    """A classification if the labels take exactly two values, else a regression."""
    low, high = labels.min(), labels.max()
    two = low < high and ((labels == low) | (labels == high)).all()
    return "classification" if two else "regression"
