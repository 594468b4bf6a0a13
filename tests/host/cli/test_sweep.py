"""``bitstep train --sweep``: candidates on the same rows, a table, and the best model."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import train

from bitstep.cli import main
from bitstep.cli import sweep as comparing
from bitstep.training.files.model_file import load_model


def sweep(*arguments, device="golden"):
    return main(["train", *map(str, arguments), "--device", device, "--epochs", "3"])


@pytest.mark.parametrize("device", ["golden", "cpu"])
@pytest.mark.parametrize("source, rows", [(0, 45), (0, 60), (2, 45)])
def test_best_model_is_the_one_trained_alone(numbers, tmp_path, capsys, device, source, rows):
    """With and without test rows; a regression and three classes."""
    data = [numbers[source], "--train-rows", rows, "--model", "ls-svm" if source else "linreg"]
    assert sweep(*data, "--sweep", "step=0.002,0.05,auto", "--sweep", "l2=0,0.1", "--out",
                 tmp_path / "best.npz", "--report", tmp_path / "best.json", device=device) == 0
    text = capsys.readouterr().out
    report = json.loads((tmp_path / "best.json").read_text())
    entries = report["sweep"]
    assert [entry["parameters"] for entry in entries] == [
        {"step": step, "l2": l2} for step in (0.002, 0.05, "auto") for l2 in (0, 0.1)]
    accuracy = rows < 60 and source == 2
    measure = [entry["test_metric" if rows < 60 else "train_loss"] for entry in entries]
    best = int(np.argmax(measure) if accuracy else np.argmin(measure))
    chosen = entries[best]["parameters"]
    assert f"--step {chosen['step']} --l2 {chosen['l2']:g}\n" in text
    assert ("no penalty can lower" in text) == (rows == 60)
    assert len([line for line in text.splitlines() if line.endswith("  best")]) == 1
    beats = 0
    for number, entry in enumerate(entries):
        options = [f"--{name}={value}" for name, value in entry["parameters"].items()]
        alone = tmp_path / "alone.json"
        assert train(*data, *options, "--epochs", 3, "--out", tmp_path / "alone.npz",
                     "--report", alone) == 0
        found = json.loads(alone.read_text())
        last = found["history"][-1]
        beats += found["counters"]["beats"]
        for measured in ("train_loss", "test_metric"):
            assert entry[measured] == (last[measured] and pytest.approx(last[measured], rel=1e-12))
        if number == best:
            assert report["coef"] == found["coef"]
            assert report["history"] == found["history"]
            own, other = (load_model(tmp_path / name) for name in ("best.npz", "alone.npz"))
            assert np.array_equal(own.coef, other.coef)
            assert own.config == other.config
    assert report["counters"]["beats"] == beats         # of all candidates


def test_candidates_with_and_without_l1(numbers, tmp_path):
    """The pipeline has proximal steps for all of them."""
    assert sweep(numbers[0], "--sweep", "l1=0,0.1", "--report", tmp_path / "run.json") == 0
    assert json.loads((tmp_path / "run.json").read_text())["config"]["pipeline"]["proximal"]


def test_candidates_have_as_few_epochs_as_any_of_them(numbers, tmp_path):
    """A step that is given has 20 of its own; an automatic one would have 1,000 for so few rows."""
    assert train(numbers[0], "--solver", "sgd", "--sweep", "step=auto,0.05", "--report",
                 tmp_path / "run.json") == 0
    assert len(json.loads((tmp_path / "run.json").read_text())["history"]) == 20


def test_bits_of_model_and_updates(numbers, tmp_path, capsys):
    assert sweep(numbers[0], "--sweep", "model-bits=0,4", "--sweep", "update-bits=0,3",
                 "--report", tmp_path / "run.json", device="cpu") == 0
    entries = json.loads((tmp_path / "run.json").read_text())["sweep"]
    assert [entry["parameters"] for entry in entries] == [
        {"model-bits": few, "update-bits": bits} for few in (0, 4) for bits in (0, 3)]
    assert len({entry["train_loss"] for entry in entries}) == 4
    for entry in entries:
        options = [f"--{name}={value}" for name, value in entry["parameters"].items()]
        assert train(numbers[0], *options, "--epochs", 3, "--device", "cpu",
                     "--report", tmp_path / "alone.json") == 0
        last = json.loads((tmp_path / "alone.json").read_text())["history"][-1]
        assert entry["train_loss"] == pytest.approx(last["train_loss"], rel=1e-12)
    capsys.readouterr()
    # The simulated board of this pipeline is that of tests/sim/board/test_command_line.py.
    assert sweep(numbers[0], "--sweep", "model-bits=0,4", device="sim") == 1
    assert "has a model of all bits, and a job asks for 4 bits" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        sweep(numbers[0], "--sweep", "model-bits=1,4")
    assert "must be an integer from 2 to 16, or 0 for all, not '1'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        sweep(numbers[0], "--sweep", "model-bits=4,8", "--model-bits", 6)
    assert "--model-bits does not go together with --sweep" in capsys.readouterr().err


@pytest.mark.parametrize("device", [
    "golden", pytest.param("sim", marks=pytest.mark.slow)])     # a board of its own
def test_candidates_with_few_bits_share_a_pipeline(numbers, tmp_path, device):
    """One pipeline, the widest, and the same candidates on every device."""
    for name in (device, "cpu"):
        assert sweep(numbers[0], "--sweep", "model-bits=3,5", "--sweep", "update-bits=0,4",
                     "--report", tmp_path / f"{name}.json", device=name) == 0
    found, on_cpu = (json.loads((tmp_path / f"{name}.json").read_text())
                     for name in (device, "cpu"))
    assert found["sweep"] == on_cpu["sweep"]
    pipeline = found["config"]["pipeline"]
    assert (pipeline["model_bits"], pipeline["rounded_updates"]) == (5, True)


def test_candidates_that_leave_their_range(numbers, capsys):
    assert sweep(numbers[0], "--sweep", "step=900,0.01") == 0
    out = capsys.readouterr().out
    assert "left the range in epoch 1" in out
    assert "by the training loss: --step 0.01" in out
    assert sweep(numbers[0], "--sweep", "step=900,800") == 1
    assert "All 2 candidates left the range of a number. The first one: Training left" \
        in capsys.readouterr().err


@pytest.mark.parametrize("options, message", [
    (["--sweep", "bits=3,4"], "must be one of step, l2, l1, box"),
    (["--sweep", "step"], "must be a number above 0"),
    (["--sweep", "step=1,-1"], "must be a number above 0, or auto, not '-1'"),
    (["--sweep", "l2=1,1.0"], "must have each value once"),
    (["--sweep", "l2=1", "--sweep", "l2=2"], "--sweep l2 was given twice"),
    (["--sweep", "step=1", "--step", "2"], "--step does not go together with --sweep step"),
    (["--sweep", "step=1", "--schedule", "steps.txt"], "--step 1 does not go together with --sch")])
def test_options_that_do_not_go_together(numbers, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.txt").write_text("0.1\n0.1\n0.1\n")
    try:
        code = sweep(numbers[0], *options)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_interrupt(numbers, tmp_path, monkeypatch, capsys):
    """After an epoch of all the best is written; before that nothing is."""
    from bitstep.devices.golden import GoldenDevice
    real = GoldenDevice.epochs

    def epochs(device, job):
        runs.append(job)
        for epoch in real(device, job):
            yield epoch
            if len(runs) == kept:
                raise KeyboardInterrupt
    monkeypatch.setattr(GoldenDevice, "epochs", epochs)
    for kept in (1, 2):
        runs: list[Any] = []
        assert sweep(numbers[0], "--sweep", "step=0.01,0.02", "--out", tmp_path / "m.npz") == 130
        assert (tmp_path / "m.npz").exists() == (kept == 2)
        assert ("every candidate had an epoch" in capsys.readouterr().err) == (kept == 1)


@pytest.mark.parametrize("losses, best", [
    ([np.nan, 2.0, 1.0], 2), ([np.inf, 2.0, 3.0], 1), ([3.0, np.nan, -np.inf], 0)])
def test_a_loss_that_is_no_number_is_not_the_least(monkeypatch, losses, best):
    values = [0.0, 1.0, 2.0]
    monkeypatch.setattr(comparing, "request_of", lambda arguments: None)
    monkeypatch.setattr(comparing, "candidates", lambda request: [{"l2": l2} for l2 in values])
    monkeypatch.setattr(comparing, "_last_epoch", lambda model: model)
    problem = SimpleNamespace(test_set=None, task="regression", history=lambda model: [
        {"train_loss": model.loss, "train_accuracy": None, "test_metric": None}])
    arguments, requests, found = (
        SimpleNamespace(sweep=[("l2", values)]), [SimpleNamespace(problem=problem)] * 3,
        [SimpleNamespace(loss=loss, model_range=1.0) for loss in losses])
    compared = comparing.compare(arguments, requests, found)        # type: ignore[arg-type]
    assert compared is not None
    assert compared.best == best
