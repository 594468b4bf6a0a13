"""LIBSVM text, read with NumPy alone: ``label index:value index:value ...``, one row a line."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

import numpy as np

from bitstep.data.dataset import DataError, NoRowsError
from bitstep.data.text import check_line_ends, line_chunks

MAX_FEATURES = 1 << 20       # a larger index asks for more memory than a dense matrix may have

_ALLOWED = b"0123456789+-.eE: \t\r\n"
_FOREIGN = re.compile(rb"[^0-9+\-.eE: \t\r\n]")
_COMMENT = re.compile(rb"#[^\n]*")
_INDEX_ZERO = re.compile(rb"[ \t]0+:")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)


class WidthError(DataError):
    """An index beyond the columns that a text may have.

    Attributes
    ----------
    found : int
        Columns up to the index.
    """

    def __init__(self, found: int, message: str):
        super().__init__(message)
        self.found = found


class SparseRows(NamedTuple):
    """Rows of some text: the pairs of all rows one after the other, ``counts`` to each row."""

    labels: np.ndarray
    counts: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    def part(self, start: int, stop: int) -> "SparseRows":
        """Some of the rows."""
        first, last = int(self.counts[:start].sum()), int(self.counts[:stop].sum())
        return SparseRows(self.labels[start:stop], self.counts[start:stop],
                          self.indices[first:last], self.values[first:last])

    def fill(self, target: np.ndarray, base: int) -> None:
        """Write the values into a matrix of zeros, whose first column is index ``base``."""
        rows, width = target.shape
        if len(self.values) == rows * width:
            target[:] = self.values.reshape(rows, width)
        else:
            target[np.repeat(np.arange(rows), self.counts), self.indices - base] = self.values


def read_libsvm(file: BinaryIO, path: Path,
                n_features: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a LIBSVM text.

    A missing index is a zero. Indices count from 0 in a file in which an index 0 occurs, and from 1
    in any other. Comments (from ``#`` to the end of the line) and empty lines are skipped.

    Parameters
    ----------
    file : binary file
        The text, already decompressed.
    path : Path
        For messages.
    n_features : int, optional
        Columns of the result; default: the largest index of the file.

    Returns
    -------
    features : ndarray of float64, shape (n_rows, n_features)
    labels : ndarray of float64, shape (n_rows,)

    Raises
    ------
    DataError
        With file and line: a token that is not a number or a pair, a value that is not finite,
        indices that do not increase or are beyond ``n_features``, a ``qid``, no rows.
    """
    chunks = list(sparse_rows(file, path))
    used = [chunk.indices for chunk in chunks if len(chunk.indices)]
    # Only the whole file shows where indices start, so pairs wait until here to become columns.
    base = 0 if any((indices == 0).any() for indices in used) else 1
    found = max((int(indices.max()) + 1 - base for indices in used), default=0)
    features = np.zeros((sum(len(chunk.labels) for chunk in chunks),
                         checked_width(found, n_features, path)))
    start = 0
    for chunk in chunks:
        rows = len(chunk.labels)
        chunk.fill(features[start:start + rows], base)
        start += rows
    return features, np.concatenate([chunk.labels for chunk in chunks])


def checked_width(found: int, n_features: int | None, path: Path) -> int:
    """Columns of a file: as many as it has, or as it should have.

    Parameters
    ----------
    found : int
        Columns up to the largest index.
    n_features : int or None
        Columns that were asked for.

    Raises
    ------
    WidthError
        If there are more.
    DataError
        If there are none.
    """
    width = found if n_features is None else n_features
    if found > width:
        raise WidthError(found, f"{path}: found {found} features, but n_features is {width}; all "
                         "indices must fit n_features, so raise it or leave it out")
    if width == 0:
        raise labels_only(path)
    return width


def labels_only(path: Path) -> DataError:
    """The error for a file in which no row has a feature."""
    return DataError(f"{path}: found labels only: no row has an index:value pair; give the file "
                     "that holds the features, too")


def has_pairs(file: BinaryIO) -> bool:
    """Return True if a LIBSVM text has an index:value pair."""
    return any(b":" in _without_comments(text) for text, _ in line_chunks(file))


def sparse_rows(file: BinaryIO, path: Path) -> Iterator[SparseRows]:
    """Rows of a LIBSVM text, some after the other; see :func:`read_libsvm`."""
    is_empty = True
    for text, line in line_chunks(file):
        if line == 1:
            check_line_ends(text, path)
        rows = _parse(text, line, path)
        if len(rows.labels):
            is_empty = False
            yield rows
    if is_empty:
        raise NoRowsError(f"{path}: the file has no rows; each line must hold a label and "
                          "index:value pairs")


