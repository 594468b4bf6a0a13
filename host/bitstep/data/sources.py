"""Sources of data sets: files, sets that scikit-learn bundles, the LIBSVM site, generators."""

import hashlib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bitstep.data.columns.labels import LAST, LabelColumn, asked_column
from bitstep.data.dataset import DataError, Dataset, noisy, synthetic
from bitstep.data.near import did_you_mean
from bitstep.data.tables.files import (
    COMPRESSED_SUFFIXES,
    TEXT_SUFFIXES,
    files_beside,
    has_known_suffix,
    is_stream,
    open_file,
    read_file,
    read_text,
)
from bitstep.data.tables.memory import MemoryTable
from bitstep.data.tables.table import Table

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
SYNTHETIC_ROWS = 20_000     # 10,000 to train and 10,000 to test, as in the ZipML paper


class _Remote(NamedTuple):
    """A file of the LIBSVM site."""

    file: str
    task: str
    n_features: int


_REGRESSION, _CLASSIFICATION = "regression", "classification"
REMOTE = {
    "cadata": _Remote("regression/cadata", _REGRESSION, 8),
    "cpusmall": _Remote("regression/cpusmall", _REGRESSION, 12),
    "YearPredictionMSD": _Remote("regression/YearPredictionMSD.bz2", _REGRESSION, 90),
    "YearPredictionMSD.t": _Remote("regression/YearPredictionMSD.t.bz2", _REGRESSION, 90),
    "cod-rna": _Remote("binary/cod-rna", _CLASSIFICATION, 8),
    "cod-rna.t": _Remote("binary/cod-rna.t", _CLASSIFICATION, 8),
    "gisette": _Remote("binary/gisette_scale.bz2", _CLASSIFICATION, 5000),
    "gisette.t": _Remote("binary/gisette_scale.t.bz2", _CLASSIFICATION, 5000),
    # The site's files end at the last pixel that is ever set (780, 778); an image has 784.
    "mnist": _Remote("multiclass/mnist.bz2", _CLASSIFICATION, 784),
    "mnist.t": _Remote("multiclass/mnist.t.bz2", _CLASSIFICATION, 784),
}
SYNTHETIC = re.compile(r"(synthetic|noisy)-([1-9]\d*)")
BUNDLED = {"breast_cancer": _CLASSIFICATION, "diabetes": _REGRESSION, "digits": _CLASSIFICATION}


def dataset_names() -> tuple[str, ...]:
    """The names that :func:`load` knows; N stands for a number of features."""
    return (*BUNDLED, *REMOTE, "synthetic-N", "noisy-N")


def load(source: str | Path, *, data_home: str | Path | None = None, n_features: int | None = None,
         label_column: str | int = LAST, task: str | None = None,
         progress: bool = False) -> Dataset:
    """A data set, from a file or by name.

    Parameters
    ----------
    source : str or Path
        A file: LIBSVM text (.svm, .libsvm, .txt), .csv or .tsv, also compressed (.bz2, .gz, .xz),
        .npz with arrays X and y (of numbers, or names of classes), or, with the label in a column,
        .npy, .parquet and Arrow IPC (.arrow, .feather; both by pyarrow). Or a name of
        :func:`dataset_names`; a name that ends in ``.t`` is the test set of the name without.
    data_home : str or Path, optional
        Folder in which named sets are looked for (as NAME, NAME.svm, ... or under the name of the
        site's file, also compressed) and to which they are downloaded. Default: the environment
        variable BITSTEP_DATA, else bitstep's cache folder.
    n_features : int, optional
        Columns of a LIBSVM file, whose last ones may be zero in every row. Any other source must
        have this many columns.
    label_column : str or int
        Where a .csv, .tsv, .npy, Parquet or Arrow file has the label: a name, ``first``, ``last``,
        or a number from 0; negative ones count from the end. Default: the last column.
    task : {"regression", "classification"}, optional
        What the labels of a file are. Default: a classification if they take exactly two values,
        or are names.
    progress : bool
        Whether a download shows a bar.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If the source is unknown, cannot be had or does not hold what it should; the message names
        file, line and remedy.

    Notes
    -----
    No published checksums of the LIBSVM site's files are known, so trust is on first use: a
    download's SHA-256 is written beside it (FILE.sha256), and every later load compares. Files that
    somebody put there by hand have no such record and are taken as they are.
    """
    if not is_named(source):
        if isinstance(source, str):
            _refuse_unknown_name(source)
        return read_file(Path(source), n_features, label_column, task)
    if label_column not in (LAST, "last"):
        raise DataError(f"{source}: the label's column cannot be {label_column!r}, since this is "
                        "no file but the name of a data set, which knows its labels; leave it out")
    dataset = _load_named(str(source), data_home, n_features, progress)
    if n_features not in (None, dataset.n_features):
        raise DataError(f"{source}: found {dataset.n_features} features, but n_features is "
                        f"{n_features}; leave n_features out")
    return dataset


