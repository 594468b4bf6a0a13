"""The column of a label, and labels of a text: numbers, or names of classes."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitstep.data.dataset import MAX_CLASSES, DataError, NoLabelError
from bitstep.data.near import did_you_mean

LAST = -1                   # the label's column unless another is asked for
_PLACES = {"first": 0, "last": LAST}
_SHOWN = 12                 # names of columns that a message lists
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_COMMA = "write a decimal point in place of the comma, or nothing between thousands"


@dataclass(frozen=True)
class NoLabel:
    """In place of the label's column: labels are not read, and are 0 for every row.

    Attributes
    ----------
    column : str, int or None
        Column that is not read, as that of a label is named; None: all columns are features.
    """

    column: str | int | None = None


# A function chooses by the names of all columns, which are None where they have none.
LabelColumn = str | int | NoLabel | Callable[
    [tuple[str, ...] | None], str | int | NoLabel]


def chosen_column(label_column: LabelColumn,
                  names: Sequence[str] | None) -> str | int | NoLabel:
    """The label's column of data whose columns have these names."""
    if callable(label_column):
        return label_column(None if names is None else tuple(names))
    return label_column


def asked_column(label_column: LabelColumn) -> str | int:
    """The column that is asked for of data whose labels are in no column."""
    found = chosen_column(label_column, None)
    if isinstance(found, NoLabel):
        found = LAST if found.column is None else found.column
    return found


def label_position(label_column: str | int | NoLabel, columns: int,
                   names: Sequence[str] | None = None, path: Path | None = None) -> int | None:
    """Number of the label's column, from 0; None: there is none.

    Parameters
    ----------
    label_column : str, int or NoLabel
        A name of ``names``, or ``first``, ``last``, or a number from 0; negative ones count from
        the end.
    columns : int
        Columns of a row.
    names : sequence of str or None
        Their names, if they have some.
    path : Path or None
        The file, for messages.

    Raises
    ------
    DataError
        If there is no such column, or there are several of the name.
    """
    if isinstance(label_column, NoLabel):
        if label_column.column is None:
            return None
        label_column = label_column.column
    place = f"{path}: " if path is not None else ""
    if isinstance(label_column, str):
        count = list(names or ()).count(label_column)
        if count == 1:
            return list(names or ()).index(label_column)
        if count:
            raise DataError(f"{place}found {count} columns of the name {label_column!r}; give the "
                            "number of the label's column (from 0)")
        try:
            label_column = _PLACES[label_column] if label_column in _PLACES else int(label_column)
        except ValueError:
            known = f"the names {_listed(names)}" if names else "no line of names"
            raise DataError(f"{place}the label's column must be a name, a number, first or last, "
                            f"not {label_column!r}; found {columns} columns with {known}"
                            f"{did_you_mean(str(label_column), names or ())}") from None
    if not -columns <= label_column < columns:
        raise DataError(f"{place}the label's column must be from {-columns} to {columns - 1}, not "
                        f"{label_column}: a row has {columns} columns")
    return label_column % columns


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")


