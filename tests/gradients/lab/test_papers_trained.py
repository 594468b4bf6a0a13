"""Claims that a race judges."""

import copy
import json
import sys
from typing import Any

import numpy as np
import pytest

from bitstep_gradients import make_codec
from bitstep_gradients.control.wrapped import Wrapped
from bitstep_gradients.lab import phases
from bitstep_gradients.lab.papers import errors, regression, trained
from bitstep_gradients.lab.papers.__main__ import main
from bitstep_gradients.lab.papers.training import RUNS
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.training import Batches


def a_race():
    """A race in which all claims hold: every figure of a contestant by hand."""
    losses = dict.fromkeys(trained.CODECS, 0.5) | dict.fromkeys(trained.PLAIN, 0.9)
    losses |= {trained.levelled(name, *size): 0.9 for size in trained.SIZES
               for name in ("nuqsgd", "qsgd-linf")} | {"one-bit": 0.8}
    errors = {text: [0.9, 0.8] if text in trained.PLAIN else [0.2, 0.2] for text in trained.CODECS}
    errors |= {trained.levelled("nuqsgd", 3, 64): [0.1, 0.1], trained.RADIX_LIKE: [0.5, 0.9],
               trained.levelled("qsgd-linf", 3, 64): [0.3, 0.3]}
    sent = dict.fromkeys(trained.CODECS, 1000.0) | {
        "terngrad:payload=range": 1500.0, "one-bit": 2000.0, trained.EQUAL: 1600.0}
    results = []
    for text in trained.CODECS:
        for seed in (0, 1):
            points = [{"step": 0, "bytes": 0, "loss": 2.0, "accuracy": 0.1, "error": None},
                      {"step": 60, "bytes": 60 * sent[text], "loss": losses[text] + seed / 1000,
                       "accuracy": 0.9, "error": errors[text][0]}]
            results.append({"contestant": {"text": text, "name": text.partition(":")[0]},
                            "seed": seed, "status": "ok", "points": points, "at_steps": 1,
                            "at_budget": None, "bytes_a_step": sent[text],
                            "levels": [{"step": 0, "levels": {"a": [-1, -0.05, 0.05, 1]}}]})
    return {"model": "fc", "n_values": 1000, "setting": {"budget": 0}, "results": results,
            "probe": {"errors": errors}}


def verdicts(race):
    """Claims that hold or do not, by the first words; rows without a verdict are left out."""
    return {f"{paper} {one.claim}"[:50]: one.agrees for paper, found in trained.claims(race).items()
            for one in found if one.agrees in ("yes", "no")}


def test_all_claims_hold():
    found = verdicts(a_race())
    assert set(found.values()) == {"yes"}
    assert len(found) == 16


def changed(race, text, what, value):
    """A copy in which a contestant has another figure."""
    race = copy.deepcopy(race)
    if what == "probe":
        race["probe"]["errors"][text] = [value, 2 * value]
    for run in race["results"]:
        if run["contestant"]["text"] == text:
            if what == "bytes_a_step":
                run[what] = value
            elif what == "levels":
                run["levels"][0]["levels"]["a"] = [-1, -value, value, 1]
            elif what == "status":
                run["at_steps"], run[what] = None, value
            elif what != "probe":
                run["points"][-1][what] = value
    return race


@pytest.mark.parametrize("text, what, value, claim", [
    (trained.ADAPTIVE[2], "loss", 0.6, "ALQ Tables 1, 2, Fig. 3"),
    (trained.ADAPTIVE[1], "status", "diverged at step 3", "ALQ Tables 1, 2, Fig. 3"),
    (trained.PLAIN[1], "loss", 0.45, "ALQ the same: NUQSGD"),
    (trained.ADAPTIVE[3], "error", 0.95, "ALQ Fig. 1, 4, 12"),
    (trained.ADAPTIVE[3], "probe", 0.95, "ALQ Fig. 5, 11"),
    (trained.PLAIN[1], "probe", 0.25, "ALQ Fig. 5: uniform"),
    (trained.ADAPTIVE[0], "levels", 0.3, "ALQ Fig. 6"),
    (trained.levelled("nuqsgd", 2), "loss", 0.3, "ALQ Fig. 7: effect of bits"),
    (trained.levelled("nuqsgd", 3, 64), "loss", 0.3, "ALQ Fig. 7: effect of bucket"),
    (trained.levelled("nuqsgd", 3, 64), "probe", 5, "ALQ Fig. 7: larger"),
    ("qcs", "probe", 2, "QCS Fig. 4: relative"), ("qcs", "probe", 0.1, "QCS Fig. 4: and is"),
    ("qcs", "loss", 0.6, "QCS Fig. 7"), ("one-bit", "bytes_a_step", 900, "DQSG Table 2: DQSG"),
    ("qsgd-linf:payload=range", "bytes_a_step", 1600, "DQSG Table 2: DQSG"),
    ("one-bit", "loss", 0.2, "DQSG Fig. 4"), (trained.NESTED, "loss", 0.9, "DQSG Fig. 5"),
    (trained.NESTED, "bytes_a_step", 9000, "DQSG Bits of a value")])
