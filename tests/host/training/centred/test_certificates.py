"""Certificates: bounds of the objective less its optimum."""

import math
from typing import Any

import numpy as np
import pytest
from tests.host.training.centred import test_least_squares
from tests.host.training.centred.test_smooth import fit, least, make, objective_of

from bitstep.data import load
from bitstep.golden.sigmoid import FINE_ARGUMENT, FINE_LOSS_BOUND, FINE_VALUE, fine_sigmoid
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, quantize_labels
from bitstep.training.centred.certificates import convex_gap, quadratic_gap, softmax_gap

LOSSES_OF_CLASSES = [Loss.LOGISTIC, Loss.SQUARED_HINGE, Loss.LEAST_SQUARES]


@pytest.mark.parametrize("loss", LOSSES_OF_CLASSES)
@pytest.mark.parametrize("l2", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("n_rows, n_features", [(300, 6), (150, 24)])
def test_no_outer_step_is_farther_than_its_certificate(loss, l2, n_rows, n_features):
    data = make(n_rows, n_features, seed=n_features)
    model = fit(data, loss, l2, epochs=16)
    value, optimum = objective_of(data, loss, l2)[3], least(data, loss, l2)
    above = [value(np.append(weights[0], intercept[0])) - optimum for weights, intercept in zip(
        model.weights, model.scaled_intercepts, strict=True)]
    assert model.gaps is not None
    gaps = model.gaps[:, 0]
    assert (gaps >= np.array(above) - 1e-15).all()
    assert gaps[-1] < 1e-4 * optimum
    entries = model.facts()
    assert [entry["gap"] for entry in entries] == [
        gap if math.isfinite(gap) else None for gap in gaps.tolist()]


def test_ridge_with_labels_of_a_regression_and_no_intercept():
    data = test_least_squares.make(center=False)
    l2 = 0.05
    model = test_least_squares.fit(data, l2=l2, fit_intercept=False, epochs=5)
    design, labels, best = test_least_squares.optimum(data, l2, intercept=False)

    def value(x):
        return ((design @ x - labels) ** 2).mean() / 2 + l2 / 2 * x @ x

    assert model.gaps is not None
    above = np.array([value(weights[0]) - value(best) for weights in model.weights])
    assert (model.gaps[:, 0] >= above - 1e-12).all()
    assert model.gaps[0, 0] < 1e3 * above[0]        # a bound of the size of what it bounds
    assert test_least_squares.fit(data, fit_intercept=False, epochs=2).gaps is None


@pytest.mark.parametrize("steps, gap, above", [(6, 2.8e-4, 1.7e-5), (20, 1.6e-11, 8.9e-8)])
def test_figures_of_the_page(steps, gap, above):
    """docs/results/exactness.md: the values before have 64 bits, the stored ones 16."""
    bunch = load("diabetes")
    features, labels = bunch.features, bunch.labels
    rows = quantize_bit_planes(features)
    data = QuantizedDataset(rows, quantize_labels(labels, rows.n_rows))
    model = test_least_squares.fit(data, l2=0.01, epochs=steps, planes=4)
    scaled = rows.scaler.transform(features)
    design = np.column_stack([scaled, np.ones(len(scaled))])
    ridge = np.diag([0.01] * scaled.shape[1] + [0.0])

    def value(x):
        return ((design @ x - labels) ** 2).mean() / 2 + x @ ridge @ x / 2

    best = value(np.linalg.solve(design.T @ design / len(design) + ridge,
                                 design.T @ labels / len(design)))
    found = np.append(model.weights[-1][0], model.scaled_intercepts[-1][0])
    assert model.gaps is not None
    assert model.gaps[-1, 0] == pytest.approx(gap, rel=0.05)
    assert value(found) - best == pytest.approx(above, rel=0.05)
    assert round(best) == 1495


def parts(seed: int, n_features: int = 5) -> Any:
    """A ridge problem: its value and slope as functions, optimum, penalties and means."""
    rng = np.random.default_rng(seed)
    u = np.hstack([rng.uniform(-1, 1, (40, n_features)) + rng.uniform(-0.5, 0.5, n_features),
                   np.ones((40, 1))])
    labels, l2 = rng.standard_normal(40), float(rng.choice([1e-3, 0.1, 3.0]))
    ridge = np.append(l2 * rng.choice([1e-4, 0.3, 1.0], n_features), 0.0)
    bend = u.T @ u / 40 + np.diag(ridge)
    best = np.linalg.solve(bend, u.T @ labels / 40)

    def value(x):
        return ((u @ x - labels) ** 2).mean() / 2 + ridge @ x ** 2 / 2

    def slope(x):
        return u.T @ (u @ x - labels) / 40 + ridge * x

    return rng, value, slope, best, ridge[:-1], u[:, :-1].mean(axis=0)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_with_gradients_that_are_wrong_by_their_error(seed):
    rng, value, slope, best, penalties, means = parts(seed)
    for size in (1.0, 1e-2, 1e-4):
        points = best + size * rng.standard_normal((6, len(best)))
        above = value(points[-1]) - value(best)
        for error in (0.0, 0.1 * size, 3 * size):
            slopes = np.array([slope(x) for x in points])
            slopes += rng.choice([-error, error], slopes.shape)
            assert quadratic_gap(slopes[-1], penalties, means, error) >= above * (1 - 1e-9)
            found = convex_gap(points, slopes, penalties, error)
            assert found >= above * (1 - 1e-9)
            assert np.isfinite(found) == (slopes[:, -1].max() > error > -error
                                          > slopes[:, -1].min()
                                          if error else np.ptp(np.sign(slopes[:, -1])) > 0)


def test_bounds_of_the_gradient_alone():
    """By hand: c^2 / 2 + sum of (v - c m)_j^2 / (2 p_j), and every component wrong by an error."""
    slope, penalties = np.array([3.0, -4.0, 2.0]), np.array([0.5, 0.25])
    zeros = np.zeros(2)
    assert quadratic_gap(slope, penalties, zeros) == pytest.approx(2 + 9 + 32)
    assert quadratic_gap(slope, penalties, np.array([1.0, -0.5])) == pytest.approx(2 + 1 + 18)
    assert quadratic_gap(slope, penalties, np.array([1.0, -0.5]), 1.0) == pytest.approx(
        4.5 + (1 + 2) ** 2 + 2 * (3 + 1.5) ** 2)
    assert quadratic_gap(slope, penalties, np.ones(2), fit_intercept=False) == pytest.approx(41)
    assert convex_gap(slope[None], slope[None], penalties) == math.inf
    flat = np.array([[3.0, -4.0, 0.0]])
    assert convex_gap(flat, flat, penalties, 1.0, fit_intercept=False) == pytest.approx(16 + 50)


def pair_bound(points, slopes, penalties, error, rising, falling):
    """The larger of the two ends, by the formulas of :func:`convex_gap` for one pair."""
    far, bounds = error * math.sqrt(sum(1 / penalties)), []
    for wrong in (-error, error):
        share = (wrong - slopes[falling, -1]) / (slopes[rising, -1] - slopes[falling, -1])
        across, tails = np.zeros(len(penalties)), 0.0
        for part, one in ((share, rising), (1 - share, falling)):
            move = points[-1] - points[one]
            across += part * (slopes[one, :-1] + penalties * move[:-1])
            tails += part * ((slopes[-1] - slopes[one]) @ move - penalties @ move[:-1] ** 2
                             + 2 * error * np.abs(move).sum())
        bounds.append((math.sqrt(across ** 2 @ (1 / penalties)) + far) ** 2 / 2 + tails)
    return max(bounds)


@pytest.mark.parametrize("n_points", [2, 5])
@pytest.mark.parametrize("seed", range(10))
def test_the_bound_of_a_convex_loss_is_that_of_the_best_pair(seed, n_points):
    rng = np.random.default_rng(seed)
    points, root = rng.normal(0, 1, (n_points, 4)), rng.normal(0, 1, (4, 4))
    points[:2, -1] = 8, -8              # so that there is a pair
    penalties, error = rng.uniform(0.5, 2, 3), 0.03
    slopes = points @ (root @ root.T + np.diag([*penalties, 0]))    # of a convex F
    rising, falling = (np.flatnonzero(sign * slopes[:, -1] > error) for sign in (1, -1))
    expected = min(pair_bound(points, slopes, penalties, error, up, down)
                   for up in rising for down in falling)
    assert convex_gap(points, slopes, penalties, error) == pytest.approx(expected, rel=1e-12)


def test_of_two_classes_that_are_equally_likely_by_hand():
    """A = [[1, -1], [-1, 1]] / 4, whose eigenvalue of (1, -1) is 1/2: s^2 = 2 (c1^2 + c2^2)."""
    shared, penalties = np.full((2, 2), 0.25), np.array([4.0])
    slope, moments = np.array([[0.75, 0.125], [0.25, -0.125]]), np.array([[3.0], [5.0]])
    length = math.sqrt((0.375 ** 2 + 0.625 ** 2) / 4) + 0.25 * math.sqrt(5 / 4)
    assert softmax_gap(slope, shared, penalties, moments) == pytest.approx(
        0.25 ** 2 + length ** 2 / 2, rel=1e-7)
    error, least_curvature = 0.01, 0.5 - 4 * (0.02 + 2 ** -30)
    size = math.sqrt(0.03125 / least_curvature) + math.sqrt(2 / least_curvature) * error
    length = math.sqrt((0.415 ** 2 + 0.665 ** 2) / 4) + size * math.sqrt(5 / 4)
    assert softmax_gap(slope, shared, penalties, moments, error) == pytest.approx(
        size ** 2 + length ** 2 / 2, rel=1e-12)
    # 2 s^2 is the least eigenvalue at c = 1/4.
    for intercept, finite in ((0.2499, True), (0.2501, False), (0.4, False)):
        slope[:, 1] = intercept, -intercept
        assert math.isfinite(softmax_gap(slope, shared, penalties, moments)) == finite


def test_without_an_intercept_errors_count_for_each_weight():
    penalties, error = np.array([4.0, 0.5]), 0.125
    slope, none = np.array([0.375, -0.875, 0.0]), np.zeros((2, 2))
    expected = (0.5 ** 2 / 4 + 1.0 ** 2 / 0.5) / 2
    assert quadratic_gap(slope, penalties, none[0], error, fit_intercept=False) == expected
    assert convex_gap(none, slope[None], penalties, error, fit_intercept=False) == expected
    assert softmax_gap(np.array([slope, -slope]), none, penalties, none, error,
                       fit_intercept=False) == 2 * expected


def test_the_loss_of_the_fine_sigmoid_is_near_the_logistic_one():
    step = 1 << 6
    places = np.arange(-16 << FINE_ARGUMENT, 16 << FINE_ARGUMENT, step)
    found = np.array([fine_sigmoid(int(place)) for place in places]) / 2.0 ** FINE_VALUE
    wrong = found - 1 / (1 + np.exp(-places / 2.0 ** FINE_ARGUMENT))
    assert (np.diff(found) >= 0).all()      # so the loss is convex
    assert 0.9 * FINE_LOSS_BOUND < np.ptp(np.cumsum(wrong) * step / 2 ** FINE_ARGUMENT) \
        < FINE_LOSS_BOUND


def test_a_certificate_needs_l2():
    rng = np.random.default_rng(0)
    data = QuantizedDataset(quantize_bit_planes(rng.standard_normal((80, 3))),
                            quantize_labels(rng.standard_normal(80), 80))
    model = fit(data, Loss.LEAST_SQUARES, 0.0, epochs=2)
    assert model.gaps is None
    assert "gap" not in model.facts()[-1]
