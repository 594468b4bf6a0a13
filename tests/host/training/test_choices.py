"""Choices: defaults for what is left open, and what does not go together."""

import numpy as np
import pytest

from bitstep.pipeline.registers import Loss
from bitstep.quantization import ENCODINGS, quantize_rows
from bitstep.training.choices import ChoiceError, check_corrected, resolve_rows, resolve_training
from bitstep.training.models import MODELS
from bitstep.training.objective import Objective
from bitstep.training.schedules import automatic_step

SVM, LINREG = MODELS["svm"], MODELS["linreg"]


@pytest.mark.parametrize(("model", "choices", "expected"), [
    (LINREG, {}, (4, "compensated", False)), (SVM, {}, (8, "nearest", True)),
    (MODELS["logistic"], {}, (8, "stochastic", False)),
    (LINREG, {"bits": 32}, (32, "float", False)),
    (SVM, {"encoding": "float"}, (32, "float", False)),
    (SVM, {"encoding": "double"}, (8, "double", False)),
    (SVM, {"refetch": False, "batch": 4}, (8, "nearest", False)),
    (SVM, {"has_fine_rows": False}, (8, "nearest", False)),
    (SVM, {"bits": 3, "encoding": "stochastic"}, (3, "stochastic", True))])
def test_what_is_left_open(model, choices, expected):
    choice = resolve_rows(model, **choices)
    assert (choice.bits, choice.encoding, choice.refetch) == expected


@pytest.mark.parametrize(("model", "choices", "rule", "message"), [
    (LINREG, {"bits": 8, "encoding": "float"}, "float", "bits must be 32 for encoding 'float'"),
    (LINREG, {"bits": 9}, "bits", "bits must be an integer from 1 to 8"),
    (LINREG, {"encoding": "zz"}, "bits", "encoding must be one of nearest"),
    (SVM, {"encoding": "compensated"}, "corrected", "corrected for the squared loss alone"),
    (LINREG, {"refetch": True}, "refetch-loss", "refetch=True needs loss='hinge'"),
    (SVM, {"refetch": True, "bits": 32}, "refetch-float", "whose codes bound the value"),
    (SVM, {"refetch": True, "encoding": "double"}, "refetch-encoding", "encoding 'nearest' or"),
    (SVM, {"refetch": True, "has_fine_rows": False}, "refetch-rows", "the data have none"),
    (SVM, {"batch": 2}, "refetch-batch", "Refetching needs batch=1")])
def test_what_does_not_go_together(model, choices, rule, message):
    with pytest.raises(ChoiceError, match=message) as error:
        resolve_rows(model, **choices)
    assert error.value.rule == rule


def test_encodings_that_suit_a_loss():
    for encoding in ENCODINGS:
        check_corrected(encoding, Loss.LEAST_SQUARES)
    for encoding in ("nearest", "stochastic", "double", "float"):
        check_corrected(encoding, Loss.HINGE)


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
