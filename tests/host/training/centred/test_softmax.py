"""Bit-centred training of multinomial logistic regression."""

from typing import Any

import numpy as np
import pytest
from tests.host.fakes import DEVICES

from bitstep.devices import default_device, open_device
from bitstep.devices.golden import GoldenDevice
from bitstep.golden.softmax import error_bound
from bitstep.pipeline.device import Device
from bitstep.pipeline.losses import MULTINOMIAL, probabilities
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import DeviceError
from bitstep.quantization import quantize_bit_planes
from bitstep.training.centred import smooth
from bitstep.training.centred.certificates import softmax_gap
from bitstep.training.centred.passes import BitCentred
from bitstep.training.centred.softmax import SoftmaxRun
from bitstep.training.choices import resolve_training
from bitstep.training.files.checkpoint import Checkpoint, load_checkpoint
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import centred_step
from bitstep.training.train import target_outputs, train_model

SOFTWARE = [name for name in ("golden", "cpu") if name in DEVICES]


def make(n_rows=240, n_features=5, count=3, seed=0, noise=1.0) -> Any:
    """Data sets of every class, on the same rows."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, n_features)) @ rng.standard_normal((n_features,) * 2)
    scores = features @ rng.standard_normal((n_features, count))
    classes = (scores + noise * scores.std() * rng.gumbel(size=scores.shape)).argmax(axis=1)
    classes[:count] = np.arange(count)
    signs = np.where(classes[:, None] == np.arange(count), 1.0, -1.0)
    return target_outputs(quantize_bit_planes(features), signs)


def problem(outputs, l2, fit_intercept=True):
    """Objective on all planes, its gradient and its Hessian, as functions of shape (K, d + 1)."""
    u = outputs[0].rows.values(slice(None))[0]
    design = np.hstack([u, np.ones((len(u), 1)) * fit_intercept])
    targets = np.stack([data.labels.part(0, data.n_rows) for data in outputs], axis=1)
    rows = outputs[0].rows
    ridge = np.append(l2 * rows.penalty_units(fit_intercept), 0)

    def value(x):
        return MULTINOMIAL.value(design @ x.T, targets).mean() + (ridge * x ** 2).sum() / 2

    def slope(x):
        return MULTINOMIAL.derivative(design @ x.T, targets).T @ design / len(u) + ridge * x

    def hessian(x):
        p = probabilities(design @ x.T)
        bend = p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None]
        found = np.einsum("nkl,ni,nj->kilj", bend, design, design) / len(u)
        return found.reshape(x.size, x.size) + np.diag(np.tile(ridge, len(x)))

    return value, slope, hessian


def least(outputs, l2, fit_intercept=True):
    """Optimum, by Newton's method with halved steps, and where it is."""
    value, slope, hessian = problem(outputs, l2, fit_intercept)
    x = np.zeros((len(outputs), outputs[0].n_features + 1))
    for _ in range(100):
        move = -(np.linalg.pinv(hessian(x), 1e-12) @ slope(x).ravel()).reshape(x.shape)
        share = 1.0
        while value(x + share * move) > value(x) and share > 1e-9:
            share /= 2
        x = x + share * move
    assert np.abs(slope(x)).max() < 1e-8
    return value(x), x


def fit(outputs, l2, device=None, epochs=25, planes: Any = 4, initial=None, checkpoint=None,
        **options) -> Any:
    objective = Objective(loss=Loss.LOGISTIC, l2=l2, multinomial=True, standardized=True)
    training = resolve_training(outputs[0].rows, objective, epochs=epochs, solver="bit-centred",
                                planes=planes, **options)
    config = pipeline_of(outputs[0].rows, objective)
    with open_device(device or default_device(), config) as opened:
        return train_model(outputs, opened, config, objective, training, initial=initial,
                           checkpoint=checkpoint)


def points_of(model):
    return np.concatenate([model.weights, model.scaled_intercepts[:, :, None]], axis=2)


@pytest.mark.covering(1)
@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("planes", [1, 4, 16])
def test_reaches_the_optimum(count, planes):
    outputs = make(count=count)
    model = fit(outputs, 1e-2, planes=planes)
    best, x = least(outputs, 1e-2)
    assert problem(outputs, 1e-2)[0](points_of(model)[-1]) < best * (1 + 1e-6)
    np.testing.assert_allclose(model.weights[-1], x[:, :-1], atol=3e-3)
    centred = model.scaled_intercepts[-1]
    np.testing.assert_allclose(centred - centred.mean(), x[:, -1] - x[:, -1].mean(), atol=3e-3)
    assert np.abs(model.weights[-1].sum(axis=0)).max() < 1e-5   # as that of scikit-learn
    assert abs(centred.sum()) < 1e-5


