"""Parts of a data set, such as partitions: what is known of each, and the shards that they become.

A part is looked at twice where its rows are: for the facts that scale all parts alike
(:func:`summarize`), and to transpose its rows into bit planes (:func:`make_shards`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
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
from bitstep.quantization.labels import broken_class
from bitstep.training.copies import spread
from bitstep.training.raised import Raised
from bitstep.training.shards.shard import Shard
from bitstep.training.shards.summed import class_labels
from bitstep.training.targets import class_targets
from bitstep.training.weighing import Weighed, WeightRule, weigh, weigh_counts, weigh_together
from bitstep.training.weights import (
    checked_weights,
    class_factors,
    class_sums,
    products,
)


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
    weights : ndarray of numbers, shape (n_rows,), or None
        Of the rows; a row of weight 0 is left out.
    """

    where: str
    features: np.ndarray
    targets: np.ndarray
    names: tuple[str, ...] | None = None
    weights: np.ndarray | None = None

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
        elif targets.dtype.kind == "c":
            raise DataError(f"{self.where}: labels must be numbers or names, not {targets.dtype}")
        elif targets.dtype.kind == "f" and not np.isfinite(targets).all():
            row = int(np.argmin(np.isfinite(targets)))
            raise DataError(f"{self.where}: labels must be finite, not {targets[row]} (row {row} "
                            "of the part); remove the row")
        try:
            weights = checked_weights(self.weights, len(features), part=True)
        except ValueError as error:
            raise DataError(f"{self.where}: {error}") from None
        return replace(self, features=features, targets=targets, weights=weights)

    def rows(self, chosen: np.ndarray | slice) -> "Part":
        """Some of its rows."""
        return replace(self, features=self.features[chosen], targets=self.targets[chosen],
                       weights=None if self.weights is None else self.weights[chosen])

    def taken(self, left_out: Sequence[Any]) -> "Part":
        """Rows that a training takes: those of a weight above 0 whose class is not left out."""
        keep = np.ones(len(self.targets), bool) if self.weights is None else self.weights > 0
        for label in left_out:
            keep &= ~_is_class(self.targets, label)
        return self if keep.all() else self.rows(keep)

    def _name(self, column: int) -> str:
        return f"{column}, counted from 0" if self.names is None else repr(self.names[column])


def _is_class(labels: np.ndarray, label: Any) -> np.ndarray:
    """Rows of a class, which an option may name in text where labels are numbers."""
    if labels.dtype.kind not in "fiub":
        return labels == str(label)
    try:
        return labels == float(label)
    except (TypeError, ValueError):
        return np.zeros(len(labels), bool)


def left_out_classes(class_weight: Any) -> tuple[Any, ...]:
    """Classes to which a dictionary of weights by class gives 0."""
    return tuple(label for label, weight in class_weight.items()
                 if isinstance(weight, (int, float, np.number)) and weight == 0) \
        if isinstance(class_weight, dict) else ()


@dataclass(frozen=True, eq=False)
class Summary:
    """Facts of a part, or of several.

    Attributes
    ----------
    where : str
        Of the first part that has rows.
    n_rows : int
        Rows that a training takes, of which all but the classes are facts.
    low, high : ndarray of float64, shape (n_features,)
        Least and largest value of each column; empty without rows.
    names : tuple of str or None
        Of the columns.
    target_low, target_high : ndarray of float64, shape (n_targets,)
        Of a regression; else empty.
    classes : ndarray, shape (n_classes,)
        Labels of rows of a weight above 0, in increasing order; empty of a regression.
    class_sums : tuple of Fraction
        Weight of the rows of each class.
    weighed : Weighed
        Weights of the rows, without those of their classes.
    """

    where: str
    n_rows: int
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] | None
    target_low: np.ndarray
    target_high: np.ndarray
    classes: np.ndarray
    class_sums: tuple[Fraction, ...]
    weighed: Weighed


def summarize(part: Part, classes: bool, left_out: Sequence[Any] = ()) -> Summary:
    """Facts of a part, of a classification with ``classes``, of which some may be left out.

    Raises
    ------
    DataError
        If the part cannot be used; the message names it.
    """
    none = np.empty(0)
    empty = Summary(part.where, 0, none, none, part.names, none, none, none, (), weigh(none))
    if not len(part.features):
        return empty
    part = part.checked(classes).taken(())
    known, sums = none, ()
    if classes:
        known = np.unique(part.targets)
        if len(known) > MAX_CLASSES:
            raise DataError(f"{part.where}: a classification must have at most {MAX_CLASSES} "
                            f"classes, but labels take {len(known)} values; train a regression "
                            "if they are values")
        sums = tuple(class_sums(part.targets, part.weights, known))
        part = part.taken(left_out)
    count = len(part.targets)
    if not count:
        return replace(empty, classes=known, class_sums=sums)
    ranges = ColumnRanges()
    ranges.add(part.features)
    ends = none, none
    if not classes:
        columns = part.targets.reshape(count, -1)
        ends = columns.min(axis=0), columns.max(axis=0)
    weighed = weigh_counts(np.ones(1), np.array([count])) if part.weights is None \
        else weigh(part.weights)
    return Summary(part.where, count, ranges.low, ranges.high, part.names, *ends, known, sums,
                   weighed)


