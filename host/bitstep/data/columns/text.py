"""Text of columns: separated by commas, semicolons or tabs, with or without a line of names."""

import csv
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from bitstep.data.columns.labels import (
    DECIMAL_COMMA,
    LAST,
    LabelColumn,
    NoLabel,
    TextLabels,
    chosen_column,
    is_number,
    label_position,
)
from bitstep.data.dataset import DataError, NoLabelError, NoRowsError
from bitstep.data.text import check_line_ends, line_chunks

CSV_SUFFIXES = (".csv", ".tsv")
_DELIMITERS = (";", "\t", ",")
_INDEX_NAMES = ("", "Unnamed: 0")       # as pandas writes it, and again what it has read
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")

_Lines = list[tuple[int, bytes]]


class CsvRows(NamedTuple):
    """Some rows of a text.

    Attributes
    ----------
    names : tuple of str, or None
        Names of the features; the same every time.
    features : ndarray of float64, shape (n_rows, n_features)
    labels : ndarray of float64, shape (n_rows,)
        Of classes with names their numbers.
    """

    names: tuple[str, ...] | None
    features: np.ndarray
    labels: np.ndarray


class CsvSet(NamedTuple):
    """All rows of a text; ``class_names`` are in alphabetical order, None if labels are numbers."""

    features: np.ndarray
    labels: np.ndarray
    names: tuple[str, ...] | None
    class_names: tuple[str, ...] | None


class _Layout(NamedTuple):
    """Findings of the first line."""

    line: int
    delimiter: str
    columns: int
    label: int | None
    names: tuple[str, ...] | None
    labelled: bool
    blank: bool                     # the label's column has a name, which is empty


def read_csv(file: BinaryIO, path: Path, label_column: LabelColumn = LAST) -> CsvSet:
    """Features, labels and names of a text.

    What separates the columns is a semicolon, a tab or a comma, as the first line has it. That line
    holds the names if none of its fields is a number, or if its numbers are those of the columns
    (0, 1, 2 and more, as pandas writes them) beside a name. Fields may be in double quotes. Empty
    lines are skipped.

    Parameters
    ----------
    file : binary file
        The text in UTF-8, already decompressed.
    path : Path
        For messages.
    label_column : str, int, NoLabel or callable
        See :data:`bitstep.data.columns.labels.LabelColumn` and
        :func:`bitstep.data.columns.labels.label_position`.

    Returns
    -------
    CsvSet

    Raises
    ------
    DataError
        With file and line: a feature that is not a finite number, a label as in
        :class:`bitstep.data.columns.labels.TextLabels`, rows of different lengths, less than two
        columns, no rows.
    """
    labels = TextLabels(path)
    found = list(csv_rows(file, path, label_column, labels))
    numbers, class_names = labels.in_order(np.concatenate([part.labels for part in found]))
    return CsvSet(np.concatenate([part.features for part in found]), numbers, found[0].names,
                  class_names)


def csv_rows(file: BinaryIO, path: Path, label_column: LabelColumn,
             labels: TextLabels) -> Iterator[CsvRows]:
    """Some rows after the other, at least one each; see :func:`read_csv`.

    Parameters
    ----------
    labels : TextLabels
        Reads the labels, and has their names.

    Warns
    -----
    UserWarning
        At the end, if the first column is the index of a DataFrame.
    """
    layout, is_empty, index = None, True, _Index(path)
    for text, first_line in line_chunks(file):
        if first_line == 1:
            check_line_ends(text, path)
        lines = _lines(text, first_line)
        if layout is None and lines:
            layout, is_header = _layout(lines[0], path, label_column)
            lines = lines[is_header:]
        if lines and layout is not None:
            is_empty = False
            rows = _parse(lines, layout, path, labels)
            index.look(rows, layout)
            yield rows
    index.warn()
    if is_empty:
        raise NoRowsError(f"{path}: the file has no rows"
                          + (" below the line of names" if layout is not None else "")
                          + "; each line must hold numbers separated by commas")


