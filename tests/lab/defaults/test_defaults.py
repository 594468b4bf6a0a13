"""The contest of defaults: its problems, its score, its table."""

import sys

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from bitstep_lab.defaults import __main__ as command
from bitstep_lab.defaults import contest, problems


def test_problems_are_what_they_say():
    found = {one.name: one for one in problems.problems(3)}
    assert len(found) == 5 + len(problems.GENERATORS)
    for one in found.values():
        assert one.features.shape[0] == len(one.labels)
        assert np.isfinite(one.features).all()
    assert found["make_classification"].features.shape == (1000, 200)
    # A line fits the clean set but for its noise.
    clean = found["linear, R2 0.98"]
    fitted = clean.features @ np.linalg.lstsq(clean.features, clean.labels, rcond=None)[0]
    assert 1 - np.var(clean.labels - fitted) / np.var(clean.labels) == pytest.approx(.98, abs=.002)
    with_outlier, without = found["one outlier row"], found["no outlier row"]
    assert (with_outlier.features != without.features).any(axis=1).sum() == 1
    assert with_outlier.features.std() > 2
    assert with_outlier.test is not None
    assert np.abs(with_outlier.test[0]).max() < 10


def test_another_seed_makes_other_rows():
    for make in problems.GENERATORS.values():
        assert (make(0).features != make(1).features).any()
        np.testing.assert_array_equal(make(2).features, make(2).features)


def test_score_is_the_mean_of_the_folds():
    labels = np.array([0] * 60 + [1] * 40)
    problem = problems.Problem("mostly 0", "classification", np.zeros((100, 1)), labels)
    found = contest.score(lambda: DummyClassifier(strategy="most_frequent"), problem)
    assert found.value == pytest.approx(0.6)
    assert found.cpu_s > 0
    assert len(list(problem.parts())) == problems.FOLDS


def test_table_names_what_is_far_below():
    chosen = [one for one in problems.problems() if one.name in ("iris", "wine")]
    text = contest.table(chosen, ours={"loss": "log_loss", "label_range": "auto"})
    assert "More than 0.02 below the best: none." in text
    text = contest.table(chosen, ours={"bits": 1, "epochs": 1})
    assert "More than 0.02 below the best: wine, iris." in text


@pytest.mark.parametrize(("arguments", "message"), [
    (["--seed", "-1"], "--seed must be at least 0, not -1"),
    (["--set", "bits"], "--set must be followed by NAME=VALUE")])
def test_command_refuses(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["defaults", *arguments])
    with pytest.raises(SystemExit):
        command.main()
    assert message in capsys.readouterr().err
