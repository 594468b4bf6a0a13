"""Races on the simulated board: cycles of epochs, stored runs, the whole report."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep.cli import main
from bitstep.devices import open_device
from bitstep.pipeline.results import COUNTER_NAMES
from bitstep.quantization import quantize
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_for
from bitstep.training.train import train_model
from bitstep.training.trained import Restart
from bitstep_lab import baselines
from bitstep_lab.races.board_profiles import profile
from bitstep_lab.races.board_runs import _after_restarts
from bitstep_lab.races.contestants import FLOAT, Cpu, Pipeline, Race, Sklearn, several_models
from bitstep_lab.races.experiments import Experiment
from bitstep_lab.races.joint_passes import pass_sizes
from bitstep_lab.races.race import Track, run_race
from bitstep_lab.races.race_data import race_data
from bitstep_lab.races.report import run_curves
from bitstep_lab.races.run_store import RunStore

pytest.importorskip("sklearn")
pytest.importorskip("numba")
FOUR = Pipeline(bits=4, encoding="compensated")
PYNQ = profile("pynq-z1")
COUNTERS = dict.fromkeys(COUNTER_NAMES, 0)


def race_of(epochs, board=PYNQ, step=0.02, rtl=True):
    return run_race(Race(race_data("diabetes"), "linreg", board, (FOUR,), epochs=epochs,
                         step=step, schedule="constant", rtl=rtl))


@pytest.mark.parametrize("rtl", [True, False])
def test_cycles_of_epochs(rtl):
    """The end of an epoch is where a run of so many epochs ends, within a look at the device."""
    results = {epochs: race_of(epochs, rtl=rtl)["results"][0] for epochs in (2, 5)}
    long, short = results[5], results[2]
    interval = 442 * 2 // 256 + 64 + 64         # and the time of the look itself
    assert abs(long["cycles"][1] - short["cycles"][-1]) <= 2 * interval
    assert long["losses"][:2] == short["losses"]
    assert long["seconds"] == [cycles / 100e6 for cycles in long["cycles"]]
    moved = 442 * 8 + 888                       # labels end with a whole beat of 8 bytes
    assert long["host"]["transfer_bytes"] == moved
    assert long["host"]["transfer_s"] == pytest.approx(moved / 0.8e9)
    # Rows and labels of five epochs, and the epoch table.
    assert long["bytes_read"] >= 5 * 442 * 10


def test_losses_are_golden():
    found = race_of(3)["results"][0]["losses"]
    data = race_data("diabetes").dataset
    rows = quantize(data.features, data.labels, bits=4)
    config = pipeline_for(n_features=10, bits=4, encoding="compensated")
    with open_device("golden", config) as device:
        model = train_model([rows], device, config, Objective(),
                            Training(steps=np.full(3, 0.02)))
    values = data.features @ model.coefs[:, 0].T + model.intercepts[:, 0]
    assert ((values - data.labels[:, None]) ** 2).mean(axis=0) / 2 == pytest.approx(found)


def test_slow_memory_takes_longer():
    """Bandwidth is simulated: 0.2 GB/s carry 10 bytes of a row in 5 cycles of 100 MHz."""
    slow = race_of(2, board=PYNQ.overridden(memory_gbps=0.2))["results"][0]
    rows = 2 * 442
    assert 5 * rows <= slow["cycles"][-1] <= 5 * rows * 1.2
    assert race_of(2)["results"][0]["cycles"][-1] < 3 * rows


def test_cycle_model_counts_as_the_rtl():
    """With and without a limit of the memory: the same models, and the same cycles."""
    for board in (PYNQ, PYNQ.overridden(memory_gbps=0.2)):
        rtl, native = race_of(3, board), race_of(3, board, rtl=False)
        first, second = rtl["results"][0], native["results"][0]
        assert second["losses"] == first["losses"]
        assert second["cycles"][-1] == pytest.approx(first["cycles"][-1], rel=0.005)
        assert (first["device"], second["device"]) == ("sim", "cpu")
        assert rtl["rtl"] == {"all": True, "check": None}
        check = native["rtl"]["check"]
        assert check["status"] == "ok"
        assert check["cycles"] == pytest.approx(first["cycles"][0], rel=0.1)


def race_of_classes(models, rtl=False, rows=200):
    return run_race(Race(race_data("digits", rows=rows), "ls-svm", PYNQ,
                         several_models(models, FOUR), epochs=3, step=0.01, rtl=rtl))["results"][0]


def test_classes_that_share_passes(monkeypatch):
    """The same models in fewer cycles: 10 classes in passes of 4, 3 and 3."""
    monkeypatch.setattr("bitstep_lab.races.race.check_on_rtl", lambda *_, **__: {"status": "ok"})
    alone, joint = race_of_classes(1), race_of_classes(4)
    assert joint["losses"] == alone["losses"]
    assert joint["name"] == "4 bits compensated, 4 models a pass"
    assert joint["pipeline"] == alone["pipeline"] + "-m4"
    assert 0.3 < joint["cycles"][-1] / alone["cycles"][-1] < 0.4
    assert joint["cycles"] == sorted(joint["cycles"])
    assert joint["seconds"] == [cycles / 100e6 for cycles in joint["cycles"]]
    assert alone["bytes_read"] > 2.8 * joint["bytes_read"] > 0
    assert [pass_sizes(10, models) for models in (1, 4, 5, 8, 10)] == \
        [[1] * 10, [3, 3, 4], [5, 5], [5, 5], [10]]


@pytest.mark.slow
def test_passes_take_what_the_rtl_takes():
    # So many rows that an epoch, which is looked for every 64 cycles, ends exactly enough.
    native, rtl = race_of_classes(2, rows=600), race_of_classes(2, rtl=True, rows=600)
    assert native["losses"] == rtl["losses"]
    assert (native["device"], rtl["device"]) == ("cpu", "sim")
    assert native["cycles"] == pytest.approx(rtl["cycles"], rel=0.03)
    assert native["cycles"][-1] == pytest.approx(rtl["cycles"][-1], rel=0.005)
    assert native["bytes_read"] == rtl["bytes_read"]


def test_models_a_pass_by_the_command_line(capsys):
    options = ["bench", "digits", "--rows", "100", "--model", "svm", "--profile", "pynq-z1",
               "--models", "4", "--epochs", "2", "--step", "0.01", "--cpu"]
    with pytest.raises(SystemExit, match="2"):
        main([*options, "--bits", "4", "--refetch"])
    assert "--models 4 does not go together with --refetch" in capsys.readouterr().err


def test_other_cycles_than_the_rtls_end_a_race(monkeypatch):
    monkeypatch.setattr("bitstep_lab.races.board_runs.MODEL_ERROR", -1.0)
    with pytest.raises(RuntimeError, match=r"the same models, .* please report this"):
        race_of(2, rtl=False)


@pytest.mark.parametrize("rtl", [True, False])
def test_overflow_is_a_result(rtl):
    result = race_of(2, step=8.0, rtl=rtl)["results"][0]
    assert "left" in result["status"]
    assert result["finish"] == {"optimum": None}


def test_report_is_resumed(tmp_path, monkeypatch):
    experiment = Experiment(key="one", figure="5", title="Diabetes", text="", data="diabetes",
                            model="linreg", profile="pynq-z1", epochs=3,
                            contestants=(FLOAT, FOUR, Cpu(method="sgd"), Sklearn()))
    monkeypatch.setattr("bitstep_lab.races.report.experiments", lambda quick: [experiment])
    # How figures are drawn is a matter of tests/lab/races, how memory is measured of tests/lab.
    monkeypatch.setattr("bitstep_lab.races.plots.save_figure", lambda figure, stem: [
        Path(f"{stem}.{kind}").write_text("") for kind in ("png", "svg")])
    for what in ("copy", "read"):
        measure = getattr(baselines, f"memory_{what}_ceiling")
        monkeypatch.setattr(baselines, f"memory_{what}_ceiling",
                            lambda n_bytes, threads, measure=measure: measure(
                                n_bytes >> 8, threads=threads))
    lines = []

    def stop(line):
        lines.append(line)
        if "4 bits" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_curves(tmp_path, quick=True, progress=stop)
    assert [line.rpartition(": ")[2] for line in lines] == \
        ["optimum", "step for batches of 1", "float", "4 bits compensated"]
    lines.clear()
    page = run_curves(tmp_path, quick=True, progress=lines.append)
    assert [line.rpartition(": ")[2] for line in lines] == \
        ["4 bits compensated", "4 bits compensated, an epoch on the RTL", "CPU sgd, 1 thread",
         "scikit-learn"]
    assert page.read_text("utf-8").count("<img") == 3
    lines.clear()
    run_curves(tmp_path, quick=True, progress=lines.append)
    assert lines == []


def test_bench_command(tmp_path, capsys):
    report = tmp_path / "race.json"
    assert main(["bench", "diabetes", "--profile", "pynq-z1", "--bits", "4", "--epochs", "3",
                 "--cpu", "sgd", "--report", str(report)]) == 0
    out = capsys.readouterr().out
    assert "diabetes (442 x 10; bundled with scikit-learn): linreg on profile pynq-z1" in out
    for name in ("float", "4 bits compensated", "CPU sgd, 1 thread"):
        assert f"\n{name} " in out
    # A row of one beat takes two cycles.
    assert re.search(r"\n4 bits compensated: .* of device time for all epochs, .* cycles; "
                     r"waits: .*\d% for the recursion", out)
    assert report.stat().st_size > 1000


def test_bench_of_a_training_that_starts_again(capsys):
    """Its cycles are not known where rows are fetched again; the others count all runs."""
    assert main(["bench", "breast_cancer", "--model", "svm", "--profile", "pynq-z1", "--bits", "3",
                 "--epochs", "2", "--step", "50", "--refetch", "--cpu", "--no-float"]) == 0
    out = capsys.readouterr().out
    assert "3 bits nearest, refetching: the same model on the RTL, but it left its range" in out
    assert "\n3 bits nearest, refetching: it left its range, and of a run that then fetches" in out


def test_epochs_after_runs_that_were_given_up():
    given_up = [Restart(0, 1, 2.0, {**COUNTERS, "cycles": cycles}) for cycles in (100, 30)]
    model: Any = SimpleNamespace(restarts=given_up, counters={**COUNTERS, "cycles": 200})
    assert _after_restarts(model, np.array([20, 45, 70])).tolist() == [150, 175, 200]
    model.restarts = []
    assert _after_restarts(model, np.array([20, 45, 70])).tolist() == [20, 45, 200]


def test_stored_runs_know_their_inputs(tmp_path):
    lines = []
    track = Track(RunStore(tmp_path), lines.append)
    common = {"data": race_data("diabetes"), "model": "linreg", "contestants": (FOUR,),
              "epochs": 2, "step": 0.02}
    run_race(Race(**common, profile=PYNQ), track)
    lines.clear()
    run_race(Race(**common, profile=PYNQ), track)
    assert lines == []
    run_race(Race(**common, profile=PYNQ.overridden(memory_latency=50)), track)
    run_race(Race(**{**common, "step": 0.01}, profile=PYNQ), track)
    assert len(lines) == 4          # each with an epoch on the RTL
