"""Reports of cycles: what a row takes, and options that are not there."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.host.command_line import unquoted

from bitstep.cycles import Memory
from bitstep.data import DataError, load
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.quantization import quantize
from bitstep_sim.netlists import xc7
from bitstep_sim.reports import (
    area,
    batches,
    bit_planes,
    encodings,
    losses,
    models,
    native,
    packed,
    passes,
    pipelines,
    problems,
    refetching,
    rounding,
    speed,
)


@pytest.mark.parametrize(("row_format", "bits", "planes", "cycles"), [
    (BIT_PLANES, 16, 4, 4), (BIT_PLANES, 16, 16, 16), ("one_level", 1, 0, 2),
    ("one_level", 8, 0, 8)])
def test_cycles_of_a_row_of_64_features(row_format, bits, planes, cycles):
    config = PipelineConfig(row_format=row_format, bits=bits).with_lookahead()
    assert bit_planes.row_cycles(config, 64, 1_000, planes)[0] == cycles


def test_losses_by_rows_between_proximal_steps(monkeypatch, capsys):
    """Those of the page; the other columns take longer."""
    monkeypatch.setattr(losses, "PERIODS", (16,))
    monkeypatch.setattr(losses, "SHRUNK", losses.SHRUNK[:2])
    losses.periods(None)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()
            if line.startswith("| hinge")]
    page = (Path(__file__).parents[3] / "docs/results/losses.md").read_text("utf-8")
    assert len(rows) == 2
    for name, value in rows:
        told = next(line for line in page.splitlines() if line.startswith(name))
        assert told.split(" | ")[3] == value.removesuffix(" |")


@pytest.mark.parametrize("report", [bit_planes, models, packed, passes])
@pytest.mark.parametrize("option", ["--help", "--nonsense"])
def test_options(report, option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", option])
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert ended.value.code == (0 if option == "--help" else 2)
    printed = capsys.readouterr()
    assert "usage: " in (printed.out if option == "--help" else printed.err)


@pytest.mark.parametrize(("report", "words", "message"), [
    (area, "bits=9", "bits must be an integer from 1 to 8, not 9"),
    (area, "bit=4", "'bit' is no field of a configuration"),
    (area, "bits=4,models=9", "models must be an integer from 1 to 8, not 9"),
    (area, "packed=True,max_features=65,lookahead=0", "on a bus of 64 must have 1 to 16 features"),
    (area, "--board zcu102", "--board: invalid choice: 'zcu102'"),
    (area, "--jobs 0", "--jobs: must be an integer of at least 1, not '0'"),
    (area, "row_format=float32", "bits of row format 'float32' must be one of 32, not "),
    (area, "--options", "Options are of one CONFIG, not of 0; give one, such as bits=4"),
    (area, "--options bits=4 bits=2", "Options are of one CONFIG, not of 2"),
    (batches, "--bits 0", "--bits: must be an integer from 1 to 8, not '0'"),
    (batches, "--bus-width 100", "--bus-width: invalid choice: 100"),
    (batches, "--features 4097", "--features: must be an integer from 1 to 4096, not '4097'"),
    (bit_planes, "--bus-width 100", "--bus-width: invalid choice: 100"),
    (bit_planes, "--rows 0", "--rows: must be an integer of at least 1, not '0'"),
    (encodings, "double optimal", "levels='optimal' needs one of the encodings"),
    (native, "--shrink 0", "--shrink: must be an integer from 1 to 100000, not '0'"),
    (pipelines, "--bits 9", "--bits: must be an integer from 1 to 8, not '9'"),
    (pipelines, "--bus-width 63", "--bus-width: invalid choice: 63"),
    (pipelines, "--features 0", "--features: must be an integer from 1 to 4096, not '0'"),
    (pipelines, "--rows 0", "--rows: must be an integer of at least 1, not '0'"),
    (refetching, "--bits 0", "--bits: must be an integer from 1 to 8, not '0'"),
    (refetching, "--epochs 1", "--epochs: must be an integer of at least 2, not '1'"),
    (refetching, "--features 0", "--features: must be an integer from 1 to 4096, not '0'"),
    (refetching, "--rows 1", "--rows: must be an integer of at least 2, not '1'"),
    (rounding, "--batch 0", "--batch: must be an integer from 1 to 2**32 - 1, not '0'"),
    (rounding, "--model-range nan", "--model-range: must be a number above 0, not 'nan'"),
    (speed, "cycles --bits 9", "--bits: must be an integer from 1 to 8, not '9'"),
    (speed, "cycles --bus-width 100", "--bus-width: invalid choice: 100")])
def test_values_of_options(report, words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", *words.split()])
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert ended.value.code == 2
    assert message in unquoted(capsys.readouterr().err)


@pytest.mark.parametrize(("report", "words"), [
    (encodings, ["--sets", "no such set"]), (losses, ["float", "--data-home", "nowhere"])])
def test_data_that_are_missing(report, words, monkeypatch):
    def no_data(name, **_):
        raise DataError(f"{name}: there is no such file")

    monkeypatch.setattr(report, "load", no_data)
    monkeypatch.setattr(sys, "argv", ["report", *words])
    with pytest.raises(SystemExit, match=r"^error: .*: there is no such file$"):
        report.main()


def test_area_without_yosys(monkeypatch, capsys):
    """It says so before it begins."""
    monkeypatch.setattr(xc7, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["report", "bits=1"])
    with pytest.raises(SystemExit, match=r"^error: Yosys was not found"):
        area.main()
    assert capsys.readouterr().out == ""


def test_names_of_cases(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", "classes-5"])
    with pytest.raises(SystemExit):
        models.main()
    assert "must be one of classes-4, classes-1, " in capsys.readouterr().err


def test_full_passes_beside_a_sum(monkeypatch, capsys):
    """By a clock on which every pass of 80,000 bytes takes 10 us, and twice as much of CPUs."""
    wall, cpu = itertools.count(0, 1e-5), itertools.count(0, 2e-5)
    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: next(wall),
                                                       process_time=lambda: next(cpu)))
    asked = []
    monkeypatch.setattr(speed, "memory_read_ceiling", lambda n_bytes, **options: asked.append(
        (n_bytes, *options)) or (16.0 if "cpu_time" in options else 20.0))
    monkeypatch.setattr(speed, "PASS_SHAPES", ((4_000, 10),))
    speed.passes()
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in capsys.readouterr().out.splitlines() if "4,000 x 10" in line]
    assert rows == [[loss, "4,000 x 10", "8.0", "20.0", "0.40", "4.0", "16.0", "0.25"]
                    for loss in ("squared_error", "log_loss")]
    assert asked == [(80_000, "threads"), (80_000, "cpu_time")]


# What the tables are made of, by hand

@pytest.mark.parametrize(("l1", "box"), [(0.0, np.inf), (0.2, np.inf), (0.0, 0.3), (0.1, 0.4)])
def test_optimum_of_a_penalty_and_a_box(l1, box):
    """The slope of the squares is that of the penalty where a weight is free, and holds it where it
    is not.
    """
    rng = np.random.default_rng(0)
    rows, noise = rng.uniform(-1, 1, (200, 6)), rng.normal(size=200)
    targets = rows @ [2.0, -1.0, 0.3, 0.0, 0.05, -0.5] + 3 + 0.2 * noise
    weights, intercept = losses.optimum(rows, targets, l1=l1, box=box)
    residuals = rows @ weights + intercept - targets
    slope = rows.T @ residuals / len(rows)
    assert residuals.mean() == pytest.approx(0, abs=1e-9)
    assert np.abs(weights).max() <= box
    for weight, one in zip(weights, slope, strict=True):
        if weight == 0:
            assert abs(one) <= l1 + 1e-9
        elif abs(weight) < box:
            assert one == pytest.approx(-l1 * np.sign(weight), abs=1e-9)
        else:
            assert one * np.sign(weight) <= -l1 + 1e-9
    assert (weights == 0).any() == (l1 > 0)
    assert (np.abs(weights) == box).any() == np.isfinite(box)


def test_two_classes_of_the_refetching_report():
    """Columns by their deviations, as scaling finds them; a plane is found by least squares of many
    rows, whose direction is that of the drawn one.
    """
    def distances(noise, gap):
        drawn = problems.two_classes(n_rows=20_000, noise=noise, gap=gap, seed=3)
        rows = drawn.features / drawn.features.std(axis=0)
        normal = np.linalg.lstsq(rows, drawn.labels, rcond=None)[0]
        return drawn.labels * (rows @ normal) / np.linalg.norm(normal)

    assert (distances(0.0, 0.0) > -0.05).all()
    assert distances(0.0, 1.0).min() > 0.5
    # The sign of a normal number is that of its sum with another one but for this share.
    assert (distances(0.5, 0.0) < 0).mean() == pytest.approx(np.arctan(0.5) / np.pi, abs=0.01)


def test_share_of_a_beat_that_holds_codes():
    """8 features of 4 bits are 32 bits of 512: one row takes a sixteenth."""
    assert packed.shares()[0][:5] == ("8", "4", "6.2%", "16", "100.0%")
    assert packed.shares()[2][:5] == ("13", "4", "10.2%", "9", "91.4%")


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (8, [8]), (9, [5, 4]), (16, [8, 8])])
def test_passes_beside_packed_rows_are_as_few_as_there_can_be(monkeypatch, count, sizes):
    found = []
    monkeypatch.setattr(packed, "epoch_cycles",
                        lambda jobs, config: found.append((len(jobs), config.models)) or 10)
    assert packed.beside([None] * count) == 10 * len(sizes)         # type: ignore[list-item]
    assert found == [(size, sizes[0]) for size in sizes]


def test_cycles_of_an_epoch_are_those_of_the_last_one(monkeypatch):
    monkeypatch.setattr(packed, "count_epochs", lambda *_, **__: ({}, [100, 350, 600]))
    jobs: Any = [None]
    assert packed.epoch_cycles(jobs, PipelineConfig()) == 250


def test_labels_of_models_that_share_passes():
    config = PipelineConfig()
    for case, different in ((passes.SWEEP, 1), (passes.TARGETS, 8)):
        small = replace(case, shape=(40, 8))
        found = passes.jobs_of(small, config)
        assert len(found) == 8
        assert len({job.labels.tobytes() for job in found}) == different


@pytest.mark.parametrize(("models_a_pass", "sizes"), [(1, [1] * 10), (3, [2, 3, 2, 3]),
                                                      (4, [3, 3, 4]), (8, [5, 5])])
def test_sizes_of_passes_differ_by_one_at_most(monkeypatch, models_a_pass, sizes):
    found = []

    def count(first, memory, config, others):
        assert config.models == models_a_pass
        found.append(1 + len(others))
        return {"cycles": 7}, []

    jobs = passes.jobs_of(replace(passes.CLASSES, shape=(20, 8)), PipelineConfig())
    monkeypatch.setattr(passes, "count_epochs", count)
    assert passes.cycles_of(jobs, models_a_pass, Memory()) == (len(sizes), 7 * len(sizes))
    assert found == sizes


def test_pipelines_that_are_measured():
    found = list(pipelines.configurations(["one_level", "two_levels", "fast", "float32"], [64],
                                          [1, 3, 4]))
    assert [(kind, config.bits) for kind, config in found] == [
        ("one_level", 1), ("one_level", 3), ("one_level", 4), ("two_levels", 3), ("two_levels", 4),
        ("fast", 1), ("fast", 4), ("float32", 32)]
    for _, config in found:
        for n_features in (1, 100, 4096):
            beats = config.rows.beats(n_features)
            assert config.ahead.of_rows(beats) >= config.stages.required_lookahead(beats)


def test_share_of_the_bound_of_a_pipeline(monkeypatch, capsys):
    """Rows of one beat enter every second cycle, and those of ten beats every tenth."""
    class Device:
        def __init__(self, config, memory_latency):
            assert memory_latency == 1

        def train(self, job, timeout_s):
            cycles = 2 * 100 * max(job.beats, 2)            # of two epochs of 100 rows
            return SimpleNamespace(counters={"cycles": cycles})

        def close(self):
            pass

    monkeypatch.setattr(pipelines, "SimDevice", Device)
    pipelines.measure("one_level", PipelineConfig(bits=8).with_lookahead(), [8, 80], 100)
    cells = capsys.readouterr().out.strip(" |\n").split(" | ")
    assert cells[6:9] == ["2.000", "0.500", "200"]
    assert cells[10:13] == ["10.000", "1.000", "1,000"]
    assert cells[-1] == f"{1 / 1.02:.3f}"


def test_rows_that_are_enough_to_measure_speed():
    config = PipelineConfig(bits=4)
    assert speed.rows_for(config, 8) == 50_000          # two cycles an update
    assert speed.rows_for(config, 90) == 16_666         # six beats
    assert speed.rows_for(config, 4096) == 2_000


def test_last_epoch_of_refetching_by_itself():
    """It begins with the model of the one before, and ends with the same one."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 5))
    data = quantize(features, np.sign(features[:, 0] + 0.3 * rng.normal(size=80)), bits=3,
                    encoding="nearest", fine_rows=True, task="classification")
    device: Any = GoldenDevice(PipelineConfig(bits=3, refetch=True, lookahead=0))
    whole = refetching.train_on(device, data, np.array([0.5, 0.25, 0.1]))
    last = refetching.train_on(device, data, np.array([0.5, 0.25, 0.1]), last_after=whole)
    assert last.visits == 80
    np.testing.assert_array_equal(last.weights, whole.weights[-1:])
    np.testing.assert_array_equal(last.intercepts, whole.intercepts[-1:])
    assert np.abs(whole.weights[-1] - whole.weights[-2]).max() > 0
    values, scaled = refetching.fine_values(data), data.scaler.transform(features)
    assert np.abs(values - scaled).max() < 2.0 ** -13


