"""Weights of rows that 16 bits raise, and how much that counts.

Weights that go along with rows have 1 to 65,535 units, so one of less than 1/65,535 of the largest
is raised to that. A row far from all others, which a user all but leaves out by its weight, then
moves a model: it counts with the square of its distance. All that is needed to say so are sums
over rows, so they may be summed in parts, wherever these are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.training.weighing import OFF, WeightRule

RAISED = 0.1                # share of the rows whose stored weights are off, with a word
EFFECT = 1e-4               # of weights that are raised, that is worth one, too


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of rows by their weights, and by what is added to those that are raised. Weights are
    in units of the largest of all rows; columns are features and targets that are numbers.

    Attributes
    ----------
    weight, added : float
        Sums of both.
    mean : ndarray, shape (n_columns,)
        By weight.
    squares, added_squares : ndarray, shape (n_columns,)
        Sums of the squared distances from the mean, by either.
    added_sums : ndarray, shape (n_columns,)
        Sum of the distances, by what is added.
    """

    weight: float
    added: float
    mean: np.ndarray
    squares: np.ndarray
    added_squares: np.ndarray
    added_sums: np.ndarray

    @staticmethod
    def of(columns: np.ndarray, weights: np.ndarray, added: np.ndarray) -> "Moments":
        """Those of some rows: float64, shape (n_rows, n_columns)."""
        weight = float(weights.sum())
        with np.errstate(all="ignore"):     # a distance too large for a square is far
            # Distances from a row of much weight: a column of one value has none, exactly.
            origin = columns[weights.argmax()]
            distances = columns - origin
            mean = weights @ distances / weight
            distances -= mean
            squares = distances ** 2
            return Moments(weight, float(added.sum()), origin + mean, weights @ squares,
                           added @ squares, added @ distances)

    def __add__(self, other: "Moments") -> "Moments":
        weight = self.weight + other.weight
        with np.errstate(all="ignore"):
            mean = self.mean + (other.mean - self.mean) * (other.weight / weight)
            one, two = self._about(mean), other._about(mean)
            return Moments(weight, self.added + other.added, mean, *(
                mine + theirs for mine, theirs in zip(one, two, strict=True)))

    def _about(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``squares``, ``added_squares`` and ``added_sums`` about another mean."""
        shift = self.mean - mean
        sums = self.added_sums + self.added * shift
        return (self.squares + self.weight * shift ** 2,
                self.added_squares + shift * (self.added_sums + sums), sums)

    @property
    def effect(self) -> float:
        """How much it counts that weights are raised: the share of all weight that is added, or if
        that is more the share of a column's sum of squares about its mean.
        """
        if not self.added:
            return 0.0
        with np.errstate(all="ignore"):
            shares = np.where(self.added_squares == 0, 0, self.added_squares / self.squares)
        return max(self.added / self.weight, float(np.nan_to_num(shares, nan=np.inf).max()))


@dataclass(frozen=True, eq=False)
class Raised:
    """Rows whose weights are off, as 16 bits hold them.

    Attributes
    ----------
    n_rows : int
    off : int
        Rows whose stored weight is off by more than :data:`bitstep.training.weighing.OFF`.
    ends : tuple of float
        Least and largest of all stored weights, over what they should be.
    classes : ndarray, shape (2, n_classes)
        Weight of each class that was asked for, and that is stored.
    moments : Moments
    """

    n_rows: int
    off: int
    ends: tuple[float, float]
    classes: np.ndarray
    moments: Moments

    @staticmethod
    def of(rule: WeightRule, features: Any, targets: np.ndarray, weights: np.ndarray,
           n_classes: int = 0) -> "Raised | None":
        """That of some rows; None if no weight of all rows is so small that it may be off.

        Parameters
        ----------
        rule : WeightRule
            Of all rows.
        features : ndarray or RowView, shape (n_rows, n_features)
        targets : ndarray, shape (n_rows, n_targets)
            Of a classification the number of each row's class, shape (n_rows,).
        weights : ndarray of float64, shape (n_rows,)
            As they were asked for; at least one.
        n_classes : int
            0: a regression.
        """
        if not rule.coarse:
            return None
        ratios, shares = rule.ratios(weights), rule.shares(weights)
        if ratios is None:
            ratios = np.ones(len(weights))
        added = np.where(ratios > 1 + OFF, shares * (ratios - 1), 0)
        classes = np.empty((2, 0)) if not n_classes else np.array(
            [np.bincount(targets, by, n_classes) for by in (shares, shares * ratios)])
        return Raised(
            len(weights), int((abs(ratios - 1) > OFF).sum()),
            (float(ratios.min()), float(ratios.max())), classes,
            reduce(Moments.__add__, (
                Moments.of(block, shares[place], added[place])
                for place, block in _blocks(features, None if n_classes else targets))))

    def __add__(self, other: "Raised") -> "Raised":
        return Raised(
            self.n_rows + other.n_rows, self.off + other.off,
            (min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])),
            self.classes + other.classes, self.moments + other.moments)

    @property
    def note(self) -> str | None:
        """A sentence on weights that 16 bits hold to no better than a tenth, if those of a share
        :data:`RAISED` of the rows are such, or that of a whole class, or if their
        :attr:`Moments.effect` is more than :data:`EFFECT`.
        """
        asked, stored = self.classes
        classes = int((abs(stored - asked) > OFF * asked).sum())
        few = self.off < RAISED * self.n_rows and not classes
        if not self.off or (few and self.moments.effect <= EFFECT):
            return None
        worst = self.ends[1] if self.ends[1] > 1 + OFF else self.ends[0]
        among = f", among them those of {classes} class{'es' * (classes > 1)}," if classes else ""
        return (f"the weights of {100 * self.off / self.n_rows:.3g} % of the rows{among} are too "
                f"small beside the largest: 16 bits hold them as up to {worst:.3g} times what they "
                "should be, since the least one is 1/65,535 of the largest; choose weights that "
                "differ less, or 0, which leaves rows out")


def _blocks(features: Any, targets: np.ndarray | None) -> Iterator[tuple[slice, np.ndarray]]:
    """Features of blocks of rows, with targets beside them."""
    for _, start, stop in row_blocks(*features.shape):
        block = np.asarray(features[start:stop], np.float64)
        yield slice(start, stop), \
            block if targets is None else np.concatenate([block, targets[start:stop]], axis=1)
