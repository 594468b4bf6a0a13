"""Files of data: which reader a name asks for, and what a broken file is told."""

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any, BinaryIO

from bitstep.data.columns.labels import LAST, LabelColumn, asked_column
from bitstep.data.columns.text import CSV_SUFFIXES, CsvSet, read_csv
from bitstep.data.dataset import DataError, Dataset
from bitstep.data.libsvm import read_libsvm
from bitstep.data.near import did_you_mean
from bitstep.data.tables.arrays import ArrayTable
from bitstep.data.tables.arrow import ARROW_SUFFIXES, ArrowTable
from bitstep.data.tables.memory import to_dataset
from bitstep.data.tables.table import Table, readable, task_of_labels
from bitstep.data.tables.texts import CsvTable, LibsvmTable

TEXT_SUFFIXES = (".svm", ".libsvm", ".txt")
COMPRESSED_SUFFIXES = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}


def has_known_suffix(path: Path) -> bool:
    """Return True if :func:`read_file` knows what a file of this name holds."""
    suffix, compressed = _suffix(path), path.suffix.lower() in COMPRESSED_SUFFIXES
    return suffix in (*TEXT_SUFFIXES, *CSV_SUFFIXES) or (
        suffix in (".npy", ".npz", *ARROW_SUFFIXES) and not compressed)


def is_stream(path: str | Path) -> bool:
    """Return True for what can be read once at most: standard input (``-``), a pipe, a device."""
    path = Path(path)
    return not (path.is_file() or path.is_dir()) and (str(path) == "-" or path.exists())


def read_file(path: Path, n_features: int | None, label_column: str | int,
              task: str | None) -> Dataset:
    """The data set of a file, read as its suffix asks; parameters as in ``bitstep.data.load``.

    Raises
    ------
    DataError
        If the file is missing, of an unknown kind, cut short or malformed.
    """
    _check_suffix(path)
    suffix = _suffix(path)
    _check_label_column(path, suffix, label_column)
    if suffix not in (*TEXT_SUFFIXES, *CSV_SUFFIXES):
        return to_dataset(open_file(path, n_features, label_column, task))
    features, labels, names, classes = read_text(path, suffix, n_features, label_column)
    if n_features not in (None, features.shape[1]):
        raise _other_features(path, features.shape[1], n_features)
    if classes is not None:
        task = task or "classification"
    return Dataset(_plain(path), features, labels, task or task_of_labels(labels), names, classes)


def read_text(path: Path, suffix: str, n_features: int | None,
              label_column: str | int = LAST) -> CsvSet:
    """Features, labels, and names of features and classes of a text.

    Parameters
    ----------
    path : Path
        The file; the end of its name tells how it is compressed.
    suffix : str
        Kind of the file: one of :data:`CSV_SUFFIXES` or of LIBSVM text.
    n_features, label_column
        As in :func:`bitstep.data.load`.

    Raises
    ------
    DataError
        If the file is cut short or malformed.
    """
    file: BinaryIO
    with readable(path), _opener(path)(path, "rb") as file:
        if suffix in CSV_SUFFIXES:
            return read_csv(file, path, label_column)
        return CsvSet(*read_libsvm(file, path, n_features), None, None)


def open_file(path: Path, n_features: int | None = None, label_column: LabelColumn = LAST,
              task: str | None = None, *, kind: str | None = None) -> Table:
    """A file as a table, whose rows are read in pieces; parameters as in ``bitstep.data.load``.

    Parameters
    ----------
    kind : str or None
        Suffix that says what the file holds; None: that of its name.

    Raises
    ------
    DataError
        If the file is missing, of an unknown kind, cut short or malformed.
    """
    if kind is None:
        _check_suffix(path)
    suffix = kind or _suffix(path)
    _check_label_column(path, suffix, label_column)
    with readable(path):
        if suffix in TEXT_SUFFIXES:
            return LibsvmTable(path, _opener(path), _plain(path), task, n_features=n_features)
        if suffix in CSV_SUFFIXES:
            table = CsvTable(path, _opener(path), _plain(path), task, label_column=label_column)
        elif suffix in ARROW_SUFFIXES:
            table = ArrowTable(path, label_column, task)
        else:
            table = ArrayTable(path, label_column, task)
        if n_features is not None:
            if suffix in CSV_SUFFIXES:
                next(table.pieces())        # which finds out
            found = table.n_features
            if found != n_features:
                raise _other_features(path, found, n_features)
    return table


def _other_features(path, found, n_features):
    return DataError(f"{path}: found {found} features, but n_features is {n_features}; leave "
                     "n_features out")


def files_beside(path: Path) -> list[str]:
    """Names of the data files in a path's folder."""
    try:
        return sorted(one.name for one in path.parent.iterdir() if has_known_suffix(one))
    except OSError:
        return []


def _check_suffix(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; give a file of data in it")
    if is_stream(path):
        raise DataError(f"{path}: this is standard input, a pipe or a device; DATA must be a file, "
                        "since it may be read several times and its suffix says what it holds: "
                        "write it to a file first, such as data.csv, and give that")
    if path.is_symlink() and not path.exists():
        raise DataError(f"{path}: this is a link to {path.readlink()}, where there is no file; "
                        "check the path")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file"
                        + (did_you_mean(path.name, files_beside(path)) or "; check the path"))
    if not has_known_suffix(path):
        raise DataError(f"{path}: found the suffix {path.suffix!r}; it must be "
                        f"{', '.join(TEXT_SUFFIXES)} (LIBSVM), {' or '.join(CSV_SUFFIXES)}, all of "
                        f"them also with {', '.join(COMPRESSED_SUFFIXES)}, .npy, .npz, or "
                        f"{', '.join(ARROW_SUFFIXES)} (pyarrow); rename or convert the file")


def _check_label_column(path: Path, suffix: str, label_column: LabelColumn) -> None:
    """Raise DataError for a label's column of a file in which labels are no column."""
    if suffix not in (*TEXT_SUFFIXES, ".npz"):
        return
    label_column = asked_column(label_column)
    if label_column in (LAST, "last"):
        return
    where = "the array y" if suffix == ".npz" else "the first number of every line"
    raise DataError(f"{path}: the label's column cannot be {label_column!r}, since labels of a "
                    f"{suffix} file are {where}; leave it out")


def _opener(path: Path) -> Any:
    return COMPRESSED_SUFFIXES.get(path.suffix.lower(), open)


def _plain(path: Path) -> str:
    """Name of a data set from that of its file."""
    return (Path(path.stem) if path.suffix.lower() in COMPRESSED_SUFFIXES else path).stem


def _suffix(path: Path) -> str:
    """Suffix of a file without that of a compression: it tells what the file holds."""
    inner = Path(path.stem) if path.suffix.lower() in COMPRESSED_SUFFIXES else path
    return inner.suffix.lower()
