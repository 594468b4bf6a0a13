"""Tables of ``.npy`` and ``.npz`` files, read in blocks where their bytes are."""

import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bitstep.data.columns.labels import LAST, LabelColumn, NoLabel, chosen_column, label_position
from bitstep.data.columns.names import NamedLabels
from bitstep.data.dataset import DataError, NoLabelError, NoRowsError
from bitstep.data.npz import (
    COMPRESSED,
    StoredArray,
    check_sums,
    find_arrays,
    read_array_header,
)
from bitstep.data.tables.table import PIECE_VALUES, Piece, Table, row_ranges

_TEXT = "SU"                # kinds of arrays of text: bytes in UTF-8, and characters
_GAP_BYTES = 1 << 16        # between rows that are read together; a longer gap is skipped


class _Rows:
    """Rows of an array in a file, by ordinary reads: a map would count as this process's memory.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        Name of the array in an ``.npz``.
    stored : StoredArray
        Where it is; of one or two dimensions.
    """

    def __init__(self, path: Path, name: str, stored: StoredArray):
        self._path, self._name, self._stored = path, name, stored
        self._file: BinaryIO | None = None
        self._stream: BinaryIO | None = None
        self._archive: zipfile.ZipFile | None = None
        self._next = 0
        self._width = math.prod(stored.shape[1:])

    def __enter__(self) -> "_Rows":
        if self._stored.offset != COMPRESSED:
            self._file = self._path.open("rb", buffering=0)
            return self
        self._archive = zipfile.ZipFile(self._path)
        stream = self._archive.open(f"{self._name}.npy")
        header = read_array_header(stream)      # type: ignore[arg-type]
        if self._stored.by_columns:             # its rows are everywhere in the stream
            self._file = tempfile.TemporaryFile()
            shutil.copyfileobj(stream, self._file)
            self._stored = header._replace(offset=0)
        else:
            self._stream, self._next = stream, 0    # type: ignore[assignment]
        return self

    def __exit__(self, *_) -> None:
        for file in (self._file, self._stream, self._archive):
            if file is not None:
                file.close()
        self._file = self._stream = self._archive = None

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows from ``start`` to ``stop``, of a compressed array not before those read last."""
        dtype, count = self._stored.dtype, stop - start
        row_bytes = self._width * dtype.itemsize
        if self._stream is not None:
            while self._next < start:
                step = min(start - self._next, max(1, (1 << 22) // row_bytes))
                self._bytes(step * row_bytes)
                self._next += step
            self._next = stop
            return self._array(self._bytes(count * row_bytes), (count, self._width))
        if not self._stored.by_columns:
            content = self._bytes(count * row_bytes, self._stored.offset + start * row_bytes)
            return self._array(content, (count, self._width))
        rows = np.empty((count, self._width), dtype)
        for column in range(self._width):
            at = self._stored.offset + (column * self._stored.shape[0] + start) * dtype.itemsize
            rows[:, column] = self._array(self._bytes(count * dtype.itemsize, at), (count,))
        return rows

    def _array(self, content, shape):
        return np.frombuffer(content, self._stored.dtype).reshape(shape)

    def _bytes(self, count: int, offset: int = 0) -> bytearray:
        content = bytearray(count)
        view = memoryview(content)
        if self._stream is None:
            assert self._file is not None
            self._file.seek(offset)
        source = self._stream or self._file
        while len(view):
            done = source.readinto(view)    # type: ignore[union-attr]
            if not done:
                raise DataError(f"{self._path}: the file ends before its last row; it must be a "
                                "whole file; copy or create it again")
            view = view[done:]
        return content


class ArrayTable(Table):
    """A ``.npy`` file with the labels in a column, or an ``.npz`` file with arrays X and y.

    Parameters
    ----------
    path : Path
    label_column : str, int, NoLabel or callable
        See :func:`bitstep.data.columns.labels.label_position`; of a ``.npy`` file.
    task : str or None
        See :class:`bitstep.data.tables.table.Table`.

    Raises
    ------
    DataError
        If the arrays are not what they should be.
    One of bitstep.data.npz.BROKEN
        If the file is cut short or damaged.
    """

    def __init__(self, path: Path, label_column: LabelColumn = LAST, task: str | None = None):
        super().__init__(path.stem, path, task)
        self._path = path
        label_column = chosen_column(label_column, None)
        self._labelled = not isinstance(label_column, NoLabel)
        self._label: int | None = None
        self._in_column = path.suffix.lower() != ".npz"     # the label, if there is one
        self._arrays = self._find_npy() if self._in_column else self._find_npz()
        shape = self._arrays["X"].shape
        if self._in_column:
            self._label = label_position(label_column, shape[1], None, path)
        self._n_rows, self.n_features = shape[0], shape[1] - (self._label is not None)
        self._dtype = np.float32 if self._arrays["X"].dtype == np.float32 else np.float64
        self.sequential = any(array.offset == COMPRESSED for array in self._arrays.values())
        if self._n_rows == 0:
            raise NoRowsError(f"{path}: the file has no rows; X must have at least one")
        if self.n_features < 1:
            raise DataError(f"{path}: a row must have at least one feature, not 0")
        self._named = self._find_names()
        if self._named is not None and self._named.names is not None:
            self.class_names, self.task = self._named.names, task or "classification"

    def count_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    def all_labels(self) -> np.ndarray:
        """Labels of all rows; of a ``.npy`` file, from a pass over its pages."""
        if not self._in_column:
            with self._open("y") as labels:
                found = np.concatenate([
                    self._numbers(labels.read(rows[0], rows[-1] + 1)[:, 0], rows[0])
                    for rows in row_ranges(self._n_rows, 1)])
        else:
            found = np.concatenate([piece.labels for piece in self.read()])
        return found

    def read(self, chosen: np.ndarray | None = None) -> Iterator[Piece]:
        """Rows in pieces; see :meth:`Table.read`."""
        with self._open("X") as rows:
            if self._in_column or not self._labelled:
                for numbers, start, stop in self._runs(chosen):
                    yield self._piece(numbers, rows.read(start, stop)[numbers - start], None)
                return
            with self._open("y") as labels:
                for numbers, start, stop in self._runs(chosen):
                    yield self._piece(
                        numbers, rows.read(start, stop)[numbers - start],
                        self._numbers(labels.read(start, stop)[:, 0], start)[numbers - start])

    def _piece(self, numbers, rows, labels):
        if not self._labelled:
            labels = np.zeros(len(rows))
        if self._label is not None:
            labels = labels if labels is not None else rows[:, self._label]
            rows = np.delete(rows, self._label, axis=1)
        return Piece(numbers, np.ascontiguousarray(rows, self._dtype), labels.astype(np.float64))

    def _find_names(self) -> NamedLabels | None:
        """Labels of text, from a pass over them; None if they are an array of numbers."""
        if self._in_column or not self._labelled or self._arrays["y"].dtype.kind not in _TEXT:
            return None
        found: dict[str | bytes, int] = {}
        with self._open("y") as labels:
            for rows in row_ranges(self._n_rows, 1):
                texts, first = np.unique(labels.read(rows[0], rows[-1] + 1), return_index=True)
                for text, at in zip(texts.tolist(), first.tolist(), strict=True):
                    found.setdefault(text, int(rows[0]) + at)
        return NamedLabels(sorted(found.items(), key=lambda item: item[1]), self._path)

    def _numbers(self, labels: np.ndarray, row: int) -> np.ndarray:
        """Labels as numbers, the first of which is in a row."""
        return labels.astype(np.float64) if self._named is None \
            else self._named.numbers(labels.tolist(), row)

    def _runs(self, chosen: np.ndarray | None) -> Iterator[tuple[np.ndarray, int, int]]:
        """Numbers of chosen rows, with first and end of the rows that are read for them."""
        width = self.n_features + 1
        if chosen is None:
            for rows in row_ranges(self._n_rows, width):
                yield rows, int(rows[0]), int(rows[-1]) + 1
            return
        most = max(1, PIECE_VALUES // width)
        gap = max(1, _GAP_BYTES // (width * self._arrays["X"].dtype.itemsize))
        for part in np.split(chosen, np.flatnonzero(np.diff(chosen) > gap) + 1):
            start = 0
            while start < len(part):
                stop = int(np.searchsorted(part, part[start] + most))
                rows = part[start:stop]
                yield rows, int(rows[0]), int(rows[-1]) + 1
                start = stop

    def _open(self, name):
        return _Rows(self._path, name, self._arrays[name])

    def _find_npy(self) -> dict[str, StoredArray]:
        path = self._path
        try:
            with path.open("rb") as file:
                array = read_array_header(file)
                size = os.fstat(file.fileno()).st_size
        except ValueError as error:
            raise DataError(f"{path}: the file cannot be read ({error}); it must hold one array of "
                            "numbers, as numpy.save writes it") from error
        self._check("The array", array, 2, "(rows, columns)")
        if array.shape[1] < 1 + self._labelled:
            raise DataError(f"{path}: found {array.shape[1]} columns; a row must have a label and "
                            "at least one feature")
        if array.offset + array.n_bytes > size:
            raise DataError(f"{path}: found {size:,} bytes; a file of shape {array.shape} must "
                            f"have {array.offset + array.n_bytes:,}; copy or create it again")
        return {"X": array}

    def _find_npz(self) -> dict[str, StoredArray]:
        path = self._path
        # Of what is no archive a zip reader says little.
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("it is no .npz archive, or it was cut short")
        try:
            arrays = find_arrays(path)
        except ValueError as error:     # pickled objects and broken headers
            raise DataError(f"{path}: the file cannot be read ({error}); X and y must be arrays of "
                            "numbers") from error
        needed = ("X", "y") if self._labelled else ("X",)
        missing = [key for key in needed if key not in arrays]
        if missing and not self._labelled:
            raise DataError(f"{path}: found the arrays {', '.join(arrays) or 'none'}; there must "
                            "be X (features); save it under this name")
        if missing:
            error = NoLabelError if missing == ["y"] else DataError
            raise error(f"{path}: found the arrays {', '.join(arrays) or 'none'}; there must be X "
                        "(features) and y (labels); save them under these names")
        self._check("X", arrays["X"], 2, "(rows, columns)")
        if not self._labelled:
            check_sums(path, ["X"])
            return {"X": arrays["X"]}
        self._check("y", arrays["y"], 1, "(rows,)", text=True)
        if arrays["X"].shape[0] and arrays["y"].shape != arrays["X"].shape[:1]:
            raise DataError(f"{self._path}: y must have a label for each row of X, shape "
                            f"({arrays['X'].shape[0]},), not {arrays['y'].shape}; save both of the "
                            "same rows")
        check_sums(path, needed)
        return {name: arrays[name] for name in ("X", "y")}

    def _check(self, name, array, dimensions, shape, *, text=False):
        if array.dtype.kind not in "fiub" + _TEXT * text or len(array.shape) != dimensions \
                or not array.dtype.itemsize:
            raise DataError(f"{self._path}: {name} must hold numbers {'or text ' * text}in shape "
                            f"{shape}, not {array.dtype} of shape {array.shape}")
