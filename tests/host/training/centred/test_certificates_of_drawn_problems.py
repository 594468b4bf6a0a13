"""A search for a problem in which bit-centred training is farther from its optimum than it says.

The optimum is found again by Newton's method in float64 on the stored rows. The problems of
``DAY`` are tried always, all 200 with ``-m slow``.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bitstep.devices import default_device, open_device
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep.quantization import (
    QuantizedDataset,
    quantize_bit_planes,
    quantize_labels,
    sign_labels,
)
from bitstep.quantization.weights import stored_weights
from bitstep.training.choices import resolve_training
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.train import train_model

PROBLEMS, DAY = 200, 12
KINDS = ("plain", "collinear", "wide", "separable", "ones", "long tails", "repeated", "classes",
         "weighted", "softmax", "weighted softmax")
ROUNDING = 1e-12            # of values in float64, over the least one


@dataclass
class Drawn:
    """A problem: what is trained, and the same in float64.

    Attributes
    ----------
    design : ndarray of float64, shape (n_rows, n_features + 1)
        Stored rows, and a last column of 1, or 0 without an intercept.
    targets : ndarray of float64, shape (n_outputs, n_rows)
    ridge : ndarray of float64, shape (n_features + 1,)
    shares : ndarray of float64, shape (n_rows,)
        Of the rows in a mean.
    """

    outputs: list[QuantizedDataset]
    objective: Objective
    options: dict[str, Any]
    design: np.ndarray
    targets: np.ndarray
    ridge: np.ndarray
    shares: np.ndarray

    @property
    def groups(self) -> list[list[int]]:
        """Outputs that one certificate is about."""
        numbers = list(range(len(self.outputs)))
        return [numbers] if self.objective.multinomial else [[number] for number in numbers]

    def value(self, group: list[int], x: np.ndarray) -> float:
        """Objective of a group at its models, shape (outputs of it, n_features + 1)."""
        values = self.design @ x.T
        if self.objective.multinomial:
            own = (values * (self.targets[group].T > 0)).sum(axis=1)
            losses = np.logaddexp.reduce(values, axis=1) - own
        else:
            losses = LOSSES[self.objective.loss].value(values[:, 0], self.targets[group[0]])
        return float(self.shares @ losses + (self.ridge * x ** 2).sum() / 2)

    def _bends(self, group: list[int], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of each row's loss by the outputs of a group, shape (n_rows, outputs), and
        by two of them.
        """
        values, targets = self.design @ x.T, self.targets[group].T
        if self.objective.multinomial:
            powers = np.exp(values - values.max(axis=1, keepdims=True))
            found = powers / powers.sum(axis=1, keepdims=True)
            bends = found[:, :, None] * (np.eye(len(group)) - found[:, None, :])
            return found - (targets > 0), bends
        rule = LOSSES[self.objective.loss]
        if self.objective.loss == Loss.LOGISTIC:
            size = np.abs(values)
            bend = np.exp(-size) / (1 + np.exp(-size)) ** 2
        else:
            bend = np.ones_like(values) if rule.quadratic else (values * targets < 1) * 1.0
        return rule.derivative(values, targets), bend[:, :, None]

    def optimum(self, group: list[int]) -> float:
        """Least value, but for what half the square of the last Newton step says."""
        x = np.zeros((len(group), self.design.shape[1]))
        value, ridge = self.value(group, x), np.tile(self.ridge, len(group))
        for _ in range(500):
            first, second = self._bends(group, x)
            slope = ((self.shares[:, None] * first).T @ self.design + self.ridge * x).ravel()
            hessian = np.einsum("i,ikl,ij,im->kjlm", self.shares, second, self.design, self.design,
                                optimize=True).reshape(len(slope), -1) + np.diag(ridge)
            move = -np.linalg.lstsq(hessian, slope, rcond=None)[0]
            share, step = 1.0, move.reshape(x.shape)
            while share > 1e-12 and self.value(group, x + share * step) \
                    > value + 1e-4 * share * (slope @ move):
                share /= 2
            if share <= 1e-12:
                break
            x = x + share * step
            before, value = value, self.value(group, x)
            if before - value <= 1e-15 * value and share == 1:
                break
        return value


