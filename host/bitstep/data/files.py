"""Files of data: which reader a name asks for, and what a broken file is told."""

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bitstep.data.csv_text import read_csv
from bitstep.data.dataset import DataError, Dataset
from bitstep.data.libsvm import read_libsvm

TEXT_SUFFIXES = (".svm", ".libsvm", ".txt")
PACKED_SUFFIXES = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}

_Arrays = tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]


def has_known_suffix(path: Path) -> bool:
    """Return True if :func:`read_file` knows what a file of this name holds."""
    suffix, packed = _suffix(path), path.suffix.lower() in PACKED_SUFFIXES
    return suffix in (*TEXT_SUFFIXES, ".csv") or (suffix == ".npz" and not packed)


def is_libsvm(path: Path) -> bool:
    """Return True for the name of LIBSVM text, which leaves out zeros."""
    return _suffix(path) in TEXT_SUFFIXES


def read_file(path: Path, n_features: int | None, label_column: str, task: str | None) -> Dataset:
    """The data set of a file, read as its suffix asks; parameters as in ``bitstep.data.load``.

    Raises
    ------
    DataError
        If the file is missing, of an unknown kind, cut short or malformed.
    """
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; check the path")
    if not has_known_suffix(path):
        raise DataError(f"{path}: found the suffix {path.suffix!r}; it must be "
                        f"{', '.join(TEXT_SUFFIXES)} (LIBSVM), .csv, either of them also with "
                        f"{', '.join(PACKED_SUFFIXES)}, or .npz; rename or convert the file")
    suffix = _suffix(path)
    features, labels, names = read_arrays(path, suffix, n_features, label_column)
    if n_features not in (None, features.shape[1]):
        raise DataError(f"{path}: found {features.shape[1]} features, but n_features is "
                        f"{n_features}; leave n_features out")
    if task is None:
        task = "classification" if len(np.unique(labels)) == 2 else "regression"
    plain = Path(path.stem) if path.suffix.lower() in PACKED_SUFFIXES else path
    return Dataset(plain.stem, features, labels, task, names)


def read_arrays(path: Path, suffix: str, n_features: int | None,
                label_column: str = "last") -> _Arrays:
    """Features, labels and feature names of a file.

    Parameters
    ----------
    path : Path
        The file; the end of its name tells how it is compressed.
    suffix : str
        Kind of the file: ``.csv``, ``.npz``, or a suffix of LIBSVM text.
    n_features, label_column
        As in :func:`bitstep.data.load`.

    Raises
    ------
    DataError
        If the file is cut short or malformed.
    """
    opener: Any = PACKED_SUFFIXES.get(path.suffix.lower(), open)
    try:
        if suffix == ".npz":
            return _read_npz(path)
        file: BinaryIO
        with opener(path, "rb") as file:
            if suffix == ".csv":
                return read_csv(file, path, label_column)
            return (*read_libsvm(file, path, n_features), None)
    except (OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: the file cannot be read ({error}); it must be a whole "
                        f"{path.suffix} file; copy or create it again") from error


def _suffix(path: Path) -> str:
    """Suffix of a file without that of a compression: it tells what the file holds."""
    inner = Path(path.stem) if path.suffix.lower() in PACKED_SUFFIXES else path
    return inner.suffix.lower()


def _read_npz(path: Path) -> _Arrays:
    # Of what is no archive NumPy thinks it is a pickle, and tells how to load it all the same.
    if not zipfile.is_zipfile(path):
        raise zipfile.BadZipFile("it is no .npz archive, or it was cut short")
    try:
        # Opened here, because NumPy leaves a file open that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = [key for key in ("X", "y") if key not in arrays]
            if missing:
                raise DataError(f"{path}: found the arrays {', '.join(arrays) or 'none'}; there "
                                "must be X (features) and y (labels); save them under these names")
            features, labels = arrays["X"], arrays["y"]
    except DataError:
        raise
    except ValueError as error:     # what NumPy raises for pickled objects and broken headers
        raise DataError(f"{path}: the file cannot be read ({error}); X and y must be arrays of "
                        "numbers") from error
    expected = (("X", features, 2, "(rows, columns)"), ("y", labels, 1, "(rows,)"))
    for name, array, dimensions, shape in expected:
        if array.dtype.kind not in "fiub" or array.ndim != dimensions:
            raise DataError(f"{path}: {name} must hold numbers in shape {shape}, not "
                            f"{array.dtype} of shape {array.shape}")
    if len(features) == 0:
        raise DataError(f"{path}: the file has no rows; X must have at least one")
    kind = np.float32 if features.dtype == np.float32 else np.float64
    return np.ascontiguousarray(features, kind), labels.astype(np.float64), None