class _Index:
    """A first column that may be the index of a DataFrame: without a name, and counting rows.

    Rows that were dropped leave gaps, so it is one if whole numbers increase from row to row.
    """

    def __init__(self, path: Path):
        self._path, self._first, self._last = path, None, -1.0
        self._counts, self._n_rows = True, 0

    def look(self, rows: CsvRows, layout: _Layout) -> None:
        """Take in the next rows."""
        if not self._counts or layout.label == 0 or layout.names is None \
                or layout.names[0] not in _INDEX_NAMES:
            self._counts = False
            return
        values = rows.features[:, 0]
        steps = np.diff(values, prepend=self._last)
        self._counts = bool((steps > 0).all() and (values == np.floor(values)).all())
        self._first = values[0] if self._first is None else self._first
        self._last, self._n_rows = values[-1], self._n_rows + len(values)

    def warn(self) -> None:
        """Warn of it after the last row."""
        if self._counts and self._n_rows > 1:
            warnings.warn(
                f"{self._path}: the first column has no name of its own and counts the rows, from "
                f"{self._first:.0f} to {self._last:.0f}: it is a pandas index, and is read as a "
                "feature; write the file without it (to_csv(..., index=False))", stacklevel=2)


def count_csv_rows(file: BinaryIO, path: Path) -> int:
    """Number of rows of a text, whose fields are not looked at."""
    count, is_first = 0, True
    for text, first_line in line_chunks(file):
        lines = _lines(text, first_line)
        count += len(lines)
        if is_first and lines:
            count -= _is_header(_fields(lines[0], _delimiter(lines[0][1]), path))
            is_first = False
    return count


def _lines(text: bytes, first_line: int) -> _Lines:
    """Lines that are not empty, with their numbers."""
    return [(number, line) for number, line in enumerate(text.split(b"\n"), start=first_line)
            if line.strip()]


def _layout(first: tuple[int, bytes], path: Path,
            label_column: LabelColumn) -> tuple[_Layout, bool]:
    """Columns of a text, from its first line; True if that holds their names."""
    number, line = first
    if b"\0" in line:
        raise DataError(f"{path}, line {number}: found bytes that are no text in UTF-8 (they may "
                        "be UTF-16); save the file as UTF-8")
    delimiter = _delimiter(line)
    fields = _fields(first, delimiter, path)
    names = tuple(fields) if _is_header(fields) else None
    for at, name in enumerate(names or ()):
        if "\ufffd" in name:        # of which other columns may have the same
            raise DataError(f"{path}, line {number}, column {at + 1}: found a name that is no text "
                            "in UTF-8; save the file as UTF-8")
    label_column = chosen_column(label_column, names)
    labelled = not isinstance(label_column, NoLabel)
    if len(fields) < 1 + labelled:
        raise DataError(f"{path}, line {number}: found one column; a row must have a label and at "
                        "least one feature, separated by commas, semicolons or tabs")
    label = label_position(label_column, len(fields), names, path)
    found = None if names is None else tuple(
        name for number, name in enumerate(names) if number != label)
    blank = names is not None and label is not None and not names[label]
    return _Layout(number, delimiter, len(fields), label, found, labelled, blank), names is not None


def _delimiter(line: bytes) -> str:
    """What separates the columns: that between numbers, else the most frequent one."""
    text = re.sub('"[^"]*"', '""', line.decode("utf-8", "replace").strip())
    for delimiter in _DELIMITERS[:2]:       # a comma may be that of a decimal
        fields = text.split(delimiter)
        if len(fields) > 1 and all(is_number(field.replace(",", ".")) is not None
                                   for field in fields[:-1]):
            return delimiter
    return max(_DELIMITERS, key=text.count)


def _fields(line: tuple[int, bytes], delimiter: str, path: Path) -> list[str]:
    """Fields of a line, without blanks around them."""
    if b'"' not in line[1]:
        return [field.strip() for field in line[1].decode("utf-8", "replace").split(delimiter)]
    return [field.strip() for field in _quoted([line], delimiter, path)[0]]


