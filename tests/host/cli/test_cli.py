"""The command line: in this process where that is enough, as a process where it is not."""

import importlib.metadata
import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import train, unquoted
from fakes import FakeDevice

import bitstep
import bitstep.devices
from bitstep.cli import main
from bitstep.cli.progress import StatusLine
from bitstep.options.models import MODELS
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import COUNTERS, REGISTERS
from bitstep.quantization import load_quantized
from bitstep.training.files.model_file import load_model
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import plan
from bitstep.writing import duration
from bitstep.writing import numbers as column

ROOT = Path(__file__).parents[3]

REPORT_KEYS = ["report_version", "dataset", "config", "device", "seed", "versions", "clock_hz",
               "device_seconds", "wall_seconds", "loss_on", "metric", "interrupted",
               "resumed_epochs", "kept_epoch", "stopped_early", "restarts", "history",
               "counters", "coef", "intercept"]
COUNTER_KEYS = ["cycles", "beats", "stall_cycles", "bytes_read", "overflows", "refetched_rows"]
CONFIG_KEYS = ["model", "loss", "multinomial", "bits", "encoding", "levels", "bus_width", "scaler",
               "copies", "epochs", "batch", "step", "schedule", "l2", "l1", "box", "epsilon",
               "refetch", "class_weight", "fit_intercept", "model_range", "shuffle", "init",
               "solver", "solver_reason", "planes", "tol", "early_stopping", "n_iter_no_change",
               "model_bits", "update_bits", "lookahead", "pipeline"]


def test_train_and_predict(numbers, tmp_path, capsys):
    out, report = tmp_path / "model.npz", tmp_path / "run.json"
    assert train(numbers[0], "--out", out, "--report", report, "--train-rows", 50, "--epochs", 30,
                 "--bits", 6, "--plot", tmp_path / "loss.png") == 0
    text = capsys.readouterr().out
    assert "numbers: linreg, 50 rows of 3 features, 6 bits compensated, device golden" in text
    assert len([line for line in text.splitlines() if line.split()[0].isdigit()]) == 30
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(report.read_text())
    assert list(found) == REPORT_KEYS
    assert list(found["counters"]) == COUNTER_KEYS
    stalls = {name.lower().removeprefix("stall_") for name, _ in COUNTERS
              if name.startswith("STALL") or name in ("FLUSH", "MODEL_IO")}
    assert set(found["counters"]["stall_cycles"]) == stalls
    assert list(found["config"]) == CONFIG_KEYS
    assert found["dataset"] == {
        "name": "numbers", "source": numbers[0], "task": "regression", "train_rows": 50,
        "validation_rows": 0, "test_rows": 10, "n_features": 3, "classes": None}
    assert found["counters"]["beats"] == 30 * 50
    assert found["clock_hz"] is found["device_seconds"] is found["counters"]["cycles"] is None
    assert [list(entry) for entry in found["history"]] == \
        [["epoch", "step", "train_loss", "train_accuracy", "validation_loss",
          "validation_accuracy", "test_metric"]] * 30
    assert found["history"][0]["train_accuracy"] is None
    assert found["history"][-1]["train_loss"] < 0.5
    assert np.allclose(found["coef"], [1, -2, 0.5], atol=0.2)

    predictions = tmp_path / "predictions.txt"
    assert main(["predict", str(out), numbers[0], "--out", str(predictions)]) == 0
    assert "on 60 rows" in capsys.readouterr().out
    numbers_of_file = np.loadtxt(numbers[0], delimiter=",")
    expected = numbers_of_file[:, :3] @ found["coef"] + found["intercept"]
    np.testing.assert_allclose(np.loadtxt(predictions), expected)


def test_every_key_is_documented():
    text = (Path(__file__).resolve().parents[3] / "docs" / "report.md").read_text()
    stalls = [name.lower().removeprefix("stall_") for name, _ in COUNTERS
              if name.startswith("STALL")]
    names = [loss.name for loss in LOSSES.values()]
    for key in [*REPORT_KEYS, *COUNTER_KEYS, *CONFIG_KEYS, *stalls, *MODELS, *names, "train_loss",
                "test_metric"]:
        assert f"`{key}`" in text, key