def test_a_claim_that_does_not_hold(text, what, value, claim):
    found = verdicts(changed(a_race(), text, what, value))
    wrong = [name for name, agrees in found.items() if agrees == "no"]
    assert any(name.startswith(claim) for name in wrong), wrong


def test_figures_by_hand():
    """Of a message of 1,000 bytes for 1,000 values, and of runs that end 0.001 apart."""
    race = changed(changed(a_race(), "qcs", "accuracy", 0.25), trained.NESTED, "probe", 0.1)
    alq = trained.ADAPTIVE[0]
    for run in race["results"]:
        if run["contestant"]["text"] == alq:
            run["points"][-1]["loss"] = 0.5
            run["levels"].append({"step": 50, "levels": {"a": [-1, -0.01, 0.02, 1],
                                                         "b": [-1, -0.5, 0.04, 1]}})
    found = trained.Outcome(race)
    assert (found.kilobits("none"), found.bits("none")) == (8, 8)
    assert found.least_level(alq) == pytest.approx(0.03)        # at the end
    assert found.spread(alq) == found.spread("none") == pytest.approx(0.0005)
    assert found.at_end("qcs", "accuracy") == 0.25
    told = {one.claim: one.found for claims in trained.claims(race).values() for one in claims}
    (accuracy,) = (text for claim, text in told.items() if "accuracy of DQSG" in claim)
    assert accuracy == "90.0 %, 90.0 %; float32 90.0 %"
    assert told["and has its error: ratio"] == "0.75"           # of 0.1 and 0.2 to 0.2


