"""Measurements of training over many machines."""

import argparse
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("sklearn")
pytest.importorskip("numba")

from bitstep.data.dataset import DataError
from bitstep_lab.many_machines import __main__ as lab
from bitstep_lab.many_machines import contestants
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
    assert parts["scheduler"] == pytest.approx(0.016)
    assert parts["network"] > step_seconds(SETTING, 8, 10)["network"]
    free: Any = Setting("pynq-z2", 100_000_000, 20, 0.0)
    assert speedups(free, [1, 4], 10) == pytest.approx([1, 4], rel=0.01)


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
