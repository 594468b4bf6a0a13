"""Bit-plane rows, planes and bit-centred training on the command line."""

import json

import numpy as np
import pytest
from command_line import train

from bitstep.cli import main
from bitstep.estimators import LowPrecisionRegressor
from bitstep.training.centred import smooth
from bitstep.training.files.checkpoint import load_checkpoint


@pytest.fixture(name="rows")
def _rows(tmp_path, capsys):
    """A file of bit-plane rows of diabetes."""
    path = tmp_path / "rows.npz"
    assert main(["quantize", "diabetes", "--bit-planes", "--out", str(path)]) == 0
    assert "442 rows of 10 features for a regression, 16 bits bit_planes" in capsys.readouterr().out
    return path


def report_of(tmp_path, *arguments):
    path = tmp_path / "run.json"
    assert train(*arguments, "--report", path) == 0
    return json.loads(path.read_text())


def test_one_file_at_every_precision(tmp_path, rows):
    """The same file as the same rows, read at 1 to 16 bits."""
    beats = {}
    for planes in (1, 2, 4, 8, 16):
        found = report_of(tmp_path, rows, "--planes", planes, "--epochs", 2, "--device", "golden")
        assert [entry["planes"] for entry in found["history"]] == [planes] * 2
        beats[planes] = found["counters"]["beats"]
        direct = report_of(tmp_path, "diabetes", "--planes", planes, "--epochs", 2, "--device",
                           "golden")
        assert direct["coef"] == found["coef"]
    assert [beats[planes] / beats[1] for planes in beats] == [1, 2, 4, 8, 16]


def test_one_file_for_every_bus(tmp_path, rows):
    """A board with a wider bus reads the same file, with fewer beats, to the same model."""
    found = [report_of(tmp_path, rows, "--planes", 3, "--epochs", 2, "--device", "golden", *bus)
             for bus in ([], ["--bus-width", 64], ["--bus-width", 256])]
    assert found[0]["coef"] == found[1]["coef"] == found[2]["coef"]
    assert [one["counters"]["beats"] / found[2]["counters"]["beats"] for one in found] == [4, 4, 1]


@pytest.mark.parametrize("options", [
    ["--bits", "4"], ["--bits", "3", "--encoding", "double"], ["--bits", "5", "--copies", "2"],
    ["--bits", "3", "--levels", "optimal", "--encoding", "stochastic"]])
def test_one_file_of_codes_for_every_bus(tmp_path, options):
    """Likewise: the codes are put into other beats."""
    stored = str(tmp_path / "rows.npz")
    assert main(["quantize", "diabetes", "--out", stored, *options]) == 0
    found = [report_of(tmp_path, stored, "--solver", "sgd", "--epochs", 3, "--device", "golden",
                       *bus) for bus in ([], ["--bus-width", 128], ["--bus-width", 512])]
    assert found[0]["coef"] == found[1]["coef"] == found[2]["coef"]
    assert [one["config"]["pipeline"]["bus_width"] for one in found] == [64, 128, 512]


def test_bit_centred(tmp_path, rows, capsys):
    out = tmp_path / "model.npz"
    found = report_of(tmp_path, rows, "--solver", "bit-centred", "--planes", 4, "--epochs", 12,
                      "--tol", "1e-3", "--out", out)
    losses = [entry["train_loss"] for entry in found["history"]]
    assert losses == sorted(losses, reverse=True)
    assert 3 < len(losses) < 12
    assert found["config"]["solver"] == "bit-centred"
    assert "planes" in capsys.readouterr().out
    loaded = LowPrecisionRegressor.load(out)
    assert (loaded.solver, loaded.planes, loaded.tol) == ("bit-centred", [4] * 12, 1e-3)
    np.testing.assert_array_equal(loaded.coef_, found["coef"])


def test_few_rows_have_full_passes(tmp_path):
    """And a training that goes on, or again, leaves planes open as this one did."""
    out = tmp_path / "model.npz"
    found = report_of(tmp_path, "diabetes", "--out", out)
    assert [entry["planes"] for entry in found["history"]] == [16]
    assert found["config"]["planes"] == "auto"
    loaded = LowPrecisionRegressor.load(out)
    assert (loaded.solver, loaded.planes) == ("bit-centred", "auto")


def test_automatic_planes_are_the_default_of_a_file(tmp_path, rows):
    found = report_of(tmp_path, rows, "--epochs", 3, "--schedule", "constant")
    assert found["history"][0]["planes"] == 2
    assert found["config"]["planes"] == "auto"


