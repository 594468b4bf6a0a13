"""Parts of a data set, such as partitions: what is known of each, and the shards that they become.

A part is looked at twice where its rows are: for the facts that scale all parts alike
(:func:`summarize`), and to transpose its rows into bit planes (:func:`make_shards`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bitstep.data.dataset import MAX_CLASSES, DataError, first_not_finite, shuffled
from bitstep.data.ranges import ColumnRanges
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.widths import MAX_FEATURES
from bitstep.quantization import (
    LabelStream,
    QuantizedDataset,
    Scaler,
    label_bits_of,
    quantize_bit_planes,
    quantize_labels,
    scaler_of_ranges,
    sign_labels,
)
from bitstep.training.shards.shard import Shard
from bitstep.training.shards.summed import class_labels
from bitstep.training.targets import class_targets


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a part of a data set.

    Attributes
    ----------
    where : str
        Its name, for messages.
    features : ndarray of numbers, shape (n_rows, n_features)
    targets : ndarray, shape (n_rows,) or (n_rows, n_targets)
        Of a classification labels of shape (n_rows,).
    names : tuple of str or None
        Of the columns.
    """

    where: str
    features: np.ndarray
    targets: np.ndarray
    names: tuple[str, ...] | None = None

    def checked(self, classes: bool) -> "Part":
        """The part, with numbers of the types that are used.

        Raises
        ------
        DataError
            If it cannot be used; the message names it.
        """
        features, targets = np.asarray(self.features), np.asarray(self.targets)
        if features.ndim != 2 or features.dtype.kind not in "fiub":
            raise DataError(f"{self.where}: features must be numbers of shape (rows, columns), not "
                            f"{features.dtype} of shape {features.shape}")
        if not 1 <= features.shape[1] <= MAX_FEATURES:
            raise DataError(f"{self.where}: rows must have 1 to {MAX_FEATURES} columns, not "
                            f"{features.shape[1]}")
        if targets.ndim == 2 and (classes or targets.shape[1] == 1):
            if targets.shape[1] != 1:
                raise DataError(f"{self.where}: labels of classes must have one column, not "
                                f"{targets.shape[1]}")
            targets = targets[:, 0]
        if targets.ndim not in (1, 2) or len(targets) != len(features):
            raise DataError(f"{self.where}: found {len(features)} rows of features and targets of "
                            f"shape {targets.shape}; there must be one for each row")
        if features.dtype not in (np.float32, np.float64):
            features = features.astype(np.float64)
        if bad := first_not_finite(features):
            raise DataError(f"{self.where}: features must be finite, not {features[bad]} (row "
                            f"{bad[0]} of the part, column {self._name(bad[1])}); remove the row "
                            "or fill in a value")
        if not classes:
            if targets.dtype.kind not in "fiub":
                raise DataError(f"{self.where}: targets must be numbers, not {targets.dtype}")
            targets = targets.astype(np.float64)
            if bad := first_not_finite(targets.reshape(len(targets), -1)):
                raise DataError(f"{self.where}: targets must be finite, not "
                                f"{targets.reshape(len(targets), -1)[bad]} (row {bad[0]} of the "
                                "part); remove the row")
        elif targets.dtype.kind == "f" and not np.isfinite(targets).all():
            row = int(np.argmin(np.isfinite(targets)))
            raise DataError(f"{self.where}: labels must be finite, not {targets[row]} (row {row} "
                            "of the part); remove the row")
        return replace(self, features=features, targets=targets)

    def _name(self, column: int) -> str:
        return f"{column}, counted from 0" if self.names is None else repr(self.names[column])


@dataclass(frozen=True, eq=False)
class Summary:
    """Facts of a part, or of several.

    Attributes
    ----------
    where : str
        Of the first part that has rows.
    n_rows : int
    low, high : ndarray of float64, shape (n_features,)
        Least and largest value of each column; empty without rows.
    names : tuple of str or None
        Of the columns.
    target_low, target_high : ndarray of float64, shape (n_targets,)
        Of a regression; else empty.
    classes : ndarray, shape (n_classes,)
        Labels that occur, in increasing order; empty of a regression.
    counts : ndarray of int64, shape (n_classes,)
        Rows of each class.
    """

    where: str
    n_rows: int
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] | None
    target_low: np.ndarray
    target_high: np.ndarray
    classes: np.ndarray
    counts: np.ndarray


