"""Training with every loss, refetching and proximal steps, against float64."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fakes import planned as plan
from fakes import settings

from bitstep.devices.golden import GoldenDevice
from bitstep.golden.dither import dithers
from bitstep.options.models import MODELS
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.quantization import ENCODINGS, Grid, quantize, quantize_rows
from bitstep.training import train
from bitstep.training.losses import mean_losses
from bitstep.training.objective import Objective, Training, loss_of
from bitstep.training.pipelines import pipeline_for
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep.training.scores.scoring import scored_codes
from bitstep.training.scores.stopping import Stopping
from bitstep.training.stepping import automatic_proximal_period
from bitstep.training.train import train_candidates, train_model
from bitstep_lab.float_sgd import sgd

MARGINS = (Loss.SQUARED_HINGE, Loss.HINGE, Loss.LOGISTIC)


def problem(n_rows=300, n_features=5, seed=0):
    """Rows of two classes, a sixth of them on the wrong side."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (n_rows, n_features))
    margins = features @ np.arange(1, n_features + 1) + rng.normal(size=n_rows)
    return features, np.where(margins > 0, 1.0, -1.0)


def run(data, *, loss, steps, refetch=False, **options):
    """The trained model, through the golden device."""
    proximal = "l1" in options or "box" in options
    config = pipeline_for(n_features=data.n_features, bits=data.bits, encoding=data.encoding,
                          loss=loss, refetch=refetch, proximal=proximal)
    return train_model([data], GoldenDevice(config), config,
                       *settings(loss=loss, refetch=refetch, steps=steps, **options))


def chords(values, signs):
    """Derivative of the logistic loss by the hardware's 64 chords of the sigmoid."""
    nodes = np.arange(-8, 8.25, 0.25)
    return -signs * np.interp(-signs * values, nodes, 1 / (1 + np.exp(-nodes)))


def clipped(values, signs):
    """Derivative of the Huber loss by the bound that labels +1 and -1 have in these tests."""
    return np.clip(values - signs, -1.0, 1.0)


def float_sgd(rows, signs, *, loss, steps, **options):
    """Weights and intercept of float64 SGD."""
    derivative = chords if loss == Loss.LOGISTIC else clipped if loss == Loss.HUBER else loss
    weights, intercepts = sgd(rows, signs[:, None], steps[:, None], loss=derivative, **options)
    return weights[-1, 0, 0], intercepts[-1, 0, 0]


# Losses

@pytest.mark.covering(2)
@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("encoding, bits", [("nearest", 8), ("stochastic", 5), ("float", 32)])
@pytest.mark.parametrize("batch", [1, 7])
def test_losses_against_float64(loss, encoding, bits, batch):
    features, signs = problem()
    data = quantize(features, signs, bits=bits, encoding=encoding, task="classification")
    steps = schedule_steps("inverse", step=automatic_step(data.rows, batch, loss=loss), epochs=4)
    model = run(data, loss=loss, steps=steps, batch=batch)
    rows, _ = data.rows.levels(slice(None))
    weights, intercept = float_sgd(rows, signs, loss=loss, steps=model.steps, batch=batch)
    # Updates are integers, of which a derivative of 1 is some ten thousand.
    tolerance = 3e-4 * np.abs(weights).max()
    np.testing.assert_allclose(model.weights[-1, 0], weights, atol=tolerance)
    assert model.scaled_intercepts[-1, 0] == pytest.approx(intercept, abs=tolerance)


@pytest.mark.covering(1)
@pytest.mark.parametrize("loss", MARGINS)
@pytest.mark.parametrize("encoding, bits", [("nearest", 8), ("float", 32)])
def test_l2_against_float64(loss, encoding, bits):
    features, signs = problem(3000)
    data = quantize(features, signs, bits=bits, encoding=encoding, task="classification")
    steps = schedule_steps("inverse", step=0.05, epochs=3)
    model = run(data, loss=loss, steps=steps, l2=0.05)
    rows, _ = data.rows.levels(slice(None))
    weights, _ = float_sgd(rows, signs, loss=loss, steps=steps, l2=0.05)
    free, _ = float_sgd(rows, signs, loss=loss, steps=steps)
    # Corrections are made every so many rows and act one period later.
    np.testing.assert_allclose(model.weights[-1, 0], weights, atol=0.03 * np.abs(weights).max())
    assert np.abs(weights).max() < 0.9 * np.abs(free).max()


@pytest.mark.covering(1)
@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("encoding, bits", [("nearest", 8), ("float", 32)])
@pytest.mark.parametrize("batch, penalties", [
    (1, {"l1": 0.05}), (1, {"box": 0.5}), (4, {"l1": 0.02, "box": 0.6})])
