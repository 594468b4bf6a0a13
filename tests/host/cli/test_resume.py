"""Runs that are not lost: --checkpoint, --resume and --init, signals, and full disks."""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import train
from fakes import FakeDevice

from bitstep.cli import main, outputs
from bitstep.cli.progress import CommandWatch
from bitstep.cli.signals import SIGNALS, StopSignals, stop_signals
from bitstep.pipeline.registers import Error
from bitstep.training.files.checkpoint import Checkpoint, load_checkpoint
from bitstep.training.files.model_file import LinearModel, load_model
from bitstep.writing import ReservedSpace, write_text


def wrong(capsys, *arguments):
    """What is printed of a wrong use."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        train(*arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


def failed(capsys, *arguments):
    """What is printed of a failure."""
    capsys.readouterr()
    assert train(*arguments) == 1
    return capsys.readouterr().err


def interrupt(monkeypatch, epoch, **options):
    """Ctrl-C at an epoch of the next device that is opened."""
    monkeypatch.setattr(
        "bitstep.cli.train.open_device",
        lambda name, config, **_: FakeDevice(config, interrupt=epoch, **options))


@pytest.mark.parametrize("data, options", [
    (0, ["--copies", 3, "--l2", 0.01]), (0, ["--bits", 32, "--batch", 4]),
    (2, ["--model", "svm", "--train-rows", 45]), (2, ["--model", "logistic", "--l1", 0.001])])
def test_resumed_run_is_that_of_one_piece(numbers, tmp_path, monkeypatch, capsys, data, options):
    """Model, history and counters; the epochs before the resume are printed, too."""
    names = [tmp_path / name for name in ("whole.npz", "whole.json", "parts.npz", "parts.json")]
    kept = tmp_path / "run.ckpt"
    options = [numbers[data], "--epochs", 9, *options]
    assert train(*options, "--out", names[0], "--report", names[1]) == 0
    options += ["--out", names[2], "--report", names[3], "--plot", tmp_path / "loss.png"]
    monkeypatch.setattr("bitstep.cli.train.open_device",
                        lambda name, config, **_: FakeDevice(config, interrupt=4))
    assert train(*options, "--checkpoint", kept) == 130
    text = capsys.readouterr().err
    if data == 0:
        assert "interrupted; the model is that of epoch 4 of 9; the same command goes on wi" in text
        assert names[2].exists()
    else:
        assert (f"interrupted; {kept} keeps epoch 4 of 9 of class 1 of 3, and the same command "
                f"goes on there with --resume {kept}\n") in text
        assert not names[2].exists()
    monkeypatch.undo()
    monkeypatch.setattr("bitstep.cli.train.open_device",
                        lambda name, config, **_: FakeDevice(config))
    assert train(*options, "--resume", kept) == 0
    text = capsys.readouterr().out
    assert len([line for line in text.splitlines() if line.split()[0].isdigit()]) == 9
    assert names[0].read_bytes() == names[2].read_bytes()
    whole, parts = (json.loads(name.read_text()) for name in (names[1], names[3]))
    for key in ("history", "coef", "config", "dataset", "interrupted"):
        assert whole[key] == parts[key]
    for key in ("beats", "refetched_rows", "overflows"):
        assert whole["counters"][key] == parts["counters"][key]
    assert (whole["resumed_epochs"], parts["resumed_epochs"]) == (0, 4)
    # A finished checkpoint says so, and opens no device.
    monkeypatch.setattr("bitstep.cli.train.open_device", None)
    names[2].unlink()
    assert train(*options, "--resume", kept) == 0
    assert f"note: {kept} is finished, so nothing is trained" in capsys.readouterr().err
    assert names[0].read_bytes() == names[2].read_bytes()


@pytest.mark.parametrize("options", [["--bits", 4], ["--bits", 3, "--copies", 2]])
def test_resume_with_a_bus_of_another_width(numbers, tmp_path, monkeypatch, options):
    """As on a board whose bitstream is wider than what the training began on."""
    options = [numbers[0], "--epochs", 9, *options]
    whole, parts, kept = (tmp_path / name for name in ("whole.npz", "parts.npz", "run.ckpt"))
    assert train(*options, "--out", whole) == 0
    interrupt(monkeypatch, 4)
    assert train(*options, "--checkpoint", kept) == 130
    interrupt(monkeypatch, None)
    assert train(*options, "--bus-width", 256, "--resume", kept, "--out", parts) == 0
    found, expected = load_model(parts), load_model(whole)
    np.testing.assert_array_equal(found.coef, expected.coef)
    np.testing.assert_array_equal(found.intercept, expected.intercept)


def test_floating_point_rows_are_rounded_by_the_width_of_their_bus(numbers, tmp_path, monkeypatch,
                                                                   capsys):
    options, kept = [numbers[0], "--bits", 32, "--epochs", 9], tmp_path / "run.ckpt"
    interrupt(monkeypatch, 4)
    assert train(*options, "--checkpoint", kept) == 130
    assert "--bus-width is 128, the checkpoint's 64" in wrong(
        capsys, *options, "--bus-width", 128, "--resume", kept)


def test_another_file_for_the_later_checkpoints(numbers, tmp_path, monkeypatch):
    first, second = tmp_path / "a.ckpt", tmp_path / "b.ckpt"
    interrupt(monkeypatch, 4)
    sgd = numbers[0], "--solver", "sgd", "--epochs", 20
    assert train(*sgd, "--checkpoint", first) == 130
    before = first.read_bytes()
    interrupt(monkeypatch, 2)
    assert train(*sgd, "--resume", first, "--checkpoint", second) == 130
    assert first.read_bytes() == before
    assert load_checkpoint(second).epochs_done == 6
    # Also of what is finished already.
    interrupt(monkeypatch, None)
    assert train(*sgd, "--resume", first) == 0
    second.unlink()
    assert train(*sgd, "--resume", first, "--checkpoint", second) == 0
    assert load_checkpoint(second).finished


def test_steps_and_settings_are_those_of_the_checkpoint(numbers, tmp_path, monkeypatch):
    """Automatic steps may differ on another machine, and older versions wrote no kind of levels."""
    kept, report = tmp_path / "run.ckpt", tmp_path / "run.json"
    interrupt(monkeypatch, 4)
    sgd = numbers[0], "--solver", "sgd", "--epochs", 20
    assert train(*sgd, "--checkpoint", kept) == 130
    state = load_checkpoint(kept)
    state.steps = [1.01 * step for step in state.steps]
    state.jobs, state.results = [], []      # which have the other steps
    state.seconds = 1000.0
    assert state.settings.pop("levels") == "uniform"
    state.save(kept)
    interrupt(monkeypatch, None)
    assert train(*sgd, "--resume", kept, "--report", report) == 0
    found = json.loads(report.read_text())
    history = found["history"]
    assert 1000 < found["wall_seconds"] < 1200      # with those before
    # To the 18 bits that the pipeline has of a step.
    assert [entry["step"] for entry in history] == pytest.approx(state.steps, rel=1e-4)


def test_other_options_or_data_are_named(numbers, tmp_path, monkeypatch, capsys):
    kept, steps = tmp_path / "run.ckpt", tmp_path / "steps.txt"
    interrupt(monkeypatch, 4)
    assert train(numbers[0], "--epochs", 20, "--checkpoint", kept, "--train-rows", 50,
                 "--box", 9) == 130
    same = [numbers[0], "--epochs", 20, "--resume", kept, "--train-rows", 50, "--box", 9]
    before = kept.read_bytes()
    steps.write_text("0.1\n" * 20)
    assert train(numbers[0], "--epochs", 1, "--out", tmp_path / "m.npz", "--box", 9) == 0
    for options, message in (
            (["--bits", 5], "other options: --bits is 5, the checkpoint's 4. Give its options"),
            (["--epochs", 21, "--seed", 1], "--seed is 1, the checkpoint's 0; --epochs is 21, "),
            (["--step", 0.5], "--step is 0.5, the checkpoint's auto"),
            (["--schedule", steps], "--schedule is 20 steps from a file, the checkpoint's lin"),
            (["--batch", 2], "--batch is 2, the checkpoint's 1"),
            (["--l2", 0.5], "--l2 is 0.5, the checkpoint's 0.0"),
            (["--l1", 0.5], "--l1 is 0.5"), (["--box", 8], "--box is 8.0, the checkpoint's 9.0"),
            (["--copies", 2], "--copies is 2"), (["--model-range", 40], "--model-range is 40"),
            (["--encoding", "nearest"], "--encoding is nearest, the checkpoint's comp"),
            (["--scaler", "maxabs"], "--scaler is maxabs"),
            (["--no-shuffle"], "--shuffle is no, the checkpoint's yes"),
            (["--init", tmp_path / "m.npz"], "--init is model "),
            (["--scaler", "maxabs", "--no-intercept"], "--intercept is no, the check"),
            (["--train-rows", 49], "on other data, with 50 rows to train on, not 49: check")):
        assert message in wrong(capsys, *same, *options), options
    numbers_of_file = np.loadtxt(numbers[0], delimiter=",")
    for column, message in ((3, ": labels differ; check that DATA is the same file"),
                            (1, ": scaling, codes differ; check that DATA is the same file")):
        changed = numbers_of_file.copy()
        changed[:, column] *= 1.5 if column == 3 else 2 + np.arange(60) % 2
        np.savetxt(tmp_path / "other.csv", changed, delimiter=",", fmt="%.17g")
        assert message in wrong(capsys, tmp_path / "other.csv", *same[1:])
    changed = numbers_of_file.copy()
    changed[7, 1] += 1e-3               # of no other code
    np.savetxt(tmp_path / "other.csv", changed, delimiter=",", fmt="%.17g")
    assert "codes, labels and options are those of the checkpoint, but the table of coefficients" \
        in failed(capsys, tmp_path / "other.csv", *same[1:])
    assert kept.read_bytes() == before
    interrupt(monkeypatch, None)
    assert train(*same) == 0


def test_other_planes_are_named(numbers, tmp_path, monkeypatch, capsys):
    kept = tmp_path / "run.ckpt"
    interrupt(monkeypatch, 4)
    run = [numbers[0], "--solver", "sgd", "--planes", "4,6"]
    assert train(*run, "--epochs", 20, "--checkpoint", kept) == 130
    text = wrong(capsys, *run, "--epochs", 21, "--resume", kept)
    assert "--epochs is 21, the checkpoint's 20. Give" in text
    assert "--planes" not in text.rpartition("error: ")[2]
    assert "--planes is 4,5,7, the checkpoint's 4,6. Give" in wrong(
        capsys, *run[:-1], "4,5,7", "--epochs", 20, "--resume", kept)


def test_no_file_is_replaced_that_a_run_needs(numbers, tmp_path, monkeypatch, capsys):
    kept, other = tmp_path / "run.ckpt", tmp_path / "notes.txt"
    other.write_text("notes")
    assert "would replace a file that is no checkpoint" in wrong(
        capsys, numbers[0], "--checkpoint", other)
    interrupt(monkeypatch, 4)
    sgd = numbers[0], "--solver", "sgd", "--epochs", 20
    assert train(*sgd, "--checkpoint", kept) == 130
    assert (f"{kept} is the checkpoint of a training that is not finished (epoch 4 of 20): go on "
            f"with --resume {kept} in place of --checkpoint") in wrong(
                capsys, *sgd, "--checkpoint", kept)
    interrupt(monkeypatch, None)
    assert train(*sgd, "--resume", kept) == 0
    assert train(*sgd, "--checkpoint", kept, "--epochs", 2) == 0      # of a finished one
    assert load_checkpoint(kept).position() == "epoch 2 of 2"
    assert other.read_text() == "notes"


def test_damaged_checkpoint(numbers, tmp_path, capsys):
    kept = tmp_path / "run.ckpt"
    assert train(numbers[0], "--checkpoint", kept, "--epochs", 2) == 0
    kept.write_bytes(kept.read_bytes()[:-40])
    assert f"{kept}: this is not a checkpoint, or it is damaged" in failed(
        capsys, numbers[0], "--resume", kept)
    assert train(numbers[0], "--out", tmp_path / "m.npz", "--epochs", 1) == 0
    assert "a file of format 'bitstep-model', not a checkpoint" in failed(
        capsys, numbers[0], "--resume", tmp_path / "m.npz")


def test_error_of_a_board_names_the_checkpoint(numbers, tmp_path, monkeypatch, capsys):
    kept = tmp_path / "run.ckpt"
    interrupt(monkeypatch, None, fault=(3, Error.ROW_READ))
    text = failed(capsys, numbers[0], "--solver", "sgd", "--epochs", 20, "--checkpoint", kept)
    assert f"{kept} keeps epoch 3 of 20, and the same command goes on there with --resume" in text


# A model to start from

def test_init(numbers, tmp_path, capsys):
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    assert train(numbers[0], "--epochs", 15, "--out", first) == 0
    assert train(numbers[0], "--epochs", 1, "--step", 1e-6, "--model-range", 16, "--init", first,
                 "--out", second) == 0
    before, after = load_model(first), load_model(second)
    # Words of the new range, and an epoch that changes next to nothing.
    np.testing.assert_allclose(after.coef, before.coef, rtol=1e-4)
    assert (before.config["init"], after.config["init"]) == (None, str(first))
    zeros = tmp_path / "c.npz"
    assert train(numbers[0], "--epochs", 1, "--step", 1e-6, "--out", zeros) == 0
    assert np.abs(load_model(zeros).coef).max() < 1e-2


def test_init_where_the_training_chooses_the_planes(numbers, tmp_path):
    first, kept, bit_planes = tmp_path / "a.npz", tmp_path / "run.ckpt", tmp_path / "bit-planes.npz"
    assert train(numbers[0], "--epochs", 15, "--out", first) == 0
    assert train(numbers[0], "--epochs", 1, "--step", 1e-6, "--model-range", 16, "--planes", "auto",
                 "--init", first, "--out", tmp_path / "still.npz") == 0
    before, after = load_model(first), load_model(tmp_path / "still.npz")
    np.testing.assert_allclose(after.coef, before.coef, rtol=1e-3)
    assert main(["quantize", str(numbers[0]), "--bit-planes", "--out", str(bit_planes),
                 "--quiet"]) == 0
    options = [bit_planes, "--epochs", 5, "--init", first]
    assert train(*options, "--checkpoint", kept, "--out", tmp_path / "whole.npz") == 0
    assert train(*options, "--resume", kept, "--out", tmp_path / "again.npz") == 0
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_init_of_several_classes_with_a_checkpoint(numbers, tmp_path, monkeypatch):
    first, kept = tmp_path / "a.npz", tmp_path / "run.ckpt"
    assert train(numbers[2], "--model", "svm", "--epochs", 3, "--out", first) == 0
    options = [numbers[2], "--model", "logistic", "--epochs", 5, "--init", first]
    assert train(*options, "--out", tmp_path / "whole.npz") == 0
    interrupt(monkeypatch, 3)
    assert train(*options, "--checkpoint", kept) == 130
    interrupt(monkeypatch, None)
    assert train(*options, "--resume", kept, "--out", tmp_path / "parts.npz") == 0
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "parts.npz").read_bytes()


def test_init_that_does_not_fit(numbers, tmp_path, capsys):
    def model(coef, intercept, classes=()):
        names.append(tmp_path / f"{len(names)}.npz")
        LinearModel(np.array(coef, float), np.array(intercept, float),
                    np.array(classes, float)).save(names[-1])
        return ["--init", names[-1]]

    names = []

    for options, message in (
            (model([[1, 2]], [0]), "the model has 2 features, the data have 3"),
            (model(np.ones((3, 3)), [0] * 3, [1, 2, 3]),
             "the model is that of 3 classes, 1, 2, 3, the data are those of a regression"),
            ([*model([[1, 2, 3]], [4]), "--no-intercept", "--scaler", "maxabs"],
             "the model has an intercept, and --no-intercept trains none"),
            (model([[1e308, 0, 0]], [0]), "must be finite numbers"),
            (model([[1e9, 0, 0]], [0]), "does not fit the scaling of these data and labels: "),
            ([*model([[50, 0, 0]], [0]), "--model-range", 1],
             "choose a larger --model-range\n"),
            (["--init", tmp_path / "none.npz"], None)):
        if message is None:
            assert "--init needs the file" in wrong(capsys, numbers[0], *options)
        else:
            assert message in failed(capsys, numbers[0], *options)
    assert "that of a regression, the data are those of 3 classes, 0, 1, 2" in failed(
        capsys, numbers[2], "--model", "svm", *model([[1, 2, 3]], [4]))
    assert train(numbers[0], *model([[1, 2, 3]], [0]), "--no-intercept", "--scaler", "maxabs") == 0


# Signals

PROGRAM = (
    "import os, signal, sys, time, bitstep.cli, bitstep.cli.progress as progress\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    "call, number, at = progress.CommandWatch.__call__, int(sys.argv[1]), int(sys.argv[2])\n"
    "def stop(watch, done):\n"
    "    call(watch, done)\n"
    "    if done == at: os.kill(os.getpid(), number)\n"
    "progress.CommandWatch.__call__ = stop\n"
    "sys.exit(bitstep.cli.main(sys.argv[3:]))\n")


def process(number, epoch, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    """The command as a process that gets a signal after an epoch."""
    return subprocess.run([sys.executable, "-c", PROGRAM, str(int(number)), str(epoch), "train",
                           *map(str, arguments), "--device", "golden", "--quiet"],
                          stdout=stdout, stderr=stderr, text=True, timeout=60)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143),
                                          (signal.SIGHUP, 129)])
def test_signals_keep_finished_epochs(numbers, tmp_path, number, code):
    out, kept = tmp_path / "model.npz", tmp_path / "run.ckpt"
    sgd = numbers[0], "--solver", "sgd", "--epochs", 20
    run = process(number, 3, *sgd, "--out", out, "--checkpoint", kept)
    assert run.returncode == code
    assert run.stderr == ("bitstep train: interrupted; the model is that of epoch 3 of 20; the "
                          f"same command goes on with --resume {kept}\n")
    assert load_model(out).config["epochs"] == load_checkpoint(kept).epochs_done == 3
    # After the last epoch nothing is left to stop: all is written.
    run = process(number, 20, *sgd, "--out", out, "--report", tmp_path / "run.json")
    assert (run.returncode, run.stderr) == (code, "")
    assert load_model(out).config["epochs"] == 20
    assert not json.loads((tmp_path / "run.json").read_text())["interrupted"]


def test_terminal_that_is_closed(numbers, tmp_path):
    """Nothing more can be printed, but the model is written."""
    there, here = os.openpty()
    os.close(there)
    run = process(signal.SIGHUP, 3, numbers[0], "--solver", "sgd", "--epochs", 20, "--out",
                  out := tmp_path / "model.npz", stdout=here, stderr=here)
    os.close(here)
    assert run.returncode == 129
    assert load_model(out).config["epochs"] == 3


def test_terminal_that_is_closed_without_streams(numbers, tmp_path):
    """As ``bitstep train ... >&- 2>&-``."""
    out = tmp_path / "model.npz"
    run = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", sys.executable, "-c", PROGRAM,
                          str(int(signal.SIGHUP)), "3", "train", numbers[0], "--solver", "sgd",
                          "--epochs", "20", "--out", out, "--device", "golden", "--quiet"],
                         timeout=60)
    assert run.returncode == 129
    assert load_model(out).config["epochs"] == 3


def test_signal_before_training(tmp_path):
    """SIGTERM ends every command with one line, as Ctrl-C does."""
    program = ("import os, signal, sys, bitstep.cli, bitstep.cli.train as train\n"
               "train.prepare = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
               "sys.exit(bitstep.cli.main(['train', 'x', '--device', 'golden']))\n")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=60)
    assert (run.returncode, run.stderr) == (143, "bitstep train: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_at_once(number):
    program = ("import os, signal, sys\n"
               "from bitstep.cli.signals import StopSignals\n"
               "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
               "with StopSignals() as stop:\n"
               "    try: os.kill(os.getpid(), signal.SIGTERM)\n"
               "    except KeyboardInterrupt: print(stop.code, flush=True)\n"
               f"    os.kill(os.getpid(), {int(number)})\n"
               "    print('still here')\n")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=60)
    assert (run.returncode, run.stdout) == (-number, "143\n")


class Dropping:
    """An object whose finalizer gets SIGTERM: Python drops the exception and goes on."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)