def merge(summaries: Sequence[Summary]) -> Summary:
    """Facts of all parts.

    Raises
    ------
    DataError
        If parts do not fit each other, or none has a row.
    """
    full = [one for one in summaries if one.n_rows]
    if not full:
        left = any(len(one.classes) for one in summaries)
        raise DataError(
            "class_weight must leave at least one row with a weight above zero" if left else
            f"The data must have at least one row; all {len(summaries)} parts are empty, or have "
            "rows of weight 0 only")
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
    classes, sums = first.classes, first.class_sums
    if len(first.classes):
        labelled = [one for one in summaries if len(one.classes)]
        for one in labelled:
            if (one.classes.dtype.kind in "fiub") != (first.classes.dtype.kind in "fiub"):
                raise DataError(f"{one.where}: labels are {one.classes.dtype}, those of "
                                f"{first.where} are {first.classes.dtype}; all parts must have "
                                "labels of one kind")
        classes = np.unique(np.concatenate([one.classes for one in labelled]))
        pairs = [pair for one in labelled
                 for pair in zip(one.classes.tolist(), one.class_sums, strict=True)]
        sums = tuple(sum((part for label, part in pairs if label == known), Fraction(0))
                     for known in classes.tolist())
    return Summary(
        first.where, sum(one.n_rows for one in full),
        np.min([one.low for one in full], axis=0), np.max([one.high for one in full], axis=0),
        first.names, np.min([one.target_low for one in full], axis=0),
        np.max([one.target_high for one in full], axis=0), classes, sums,
        weigh_together([one.weighed for one in full]))


def _differing(names: tuple[str, ...] | None, others: tuple[str, ...] | None) -> str:
    """What names columns have, in place of others."""
    if names is None or others is None:
        return "its columns have " + ("no names, unlike those" if names is None else
                                      "names, unlike those")
    number = next(at for at, pair in enumerate(zip(names, others, strict=True))
                  if pair[0] != pair[1])
    return f"its column {number}, counted from 0, is {names[number]!r}, not {others[number]!r} as"


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardPlan:
    """A plan by which parts become shards, the same for all of them.

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
        That are trained, of all parts; empty of a regression.
    factors : ndarray of float64, shape (n_classes,), or None
        Weights of the classes.
    left_out : tuple
        Classes of weight 0.
    rule : WeightRule
        Of the weights of all rows with those of their classes.
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
    factors: np.ndarray | None = None
    left_out: tuple[Any, ...] = ()
    rule: WeightRule
    target_low: np.ndarray
    target_high: np.ndarray
    fit_intercept: bool = True

    def weights(self, part: Part) -> np.ndarray | None:
        """Weights of rows of a part with those of their classes; None: all alike."""
        if not self.rule.weighted:
            return None
        return part.weights if self.factors is None \
            else class_products(part, self.classes, self.factors)

    def raised(self, part: Part, weights: np.ndarray) -> Raised | None:
        """What is raised of its weights, see :meth:`bitstep.training.raised.Raised.of`."""
        if not len(self.classes):
            return Raised.of(self.rule, part.features, part.targets.reshape(len(weights), -1),
                             weights)
        return Raised.of(self.rule, part.features, np.searchsorted(self.classes, part.targets),
                         weights, len(self.classes))

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


def class_products(part: Part, classes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Weights of rows times those of their classes, all above 0.

    Raises
    ------
    DataError
        If 64-bit floating point cannot hold one; the message names the part.
    """
    try:
        found = products(part.weights, part.targets, classes, factors)
    except ValueError as error:
        raise DataError(f"{part.where}: {error}") from None
    if not found.all():
        raise DataError(f"{part.where}: sample_weight times class_weight must fit 64-bit floating "
                        "point, but one is so small that it is 0; multiply one of them by a number")
    return found


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """Weights of classes over all parts.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)
        Those that are trained.
    factors : ndarray of float64, shape (n_classes,)
        Above 0.
    left_out : tuple
        Classes of weight 0.
    """

    classes: np.ndarray
    factors: np.ndarray
    left_out: tuple[Any, ...]

    @staticmethod
    def of(summary: Summary, class_weight: Any) -> "ClassWeights | None":
        """Those of a dictionary by class, or of ``balanced`` by the sums over all parts.

        Raises
        ------
        ValueError
            See :func:`bitstep.training.weights.class_factors`.
        """
        factors = class_factors(class_weight, summary.classes, summary.class_sums)
        if factors is None:
            return None
        keep = factors > 0
        return ClassWeights(summary.classes[keep], factors[keep], left_out_classes(class_weight))

    def weighed(self, summary: Summary) -> Weighed | None:
        """Weights of rows that have no others; None: those of each row must be looked at."""
        if summary.weighed.values != (1.0,):
            return None
        of_class = dict(zip(summary.classes.tolist(), summary.class_sums, strict=True))
        return weigh_counts(self.factors, np.array(
            [int(of_class[one]) for one in self.classes.tolist()]))