def test_proximal_steps_against_float64(loss, encoding, bits, batch, penalties):
    features, signs = problem(600)
    data = quantize(features, signs, bits=bits, encoding=encoding, task="classification")
    steps = schedule_steps("inverse", step=0.1 * batch, epochs=4)
    # Of hinge, K of some thousands is rounded for 1,200 active rows: the intercept of a run has a
    # standard deviation of 2e-4.
    models = [run(replace(data, rows=replace(data.rows, seed=seed)), loss=loss, steps=steps,
                  batch=batch, **penalties) for seed in range(4)]
    rows, _ = data.rows.levels(slice(None))
    period = automatic_proximal_period(600, batch, penalties.get("l1", 0.0) * steps[0])
    weights, intercept = float_sgd(rows, signs, loss=loss, steps=models[0].steps, batch=batch,
                                   period=period, **penalties)
    tolerance = 5e-4
    np.testing.assert_allclose(np.mean([model.weights[-1, 0] for model in models], axis=0), weights,
                               atol=tolerance)
    assert np.mean([model.scaled_intercepts[-1, 0] for model in models]) == pytest.approx(
        intercept, abs=tolerance)
    for model in models if "box" in penalties else ():
        assert np.abs(model.weights[-1]).max() <= penalties["box"]
        assert np.abs(model.weights[-1]).max() == pytest.approx(penalties["box"], rel=1e-6)


def test_a_large_l1_makes_zeros():
    features, signs = problem(600)
    data = quantize(features, signs, bits=8, encoding="nearest", task="classification")
    for l1, zeros in ((1e6, 5), (0.1, 2), (0.02, 0)):
        model = run(data, loss=Loss.LEAST_SQUARES, steps=[0.05, 0.02], l1=l1)
        assert (model.weights[-1] == 0).sum() == zeros
        assert model.scaled_intercepts[-1, 0] != 0


# Refetching

def exact_hinge(data, job):
    """Hinge SGD on the 16-bit rows in Python's integers, K rounded by the rows' dither; the model
    after each epoch.
    """
    fraction = 16 - max(data.bits, 2)
    signs = np.where(data.label_values() > 0, 1, -1).tolist()
    model, intercept = job.model.tolist(), job.intercept
    level, models = job.intercept_level, []
    for epoch in job.epochs:
        exact_step = Fraction(epoch.mantissa << job.label_shift + 16, 1 << 8 * epoch.shift)
        step = (exact_step + Fraction(1, 2)).__floor__()
        for values, sign, dither in zip(data.fine_rows.tolist(), signs,
                                        dithers(epoch.key, len(signs)).tolist(), strict=True):
            dot = sum(v * x for v, x in zip(values, model, strict=True))
            dot += level * intercept << fraction
            if sign * dot < 1 << job.label_shift + fraction:
                update = -sign * (step + dither >> 16)
                model = [x - (Fraction(update * v, 1 << fraction) + Fraction(1, 2)).__floor__()
                         for v, x in zip(values, model, strict=True)]
                intercept -= update * level
        models.append([*model, intercept])
    return models


@pytest.mark.parametrize("model_range", [100, 1000])
def test_every_row_fetched_again_is_exact_hinge_sgd(model_range):
    """A drawn bit may stand for any value, and the weights are so large that none decides: what is
    left is the arithmetic at 16 bits.
    """
    features, signs = problem(60)
    data = quantize(features, signs, bits=1, encoding="stochastic", fine_rows=True,
                    task="classification")
    config = pipeline_for(n_features=5, bits=1, encoding="stochastic", refetch=True)
    made = plan(data, config, steps=[0.01, 0.005], loss=Loss.HINGE, refetch=True,
                initial=(np.array([30.0, -40, 20, 10, -30]), 0.0), model_range=model_range)
    result = GoldenDevice(config).train(made.job)
    assert result.counters["refetched_rows"] == 120
    np.testing.assert_array_equal(np.column_stack([result.models, result.intercepts]),
                                  exact_hinge(data, made.job))


@pytest.mark.parametrize("bits, straw_man, share", [(2, (0.2, 0.4), (0.8, 1)),
                                                    (8, (-0.002, 0.002), (0.005, 0.04))])
def test_refetching_is_as_good_as_fine_rows(bits, straw_man, share):
    features, signs = problem(3000)
    data = quantize(features, signs, bits=bits, encoding="nearest", fine_rows=True,
                    task="classification")
    steps = schedule_steps("inverse", step=0.05, epochs=5)
    scaled = data.scaler.transform(features)
    weights, intercept = float_sgd(scaled, signs, loss=Loss.HINGE, steps=steps)
    exact = mean_losses(Loss.HINGE, scaled, signs[:, None], weights[None, None],
                        np.array([[intercept]]))[0]
    excess, refetched = [], []
    for refetch in (False, True):
        model = run(data, loss=Loss.HINGE, steps=steps, refetch=refetch)
        found = mean_losses(Loss.HINGE, features, signs[:, None], model.coefs, model.intercepts)
        excess.append(found[-1] / exact - 1)
        refetched.append(model.counters["refetched_rows"] or 0)
    assert straw_man[0] < excess[0] < straw_man[1]
    assert abs(excess[1]) < 0.005
    assert refetched[0] == 0
    assert share[0] < refetched[1] / 15_000 < share[1]


# Automatic steps, models

@pytest.mark.parametrize("loss, one, four, many", [
    (Loss.LEAST_SQUARES, 0.2, 1.6, 80), (Loss.HUBER, 1, 8, 200), (Loss.SQUARED_HINGE, 0.5, 4, 100),
    (Loss.HINGE, 2, 16, 800), (Loss.LOGISTIC, 4, 32, 1600)])
