"""Partitions of Dask collections, as parts of a training."""

import math
from numbers import Number
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from bitstep.data.dataset import DataError, check_unmasked
from bitstep.training.shards.parts import Part

KINDS = "a dask.array or a dask.dataframe"


class Sources(NamedTuple):
    """Partitions of a data set.

    Attributes
    ----------
    parts : list of tuple
        Arguments of :func:`part_of` for each partition.
    n_features : int
    names : tuple of str or None
        Of the columns of a data frame; None where they are numbers, which scikit-learn takes for
        no names.
    """

    parts: list[tuple[Any, ...]]
    n_features: int
    names: tuple[str, ...] | None


def is_frame(data: Any) -> bool:
    """True for a collection of data frames or series."""
    return is_dask_collection(data) and hasattr(data, "map_partitions")


def is_array(data: Any) -> bool:
    """True for a dask.array."""
    return isinstance(data, da.Array)


def sources_of(features: Any, targets: Any, weights: Any = None) -> Sources:
    """Partitions of features with their targets, and weights of their rows.

    Parameters
    ----------
    features : dask.array of shape (n_rows, n_features), or dask.dataframe
        A column of chunks is made one chunk.
    targets : dask.array of shape (n_rows,) or (n_rows, n_targets), or dask.dataframe or series
        Of an array, chunks of rows are made those of the features.
    weights : dask.array of shape (n_rows,), dask series, or None
        As the targets.

    Raises
    ------
    DataError
        If they are no such collections, or do not have as many partitions.
    """
    if is_frame(features):
        columns = tuple(map(str, features.columns))
        rows, count = _of_frame(features), len(columns)
        texts = sum(isinstance(name, str) for name in features.columns)
        if 0 < texts < count:
            raise DataError("All columns of X or none must have names that are texts, not "
                            f"{texts} of {count}: {', '.join(map(repr, features.columns))}")
        names = columns if texts else None
    elif is_array(features):
        if features.ndim != 2:
            raise DataError(f"X must have shape (n_rows, n_features), not {features.ndim} axes")
        columns, names, count = None, None, features.shape[1]
        if features.numblocks[1] > 1:
            features = features.rechunk({1: -1})
        rows = features.to_delayed().ravel().tolist()
    else:
        raise DataError(f"X must be {KINDS}, not {type(features).__name__}; for data in memory "
                        "there are bitstep.LowPrecisionRegressor and LowPrecisionClassifier")
    answers = _parts_of("y", targets, features, len(rows))
    known = [None] * len(rows) if weights is None \
        else _parts_of("sample_weight", weights, features, len(rows))
    return Sources([(f"Partition {number}", *parts, columns)
                    for number, parts in enumerate(zip(rows, answers, known, strict=True))],
                   count, names)


def _parts_of(name: str, data: Any, features: Any, count: int) -> list[Any]:
    """Partitions of targets or weights, as many as of the features."""
    if is_array(data) and is_array(features):
        data = _alike(name, data, features)
    if is_frame(data):
        found = _of_frame(data)
    elif is_array(data):
        found = data.to_delayed().ravel().tolist()
    else:
        raise DataError(f"{name} must be {KINDS}, not {type(data).__name__}")
    if len(found) != count:
        raise DataError(f"X has {count} partitions and {name} has {len(found)}; partition both "
                        "alike")
    return found


def _of_frame(data: Any) -> list[Any]:
    """Partitions of a data frame or series as it has them: an optimized one reads small files of
    Parquet together, as many as suits its columns.
    """
    return data.to_delayed(optimize_graph=False)