def test_float_hinge_of_several_versions_of_the_rows():
    """Row after row: those inside the margin of 1 move the model."""
    rng = np.random.default_rng(0)
    rows, signs = rng.uniform(-1, 1, (30, 2, 3)), rng.choice([-1.0, 1.0], 30)
    steps = np.array([[0.5, 0.2], [0.3, 0.1]])
    weights, intercepts = refetching.float_models(rows, signs, steps)
    for version in range(2):
        model, intercept = np.zeros(3), 0.0
        for step in steps[version]:
            for row, sign in zip(rows[:, version], signs, strict=True):
                if sign * (row @ model + intercept) < 1:
                    model, intercept = model + step * sign * row, intercept + step * sign
        assert weights[version] == pytest.approx(model)
        assert intercepts[version] == pytest.approx(intercept)


def test_codes_of_eight_bits_beside_least_squares_and_float_sgd():
    pytest.importorskip("sklearn")
    first, second, third = encodings._rows(load("diabetes"), "nearest", "uniform", range(8, 9))
    assert 1 <= float(first[3]) < 1.1
    assert float(second[3]) == pytest.approx(1, abs=0.01)
    assert 0.45 < float(third[3]) < 0.52        # of least squares .518


@pytest.mark.parametrize(("goal", "epochs"), [(1e9, 1), (0.0, models.EPOCHS)])
def test_epochs_until_float_sgd_is_as_close(goal, epochs):
    pytest.importorskip("numba")
    features = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    targets = features @ np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 1.0]])
    case = models.Case("", "", 1, features, targets, [], [np.full(models.EPOCHS, 0.1)] * 2)
    assert models._float_sgd(case, goal)[1] == epochs