def _load_named(name: str, data_home: str | Path | None, n_features: int | None,
                progress: bool) -> Dataset:
    """A data set of :func:`dataset_names`, or a generated one."""
    if match := SYNTHETIC.fullmatch(name):
        return noisy(int(match[2])) if match[1] == "noisy" else \
            synthetic(int(match[2]), SYNTHETIC_ROWS)
    if name in BUNDLED:
        return _load_bundled(name)
    remote = REMOTE[name]
    path = _find(name, _home(data_home), progress)
    found = read_text(path, ".svm", n_features or remote.n_features)
    return Dataset(name, found.features, found.labels, remote.task)


def open_table(source: str | Path, *, data_home: str | Path | None = None,
               label_column: LabelColumn = LAST, progress: bool = False) -> Table:
    """A data set whose rows are read in pieces, so that it may be larger than memory.

    Parameters
    ----------
    source, data_home, progress
        As for :func:`load`. Bundled and synthetic sets are in memory all the same.
    label_column : str, int, NoLabel or callable
        As for :func:`load`; of rows without labels see
        :data:`bitstep.data.columns.labels.LabelColumn`. LIBSVM text and named sets have labels in
        any case.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        As :func:`load`.
    """
    if is_named(source):
        label_column = asked_column(label_column)
        if source not in REMOTE or label_column not in (LAST, "last"):
            return MemoryTable(load(source, label_column=label_column))
    if isinstance(source, str) and source in REMOTE:
        remote = REMOTE[source]
        path = _find(source, _home(data_home), progress)
        table = open_file(path, remote.n_features, task=remote.task, kind=".svm")
        table.name = source
        return table
    if isinstance(source, str):
        _refuse_unknown_name(source)
    return open_file(Path(source), label_column=label_column)


def is_named(source: str | Path) -> bool:
    """Return True for a name of :func:`dataset_names`, which is no file's."""
    return isinstance(source, str) and bool(source in BUNDLED or source in REMOTE
                                            or SYNTHETIC.fullmatch(source))


def _refuse_unknown_name(name: str) -> None:
    """Raise DataError for what looks like a name instead of a file."""
    path = Path(name)
    if name and (path.name != name or has_known_suffix(path) or path.exists() or is_stream(path)):
        return      # of which an empty one, as of a variable of a shell, is none
    hint = did_you_mean(name, [*dataset_names(), *files_beside(path)]) or "."
    raise DataError(f"There is no data set {name!r}{hint} The names are "
                    f"{', '.join(dataset_names())}; anything else must be a file")


def _load_bundled(name: str) -> Dataset:
    try:
        from sklearn import datasets
    except ImportError as error:
        raise DataError(f"{name}: this data set comes with scikit-learn, which is not installed; "
                        "run: pip install 'bitstep[sklearn]'") from error
    bunch: Any = getattr(datasets, f"load_{name}")()
    return Dataset(name, np.ascontiguousarray(bunch.data, np.float64),
                   np.asarray(bunch.target, np.float64), BUNDLED[name],
                   tuple(map(str, bunch.feature_names)))


def _home(data_home: str | Path | None) -> Path:
    if home := data_home or os.environ.get("BITSTEP_DATA"):
        return Path(home).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "bitstep"


def _find(name: str, home: Path, progress: bool) -> Path:
    """The file of a named set in ``home``, downloaded if it is not there."""
    remote_name = Path(REMOTE[name].file).name
    stems = dict.fromkeys([remote_name, name, remote_name.removesuffix(".bz2")])
    for stem in stems:
        for suffix in ("", *TEXT_SUFFIXES):
            for compressed in ("", *COMPRESSED_SUFFIXES):
                path = home / (stem + suffix + compressed)
                if path.is_file():
                    _verify(path)
                    return path
    return _download(name, home, progress)


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _verify(path: Path) -> None:
    """Compare a file with the checksum of its download, if it has one."""
    record = _record(path)
    if record.is_file():
        expected, found = record.read_text("ascii").strip(), _sha256(path)
        if found != expected:
            raise DataError(f"{path}: found SHA-256 {found}, but it must be {expected} as when it "
                            f"was downloaded; delete the file and {record.name} to download anew")


def _download(name: str, home: Path, progress: bool) -> Path:
    url = f"{SITE}/{REMOTE[name].file}"
    path = home / url.rpartition("/")[2]
    remedy = (f"download {url} by other means and put it into {home}, or into a folder that "
              "data_home or the environment variable BITSTEP_DATA names")
    try:
        import pooch
    except ImportError as error:
        raise DataError(f"{name}: found no file {path}, and downloads need pooch, which is not "
                        f"installed; run: pip install 'bitstep[sklearn]', or {remedy}") from error
    pooch.get_logger().setLevel("WARNING")     # its advice about hashes is not for our users
    try:
        home.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(url, known_hash=None, fname=path.name, path=home, progressbar=progress)
        _record(path).write_text(_sha256(path) + "\n", "ascii")
    except (OSError, ValueError) as error:     # a network's errors are OSErrors
        raise DataError(f"{name}: the download failed ({error}); {remedy}") from error
    return path
