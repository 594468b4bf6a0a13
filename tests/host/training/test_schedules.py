"""Step schedules, and a message for every way to get one wrong."""

import doctest
import os
from typing import Any

import numpy as np
import pytest

import bitstep.training.schedules
from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.pipeline.config import PipelineConfig
from bitstep.quantization import quantize_rows
from bitstep.training.choices import resolve
from bitstep.training.schedules import (
    automatic_batch,
    automatic_epochs,
    automatic_step,
    schedule_steps,
)


@pytest.mark.parametrize("schedule, expected", [
    ("constant", [0.6, 0.6, 0.6, 0.6]), ("inverse", [0.6, 0.3, 0.2, 0.15]),
    ("inverse-sqrt", [0.6, 0.4243, 0.3464, 0.3]), ("linear", [0.6, 0.45, 0.3, 0.15])])
def test_named(schedule, expected):
    assert schedule_steps(schedule, step=0.6, epochs=4) == pytest.approx(expected, abs=1e-4)


def test_list_and_file(tmp_path):
    path = tmp_path / "steps.txt"
    path.write_text("# warm up\n0.1\n\n0.5  # then\n0.25\n")
    assert schedule_steps(path, step=None, epochs=2).tolist() == [0.1, 0.5]
    assert schedule_steps(str(path), step=None, epochs=3).tolist() == [0.1, 0.5, 0.25]
    assert schedule_steps([0.1, 0.5], step=None, epochs=2).tolist() == [0.1, 0.5]


def test_a_pipe_is_no_file_of_steps(tmp_path):
    os.mkfifo(tmp_path / "steps.txt")
    with pytest.raises(ValueError, match=r"steps\.txt', which is standard input, a pipe or a dev"):
        schedule_steps(tmp_path / "steps.txt", step=None, epochs=2)


@pytest.mark.parametrize("schedule, step, epochs, message", [
    ("inverse", 0.0, 3, "step must be a positive number, not 0.0"),
    ("inverse", None, 3, "step must be a positive number, not None"),
    ("inverse", float("inf"), 3, "step must be a positive number"),
    ("inverse", 0.1, 0, "epochs must be an integer of at least 1, not 0"),
    ("inverse", 0.1, 2.0, "epochs must be"),
    ([0.1], None, 2, "at least 2 steps, one an epoch, not 1"),
    (np.ones(1_000_001), None, 2, "at most 1000000 steps, one an epoch, not 1000001"),
    ([0.1, -0.1], None, 2, "positive numbers only"),
    ([0.1, 0.1], 0.5, 2, "step must not be given together with a list"),
    ("missing.txt", None, 2, "constant, inverse, inverse-sqrt, linear or a readable text file")])
def test_errors(schedule, step, epochs, message):
    with pytest.raises(ValueError, match=message):
        schedule_steps(schedule, step=step, epochs=epochs)


def test_bad_line(tmp_path):
    path = tmp_path / "steps.txt"
    path.write_text("0.1\nfast\n")
    with pytest.raises(ValueError, match=r"steps.txt, line 2: expected one number, not 'fast'"):
        schedule_steps(path, step=None, epochs=2)


def test_doctest():
    assert doctest.testmod(bitstep.training.schedules).attempted == 2
    assert doctest.testmod(bitstep.training.schedules).failed == 0


@pytest.mark.parametrize("n_rows, epochs", [
    (1, 1000), (100, 1000), (101, 991), (1000, 100), (4999, 21), (5000, 20), (10 ** 9, 20)])
def test_few_rows_are_read_more_often(n_rows, epochs):
    assert automatic_epochs(n_rows) == epochs


@pytest.mark.parametrize("n_rows, values, epochs", [
    (3, 67_108, 1000), (3, 67_109, 999), (101, 67_109, 991), (3, 1 << 20, 64), (3, 1 << 24, 20)])
def test_models_of_many_weights_have_fewer_epochs(n_rows, values, epochs):
    """All of them together have 2**26 weights at most, but for the 20 epochs of any."""
    assert automatic_epochs(n_rows, values) == epochs