def test_classification(numbers, tmp_path, capsys):
    out, report = tmp_path / "model.npz", tmp_path / "run.json"
    assert train(numbers[1], "--solver", "sgd", "--out", out, "--report", report, "--train-rows",
                 40) == 0
    found = json.loads(report.read_text())
    assert (found["config"]["model"], found["metric"]) == ("logistic", "accuracy")
    assert found["dataset"]["classes"] == [2, 5]
    assert np.shape(found["coef"]) == (1, 3)
    assert found["history"][-1]["test_metric"] >= 0.85
    assert found["history"][-1]["train_accuracy"] >= 0.85
    assert re.search(r"^epoch +step +train loss +train accuracy +test accuracy$",
                     capsys.readouterr().out, re.MULTILINE)
    assert main(["predict", str(out), numbers[1]]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert load_model(out).classes.tolist() == [2, 5]
    # Two classes by default a classification, but numbers all the same.
    assert train(numbers[1], "--model", "linreg", "--report", report) == 0
    assert json.loads(report.read_text())["dataset"]["task"] == "regression"


def test_several_classes(tmp_path):
    report = tmp_path / "run.json"
    assert train("digits", "--epochs", 2, "--train-rows", 600, "--report", report) == 0
    found = json.loads(report.read_text())
    assert np.shape(found["coef"]) == (10, 64)
    assert len(found["intercept"]) == 10
    assert found["history"][-1]["test_metric"] > 0.85


@pytest.mark.parametrize("encoding", ["nearest", "compensated", "double", "double-symmetric"])
def test_quantized_file(numbers, tmp_path, capsys, encoding):
    stored, reports = tmp_path / "quantized.npz", [tmp_path / name for name in ("a", "b")]
    options = ["--bits", "5", "--encoding", encoding, "--seed", "4"]
    assert main(["quantize", numbers[0], *options, "--out", str(stored)]) == 0
    assert "60 rows of 3 features for a regression, 5 bits" in capsys.readouterr().out
    assert train(stored, "--step", 0.1, "--report", reports[0], "--out", tmp_path / "m.npz",
                 "--bits", 5) == 0
    assert "estimated from the codes" in capsys.readouterr().out
    assert train(numbers[0], *options, "--step", 0.1, "--report", reports[1]) == 0
    codes, features = (json.loads(report.read_text()) for report in reports)
    assert (codes["loss_on"], features["loss_on"]) == ("codes", "features")
    assert codes["coef"] == features["coef"]
    start = features["history"][0]["train_loss"]
    # 60 rows are few; test_losses.py compares the two where the noise is small.
    assert codes["history"][0]["train_loss"] == pytest.approx(start, abs=0.3)
    assert main(["predict", str(tmp_path / "m.npz"), str(stored)]) == 0
    assert main(["info", str(stored)]) == 0
    assert f"encoding         {encoding}" in capsys.readouterr().out


def test_quantized_file_of_several_classes(tmp_path, capsys):
    stored, out = str(tmp_path / "quantized.npz"), str(tmp_path / "m.npz")
    reports = [tmp_path / name for name in ("a", "b")]
    assert main(["quantize", "digits", "--bits", "3", "--seed", "4", "--out", stored]) == 0
    assert "1797 rows of 64 features for 10 classes, 3 bits" in capsys.readouterr().out
    assert train(stored, "--epochs", 2, "--report", reports[0], "--out", out) == 0
    assert train("digits", "--bits", 3, "--seed", 4, "--epochs", 2, "--report", reports[1]) == 0
    codes, features = (json.loads(report.read_text()) for report in reports)
    assert codes["coef"] == features["coef"]
    assert codes["seed"] == features["seed"] == 4
    assert codes["dataset"]["classes"] == list(range(10))
    # An estimate; the codes that were trained on fit their own noise.
    assert codes["history"][-1]["train_loss"] == pytest.approx(
        features["history"][-1]["train_loss"], rel=0.2)
    capsys.readouterr()
    assert main(["predict", out, stored]) == 0
    assert re.match(r"accuracy 9\d\.\d\d % on 1797 rows", capsys.readouterr().out)
    assert main(["info", stored]) == 0
    assert "classes          0, 1, 2, 3, 4, 5, 6, 7, 8, 9" in capsys.readouterr().out
    data = load_quantized(stored)
    with pytest.raises(ValueError, match="must be given two classes, not 10; train one class"):
        plan(data, PipelineConfig(bits=3), Objective(), Training(steps=[0.1]))


def test_schedule_file(numbers, tmp_path):
    steps, report = tmp_path / "steps.txt", tmp_path / "run.json"
    steps.write_text("0.1\n0.05\n0.02\n")
    assert train(numbers[0], "--schedule", steps, "--report", report) == 0
    taken = [entry["step"] for entry in json.loads(report.read_text())["history"]]
    assert taken == pytest.approx([0.1, 0.05, 0.02], rel=0.01)


def test_device_seconds_and_lookahead(numbers, tmp_path, monkeypatch):
    opened = []

    def open_fake(name, config, **options):
        device = FakeDevice(config)
        device.set("CYCLES_LO", 12345)
        opened.append((device, options))
        return device

    monkeypatch.setattr("bitstep.cli.train.open_device", open_fake)
    monkeypatch.setattr("bitstep.cli.device.device_class", lambda name: bitstep_sim_signature)
    report = tmp_path / "run.json"
    assert main(["train", numbers[0], "--solver", "sgd", "--device", "sim", "--lookahead", "3",
                 "--clock-mhz", "50", "--memory-latency", "9", "--epochs", "20", "--report",
                 str(report)]) == 0
    (device, options), = opened
    assert options == {"clock_hz": 50e6, "memory_latency": 9, "few_bits": False}
    assert device.closed
    assert device.get("LOOKAHEAD") == 3
    found = json.loads(report.read_text())
    assert found["device_seconds"] == 12345 / 1e8
    assert found["counters"]["cycles"] == 12345


def bitstep_sim_signature(config, *, clock_hz=1e8, memory_latency=20):
    """Stands for the class of a device with such options."""


def test_ctrl_c_writes_the_last_finished_epoch(numbers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bitstep.cli.train.open_device",
                        lambda name, config, **options: FakeDevice(config, interrupt=4))
    out, report = tmp_path / "model.npz", tmp_path / "run.json"
    assert train(numbers[0], "--solver", "sgd", "--epochs", 20, "--out", out, "--report",
                 report) == 130
    assert "interrupted; the model is that of epoch 4 of 20\n" in capsys.readouterr().err
    found = json.loads(report.read_text())
    assert found["interrupted"]
    assert len(found["history"]) == 4
    assert load_model(out).coef[0].tolist() == found["coef"]
    monkeypatch.setattr("bitstep.cli.train.open_device",
                        lambda name, config, **options: FakeDevice(config, interrupt=0))
    assert train(numbers[0], "--solver", "sgd", "--out", out) == 130
    assert capsys.readouterr().err == ("bitstep train: interrupted in the first epoch: there is "
                                       "no model yet, so none was kept\n")


class InterruptedLater(Device):
    """A device that Ctrl-C stops in a later run: one of several classes."""

    name = "fake"

    def __init__(self, config, *, run, epoch):
        self.config, self.run, self.epoch, self.clock_hz = config, run, epoch, None

    def begin(self, jobs, **options):
        self.run -= 1
        if self.run == 0:
            return FakeDevice(self.config, interrupt=self.epoch).begin(jobs, **options)
        return FakeDevice(self.config).begin(jobs, **options)

    def close(self):
        pass


@pytest.mark.parametrize("run, epoch, message, epochs", [
    (2, 1, "interrupted in class 2 of 3: no model was kept, because a one-vs-rest model", 0),
    (3, 0, "interrupted in class 3 of 3: no model was kept", 0),
    (3, 2, "interrupted; the model is that of epoch 2 of 20 of every class", 2)])
def test_ctrl_c_of_one_vs_rest(numbers, tmp_path, monkeypatch, capsys, run, epoch, message, epochs):
    numbers_of_file = np.loadtxt(numbers[1], delimiter=",")
    numbers_of_file[:20, -1] = 9
    np.savetxt(tmp_path / "three.csv", numbers_of_file, delimiter=",")
    monkeypatch.setattr(
        "bitstep.cli.train.open_device",
        lambda name, config, **options: InterruptedLater(config, run=run, epoch=epoch))
    out, report = tmp_path / "model.npz", tmp_path / "run.json"
    assert train(tmp_path / "three.csv", "--model", "ls-svm", "--solver", "sgd", "--epochs", 20,
                 "--out", out, "--report", report) == 130
    error = capsys.readouterr().err
    assert f"bitstep train: {message}" in error
    assert out.exists() == report.exists() == bool(epochs)
    if epochs:
        assert len(json.loads(report.read_text())["history"]) == epochs
        assert load_model(out).coef.shape == (3, 3)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("device, rows, epochs", [
    ("golden", 2000, 1000), ("golden", 20, 20_000), ("cpu", 20, 20_000),
    # By day test_ctrl_c of tests/sim/board/test_command_line.py does the same.
    pytest.param("sim", 20, 2000, marks=pytest.mark.slow)])
def test_ctrl_c_of_a_process(tmp_path, device, rows, epochs):
    if device == "sim":
        pytest.importorskip("bitstep_sim.board.device")
    data, out = tmp_path / "data.csv", tmp_path / "model.npz"
    np.savetxt(data, np.random.default_rng(0).uniform(size=(rows, 3)), delimiter=",")
    program = (
        "import os, signal, sys, bitstep.cli, bitstep.cli.progress as progress\n"
        # A shell's background jobs ignore the signal, and so would this process.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "call = progress.CommandWatch.__call__\n"
        "def interrupt(watch, done):\n"
        "    call(watch, done)\n"
        "    if done >= 3 and 'sent' not in globals():\n"
        "        globals()['sent'] = os.kill(os.getpid(), signal.SIGINT)\n"
        "progress.CommandWatch.__call__ = interrupt\n"
        "sys.exit(bitstep.cli.main(sys.argv[1:]))\n")
    run = subprocess.run([sys.executable, "-c", program, "train", str(data), "--device", device,
                          "--solver", "sgd", "--epochs", str(epochs), "--quiet", "--out", str(out)],
                         capture_output=True, text=True, timeout=300)
    assert run.returncode == 130
    done = load_model(out).config["epochs"]
    assert run.stderr == (f"bitstep train: interrupted; the model is that of epoch {done} of "
                          f"{epochs}\n")
    assert 3 <= done < epochs
    assert done == 3 or device == "sim"     # a board goes on until the host looks at it


@pytest.mark.parametrize("raised", ["raise KeyboardInterrupt", "exec('raise KeyboardInterrupt')"])
def test_ctrl_c_while_the_command_is_imported(tmp_path, raised):
    run = run_module(tmp_path, "import sys\n"
                     "class Interrupt:\n"
                     "    def find_spec(self, name, path=None, target=None):\n"
                     f"        if name == 'bitstep.cli': {raised}\n"
                     "sys.meta_path.insert(0, Interrupt())\n"
                     "from bitstep.__main__ import main\n"
                     "sys.exit(main())\n")
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "bitstep: interrupted\n")