def summarize(part: Part, classes: bool) -> Summary:
    """Facts of a part, of a classification with ``classes``.

    Raises
    ------
    DataError
        If the part cannot be used; the message names it.
    """
    none = np.empty(0)
    if not len(part.features):
        return Summary(part.where, 0, none, none, part.names, none, none, none, none)
    part = part.checked(classes)
    ranges = ColumnRanges()
    ranges.add(part.features)
    targets = part.targets
    if classes:
        found, counts = np.unique(targets, return_counts=True)
        if len(found) > MAX_CLASSES:
            raise DataError(f"{part.where}: a classification must have at most {MAX_CLASSES} "
                            f"classes, but labels take {len(found)} values; train a regression")
        ends = none, none
    else:
        found, counts = none, none
        columns = targets.reshape(len(targets), -1)
        ends = columns.min(axis=0), columns.max(axis=0)
    return Summary(part.where, len(part.features), ranges.low, ranges.high, part.names, *ends,
                   found, counts)


def merge(summaries: Sequence[Summary]) -> Summary:
    """Facts of all parts.

    Raises
    ------
    DataError
        If parts do not fit each other, or none has a row.
    """
    full = [one for one in summaries if one.n_rows]
    if not full:
        raise DataError(f"The data must have at least one row; all {len(summaries)} parts are "
                        "empty")
    first = full[0]
    for one in full[1:]:
        if len(one.low) != len(first.low):
            raise DataError(f"{one.where} has {len(one.low)} columns, {first.where} has "
                            f"{len(first.low)}: all parts must have the same")
        if one.names != first.names:
            raise DataError(f"{one.where}: {_differing(one.names, first.names)} of {first.where}; "
                            "all parts must have the same columns in the same order")
        if len(one.target_low) != len(first.target_low):
            raise DataError(f"{one.where} has {len(one.target_low)} targets, {first.where} has "
                            f"{len(first.target_low)}: all parts must have as many")
        if len(one.classes) and (one.classes.dtype.kind in "fiub") \
                != (first.classes.dtype.kind in "fiub"):
            raise DataError(f"{one.where}: labels are {one.classes.dtype}, those of {first.where} "
                            f"are {first.classes.dtype}; all parts must have labels of one kind")
    classes, counts = first.classes, first.counts
    if len(first.classes):
        every = np.concatenate([one.classes for one in full])
        classes, places = np.unique(every, return_inverse=True)
        counts = np.bincount(places.reshape(-1), np.concatenate([one.counts for one in full]),
                             len(classes)).astype(np.int64)
    return Summary(
        first.where, sum(one.n_rows for one in full),
        np.min([one.low for one in full], axis=0), np.max([one.high for one in full], axis=0),
        first.names, np.min([one.target_low for one in full], axis=0),
        np.max([one.target_high for one in full], axis=0), classes, counts)


def _differing(names: tuple[str, ...] | None, others: tuple[str, ...] | None) -> str:
    """What names columns have, in place of others."""
    if names is None or others is None:
        return "its columns have " + ("no names, unlike those" if names is None else
                                      "names, unlike those")
    number = next(at for at, pair in enumerate(zip(names, others, strict=True))
                  if pair[0] != pair[1])
    return f"its column {number}, counted from 0, is {names[number]!r}, not {others[number]!r} as"


