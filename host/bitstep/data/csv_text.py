"""Comma-separated numbers, with or without a line of column names."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bitstep.data.dataset import DataError
from bitstep.data.text import line_chunks

LABEL_COLUMNS = ("last", "first")


def read_csv(file: BinaryIO, path: Path, label_column: str = "last",
             ) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]:
    """Features, labels and feature names of a comma-separated text.

    The first line holds the names if none of its fields is a number. Empty lines are skipped.

    Parameters
    ----------
    file : binary file
        The text, already decompressed.
    path : Path
        For messages.
    label_column : {"last", "first"}
        Where the label stands.

    Returns
    -------
    features : ndarray of float64, shape (n_rows, n_features)
    labels : ndarray of float64, shape (n_rows,)
    feature_names : tuple of str, or None

    Raises
    ------
    DataError
        With file and line: a field that is not a finite number, rows of different lengths, less
        than two columns, no rows.
    """
    label_position(label_column, 2)
    found = list(csv_tables(file, path))
    names, numbers = found[0][0], np.concatenate([block for _, block in found])
    label = label_position(label_column, numbers.shape[1])
    if names is not None:
        names = names[:label] + names[label + 1:]
    return np.delete(numbers, label, axis=1), numbers[:, label].copy(), names


def label_position(label_column: str, columns: int) -> int:
    """Number of the label's column.

    Raises
    ------
    DataError
        If it is neither the first nor the last one.
    """
    if label_column not in LABEL_COLUMNS:
        raise DataError(f"label_column must be one of {', '.join(LABEL_COLUMNS)}, "
                        f"not {label_column!r}")
    return 0 if label_column == "first" else columns - 1


def csv_tables(file: BinaryIO, path: Path) -> Iterator[tuple[tuple[str, ...] | None, np.ndarray]]:
    """Column names, and the numbers of some rows after the other; see :func:`read_csv`.

    Yields
    ------
    names : tuple of str, or None
        The same every time.
    numbers : ndarray of float64, shape (rows, n_columns)
        At least one row.
    """
    names, columns, is_empty = None, None, True
    for text, first_line in line_chunks(file):
        lines = _lines(text, first_line)
        if columns is None and lines:
            number, line = lines[0]
            columns, names = _head(line)
            if columns < 2:
                raise DataError(f"{path}, line {number}: found one column; a row must have a label "
                                "and at least one feature, separated by commas")
            if names is not None:
                lines = lines[1:]
        if lines and columns is not None:
            is_empty = False
            yield names, _parse(lines, columns, path)
    if is_empty:
        raise DataError(f"{path}: the file has no rows; each line must hold numbers separated by "
                        "commas")


def count_csv_rows(file: BinaryIO) -> int:
    """Number of rows of a comma-separated text, whose fields are not looked at."""
    count, is_first = 0, True
    for text, first_line in line_chunks(file):
        lines = _lines(text, first_line)
        count += len(lines)
        if is_first and lines:
            count -= _head(lines[0][1])[1] is not None
            is_first = False
    return count


def _lines(text: bytes, first_line: int) -> list[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers."""
    return [(number, line) for number, line in enumerate(text.split(b"\n"), start=first_line)
            if line.strip()]


def _head(line: bytes) -> tuple[int, tuple[str, ...] | None]:
    """Number of columns, and their names if the line has some."""
    fields = next(csv.reader([line.decode("utf-8", "replace")]))
    if any(_is_number(field) for field in fields):
        return len(fields), None
    return len(fields), tuple(field.strip() for field in fields)


def _parse(lines: list[tuple[int, bytes]], columns: int, path: Path) -> np.ndarray:
    for number, line in lines:
        if line.count(b",") != columns - 1:
            raise DataError(f"{path}, line {number}: found {line.count(b',') + 1} columns; every "
                            f"row must have {columns}, like the first line; correct the line")
    fields = b",".join([line for _, line in lines]).split(b",")
    try:
        numbers = np.array(list(map(float, fields)))
        good = np.isfinite(numbers)
    except ValueError:
        numbers, good = np.zeros(0), np.array([_is_number(field) for field in fields])
    underscored = any(b"_" in line for _, line in lines)     # float() takes 1_000, no one else does
    if underscored:
        good = good & np.array([b"_" not in field for field in fields])
    if not good.all():
        at = int(np.argmin(good))
        raise DataError(
            f"{path}, line {lines[at // columns][0]}, column {at % columns + 1}: found "
            f"{fields[at].strip()[:60].decode('utf-8', 'replace')!r}; every field must be a finite "
            "number; remove the row or fill in a value")
    return numbers.reshape(-1, columns)


def _is_number(field: str | bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
