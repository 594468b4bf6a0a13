"""Races: finishing lines by hand, optima, the SGD that steps are tuned with, profiles, storage."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from bitstep.data import Dataset
from bitstep.data.dataset import DataError
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import OFFSETS, Loss
from bitstep.writing import text_table
from bitstep_lab.float_sgd import sgd
from bitstep_lab.races.board_profiles import PROFILES, profile
from bitstep_lab.races.board_runs import EpochClock, _bytes_moved, _Entry
from bitstep_lab.races.compiled import pipelines_of
from bitstep_lab.races.contestants import (
    FLOAT,
    Cpu,
    Pipeline,
    Race,
    Sklearn,
    Task,
    sample_of,
    with_batches,
)
from bitstep_lab.races.experiments import experiments
from bitstep_lab.races.judging import best_runs, finish, judge, result_table, rtl_sentence
from bitstep_lab.races.race import run_race
from bitstep_lab.races.race_data import GENERATORS, RaceData, is_at_hand, race_data
from bitstep_lab.races.reference import optimum
from bitstep_lab.races.run_store import RunStore, code_version, digest

HOST = {"quantize_s": 1.0, "transfer_s": 0.5}


def result(name, losses, second, *, kind="pipeline", encoding="compensated", host=HOST):
    """A contestant's result with equally long epochs."""
    found = {"name": name, "kind": kind, "status": "ok", "losses": losses, "host": host,
             "seconds": [second * (at + 1) for at in range(len(losses))]}
    return {**found, "encoding": encoding} if kind == "pipeline" else found


def judged(*results, best=1.0):
    race = {"optimum": best, "results": list(results)}
    judge(race)
    return race


def test_finish_by_hand():
    run = result("a", [3.0, None, 1.0, 2.0], 0.25)
    assert finish(run, 1.5) == {"epochs": 3, "seconds": 0.75, "end_to_end": 2.25}
    assert finish(run, 3.0) == {"epochs": 1, "seconds": 0.25, "end_to_end": 1.75}
    assert finish(run, 0.9) is None
    assert finish({"status": "left the range"}, 1.0) is None


def test_speedups_by_hand():
    race = judged(result("float", [2.0, 1.005], 4.0, encoding="float"),
                  result("4 bits", [1.01, 1.0], 1.0), result("1 bit", [9.0, 8.0], 0.5),
                  result("cpu", [2.0, 1.0], 3.0, kind="cpu"),
                  result("faster", [2.0, 1.0], 2.0, kind="sklearn"))
    assert race["line"] == "optimum"
    assert [one["speedup"]["float"] for one in race["results"]] == [1.0, 8.0, None, 8 / 6, 2.0]
    assert [one["speedup"]["cpu"] for one in race["results"]] == [0.5, 4.0, None, 4 / 6, 1.0]
    assert race["results"][1]["speedup"]["cpu_end_to_end"] == 4 / 2.5


def test_line_is_floats_where_it_misses_the_optimum():
    race = judged(result("float", [1.5, 2.0], 1.0, encoding="float"),
                  result("4 bits", [2.0, 2.0], 0.5))
    assert race["line"] == "float"
    assert race["targets"] == {"optimum": 1.01, "float": 2.02}
    assert race["results"][1]["speedup"]["float"] == 2.0


def test_without_float_there_is_one_line():
    race = judged(result("4 bits", [2.0, 1.0], 1.0))
    assert race["targets"] == {"optimum": 1.01}
    assert race["results"][0]["speedup"] == {"float": None, "cpu": None, "cpu_end_to_end": None}


def test_where_cycles_are_from():
    check = {"name": "4 bits", "status": "ok", "cycles": 12_345, "model_cycles": 12_340}
    assert rtl_sentence({"all": True, "check": None}) == "Cycles are those of the RTL, simulated."
    assert "no pipeline took part" in rtl_sentence({"all": False, "check": None})
    assert "12,345 cycles (cycle model: 12,340)" in rtl_sentence({"all": False, "check": check})
    missing = {"name": "4 bits", "status": "not checked, because g++ is missing"}
    assert rtl_sentence({"all": False, "check": missing}).endswith("because g++ is missing")