class TextLabels:
    """Labels of a text, from its first row to its last.

    The first label decides: if it is a number, all must be, else all are names of classes.

    Parameters
    ----------
    path : Path
        For messages.
    names : tuple of str or None
        Names of the classes, in the order of their numbers, if they are known.
    """

    def __init__(self, path: Path, names: tuple[str, ...] | None = None):
        self._path = path
        self._numbers: dict[str, int] | None = None if names is None else {
            name: number for number, name in enumerate(names)}
        self._fixed, self._begun = names is not None, names is not None
        self._lines: dict[str, int] = {}        # in which a name occurred first

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names so far, in the order of their numbers; None if labels are numbers."""
        return None if self._numbers is None else tuple(self._numbers)

    def read(self, fields: Sequence[str | bytes], lines: Sequence[int], column: int) -> np.ndarray:
        """Labels, or the numbers of their classes.

        Parameters
        ----------
        fields : sequence of str or bytes
        lines : sequence of int
            Their lines, for messages.
        column : int
            Their column, for messages.

        Returns
        -------
        ndarray of float64, shape (n_rows,)

        Raises
        ------
        DataError
            With line and column, if a label is missing, no number among numbers, or there are more
            than 256 names.
        """
        if not self._begun:
            self._begun = True
            if is_number(fields[0]) is None:
                self._numbers = {}
        if self._numbers is None:
            return self._values(fields, lines, column)
        texts = [field.decode("utf-8", "replace") if isinstance(field, bytes) else field
                 for field in fields]
        names = [text.strip() for text in texts]
        for name in dict.fromkeys(names):
            if name not in self._numbers:
                self._add(name, lines[names.index(name)], column)
        return np.array([self._numbers[name] for name in names], np.float64)

    def in_order(self, numbers: np.ndarray) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """All labels and the names, with names in alphabetical order.

        Parameters
        ----------
        numbers : ndarray of float64, shape (n_rows,)
            Labels of all rows, as :meth:`read` gave them.

        Raises
        ------
        DataError
            If some of the names are numbers: then the others are slips, or missing values.

        Warns
        -----
        UserWarning
            If line 1 alone has its label, while others repeat: it may hold the columns' names.
        """
        names = self.names
        if names is None:
            return numbers, None
        is_first = self._lines.get(names[0]) == 1
        hint = "if line 1 holds the names of the columns, none may be a number"
        value = next((name for name in names if is_number(name) is not None), None)
        if value is not None:
            raise DataError(
                f"{self._path}: found {names[0]!r} (line {self._lines[names[0]]}) and {value!r} "
                f"(line {self._lines[value]}) as labels; all must be finite numbers, or all names; "
                f"remove the row or fill in a value{'; ' * is_first}{hint * is_first}")
        if is_first and len(names) < len(numbers) and np.count_nonzero(numbers == 0) == 1:
            warnings.warn(f"{self._path}: line 1 has numbers, so it is read as a row, and no other "
                          f"row has its label, {names[0]!r}; {hint}", stacklevel=2)
        order = sorted(range(len(names)), key=names.__getitem__)
        ranks = np.empty(len(names))
        ranks[order] = np.arange(len(names))
        return ranks[numbers.astype(np.int64)], tuple(names[number] for number in order)

    def _add(self, name: str, line: int, column: int) -> None:
        assert self._numbers is not None
        place = f"{self._path}, line {line}, column {column + 1}"
        if not name:
            raise NoLabelError(f"{place}: found no label; every row must have one; remove the row "
                               "or fill it in")
        if "\ufffd" in name or "\0" in name:
            raise DataError(f"{place}: found a label that is no text in UTF-8; save the file as "
                            "UTF-8")
        if DECIMAL_COMMA.fullmatch(name):
            raise DataError(f"{place}: found {name!r}; a label must be a finite number or the name "
                            f"of a class; {_COMMA}")
        if self._fixed:
            raise DataError(f"{self._path}: the file changed while it was read; it must stay as it "
                            "is until the command is over; run the command again")
        if len(self._numbers) == MAX_CLASSES:
            some = ", ".join(repr(known) for known in list(self._numbers)[:3])
            raise DataError(f"{place}: found more than {MAX_CLASSES} different labels ({some}, ...)"
                            "; if the label is in another column, say which (label_column)")
        self._numbers[name], self._lines[name] = len(self._numbers), line

    def _values(self, fields, lines, column):
        """Labels that are numbers."""
        try:
            values = np.array(list(map(float, fields)))
            if np.isfinite(values).all() and not any(map(_has_underscore, fields)):
                return values
        except ValueError:
            pass
        found = [is_number(field) for field in fields]
        for at, value in enumerate(found):
            if value is None or not np.isfinite(value):
                text = fields[at]
                text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
                remedy = _COMMA if DECIMAL_COMMA.fullmatch(text.strip()) \
                    else "remove the row or fill in a value"
                raise DataError(
                    f"{self._path}, line {lines[at]}, column {column + 1}: found "
                    f"{text.strip()[:60]!r}; every label must be a finite number, as the first one "
                    f"is, or all of them names; {remedy}")
        return np.array(found, np.float64)


def is_number(field: str | bytes) -> float | None:
    """The number that a field holds, or None."""
    try:
        value = float(field)
    except ValueError:
        return None
    return None if _has_underscore(field) else value


def _has_underscore(field: str | bytes) -> bool:
    """True for what float() takes, as 1_000, and nobody else does."""
    return "_" in field if isinstance(field, str) else b"_" in field
