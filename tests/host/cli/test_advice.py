"""Words of ``bitstep train``: ways out where a training diverged, and classes that options name."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep.cli import advice
from bitstep.cli.advice import remedy, rounded
from bitstep.cli.class_weights import label_of
from bitstep.cli.options import UsageError
from bitstep.training.objective import Objective


def request_of(*, bits=4, encoding="nearest", schedule="inverse", asked=False) -> Any:
    return SimpleNamespace(
        training=SimpleNamespace(steps=[0.5, 0.25]), schedule=schedule,
        problem=SimpleNamespace(request=SimpleNamespace(bits=bits, encoding=encoding)),
        resolved=SimpleNamespace(step_asked=asked))


@pytest.mark.parametrize("options, swept, text", [
    ({}, False, "--step 0.12"), ({"asked": True}, False, "--step 0.12 or --step auto"),
    ({"asked": True}, True, "--sweep step=0.12,..."),
    ({"schedule": "steps.txt"}, True, "smaller ones in steps.txt"),
    # The corrections of few bits amplify their noise.
    ({"bits": 3, "encoding": "compensated"}, False, "--step 0.12 or more --bits"),
    ({"bits": 4, "encoding": "compensated"}, False, "--step 0.12"),
    ({"bits": 3, "encoding": "nearest"}, False, "--step 0.12")])
def test_remedies(options, swept, text):
    assert remedy(request_of(**options), swept=swept) == f"the first step was 0.5, try {text}"


@pytest.mark.parametrize("loss, said", [
    (2.2, None), (2.3, "the training loss is 2.3, but predicting the labels' mean has 2; ")])
def test_training_that_learned_nothing(monkeypatch, loss, said):
    """What a little above the best constant has may have nothing to learn."""
    monkeypatch.setattr(advice, "baseline", lambda problem: 2.0)
    monkeypatch.setattr(advice, "lost_updates", lambda model, losses: None)
    request = request_of()
    request.training.tol = None
    request.objective = Objective(l2=0.1)
    model: Any = SimpleNamespace(kept=2, short_of=lambda tol, epochs, l2: None)
    way = "the first step was 0.5, try --step 0.12 or a smaller --l2"
    assert advice.warning_of(request, model, [9.0, 1.0, loss]) == (said and said + way)


@pytest.mark.parametrize("options, ways", [
    ({}, "more --epochs"), ({"asked": True}, "more --epochs or --step auto"),
    ({"schedule": "steps.txt"}, "more --epochs or larger steps in steps.txt")])
def test_steps_that_were_too_short(monkeypatch, options, ways):
    """The loss still falls: a smaller step would learn even less."""
    monkeypatch.setattr(advice, "baseline", lambda problem: 2.0)
    monkeypatch.setattr(advice, "lost_updates", lambda model, losses: None)
    request = request_of(**options)
    request.training.tol, request.objective = None, Objective()
    model: Any = SimpleNamespace(kept=3, short_of=lambda tol, epochs, l2: None)
    assert advice.warning_of(request, model, [9.0, 8.0, 6.0, 5.0]) == (
        "the training loss is 5, but predicting the labels' mean has 2; it was still falling, "
        f"try {ways}")


def test_numbers_are_rounded_to_digits():
    assert [rounded(value, 2) for value in (0.125, 123.4, 0.00456)] == ["0.12", "120", "0.0046"]


@pytest.mark.parametrize("classes, names, right, wrong, known", [
    (np.array([0.0, 5.0]), None, [("5", 5.0), ("0.0", 0.0)], ["7", "five", "nan"], "0, 5"),
    (np.array(["no", "yes"]), None, [("yes", "yes")], ["maybe", "0"], "no, yes"),
    # Of three names one has no row.
    (np.array([0.0, 2.0]), ["a", "b", "c"], [("c", 2.0)], ["b", "2", "d"], "a, c")])
def test_classes_that_a_weight_names(classes, names, right, wrong, known):
    for text, label in right:
        assert label_of(text, classes, names) == label
    for text in wrong:
        with pytest.raises(UsageError, match=f"classes of the data, {known}, not '{text}'"):
            label_of(text, classes, names)