def test_optimum_of_least_squares():
    rng = np.random.default_rng(0)
    rows, targets = rng.uniform(-1, 1, (60, 4)), rng.standard_normal((60, 2)) + 5
    full = np.hstack([rows, np.ones((60, 1))])
    residuals = targets - full @ np.linalg.lstsq(full, targets, rcond=None)[0]
    assert optimum(rows, targets, loss=Loss.LEAST_SQUARES, l2=0.0) == \
        pytest.approx((residuals ** 2).mean() / 2)
    assert optimum(rows, targets, loss=Loss.LEAST_SQUARES, l2=1.0) > (residuals ** 2).mean() / 2


def test_optimum_of_the_hinge():
    """One feature: the least of a fine grid of weights and intercepts."""
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1, 1, (80, 1))
    targets = np.where(rows[:, 0] + 0.6 * rng.standard_normal(80) > 0, 1.0, -1.0)
    grid = [np.maximum(1 - targets * (w * rows[:, 0] + b), 0).mean() + 0.005 * w ** 2
            for w in np.linspace(0, 4, 161) for b in np.linspace(-1, 1, 81)]
    found = optimum(rows, targets[:, None], loss=Loss.HINGE, l2=0.01)
    assert found == pytest.approx(min(grid), rel=2e-3)


@pytest.mark.parametrize("loss, l2", [(Loss.LOGISTIC, 0.0), (Loss.LOGISTIC, 0.1),
                                      (Loss.SQUARED_HINGE, 0.1)])
def test_optimum_of_smooth_losses(loss, l2):
    """No SGD gets below it, a long one gets near."""
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (200, 3))
    targets = np.where(rows[:, 0] + 0.5 * rng.standard_normal(200) > 0, 1.0, -1.0)[:, None]
    best = optimum(rows, targets, loss=loss, l2=l2)
    weights, intercepts = sgd(rows, targets, np.full((2000, 1), 0.5), batch=200, loss=loss, l2=l2)
    margin = targets[:, 0] * (rows @ weights[-1, 0, 0] + intercepts[-1, 0, 0])
    values = np.log1p(np.exp(-margin)) if loss == Loss.LOGISTIC else \
        np.maximum(1 - margin, 0) ** 2 / 2
    reached = values.mean() + l2 / 2 * (weights[-1] ** 2).sum()
    assert best <= reached + 1e-9
    assert reached == pytest.approx(best, rel=1e-3)


class FakeBoard:
    """Ends an epoch every 100 cycles."""

    name, config, identity, clock_hz = "fake", PipelineConfig(), 0, 1e8

    def __init__(self):
        self.now, self.board = 0, self

    def run(self, cycles):
        self.now += cycles

    def read(self, offset):
        return {OFFSETS["CYCLES_LO"]: self.now, OFFSETS["CYCLES_HI"]: 1}[offset]


def test_epoch_clock():
    device = FakeBoard()
    clock = EpochClock(device, 30, 3, [1, 1])
    seen = []

    def done():
        while len(seen) < device.now // 100:
            seen.append(len(seen) + 1)
            clock.on_epoch(seen[-1])
        return len(seen) == 6

    assert clock.wait(done, 10.0)
    carry = 1 << 32
    # Two outputs of three epochs: looked at every 30 cycles, and the total is the counter's.
    assert clock.cycles(999).tolist() == [2 * carry + 120 + 420, 2 * carry + 210 + 510, 999]


def test_epoch_clock_of_passes_of_several_outputs():
    """Three outputs in two passes: an epoch of the first pass counts twice."""
    device = FakeBoard()
    clock = EpochClock(device, 30, 3, [2, 1])
    for done in (2, 4, 6, 7, 8, 9):
        device.now += 100
        clock.on_epoch(done)
    carry = 1 << 32
    assert clock.cycles(999).tolist() == [2 * carry + 100 + 400, 2 * carry + 200 + 500, 999]


def test_epoch_clock_two_epochs_in_one_look():
    device = FakeBoard()
    device.now = 250
    clock = EpochClock(device, 30, 3, [1])
    clock.on_epoch(2)
    device.now = 330
    clock.on_epoch(3)
    assert clock.cycles(7).tolist() == [(1 << 32) + 250, (1 << 32) + 250, 7]


def test_profiles():
    assert PROFILES["paper"].stream_gbps == 6.5
    assert PROFILES["paper-ideal"].stream_gbps == 12.8
    assert PROFILES["pynq-z1"].stream_gbps == 0.8
    changed = profile("pynq-z1", clock_hz=200e6)
    assert changed.stream_gbps == 1.6
    assert changed.source.endswith("Changed by options: clock_hz 2e+08.")
    assert (PROFILES["ultra96"].stream_gbps, PROFILES["kv260"].stream_gbps) == (2.4, 2.0)
    assert PROFILES["ultra96"].memory_gbps == 4.3
    assert profile("kv260") is PROFILES["kv260"]
    with pytest.raises(ValueError, match=r"^profile must be one of pynq-z1, .*, not 'vu9p'$"):
        profile("vu9p")