@pytest.mark.parametrize("n_rows, batch", [
    (1, 1), (4999, 1), (5000, 4), (19_999, 4), (20_000, 16), (79_999, 16), (80_000, 64),
    (10 ** 9, 64)])
def test_many_rows_have_batches(n_rows, batch):
    """20 epochs have 25,000 updates and more."""
    assert automatic_batch(n_rows) == batch


NO_BATCHES = PipelineConfig(minibatch=False)
BATCHES = PipelineConfig()


@pytest.mark.parametrize("asked, facts, batch", [
    ({}, {}, 16), ({"batch": 1}, {}, 1), ({"batch": 5}, {}, 5), ({"step": "auto"}, {}, 16),
    ({"schedule": "inverse"}, {}, 16), ({"early_stopping": True}, {}, 16), ({"l2": 0.1}, {}, 16),
    ({"step": 0.1}, {}, 1), ({"schedule": [0.1] * 20}, {}, 1), ({}, {"partial_fit": True}, 1),
    ({"model": "svm", "bits": 8}, {}, 1), ({"model": "svm", "refetch": False}, {}, 16),
    ({"solver": "bit-centred"}, {}, 1), ({"planes": 4}, {}, 16), ({"model": "logistic"}, {}, 16),
    ({"bits": 32}, {}, 16), ({"bits": 3}, {}, 1), ({"bits": 3, "batch": 4}, {}, 4),
    ({"bits": 2, "encoding": "stochastic"}, {}, 16),
    ({}, {"built": [NO_BATCHES]}, 1), ({}, {"built": [BATCHES]}, 16),
    ({}, {"built": [NO_BATCHES, BATCHES]}, 16), ({}, {"built": []}, 1),
    ({"bits": 8}, {"built": [BATCHES]}, 1)], ids=str)
def test_a_batch_that_is_left_open(asked, facts, batch):
    """It is 1 where rows cannot wait for each other, or steps were tuned with it."""
    asked = {"model": "linreg", "solver": "sgd", **asked}
    assert resolve(Request(PYTHON, asked, facts=facts)).batch(20_000) == batch


@pytest.mark.parametrize("asked, facts, schedule, epochs", [
    ({}, {}, "linear", 100), ({"step": "auto"}, {}, "linear", 100),
    ({"epochs": 7}, {}, "linear", 7), ({"schedule": "linear", "step": 0.1}, {}, "linear", 20),
    ({"step": 0.1}, {}, "inverse", 20), ({"schedule": "constant"}, {}, "constant", 20),
    ({"early_stopping": True}, {}, "inverse", 20), ({"tol": 1e-3}, {}, "inverse", 20),
    ({}, {"partial_fit": True}, "inverse", 20)], ids=str)
def test_what_is_left_open(asked, facts, schedule, epochs):
    """The automatic schedule needs to know the last epoch; steps that are given are as they were.
    """
    asked = {"model": "linreg", "solver": "sgd", "bus_width": 64, **asked}
    found = resolve(Request(PYTHON, asked, facts=facts))
    assert found.request["schedule"] == schedule
    assert found.epochs(1000) == epochs
    rows = quantize_rows(np.random.default_rng(0).uniform(-1, 1, (1000, 3)), bits=4)
    if not isinstance(asked.get("step", "auto"), str):
        return
    training = found.training(rows, found.objective(1000))
    first = automatic_step(rows) * (0.5 if schedule == "linear" else 1)
    assert training.steps[0] == pytest.approx(first)
    if schedule == "linear":
        np.testing.assert_allclose(training.steps, first * np.arange(epochs, 0, -1) / epochs)


@pytest.mark.parametrize("encoding, bits, schedule", [
    ("compensated", 3, "inverse"), ("compensated", 4, "linear"), ("double", 2, "inverse"),
    ("double", 3, "inverse"), ("double", 4, "linear"), ("double-symmetric", 3, "inverse"),
    ("stochastic", 2, "linear"), ("nearest", 1, "linear"), ("float", 32, "linear")])
