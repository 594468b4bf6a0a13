"""Bit-centred training of the logistic loss and the squared hinge."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.host.fakes import DEVICES

from bitstep.devices import default_device, open_device
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss, Overflow
from bitstep.pipeline.results import RangeOverflowError, RunResult, TrainingInterrupted
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, sign_labels
from bitstep.training.centred import smooth
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.passes import BitCentred
from bitstep.training.centred.smooth import SmoothRun
from bitstep.training.choices import resolve_training
from bitstep.training.files.checkpoint import Checkpoint, load_checkpoint
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import centred_step
from bitstep.training.train import train_model

SOFTWARE = [name for name in ("golden", "cpu") if name in DEVICES]
NOTHING = RunResult(np.zeros((0, 1), np.int32), np.zeros(0, np.int32))
SMOOTH = [Loss.LOGISTIC, Loss.SQUARED_HINGE]


def make(n_rows=300, n_features=6, seed=0, noise=1.0) -> Any:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, n_features)) @ rng.standard_normal((n_features,) * 2)
    margins = features @ rng.standard_normal(n_features)
    signs = np.where(margins + noise * margins.std() * rng.standard_normal(n_rows) > 0, 1.0, -1.0)
    return QuantizedDataset(quantize_bit_planes(features), sign_labels(signs))


def objective_of(data, loss, l2):
    """The objective on all planes, as a function of weights and intercept, with its gradient."""
    u = data.rows.values(slice(None))[0]
    design = np.hstack([u, np.ones((len(u), 1))])
    y, rule = data.labels.part(0, data.n_rows).astype(float), LOSSES[loss]
    ridge = np.append(np.full(u.shape[1], l2), 0)

    def value(x):
        return rule.value(design @ x, y).mean() + ridge @ x ** 2 / 2

    def slope(x):
        return design.T @ rule.derivative(design @ x, y) / len(y) + ridge * x

    return design, y, ridge, value, slope


def least(data, loss, l2):
    """The optimum, by Newton's method with halved steps."""
    design, y, ridge, value, slope = objective_of(data, loss, l2)
    x = np.zeros(design.shape[1])
    for _ in range(200):
        margins = y * (design @ x)
        bend = 1 / (2 + np.exp(-margins) + np.exp(margins)) if loss == Loss.LOGISTIC \
            else (margins < 1).astype(float)
        move = np.linalg.solve(design.T @ (bend[:, None] * design) / len(y) + np.diag(ridge)
                               + 1e-13 * np.eye(len(x)), -slope(x))
        share = 1.0
        while value(x + share * move) > value(x) and share > 1e-9:
            share /= 2
        x = x + share * move
    assert np.abs(slope(x)).max() < 1e-7
    return value(x)


def excess(data, loss, l2, weights, intercept):
    value = objective_of(data, loss, l2)[3]
    return value(np.append(weights, intercept)) / least(data, loss, l2) - 1


def fit(data, loss, l2, device=None, epochs=25, planes: Any = 4, **options):
    objective = Objective(loss=loss, l2=l2)
    training = resolve_training(data.rows, objective, epochs=epochs, solver="bit-centred",
                                planes=planes, **options)
    config = pipeline_of(data.rows, objective)
    with open_device(device or default_device(), config) as opened:
        return train_model([data], opened, config, objective, training)


def last_excess(data, loss, l2, model):
    return excess(data, loss, l2, model.weights[-1, 0], model.scaled_intercepts[-1, 0])


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("planes", [1, 3, 4, 16, [2, 4, 8]])
def test_reaches_the_optimum(loss, planes):
    data = make()
    model = fit(data, loss, 1e-2, planes=planes)
    assert last_excess(data, loss, 1e-2, model) < 1e-6
    assert model.planes is not None
    asked = planes if isinstance(planes, list) else [planes] * 3
    assert model.planes[0, 0] == asked[0]
    assert (model.planes[:3, 0] >= asked).all()     # slow steps take more


