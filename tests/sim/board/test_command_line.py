"""The command line on the simulated board: where a user meets buses, ranges and Ctrl-C."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from simulated import TestedDevice

from bitstep.cli import main
from bitstep.data import load
from bitstep.training.files.checkpoint import load_checkpoint
from bitstep.training.files.model_file import load_model
from bitstep_sim.board.device import SimDevice

pytest.importorskip("sklearn")


def train(*arguments, device="sim"):
    return main(["train", "diabetes", "--device", device, *map(str, arguments)])


def report_of(path):
    return json.loads(path.read_text())


def test_report_is_that_of_golden_and_has_cycles(tmp_path, capsys):
    reports = {}
    for device in ("sim", "golden"):
        assert train("--epochs", 4, "--train-rows", 342, "--report", tmp_path / device,
                     device=device) == 0
        reports[device] = report_of(tmp_path / device)
    for key in ("coef", "intercept", "history", "dataset", "config"):
        assert reports["sim"][key] == reports["golden"][key]
    counters = reports["sim"]["counters"]
    assert counters["beats"] == 4 * 342
    assert 0 < counters["cycles"] <= 4 * (342 * 4 * 1.02 + 2000)
    assert reports["sim"]["device_seconds"] == counters["cycles"] / 100e6
    assert "cycles at 100 MHz) for 1,368 beats of rows" in capsys.readouterr().out


def test_checkpoints_cost_no_cycles(tmp_path):
    """The host copies models while the pipeline goes on."""
    plain, kept = tmp_path / "plain.json", tmp_path / "kept.json"
    assert train("--epochs", 4, "--report", plain) == 0
    assert train("--epochs", 4, "--report", kept, "--checkpoint", tmp_path / "run.ckpt") == 0
    for key in ("counters", "history", "coef"):
        assert report_of(kept)[key] == report_of(plain)[key]
    words = load_checkpoint(tmp_path / "run.ckpt").results[0]
    assert train("--epochs", 4, "--checkpoint", tmp_path / "golden.ckpt", device="golden") == 0
    golden = load_checkpoint(tmp_path / "golden.ckpt").results[0]
    assert words.models.tolist() == golden.models.tolist()
    assert words.intercepts.tolist() == golden.intercepts.tolist()


@pytest.mark.parametrize("options, line", [
    pytest.param(["--model", "svm", "--bits", 5], "were read again with 16 bits a value",
                 marks=pytest.mark.slow),
    pytest.param(["--model", "logistic"], "Loss: 1/K sum of log(1 + exp(-y f(x)))",
                 marks=pytest.mark.slow),
    pytest.param(["--model", "ls-svm", "--bits", 32], "32 bits float, device sim",
                 marks=pytest.mark.slow)],
    ids=["svm with refetching", "logistic", "32 bits"])
def test_every_loss_is_that_of_golden(tmp_path, capsys, options, line):
    reports = {}
    for device in ("sim", "golden"):
        assert main(["train", "breast_cancer", "--device", device, "--epochs", "3", "--train-rows",
                     "400", "--report", str(tmp_path / device), *map(str, options)]) == 0
        reports[device] = report_of(tmp_path / device)
        shown = capsys.readouterr().out.replace("device golden", "device sim")
        assert line in shown
    for key in ("coef", "intercept", "history", "dataset", "config"):
        assert reports["sim"][key] == reports["golden"][key]
    counters, expected = (reports[device]["counters"] for device in ("sim", "golden"))
    assert counters["refetched_rows"] == expected["refetched_rows"]
    assert counters["beats"] == expected["beats"]
    if "svm" in options:
        assert 0 < counters["refetched_rows"] < 1200
        assert counters["stall_cycles"]["refetch"] > 0


def test_rows_fetched_again_by_runs_that_left_their_range(capsys):
    """Of these the number is known, but not of how many rows."""
    assert main(["train", "breast_cancer", "--model", "svm", "--bits", "3", "--step", "50",
                 "--epochs", "2", "--device", "sim"]) == 0
    assert re.search(r"\nRefetching: \d+ rows were read again with 16 bits a value, those of runs "
                     "that left their range among them\\.\n", capsys.readouterr().out)


@pytest.mark.slow
def test_estimators_of_every_loss():
    """Refetching of several classes, and logistic regression with L1 and a box."""
    from sklearn.datasets import load_digits

    from bitstep import LowPrecisionClassifier
    features, labels = load_digits(return_X_y=True)
    for parameters in ({"loss": "hinge"}, {"loss": "log_loss", "l1": 1e-3, "box": 3.0}):
        sim, golden = (
            LowPrecisionClassifier(random_state=0, epochs=1, device=device).set_params(
                **parameters).fit(features[:300], labels[:300]) for device in ("sim", "golden"))
        assert sim.coef_.tolist() == golden.coef_.tolist()
        assert sim.intercept_.tolist() == golden.intercept_.tolist()


def test_memory_options_change_time_only(tmp_path):
    options = {"fast": ["--memory-latency", 1], "slow": ["--memory-latency", 90, "--memory-gbps",
                                                        0.1, "--clock-mhz", 50]}
    found = {}
    for name, given in options.items():
        assert train("--epochs", 2, "--report", tmp_path / name, *given) == 0
        found[name] = report_of(tmp_path / name)
    assert found["slow"]["coef"] == found["fast"]["coef"]
    assert found["slow"]["clock_hz"] == 50e6
    assert found["slow"]["counters"]["cycles"] > 1.5 * found["fast"]["counters"]["cycles"]


def test_step_that_overflows(tmp_path, capsys):
    """The same message as from golden, up to what else left its range in that epoch."""
    for device in ("sim", "golden"):
        out = tmp_path / "model.npz"
        assert train("--step", 0.9, "--out", out, device=device) == 1
        error = capsys.readouterr().err
        assert error.startswith("bitstep train: error: Training left the number range in epoch 1: ")
        assert "a weight or the intercept" in error
        assert error.endswith("(the first step was 0.9, try --step 0.23 or --step auto)\n")
        assert not out.exists()


@pytest.mark.parametrize("buffer, message", [
    ("ROWS", "answered a read of the rows with an error in epoch "),
    ("LABELS", "answered a read of labels, epoch table, initial model or coefficients with an err"),
    ("MODEL_OUT", "answered the write of the model with an error in epoch ")])
def test_bus_error_in_mid_run(tmp_path, monkeypatch, capsys, buffer, message):
    """From some cycle on, after several epochs, the memory answers with errors."""
    def open_device(name, config, few_bits, **options):
        assert not few_bits
        sim = SimDevice(config, **options)

        def break_memory():
            low, high = (tested.written[f"{buffer}_ADDRESS_{part}"] for part in ("LO", "HI"))
            sim.board.set_broken([(low | high << 32, 1 << 16)])

        tested = TestedDevice(sim, during=break_memory, cycles=5000)
        return tested

    monkeypatch.setattr("bitstep.cli.train.open_device", open_device)
    out = tmp_path / "model.npz"
    assert train("--solver", "sgd", "--epochs", 20, "--out", out) == 1
    error = capsys.readouterr().err
    assert error.startswith("bitstep train: error: The memory ")
    assert message in error
    assert error.count("\n") == 1
    epoch = int(error.partition(" in epoch ")[2].split()[0])
    assert 4 <= epoch <= 8
    assert " of 20: check that the device may write" in error if buffer == "MODEL_OUT" else \
        " of 20: check the device's memory map" in error
    assert not out.exists()


def test_ctrl_c(tmp_path):
    """The model is that of the last finished epoch, as golden has it."""
    out, report, other = (tmp_path / name for name in ("model.npz", "run.json", "golden.json"))
    # A file is read without scikit-learn, which takes a second to import.
    data = load("diabetes")
    path = tmp_path / "diabetes.npz"
    np.savez(path, X=data.features, y=data.labels)
    # Its steps do not depend on how many epochs were asked for.
    schedule = ["--solver", "sgd", "--schedule", "inverse"]
    assert train(*schedule, "--epochs", 1) == 0     # is compiled now
    program = (
        "import os, signal, sys, bitstep.cli, bitstep.cli.progress as progress\n"
        # A shell's background jobs ignore the signal, and so would this process.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "call = progress.CommandWatch.__call__\n"
        "def interrupt(watch, done):\n"
        "    call(watch, done)\n"
        "    if done >= 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "progress.CommandWatch.__call__ = interrupt\n"
        "sys.exit(bitstep.cli.main(sys.argv[1:]))\n")
    run = subprocess.run(
        [sys.executable, "-c", program, "train", str(path), "--device", "sim", "--quiet", *schedule,
         "--epochs", "5000", "--out", str(out), "--report", str(report)],
        capture_output=True, text=True, timeout=120)
    assert run.returncode == 130, run.stderr
    found = report_of(report)
    epochs = len(found["history"])
    assert 3 <= epochs < 5000
    assert run.stderr == \
        f"bitstep train: interrupted; the model is that of epoch {epochs} of 5000\n"
    assert load_model(out).coef[0].tolist() == found["coef"]
    assert train(*schedule, "--epochs", epochs, "--report", other, device="golden") == 0
    assert report_of(other)["coef"] == found["coef"]


@pytest.mark.slow       # compiles for a minute; by day test_compiled.py has one
def test_wave(tmp_path, capsys):
    wave = tmp_path / "run.fst"
    assert train("--epochs", 1, "--bits", 8, "--lookahead", 0, "--train-rows", 20,
                 "--wave", wave) == 0
    assert f"wrote {wave}" in capsys.readouterr().out
    assert b"m_axi_rows_araddr" in wave.read_bytes()


def test_estimators_train_on_it():
    """The same model from every device, through scikit-learn's interface."""
    from sklearn.datasets import load_diabetes

    from bitstep import LowPrecisionRegressor
    features, targets = load_diabetes(return_X_y=True)
    models = [LowPrecisionRegressor(random_state=0, epochs=3, device=device).fit(features, targets)
              for device in ("golden", "sim", {"name": "sim", "memory_latency": 50})]
    for model in models[1:]:
        assert model.coef_.tolist() == models[0].coef_.tolist()
        assert model.intercept_ == models[0].intercept_