@dataclass(frozen=True, eq=False, kw_only=True)
class Weaving:
    """How parts become shards, alike for all of them.

    Attributes
    ----------
    scaler : Scaler
    bus_width, seed : int
        See :func:`bitstep.quantization.quantize_bit_planes`; the seed is that of the first shard.
    shuffle : bool
        True for rows of a shard in the order of a permutation by its seed.
    shard_rows : int or None
        Most rows of a shard; None: a part is one.
    classes : ndarray
        Of all parts; empty of a regression.
    target_low, target_high : ndarray of float64, shape (n_targets,)
        Ranges of a regression's targets.
    fit_intercept : bool
    """

    scaler: Scaler
    bus_width: int = 64
    seed: int = 0
    shuffle: bool = True
    shard_rows: int | None = None
    classes: np.ndarray
    target_low: np.ndarray
    target_high: np.ndarray
    fit_intercept: bool = True

    def pieces(self, n_rows: int) -> list[tuple[int, int]]:
        """First row and end of each shard of a part: as few as can be, of about as many rows."""
        count = -(-n_rows // (self.shard_rows or max(n_rows, 1)))
        ends = [number * n_rows // max(count, 1) for number in range(count + 1)]
        return list(pairwise(ends))

    def labels(self) -> list[LabelStream]:
        """Labels of the outputs as a training sees them, without those of the rows."""
        if len(self.classes):
            return [class_labels() for _ in range(1 if len(self.classes) == 2
                                                  else len(self.classes))]
        ends = np.array([self.target_low, self.target_high])
        return [replace(one, limit=one.limit or max(one.largest(2), 1))
                for one in self._numbers(ends)]

    def streams(self, targets: np.ndarray) -> list[LabelStream]:
        """Stored labels of the outputs of some rows."""
        if len(self.classes):
            return [sign_labels(signs) for signs in class_targets(targets, self.classes).T]
        return self._numbers(targets.reshape(len(targets), -1))

    def _numbers(self, targets: np.ndarray) -> list[LabelStream]:
        return [quantize_labels(
            column, len(column), center_labels=self.fit_intercept,
            label_bits=label_bits_of(BIT_PLANES),
            label_range=None if low == high else (float(low), float(high)))
            for column, low, high in zip(targets.T, self.target_low, self.target_high,
                                         strict=True)]


def weaving_of(summary: Summary, kind: str, **options: Any) -> Weaving:
    """How the parts of a summary become shards.

    Parameters
    ----------
    summary : Summary
        Of all parts.
    kind : {"minmax", "maxabs"}
        How columns are scaled.
    options
        Others of :class:`Weaving`.

    Raises
    ------
    DataError
        If a classification has one class.
    """
    if len(summary.counts) == 1:
        raise DataError("A classification must have two classes, but every label is "
                        f"{summary.classes.tolist()[0]!r}")
    if len(summary.counts) > MAX_CLASSES:
        raise DataError(f"A classification must have at most {MAX_CLASSES} classes, but labels "
                        f"take {len(summary.counts)} values; train a regression")
    low, high = summary.target_low, summary.target_high
    if not options.get("fit_intercept", True):
        high = np.maximum(-low, high)
        low = -high
    return Weaving(scaler=scaler_of_ranges(summary.low, summary.high, kind),
                   classes=summary.classes, target_low=low, target_high=high, **options)


def shard_seed(seed: int, number: int) -> int:
    """Seed of a shard's dither and shuffle: the first shard has that of the training."""
    if not number:
        return seed
    return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1)[0])


def make_shards(part: Part, weaving: Weaving, first: int, summary: Summary) -> list[Shard]:
    """The shards of a part.

    Parameters
    ----------
    part : Part
    weaving : Weaving
    first : int
        Number of its first shard among those of all parts.
    summary : Summary
        Of this part, as it was.

    Raises
    ------
    DataError
        If the part is not what it was.
    """
    classes = len(weaving.classes) > 0
    now = summarize(part, classes)
    if now.n_rows != summary.n_rows or not (np.array_equal(now.low, summary.low)
                                            and np.array_equal(now.high, summary.high)):
        raise DataError(f"{part.where} has other rows than when it was scaled; keep the data as "
                        "they are: persist the collection, or give a seed to what makes it")
    if not now.n_rows:
        return []
    part = part.checked(classes)
    found = []
    for number, (start, stop) in enumerate(weaving.pieces(now.n_rows), start=first):
        features, targets = part.features[start:stop], part.targets[start:stop]
        seed = shard_seed(weaving.seed, number)
        if weaving.shuffle:
            order = shuffled(stop - start, max(0, seed))
            features, targets = features[order], targets[order]
        rows = quantize_bit_planes(features, bus_width=weaving.bus_width, scaler=weaving.scaler,
                                   seed=seed)
        found.append(Shard([QuantizedDataset(rows, stream)
                            for stream in weaving.streams(targets)], part.where))
    return found