def test_profiles_of_the_documentation():
    text = (Path(__file__).parents[3] / "docs" / "results" / "races.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*`) \| (\d+) bits \| (\d+) MHz \| (.*) \| ([\d.]+) GB/s \|$", text,
                      re.MULTILINE)
    told = {name: row for row in rows for name in re.findall("`(.*?)`", row[0])}
    assert sorted(told) == sorted(PROFILES)
    for name, one in PROFILES.items():
        memory = "no limit" if one.memory_gbps is None else f"{one.memory_gbps:g} GB/s"
        assert told[name][1:] == (str(one.bus_width), f"{one.clock_hz / 1e6:g}", memory,
                                  f"{one.stream_gbps:g}")


@pytest.mark.parametrize("key, shape, classes", [
    ("YearPredictionMSD", (463_715, 90), None), ("cod-rna", (59_535, 8), 2),
    ("gisette", (6_000, 5_000), 2), ("mnist", (10_000, 784), 10)])
def test_generators(key, shape, classes):
    made = GENERATORS[key](0)
    assert made.features.shape == shape
    if classes:
        assert len(np.unique(made.labels)) == classes
    else:
        assert made.labels.min() >= 1922
        assert made.labels.max() <= 2011


def test_a_file_comes_before_a_generator(tmp_path):
    made = race_data("cod-rna", rows=50, data_home=tmp_path)
    assert made.source == "synthetic, shaped like cod-rna"
    lines = [f"{1 if row % 2 else -1} 1:{row}.5 8:2\n" for row in range(20)]
    (tmp_path / "cod-rna.svm").write_text("".join(lines))
    found = race_data("cod-rna", rows=10, data_home=tmp_path)
    assert (found.source, found.all_rows, found.dataset.n_rows) == ("cod-rna.svm", 20, 10)
    assert found.title == "cod-rna (10 of 20 x 8; cod-rna.svm)"


def test_nothing_is_downloaded(tmp_path):
    assert not is_at_hand("cadata", tmp_path)
    with pytest.raises(DataError, match=r"^cadata: there is no file of it in .*download nothing"):
        race_data("cadata", data_home=tmp_path)


def test_store(tmp_path):
    store = RunStore(tmp_path / "runs")
    assert store.get("a") is None
    store.put("a", {"losses": [1.0, float("nan")]})
    stored = store.get("a")
    assert stored is not None
    assert np.isnan(stored["losses"][1])
    store.put("b", {"by_bits": {10: 1.0, 9: 2.0}})
    assert store.get("b") == {"by_bits": {"10": 1.0, "9": 2.0}}
    whole = (tmp_path / "runs" / "a.json").read_text()
    for damaged in ('{"loss', "[" * 100_000, "null", "[]", "{}", '{"losses": [1.0]}',
                    '{"digest": "", "result": {}}', whole.replace("1.0", "2.0")):
        (tmp_path / "runs" / "a.json").write_text(damaged)
        assert store.get("a") is None
    nothing = RunStore(None)
    nothing.put("a", {})
    assert nothing.get("a") is None


def test_digest():
    rows = np.arange(6.0)
    keys = [digest(rows), digest(rows.astype(np.float32)), digest(rows.reshape(2, 3)),
            digest(rows + 1), digest(rows, 1), digest([1, None])]
    assert len(set(keys)) == len(keys)
    assert digest(rows, {"a": 1, "b": 2}) == digest(rows.copy(), {"b": 2, "a": 1})


def test_code_version():
    assert code_version() == code_version()
    assert code_version(("bitstep_lab.baselines",)) != code_version()
    assert code_version(("no_such_package",)) != code_version()


def test_names_are_unique():
    names = [contestant.name for contestant in (
        FLOAT, Pipeline(bits=1, encoding="nearest"), Pipeline(bits=8, encoding="nearest"),
        Pipeline(bits=8, encoding="nearest", refetch=True),
        Pipeline(bits=8, encoding="nearest", lookahead=0),
        Pipeline(bits=8, encoding="nearest", update_interval=4),
        Pipeline(bits=8, encoding="nearest", batch=16), Cpu(method="hogwild", threads=2),
        Cpu(method="hogwild"), Cpu(method="minibatch", batch=16), Sklearn())]
    assert names[:3] == ["float", "1 bit nearest", "8 bits nearest"]
    assert len(set(names)) == len(names)


