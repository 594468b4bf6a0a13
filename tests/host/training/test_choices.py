"""Choices: defaults for what is left open, and what does not go together."""

import numpy as np
import pytest

from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.quantization import quantize_rows
from bitstep.training.choices import check_options, resolve, resolve_training
from bitstep.training.objective import Objective
from bitstep.training.schedules import automatic_step


@pytest.mark.parametrize(("model", "choices", "expected"), [
    ("linreg", {}, (4, "compensated", False)), ("svm", {}, (8, "nearest", True)),
    ("logistic", {}, (8, "stochastic", False)),
    ("linreg", {"bits": 32}, (32, "float", False)),
    ("svm", {"encoding": "float"}, (32, "float", False)),
    ("svm", {"encoding": "double"}, (8, "double", False)),
    ("svm", {"refetch": False, "batch": 4}, (8, "nearest", False)),
    ("svm", {"model_bits": 8}, (8, "nearest", False)),
    ("svm", {"levels": "optimal", "bits": 3}, (3, "nearest", False)),
    ("linreg", {"planes": 4}, (16, "bit_planes", False)),
    ("svm", {"bits": 3, "encoding": "stochastic"}, (3, "stochastic", True))])
def test_what_is_left_open(model, choices, expected):
    rows = resolve(Request(PYTHON, {"model": model, **choices})).rows
    assert (rows.bits, rows.encoding, rows.refetch) == expected


@pytest.mark.parametrize("choices", [
    {}, {"bits": 2}, {"step": 0.1}, {"schedule": "constant"}, {"tol": 0.1}, {"planes": 4},
    {"early_stopping": True}, {"solver": "bit-centred"}, {"solver": "auto"},
    {"solver": "auto", "batch": 4}, {"model": "svm"}, {"schedule": [0.3, 0.2]}])
def test_checking_twice_changes_nothing(choices):
    once = check_options(Request(PYTHON, {"model": "linreg", **choices}))
    again = resolve(once)
    assert again.request.defaults == once.defaults
    assert again.epochs(1000) == resolve(Request(PYTHON, {"model": "linreg", **choices})) \
        .epochs(1000)


def test_rows_of_a_file():
    request = Request(PYTHON, {"model": "svm"}, facts={"no_fine_rows": "the data set"})
    assert not resolve(request).rows.refetch


@pytest.mark.parametrize("choices", [
    {}, {"solver": "sgd"}, {"bits": 4}, {"bits": 3}, {"solver": "sgd", "tol": 0.01}, {"step": 0.1},
    {"schedule": "constant"}, {"early_stopping": True}, {"planes": 4}, {"encoding": "double"},
    {"solver": "bit-centred"}, {"epochs": 40}, {"intercept": False}], ids=str)
def test_choices_that_are_made_stay(choices):
    """The command line makes them when it checks candidates, and again when it resolves them."""
    made = check_options(Request(PYTHON, {"model": "linreg", "solver": "auto", **choices}))
    assert check_options(made) == made


@pytest.mark.parametrize(("choices", "message"), [
    ({"bits": 9}, "bits must be an integer from 1 to 8, or 32 for .*, or auto, not 9"),
    ({"bits": True}, "bits must be an integer from 1 to 8, or 32 for .*, or auto, not T"),
    ({"encoding": "zz"}, "encoding must be one of 'nearest', .*, not 'zz'"),
    ({"batch": 0}, r"batch must be an integer from 1 to 2\*\*32 - 1, or auto, not 0"),
    ({"step": -1.0}, "step must be a number above 0, or auto, not -1.0"),
    ({"l2": float("nan")}, "l2 must be 0, or a number of at least 1e-100, or auto, not nan"),
    ({"early_stopping": 1}, "early_stopping must be True or False, not 1")])
def test_values_out_of_range(choices, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        resolve(Request(PYTHON, {"model": "linreg", **choices}))


def test_steps():
    rows = quantize_rows(np.random.default_rng(0).uniform(-1, 1, (50, 3)), bits=8)
    first = automatic_step(rows, 4, False)
    training = resolve_training(rows, Objective(), epochs=3, batch=4, fit_intercept=False)
    assert training.steps == pytest.approx(first / np.arange(1, 4))
    assert (training.batch, training.fit_intercept, training.model_range) == (4, False, None)
    listed = resolve_training(rows, Objective(), epochs=2, schedule=[0.3, 0.2, 0.1],
                              model_range=8.0)
    assert (list(listed.steps), listed.model_range) == ([0.3, 0.2], 8.0)
    assert list(resolve_training(rows, Objective(), epochs=2, step=1.0).steps) == [1, 0.5]
    with pytest.raises(ValueError, match="step must be 'auto' or a positive number, not 'long'"):
        resolve_training(rows, Objective(), epochs=2, step="long")