def _alike(name: str, targets: Any, features: Any) -> Any:
    """Targets or weights in chunks of rows as of the features, as far as these are known."""
    if targets.ndim not in ((1, 2) if name == "y" else (1,)):
        shapes = "(n_rows,) or (n_rows, n_targets)" if name == "y" else "(n_rows,)"
        raise DataError(f"{name} must have shape {shapes}, not {targets.ndim} axes")
    chunks: dict[int, Any] = {1: -1} if targets.ndim == 2 and targets.numblocks[1] > 1 else {}
    wanted, found = features.chunks[0], targets.chunks[0]
    if wanted != found and not any(map(math.isnan, (*wanted, *found))):
        if sum(wanted) != sum(found):
            raise DataError(f"X has {sum(wanted)} rows and {name} has {sum(found)}; there must be "
                            "one value a row")
        chunks[0] = wanted
    return targets.rechunk(chunks) if chunks else targets


def part_of(where: str, features: Any, targets: Any, weights: Any,
            names: tuple[str, ...] | None) -> Part:
    """A part of a partition that is computed.

    Raises
    ------
    DataError
        If its columns are not those of the collection, or see :func:`numbers_of` and
        :func:`values_of`.
    """
    columns = getattr(features, "columns", None)
    if columns is not None:
        found = tuple(map(str, columns))
        if found != names:
            raise DataError(f"{where} has the columns {', '.join(found)}, but the collection says "
                            f"{', '.join(names or ())}; all partitions must have the same ones in "
                            "the same order")
        features = numbers_of(where, features)
    check_unmasked(f"{where}: X", features)
    return Part(where, _array(features), values_of(where, "y", targets), names,
                None if weights is None else values_of(where, "sample_weight", weights))


def numbers_of(where: str, frame: Any) -> np.ndarray:
    """Values of a data frame, NaN where one is missing, as float32 or float64: the one that
    scikit-learn takes.

    Parameters
    ----------
    where : str
        For messages.
    frame : data frame
        Of numbers and of True and False, which may be of pandas' types with missing values.

    Raises
    ------
    DataError
        If a column holds others.
    """
    for name, kind in zip(frame.columns, frame.dtypes, strict=True):
        if getattr(kind, "kind", "O") not in "fiub":
            raise DataError(f"{where}: columns must hold numbers, not as {str(name)!r} {kind}; "
                            "encode or drop it")
    kinds = [kind for kind in frame.dtypes if isinstance(kind, np.dtype)]   # not pandas' own
    single = len(kinds) == frame.shape[1] and np.result_type(np.bool_, *kinds) == np.float32
    return frame.to_numpy(np.float32 if single else np.float64, na_value=np.nan)


def values_of(where: str, name: str, data: Any) -> np.ndarray:
    """Targets, labels or weights of a partition: names as Python's strings, others as they are.

    Parameters
    ----------
    where, name : str
        Of the partition and of the data, for messages.
    data : array, data frame or series

    Raises
    ------
    DataError
        If a value is missing, or names stand among other values.
    """
    check_unmasked(f"{where}: {name}", data)
    found = _array(data)
    if found.dtype.kind in "fiubU":         # which have no gaps but NaN, that a part refuses
        return found
    values = found.ravel().tolist()
    columns = len(values) // max(len(found), 1)
    for number, value in enumerate(values):
        if _is_missing(value):
            raise DataError(f"{where}: {name} must have a value in every row, not {value} (row "
                            f"{number // columns} of the part); remove the row")
    texts = [isinstance(one, str) for one in values]
    if all(texts):
        return found.astype(str)
    if any(texts):
        odd = texts.index(not texts[0])
        raise DataError(f"{where}: {name} must hold names alone or numbers alone, not "
                        f"{values[odd]!r} (row {odd // columns} of the part) beside {values[0]!r}")
    if all(isinstance(one, (Number, np.bool_)) for one in values):
        return np.array(values).reshape(found.shape)
    return found


def _is_missing(value: Any) -> bool:
    """True for None, and for NaN, NaT and pandas' NA, which do not equal themselves."""
    return value is None or not isinstance(same := value == value, (bool, np.bool_)) or not same


def _array(data: Any) -> np.ndarray:
    """Values of an array, a data frame or a series."""
    if hasattr(data, "to_numpy"):
        data = data.to_numpy()
    if hasattr(data, "toarray"):        # a sparse matrix of scipy
        data = data.toarray()
    return np.asarray(data)