def test_automatic_step_by_hand(loss, one, four, many):
    # R = 1 + 4 / 3, and the largest eigenvalue is that of the intercept, 1
    features = np.random.default_rng(0).uniform(-1, 1, (5000, 4))
    data = quantize(features, features[:, 0], bits=32, encoding="float")
    for batch, factor in ((1, one), (4, four), (100, many)):
        expected = min(factor / (7 / 3 + batch - 1),
                       16 if loss in (Loss.HINGE, Loss.LOGISTIC) else np.inf)
        assert automatic_step(data.rows, batch, loss=loss) == pytest.approx(expected, rel=0.02)


def test_noise_shortens_the_step_of_least_squares_alone():
    features = np.random.default_rng(0).uniform(-1, 1, (5000, 4))
    noisy = quantize(features, features[:, 0], bits=1, encoding="stochastic")    # R = 5
    assert automatic_step(noisy.rows) == pytest.approx(0.2 / 5 / 9, rel=0.03)
    assert automatic_step(noisy.rows, loss=Loss.HINGE) == pytest.approx(2 / 5)


@pytest.mark.parametrize("encoding, bits, ratio", [
    ("compensated", 3, 1), ("compensated", 4, 4), ("double", 2, 1), ("stochastic", 2, 4)])
def test_batches_lengthen_no_step_that_may_diverge(encoding, bits, ratio):
    """Of rows that hardly share a direction, a batch of 16 has that of 16 rows, times g."""
    rows = quantize_rows(np.random.default_rng(0).uniform(-1, 1, (2000, 500)), bits=bits,
                         encoding=encoding)
    found = automatic_step(rows, 16) / automatic_step(rows)
    assert 0.6 * 16 * ratio < found <= 16 * ratio


def test_small_rows_have_no_endless_step():
    features = np.zeros((100, 3))
    features[0] = 1
    data = quantize(features, features[:, 0], bits=8, encoding="nearest", scaler="maxabs")
    assert automatic_step(data.rows, fit_intercept=False, loss=Loss.HINGE) == 16
    assert automatic_step(data.rows, fit_intercept=False, loss=Loss.SQUARED_HINGE) == \
        pytest.approx(0.5 * 100 / 3)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_rows_that_suit_them(name):
    model = MODELS[name]
    refetch = LOSSES[model.loss].one_sided
    Grid(model.encoding, model.bits)
    features, signs = problem()
    labels = signs if model.task == "classification" else features[:, 0]
    data = quantize(features, labels, bits=model.bits, encoding=model.encoding, task=model.task,
                    fine_rows=refetch)
    assert (data.label_format == LabelFormat.SIGN) == (model.task == "classification")
    steps = schedule_steps("inverse", step=automatic_step(data.rows, loss=model.loss), epochs=5)
    trained = run(data, loss=model.loss, steps=steps, refetch=refetch)
    rule = loss_of(Objective(loss=model.loss), [data])
    loss = mean_losses(rule, features, labels[:, None], trained.coefs, trained.intercepts)
    zero = mean_losses(rule, features, labels[:, None], np.zeros((1, 1, 5)), np.zeros((1, 1)))
    assert loss[-1] < 0.7 * zero[0]
    assert ENCODINGS[model.encoding].row_format == "one_level"


def test_losses_of_models():
    assert {name: (model.task, model.loss, model.sklearn_loss)
            for name, model in MODELS.items()} == {
        "linreg": ("regression", Loss.LEAST_SQUARES, "squared_error"),
        "huber": ("regression", Loss.HUBER, "huber"),
        "ls-svm": ("classification", Loss.LEAST_SQUARES, "squared_error"),
        "l2-svm": ("classification", Loss.SQUARED_HINGE, "squared_hinge"),
        "svm": ("classification", Loss.HINGE, "hinge"),
        "logistic": ("classification", Loss.LOGISTIC, "log_loss")}


def test_models_of_all_epochs_fit_the_memory(monkeypatch):
    """32 bytes a weight: 10 epochs of 2 outputs of 4 features take 2,560."""
    config = PipelineConfig(bits=4)
    rows = quantize(np.eye(4), np.arange(4.0), bits=4)
    objective, training = Objective(), Training(steps=[0.1] * 10)

    def run(**changes):
        return train_model([rows, rows], GoldenDevice(config), config, objective,
                           replace(training, **changes))

    monkeypatch.setattr(train, "available_memory", lambda: 2560)
    assert run().epochs_done == 10
    monkeypatch.setattr(train, "available_memory", lambda: 2559)
    message = r"10 epochs of 8 weights take 0.0 GB; choose at most 4 epochs$"
    with pytest.raises(MemoryError, match=message):
        run()
    with pytest.raises(MemoryError, match=message):
        train_candidates([rows], GoldenDevice(config), config, [(objective, training)] * 2)
    # As many as it has, which may be few.
    some = scored_codes([rows, rows], Loss.LEAST_SQUARES, classes=False)
    assert run(stopping=Stopping(some, False, 1.0, 2)).epochs_done < 10
