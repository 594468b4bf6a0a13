"""Rows that models are scored on while they are trained, by sums without any rounding.

A score decides after which epoch a training ends, so all devices, machines and BLAS libraries must
agree on it. Features are integers here, in units of 2**-15 of a column's scale, and weights are
split into halves of 16 bits. So every product and every sum of a dot product is an integer below
2**53, which floating-point numbers hold exactly in any order. Losses of rows are added without
rounding, too (:func:`math.fsum`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitstep.pipeline.losses import LossFunction, formula_of
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset, Scaler
from bitstep.training.losses import CHUNK_VALUES, decide
from bitstep.training.planning import Plan

UNIT = 2.0 ** -15           # of the features
MAX_VALUE = 64              # of a scaled feature; held-out rows may be outside of [-1, 1]
SCORED_ROWS = 16384         # of the rows to train on
_LOSS_UNIT = 2.0 ** -24     # losses of classes: logarithms differ in their last digits by machine
_EXACT_BITS = 53
_LITTLE = 1 << 24           # products of a part


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows on which models are scored.

    Attributes
    ----------
    values : ndarray of int32, shape (n_rows, n_features)
        Scaled features, in units of 2**-15.
    targets : ndarray of float64, shape (n_rows, n_outputs)
        In label units; +1 and -1 of classes.
    loss : Loss or LossFunction
        The Huber loss with its bound.
    classes : bool
        True of a classification.
    variance : ndarray of float64, shape (n_features,), or None
        Of the codes that the values are; None of features.
    weights : ndarray of uint16, shape (n_rows,), or None
        Weights of the rows.
    """

    values: np.ndarray
    targets: np.ndarray
    loss: Loss | LossFunction
    classes: bool
    variance: np.ndarray | None = None
    weights: np.ndarray | None = None

    def outputs(self, plans: Sequence[Plan], models: np.ndarray,
                intercepts: Sequence[int]) -> np.ndarray:
        """Outputs of models for every row, shape (n_rows, n_outputs).

        Parameters
        ----------
        plans : sequence of Plan
            Of each output.
        models : ndarray of int32, shape (n_outputs, n_features)
            Weights.
        intercepts : sequence of int
            Intercept words.
        """
        words = np.asarray(models, np.int64)
        halves = np.concatenate([words >> 16, words & 0xFFFF]).T.astype(np.float64)
        found = np.empty(self.targets.shape)
        for start, stop in _chunks(*self.values.shape):
            high, low = np.split(_product(self.values[start:stop], halves), 2, axis=1)
            found[start:stop] = high * 65536.0 + low
        units = [one.units for one in plans]
        found *= [UNIT * one.model_unit for one in units]
        found += [float(one.intercepts(np.asarray(word)))
                  for one, word in zip(units, intercepts, strict=True)]
        return found

    def mean_loss(self, values: np.ndarray) -> float:
        """Mean loss of output values, over rows and outputs."""
        rule = formula_of(self.loss)
        losses = rule.value(values, self.targets)
        if rule.signs:
            losses = np.rint(losses / _LOSS_UNIT) * _LOSS_UNIT
        if self.weights is not None:
            total = losses.shape[1] * int(self.weights.sum(dtype=np.int64))
            return math.fsum((losses * self.weights[:, None]).ravel().tolist()) / total
        return math.fsum(losses.ravel().tolist()) / losses.size

    def accuracy(self, values: np.ndarray) -> float:
        """Share of the rows whose class the output values decide rightly."""
        right = decide(values) == decide(self.targets)
        if self.weights is not None:
            return int(self.weights[right].sum(dtype=np.int64)) \
                / int(self.weights.sum(dtype=np.int64))
        return int(right.sum()) / len(values)

    @property
    def baseline(self) -> float:
        """Loss of the best constant; 1 if that has none."""
        return best_constant(self.loss, self.targets, self.weights) or 1.0

    def noise(self, plans: Sequence[Plan], models: np.ndarray) -> float:
        """Mean over the outputs of what the rounding to codes adds to the squared error."""
        if self.variance is None or not formula_of(self.loss).quadratic:
            return 0.0
        weights = np.stack([one.units.weights(words)
                            for one, words in zip(plans, models, strict=True)])
        return math.fsum((weights ** 2 * self.variance).ravel().tolist()) / 2 / len(models)

    def some(self, count: int) -> "ScoredRows":
        """At most so many of the rows, evenly spaced."""
        pick = spaced(len(self.values), count)
        return ScoredRows(self.values[pick], self.targets[pick], self.loss, self.classes,
                          self.variance, None if self.weights is None else self.weights[pick])


