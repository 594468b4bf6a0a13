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
from bitstep.training.choices import resolve_training
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.train import train_model

PROBLEMS, DAY = 200, 12
KINDS = ("plain", "collinear", "wide", "separable", "ones", "long tails", "weighted", "classes")
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
    """

    outputs: list[QuantizedDataset]
    objective: Objective
    options: dict[str, Any]
    design: np.ndarray
    targets: np.ndarray
    ridge: np.ndarray

    def value(self, output: int, x: np.ndarray) -> float:
        """Objective of an output at a model."""
        rule = LOSSES[self.objective.loss]
        return float(rule.value(self.design @ x, self.targets[output]).mean()
                     + self.ridge @ x ** 2 / 2)

    def optimum(self, output: int) -> float:
        """Least value, but for what half the square of the last Newton step says."""
        rule, targets = LOSSES[self.objective.loss], self.targets[output]
        count = len(targets)
        x = np.zeros(self.design.shape[1])
        value = self.value(output, x)
        for _ in range(500):
            values = self.design @ x
            slope = self.design.T @ rule.derivative(values, targets) / count + self.ridge * x
            if self.objective.loss == Loss.LOGISTIC:
                size = np.abs(values)
                bend = np.exp(-size) / (1 + np.exp(-size)) ** 2
            else:
                bend = np.ones(count) if rule.quadratic else (values * targets < 1).astype(float)
            hessian = self.design.T @ (bend[:, None] * self.design) / count + np.diag(self.ridge)
            move = -np.linalg.lstsq(hessian, slope, rcond=None)[0]
            share = 1.0
            while share > 1e-12 and self.value(output, x + share * move) \
                    > value + 1e-4 * share * (slope @ move):
                share /= 2
            if share <= 1e-12:
                break
            x = x + share * move
            before, value = value, self.value(output, x)
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
    if kind == "weighted":                  # whole weights, as rows that are repeated
        times = rng.integers(1, 9, n_rows)
        features, margins = np.repeat(features, times, axis=0), np.repeat(margins, times)
    loss = Loss(rng.choice([Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.LOGISTIC]))
    intercept = bool(rng.random() < 0.85)
    objective = Objective(loss=loss, l2=float(10 ** rng.uniform(-6, 0)),
                          standardized=bool(rng.random() < 0.7))
    rows = quantize_bit_planes(features, scaler="minmax" if intercept else "maxabs")
    if kind == "classes":
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
                 targets, np.append(objective.penalties(rows, intercept), 0.0))


@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=[pytest.mark.slow] * (seed >= DAY)) for seed in range(PROBLEMS)])
def test_no_model_is_farther_than_its_certificate(seed):
    problem = drawn(seed)
    rows, objective = problem.outputs[0].rows, problem.objective
    training = resolve_training(rows, objective, solver="bit-centred", **problem.options)
    with open_device(default_device(), pipeline_of(rows, objective)) as device:
        model = train_model(problem.outputs, device, device.config, objective, training)
    # None: no outer step had a bound.
    gaps = np.full((len(model.weights), len(problem.outputs)), math.inf) \
        if model.gaps is None else model.gaps
    for output in range(len(problem.outputs)):
        optimum = problem.optimum(output)
        for step, gap in enumerate(gaps[:, output]):
            found = problem.value(output, np.append(model.weights[step, output],
                                                    model.scaled_intercepts[step, output]))
            assert found - optimum <= gap + ROUNDING * optimum, (output, step)
            assert gap >= 0
        if objective.loss == Loss.LEAST_SQUARES:
            assert math.isfinite(gaps[-1, output])