def test_each_contestant_has_several_batches():
    """Where it can have them; those of a pipeline do not wait for each other."""
    four = Pipeline(bits=4, encoding="compensated")
    assert [one.name for one in with_batches(four, (1, 16, 64))] == [
        "4 bits compensated, batch 1", "4 bits compensated, without waiting, batch 16",
        "4 bits compensated, without waiting, batch 64"]
    assert [one.name for one in with_batches(Cpu(method="sgd"), (1, 16))] == [
        "CPU sgd, 1 thread", "CPU minibatch, 1 thread, batch 16"]
    assert [one.name for one in with_batches(Cpu(method="minibatch"), (1, 16))] == [
        "CPU minibatch, 1 thread, batch 1", "CPU minibatch, 1 thread, batch 16"]
    given = Pipeline(bits=4, encoding="compensated", update_interval=4, lookahead=2)
    assert [asdict(one)["update_interval"] for one in with_batches(given, (1, 16))] == [4, 4]
    untimed = Pipeline(bits=4, encoding="compensated", model_bits=4)
    assert [asdict(one)["update_interval"] for one in with_batches(untimed, (1, 16))] == \
        [None, None]
    for alone in (Sklearn(), Cpu(method="hogwild"), Cpu(method="lowprec"),
                  Pipeline(bits=4, encoding="nearest", refetch=True),
                  Pipeline(bits=4, encoding="compensated", batch=8)):
        assert with_batches(alone, (1, 16)) == [alone]
    assert with_batches(four, (16,)) == [four]


def test_best_batch_by_hand():
    """The first at the line; the line is that of float's best run."""
    slow, quick = (result(name, [2.0, 1.0], second, encoding="float")
                   for name, second in (("slow", 3.0), ("quick", 1.0)))
    late = result("late", [2.0, 2.0, 1.0], 0.1)
    never, near = result("never", [9.0, 3.0], 0.1), result("near", [2.5, 2.2], 0.1)
    lost = {"name": "lost", "kind": "pipeline", "status": "left the range"}
    wild = result("wild", [2.0, None], 0.1)
    found = best_runs([[slow, quick], [never, late], [never, near], [lost, never], [lost],
                       [wild, near]], 1.0)
    assert [one["name"] for one in found] == ["quick", "late", "near", "never", "lost", "near"]
    # Float ends at 2, so 2.02 is the line, and who gets there first is better than who ends lower.
    float_one, float_two = (result(name, losses, 1.0, encoding="float")
                            for name, losses in (("one", [3.0, 2.5]), ("two", [3.0, 2.0])))
    early, low = result("early", [2.01, 2.01], 1.0), result("low", [3.0, 1.5], 1.0)
    found = best_runs([[float_one, float_two], [low, early]], 1.0)
    assert [one["name"] for one in found] == ["two", "early"]


def test_optimal_levels_in_a_race():
    """Rows with tables, a pipeline that has them, and their bytes."""
    features = np.random.default_rng(1).standard_t(3, (50, 4))
    data = Dataset("tails", features, features.sum(axis=1), "regression")
    race = Race(RaceData("tails", data, "drawn", 50), "linreg", profile("paper"), ())
    entries = {levels: _Entry.of(Pipeline(bits=3, encoding="compensated", levels=levels),
                                 Task(race, np.full(2, 0.1), 1))
               for levels in ("uniform", "optimal")}
    rows = {levels: entry.outputs[0].rows for levels, entry in entries.items()}
    assert rows["uniform"].codebooks is None
    tables = rows["optimal"].codebooks
    assert tables is not None
    assert tables.shape == (4, 8)
    assert rows["optimal"].variance.sum() < 0.7 * rows["uniform"].variance.sum()
    assert [entry.config.codebooks for entry in entries.values()] == [False, True]
    moved = [_bytes_moved(entry.outputs) for entry in entries.values()]
    assert moved[1] - moved[0] == 4 * 8


