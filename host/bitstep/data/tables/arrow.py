"""Tables of Parquet and Arrow IPC files, by pyarrow."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data.columns.labels import LAST, LabelColumn, NoLabel, chosen_column, label_position
from bitstep.data.columns.names import NamedLabels
from bitstep.data.dataset import DataError, NoRowsError
from bitstep.data.tables.table import PIECE_VALUES, Piece, Table

ARROW_SUFFIXES = (".parquet", ".arrow", ".feather")

_BUFFER = 1 << 20           # of each column of a Parquet file, in bytes
_MAGIC = b"ARROW1"          # of an IPC file; a stream has none


class ArrowTable(Table):
    """A Parquet file, or an Arrow IPC file or stream, with the labels in a column.

    Columns must be numbers or truth values, none missing; that of the labels may be text, which is
    read once to find the names of the classes. The index of a DataFrame is no column, unless it is
    named as the label's. No more than a record batch, or a piece of a row group, is in memory.

    Parameters
    ----------
    path : Path
    label_column : str, int, NoLabel or callable
        See :func:`bitstep.data.columns.labels.label_position`.
    task : str or None
        See :class:`bitstep.data.tables.table.Table`.

    Raises
    ------
    DataError
        If pyarrow is not installed, the file is damaged, or a column holds anything else.
    """

    def __init__(self, path: Path, label_column: LabelColumn = LAST, task: str | None = None):
        super().__init__(path.stem, path, task)
        self._path = path
        try:
            import pyarrow  # type: ignore[import-not-found]
            import pyarrow.parquet  # type: ignore[import-not-found]
        except ImportError as error:
            raise DataError(f"{path}: {path.suffix} files are read by pyarrow, which is not "
                            "installed; run: pip install 'bitstep[arrow]'") from error
        self._arrow: Any = pyarrow
        self._is_parquet = path.suffix.lower() == ".parquet"
        with self._errors():
            self._n_rows, schema = self._measure()
        if self._n_rows == 0:       # whose columns may be of no type
            raise NoRowsError(f"{path}: the file has no rows; it must have at least one")
        index = _index_columns(schema)
        kept = [number for number, name in enumerate(schema.names)
                if name not in index or name == label_column]
        names, types = tuple(schema.names[number] for number in kept), \
            [schema.types[number] for number in kept]
        label_column = chosen_column(label_column, names)
        self._labelled = not isinstance(label_column, NoLabel)
        if len(names) < 1 + self._labelled:
            raise DataError(f"{path}: found {len(names)} columns; a row must have a label and at "
                            "least one feature")
        self._label = label_position(label_column, len(names), names, path)
        is_number = (pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_boolean)
        has_text = self._label is not None and self._labelled and self._is_text(types[self._label])
        for number, (name, kind) in enumerate(zip(names, types, strict=True)):
            if not any(rule(kind) for rule in is_number) and not (
                    number == self._label and (has_text or not self._labelled)):
                raise DataError(f"{path}: column {name!r} holds {kind}; every column must hold "
                                "numbers, but for the label's, which may hold text; leave it out "
                                "or convert it")
        self._label = None if self._label is None else kept[self._label]
        self._others = [number for number in kept if number != self._label]
        self.feature_names = tuple(schema.names[number] for number in self._others)
        self.n_features = len(self.feature_names)
        types = [schema.types[number] for number in self._others]
        self._dtype = np.float32 if all(kind == pyarrow.float32() for kind in types) \
            else np.float64
        if told := [name for name in schema.names if name in index and name not in names
                    and not name.startswith("__")]:
            warnings.warn(f"{path}: column {told[0]!r} is the index of a DataFrame and is left "
                          "out; write the file after reset_index() if it is a feature",
                          stacklevel=2)
        self._named = self._find_names() if has_text else None
        if self._named is not None and self._named.names is not None:
            self.class_names, self.task = self._named.names, task or "classification"

    def count_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    def all_labels(self) -> np.ndarray:
        """Labels of all rows."""
        assert self._label is not None
        with self._errors():
            return np.concatenate([
                self._labels(batch.column(0), start)
                for start, batch in self._batches(None, [self._label])])

    def read(self, chosen: np.ndarray | None = None) -> Iterator[Piece]:
        """Rows in pieces; see :meth:`Table.read`."""
        with self._errors():
            for start, batch in self._batches(chosen, None):
                features = np.empty((batch.num_rows, self.n_features), self._dtype)
                for at, column in enumerate(self._others):
                    features[:, at] = self._numbers(batch.column(column), start, column,
                                                    features.dtype)
                labels = np.zeros(batch.num_rows)
                if self._label is not None and self._labelled:
                    labels = self._labels(batch.column(self._label), start)
                piece = Piece(np.arange(start, start + len(labels)), features, labels)
                piece = piece.select(chosen)
                if len(piece.rows):
                    yield piece

    def _measure(self) -> tuple[int, Any]:
        """Number of rows, and the schema; no values are read."""
        if self._is_parquet:
            with self._arrow.parquet.ParquetFile(self._path) as file:
                return file.metadata.num_rows, file.schema_arrow
        with self._arrow.memory_map(str(self._path)) as source:
            schema, batches = self._ipc(source)
            return sum(batch.num_rows for batch in batches), schema

    def _ipc(self, source: Any) -> tuple[Any, Iterator[Any]]:
        """Schema and record batches of an IPC file or stream."""
        with self._path.open("rb") as file:
            is_file = file.read(len(_MAGIC)) == _MAGIC
        if not is_file:
            stream = self._arrow.ipc.open_stream(source)
            return stream.schema, iter(stream)
        file = self._arrow.ipc.open_file(source)
        return file.schema, (file.get_batch(number) for number in range(file.num_record_batches))

    def _batches(self, chosen: np.ndarray | None,
                 columns: list[int] | None) -> Iterator[tuple[int, Any]]:
        """First row and batch of columns (None: all); batches without chosen rows are skipped."""
        size, start = max(1, PIECE_VALUES // (self.n_features + 1)), 0
        if self._is_parquet:
            # Column chunks are read as they are needed: whole row groups may be large.
            with self._arrow.parquet.ParquetFile(self._path, buffer_size=_BUFFER,
                                                 pre_buffer=False) as file:
                names = None if columns is None else [file.schema_arrow.names[column]
                                                      for column in columns]
                for group in range(file.num_row_groups):
                    stop = start + file.metadata.row_group(group).num_rows
                    if _some(chosen, start, stop):
                        at = start
                        for batch in file.iter_batches(size, row_groups=[group], columns=names):
                            yield at, batch
                            at += batch.num_rows
                    start = stop
            return
        with self._arrow.OSFile(str(self._path), "rb") as source:
            for batch in self._ipc(source)[1]:
                if columns is not None:
                    batch = batch.select(columns)
                for at in range(0, batch.num_rows, size):
                    part = batch.slice(at, size)
                    if _some(chosen, start + at, start + at + part.num_rows):
                        yield start + at, part
                start += batch.num_rows

    def _is_text(self, kind: Any) -> bool:
        """True of text, and of a dictionary of texts, as pandas writes a categorical column. Polars
        writes views of text to IPC files, which older versions of pyarrow have no name for.
        """
        types = self._arrow.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        return types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"

    def _find_names(self) -> NamedLabels:
        """Labels of text, from a pass over their column."""
        assert self._label is not None
        found: dict[str, int] = {}
        with self._errors():
            for start, batch in self._batches(None, [self._label]):
                column = batch.column(0)
                self._refuse_missing(column, start, self._label)
                texts, places = self._texts(column)
                _, first = np.unique(places, return_index=True)
                for at in np.sort(first).tolist():
                    found.setdefault(texts[places[at]], start + at)
        return NamedLabels(found.items(), self._path)

    def _texts(self, column: Any) -> tuple[list[str], np.ndarray]:
        """Different texts of a column, and the number of each row's."""
        if not self._arrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        return column.dictionary.to_pylist(), column.indices.to_numpy(zero_copy_only=False)

    def _labels(self, column: Any, start: int) -> np.ndarray:
        """Labels of a batch as numbers."""
        if self._named is None:
            assert self._label is not None
            return self._numbers(column, start, self._label, np.dtype(np.float64))
        assert self._label is not None
        self._refuse_missing(column, start, self._label)
        texts, places = self._texts(column)
        used, places = np.unique(places, return_inverse=True)
        return self._named.numbers([texts[number] for number in used], start)[places]

    def _numbers(self, column: Any, start: int, number: int, dtype: np.dtype) -> np.ndarray:
        self._refuse_missing(column, start, number)
        return column.to_numpy(zero_copy_only=False).astype(dtype, copy=False)

    def _refuse_missing(self, column: Any, start: int, number: int) -> None:
        if column.null_count:
            row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(f"{self._path}: found nothing in row {row}, column {number} (counted "
                            "from 0); every value must be a finite number; remove the row or fill "
                            "in a value")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (self._arrow.ArrowInvalid, self._arrow.ArrowNotImplementedError,
                OSError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{self._path}: the file cannot be read ({reason}); it must be a whole "
                            f"{self._path.suffix} file; copy or create it again") from error


def _index_columns(schema: Any) -> set[str]:
    """Columns that are the index of the DataFrame that was written, by what pandas and Dask say of
    it; as pandas reads such a file, they are no columns. They are the last ones.
    """
    found = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in found if isinstance(name, str)}    # others are no columns


def _some(chosen: np.ndarray | None, start: int, stop: int) -> bool:
    return chosen is None or bool(np.searchsorted(chosen, start) < np.searchsorted(chosen, stop))
