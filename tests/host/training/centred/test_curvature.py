"""Outer steps of Newton's method, on rows so few that the host finds their curvature."""

import tracemalloc
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.losses import LOSSES, MULTINOMIAL, probabilities
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, sign_labels
from bitstep.training.centred import curvature
from bitstep.training.centred.curvature import Curvature, finds_curvature
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.passes import BitCentred
from bitstep.training.centred.smooth import MAX_POOR, SmoothRun
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of

STEP = 0.02
EXACT = 1e-6


@pytest.fixture(params=["products", "gradients"])
def way(request, monkeypatch):
    """Each of the two ways to H^-1."""
    if request.param == "gradients":
        monkeypatch.setattr(curvature, "PRODUCTS", 0)
    return request.param


# What the libraries return has types that are too wide.
DIABETES: Any = load_diabetes(return_X_y=True)
CANCER: Any = load_breast_cancer(return_X_y=True)
IRIS: Any = load_iris(return_X_y=True)


def planes_of(model):
    return {entry["planes"] for entry in model.history_}


def test_least_squares_by_hand(way):
    # One column u = (-1, 1, -1, 1) without an intercept, y = (-1, 3, -1, 3): H = 1 + l2, and
    # w = (mean of u y) / (1 + l2) = 2 / 1.25.
    rows = np.array([[-1.0], [1], [-1], [1]])
    model = LowPrecisionRegressor(l2=0.25, fit_intercept=False, scaler="maxabs").fit(
        rows, [-1, 3, -1, 3])
    assert model.n_iter_ == 1
    assert model.coef_ == pytest.approx([1.6], rel=1e-4)


def test_step_by_hand(way):
    # Codes of 16 bits are the middles of cells: -1 + 2^-16 and 1 - 2^-16 of the columns below.
    rows = quantize_bit_planes(np.array([[-1.0, 1], [1, 1], [-1, -1], [1, -1]]))
    means, variances = rows.column_moments
    found = Curvature(rows, means, np.sqrt(variances), np.ones(2, bool), np.array([0.5, 0]), True)
    # Orthogonal columns: H is diagonal, 1 + .5, 1, 1, times the second derivatives' mean.
    whole, half = found.inverse(), found.inverse(np.full(4, 0.5))
    assert whole is not None
    assert half is not None
    for inverse, diagonal in ((whole, [1 / 1.5, 1, 1]), (half, [1, 2, 2])):
        columns = [inverse(row, EXACT) for row in np.eye(3)]
        assert columns == pytest.approx(np.diag(diagonal), abs=1e-4)
    assert found.step(half, np.array([3.0, 4, 5])) == pytest.approx([-3, -8, -10], abs=1e-3)


@pytest.mark.parametrize("loss", [Loss.LOGISTIC, Loss.SQUARED_HINGE])
def test_second_derivative_is_that_of_the_derivative(loss):
    values, labels = np.linspace(-40, 40, 802), np.resize([1.0, -1], 802)
    rule, step = LOSSES[loss], 1e-6
    assert rule.second is not None
    slope = (rule.derivative(values + step, labels) - rule.derivative(values - step, labels)) / (
        2 * step)
    assert rule.second(values, labels) == pytest.approx(slope, abs=1e-6)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert np.isfinite(rule.second(np.array([-1e300, 1e300]), np.ones(2))).all()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [Loss.LOGISTIC, Loss.SQUARED_HINGE])
