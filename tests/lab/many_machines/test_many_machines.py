"""Measurements of training over many machines."""

import argparse
import contextlib
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("sklearn")
pytest.importorskip("numba")

from bitstep.data.dataset import DataError
from bitstep_lab.many_machines import __main__ as lab
from bitstep_lab.many_machines import contestants, sets
from bitstep_lab.many_machines.boards import Setting, pass_seconds, speedups, step_seconds
from bitstep_lab.many_machines.clusters import local_cluster
from bitstep_lab.many_machines.sets import generated, optimum

SETTING = Setting("pynq-z2", 100_000, 20, 1.0)


@pytest.mark.slow
def test_optimum_by_shards(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lab", "optimum", "--sets", "digits", "--shards", "2"])
    lab.main()
    cells = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert cells[:3] == ["| digits", "1,797 x 61", "2"]
    assert abs(float(cells[6])) < 1e-3


@pytest.mark.slow
def test_optimum_of_generated_rows(capsys, monkeypatch):
    """And the certificate holds."""
    monkeypatch.setattr(sys, "argv", ["lab", "optimum", "--sets", "3000x5", "--shards", "2", "4"])
    lab.main()
    for line, shards in zip(capsys.readouterr().out.splitlines()[-2:], "24", strict=True):
        cells = line.rstrip(" |").split(" | ")
        assert cells[:3] == ["| generated", "3,000 x 5", shards]
        gap, above, apart = map(float, cells[5:])
        assert above <= gap < 1e-3
        assert apart < 1e-3


@pytest.mark.parametrize("classes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_contestants_go_to_the_optimum(classes):
    """And bytes between processes are those of few vectors, or of all rows."""
    with local_cluster(1) as client:
        rows = generated(4_000, 10, 2, classes=classes, correlation=0.5).persist()
        best = optimum(client, rows, classes=classes)
        ours = contestants.bitstep(client, rows, classes=classes)
        peer = contestants.scikit(client, rows, classes=classes)
        for run in (ours, peer):
            assert abs(best.excess(np.array(run.models))[-1]) < 1e-6
            assert len(run.models) == len(run.seconds)
        assert peer.bytes_between > 4_000 * 11 * 4
        pytest.importorskip("dask_glm")
        found = contestants.lbfgs(client, rows, classes=classes)
        assert abs(best.excess(np.array(found.models))[-1]) < 1e-6
        if not classes:
            found = contestants.admm(client, rows)
            assert best.excess(np.array(found.models))[-1] < 1e-2
            assert found.rounds == contestants.ADMM_ROUNDS


def test_time_of_boards():
    alone = pass_seconds("pynq-z2", 100_000, 20)
    assert pass_seconds("pynq-z2", 50_000, 20) == pytest.approx(alone / 2, rel=0.01)
    parts = step_seconds(SETTING, 8, 1)
    assert 3 * 4e-8 <= alone / 100_000 < 4 * 4e-8       # three passes of 4 cycles a row, or more
    assert parts["scheduler"] == pytest.approx(0.016)
    # 32 messages of 21 numbers of 64 bits and 2,000 bytes, and 0.2 ms to each side
    assert parts["network"] == pytest.approx(32 * 8 * (21 * 8 + 2000) / 1e9 + 4e-4)
    assert step_seconds(SETTING, 8, 10)["network"] == pytest.approx(0.4e-3 + 0.0555e-3, rel=1e-3)
    free: Any = Setting("pynq-z2", 100_000_000, 20, 0.0)
    assert speedups(free, [1, 4], 10) == pytest.approx([1, 4], rel=0.01)


# Sets

def test_drawn_rows():
    """Columns have variance 1 and the correlation of neighbours; labels have noise of 1."""
    rows = sets._drawn(0, 20_000, 3, False, 0.8).astype(np.float64)
    assert rows[:, :3].std(axis=0) == pytest.approx(np.ones(3), rel=0.03)
    assert np.corrcoef(rows[:, :3].T)[0] == pytest.approx([1, 0.8, 0.64], abs=0.03)
    _, left, *_ = np.linalg.lstsq(rows[:, :3], rows[:, 3], rcond=None)
    assert left[0] / 20_000 == pytest.approx(1, rel=0.03)
    classes = sets._drawn(0, 20_000, 3, True, 0.0)
    assert set(classes[:, 3]) == {0, 1}
    assert classes[:, 3].mean() == pytest.approx(0.5, abs=0.02)


def test_partitions_differ_and_are_the_same_in_this_process():
    drawn = generated(90, 3, 4).compute(scheduler="synchronous")
    features, labels = sets.generated_rows(90, 3, 4)
    np.testing.assert_array_equal(drawn, np.column_stack([features, labels]))
    assert len(np.unique(features[:, 0])) == 90


def test_named_rows_keep_their_labels(monkeypatch):
    """In standardized columns; one of a single value is left out."""
    first = np.arange(40.0)**2
    monkeypatch.setattr(sets, "load", lambda name, **options: SimpleNamespace(
        features=np.column_stack([first, np.ones(40), -first]), labels=5 + 3 * first))
    features, labels = sets.named_set("cadata", None)
    assert features.shape == (40, 2)
    assert features.std(axis=0) == pytest.approx([1, 1])
    assert (labels - labels.mean()) / labels.std() == pytest.approx(features[:, 0])
    assert features[:, 1] == pytest.approx(-features[:, 0])


@pytest.mark.parametrize("classes", [False, True])
def test_excess_is_of_the_mean_loss(classes, monkeypatch):
    blocks = [sets._drawn(number, 200, 3, classes, 0.5) for number in range(2)]
    rows: Any = np.concatenate(blocks)
    monkeypatch.setattr(sets, "_over", lambda client, rows, function: list(map(function, blocks)))
    best = optimum(None, rows, classes=classes)

    def loss(model):
        values = model[0] + rows[:, :3].astype(np.float64) @ model[1:]
        if classes:
            return np.mean(np.log1p(np.exp(-np.where(rows[:, 3] == 1, 1, -1) * values)))
        return np.mean((values - rows[:, 3])**2) / 2

    models = np.random.default_rng(0).normal(size=(20, 4))
    losses = np.array([loss(model) for model in models])
    assert (losses > best.least).all()
    assert best.excess(models) == pytest.approx(losses / best.least - 1)


# Tables

def cells_of(capsys):
    """Cells of the tables that were printed, their heads and rules included."""
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]


def test_row_of_the_race_by_hand(capsys):
    """The second run, with the first model within each goal."""
    runs = [contestants.Run("any", [9.0], [np.zeros(2)], 1, 1),
            contestants.Run("any", [1.0, 2.0, 3.0, 4.5], [np.zeros(2)] * 4, 7, 2_500_000)]
    best = SimpleNamespace(excess=lambda models: np.array([1.0, 5e-3, 5e-5, 2e-5]))
    lab._print_run(None, None, lambda client, rows: runs.pop(0), best)
    assert cells_of(capsys) == [
        ["any", "7", "2.50", "2.00 (2)", "3.00 (3)", "-", "4.50", "2e-05"]]


def test_bytes_are_those_of_a_run(monkeypatch):
    counts = iter([1000, 1700])
    monkeypatch.setattr(contestants, "bytes_between", lambda client: next(counts))
    assert contestants.measured(None, "any", lambda run, started: None).bytes_between == 700


def test_memory_by_hand(capsys, monkeypatch):
    """Rows are float32, 20 a row."""
    monkeypatch.setattr(lab.subprocess, "run", lambda *arguments, **options: SimpleNamespace(
        stdout="a warning\n[100.4, 120.6]\n"))
    monkeypatch.setattr(sys, "argv", ["lab", "memory", "--sizes", "4000000"])
    lab.main()
    assert cells_of(capsys)[-1] == ["4,000,000 x 20", "320", "100", "121"]


def test_times_of_an_outer_step_by_hand(monkeypatch):
    """Of 8 steps, by which two trainings differ; what both have counts no more."""
    asked, times = [], {"a": [1.0, 2.0, 6.0], "b": [1.0, 1.5, 3.1], "": [0.0, 0.1, 1.8]}
    monkeypatch.setattr(contestants, "bitstep",
                        lambda client, rows, *, classes, epochs: asked.append(epochs))
    client = SimpleNamespace(run=lambda function: {name: times[name][len(asked) - 1]
                                                   for name in ("a", "b")})
    monkeypatch.setattr(lab.time, "process_time", lambda: times[""][len(asked) - 1])
    assert lab.step_cpu_ms(client, None) == pytest.approx((375, 200))
    assert asked == [2, 2, 10]


def test_time_of_a_task_by_hand(monkeypatch):
    """The least mean of ten passes of 64 tasks."""
    looks = iter([seconds for turn in range(10)
                  for seconds in (100.0, 100 + (3.2 if turn == 4 else 6.4))])
    monkeypatch.setattr(lab, "Engine", lambda client: SimpleNamespace(
        submit=lambda name, function, futures: None))
    monkeypatch.setattr(lab, "wait", lambda futures: None)
    monkeypatch.setattr(lab.time, "process_time", lambda: next(looks))
    client = SimpleNamespace(map=lambda function, numbers, pure: list(numbers))
    assert lab.task_seconds(client) == pytest.approx(0.05)


def test_scale_by_hand(capsys, monkeypatch):
    """Four partitions have two tasks each; what workers do is shared by them in the model."""
    told = {1: (2e-3, (800.0, 200.0)), 2: (3e-3, (450.0, 250.0))}
    monkeypatch.setattr(lab, "COUNTS", (8,))
    monkeypatch.setattr(lab, "local_cluster", contextlib.nullcontext)
    monkeypatch.setattr(lab, "wait", lambda rows: None)
    monkeypatch.setattr(lab, "generated", lambda *shape: SimpleNamespace(persist=lambda: None))
    monkeypatch.setattr(lab, "task_seconds", lambda workers: told[workers][0])
    monkeypatch.setattr(lab, "step_cpu_ms", lambda workers, rows: told[workers][1])
    monkeypatch.setattr(sys, "argv", ["lab", "scale", "--parts", "4", "--points", "1", "2",
                                      "--shapes", "100000x20"])
    lab.main()
    _, _, one, two, _, _, eight = cells_of(capsys)
    assert one == ["1", "2.00", "800", "200", "1000", "816", "1.00"]
    assert two == ["2", "3.00", "450", "250", "700", "424", "1.43"]
    setting = Setting("pynq-z2", 100_000, 20, 2.5)
    assert (eight[0], *eight[2:5]) == ("8", "0.96", "0.46", "40.00")      # 16 tasks of 2.5 ms
    assert float(eight[1]) == pytest.approx(1e3 * pass_seconds("pynq-z2", 12_500, 20), abs=0.01)
    assert eight[5:] == [f"{speedups(setting, [8], gbps)[0]:.1f}" for gbps in (1, 10)]


def test_plot(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    from bitstep_lab.many_machines.boards import draw
    draw([SETTING], lab.COUNTS, tmp_path / "boards.png")
    assert (tmp_path / "boards.png").stat().st_size > 10_000


def test_data_that_are_missing(monkeypatch):
    def no_data(name, **_):
        raise DataError(f"{name}: the download failed")

    monkeypatch.setattr("bitstep_lab.many_machines.sets.load", no_data)
    monkeypatch.setattr(sys, "argv", ["lab", "optimum", "--sets", "cadata"])
    with pytest.raises(SystemExit, match=r"^error: cadata: the download failed$"):
        lab.main()


def test_a_board_that_is_none(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lab", "scale", "--board", "nothing"])
    with pytest.raises(SystemExit):
        lab.main()
    assert "--board: invalid choice: 'nothing'" in capsys.readouterr().err


def test_race_without_dask_ml(monkeypatch, capsys):
    """An error before the first training."""
    monkeypatch.setitem(sys.modules, "dask_glm", None)
    monkeypatch.setattr(sys, "argv", ["lab", "race"])
    with pytest.raises(SystemExit, match=r"^error: the race needs dask-ml .*: pip install dask-ml"):
        lab.main()
    assert capsys.readouterr().out == ""


def test_plot_that_cannot_be_written(monkeypatch, capsys, tmp_path):
    """An error before the first measurement."""
    monkeypatch.setattr(sys, "argv", ["lab", "scale", "--plot", f"{tmp_path}/none/boards.png"])
    with pytest.raises(SystemExit):
        lab.main()
    assert "--plot: " in (said := capsys.readouterr()).err
    assert "there is no folder" in said.err
    assert said.out == ""


def test_shapes():
    assert lab.shape_of("20x3") == (20, 3)
    for text in ("20", "abc", "20x", "5x0", "2x2x2", "-5x3"):
        with pytest.raises(argparse.ArgumentTypeError, match="must be such as 20000x20"):
            lab.shape_of(text)
    assert lab.set_of("20x3") == (20, 3)
    with pytest.raises(argparse.ArgumentTypeError, match="must be one of cadata, cpusmall"):
        lab.set_of("mnist")


@pytest.mark.parametrize("words", [["optimum", "--workers"], ["optimum", "--shards"],
                                   ["race", "--parts"], ["memory", "--sizes"],
                                   ["scale", "--points"]])
def test_counts_are_of_something(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "argv", ["lab", *words, "0"])
    with pytest.raises(SystemExit):
        lab.main()
    assert f"{words[-1]}: must be an integer of at least 1, not '0'" in capsys.readouterr().err
