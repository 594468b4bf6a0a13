"""Races to the optimum as pages of ``bitstep curves``."""

import csv
import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from bitstep.cli import main
from bitstep_lab.exactness import race, race_page, times
from bitstep_lab.exactness.problems import Problem
from bitstep_lab.exactness.race import COLUMNS, EXACT_RACES, ExactRace
from bitstep_lab.races.report import run_curves

ONE = ExactRace(key="exact-one", title="A title", text="What it <shows>.", data="synthetic-100")


def small(name: str, data_home: Any = None) -> Problem:
    del name, data_home
    rng = np.random.default_rng(0)
    features = rng.standard_normal((300, 4))
    targets = features @ rng.standard_normal((4, 1)) + 0.5 * rng.standard_normal((300, 1))
    return Problem("small", features, targets, True, "synthetic, here")


@pytest.mark.slow
def test_page_of_a_race(tmp_path, monkeypatch):
    """All contestants are in the page, in JSON and in CSV; a second call takes what is there."""
    monkeypatch.setattr(race, "problem", small)
    monkeypatch.setattr("bitstep_lab.races.report._ceilings", lambda store: None)
    said: list[str] = []
    page = run_curves(tmp_path, quick=True, only=["exact-one"], progress=said.append,
                      others=[ONE]).read_text("utf-8")
    found = json.loads((tmp_path / "races" / "exact-one.json").read_text())
    labels = [result["label"] for result in found["results"]]
    boards = [f"{board}: {name}" for board in race.BOARDS for name in (
        "bit-centred, 2 bits", "bit-centred, 4 bits", "SGD, 4 bits", "SGD, 8 bits",
        "float pipeline, SGD", "float pipeline, host-driven SVRG")]
    assert labels == [*boards, "CPU SGD, 1 thread", "CPU SVRG, 1 thread", "scikit-learn Ridge",
                      "scikit-learn SAG", "scikit-learn SAGA"]
    assert all(f"<td>{label}</td>" in page for label in labels)
    assert "<h2 id='exact-one'>A title</h2>" in page
    assert "What it &lt;shows&gt;." in page
    assert "is a model</b>: no such pipeline exists" in page
    assert page.count("<img ") == 3
    centred = found["results"][1]
    assert all(host > alone for host, alone in zip(
        centred["to_goals"], centred["device_to_goals"], strict=True))
    with open(tmp_path / "exact-one.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == sum(len(result["seconds"]) for result in found["results"])
    assert said == ["synthetic-100: all contestants to the optimum"]
    run_curves(tmp_path, quick=True, only=["exact-one"], progress=said.append, others=[ONE])
    assert len(said) == 1
    with pytest.raises(ValueError, match="There is no experiment 'exact-two'; there are"):
        run_curves(tmp_path, quick=True, only=["exact-two"], progress=said.append, others=[ONE])


def test_drawing_of_contestants_that_do_not_arrive(tmp_path):
    def result(name, profile, excess):
        return {"name": name, "label": name, "profile": profile, "choice": "", "excess": excess,
                "seconds": [1e-3, 2e-3], "device_s": None, "to_goals": [
                    next((1e-3 * (at + 1) for at, one in enumerate(excess)
                          if one is not None and one <= goal), None) for goal in times.GOALS],
                "device_to_goals": [None] * 3}

    found = {"experiment": "one", "title": "A title", "data": "small", "rows": 3, "features": 2,
             "source": "here", "goals": list(times.GOALS), "profiles": [{"name": "paper"}],
             "results": [result("good", "paper", [1.0, 1e-7]), result("far", "paper", [1.0, 0.5]),
                         result("diverged", "", [None, None]), result("half", "", [5e-3, 5e-3])]}
    figure = race_page._draw_goals(found)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["does not reach 0.01", "does not reach 0.01", "does not reach 0.001"]
    drawn = race_page.drawings(found, tmp_path)
    assert [path.name for path, _ in drawn] == ["one-goals.png", "one-time-paper.png"]
    assert all(path.exists() and path.with_suffix(".svg").exists() for path, _ in drawn)


def test_races_are_listed(tmp_path, capsys):
    assert main(["curves", "--list", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert all(f"{one.key}: {one.title}\n" in out for one in EXACT_RACES)