def test_curvature_is_the_change_of_the_gradient(loss, weighted, intercept, way):
    """By full passes of the device, which know nothing of it."""
    draws = np.random.default_rng(7)
    features = draws.normal(size=(300, 5))
    labels = np.where(features @ [1, -1, 0.5, 0, 0] + draws.normal(size=300) > 0, 1, -1)
    weights = draws.integers(1, 9, 300).astype(np.uint16) if weighted else None
    data = QuantizedDataset(quantize_bit_planes(
        features, weights=weights, scaler="minmax" if intercept else "maxabs"),
        sign_labels(labels))
    config = pipeline_of(data.rows, Objective(loss=loss))
    run = SmoothRun(data, CpuDevice(config), config, Objective(loss=loss, l2=0.01), BitCentred(
        planes=[4], step=0.1, fit_intercept=intercept, curvature=True))
    assert run.curvature is not None
    point = np.append(draws.normal(size=5), 0.3 * intercept)
    move = np.append(draws.normal(size=5), 0.5 * intercept)
    inverse = run.inverse_curvature(run.curvature, run.curvature.values(point))
    assert inverse is not None
    # Updates have few bits of which a difference is made, so it is one over some distance.
    bound = 1.0 if loss == Loss.LOGISTIC else 1 + np.abs(point).sum() + np.abs(move).sum()
    slopes = [run.full_pass(point + sign * STEP * move, 8.0, float(bound)).slope
              for sign in (1, -1)]
    change = (slopes[0] - slopes[1]) / (2 * STEP)
    assert -run.curvature.step(inverse, change, EXACT) == pytest.approx(move, abs=0.02)


@pytest.mark.parametrize("left", [0.5, 0.1, 0.01])
def test_conjugate_gradients_leave_what_they_may(left, monkeypatch):
    monkeypatch.setattr(curvature, "PRODUCTS", 0)
    draws = np.random.default_rng(4)
    features = collinear(draws, 200, 20) + 0.1 * draws.normal(size=(200, 20))
    rows = quantize_bit_planes(features)
    means, variances = rows.column_moments
    found = Curvature(rows, means, np.sqrt(variances), np.ones(20, bool), 0.01 * variances, True)
    inputs = np.column_stack([(features - features.mean(axis=0)) / features.std(axis=0),
                              np.ones(200)])
    bent = inputs.T @ inputs / 200 + np.diag([0.01] * 20 + [0])
    slope = draws.normal(size=21)
    inverse = found.inverse()
    assert inverse is not None
    rest = slope - bent @ inverse(slope, left)
    share = np.sqrt((rest ** 2 / np.diag(bent)).sum() / (slope ** 2 / np.diag(bent)).sum())
    assert 0.01 * left < share <= left + 1e-3


def test_nothing_bends(way):
    """Rows beyond the squared hinge, without l2."""
    rows = quantize_bit_planes(np.array([[-1.0, 1], [1, 1], [-1, -1], [1, -1]]))
    means, variances = rows.column_moments
    found = Curvature(rows, means, np.sqrt(variances), np.ones(2, bool), np.zeros(2), True)
    assert found.inverse(np.zeros(4)) is None


@pytest.mark.parametrize("loss, most", [("log_loss", 8), ("squared_hinge", 12)])
def test_classes_need_full_passes_alone(loss, most):
    features, labels = CANCER
    model = LowPrecisionClassifier(loss=loss).fit(features, labels)
    assert model.n_iter_ <= most
    assert planes_of(model) == {16}
    assert (model.gap_ or 1) < 1e-3
    assert model.score(features, labels) > 0.98


def test_peers_of_the_same_objective():
    features, targets = DIABETES
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    ours = LowPrecisionRegressor(l2=1 / len(features)).fit(features, targets)
    ridge = Ridge(alpha=1).fit(features, targets)
    assert ours.n_iter_ == 1
    assert ours.coef_ == pytest.approx(ridge.coef_, rel=1e-3, abs=0.05)
    classes = targets > np.median(targets)
    ours = LowPrecisionClassifier(l2=1 / len(features), tol=1e-7).fit(features, classes)
    theirs = LogisticRegression(tol=1e-8).fit(features, classes)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=2e-3)


@pytest.mark.parametrize("options", [{"planes": 4}, {"planes": [2, 4]}, {"step": 0.1}])
def test_planes_and_step_ask_for_inner_passes(options):
    model = LowPrecisionRegressor(solver="bit-centred", **options).fit(
        *DIABETES)
    assert planes_of(model) <= {2, 4}
    assert model.n_iter_ > 2