def test_update_interval_of_a_race():
    """The contestant's choice is the pipeline's, whose look-ahead suits it."""
    data = Dataset("four", np.eye(4), np.arange(4.0), "regression")
    race = Race(RaceData("four", data, "drawn", 4), "linreg", profile("paper"), ())
    configs = [_Entry.of(Pipeline(bits=4, encoding="compensated", update_interval=cycles),
                         Task(race, np.full(2, 0.1), 1)).config for cycles in (None, 2, 4)]
    assert [config.update_interval for config in configs] == [2, 2, 4]
    assert [config.lookahead for config in configs] == [7, 7, 5]


def test_few_bits_in_a_race():
    """Losses of a model and updates of few bits, and no times: there is no such pipeline in RTL."""
    pytest.importorskip("numba", reason="the native device needs numba")
    features = np.random.default_rng(1).uniform(-1, 1, (60, 4))
    data = Dataset("plane", features, features.sum(axis=1), "regression")
    few = Pipeline(bits=8, encoding="compensated", model_bits=6, update_bits=7)
    assert few.name == "8 bits compensated, model 6 bits, update 7 bits"
    nearest = Pipeline(bits=3, encoding="nearest")
    assert sample_of([few, nearest]) is nearest
    assert sample_of([few]) is None
    race = run_race(Race(RaceData("plane", data, "drawn", 60), "linreg", profile("paper"), (few,),
                         epochs=6, batches=(8,), step=0.3, rtl=True))
    found, = race["results"]
    assert found["device"] == "cpu"
    assert found["status"] == "ok"
    assert found["losses"][-1] < 0.1 * found["losses"][0]
    assert found["cycles"] is found["seconds"] is found["gbps"] is None
    assert found["speedup"] == {"float": None, "cpu": None, "cpu_end_to_end": None}
    entry = _Entry.of(few, Task(Race(RaceData("plane", data, "drawn", 60), "linreg",
                                     profile("paper"), ()), np.full(2, 0.1), 8))
    assert (entry.training.model_bits, entry.training.update_bits) == (6, 7)
    assert finish({"status": "ok", "losses": [2.0, 1.0], "seconds": None}, 1.5) == {
        "epochs": 2, "seconds": None, "end_to_end": None}
    head, (row,) = result_table(race)
    told = dict(zip(head, row, strict=True))
    assert told["to line"] is told["an epoch"] is told["end to end"] is None
    assert "accuracy" not in told


def test_table_of_classes_fits_a_terminal():
    result = {"name": "8 bits double-symmetric", "status": "ok", "losses": [0.5, 0.123456789],
              "seconds": [1.234e-4, 2.468e-4], "accuracy": [0.9, 0.98765],
              "finish": {"optimum": {"epochs": 12, "seconds": 1.234e-4, "end_to_end": 0.0123456}},
              "speedup": {"float": 6.7981, "cpu": None}}
    text = text_table(*result_table({"results": [result], "line": "optimum", "epochs": 2}))
    assert max(map(len, text.splitlines())) <= 100
    assert text.splitlines()[-1].split() == [
        "8", "bits", "double-symmetric", "0.1235", "98.77%", "12", "123", "us", "123", "us", "6.8",
        "-", "12.3", "ms"]


def test_objective_of_a_race():
    dataset = Dataset("three", np.eye(3), np.array([4.0, 7.0, 9.0]), "classification")
    race = Race(RaceData("three", dataset, "test", 3), "ls-svm", PROFILES["paper"], (), l2=0.5)
    assert race.targets.tolist() == [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    weights = np.ones((1, 3, 3))
    # Every output gives 1: right for its own class, 2 off for the two others.
    assert race.objective(weights, np.zeros((1, 3)), weights).tolist() == \
        [pytest.approx(4 * 2 / 3 / 2 + 0.25 * 3)]


@pytest.mark.parametrize("quick", [True, False])
def test_experiments(quick):
    chosen = experiments(quick)
    keys = [experiment.key for experiment in chosen]
    assert len(set(keys)) == len(keys)
    figures = {"".join(filter(str.isdigit, part)) for experiment in chosen
               for part in experiment.figure.split(",")}
    assert figures >= {"4", "5", "6", "9", "10", "11", "12", *(() if quick else "78")}
    assert pipelines_of(chosen, rtl=True) == (5 if quick else 45)
    assert pipelines_of(chosen, rtl=False) == (1 if quick else 6)
    for experiment in chosen:
        names = [contestant.name for contestant in experiment.contestants]
        assert len(set(names)) == len(names)


def test_results_are_json():
    race = judged(result("float", [2.0, float("inf")], 1.0, encoding="float"))
    assert json.loads(json.dumps(race))["results"][0]["losses"] == [2.0, float("inf")]