@pytest.mark.parametrize("loss", SMOOTH)
def test_little_ridge_on_separable_classes(loss):
    data = make(seed=3, noise=0.0)
    model = fit(data, loss, 1e-3, epochs=60, tol=1e-6)
    assert last_excess(data, loss, 1e-3, model) < 1e-4


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.skipif(len(SOFTWARE) < 2, reason="needs numba")
def test_devices_agree(loss):
    data = make(90, 5)
    first, second = (fit(data, loss, 1e-2, device, epochs=4, planes=[1, 4]) for device in SOFTWARE)
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_array_equal(first.scaled_intercepts, second.scaled_intercepts)
    np.testing.assert_array_equal(first.gradients, second.gradients)
    # Counters are those of a pipeline on ``cpu`` alone.
    np.testing.assert_array_equal(first.bytes_read, second.bytes_read)


@pytest.mark.parametrize("loss", SMOOTH)
def test_gradient_is_that_of_the_objective(loss):
    """What training stops on: its largest component in standardized columns, over that of the first
    model with the best intercept.
    """
    data = make(seed=5)
    slope = objective_of(data, loss, 1e-2)[4]
    model = fit(data, loss, 1e-2, epochs=5)
    columns = data.rows.values(slice(None))[0]

    def standardized(point):
        found = slope(point)
        return np.append((found[:-1] - found[-1] * columns.mean(axis=0)) / columns.std(axis=0),
                         found[-1])

    first = np.abs(standardized(np.zeros(7))[:-1]).max()
    expected = [np.abs(standardized(np.append(weights[0], intercept[0]))).max() / first
                for weights, intercept in zip(model.weights, model.scaled_intercepts, strict=True)]
    # The sigmoid is one of parabolas, within 1.7e-5.
    assert model.gradients is not None
    np.testing.assert_allclose(model.gradients[:, 0], expected, rtol=1e-3,
                               atol=2e-5 / first if loss == Loss.LOGISTIC else 1e-7)


def test_tol_ends_it_and_says_where_it_did_not():
    data = make()
    model = fit(data, Loss.LOGISTIC, 1e-2, epochs=40, tol=1e-3)
    assert model.epochs_done < 15
    assert model.gradients is not None
    assert model.gradients[-1, 0] <= 1e-3 < model.gradients[-2, 0]
    assert model.short_of(1e-3, 40, Objective()) is None
    short = fit(data, Loss.LOGISTIC, 1e-2, epochs=2, tol=1e-6)
    assert "after 2 outer steps, more than 1e-06 times (tol)" in str(
        short.short_of(1e-6, 2, Objective()))
    assert short.short_of(0.0, 2, Objective()) is None
    assert "2 outer steps of which the last made it no smaller: give more planes" in str(
        short.short_of(0.0, 3, Objective()))


def test_separable_classes_without_ridge_have_no_optimum():
    """Weights grow as long as there are epochs, and the end says what to do."""
    features = np.array([[-1.0], [-0.9], [0.9], [1.0]] * 5)
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(np.sign(features[:, 0])))
    model = fit(data, Loss.LOGISTIC, 0.0, epochs=30, tol=1e-9)
    assert model.epochs_done == 30
    value = objective_of(data, Loss.LOGISTIC, 0.0)[3]
    losses = [value(np.append(weights[0], intercept[0])) for weights, intercept in zip(
        model.weights, model.scaled_intercepts, strict=True)]
    assert losses[-1] < 1e-3 < losses[0]
    assert np.isfinite(model.weights).all()
    assert "a larger l2 where a plane separates the classes" in str(
        model.short_of(1e-9, 30, Objective()))
    assert "l2" not in str(model.short_of(1e-9, 30, Objective(l2=1.0)))