def test_signal_in_finalizer_is_raised_again():
    before = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    with StopSignals() as stop:
        Dropping()
        assert stop.dropped
        with pytest.raises(KeyboardInterrupt):
            time.sleep(30)
        assert (stop.code, stop.dropped) == (143, False)
    assert (signal.getsignal(signal.SIGALRM), sys.unraisablehook) == before
    with StopSignals() as stop:
        stop.deferred = True
        Dropping()
        assert (stop.code, stop.dropped) == (143, False)


@pytest.mark.parametrize("deferred, code, text", [
    (False, 130, "bitstep info: interrupted\n"),
    (True, 1, "bitstep info: error: no space for the model\n")])
def test_errors_once_nothing_is_to_be_stopped(monkeypatch, capsys, deferred, code, text):
    """An error may follow from a signal that was dropped, but not where signals are only noted."""
    def run(arguments):
        stop_signals.dropped, stop_signals.deferred = True, deferred
        raise OSError("no space for the model")

    monkeypatch.setattr("bitstep.cli.info.run", run)
    assert main(["info"]) == code
    assert capsys.readouterr().err == text


def test_exceptions_that_are_dropped_for_other_reasons_are_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_type))

    class Failing:
        def __del__(self):
            raise KeyError

    with StopSignals():
        Failing()
    assert told == [KeyError]


