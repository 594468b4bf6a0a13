"""Tables of fitted levels, and of the exchange in two phases."""

import sys

import numpy as np
import pytest

from bitstep_gradients import make_codec
from bitstep_gradients.lab import levels, phases
from bitstep_gradients.lab.contestants import parse_contestant
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.training import Batches
from bitstep_gradients.lab.workers import Workers


def cells(text):
    """Cells of the rows of a Markdown table."""
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines() if line.startswith("| `")]


def test_errors_of_levels_by_hand(capsys, monkeypatch):
    """Expected errors by the squared norm, after an update by the bucket itself."""
    monkeypatch.setattr(levels, "BUCKET", 300)
    monkeypatch.setattr(levels, "SEEDS", 2)
    monkeypatch.setattr(levels, "CODECS", (("alq-linf", {}), ("nuqsgd", {"zero": False})))
    levels.report_codecs(3)
    fitted, fixed = cells(capsys.readouterr().out)
    assert (fitted[0], fixed[:2]) == ("`alq-linf`", ["`nuqsgd`", "`zero=False`"])
    found = []
    for seed in range(2):
        vector = np.random.default_rng(seed).normal(size=300).astype(np.float32)
        codec = make_codec("alq-linf", bits=3)
        codec.update([codec.statistics(vector)])
        error = codec.expected_error(vector)
        assert error is not None
        found.append(error / float(np.sum(vector.astype(np.float64)**2)))
    assert [float(cell) for cell in fitted[2:]] == pytest.approx(
        [np.mean(found), min(found), max(found)], rel=1e-3)


def test_points_of_a_look(capsys, monkeypatch):
    """However few are asked for, there are some."""
    monkeypatch.setattr(sys, "argv", ["levels", "--shrink", "100000000"])
    monkeypatch.setattr(levels, "METHODS", ("exact",))
    for name in ("report_codecs", "report_updates"):
        monkeypatch.setattr(levels, name, lambda *arguments: None)
    levels.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if "`exact`" in line]
    assert len(rows) == 2 * len(levels.SIZES)
    assert all(line.startswith("| 100 |") for line in rows)


def test_errors_of_phases(monkeypatch):
    """By hand of the first step's messages; an owner's message of the average adds an error."""
    model, samples = make_task("logreg", rows=200)
    monkeypatch.setattr(phases, "make_task", lambda name: (model, samples))
    monkeypatch.setattr(phases, "POINTS", 1)
    contestants = [parse_contestant(text) for text in ("none", "dqsg:levels=50")]
    found = phases.errors(contestants, 4)
    assert found["none"] == pytest.approx({"all_gather": 0, "two-phase": 0}, abs=1e-12)
    parameters = model.first_parameters(phases.SEED)
    batches = Batches(samples, 4, phases.BATCH, phases.SEED).draw()
    gradients = [model.gradient(parameters, *batch)[1] for batch in batches]
    workers = Workers(contestants[1], {name: value.shape for name, value in parameters.items()},
                      n_workers=4, seed=0, n_steps=1)
    average = workers.exchange(0, gradients, [0.0] * 4).average
    lost = total = 0.0
    for name in parameters:
        exact = np.mean([one[name] for one in gradients], axis=0, dtype=np.float64)
        lost, total = lost + np.sum((average[name] - exact)**2), total + np.sum(exact**2)
    once, twice = (found["dqsg:levels=50"][scheme] for scheme in ("all_gather", "two-phase"))
    assert once == pytest.approx(lost / total, rel=1e-3)
    assert 1.5 < twice / once < 5.5     # to a quarter, which the mean leaves, at most a whole one


def test_table_of_phases(capsys, monkeypatch):
    monkeypatch.setattr(phases, "errors", lambda contestants, n_workers: {
        one.text: {"all_gather": 0.5, "two-phase": 0.5 * n_workers} for one in contestants})
    phases.main(["--codecs", "dqsg:bits=3", "--workers", "2", "5"])
    assert cells(capsys.readouterr().out) == [["`dqsg:bits=3`", "2", "0.5", "1", "2.00"],
                                              ["`dqsg:bits=3`", "5", "0.5", "2.5", "5.00"]]