def test_many_rows_are_left_to_inner_passes(monkeypatch):
    features, targets = DIABETES
    alone = LowPrecisionRegressor().fit(features, targets)
    monkeypatch.setattr(curvature, "VALUES", 442 * 11)
    assert planes_of(LowPrecisionRegressor().fit(features, targets)) == {16}
    monkeypatch.setattr(curvature, "VALUES", 442 * 11 - 1)
    model = LowPrecisionRegressor(random_state=0).fit(features, targets)
    # Behind three slow steps of inner passes comes one of a full pass alone.
    assert (planes_of(alone), planes_of(model)) == ({16}, {4, 16})
    assert model.coef_ == pytest.approx(alone.coef_, rel=0.02, abs=0.5)


def test_products_up_to_a_limit(monkeypatch):
    features, targets = DIABETES
    monkeypatch.setattr(curvature, "PRODUCTS", 442 * 100)
    assert LowPrecisionRegressor().fit(features, targets).n_iter_ == 1
    monkeypatch.setattr(curvature, "PRODUCTS", 442 * 100 - 1)
    assert 1 < LowPrecisionRegressor().fit(features, targets).n_iter_ <= 5


@pytest.mark.parametrize("rows, features, outputs, few", [
    (4096, 63, 1, True), (4097, 63, 1, False), (4096, 54, 10, True), (4096, 55, 10, False),
    (2, 131071, 1, True), (2, 131072, 1, False), (1 << 17, 1, 1, True), (131073, 1, 1, False)])
def test_limit(rows, features, outputs, few):
    sizes: Any = SimpleNamespace(n_rows=rows, n_features=features, stored=(None,))
    assert finds_curvature(sizes, outputs) is few
    sizes.stored = ()               # of rows on other machines
    assert not finds_curvature(sizes, outputs)


def collinear(draws, count, columns):
    rows = draws.normal(size=(count, columns))
    return rows[:, :1] + 1e-4 * rows


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_weights_without_a_limit(loss, way):
    """Without l2, along columns that are nearly the same, Newton's method goes as far as weights
    may, where it would stand still; the other moves end.
    """
    draws = np.random.default_rng(3)
    features = collinear(draws, 60, 7)
    labels = features[:, 0] + 0.3 * draws.normal(size=60) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LowPrecisionClassifier(loss=loss, l2=0).fit(features, labels)
    assert model.score(features, labels) > 0.85


def scaled(inverse, factor):
    return lambda slope, left: factor * inverse(slope, left)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_moves_that_go_too_far(loss, monkeypatch):
    """The host finds how far to go, and no full pass is taken elsewhere."""
    features, labels = CANCER
    right = LowPrecisionClassifier(loss=loss).fit(features, labels)
    inverse: Any = Curvature.inverse
    monkeypatch.setattr(Curvature, "inverse", lambda *arguments: scaled(
        inverse(*arguments), 20.0))
    model = LowPrecisionClassifier(loss=loss).fit(features, labels)
    assert planes_of(model) == {16}
    assert model.n_iter_ <= right.n_iter_ + 6
    first, *later = (entry["bytes_read"] for entry in model.history_)
    assert set(later) == {first / 2}        # the first outer step begins with a pass of its own
    assert model.coef_ == pytest.approx(right.coef_, rel=0.01, abs=0.01)


def test_poor_moves_end_it(monkeypatch):
    """A curvature that is wrong costs a few steps, and the optimum is found without it."""
    features, labels = CANCER
    right = LowPrecisionClassifier().fit(features, labels)
    inverse: Any = Curvature.inverse
    monkeypatch.setattr(Curvature, "inverse", lambda *arguments: scaled(
        inverse(*arguments), 0.05))
    model = LowPrecisionClassifier().fit(features, labels)
    assert [entry["planes"] for entry in model.history_[:MAX_POOR]] == [16] * MAX_POOR
    assert planes_of(model) != {16}
    assert model.coef_ == pytest.approx(right.coef_, rel=0.05, abs=0.05)