def test_codes_that_long_steps_make_diverge(encoding, bits, schedule):
    found = resolve(Request(PYTHON, {"model": "linreg", "solver": "sgd", "encoding": encoding,
                                     "bits": bits}))
    assert found.request["schedule"] == schedule
    assert found.epochs(40) == (20 if schedule == "inverse" else 1000)


def test_few_rows_of_few_bits_and_two_samples():
    """Their thousandth epoch was beyond every range, at the defaults of SGD."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(20, 3))
    model = LowPrecisionRegressor(bits=2, encoding="double", random_state=0).fit(X, X[:, 0])
    assert model.n_iter_ == 20
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("loss", ["hinge", "log_loss", "squared_hinge"])
@pytest.mark.parametrize("l2", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize("bits", [8, 32])
def test_a_large_penalty_has_short_steps(loss, l2, bits):
    """A step of 1 / l2 or more would take more than all of a weight."""
    features = np.random.default_rng(0).standard_normal((300, 6))
    model = LowPrecisionClassifier(loss=loss, l2=l2, solver="sgd", bits=bits, refetch=False,
                                   random_state=0).fit(features, features[:, 0] > 0)
    assert model.step_ <= 0.5 / l2
    assert not model.restarts_
    # The gradient of the loss at 0 is at most 1 in any direction of scaled features.
    assert np.abs(model.coef_ * np.ptp(features, axis=0) / 2).max() < 2 / l2


@pytest.mark.parametrize("l2", [1e12, 1e100, 1e300])
@pytest.mark.parametrize("options", [
    {"bits": 8, "batch": 64}, {"bits": 32, "encoding": "float"}, {"solver": "sgd", "planes": 4},
    {"solver": "bit-centred", "planes": 4}])
def test_a_penalty_that_no_step_can_follow(l2, options):
    """Nobody chose the step, so the message is about the penalty."""
    features = np.random.default_rng(0).standard_normal((3000, 6))
    with pytest.raises(ValueError, match=r"^l2 must be (smaller|at most .*e\+\d\d) for these rows "
                       "and epochs, not 1e"):
        LowPrecisionRegressor(l2=l2, random_state=0, **options).fit(features, features[:, 0])


def test_the_largest_penalty_that_steps_can_follow():
    features = np.random.default_rng(0).standard_normal((300, 6))
    with pytest.raises(ValueError, match=r"^l2 must be at most .*: it asks") as error:
        LowPrecisionRegressor(bits=8, batch=64, l2=1e12).fit(features, features[:, 0])
    most = float(str(error.value).split()[5])
    LowPrecisionRegressor(bits=8, batch=64, l2=0.9 * most).fit(features, features[:, 0])
    with pytest.raises(ValueError, match=r"^l2 must be at most .*: it asks"):
        LowPrecisionRegressor(bits=8, batch=64, l2=1.2 * most).fit(features, features[:, 0])


def test_a_step_that_is_chosen_is_named():
    rows = np.random.default_rng(0).standard_normal((300, 6))
    for step in (1e-15, 1e-320):
        with pytest.raises(ValueError, match=f"^A step of {step:.6g} is too small for the step"):
            LowPrecisionRegressor(bits=8, l2=0.1, step=step).fit(rows, rows[:, 0])


def test_bit_centred_training_takes_every_penalty():
    features = np.random.default_rng(0).standard_normal((3000, 6))
    model = LowPrecisionRegressor(solver="bit-centred", l2=1e308).fit(features, features[:, 0])
    assert np.abs(model.coef_).max() < 1e-9


def test_a_penalty_that_grows_between_parts_shortens_the_step():
    features = np.random.default_rng(0).standard_normal((300, 6))
    model: Any = LowPrecisionClassifier(loss="log_loss", l2=0.0, random_state=0)
    model.partial_fit(features, features[:, 0] > 0, classes=[False, True])
    assert model.step_ > 0.005
    model.set_params(l2=100.0).partial_fit(features, features[:, 0] > 0)
    assert model.step_ <= 0.005