def test_planes_resume(tmp_path, rows):
    options = (rows, "--planes", "2,4,8", "--batch", 3)
    whole = report_of(tmp_path, *options, "--epochs", 4)
    kept = tmp_path / "kept.npz"
    again = report_of(tmp_path, *options, "--epochs", 4, "--checkpoint", kept)
    assert again["coef"] == whole["coef"]
    assert report_of(tmp_path, *options, "--epochs", 4, "--resume", kept)["coef"] == whole["coef"]


@pytest.mark.parametrize("data, options", [
    ("diabetes", ["--solver", "bit-centred", "--planes", "1,2,4", "--l2", 0.01]),
    ("diabetes", ["--planes", "auto", "--schedule", "constant"]),
    ("three", ["--solver", "bit-centred", "--model", "logistic", "--l2", 0.01, "--tol", 1e-3]),
    ("three", ["--solver", "bit-centred", "--model", "ls-svm", "--tol", 1e-4]),
    ("three", ["--planes", "auto", "--model", "l2-svm"])])
def test_resumed_runs_are_those_of_one_piece(tmp_path, monkeypatch, numbers, data, options):
    """Stopped after the first epoch, after one in the middle and before the last."""
    data = numbers[2] if data == "three" else data
    epochs = [data, "--epochs", 7, *options]
    whole = report_of(tmp_path, *epochs, "--out", tmp_path / "whole.npz")
    outputs = 3 if "three" in str(data) else 1
    done = len(whole["history"]) * outputs
    for stop in (1, done // 2, done - 1):
        kept = tmp_path / f"{stop}.ckpt"
        monkeypatch.setattr("bitstep.cli.train._watch", lambda *_, stop=stop: Stop(stop))
        train(*epochs, "--checkpoint", kept)
        monkeypatch.undo()
        assert 0 < load_checkpoint(kept).epochs_done < done
        again = report_of(tmp_path, *epochs, "--resume", kept, "--out", tmp_path / "parts.npz")
        assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "parts.npz").read_bytes()
        assert again["history"] == whole["history"]
        assert again["counters"]["beats"] == whole["counters"]["beats"]
        assert load_checkpoint(kept).finished
    monkeypatch.setattr("bitstep.cli.train.open_device", None)
    again = report_of(tmp_path, *epochs, "--resume", kept)      # nothing is left to train
    assert again["coef"] == whole["coef"]


class Stop:
    """Ctrl-C once so many epochs have been seen, in place of the progress bar."""

    def __init__(self, stop):
        self.left = stop

    def __enter__(self):
        return self.count

    def __exit__(self, *_):
        pass

    def count(self, done):
        if done >= self.left:
            raise KeyboardInterrupt


def test_a_checkpoint_of_another_solver_is_refused(tmp_path, monkeypatch, capsys):
    kept = tmp_path / "run.ckpt"
    options = ("diabetes", "--planes", 4, "--epochs", 3)
    monkeypatch.setattr("bitstep.cli.train._watch", lambda *_: Stop(1))
    train(*options, "--solver", "bit-centred", "--tol", 0.1, "--checkpoint", kept)
    monkeypatch.undo()
    refused(train, *options, "--resume", kept)
    text = capsys.readouterr().err
    assert "--solver is not given, the checkpoint's bit-centred" in text
    assert "--tol is not given, the checkpoint's 0.1" in text


@pytest.mark.parametrize("model, passes, planes", [
    ("l2-svm", 3, [[2] * 3, [4] * 3, [4] * 3]), ("logistic", 1, [2, 4, 4])])
def test_planes_bytes_and_gradient_are_reported(tmp_path, capsys, numbers, monkeypatch, model,
                                                passes, planes):
    """A class each has planes, unless all are trained together; bytes are those of an epoch."""
    monkeypatch.setattr(smooth, "SLOW", np.inf)     # so that no step refines
    plot = tmp_path / "run.svg"
    found = report_of(tmp_path, numbers[2], "--solver", "bit-centred", "--model", model,
                      "--l2", 0.01, "--planes", "2,4", "--epochs", 3, "--plot", plot)
    assert [entry["planes"] for entry in found["history"]] == planes
    rows = 64       # 60 rows of 4 bits a plane, in beats of 64 bytes
    # Full passes, inner passes, and the planes of the derivatives for the next inner passes; in the
    # end the full passes that certificates lack, of two of the classes.
    assert [entry["bytes_read"] for entry in found["history"]] == [
        passes * rows * (32 + 4 + 2 + 4), passes * rows * (16 + 8 + 4),
        passes * rows * (16 + 8 + 4) + (2 * rows * 16 if passes > 1 else 0)]
    assert sum(entry["bytes_read"] for entry in found["history"]) == 8 * found["counters"]["beats"]
    gradients = [entry["gradient"] for entry in found["history"]]
    assert 1 > gradients[0] > gradients[-1] > 0
    text = capsys.readouterr().out
    assert "gradient" in text
    assert "MB read" in text
    assert "bits read of a value" in plot.read_text()
    found = report_of(tmp_path, numbers[0], "--planes", "1,8", "--epochs", 2)
    assert [entry["bytes_read"] for entry in found["history"]] == [rows, 8 * rows]
    assert "gradient" not in found["history"][0]