def best_constant(loss: Loss | LossFunction, targets: np.ndarray,
                  weights: np.ndarray | None) -> float:
    """Mean loss of the best constant of each output, over rows times their weights."""
    means = np.average(targets, axis=0, weights=weights)
    variances = np.average(np.square(targets - means), axis=0, weights=weights)
    return formula_of(loss).baseline(zip(means.tolist(), variances.tolist(), strict=True))


def above_constant(losses: Sequence[float], kept: int, best: float,
                   rule: LossFunction) -> str | None:
    """A clause that says that a training learned nothing, as the best constant is better; None for
    others.

    Parameters
    ----------
    losses : sequence of float
        Training loss of every epoch.
    kept : int
        Epoch of the model to keep, counted from 0.
    best : float
        Loss of the best constant.
    rule : LossFunction
        Of the objective.
    """
    if losses[kept] <= 1.1 * best:      # nothing to learn gives a little above 1
        return None
    constant = "the labels' mean" if rule.quadratic else "the best constant"
    return f"the training loss is {losses[kept]:.6g}, but predicting {constant} has {best:.6g}"


def falls(losses: Sequence[float]) -> bool:
    """True if nearly every epoch lowered the training loss: of a training that learned nothing the
    steps were too short, not too long.
    """
    changes = np.diff(losses)
    return len(changes) > 0 and float(np.mean(changes < 0)) > 0.9


def scored_features(features: np.ndarray, targets: np.ndarray, scaler: Scaler,
                    loss: Loss | LossFunction, *, classes: bool,
                    weights: np.ndarray | None = None) -> ScoredRows:
    """Rows of features.

    Parameters
    ----------
    features : ndarray of float, shape (n_rows, n_features)
        In the units of the data. What is more than 64 times a column's half range from its centre
        counts as that far.
    targets : ndarray of float64, shape (n_rows, n_outputs)
    scaler : Scaler
        Of the rows to train on.
    loss : Loss or LossFunction
    classes : bool
        True of a classification.
    weights : ndarray of uint16, shape (n_rows,), or None
    """
    values = np.empty(features.shape, np.int32)
    for start, stop in _chunks(*features.shape):
        values[start:stop] = _integers(scaler.transform(features[start:stop]))
    return ScoredRows(values, np.asarray(targets, np.float64), loss, classes, weights=weights)


def scored_codes(outputs: Sequence[QuantizedDataset], loss: Loss | LossFunction, *, classes: bool,
                 count: int = SCORED_ROWS) -> ScoredRows:
    """Rows of quantized data without features: at most ``count`` of them, evenly spaced.

    Parameters
    ----------
    outputs : sequence of QuantizedDataset
        The same rows, with the labels of each output.
    loss, classes
        See :func:`scored_features`.
    """
    first = outputs[0]
    pick = spaced(first.n_rows, count)
    values = np.empty((len(pick), first.n_features), np.int32)
    for start, stop in _chunks(*values.shape):
        values[start:stop] = _integers(first.rows.values(pick[start:stop])[0])
    targets = np.column_stack([data.label_offset + data.label_scale * _labels(data, pick)
                               for data in outputs])
    return ScoredRows(values, targets, loss, classes,
                      None if first.rows.exact else np.asarray(first.variance),
                      None if first.rows.weights is None else first.rows.weights[pick])


def spaced(n_rows: int, count: int) -> np.ndarray:
    """Numbers of at most ``count`` of so many rows, evenly spaced."""
    count = min(n_rows, count)
    return np.arange(count, dtype=np.int64) * n_rows // count


def _product(values: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Matrix product; of little work without BLAS, whose threads would wait busily for more."""
    floats = values.astype(np.float64)
    if floats.size * halves.shape[1] <= _LITTLE:
        return np.einsum("ij,jk->ik", floats, halves)
    return floats @ halves


def _labels(data: QuantizedDataset, pick: np.ndarray) -> np.ndarray:
    """Stored labels of some rows, given in their order."""
    found, start = [], 0
    for block in data.labels.blocks(data.n_rows):
        own = pick[np.searchsorted(pick, start):np.searchsorted(pick, start + len(block))]
        found.append(block[own - start])
        start += len(block)
    return np.concatenate(found)


def _integers(scaled: np.ndarray) -> np.ndarray:
    # Products with halves of words, and sums of them, stay below 2**53.
    limit = min(MAX_VALUE / UNIT, 2.0 ** (_EXACT_BITS - 17) / scaled.shape[1])
    return np.rint(np.clip(scaled / UNIT, -limit, limit))


def _chunks(n_rows, n_features):
    size = max(1, CHUNK_VALUES // n_features)
    for start in range(0, n_rows, size):
        yield start, min(start + size, n_rows)