def _is_header(fields: Sequence[str]) -> bool:
    """True if the fields of the first line are names of columns."""
    numbers = [at for at, field in enumerate(fields)
               if is_number(field) is not None or DECIMAL_COMMA.fullmatch(field)]
    counted = all(fields[at] == str(at) for at in numbers)
    return not numbers or (counted and 3 <= len(numbers) < len(fields))


def _quoted(lines: _Lines, delimiter: str, path: Path) -> list[list[str]]:
    """Fields of lines some of which are in quotes."""
    reader = csv.reader((line.decode("utf-8", "replace") for _, line in lines),
                        delimiter=delimiter, strict=True, skipinitialspace=True)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if reader.line_num > len(rows) + 1:
                raise csv.Error("its end is on another line")
            rows.append(row)
    except csv.Error as error:
        number = lines[len(rows)][0]
        raise DataError(f"{path}, line {number}: found a field in quotes that cannot be read "
                        f"({error}); a quoted field must end on its line, with a comma, semicolon "
                        "or tab after it; correct the line") from error
    return rows


def _parse(lines: _Lines, layout: _Layout, path: Path, labels: TextLabels) -> CsvRows:
    """Features and labels of some lines."""
    _, delimiter, columns, label, names, labelled, _ = layout
    numbers = [number for number, _ in lines]
    fields: list[str] | list[bytes]
    if any(b'"' in line for _, line in lines):
        rows = _quoted(lines, delimiter, path)
        counts = map(len, rows)
    else:
        mark = delimiter.encode()
        rows, counts = None, (line.count(mark) + 1 for _, line in lines)
    for number, count in zip(numbers, counts, strict=True):
        if count != columns:
            raise DataError(f"{path}, line {number}: found {count} columns; every row must have "
                            f"{columns}, like the first line; correct the line")
    fields = [field for row in rows for field in row] if rows is not None else \
        mark.join([line for _, line in lines]).split(mark)
    width = columns
    found = np.zeros(len(numbers))
    if label is not None:
        width -= 1
        if labelled:
            try:
                found = labels.read(fields[label::columns], numbers, label)
            except NoLabelError as error:
                if not layout.blank:
                    raise
                raise NoLabelError(f"{error}; the column has no name either: lines that end with a "
                                   "separator have an empty last column, so say which is the label "
                                   "(label_column)") from None
        del fields[label::columns]
    try:
        values = np.array(list(map(float, fields)))
        good = np.isfinite(values)
    except ValueError:
        values, good = np.zeros(0), np.zeros(len(fields), bool)
    if not good.all() or any(b"_" in line for _, line in lines):
        for at, field in enumerate(fields):
            value = is_number(field)
            if value is None or not np.isfinite(value):
                raise _no_number(field, path, numbers[at // width], at % width, layout)
    return CsvRows(names, values.reshape(-1, width), found)


def _no_number(field: str | bytes, path: Path, line: int, feature: int,
               layout: _Layout) -> DataError:
    """The error for a feature that is no finite number."""
    text = (field.decode("utf-8", "replace") if isinstance(field, bytes) else field).strip()[:60]
    label = layout.label
    column = feature + (label is not None and feature >= label)
    remedy = "remove the row or fill in a value"
    if _THOUSANDS.fullmatch(text) and layout.delimiter == ",":
        remedy = "write it without commas between thousands"
    elif DECIMAL_COMMA.fullmatch(text):
        remedy = "write a decimal point in place of the comma"
    elif text and is_number(text) is None:
        remedy = ("remove the row or the column, or, if it is the label, say so "
                  f"(label_column={column})")
        if line == layout.line:
            remedy += "; if the line holds the names of the columns, none may be a number"
    return DataError(f"{path}, line {line}, column {column + 1}: found "
                     f"{text!r}; every feature must be a finite number; {remedy}")