def test_signal_in_callback_ends_training(numbers, tmp_path, monkeypatch, capsys):
    """The training ends at the next epoch, or with the error that followed from the callback."""
    def called(*_):
        os.kill(os.getpid(), signal.SIGTERM)    # SIGINT may be ignored, as in jobs of a shell

    call, callback = CommandWatch.__call__, ctypes.CFUNCTYPE(None)(called)

    def stop(watch, done):
        call(watch, done)
        callback()
        time.sleep(30)

    monkeypatch.setattr(CommandWatch, "__call__", stop)
    sgd = numbers[0], "--solver", "sgd", "--epochs", 20, "--report", tmp_path / "run.json"
    assert train(*sgd) == 143
    assert "the model is that of epoch 1 of 20" in capsys.readouterr().err
    report = json.loads((tmp_path / "run.json").read_text())
    assert (report["interrupted"], report["stopped_early"]) == (True, False)

    def fail(*_, **__):
        callback()
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr("bitstep.cli.train.open_device", fail)
    assert train(*sgd) == 143
    assert capsys.readouterr().err == "bitstep train: interrupted\n"


def test_signals_that_are_ignored_stay_so():
    """As in a shell's background job."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with StopSignals() as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.code == 143
    with stop:
        assert (stop.received, stop.code) == (None, 130)
        stop.deferred = True
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert stop_signals is not stop


# Files and disks

@pytest.mark.parametrize("option, name, message", [
    ("--checkpoint", "/no/folder/a", "/no/folder/a cannot be written: there is no folder"),
    ("--checkpoint", "x.npz", "or writes it for another option"),
    ("--checkpoint", "", "'' cannot be written"),
    ("--resume", "none", "--resume needs the file none, which is not there"),
    ("--resume", "", "--resume needs the file ''"),
    ("--init", "/", "--init needs the file /, which is not there"),
    ("--manifest", "none", "--manifest needs the file none"),
    ("--schedule", "none", "a readable text file of steps, not 'none'")])
def test_paths_are_checked_before_data_are_read(monkeypatch, capsys, option, name, message):
    monkeypatch.setattr("bitstep.cli.train.prepare", None)
    arguments = ["train", "data", "--out", "x.npz", "--device", "golden", option, name]
    if option == "--manifest":
        monkeypatch.setattr("bitstep.cli.train.device_options", lambda _: {})
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    assert code in (1, 2)
    assert message in capsys.readouterr().err


def test_bad_schedule_and_manifest_before_data_are_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bitstep.cli.train.prepare", None)
    steps = tmp_path / "steps.txt"
    steps.write_text("0.1\n-0.1\n")
    assert "must hold positive numbers only" in failed(capsys, "data", "--schedule", steps)
    empty = tmp_path / "empty.txt"
    empty.write_text("# none\n")
    assert f"The schedule file {empty} must hold at least 1 step, one an epoch, not 0" in failed(
        capsys, "data", "--schedule", empty)
    assert "must hold at least 3 steps" in failed(
        capsys, "data", "--schedule", steps, "--epochs", 3)
    monkeypatch.setattr("bitstep.cli.train.device_options", lambda _: {})
    assert "is no manifest of a bitstream" in failed(capsys, "data", "--manifest", steps)
    for suffix in (".bit", ".hwh"):
        (tmp_path / f"a{suffix}").touch()
    assert f"--bitfile needs the file {tmp_path / 'a.json'}" in wrong(
        capsys, "data", "--bitfile", tmp_path / "a.bit")


def test_names_that_the_output_has_no_letters_for(numbers, tmp_path):
    data, out = tmp_path / "mod\xe8le.csv", tmp_path / "mod\xe8le.npz"
    data.write_bytes(Path(numbers[0]).read_bytes())
    run = subprocess.run(
        [sys.executable, "-m", "bitstep", "train", data, "--solver", "sgd", "--device", "golden",
         "--epochs", "2", "--quiet", "--out", out], capture_output=True, timeout=60,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.endswith(b"mod\\xe8le.npz\n")
    assert out.exists()


@pytest.mark.parametrize("command", [["info"], ["bench", "--list-profiles"], ["--help"]])
def test_output_that_cannot_be_written(command):
    """A full disk is one line on standard error; who closes a pipe has seen enough."""
    program = [sys.executable, "-m", "bitstep", *command]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        run = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True,
                             env=environment, timeout=60)
    name = "bitstep info" if command == ["info"] else "bitstep"
    assert (run.returncode, run.stderr) == (1, (
        f"{name}: error: the output cannot be written: No space left on device; free some space "
        "there, or write to another folder\n"))
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed:
        run = subprocess.run(program, stdout=closed, stderr=subprocess.PIPE, text=True,
                             env=environment, timeout=60)
    assert (run.returncode, run.stderr) == (1, "")


def test_all_is_printed_before_the_device_closes(numbers, tmp_path):
    """Verilator ends the process where a waveform cannot be written, which is when it closes."""
    program = ("import os, sys, bitstep.cli\n"
               "from bitstep.devices.golden import GoldenDevice\n"
               "GoldenDevice.close = lambda device: os.abort()\n"
               "bitstep.cli.main(sys.argv[1:])\n")
    out = tmp_path / "model.npz"
    run = subprocess.run(
        [sys.executable, "-c", program, "train", numbers[0], "--epochs", "1", "--quiet",
         "--device", "golden", "--out", out], capture_output=True, text=True, timeout=60,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"})
    assert run.returncode == -signal.SIGABRT
    assert "Wall clock: " in run.stdout
    assert run.stdout.endswith(f"wrote {out}\n")


def test_a_waveform_that_is_not_written_is_not_told_of(numbers, tmp_path, capsys):
    kept = tmp_path / "run.ckpt"
    sgd = numbers[0], "--solver", "sgd", "--epochs", 3
    assert train(*sgd, "--checkpoint", kept) == 0
    capsys.readouterr()
    assert main([*map(str, ("train", *sgd, "--resume", kept, "--device", "sim", "--wave",
                            tmp_path / "run.fst"))]) == 0
    shown = capsys.readouterr()
    assert "is finished, so nothing is trained" in shown.err
    assert "run.fst" not in shown.out


def test_reserved_space(tmp_path):
    sizes = {str(tmp_path / name): 1000 for name in "ab"}
    with ReservedSpace(sizes) as space:
        assert list(tmp_path.iterdir()) == []
        space.release(str(tmp_path / "a"))
        space.release(str(tmp_path / "a"))
    huge = str(tmp_path / "huge")
    with pytest.raises(OSError, match=r"904 bytes are needed; free|too large") as no:
        ReservedSpace({**sizes, huge: 1 << 62})
    assert str(no.value).endswith(f"'{huge}'")


def test_reserved_space_without_fallocate(tmp_path, monkeypatch):
    def cannot(*_):
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", cannot)
    with ReservedSpace({str(tmp_path / "a"): 5000}) as space:
        file, = space._files.values()
        assert os.fstat(file.fileno()).st_size == 5000
    with pytest.raises(OSError, match="No such file or directory"):
        ReservedSpace({"/no/folder/a": 1})


def test_files_that_cannot_be_written_are_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a\.txt'"):
        write_text(tmp_path / "a.txt", "x")


def full_for(monkeypatch, *names):
    """Let the models of such names fail to be written."""
    save = LinearModel.save

    def fail(self, path):
        if any(name in str(path) for name in names):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        save(self, path)

    monkeypatch.setattr(LinearModel, "save", fail)


def test_a_model_that_cannot_be_written_is_kept_elsewhere(numbers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    (tmp_path / "temporary").mkdir()
    whole, report = tmp_path / "whole.npz", tmp_path / "run.json"
    assert train(numbers[0], "--out", whole) == 0
    full_for(monkeypatch, "m.npz")
    text = failed(capsys, numbers[0], "--out", tmp_path / "m.npz", "--report", report)
    kept, = (tmp_path / "temporary").iterdir()
    assert f"the model is in {kept}: move it" in text
    assert f"{tmp_path / 'm.npz'} cannot be written ([Errno 28] No space left on device" in text
    assert load_model(kept).coef.tolist() == load_model(whole).coef.tolist()
    assert json.loads(report.read_text())["coef"] == load_model(whole).coef[0].tolist()
    # With a checkpoint it is there.
    text = failed(capsys, numbers[0], "--out", tmp_path / "m.npz", "--checkpoint",
                  tmp_path / "run.ckpt")
    assert f"the model is in the checkpoint {tmp_path / 'run.ckpt'}: the same command with" in text
    # Nowhere at all: it is printed.
    full_for(monkeypatch, "m.npz", "bitstep-model-")
    text = failed(capsys, numbers[0], "--out", tmp_path / "m.npz")
    assert json.loads(text.splitlines()[0])["coef"] == load_model(whole).coef.tolist()
    assert "the model is in no file: it is printed above" in text


def test_a_checkpoint_that_cannot_be_written_at_the_end(numbers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    save = Checkpoint.save

    def fail(self, path):
        if self.epochs_done > 5:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        save(self, path)

    monkeypatch.setattr(Checkpoint, "save", fail)
    sgd = numbers[0], "--solver", "sgd", "--epochs", 20
    text = failed(capsys, *sgd, "--checkpoint", tmp_path / "run.ckpt")
    assert "warning: the checkpoint cannot be written" in text
    assert f"the model is in {tmp_path / f'bitstep-model-{os.getpid()}.npz'}" in text
    assert load_checkpoint(tmp_path / "run.ckpt").epochs_done == 5
    # Where the model has a file of its own, it is there.
    text = failed(capsys, *sgd, "--checkpoint", tmp_path / "b.ckpt", "--out", tmp_path / "m.npz")
    assert "the model is in" not in text
    assert load_model(tmp_path / "m.npz").config["epochs"] == 20


def test_who_stops_reading_loses_no_model(numbers, tmp_path, monkeypatch):
    def closed(_):
        raise BrokenPipeError

    monkeypatch.setattr("bitstep.cli.train.print_report", closed)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    assert train(numbers[0], "--out", tmp_path / "m.npz") == 1
    assert load_model(tmp_path / "m.npz").n_features == 3


def test_sizes_are_estimated_from_above(numbers, tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(outputs, "ReservedSpace", lambda sizes: found.append(sizes) or
                        ReservedSpace(sizes))
    names = [str(tmp_path / name) for name in ("m.npz", "run.json", "loss.png", "run.ckpt")]
    assert train("digits", "--train-rows", 200, "--epochs", 9, "--out", names[0], "--report",
                 names[1], "--plot", names[2], "--checkpoint", names[3]) == 0
    assert list(found[0]) == names
    for name in names:
        assert os.path.getsize(name) <= found[0][name]