@pytest.mark.parametrize("seed", range(4))
def test_moves_are_bounded(seed):
    """Where the curvature vanishes as weights grow, no move leaves the words of a pass."""
    rng = np.random.default_rng(seed)
    features = np.exp(2 * rng.standard_normal((400, 6)))
    margins = features @ rng.standard_normal(6) + rng.standard_normal(400)
    data = QuantizedDataset(quantize_bit_planes(features),
                            sign_labels(np.where(margins > 0, 1.0, -1.0)))
    model = fit(data, Loss.LOGISTIC, 0.0, epochs=25)
    value = objective_of(data, Loss.LOGISTIC, 0.0)[3]
    losses = [value(np.append(weights[0], intercept[0])) for weights, intercept in zip(
        model.weights, model.scaled_intercepts, strict=True)]
    assert losses[-1] < losses[0] < np.log(2)


def test_weights_stay_within_their_limit(monkeypatch):
    """The others go on to where they are best."""
    monkeypatch.setattr(smooth, "LARGEST_WEIGHT", 0.5)
    monkeypatch.setattr(smooth, "MOST_WEIGHT", 0.5)
    data = make(60, 2)
    model = fit(data, Loss.LOGISTIC, 1e-3, epochs=30)
    assert np.abs(model.weights).max() == 0.5
    slope = objective_of(data, Loss.LOGISTIC, 1e-3)[4]
    last = np.append(model.weights[-1, 0], model.scaled_intercepts[-1, 0])
    free = np.abs(last) < 0.5
    assert free.any()
    assert np.abs(slope(last)[free]).max() < 1e-4