def test_no_inverse(monkeypatch):
    monkeypatch.setattr(np.linalg, "inv", lambda bent: (_ for _ in ()).throw(
        np.linalg.LinAlgError("Singular matrix")))
    features, targets = DIABETES
    assert planes_of(LowPrecisionRegressor(random_state=0).fit(features, targets)) == {4, 16}
    assert planes_of(LowPrecisionClassifier().fit(features, targets > 100)) <= {4, 6}


@pytest.mark.parametrize("kind", [LowPrecisionClassifier, LowPrecisionRegressor])
def test_whole_weights_are_repeated_rows(kind):
    draws = np.random.default_rng(11)
    features = draws.normal(size=(90, 6))
    targets = features @ draws.normal(size=6) + draws.normal(size=90)
    if kind is LowPrecisionClassifier:
        targets = targets > 0
    weights = draws.integers(1, 5, 90)
    own = kind(tol=1e-6).fit(features, targets, sample_weight=weights)
    repeated = kind(tol=1e-6).fit(features.repeat(weights, axis=0), targets.repeat(weights))
    assert planes_of(own) == {16}
    assert own.coef_ == pytest.approx(repeated.coef_, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("model, data", [
    (LowPrecisionRegressor(), DIABETES), (LowPrecisionClassifier(), CANCER),
    (LowPrecisionClassifier(loss="squared_hinge"), CANCER), (LowPrecisionClassifier(), IRIS)])
def test_last_digits_do_not_depend_on_rounding(model, data, way):
    """Rows in another order have other dithers; passes alone agree to 1e-5 or so."""
    one, other = (type(model)(**model.get_params() | {"random_state": seed}).fit(*data)
                  for seed in (1, 2))
    assert planes_of(one) == {16}
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-8, atol=1e-10 * abs(one.coef_).max())
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=1e-8)


def test_multinomial_curvature_is_the_change_of_the_gradient(way):
    """By the derivatives of the loss, which know nothing of it."""
    draws = np.random.default_rng(5)
    rows = quantize_bit_planes(draws.normal(size=(80, 3)), weights=draws.integers(
        1, 9, 80).astype(np.uint16))
    labels = np.eye(4)[draws.integers(4, size=80)] * 2 - 1
    means, variances = rows.column_moments
    penalties = 0.1 * variances
    found = Curvature(rows, means, np.sqrt(variances), np.ones(3, bool), penalties, True)

    def slope(point):
        penalty = np.append(penalties, 0) * point.reshape(4, 4)
        return penalty.ravel() + found.slope(MULTINOMIAL.derivative(found.values(point), labels))

    point, move = draws.normal(size=(2, 4, 4))
    move = (move - move.mean(axis=0)).ravel()
    point = (point - point.mean(axis=0)).ravel()
    change = (slope(point + 1e-4 * move) - slope(point - 1e-4 * move)) / 2e-4
    inverse = found.multinomial_inverse(probabilities(found.values(point)))
    assert inverse is not None
    assert -found.step(inverse, change, EXACT) == pytest.approx(move, abs=1e-5)


def test_a_multinomial_model_needs_full_passes_alone(way):
    features, labels = IRIS
    model = LowPrecisionClassifier(l2=1 / 150).fit(features, labels)
    assert planes_of(model) == {16}
    assert model.n_iter_ <= 8
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    theirs = LogisticRegression(tol=1e-8).fit(scaled, labels)
    np.testing.assert_allclose(model.predict_proba(features), theirs.predict_proba(scaled),
                               atol=2e-3)