def test_sigterm_in_code_of_a_string(tmp_path):
    """Some imports call exec(); Python ends by SIGINT after it, though the exception is caught."""
    np.savetxt(tmp_path / "data.csv", np.random.default_rng(0).uniform(size=(20, 3)), delimiter=",")
    run = run_module(
        tmp_path, "import os, signal, sys, bitstep.cli.progress as progress\n"
        "from bitstep.__main__ import main\n"
        "def interrupt(*_):\n"
        "    exec('os.kill(os.getpid(), signal.SIGTERM)')\n"
        "progress.CommandWatch.__call__ = interrupt\n"
        "sys.exit(main())\n", "train", "data.csv", "--device", "golden", "--solver", "sgd")
    assert run.returncode == 143
    assert run.stderr.startswith("bitstep train: interrupted")


def run_module(folder, program, *arguments):
    """Run a program as ``python -m`` does."""
    (folder / "stopped.py").write_text(program)
    return subprocess.run([sys.executable, "-m", "stopped", *arguments], cwd=folder,
                          capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(numbers, tmp_path, closed):
    out = tmp_path / "model.npz"
    command = shlex.join([sys.executable, "-m", "bitstep", "train", str(numbers[0]), "--device",
                          "golden", "--epochs", "2", "--quiet", "--out", str(out)])
    run = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True,
                         timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert load_model(out).n_features == 3


# Exit code 2: wrong use

@pytest.mark.parametrize("arguments, message", [
    (["--wave", "x.fst"], "--wave is not possible with --device golden"),
    (["--models", "2"], "--models is not possible with --device golden"),
    (["--clock-mhz", "100"], "--clock-mhz is not possible with --device golden"),
    (["--memory-latency", "5"], "--memory-latency is not possible with --device golden"),
    (["--memory-gbps", "5"], "--memory-gbps is not possible with --device golden"),
    (["--bits", "9"], "--bits: must be an integer from 1 to 8, or 32 for floating-point rows, not"),
    (["--bits", "four"], "or 32 for floating-point rows, not 'four'"),
    (["--encoding", "fp4"], "invalid choice: 'fp4'"),
    (["--bus-width", "65"], "argument --bus-width: invalid choice: 65"),
    (["--epochs", "0"], "must be an integer from 1 to 1000000, not '0'"),
    (["--epochs", "2147483648"], "must be an integer from 1 to 1000000, not '2147483648'"),
    (["--step", "-1"], "must be a number above 0, or auto, not '-1'"),
    (["--step", "nan"], "must be a number above 0, or auto, not 'nan'"),
    (["--l2", "-1"], "must be 0, or a number of at least 1e-100, not '-1'"),
    (["--l2", "1e-306"], "argument --l2: must be 0, or a number of at least 1e-100, not '1e-306'"),
    (["--lookahead", "33"], "must be an integer from 0 to 32, or auto, not '33'"),
    (["--copies", "256"], "must be an integer from 1 to 255, not '256'"),
    (["--out", "/no/such/folder/m.npz"], "cannot be written: there is no folder /no/such/folder"),
    (["--out", "/"], "cannot be written: it is a folder"),
    (["--out", ""], "'' cannot be written: it names no file"),
    (["--out", "/dev/null"], "cannot be written: it is no regular file"),
    (["--out", "/dev/stdout"], "/dev/stdout cannot be written: it is no regular file"),
    (["--report", "/dev/fd/1"], "/dev/fd/1 cannot be written: it is no regular file"),
    (["--out", "/proc/self/fd/1"], "cannot be written: it is no regular file"),
    (["--out", "x.npz", "--report", "./x.npz"], "or writes it for another option"),
    (["--plot", "x.foo"], "--plot needs a file name that ends in .png, .pdf or .svg, not 'x.foo'"),
    (["--plot", "x"], "--plot needs a file name"),
    (["--wave", "x.vcd"], "the file name must end in .fst, not 'x.vcd'"),
    (["--device", "moon"], "--device must be one of cpu, golden, pynq")])
def test_wrong_use(numbers, capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(["train", numbers[0], "--device", "golden", *arguments])
    assert caught.value.code == 2
    assert message in unquoted(capsys.readouterr().err)


def test_wrong_use_of_quantized_files(numbers, tmp_path, capsys):
    stored = str(tmp_path / "quantized.npz")
    main(["quantize", numbers[0], "--out", stored])
    for arguments, message in (
            (["train", stored, "--train-rows", "5"], "--train-rows 5 needs features, and "),
            (["train", stored, "--seed", "5"], "--seed 5 needs features, and "),
            (["train", stored, "--no-shuffle"], "--no-shuffle needs features, and "),
            (["train", stored, "--bits", "5"], "--bits 5 does not fit"),
            (["train", stored, "--encoding", "nearest"], "which was quantized with compensated"),
            (["train", stored, "--scaler", "maxabs"], "--scaler maxabs does not fit"),
            (["train", stored, "--copies", "2"], "--copies 2 does not fit"),
            (["train", stored, "--out", stored], "this command reads it"),
            (["train", stored, "--model", "ls-svm"], "was quantized for a regression"),
            (["quantize", stored, "--out", stored + "2"], "is quantized already")):
        with pytest.raises(SystemExit) as caught:
            main([*arguments, *(["--device", "golden"] if arguments[0] == "train" else [])])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err


# Exit code 1: it failed, with a message and no traceback

@pytest.mark.parametrize("arguments, message", [
    (["missing.csv"], "missing.csv: there is no such file"), ([""], "There is no data set ''."),
    (["cadatta"], "did you mean 'cadata'?"),
    (["NUMBERS", "--step", "1000"], "left the number range in epoch 1"),
    (["NUMBERS", "--step", "1e-20"], "too small for the step registers"),
    (["NUMBERS", "--train-rows", "61"], "--train-rows must be from 1 to 60"),
    (["NUMBERS", "--schedule", "missing.txt"], "readable text file of steps, not 'missing.txt'"),
    (["digits", "--model", "ls-svm", "--no-shuffle", "--train-rows", "1"], "every label is 0"),
    (["diabetes", "--model", "svm"], "diabetes is a regression, svm needs classes; use --model li"),
    (["diabetes", "--model", "ls-svm"], "or another data set (`bitstep info --data`)"),
    (["NUMBERS", "--model", "logistic"], "must be whole numbers, not -1"),
    (["NUMBERS", "--box", "1e-9"], "box must be at least "),
    (["cpus", "--model", "ls-svm"], "no data set 'cpus'")])
def test_failures(numbers, capsys, arguments, message):
    arguments = [numbers[0] if argument == "NUMBERS" else argument for argument in arguments]
    assert train(*arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("bitstep train: error: ")
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("batch", ["60", "1000"])
@pytest.mark.parametrize("options", [[], ["--l2", "0.1"], ["--bits", "32", "--l2", "0.1"]])
def test_a_batch_of_all_rows(numbers, tmp_path, batch, options):
    """Every encoding and penalty can be trained by one batch an epoch, and learns."""
    report = tmp_path / "report.json"
    assert train(numbers[0], "--batch", batch, "--epochs", 20, "--report", report, *options) == 0
    losses = [entry["train_loss"] for entry in json.loads(report.read_text())["history"]]
    assert len(losses) == 20
    assert losses[-1] < losses[0]


def test_too_many_classes(tmp_path, capsys):
    path = tmp_path / "many.csv"
    np.savetxt(path, np.column_stack([np.arange(300), np.arange(300)]), delimiter=",")
    assert train(path, "--model", "ls-svm") == 1
    assert "labels take 300 values, more than the 256 classes that ls-svm" in \
        capsys.readouterr().err
    assert train(path, "--model", "svm") == 1
    assert "the 256 classes that svm accepts; use --model linreg" in capsys.readouterr().err


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="no such file"):
        main(["train", "missing.csv", "--device", "golden", "--debug"])
    with pytest.raises(ValueError, match="no such file"):
        main(["--debug", "train", "missing.csv", "--device", "golden"])


def test_predict_with_the_wrong_data(numbers, tmp_path, capsys):
    out, stored = str(tmp_path / "model.npz"), str(tmp_path / "quantized.npz")
    train(numbers[1], "--out", out, "--epochs", "1")
    main(["quantize", numbers[1], "--bits", "3", "--out", stored])
    capsys.readouterr()
    for data, message in (
            ("diabetes", "trained on 3 features, the data have 10"),
            (stored, "trained with 8 bits stochastic, " + stored + " holds 3 bits stochastic"),
            (numbers[0], "The model tells classes 2, 5 apart, the labels of")):
        assert main(["predict", out, data]) == 1
        assert message in capsys.readouterr().err
    assert main(["predict", stored, numbers[0]]) == 1
    assert "not a model file" in capsys.readouterr().err


def test_predict_of_a_libsvm_file_without_the_last_columns(tmp_path, capsys):
    train_file, test_file, other = (tmp_path / name for name in ("a.svm", "b.svm", "b.csv"))
    train_file.write_text("".join(f"{row} 1:{row} 2:1 3:{row % 3}\n" for row in range(20)))
    test_file.write_text("1 1:1\n2 1:2\n")
    other.write_text("1,1\n2,2\n")
    model, out = tmp_path / "m.npz", tmp_path / "p.txt"
    assert train(train_file, "--epochs", 5, "--out", model, "--bits", 8) == 0
    assert main(["predict", str(model), str(test_file), "--out", str(out)]) == 0
    found = load_model(model)
    np.testing.assert_allclose(np.loadtxt(out), found.predict(np.array([[1., 0, 0], [2, 0, 0]])))
    assert main(["predict", str(model), str(other)]) == 1
    assert "trained on 3 features, the data have 1" in capsys.readouterr().err


@pytest.mark.parametrize("options", [
    ["--model", "huber", "--bits", 8], ["--model", "logistic", "--encoding", "stochastic"],
    ["--model", "logistic"]])
def test_labels_of_a_drawing_are_within_it(tmp_path, monkeypatch, options):
    from matplotlib.figure import Figure
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    data = "digits" if "logistic" in options else "diabetes"
    assert train(data, *options, "--train-rows", 300, "--epochs", 12, "--plot",
                 tmp_path / "p.png") == 0
    figure, = drawn
    figure.draw_without_rendering()
    edges = []
    for panel in figure.axes:
        box = panel.yaxis.label.get_window_extent()
        assert box.x0 >= 0
        assert box.y1 <= figure.bbox.height
        edges.append((box.y0, box.y1))
    assert all(above[0] >= below[1] for above, below in itertools.pairwise(edges))


def test_missing_matplotlib(numbers, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert train(numbers[0], "--epochs", 1, "--plot", tmp_path / "p.png") == 1
    assert '--plot needs matplotlib: pip install "bitstep[sklearn]"' in capsys.readouterr().err


# The other commands

def test_info(capsys):
    assert main(["info", "--bits", "1", "--bus-width", "512"]) == 0
    text = capsys.readouterr().out
    assert "lanes          512" in text
    assert PipelineConfig(bits=1, bus_width=512).with_lookahead().name in text
    assert main(["info", "--bits", "1", "--bus-width", "512", "--features", "4096"]) == 0
    assert PipelineConfig(bits=1, bus_width=512).with_lookahead(4096).name \
        in capsys.readouterr().out
    assert main(["info", "--bits", "32", "--loss-family", "logistic", "--proximal"]) == 0
    shown = capsys.readouterr().out
    assert "w64-b32-f32-n4096" in shown
    assert "update            6 cycles" in shown
    assert re.search(r"^ +8 +4 +\d+ +\d+ +6$", shown, re.MULTILINE)
    config = PipelineConfig(refetch=True, lookahead=0)
    assert main(["info", "--bits", "4", "--update-interval", "1"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^update +1 cycle$", out, re.MULTILINE)
    assert re.search(r"^look-ahead between batches +0 rows$", out, re.MULTILINE)
    assert re.search(r"^ +90 +6 +3 +3 +6 +3$", out, re.MULTILINE)
    assert "; the rows without data between two batches take as many.\n" in out
    ahead = ["--update-interval", "1", "--batch-lookahead"]
    assert main(["info", *ahead, "auto"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^look-ahead between batches +7 rows$", out, re.MULTILINE)
    assert re.search(r"^ +90 +6 +3 +3 +6 +1$", out, re.MULTILINE)
    assert main(["info", *ahead, "auto", "--features", "90"]) == 0
    assert "w64-b4-one-n4096-d3-c1-a2" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["info", *ahead, "30"])
    assert "--batch-lookahead of lookahead 15 must be an integer from 0 to 7, not 30" \
        in capsys.readouterr().err
    for rows in ("auto", "3"):      # with what a training takes
        with pytest.raises(SystemExit):
            main(["info", "--batch-lookahead", rows])
        assert (f"--batch-lookahead {rows} needs --update-interval 1, not 2 (by default): rows "
                "that wait for each other look ahead within batches, too (lookahead); add "
                "--update-interval 1, or leave --batch-lookahead out") in capsys.readouterr().err
    with pytest.raises(SystemExit):     # where that does not go with the other options either
        main(["info", "--batch-lookahead", "3", "--no-minibatch"])
    assert ("--batch-lookahead 3 needs --update-interval 1, and with it update_interval=1 does not "
            "go together with minibatch=False") in capsys.readouterr().err
    assert main(["info", "--refetch", "--lookahead", "0"]) == 0
    shown = capsys.readouterr().out
    assert config.name in shown
    assert f"latency        {config.latency} cycles" in shown
    assert re.search(rf"^ +90 +6 +\d+ +0 +{config.latency + 5}$", shown, re.MULTILINE)
    assert "a row that is read again takes more" in shown
    assert main(["info", "--bit-planes"]) == 0
    shown = capsys.readouterr().out
    assert "w64-b16-planes-n4096-" in shown
    assert "; k bit planes take at least k / 4 cycles a beat." in shown     # 16 lanes of 64 bits
    assert main(["info", "--registers"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("| `0x") == len(REGISTERS)
    assert "| `ERROR` | 0 NONE, 1 BAD_CONF" in shown
    assert main(["info", "--data"]) == 0
    assert "cadata" in capsys.readouterr().out.split()


@pytest.mark.parametrize("others", [["--data"], ["--registers"], ["--data", "--registers"]])
def test_info_of_one_thing(others, capsys):
    with pytest.raises(SystemExit):
        main(["info", "breast_cancer" if len(others) == 1 else others[0], others[-1]])
    assert "not allowed with argument" in capsys.readouterr().err


def test_info_of_no_pipeline(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["info", "--update-interval", "6"])
    shown = capsys.readouterr()
    assert not shown.out
    assert "update_interval" in shown.err or "--update-interval" in shown.err


def test_info_of_a_model(numbers, tmp_path, capsys):
    out = str(tmp_path / "model.npz")
    train(numbers[1], "--out", out, "--epochs", "1")
    capsys.readouterr()
    assert main(["info", out]) == 0
    text = capsys.readouterr().out
    assert "classes         2, 5" in text
    assert "encoding        stochastic" in text


@pytest.mark.parametrize("path", sorted(ROOT.glob("bitstreams/*.json")), ids=lambda p: p.stem)
def test_info_of_a_manifest(path, capsys):
    manifest = json.loads(path.read_text())
    assert main(["info", str(path)]) == 0
    shown = capsys.readouterr().out
    assert manifest["identity"] in shown
    assert re.search(rf"^clock, achieved +{manifest['clock_mhz']['achieved']} MHz$", shown,
                     re.MULTILINE)
    assert re.search(rf"^MULT18 +{manifest['resources']['MULT18']['used']} of 156$", shown,
                     re.MULTILINE)


def test_info_of_a_checkpoint(numbers, tmp_path, capsys):
    kept = str(tmp_path / "run.ckpt")
    train(numbers[1], "--solver", "sgd", "--epochs", 2, "--checkpoint", kept)
    capsys.readouterr()
    assert main(["info", kept]) == 0
    shown = capsys.readouterr().out
    assert re.search("^of +finished, epoch 2 of 2$", shown, re.MULTILINE)
    assert re.search("^rows +60$", shown, re.MULTILINE)
    assert re.search("^encoding +stochastic$", shown, re.MULTILINE)


def test_info_of_other_files(numbers, tmp_path, capsys):
    report = tmp_path / "run.json"
    train(numbers[1], "--solver", "sgd", "--report", report, "--epochs", 2)
    printed = capsys.readouterr().out
    assert main(["info", str(report)]) == 0
    shown = capsys.readouterr().out
    assert shown in printed
    assert len(shown.splitlines()) == 7
    assert main(["info", numbers[1]]) == 0
    text = capsys.readouterr().out
    assert "rows              60" in text
    assert "labels            2 to 5, 2 different" in text
    assert main(["info", "breast_cancer"]) == 0
    assert "features          30" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["info", numbers[1], "--bits", "2", "--models", "3", "--no-minibatch"])
    assert ("--bits, --minibatch, --models must not be given with FILE, which is shown without a "
            "pipeline; leave them out") in capsys.readouterr().err
    whole = json.loads(report.read_text())
    for change in ({"history": []}, {"dataset": None}, {"wall_seconds": "long"}, {"config": {}}):
        report.write_text(json.dumps({**whole, **change}))
        assert main(["info", str(report)]) == 1
        broken = capsys.readouterr()
        assert not broken.out
        assert "the report is damaged, or another program changed it (" in broken.err
    report.write_text("[]")
    for path, message in ((report, "not a report of `bitstep train --report`"),
                          (tmp_path / "none.npz", "there is no such file"),
                          (tmp_path / "none.json", "there is no such file")):
        assert main(["info", str(path)]) == 1
        assert message in capsys.readouterr().err


def test_info_of_values_whose_range_is_no_float(tmp_path, capsys):
    path = tmp_path / "wide.csv"
    path.write_text("a,b,c,y\n" + "-1.5e308,2,3,0\n1.5e308,2,3,1\n" * 10)
    assert main(["info", str(path)]) == 0
    assert "constant columns  2" in capsys.readouterr().out


def test_texts_of_numbers():
    assert column([1396.634, 1416.0, 1555.1234567]) == ["1396.63", "1416.00", "1555.12"]
    assert column([0.0522873, 0.00261367, None], 4) == ["0.052287", "0.002614", "-"]
    assert column([3.6e9, 12345678.9]) == ["3.60000e+09", "1.23457e+07"]
    assert column([1.0, 1e-7]) == ["1.00000e+00", "1.00000e-07"]
    assert column([0.0, 0.0], 3) == ["0.00", "0.00"]
    assert [duration(seconds) for seconds in (1234.5, 99.96, 1.5, 0.0404, 1.506e-4, 0.0)] == [
        "1,234 s", "100 s", "1.50 s", "40.4 ms", "151 us", "0.00 us"]


def test_devices(capsys, monkeypatch):
    assert main(["devices"]) == 0
    assert "golden  yes" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "bitstep_sim.board.device", None)
    assert main(["devices"]) == 0
    assert 'pip install "bitstep[sim]"' in capsys.readouterr().out
    assert set(bitstep.devices.available()) >= {"golden", "sim"}
    monkeypatch.setattr("bitstep.devices.uart.device.find_spec", lambda name: None)
    assert main(["devices"]) == 0
    assert re.search(r'^uart +no .*pip install "bitstep\[uart\]"', capsys.readouterr().out,
                     re.MULTILINE)


def test_rtl_without_amaranth(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bitstep_hw.top", None)
    assert main(["rtl", "--out", str(tmp_path / "x.v")]) == 1
    assert 'pip install "bitstep[hw]"' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["rtl", "--features", "5000"])
    assert "--features must be at most --max-features (4096)" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["rtl", "--bits", "1", "--encoding", "double"])
    assert "--encoding double does not go together with --bits 1" in capsys.readouterr().err
    for options, message in (
            (["--loss-family", "logistic", "--update-interval", "2"],
             "--update-interval of loss family 'logistic' must"),
            (["--update-interval", "6"],
             "--update-interval of loss family 'linear' must be one of 1, 2, 4, not 6"),
            (["--update-interval", "5"], "argument --update-interval: invalid choice: 5"),
            (["--refetch", "--bits", "32"],
             "--refetch does not go together with --bits 32"),
            (["--refetch", "--loss-family", "logistic"],
             "--refetch does not go together with --loss-family logistic"),
            (["--bits", "32", "--encoding", "double"], "--bits 32 does not go together with")):
        with pytest.raises(SystemExit) as caught:
            main(["rtl", *options])
        assert caught.value.code == 2
        assert message in unquoted(capsys.readouterr().err)


def test_rtl(tmp_path, capsys):
    pytest.importorskip("amaranth")
    path = tmp_path / "top.v"
    assert main(["rtl", "--bits", "8", "--max-features", "16", "--lookahead", "0", "--no-minibatch",
                 "--no-corrections", "--out", str(path)]) == 0
    assert "module bitstep_top" in path.read_text()
    shown = capsys.readouterr()
    assert "w64-b8-one-n16-d0-c2-nobatch-nocorr" in shown.out
    assert shown.err == "rtl: generating w64-b8-one-n16-d0-c2-nobatch-nocorr ...\n"


def test_as_a_process(numbers, capsys):
    run = subprocess.run([sys.executable, "-m", "bitstep", "train", numbers[0], "--device",
                          "golden", "--epochs", "2", "--quiet"], capture_output=True, text=True,
                         timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert "train loss" in run.stdout
    run = subprocess.run([sys.executable, "-m", "bitstep"], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 2
    assert "COMMAND" in run.stderr
    with pytest.raises(SystemExit) as ended:
        main(["train", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--model", "--bits", "--encoding", "--device", "--bus-width", "--batch",
                   "--lookahead", "--epochs", "--step", "--schedule", "--l2", "--seed", "--out",
                   "--report", "--scaler", "--train-rows", "--shuffle", "--copies", "--clock-mhz",
                   "--memory-latency", "--memory-gbps", "--wave", "--plot", "--refetch", "--l1",
                   "--box"):
        assert option in shown


def test_status_line(capsys, monkeypatch):
    def show():
        line = StatusLine("sim")
        for text in ("generating x", "compiling x: 1 of 2", "compiling x: 2 of 2", "compiled x"):
            line(text)
        line.clear()
        return capsys.readouterr().err

    assert show() == "sim: generating x ...\nsim: compiling x ...\nsim: compiled x ...\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert show().endswith("\r\x1b[Ksim: compiled x\r\x1b[K")


def test_version(capsys, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"bitstep {bitstep.__version__}\n"
    assert bitstep.__version__ == importlib.metadata.version("bitstep")
    assert "__version__" in dir(bitstep)

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)
    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(AttributeError, match="no __version__ where it is not installed"):
        _ = bitstep.__version__