def test_command(tmp_path, capsys):
    main(["--codecs"])
    assert capsys.readouterr().out.split() == trained.CODECS
    (tmp_path / "races.json").write_text(json.dumps([a_race()]))
    main(["--race", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(" | ")[-1] == "agrees |"
    assert len(lines) == 2 + sum(map(len, trained.claims(a_race()).values()))


@pytest.mark.parametrize("races, text", [
    (None, "must have the report of a race"), ([], "must have a race of fc"),
    ([{"model": "fc", "results": []}], "it lacks none")])
def test_reports_that_do_not_fit(races, text, tmp_path, capsys):
    if races is not None:
        (tmp_path / "races.json").write_text(json.dumps(races))
    with pytest.raises(SystemExit):
        main(["--race", str(tmp_path)])
    assert text in capsys.readouterr().err


def test_a_report_that_is_cut_off(tmp_path, capsys):
    (tmp_path / "races.json").write_text(json.dumps([a_race()])[:-9])
    with pytest.raises(SystemExit):
        main(["--race", str(tmp_path)])
    assert "must have the report of a race" in capsys.readouterr().err


def test_errors_without_torch(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitstep_gradients.lab.networks", None)
    with pytest.raises(SystemExit):
        main(["--errors", "resnet"])
    assert 'pip install "bitstep[torch]"' in capsys.readouterr().err


def test_phases_of_a_codec_that_there_is_not(capsys):
    with pytest.raises(SystemExit):
        phases.main(["--codecs", "dqsg", "morse"])
    assert "--codecs: there is no codec 'morse'; there are none" in capsys.readouterr().err


def test_counterparts_name_what_there_is():
    """A row that points to the race of FC-300-100 has a claim of the paper in it."""
    found = trained.claims(a_race())
    for paper, runs in RUNS.items():
        if any("#what-a-training-shows" in one.counterpart for one in runs):
            assert found[paper]


def test_steps_of_a_regression(monkeypatch, capsys):
    """Of the sizes that the documentation prints, with fewer seeds."""
    assert regression.steps_to_goal(make_codec("none"), 0.05, 0) == pytest.approx(28, abs=3)
    assert regression.steps_to_goal(make_codec("none"), 0.6, 0) == np.inf
    monkeypatch.setattr(regression, "RUNS", 1)
    monkeypatch.setattr(regression, "STEPS", (regression.SMALL, regression.LARGE, 0.4))
    main(["--regression"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(regression.CODECS) + 1 + 2 + 4
    assert all(line.endswith(" | - |") for line in lines[2:7])
    found = {title: np.array([2 * [30.0], 2 * [25.0 + 3 * number], 2 * [np.inf]])
             for number, title in enumerate(regression.CODECS)}
    assert [claim.agrees for claim in regression.claims(found)] == ["no", "no", "no", "no"]
    found["QCS, gain 20"][1] = 12
    found["QCS, gain 32"][0] = 29
    for title in ("QSGD, gain 20", "random-k, gain 21"):
        found[title][1, 1] = np.inf         # one run of two
    found["float32"][2] = 20
    assert [claim.agrees for claim in regression.claims(found)] == ["yes", "yes", "yes", "yes"]
    found = {"a codec": np.array([[28, 30, 35], [np.inf, 20, np.inf], 3 * [np.inf]])}
    assert regression.table(found).splitlines()[-1] == "| a codec | 30 | 33 % of runs | - |"


def test_steps_of_a_regression_have_random_words_of_their_own():
    """And each step to the goal counts."""
    keys = []

    class Watched(Wrapped):
        def encode(self, vector, key, side=None):
            keys.append((key.seed, key.step))
            return super().encode(vector, key, side)

    steps = regression.steps_to_goal(Watched(make_codec("none")), 0.1, 5)
    assert 5 < steps < 50
    assert keys == [(5, step) for step in range(1, int(steps) + 1)]


def test_steps_of_the_training_are_of_the_mean_gradient(monkeypatch):
    """That of the rows of all ranks together."""
    task, averages = make_task("logreg", rows=200), []
    monkeypatch.setattr(errors, "make_task", lambda name: task)
    monkeypatch.setattr(errors, "SCHEDULES", {"logreg": (0.5, 1)})
    monkeypatch.setattr(errors, "CODECS", {})
    monkeypatch.setattr(errors, "descend",
                        lambda parameters, step, average: averages.append((step, average)))
    errors.errors("logreg")
    model, samples = task
    batches = Batches(samples, errors.WORKERS, errors.BATCH, errors.SEED).draw()
    _, expected = model.gradient(model.first_parameters(errors.SEED),
                                 *map(np.concatenate, zip(*batches, strict=True)))
    ((step, average),) = averages
    assert step == 0.5
    for name, value in expected.items():
        np.testing.assert_allclose(average[name], value, atol=1e-6)


def test_table_of_errors_by_hand(monkeypatch, capsys):
    monkeypatch.setattr(errors, "errors", lambda name: ({
        title: {"network": 0.5 + place, "tensors": 0.25 + place}
        for place, title in enumerate(errors.CODECS)}, 0.125))
    main(["--errors", "fc"])
    head, _, first, second, *_ = capsys.readouterr().out.splitlines()
    assert head.endswith("| fc (12 % zeros), by tensor | fc (12 % zeros), network-wise |")
    assert first == f"| {errors.UNIFORM} | 0.25 | 0.5 |"
    assert second == f"| {errors.ZERO} | 1.25 | 1.5 |"


@pytest.mark.slow
def test_errors_on_gradients(monkeypatch, capsys):
    """A quarter of these gradients are zeros: levels without a zero have twice the error."""
    monkeypatch.setattr(errors, "SCHEDULES", {"fc": (0.0625, 1)})
    main(["--errors", "fc"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert "% zeros), by tensor" in head
    found = {row.split(" | ")[0].strip("| "): row for row in rows}
    assert list(found) == list(errors.CODECS)
    values = {title: [float(cell) for cell in row.strip("| ").split(" | ")[1:]]
              for title, row in found.items()}
    assert values[errors.UNIFORM][0] > 1.5 * values[errors.ZERO][0]
    assert values["`alq-linf`"][0] < 0.7 * values[errors.ZERO][0]
    assert values["`alq`"][0] > values[errors.UNIFORM][0]


def test_uniform_levels_without_zero():
    """An alq-linf that is never updated; the last bucket, which is shorter, is exact."""
    codec: Any = make_codec("alq-linf", bits=3, bucket_size=errors.BUCKET)
    assert codec.levels == pytest.approx(np.linspace(-1, 1, 8))
    fitted, rng = errors._Fitted("alq-linf"), np.random.default_rng(0)
    whole = rng.normal(size=errors.BUCKET + 5).astype(np.float32)
    row = errors._full_buckets(whole)
    assert fitted.lost([row], is_updated=False) == pytest.approx(
        codec.expected_error(whole[:errors.BUCKET]))
    assert fitted.lost([row], is_updated=True) < 0.6 * codec.expected_error(whole)


def test_levels_are_fitted_to_all_ranks():
    """And the error is that of all, each tensor with levels of its own."""
    rng = np.random.default_rng(1)
    rows = [[scale * rng.standard_normal(500, np.float32)**power for power in (1, 3)]
            for scale in (1, 9)]
    expected = 0.0
    for tensors in zip(*rows, strict=True):
        codec: Any = make_codec("alq-linf", bits=3, bucket_size=errors.BUCKET)
        codec.update([codec.statistics(one) for one in tensors])
        expected += sum(map(codec.expected_error, tensors))
    fitted = errors._Fitted("alq-linf")
    assert fitted.lost(rows, is_updated=True) == pytest.approx(expected)
