"""Partitions of Dask collections, as parts of a training."""

import math
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import is_dask_collection

from bitstep.data.dataset import DataError
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
        Of the columns of a data frame.
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


def sources_of(features: Any, targets: Any) -> Sources:
    """Partitions of features with their targets.

    Parameters
    ----------
    features : dask.array of shape (n_rows, n_features), or dask.dataframe
        A column of chunks is made one chunk.
    targets : dask.array of shape (n_rows,) or (n_rows, n_targets), or dask.dataframe or series
        Of an array, chunks of rows are made those of the features.

    Raises
    ------
    DataError
        If they are no such collections, or do not have as many partitions.
    """
    if is_frame(features):
        names = tuple(map(str, features.columns))
        rows, count = features.to_delayed(), len(names)
    elif is_array(features):
        if features.ndim != 2:
            raise DataError(f"X must have shape (n_rows, n_features), not {features.ndim} axes")
        names, count = None, features.shape[1]
        if features.numblocks[1] > 1:
            features = features.rechunk({1: -1})
        rows = features.to_delayed().ravel().tolist()
    else:
        raise DataError(f"X must be {KINDS}, not {type(features).__name__}; for data in memory "
                        "there are bitstep.LowPrecisionRegressor and LowPrecisionClassifier")
    if is_array(targets) and is_array(features):
        targets = _alike(targets, features)
    if is_frame(targets):
        answers = targets.to_delayed()
    elif is_array(targets):
        answers = targets.to_delayed().ravel().tolist()
    else:
        raise DataError(f"y must be {KINDS}, not {type(targets).__name__}")
    if len(answers) != len(rows):
        raise DataError(f"X has {len(rows)} partitions and y has {len(answers)}; partition both "
                        "alike")
    return Sources([(f"Partition {number}", one, answer, names)
                    for number, (one, answer) in enumerate(zip(rows, answers, strict=True))],
                   count, names)


def _alike(targets: Any, features: Any) -> Any:
    """Targets in chunks of rows as of the features, as far as these are known."""
    if targets.ndim not in (1, 2):
        raise DataError(f"y must have shape (n_rows,) or (n_rows, n_targets), not {targets.ndim} "
                        "axes")
    chunks: dict[int, Any] = {1: -1} if targets.ndim == 2 and targets.numblocks[1] > 1 else {}
    wanted, found = features.chunks[0], targets.chunks[0]
    if wanted != found and not any(map(math.isnan, (*wanted, *found))):
        if sum(wanted) != sum(found):
            raise DataError(f"X has {sum(wanted)} rows and y has {sum(found)}; there must be one "
                            "target a row")
        chunks[0] = wanted
    return targets.rechunk(chunks) if chunks else targets


def part_of(where: str, features: Any, targets: Any, names: tuple[str, ...] | None) -> Part:
    """A part of a partition that is computed.

    Raises
    ------
    DataError
        If its columns are not those of the collection, or hold no numbers.
    """
    columns = getattr(features, "columns", None)
    if columns is not None:
        found = tuple(map(str, columns))
        if found != names:
            raise DataError(f"{where} has the columns {', '.join(found)}, but the collection says "
                            f"{', '.join(names or ())}; all partitions must have the same ones in "
                            "the same order")
        odd = [name for name, kind in zip(found, features.dtypes, strict=True)
               if getattr(kind, "kind", "O") not in "fiub"]
        if odd:
            raise DataError(f"{where}: columns must hold numbers, not as {odd[0]!r} "
                            f"{features.dtypes.iloc[found.index(odd[0])]}; encode or drop it")
    return Part(where, _array(features), _array(targets), names)


def _array(data: Any) -> np.ndarray:
    """Values of an array, a data frame or a series; of names of classes as Python's strings."""
    if hasattr(data, "to_numpy"):
        data = data.to_numpy()
    if hasattr(data, "toarray"):        # a sparse matrix of scipy
        data = data.toarray()
    found = np.asarray(data)
    return found.astype(str) if found.dtype.kind == "O" and all(
        isinstance(one, str) for one in found.ravel()[:1]) else found