def test_two_classes_are_the_logistic_regression_of_half_the_difference():
    """Weights w and -w with l2 are one weight 2 w with l2 / 2."""
    outputs = make(count=2, seed=4)
    joint = fit(outputs, 1e-2).weights[-1]
    single = Objective(loss=Loss.LOGISTIC, l2=5e-3, standardized=True)
    config = pipeline_of(outputs[0].rows, single)
    with open_device(default_device(), config) as device:
        model = train_model(outputs[1:], device, config, single, resolve_training(
            outputs[0].rows, single, epochs=25, solver="bit-centred", planes=4))
    np.testing.assert_allclose(joint[1] - joint[0], model.weights[-1, 0], atol=2e-3)


@pytest.mark.skipif(len(SOFTWARE) < 2, reason="needs numba")
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"tol": 0.05}])
def test_devices_agree(options):
    outputs = make(90, 4, count=4)
    first, second = (fit(outputs, 1e-2, device, epochs=5, planes=[1, 4], **options)
                     for device in SOFTWARE)
    for name in ("weights", "scaled_intercepts", "gradients", "planes", "bytes_read"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.counters == second.counters
    assert first.counters["cycles"] is None     # no pipeline has such passes
    assert first.counters["beats"]


def test_without_intercept():
    outputs = make(seed=5)
    model = fit(outputs, 1e-2, fit_intercept=False)
    best, _ = least(outputs, 1e-2, fit_intercept=False)
    assert not model.scaled_intercepts.any()
    excess = problem(outputs, 1e-2, False)[0](points_of(model)[-1]) - best
    assert excess <= model.gaps[-1, 0] < 1e-6


def test_few_rows():
    outputs = make(n_rows=8, seed=1)
    model = fit(outputs, 0.1, epochs=60)
    best, _ = least(outputs, 0.1)
    assert problem(outputs, 0.1)[0](points_of(model)[-1]) < best * (1 + 1e-5)


@pytest.mark.parametrize("seed, l2, options", [
    (0, 1e-2, {}), (1, 1e-3, {"count": 5}), (2, 1e-1, {"count": 10, "n_features": 3}),
    (3, 1e-3, {"noise": 0.0}), (4, 1e-4, {"n_rows": 60, "n_features": 20})])
def test_certificates_are_true(seed, l2, options):
    outputs = make(seed=seed, **options)
    model = fit(outputs, l2, epochs=30)
    value, (best, _) = problem(outputs, l2)[0], least(outputs, l2)
    gaps = model.gaps[:, 0]
    for point, gap in zip(points_of(model), gaps, strict=True):
        assert value(point) - best <= gap + 1e-12
    assert np.isfinite(gaps[-1])
    assert [entry["gap"] for entry in model.facts()] == [
        gap if np.isfinite(gap) else None for gap in gaps]


def test_certificate_is_that_of_the_formula():
    """From exact gradients and probabilities, it holds, and is tight along the intercepts."""
    outputs = make(count=4, seed=9)
    value, slope, _ = problem(outputs, 0.05)
    best, x = least(outputs, 0.05)
    u = outputs[0].rows.values(slice(None))[0]
    moments = np.array([u.mean(axis=0), u.var(axis=0)])
    penalties = 0.05 * moments[1]
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 3e-1):
        for _ in range(20):
            point = x + size * rng.standard_normal(x.shape) * np.append(np.zeros(5), 1)
            p = probabilities(u @ point[:, :-1].T + point[:, -1])
            gap = softmax_gap(slope(point), p.T @ p / len(p), penalties, moments)
            excess = value(point) - best
            assert excess <= gap
            if size <= 1e-2:
                # s^2 (1 + the squares of 5 columns / l2 / 2), and what l2 knows of the weights.
                assert gap < 4 * excess * (2 + 5 / 0.05)
    # Wrong gradients: the bound grows by what they may be wrong by.
    assert softmax_gap(slope(x), p.T @ p / len(p), penalties, moments, 1e-6) > 1e-12
    # A class that no row is likely to be: nothing is known along its intercept.
    assert softmax_gap(slope(x), np.diag([1.0, 0, 0, 0]), penalties, moments) == np.inf