@pytest.mark.covering(2)
@pytest.mark.parametrize("columns", ["as they are", "twice", "and their sum"])
@pytest.mark.parametrize("classes", ["apart", "mixed"])
@pytest.mark.parametrize("loss", [Loss.LOGISTIC, Loss.LEAST_SQUARES])
def test_dependent_columns_without_ridge(columns, classes, loss):
    """Of classes apart the weights go to their limit, and the gradient goes on to fall there."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((2000, 6))
    margins = features @ rng.standard_normal(6)
    if columns != "as they are":
        features = np.hstack([features, features if columns == "twice"
                              else features.sum(axis=1, keepdims=True)])
    margins = margins + rng.logistic(size=2000) * (classes == "mixed")
    data = QuantizedDataset(quantize_bit_planes(features),
                            sign_labels(np.where(margins > 0, 1.0, -1.0)))
    model = fit(data, loss, 0.0, epochs=60)
    assert model.gradients is not None
    assert model.gradients[-1, 0] < (3e-4 if loss == Loss.LOGISTIC and classes == "apart"
                                     else 3e-5)
    assert np.abs(model.weights).max() <= smooth.LARGEST_WEIGHT
    value = objective_of(data, loss, 0.0)[3]
    losses = [value(np.append(weights[0], intercept[0])) for weights, intercept in zip(
        model.weights, model.scaled_intercepts, strict=True)]
    assert losses[-1] <= 1.02 * min(losses)


@pytest.mark.parametrize("loss", [*SMOOTH, Loss.LEAST_SQUARES])
@pytest.mark.parametrize("n_rows, n_features", [(1, 1), (2, 3), (8, 2), (9, 20), (30, 60)])
def test_few_rows(loss, n_rows, n_features):
    rng = np.random.default_rng(n_rows)
    features = rng.standard_normal((n_rows, n_features))
    signs = np.where(np.arange(n_rows) % 2, 1.0, -1.0)
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(signs))
    model = fit(data, loss, 0.05, epochs=40)
    value, slope = objective_of(data, loss, 0.05)[3:]
    last = np.append(model.weights[-1, 0], model.scaled_intercepts[-1, 0])
    zeros = np.zeros(n_features + 1)
    assert np.abs(slope(last)).max() < 1e-3 * np.abs(slope(zeros)).max()
    assert value(last) < value(zeros)


@pytest.mark.parametrize("loss", [*SMOOTH, Loss.LEAST_SQUARES])
@pytest.mark.parametrize("l2, tol", [(3.0, 1e-5), (1e3, 1e-3)])
def test_strong_ridge(loss, l2, tol):
    """Corrections, which take the ridge in, act on weights as they were T rows before. Words have
    24 fraction bits, and l2 times half of the last one is left of the gradient.
    """
    assert fit(make(), loss, l2, epochs=20, tol=tol).short_of(tol, 20, Objective()) is None


@pytest.mark.parametrize("loss", [*SMOOTH, Loss.LEAST_SQUARES])
def test_constant_columns(loss):
    rng = np.random.default_rng(2)
    features = rng.standard_normal((120, 4))
    features[:, [0, 3]] = 5.0
    signs = np.where(features[:, 1] + rng.standard_normal(120) > 0, 1.0, -1.0)
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(signs))
    model = fit(data, loss, 0.01, epochs=20, tol=1e-6)
    assert model.short_of(1e-6, 20, Objective()) is None
    assert not model.weights[:, 0, [0, 3]].any()        # the intercept stands for them


@pytest.mark.parametrize("loss", SMOOTH)
def test_passes_that_diverge_get_more_planes(loss):
    """A step far beyond what is stable still ends at the optimum."""
    data = make(400, 8, seed=6)
    step = 40 * centred_step(data.rows, loss)
    model = fit(data, loss, 1e-2, epochs=60, step=step, planes=1)
    assert last_excess(data, loss, 1e-2, model) < 1e-4


def test_words_without_room_are_made_again(monkeypatch):
    """Inner passes that leave the range begin again with more room; the result is as good."""
    data, shifts = make(200, 4, seed=7), []
    inner = SmoothRun._inner

    def narrow(run, planes, slope):
        shifts.append(run._centre(planes).shift)
        if run.reach < 16:
            raise RangeOverflowError(Overflow.UPDATE, NOTHING)
        return inner(run, planes, slope)

    monkeypatch.setattr(SmoothRun, "_inner", narrow)
    model = fit(data, Loss.LOGISTIC, 1e-2, epochs=25)
    assert shifts[:2] == [40, 37]
    assert last_excess(data, Loss.LOGISTIC, 1e-2, model) < 1e-4


def test_tries_after_a_overflow():
    """More room, then more planes, then shorter steps."""
    data = make(60, 2)
    objective = Objective(loss=Loss.LOGISTIC)
    run = SmoothRun(data, None, data.rows.config, objective,     # type: ignore[arg-type]
                    BitCentred(planes=[4], step=1.0))
    run.reach, seen = 1.0, []

    def fails(planes):
        seen.append((planes, run.reach, run.step))
        if len(seen) < 8:
            raise RangeOverflowError(Overflow.UPDATE, NOTHING)
        return "moved"

    assert run.tried(4, fails) == "moved"
    assert seen == [(4, 1, 1), (4, 16, 1), (8, 1, 1), (8, 16, 1), (16, 1, 1), (16, 16, 1),
                    (16, 1, 0.5), (16, 16, 0.5)]
    assert (run.planes, run.least) == (16, 16)


def test_a_range_that_is_never_enough_is_refined(monkeypatch):
    def never(run, planes, slope):
        raise RangeOverflowError(Overflow.UPDATE, NOTHING)

    monkeypatch.setattr(SmoothRun, "_inner", never)
    model = fit(make(60, 2), Loss.LOGISTIC, 1e-2, epochs=5)
    assert model.planes is not None
    assert model.gradients is not None
    assert model.planes[:, 0].tolist() == [16] * 5
    assert model.gradients[-1, 0] < 1e-5


@pytest.mark.parametrize("loss", SMOOTH)
def test_slow_training_is_refined(loss, monkeypatch):
    """Codes of 2 bits of columns with outliers, and a penalty that hides nothing."""
    monkeypatch.setattr(smooth, "SLOW", 0.0)
    rng = np.random.default_rng(3)
    features = np.exp(rng.standard_normal((150, 5)))
    signs = np.where(features @ rng.standard_normal(5) + rng.standard_normal(150) > 0, 1.0, -1.0)
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(signs))
    models = [fit(data, loss, 1e-3, device, epochs=8, planes=2) for device in SOFTWARE]
    for model in models:
        np.testing.assert_array_equal(model.weights, models[0].weights)
        assert model.planes is not None
        assert model.planes[:5, 0].tolist() == [2] + [6] * 4
        assert last_excess(data, loss, 1e-3, model) < 1e-5
    monkeypatch.setattr(smooth, "SLOW", np.inf)
    assert last_excess(data, loss, 1e-3, fit(data, loss, 1e-3, epochs=8, planes=2)) > 1e-4


@pytest.mark.parametrize("planes", [2, 6, 16])
@pytest.mark.parametrize("loss", [*SMOOTH, Loss.LEAST_SQUARES])
def test_a_full_pass_of_few_planes_is_the_gradient_of_these_codes(loss, planes):
    data = make(70, 5, seed=4)
    objective = Objective(loss=loss, l2=0.1)
    kind = BitCentredRun if loss == Loss.LEAST_SQUARES else SmoothRun
    point = np.array([0.3, -1.5, 0.7, 0.0, 0.2, -0.4])
    with open_device(default_device(), pipeline_of(data.rows, objective)) as device:
        run = kind(data, device, device.config, objective, BitCentred(planes=[planes], step=0.1))
        found = run.full_pass(point, 8.0, 8.0, planes=planes)
    u = data.rows.levels(slice(None), planes)[0]
    design = np.hstack([u, np.ones((len(u), 1))])
    slope = design.T @ LOSSES[loss].derivative(
        design @ point, data.labels.part(0, 70).astype(float)) / 70
    np.testing.assert_allclose(found.slope, slope + 0.1 * np.append(point[:-1], 0), atol=2e-5)
    assert run.bytes_read == planes * 128       # 70 rows of 8 bits a plane, in beats of 64 bytes


@pytest.mark.parametrize("slow, curvature", [(0.0, False), (np.inf, False), (0.4, True)])
def test_states_go_on_bit_for_bit(slow, curvature, monkeypatch):
    """From the state after any outer step, also where the planes change, steps are refined, or are
    those of Newton's method.
    """
    monkeypatch.setattr(smooth, "SLOW", slow)
    data, loss = make(120, 4, seed=8), Loss.LOGISTIC
    objective = Objective(loss=loss, l2=1e-2)
    config = pipeline_of(data.rows, objective)
    choice = BitCentred(planes=[1, 1, 2, 4, 4, 4], step=centred_step(data.rows, loss),
                        curvature=curvature)
    with open_device(default_device(), config) as device:
        whole = SmoothRun(data, device, config, objective, choice)
        states = [whole.kept() for _ in whole.steps()]
        for numbers, arrays in states:
            again = SmoothRun(data, device, config, objective, choice)
            again.restore(numbers, arrays)
            assert again.kept()[0] == numbers
            assert all(again.steps())
            for one, other in zip(again.found, whole.found, strict=True):
                np.testing.assert_array_equal(one.weights, other.weights)
                assert (one.intercept, one.gradient, one.bytes_read, one.planes, one.gap) == (
                    other.intercept, other.gradient, other.bytes_read, other.planes, other.gap)
            assert again.kept()[0] == states[-1][0]


@pytest.mark.parametrize("kind, loss", [(SmoothRun, Loss.LOGISTIC),
                                        (BitCentredRun, Loss.LEAST_SQUARES)])
def test_every_pass_has_a_dither_of_its_own(kind, loss):
    data, keys = make(40, 2), []
    objective = Objective(loss=loss, l2=1e-2)
    config = pipeline_of(data.rows, objective)
    with open_device(default_device(), config) as device:
        gradient, train = device.gradient, device.train
        device.gradient = lambda job, **options: (
            keys.extend(one.key for one in job.epochs), gradient(job, **options))[1]
        device.train = lambda job, **options: (
            keys.extend(one.key for one in job.epochs), train(job, **options))[1]
        list(kind(data, device, config, objective,
                  BitCentred(planes=[4] * 3, step=centred_step(data.rows, loss))).steps())
    assert len(keys) >= 4 + 3 * 2
    assert len(set(keys)) == len(keys)


def test_every_number_is_kept():
    data = make(20, 2)
    one, other = (SmoothRun(data, None, data.rows.config, Objective(),  # type: ignore[arg-type]
                            BitCentred(planes=[4], step=1.0)) for _ in range(2))
    names = ("passes", "bytes_read", "step", "reach", "first", "least", "planes", "stalled",
             "inner_rows", "room", "error", "slow", "poor")
    for value, name in enumerate(names, start=3):
        setattr(one, name, value)
    other.restore(*one.kept())
    assert [getattr(other, name) for name in names] == list(range(3, 16))


def test_what_is_kept_is_not_trained_again(tmp_path):
    """Of two outputs that were stopped within the second: passes of the steps that are left."""
    loss = Loss.LOGISTIC
    first = make(90, 3, seed=9)
    outputs = [first, QuantizedDataset(first.rows, sign_labels(-first.labels.part(0, 90)))]
    objective, counts = Objective(loss=loss, l2=1e-2), []
    training = resolve_training(first.rows, objective, epochs=4, solver="bit-centred", planes=4)
    config = pipeline_of(first.rows, objective)

    def train(writer, on_epoch=None):
        with open_device(default_device(), config) as device:
            gradient = device.gradient
            device.gradient = lambda *job, **options: (
                counts.append(1), gradient(*job, **options))[1]
            counts.clear()
            return train_model(outputs, device, config, objective, training, checkpoint=writer,
                               on_epoch=on_epoch)

    def stop(done, last=6):
        if done == last:
            raise KeyboardInterrupt

    def writer(state):
        return CheckpointWriter(str(tmp_path / "run.ckpt"), state, pytest.fail)

    whole, passes = train(None), len(counts)
    with pytest.raises(TrainingInterrupted, match="in class 1 of 2: no model was kept"):
        train(None, partial(stop, last=2))
    part = train(writer(Checkpoint({}, {}, list(training.steps), 2)), stop)
    assert (part.interrupted, part.epochs_done) == (True, 2)        # which both have
    stopped = len(counts)
    state = load_checkpoint(tmp_path / "run.ckpt")
    assert (state.epochs_done, state.finished) == (6, False)
    again = train(writer(state))
    assert len(counts) == passes - stopped + 1      # one writes the derivatives again
    np.testing.assert_array_equal(again.weights, whole.weights)
    np.testing.assert_array_equal(again.bytes_read, whole.bytes_read)
    assert again.bytes_read is not None
    # Of the runs before, nothing but the rows that they read is known.
    assert (again.counters["cycles"], again.counters["beats"]) == (
        None, again.bytes_read.sum() // 8)
    assert load_checkpoint(tmp_path / "run.ckpt").finished


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_refining_begins_in_centred_standardized_columns(fit_intercept):
    """With weights u_j = t_j x_j of columns q_j less their mean m_j over their deviation t_j, the
    intercept is b + sum of m_j x_j. A step along minus the gradient in these is one along
    P P^T g, where x = P u."""
    features = np.column_stack([np.arange(40.0), np.arange(40) == 7, np.arange(40) % 4 < 1])
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(np.resize([1.0, -1.0], 40)))
    objective = Objective(loss=Loss.LOGISTIC)
    config = pipeline_of(data.rows, objective)
    choice = BitCentred(planes=[4] * 9, step=1.0, fit_intercept=fit_intercept)
    with open_device(default_device(), config) as device:
        run = SmoothRun(data, device, config, objective, choice)
        slope = np.array([0.25, -0.5, 1.0, 2.0 * fit_intercept])
        found = run.standard_step(slope)
    u = data.rows.values(slice(None))[0]
    means = u.mean(axis=0) * fit_intercept
    change = np.diag(np.append(1 / np.sqrt((u ** 2).mean(axis=0) - means ** 2), 1.0))
    change[-1, :-1] = -means * np.diag(change)[:-1]
    np.testing.assert_allclose(found, change @ change.T @ slope, rtol=1e-6)


@pytest.mark.parametrize("loss", SMOOTH)
def test_rare_columns_take_few_passes(loss):
    """Their codes are -1 in nearly all rows, so each of them is nearly an intercept of its own."""
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.random((2000, 40)) < 0.01, rng.standard_normal((2000, 4))])
    margins = features @ rng.standard_normal(44) + rng.logistic(size=2000)
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(np.where(
        margins > 0, 1.0, -1.0)))
    model = fit(data, loss, 1 / 2000, tol=1e-4)
    assert model.bytes_read is not None
    assert model.bytes_read.sum() < 20 * data.rows.stored[0].nbytes
    assert model.short_of(1e-4, 25, Objective()) is None


def test_a_training_that_ended_goes_on_as_if_it_had_not():
    """Passes of its last certificate, which the longer training does not take, change no model."""
    data, loss = make(200, 5, seed=2), Loss.SQUARED_HINGE
    objective = Objective(loss=loss, l2=1e-2)
    config = pipeline_of(data.rows, objective)
    with open_device(default_device(), config) as device:
        def run_of(epochs):
            return SmoothRun(data, device, config, objective, BitCentred(
                planes=[4] * epochs, step=centred_step(data.rows, loss)))
        whole = run_of(6)
        assert all(whole.steps())
        read = []
        for epochs in (1, 2, 3):
            shorter, again = run_of(epochs), run_of(6)
            assert all(shorter.steps())
            read.append(shorter.bytes_read > whole.found[epochs - 1].bytes_read)
            again.restore(*shorter.kept())
            assert all(again.steps())
            np.testing.assert_array_equal(again.point, whole.point)
    assert all(read)        # each of them took such passes


@pytest.mark.parametrize("left, refines, least", [
    (0.6, True, 12), (0.4, True, 1), (0.6, False, 1)])
def test_refining_takes_more_planes_where_codes_are_too_few(left, refines, least, monkeypatch):
    """What is less on the codes is hardly less on the rows."""
    data, objective = make(40, 2), Objective(loss=Loss.LOGISTIC)
    config = pipeline_of(data.rows, objective)
    with open_device(default_device(), config) as device:
        run = SmoothRun(data, device, config, objective, BitCentred(planes=[4] * 9, step=1.0))
        run.begin(4)
        slope, move = run.slope.copy(), np.full(3, -1e-3) * np.sign(run.slope)

        def refined(planes):
            run._refines, run.planes = refines, planes
            return move
        found = run._last
        assert found is not None
        monkeypatch.setattr(run, "_direction", lambda planes: refined(6))
        monkeypatch.setattr(run, "_measured", lambda point, planes: found._replace(
            point=point, slope=left * slope))
        run.outer_step(4, 4)
    assert run.least == least


def test_a_state_from_before_a_number_has_its_first_value():
    data = make(20, 2)
    one, other = (SmoothRun(data, None, data.rows.config, Objective(),  # type: ignore[arg-type]
                            BitCentred(planes=[4], step=1.0)) for _ in range(2))
    numbers, arrays = one.kept()
    del numbers["poor"]
    other.restore(numbers, arrays)
    assert other.poor == 0