def drawn(seed: int) -> Drawn:
    """The problem of a seed; each kind comes in turn."""
    rng = np.random.default_rng([29, seed])
    kind = KINDS[seed % len(KINDS)]
    n_rows, n_features = int(rng.integers(20, 300)), int(rng.integers(1, 25))
    if kind == "wide":
        n_features = n_rows + int(rng.integers(1, 30))
        n_rows, n_features = n_rows // 4 + 8, n_features // 4 + 10
    features = rng.standard_normal((n_rows, n_features))
    if kind == "collinear":
        features = np.hstack([features, features @ rng.standard_normal((n_features, 3))])
        features += 10.0 ** rng.integers(-7, -1) * rng.standard_normal(features.shape)
    elif kind == "ones":
        features = (rng.random((n_rows, n_features)) < rng.uniform(0.01, 0.5, n_features)) * 1.0
    elif kind == "long tails":
        features = np.sinh(2 * features)
    features += rng.choice([0.0, 3.0])      # columns far from centred, within their scale
    margins = (features - features.mean(axis=0)) @ rng.standard_normal(features.shape[1])
    noise = 0.0 if kind == "separable" else float(rng.choice([0.1, 1.0]))
    margins = margins / (margins.std() or 1.0) + noise * rng.standard_normal(n_rows)
    if kind == "repeated":                  # whole weights, as rows that are repeated
        times = rng.integers(1, 9, n_rows)
        features, margins = np.repeat(features, times, axis=0), np.repeat(margins, times)
    loss = Loss(rng.choice([Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.LOGISTIC]))
    weights, joint = None, "softmax" in kind
    if "weighted" in kind:
        weights = stored_weights(rng.choice([rng.uniform(0.3, 1, len(margins)),
                                             rng.integers(1, 5, len(margins)) * 1.0]))
    if joint:
        loss = Loss.LOGISTIC
    intercept = bool(rng.random() < 0.85)
    objective = Objective(loss=loss, l2=float(10 ** rng.uniform(-6, 0)),
                          standardized=bool(rng.random() < 0.7), multinomial=joint)
    rows = quantize_bit_planes(features, scaler="minmax" if intercept else "maxabs",
                               weights=weights)
    if joint or kind == "classes":
        cuts = np.quantile(margins, [0.2, 0.7])
        which = np.searchsorted(cuts, margins)
        labels = [sign_labels(np.where(which == one, 1.0, -1.0)) for one in range(3)]
    elif loss == Loss.LEAST_SQUARES and rng.random() < 0.7:
        labels = [quantize_labels(float(10 ** rng.uniform(-3, 3)) * margins, rows.n_rows,
                                  center_labels=intercept)]
    else:
        labels = [sign_labels(np.where(margins > np.quantile(margins, rng.uniform(0.05, 0.6)),
                                       1.0, -1.0))]
    outputs = [QuantizedDataset(rows, one) for one in labels]
    ones = np.full((rows.n_rows, 1), float(intercept))
    targets = np.array([one.label_offset + one.label_scale * one.labels.part(0, rows.n_rows)
                        for one in outputs])
    options = {"fit_intercept": intercept, "epochs": int(rng.integers(2, 20)),
               "planes": rng.choice([1, 2, 4, 8, 16]).item()}
    return Drawn(outputs, objective, options, np.hstack([rows.values(slice(None))[0], ones]),
                 targets, np.append(objective.penalties(rows, intercept), 0.0),
                 np.full(rows.n_rows, 1 / rows.n_rows) if weights is None
                 else weights / weights.sum(dtype=float))


@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=[pytest.mark.slow] * (seed >= DAY)) for seed in range(PROBLEMS)])
def test_no_model_is_farther_than_its_certificate(seed):
    problem = drawn(seed)
    rows, objective = problem.outputs[0].rows, problem.objective
    training = resolve_training(rows, objective, solver="bit-centred", **problem.options)
    with open_device(default_device(), pipeline_of(rows, objective)) as device:
        model = train_model(problem.outputs, device, device.config, objective, training)
    # None: no outer step had a bound.
    gaps = np.full((len(model.weights), len(problem.groups)), math.inf) \
        if model.gaps is None else model.gaps
    found = np.append(model.weights, model.scaled_intercepts[..., None], axis=2)
    for number, group in enumerate(problem.groups):
        optimum = problem.optimum(group)
        for step, gap in enumerate(gaps[:, number]):
            assert problem.value(group, found[step, group]) - optimum \
                <= gap + ROUNDING * optimum, (number, step)
            assert gap >= 0
        if objective.loss == Loss.LEAST_SQUARES:
            assert math.isfinite(gaps[-1, number])


def test_optimum_is_that_of_no_slope():
    """By hand: two rows of +-1 with labels of their signs, no intercept, ridge 1, least squares:
    (x - 1)^2 / 2 + x^2 / 2 is least at 1/2, with 1/4.
    """
    rows = quantize_bit_planes(np.array([[-1.0], [1.0]]), scaler="maxabs")
    objective = Objective(loss=Loss.LEAST_SQUARES, l2=1.0)
    problem = Drawn([], objective, {}, np.array([[-1.0, 0], [1, 0]]), np.array([[-1.0, 1]]),
                    np.append(objective.penalties(rows, False), 0.0), np.full(2, 0.5))
    assert problem.optimum([0]) == pytest.approx(0.25, rel=1e-12)