def count_libsvm_rows(file: BinaryIO) -> int:
    """Number of rows of a LIBSVM text, whose lines are not looked at."""
    return sum(bool(line.strip()) for text, _ in line_chunks(file)
               for line in _without_comments(text).split(b"\n"))


def first_index(file: BinaryIO) -> int:
    """Index that columns count from: 0 if an index 0 occurs anywhere, else 1."""
    return 0 if any(_INDEX_ZERO.search(_without_comments(text)) for text, _ in line_chunks(file)) \
        else 1


def _without_comments(text: bytes) -> bytes:
    return _COMMENT.sub(b"", text) if b"#" in text else text


def _parse(text: bytes, first_line: int, path: Path) -> SparseRows:
    text = _without_comments(text)
    if text.translate(None, _ALLOWED):
        _refuse_foreign(text, first_line, path)
    characters = np.frombuffer(text, np.uint8)
    filled = characters > 32
    edges = np.flatnonzero(np.diff(filled, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return SparseRows(*(np.zeros(0, kind) for kind in (float, np.int64, np.int64, float)))
    line = np.searchsorted(np.flatnonzero(characters == 10), starts)
    leads = np.diff(line, prepend=-1) != 0     # the first token of a line is its label

    def check(good: np.ndarray, tokens: np.ndarray, must: str) -> None:
        if not good.all():
            token = tokens[int(np.argmin(good))]
            found = text[starts[token]:ends[token]].decode("ascii")
            raise DataError(f"{path}, line {first_line + line[token]}: found {found!r}; {must}")

    colons = np.flatnonzero(characters == ord(":"))
    per_token = np.searchsorted(colons, ends) - np.searchsorted(colons, starts)
    check(per_token == ~leads, np.arange(len(starts)),
          "a line must be a label followed by pairs index:value; correct the line")
    pairs = np.flatnonzero(~leads)
    is_digit = characters - np.uint8(ord("0")) < 10
    digits = np.concatenate([[0], np.cumsum(is_digit, dtype=np.int32)])
    width = colons - starts[pairs]
    check((digits[colons] - digits[starts[pairs]] == width) & (width > 0), pairs,
          "an index must be a whole number of at least 0; correct the line")
    check(colons + 1 < ends[pairs], pairs, "a value must follow the colon; correct the line")

    rows = np.flatnonzero(leads)
    at_labels = 2 * rows - np.arange(len(rows))    # a label is one word, a pair is two
    words = text.replace(b":", b" ").split()
    try:
        numbers = np.array(list(map(float, words)))
    except ValueError:
        numbers = np.array([_is_number(word) for word in words])
        check(np.delete(numbers, at_labels)[1::2], pairs,
              "a value must be a number; correct the line")
        check(numbers[at_labels], rows, "a label must be a number; correct the line")
    labels = numbers[at_labels]
    table = np.delete(numbers, at_labels).reshape(-1, 2)
    finite = "values must be finite in 64-bit floating point; correct the line"
    check(np.isfinite(labels), rows, finite)
    check(np.isfinite(table[:, 1]), pairs, finite)
    check(table[:, 0] <= MAX_FEATURES, pairs,
          f"an index must be at most {MAX_FEATURES}; leave out columns (bitstep trains dense "
          "models)")
    indices = table[:, 0].astype(np.int64)
    increases = (np.diff(indices, prepend=-1) > 0) | leads[pairs - 1]
    check(increases, pairs, "the indices of a line must increase, each at most once; sort the line")
    counts = np.diff(rows, append=len(starts)) - 1
    return SparseRows(labels, counts, indices, table[:, 1].copy())


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _refuse_foreign(text: bytes, first_line: int, path: Path) -> NoReturn:
    """Raise the error for the first token with a character that no row can hold."""
    match = _FOREIGN.search(text)
    assert match is not None
    before, after = text[:match.start()], text[match.start():]
    start = len(before) - len(re.split(rb"[ \t\r\n]", before)[-1])
    token = text[start:match.start() + len(re.split(rb"[ \t\r\n]", after)[0])]
    value = token.rpartition(b":")[2]
    if token.startswith(b"qid:"):
        must = "query ids are for ranking, which bitstep does not do; remove them"
    elif _NOT_FINITE.fullmatch(value):
        must = "values must be finite; remove the row or fill in a value"
    else:
        must = "a line must be a label followed by pairs index:value; correct the line"
    line = first_line + text.count(b"\n", 0, start)
    raise DataError(f"{path}, line {line}: found {token[:60].decode('utf-8', 'replace')!r}; {must}")