def test_states_go_on_bit_for_bit(monkeypatch):
    """From the state after any outer step, also where the planes change, or steps are refined."""
    monkeypatch.setattr(smooth, "SLOW", 0.0)
    outputs = make(120, 4, seed=8)
    objective = Objective(loss=Loss.LOGISTIC, l2=1e-2, multinomial=True)
    config = pipeline_of(outputs[0].rows, objective)
    choice = BitCentred(planes=[1, 1, 2, 4, 4], step=centred_step(outputs[0].rows, objective.rule))
    with open_device(default_device(), config) as device:
        options = {"config": config, "objective": objective, "choice": choice}
        whole = SoftmaxRun(outputs, device, **options)
        states = [whole.kept() for _ in whole.steps()]
        for numbers, arrays in states:
            again = SoftmaxRun(outputs, device, **options)
            again.restore(numbers, arrays)
            assert again.kept()[0] == numbers
            assert all(again.steps())
            for one, other in zip(again.found, whole.found, strict=True):
                np.testing.assert_array_equal(one.point, other.point)
                assert (one.gradient, one.bytes_read, one.planes, one.gap) == (
                    other.gradient, other.bytes_read, other.planes, other.gap)
            assert again.kept()[0] == states[-1][0]


def test_checkpoints_go_on_after_any_epoch(tmp_path):
    outputs, path = make(80, 3), str(tmp_path / "c.npz")
    whole = fit(outputs, 1e-2, epochs=4)

    class StopsAt(CheckpointWriter):
        def keep_centred(self, number, state):
            super().keep_centred(number, state)
            if state.epochs_done == 2:
                raise KeyboardInterrupt

    writer = StopsAt(path, Checkpoint({}, {}, [1.0] * 4, 1), print)
    stopped = fit(outputs, 1e-2, epochs=4, checkpoint=writer)
    assert stopped.interrupted
    assert stopped.epochs_done == 2
    state = load_checkpoint(path)
    assert (state.epochs_done, state.finished, state.position()) == (2, False, "epoch 2 of 4")
    again = fit(outputs, 1e-2, epochs=4, checkpoint=CheckpointWriter(path, state, print))
    np.testing.assert_array_equal(again.weights, whole.weights)
    np.testing.assert_array_equal(again.gaps, whole.gaps)
    assert load_checkpoint(path).finished


def test_goes_on_from_a_model():
    outputs = make(seed=6)
    model = fit(outputs, 1e-2, epochs=6)
    again = fit(outputs, 1e-2, epochs=10, initial=(model.coefs[-1], model.intercepts[-1]))
    best, _ = least(outputs, 1e-2)
    assert problem(outputs, 1e-2)[0](points_of(again)[-1]) < best * (1 + 1e-7)


def test_rows_are_read_once_for_all_classes():
    outputs = make(n_rows=300, count=6)
    three = fit(outputs[:3], 1e-2, epochs=1).bytes_read
    np.testing.assert_array_equal(fit(outputs, 1e-2, epochs=1).bytes_read, three)


def test_objective_and_device_must_go_with_it():
    with pytest.raises(ValueError, match="multinomial needs the logistic loss, not SQUARED_HINGE"):
        Objective(loss=Loss.SQUARED_HINGE, multinomial=True)
    outputs = make(30, 2)
    objective = Objective(loss=Loss.LOGISTIC, multinomial=True)
    config = pipeline_of(outputs[0].rows, objective)
    with open_device("golden", config) as device, pytest.raises(ValueError, match="bit-centred"):
        train_model(outputs, device, config, objective, resolve_training(
            outputs[0].rows, objective, epochs=1, planes=4))

    class Board(GoldenDevice):
        name = "board"
        class_gradients = Device.class_gradients

    with pytest.raises(DeviceError, match="no pass of all classes"):
        train_model(outputs, Board(config), config, objective, resolve_training(
            outputs[0].rows, objective, epochs=1, planes=4, solver="bit-centred"))


def test_every_pass_is_within_its_error():
    """The measured gradient of a training differs from the true one by no more than is claimed."""
    outputs = make(count=5, seed=11)
    objective = Objective(loss=Loss.LOGISTIC, l2=1e-2, multinomial=True, standardized=True)
    config = pipeline_of(outputs[0].rows, objective)
    slope = problem(outputs, 1e-2)[1]
    with open_device(default_device(), config) as device:
        run = SoftmaxRun(outputs, device, config=config, objective=objective, choice=BitCentred(
            planes=[4] * 6, step=centred_step(outputs[0].rows, objective.rule)))
        for _ in run.steps():
            exact = slope(run.point.reshape(5, -1))
            assert np.abs(run.slope.reshape(5, -1) - exact).max() <= run.error
            assert error_bound(5) < run.error < 1e-6