def weighed_part(part: Part, weights: ClassWeights) -> Weighed:
    """Facts of the weights of a part's rows times those of their classes.

    Raises
    ------
    DataError
        As :func:`class_products`.
    """
    if not len(part.features):
        return weigh(np.empty(0))
    part = part.checked(True).taken(weights.left_out)
    return weigh(class_products(part, weights.classes, weights.factors)
                 if len(part.targets) else np.empty(0))


def shard_plan_of(summary: Summary, kind: str, class_weights: ClassWeights | None = None,
                  weighed: Weighed | None = None, **options: Any) -> ShardPlan:
    """Plan the shards of the parts of a summary.

    Parameters
    ----------
    summary : Summary
        Of all parts.
    class_weights : ClassWeights or None
    weighed : Weighed or None
        Weights of all rows with those of the classes; None: they have none.
    kind : {"minmax", "maxabs"}
        How columns are scaled.
    options
        Others of :class:`ShardPlan`.

    Raises
    ------
    DataError
        If a classification has one class, or labels are the values of a regression.
    """
    classes, factors, left_out = summary.classes, None, ()
    if class_weights is not None:
        classes, factors = class_weights.classes, class_weights.factors
        left_out = class_weights.left_out
    if len(classes) == 1:
        where = " of a row of a weight above 0" if weighed or summary.weighed.values != (1.0,) \
            else ""
        raise DataError(f"A classification must have two classes, but every label{where} is "
                        f"{classes.tolist()[0]!r}")
    if len(classes) > MAX_CLASSES:
        raise DataError(f"A classification must have at most {MAX_CLASSES} classes, but labels "
                        f"take {len(classes)} values; train a regression if they are values")
    if (broken := broken_class(classes)) is not None:
        raise DataError("Labels of more than two classes must be whole numbers, not "
                        f"{broken:g}; train a regression if they are values, or number the classes")
    low, high = summary.target_low, summary.target_high
    if not options.get("fit_intercept", True):
        high = np.maximum(-low, high)
        low = -high
    return ShardPlan(scaler=scaler_of_ranges(summary.low, summary.high, kind),
                     classes=classes, factors=factors, left_out=left_out,
                     rule=(weighed or summary.weighed).rule(), target_low=low, target_high=high,
                     **options)


def shard_seed(seed: int, number: int) -> int:
    """Seed of a shard's dither and shuffle: the first shard has that of the training."""
    if not number:
        return seed
    return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1)[0])


def make_shards(part: Part, plan: ShardPlan, first: int, summary: Summary) -> list[Shard]:
    """The shards of a part.

    Parameters
    ----------
    part : Part
    plan : ShardPlan
    first : int
        Number of its first shard among those of all parts.
    summary : Summary
        Of this part, as it was.

    Raises
    ------
    DataError
        If the part is not what it was.
    """
    classes = len(plan.classes) > 0
    now = summarize(part, classes, plan.left_out)
    ends = "low", "high", "target_low", "target_high", "classes"
    if (now.n_rows, now.weighed, now.class_sums) != (
            summary.n_rows, summary.weighed, summary.class_sums) or not all(
            np.array_equal(getattr(now, name), getattr(summary, name)) for name in ends):
        raise DataError(f"{part.where} has other rows than when it was scaled; keep the data as "
                        "they are: persist the collection, or give a seed to what makes it")
    if not now.n_rows:
        return []
    part = part.checked(classes).taken(plan.left_out)
    found = []
    for number, (start, stop) in enumerate(plan.pieces(now.n_rows), start=first):
        piece, seed = part.rows(slice(start, stop)), shard_seed(plan.seed, number)
        if plan.shuffle:
            piece = piece.rows(shuffled(stop - start, max(0, seed)))
        stored, raised, weights = None, None, plan.weights(piece)
        if weights is not None:
            raised = plan.raised(piece, weights)
            order, stored = spread(plan.rule.counts(weights)), plan.rule.stored(weights)
            assert stored is not None
            piece, stored = piece.rows(order), stored[order]
        rows = quantize_bit_planes(piece.features, bus_width=plan.bus_width,
                                   scaler=plan.scaler, seed=seed, weights=stored)
        found.append(Shard([QuantizedDataset(rows, stream)
                            for stream in plan.streams(piece.targets)], raised))
    return found