def test_a_certificate_is_reported_with_l2(tmp_path, capsys, numbers):
    found = report_of(tmp_path, numbers[0], "--solver", "bit-centred", "--planes", 4, "--l2", 0.1,
                      "--epochs", 4)
    gaps = [entry["gap"] for entry in found["history"]]
    losses = [entry["train_loss"] for entry in found["history"]]
    assert 0 < gaps[-1] < gaps[0] < 10 * losses[0]
    text = capsys.readouterr().out
    assert f"Certificate: the objective is at most {gaps[-1]:.2g} above its least value" in text
    assert f"{gaps[0]:.2e}" in text
    found = report_of(tmp_path, numbers[0], "--solver", "bit-centred", "--l2", 0, "--epochs", 2)
    assert "gap" not in found["history"][0]
    assert "Certificate" not in capsys.readouterr().out


def test_copies_of_rows_have_no_certificate(tmp_path, numbers, monkeypatch):
    """As on a board without weights of rows: in place of 2.5 and 1 there are 5 and 2 copies, which
    is exact, but nothing is of pi.
    """
    monkeypatch.setattr("bitstep.cli.problem.go_along", lambda device: False)
    for weight, certified in ((2.5, True), (np.pi, False)):
        found = report_of(tmp_path, numbers[1], "--model", "logistic", "--solver", "bit-centred",
                          "--class-weight", f"5={weight}", "--l2", 0.1, "--epochs", 4)
        assert ("gap" in found["history"][0]) == certified


def test_a_goal_that_is_not_reached_is_said(tmp_path, capsys):
    options = ("diabetes", "--solver", "bit-centred", "--planes", 4, "--epochs", 2)
    assert train(*options, "--tol", 1e-9) == 0
    assert "warning: the gradient is 0.0" in (text := capsys.readouterr().err)
    assert "after 2 outer steps, more than 1e-09 times (tol): give more epochs" in text
    assert train(*options) == 0
    assert "after 2 outer steps, more than 0.0001 times (tol)" in capsys.readouterr().err
    assert train(*options, "--tol", 0) == 0
    assert "tol" not in capsys.readouterr().err


def refused(run, *arguments):
    """Run a command that must fail."""
    try:
        code = run(*arguments)
    except SystemExit as stop:
        code = stop.code
    assert code


@pytest.mark.parametrize("options, message", [
    (("--planes", "17"), "must be auto, or integers from 1 to 16 with commas between them, "),
    (("--planes", "4,"), "one an epoch, not '4,'"),])
def test_bad_options(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    refused(train, "diabetes", *options)
    assert message in capsys.readouterr().err


def test_sweep(capsys):
    """Candidates share the planes of each epoch."""
    assert train("diabetes", "--planes", "2,4", "--epochs", "3", "--sweep", "step=0.02,0.05") == 0
    text = capsys.readouterr().out
    assert "Best of 2 candidates" in text
    assert "planes" in text


def test_stored_rows_have_planes_of_their_own_accord(tmp_path, capsys):
    path = tmp_path / "rows.npz"
    assert main(["quantize", "diabetes", "--bit-planes", "--out", str(path)]) == 0
    refused(train, path, "--sweep", "step=0.02,0.05")
    assert "--sweep does not go together with --planes auto (by default)" in \
        capsys.readouterr().err


def test_files_of_fixed_bits_have_no_planes(tmp_path, capsys):
    path = tmp_path / "rows.npz"
    assert main(["quantize", "diabetes", "--out", str(path)]) == 0
    refused(train, path, "--solver", "bit-centred")
    assert "write them with `bitstep quantize --bit-planes`" in capsys.readouterr().err


def test_fine_rows_are_refused(tmp_path, capsys):
    out = str(tmp_path / "rows.npz")
    refused(main, ["quantize", "diabetes", "--bit-planes", "--fine-rows", "--out", out])
    assert "--bit-planes does not go together with --fine-rows" in capsys.readouterr().err
