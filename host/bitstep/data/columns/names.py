"""Labels that are text in files of arrays and columns: names of classes, or numbers."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bitstep.data.columns.labels import is_number
from bitstep.data.dataset import MAX_CLASSES, DataError, NoLabelError


def checked_name(text: str | bytes, row: int, path: Path) -> str:
    """Text of a label, without spaces around it.

    Parameters
    ----------
    text : str or bytes
        Bytes are UTF-8.
    row : int
        Its row, counted from 0, for messages.
    path : Path

    Raises
    ------
    DataError
        If it is empty, or no text.
    """
    name = (text.decode("utf-8", "replace") if isinstance(text, bytes) else text).strip()
    if not name:
        raise NoLabelError(f"{path}: found no label in row {row} (counted from 0); every row must "
                           "have one; remove the row or fill it in")
    if "\ufffd" in name or "\0" in name:
        raise DataError(f"{path}: found a label in row {row} (counted from 0) that is no text in "
                        "UTF-8; save the file as UTF-8")
    return name


class NamedLabels:
    """Labels of a column of text, whose different ones are known before any row is read.

    As in a text file, either all of them are numbers, or all are names of classes, which are
    numbered in alphabetical order.

    Parameters
    ----------
    found : iterable of (str or bytes, int)
        Different labels, each with the first row that has it; some may be there twice.
    path : Path
        For messages.

    Attributes
    ----------
    names : tuple of str or None
        Names of the classes; None if the labels are numbers.

    Raises
    ------
    DataError
        If a label is missing, some are numbers and others are not, or there are more than 256
        names.
    """

    def __init__(self, found: Iterable[tuple[str | bytes, int]], path: Path):
        self._path = path
        rows: dict[str, int] = {}
        for text, row in found:
            rows.setdefault(checked_name(text, row, path), row)
        values = [name for name in rows if is_number(name) is not None]
        others = [name for name in rows if is_number(name) is None]
        if values and others:
            raise DataError(
                f"{path}: found {others[0]!r} (row {rows[others[0]]}) and {values[0]!r} (row "
                f"{rows[values[0]]}, counted from 0) as labels; all must be finite numbers, or all "
                "names; remove the row or fill in a value")
        if len(others) > MAX_CLASSES:
            some = ", ".join(map(repr, others[:3]))
            raise DataError(f"{path}: found more than {MAX_CLASSES} different labels ({some}, ...)"
                            "; if the label is in another column, say which (label_column)")
        self.names = tuple(sorted(others)) if others else None
        self._numbers = {name: float(number) for number, name in enumerate(self.names or ())}

    def numbers(self, texts: Sequence[str | bytes], row: int) -> np.ndarray:
        """Labels, or the numbers of their classes.

        Parameters
        ----------
        texts : sequence of str or bytes
        row : int
            Row of the first one, for messages.

        Returns
        -------
        ndarray of float64

        Raises
        ------
        DataError
            If one was not there before.
        """
        known: dict[str | bytes, float | None] = {}
        for text in dict.fromkeys(texts):
            name = checked_name(text, row + texts.index(text), self._path)
            known[text] = is_number(name) if self.names is None else self._numbers.get(name)
        if None in known.values():
            raise DataError(f"{self._path}: the file changed while it was read; it must stay as it "
                            "is until the command is over; run the command again")
        return np.array([known[text] for text in texts], np.float64)