def test_what_makes_the_objective_larger_is_not_taken(monkeypatch):
    data = CANCER
    monkeypatch.setattr(SmoothRun, "settle", lambda run: None)
    as_passes_left_it = LowPrecisionClassifier(random_state=0).fit(*data)
    monkeypatch.undo()
    settle, step = SmoothRun.settle, Curvature.step

    def wrong(run):
        with monkeypatch.context() as patch:
            patch.setattr(Curvature, "step", lambda *arguments: -100 * step(*arguments))
            settle(run)

    monkeypatch.setattr(SmoothRun, "settle", wrong)
    model = LowPrecisionClassifier(random_state=0).fit(*data)
    np.testing.assert_array_equal(model.coef_, as_passes_left_it.coef_)
    monkeypatch.undo()
    right = LowPrecisionClassifier(random_state=0).fit(*data)
    assert right.gap_ == as_passes_left_it.gap_
    assert right.gap_
    assert 0 < abs(right.coef_ - as_passes_left_it.coef_).max() < 1


def test_without_a_goal_the_model_is_that_of_the_passes(monkeypatch):
    model = LowPrecisionRegressor(tol=0, epochs=12, random_state=1).fit(*DIABETES)
    monkeypatch.setattr(BitCentredRun, "settle", lambda run: None)
    again = LowPrecisionRegressor(tol=0, epochs=12, random_state=1).fit(*DIABETES)
    np.testing.assert_array_equal(model.coef_, again.coef_)


@pytest.mark.parametrize("kind, labels", [
    (LowPrecisionRegressor, [1.0, 2, 4, 3, 1, 5]), (LowPrecisionClassifier, [0, 1, 0, 1, 1, 0]),
    (LowPrecisionClassifier, [0, 1, 2, 1, 2, 0])])
def test_devices_agree(kind, labels, way):
    features = np.random.default_rng(2).normal(size=(6, 2))
    golden, cpu = (kind(device=device, random_state=0).fit(features, labels)
                   for device in ("golden", "cpu"))
    np.testing.assert_array_equal(golden.coef_, cpu.coef_)
    assert golden.history_ == cpu.history_


def test_slow_least_squares_leave_it_to_the_host(monkeypatch):
    """Of fewer rows than features the codes' errors hide most directions."""
    draws = np.random.default_rng(9)
    features = draws.normal(size=(300, 1000))
    targets = features @ draws.normal(size=1000) / 30 + 0.5 * draws.normal(size=300)
    assert not finds_curvature(quantize_bit_planes(features))
    model = LowPrecisionRegressor(random_state=0).fit(features, targets)
    assert planes_of(model) == {4, 16}
    assert model.n_iter_ <= 10
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    ridge = Ridge(alpha=1).fit(features, targets)
    scale = np.abs(ridge.coef_).max()
    found = LowPrecisionRegressor(random_state=0).fit(features, targets).coef_
    np.testing.assert_allclose(found, ridge.coef_, atol=0.01 * scale)
    monkeypatch.setattr(curvature, "SLOW_VALUES", 0)
    alone = LowPrecisionRegressor(random_state=0).fit(features, targets)
    assert alone.n_iter_ > 3 * model.n_iter_


@pytest.mark.parametrize("rows, exact", [(300, True), (100_000, False)])
def test_memory_of_many_rows(rows, exact):
    """Decoded in pieces, and many in float32."""
    data = quantize_bit_planes(np.random.default_rng(1).normal(size=(rows, 20)))
    means, variances = data.column_moments
    tracemalloc.start()
    try:
        found = Curvature(data, means, np.sqrt(variances), np.ones(20, bool), variances, True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.exact is exact
    assert most < rows * 21 * (8 if exact else 4) + 60 * curvature.VALUES
    point = np.arange(21.0)
    values = data.values(slice(0, rows))[0] @ point[:-1] + point[-1]
    np.testing.assert_allclose(found.values(point)[:, 0], values, rtol=1e-12 if exact else 1e-4,
                               atol=1e-9 if exact else 1e-2)
    inverse = found.inverse(np.full(rows, 0.5))
    assert inverse is not None
    assert inverse(np.ones(21), EXACT)[-1] == pytest.approx(2, rel=1e-3)
