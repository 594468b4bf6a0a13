"""Bad input where a user meets it: the command ends with code 1 and one message worth reading.

Details of each reader and check are tested beside them; the simulated board's part is
tests/sim/board/test_command_line.py.
"""

import contextlib
import dataclasses
import errno
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitstep.cli import build_parser, main
from bitstep.cli.words import in_options
from bitstep.quantization import load_quantized, save_quantized
from bitstep.training.files.model_file import load_model

ROWS = np.random.default_rng(0).uniform(0, 10, (30, 3))
TARGETS = ROWS @ [1.0, -2.0, 0.5] + 3


def archive(**arrays):
    """Content of an .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def fails(capsys, *arguments):
    """Run a command that must fail with one line; return what it says after "error: "."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    head, separator, message = shown.err.partition(": error: ")
    assert (head, separator) == (f"bitstep {arguments[0]}", ": error: ")
    assert message.endswith("\n")
    assert message.count("\n") == 1, "more than one line"
    return message[:-1]


BAD_FILES = {
    # Malformed and ragged
    "text.csv": (b"1,2,3\n1,x,3\n", "line 2, column 2: found 'x'; every feature must be a finite"),
    "ragged.csv": (b"1,2,3\n1,2\n4,5,6\n", "line 2: found 2 columns; every row must have 3"),
    "returns.csv": (b"a,b,c\r1,2,3\r4,5,6\r", "lines must end in LF, or in CR and LF, not in CR"),
    "returns.svm": (b"1 1:2\r-1 1:3\r", "lines must end in LF, or in CR and LF, not in CR alone"),
    "binary.csv": (bytes(range(256)) * 9, "line 1: found bytes that are no text in UTF-8"),
    "cut.csv.gz": (gzip.compress(b"1,2,3\n" * 999)[:-9], "must be a whole .gz file; copy or"),
    "text.svm": (b"1 1:2\n1 1:x\n", "line 2: found '1:x'; a line must be a label followed by"),
    "order.svm": (b"1 2:1 1:2\n", "found '1:2'; the indices of a line must increase"),
    "binary.svm": (bytes(range(256)) * 9, "line 1: found '\\x00"),
    "binary.npz": (bytes(range(256)) * 9, "it is no .npz archive, or it was cut short); it must"),
    "cut.npz": (archive(X=ROWS, y=TARGETS)[:-30], "it was cut short); it must be a whole .npz"),
    "names.npz": (archive(A=ROWS), "found the arrays A; there must be X (features) and y (labels)"),
    "pickle.npz": (archive(X=np.array([{}], object), y=TARGETS), "must be arrays of numbers"),
    "shape.npz": (archive(X=TARGETS, y=TARGETS), "X must hold numbers in shape (rows, columns)"),
    "length.npz": (archive(X=ROWS, y=TARGETS[:4]), "y must have a label for each row of X, shape "),
    "words.npz": (archive(X=ROWS, y=["a", "1"] * 15), "found 'a' (row 0) and '1' (row 1, counted"),
    # A line of names that is read as a row, and columns that a separator adds
    "years.csv": (b"2019,2020,y\n1,2,0.5\n",
                  "in a value; if line 1 holds the names of the columns, none may be a number"),
    "end.csv": (b"a,b,y,\n1,2,3,\n", "fill it in; the column has no name either: lines that end"),
    # Commas within numbers
    "thousands.csv": (b'a,b,y\n"1,250",3,1\n', "write it without commas between thousands"),
    "decimals.csv": (b'a,b,y\n"1,25",3,1\n', "write a decimal point in place of the comma"),
    "german.csv": (b"a;b;y\n1,250;3;1\n", "write a decimal point in place of the comma"),
    # NaN and infinity
    "nan.csv": (b"1,2,3\n1,nan,3\n", "line 2, column 2: found 'nan'; every feature must be a"),
    "infinite.csv": (b"1,2,inf\n", "line 1, column 3: found 'inf'; every label must be a"),
    "nan.svm": (b"1 1:1\n1 1:nan\n", "line 2: found '1:nan'; values must be finite; remove the"),
    "infinite.svm": (b"1 1:1e999\n", "line 1: found '1:1e999'; values must be finite in 64-bit"),
    "nan.npz": (archive(X=[[1, 2], [3, np.nan]], y=[1.0, 2]), "not nan (row 1, column 1, counted"),
    "infinite.npz": (archive(X=[[1.0], [3.0]], y=[1.0, np.inf]), "labels must be finite, not inf"),
    # Zero rows
    "empty.csv": (b"", "the file has no rows; each line must hold numbers"),
    "head.csv": (b"a,b,label\n", "the file has no rows below the line of names"),
    "empty.svm": (b"# nothing\n\n", "the file has no rows; each line must hold a label"),
    "empty.npz": (archive(X=ROWS[:0], y=TARGETS[:0]), "the file has no rows; X must have at least"),
    # Too many features
    "index.svm": (b"1 1048577:1\n", "an index must be at most 1048576; leave out columns"),
    "wide.npz": (archive(X=np.zeros((1, (1 << 20) + 1), np.float32), y=[1.0]),
                 "1 to 1048576 columns, not shape (1, 1048577)"),
    # Labels out of range
    "large.npz": (archive(X=ROWS, y=np.where(TARGETS > 0, 1e200, -1e200)),
                  "below 1e+100 in magnitude, not -1e+200 to 1e+200; scale them"),
    "tiny.npz": (archive(X=ROWS, y=np.where(TARGETS > 0, 1e-310, 2e-310)),
                 "must be all the same or have a range of at least 1e-100, not 1e-310 to 2e-310"),
    "range.svm": (b"1e999 1:1\n", "found '1e999'; values must be finite in 64-bit"),
    # Columns out of range
    "small.npz": (archive(X=ROWS * 1e-320, y=TARGETS), "Feature 0 (counted from 0) must have a"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file(tmp_path, capsys, name):
    content, message = BAD_FILES[name]
    path, out = tmp_path / name, tmp_path / "model.npz"
    path.write_bytes(content)
    found = fails(capsys, "train", path, "--model", "linreg", "--device", "golden", "--out", out)
    assert message in found
    assert not out.exists()


def test_a_label_that_is_missing_below_its_name(tmp_path, capsys):
    """No separator has added a column."""
    (tmp_path / "blank.csv").write_text("a,b,y\n1,2,\n")
    assert fails(capsys, "train", tmp_path / "blank.csv").endswith("remove the row or fill it in")


@pytest.mark.parametrize("name", ["nan.csv", "infinite.csv", "nan.svm", "nan.npz", "small.npz"])
def test_bad_file_for_floating_point_rows(tmp_path, capsys, name):
    """Single precision has NaN and infinity, but no pipeline ever sees one."""
    content, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    for command in (["train", tmp_path / name, "--device", "golden", "--epochs", 1],
                    ["quantize", tmp_path / name, "--out", tmp_path / "q.npz"]):
        if name != "small.npz" or command[0] == "train":
            assert message in fails(capsys, *command, "--model", "linreg", "--bits", 32)
    assert not (tmp_path / "q.npz").exists()


@pytest.mark.parametrize("options", [["--model", "ls-svm"], ["--model", "svm"],
                                     ["--model", "ls-svm", "--no-shuffle", "--train-rows", 4]])
@pytest.mark.parametrize("command", [["train", "--device", "golden"], ["quantize", "--out", "OUT"]])
def test_one_class(tmp_path, capsys, options, command):
    path = tmp_path / "one.npz"
    labels = np.ones(30) if len(options) == 2 else np.arange(30) // 15
    path.write_bytes(archive(X=ROWS, y=labels))
    command = [tmp_path / "q.npz" if part == "OUT" else part for part in command]
    assert "must have two classes, but every label is" in fails(
        capsys, command[0], path, *command[1:], *options)


def test_labels_that_are_no_classes(tmp_path, capsys):
    path, model = tmp_path / "data.npz", tmp_path / "model.npz"
    path.write_bytes(archive(X=np.ones((300, 2)), y=np.arange(300.0)))
    for command in (["train", path, "--device", "golden"],
                    ["quantize", path, "--out", tmp_path / "q.npz"]):
        assert "take 300 values, more than the 256 classes that ls-svm accepts; use --model" in \
            fails(capsys, *command, "--model", "ls-svm")
    path.write_bytes(archive(X=ROWS, y=TARGETS > 0))
    assert main(["train", str(path), "--device", "golden", "--out", str(model)]) == 0
    path.write_bytes(archive(X=ROWS, y=TARGETS))
    assert "The model tells classes 0, 1 apart, the labels of" in fails(
        capsys, "predict", model, path)


def test_constant_columns(tmp_path):
    """No error: such a column has no weight, and the intercept takes what it stands for."""
    path, report = tmp_path / "data.npz", tmp_path / "run.json"
    for features in (np.column_stack([ROWS, np.full(30, 7.0)]), np.full((30, 2), -1e9)):
        path.write_bytes(archive(X=features, y=TARGETS))
        assert main(["train", str(path), "--device", "golden", "--epochs", "200", "--bits", "8",
                     "--schedule", "inverse-sqrt", "--report", str(report)]) == 0
        found = json.loads(report.read_text())
        assert found["coef"][-1] == 0
    assert found["intercept"] == pytest.approx(TARGETS.mean(), abs=0.5)
    path.write_bytes(archive(X=ROWS, y=np.full(30, 5.0)))
    assert main(["train", str(path), "--device", "golden", "--report", str(report)]) == 0
    assert json.loads(report.read_text())["history"][-1]["train_loss"] == 0


def test_many_features_take_a_larger_pipeline(tmp_path):
    path, report = tmp_path / "wide.npz", tmp_path / "run.json"
    path.write_bytes(archive(X=np.random.default_rng(0).normal(size=(20, 5000)), y=np.arange(20.)))
    assert main(["train", str(path), "--device", "golden", "--epochs", "2", "--report",
                 str(report)]) == 0
    assert json.loads(report.read_text())["config"]["pipeline"]["max_features"] == 8192


def damaged(content, how):
    """A file's content, cut short, with a bit changed in the middle, empty, or compressed by a
    method that nobody knows.
    """
    if how == "cut":
        return content[:len(content) // 2]
    if how == "empty":
        return b""
    if how == "method":
        place = content.rindex(b"PK\x01\x02") + 10     # of the last member
        return content[:place] + b"\x61" + content[place + 1:]
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1:]


@pytest.mark.parametrize("how, message", [
    ("cut", "it is no .npz archive, or it was cut short"), ("empty", "or it was cut short"),
    *((how, "the file is damaged or was cut short") for how in ("changed", "method"))])
def test_corrupt_quantized_file(tmp_path, capsys, how, message):
    data, quantized = tmp_path / "data.npz", tmp_path / "quantized.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS > 0))
    for model in ("ls-svm", "svm"):         # without and with fine rows
        # With this scaler the middle of the file is no padding between arrays.
        assert main(["quantize", str(data), "--out", str(quantized), "--model", model, "--scaler",
                     "minmax"]) == 0
        quantized.write_bytes(damaged(quantized.read_bytes(), how))
        assert message in fails(capsys, "train", quantized, "--device", "golden")
        assert message in fails(capsys, "info", quantized)


@pytest.mark.parametrize("how", ["cut", "empty", "changed", "method"])
def test_corrupt_model_file(tmp_path, capsys, how):
    data, model = tmp_path / "data.npz", tmp_path / "model.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS))
    assert main(["train", str(data), "--device", "golden", "--out", str(model)]) == 0
    model.write_bytes(damaged(model.read_bytes(), how))
    assert "it is damaged" in fails(capsys, "predict", model, data)


def test_model_of_another_configuration(tmp_path, capsys):
    """Another number of features, other bits, another encoding, and no model at all."""
    data, model, quantized = (str(tmp_path / name) for name in ("d.npz", "m.npz", "p.npz"))
    (tmp_path / "d.npz").write_bytes(archive(X=ROWS, y=TARGETS))
    (tmp_path / "narrow.npz").write_bytes(archive(X=ROWS[:, :2], y=TARGETS))
    command = ["train", data, "--device", "golden", "--out", model]
    assert main(command) == 0
    assert main(["quantize", data, "--out", quantized]) == 0
    assert f"trained with 16 bits bit_planes, {quantized} holds 4 bits compensated: quantize" in \
        fails(capsys, "predict", model, quantized)
    assert main([*command, "--solver", "sgd", "--epochs", "5"]) == 0
    assert load_model(model).n_features == 3
    assert "trained on 3 features, the data have 2: use the data set it was trained for" in fails(
        capsys, "predict", model, tmp_path / "narrow.npz")
    for options, has in ((["--bits", "3"], "3 bits compensated"),
                         (["--encoding", "double"], "4 bits double")):
        assert main(["quantize", data, "--out", quantized, *options]) == 0
        assert f"trained with 4 bits compensated, {quantized} holds {has}: quantize it like" in \
            fails(capsys, "predict", model, quantized)
    assert "this is not a model file" in fails(capsys, "predict", quantized, data)
    assert "this is not a model file" in fails(capsys, "predict", data, data)


def test_fine_copy_of_other_rows(tmp_path, capsys):
    """Whole files of the right sizes, but the copy is not that of the codes."""
    data, quantized = tmp_path / "data.npz", tmp_path / "quantized.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS > 0))
    assert main(["quantize", str(data), "--out", str(quantized), "--model", "svm"]) == 0
    stored = load_quantized(quantized)
    assert stored.fine_rows is not None
    rows = dataclasses.replace(stored.rows, fine_rows=stored.fine_rows[::-1].copy())
    save_quantized(dataclasses.replace(stored, rows=rows), quantized)
    assert "quantize again" in fails(capsys, "train", quantized, "--model", "svm", "--device",
                                     "golden")


@pytest.mark.parametrize("model", ["l2-svm", "svm", "logistic"])
def test_step_that_overflows_with_another_loss(tmp_path, capsys, model):
    data = tmp_path / "data.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS > 0))
    message = fails(capsys, "train", data, "--device", "golden", "--model", model, "--step", 3000,
                    "--model-range", 128)
    assert "Training left the number range in epoch 1: a weight or the intercept" in message
    assert message.endswith("(the first step was 3000, try --step 750 or --step auto)")


def test_steps_of_a_file_or_a_sweep_that_overflow(tmp_path, capsys):
    """The advice names where the steps are: ``--step`` is refused besides a file or a sweep."""
    data, steps = tmp_path / "data.npz", tmp_path / "steps.txt"
    data.write_bytes(archive(X=ROWS, y=TARGETS))
    steps.write_text("3000\n2000\n")
    command = ["train", data, "--device", "golden", "--model-range", 1]
    assert fails(capsys, *command, "--schedule", steps).endswith(
        f"(the first step was 3000, try smaller ones in {steps})")
    assert fails(capsys, *command, "--sweep", "step=3000,4000").endswith(
        "(the first step was 3000, try --sweep step=750,...)")
    assert fails(capsys, *command, "--sweep", "l2=0,1", "--step", 3000).endswith(
        "(the first step was 3000, try --step 750 or --step auto)")


def test_range_that_has_grown_as_far_as_it_does(tmp_path, capsys):
    data = tmp_path / "data.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS > 0))
    message = fails(capsys, "train", data, "--device", "golden", "--model", "l2-svm", "--step",
                    3000, "--quiet")
    assert "has grown as far as it does by itself, to 131072 times the largest label, 5 rest" \
        in message
    assert "larger --model-range if the model itself is large (the first step was" in message


def test_range_that_grows_is_reported(tmp_path, capsys):
    """While it trains, in the text, and in the report; also of a sweep."""
    data, path = tmp_path / "data.npz", tmp_path / "run.json"
    data.write_bytes(archive(X=ROWS, y=TARGETS > 0))
    command = ["train", str(data), "--device", "golden", "--model", "logistic", "--report",
               str(path)]
    assert main([*command, "--step", "3000"]) == 0
    shown, report = capsys.readouterr(), json.loads(path.read_text())
    assert "training: a number left its range in epoch 1; training starts again" in shown.err
    ranges = [one["model_range"] for one in report["restarts"]]
    assert ranges == [512, 2048, 8192]
    assert report["restarts"][0] == {"output": 1, "epoch": 1, "model_range": 512}
    assert report["config"]["model_range"] == 8192
    assert "grew to 512 after a number left its range in epoch 1, then to 2048 after" in shown.out
    assert main([*command, "--sweep", "step=1,3000"]) == 0
    swept = json.loads(path.read_text())
    assert [one["model_range"] for one in swept["sweep"]] == [128, 8192]
    assert swept["coef"] == report["coef"]


@pytest.mark.parametrize("options, message", [
    (["--step", 300], "left the number range in epoch 1: a weight or the intercept. Choose a"),
    (["--step", 300], "a smaller step, or a larger --model-range if the model itself is large"),
    (["--step", 300], "(the first step was 300, try --step 75 or --step auto)"),
    (["--step", 300, "--bits", 2], "try --step 75 or --step auto or more --bits)"),
    (["--model-range", 0.01], "left the number range in epoch 1: a weight or the intercept")])
def test_step_that_overflows(tmp_path, capsys, options, message):
    data, out = tmp_path / "data.npz", tmp_path / "model.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS))
    assert message in fails(capsys, "train", data, "--device", "golden", "--out", out, *options)
    assert not out.exists()


def test_training_whose_updates_vanish(tmp_path, capsys):
    data = tmp_path / "data.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS))
    options = ["--device", "golden", "--step", "1e-8", "--epochs", "3", "--encoding", "nearest",
               "--bits", "8"]
    assert main(["train", str(data), *options, "--model-range", "8e6"]) == 0
    error = capsys.readouterr().err
    assert error.count("warning") == 1
    assert "the model did not change in 3 of 3 epochs (epoch 1 is the first): its updates" in error
    # The range that the steps ask for makes them count.
    assert main(["train", str(data), *options]) == 0
    assert "did not change" not in capsys.readouterr().err


def test_training_that_diverges_without_overflow(tmp_path, capsys):
    data = tmp_path / "data.npz"
    data.write_bytes(archive(X=ROWS, y=TARGETS))
    assert main(["train", str(data), "--device", "golden", "--step", "1", "--schedule", "constant",
                 "--epochs", "3", "--encoding", "nearest", "--model-range", "1e4"]) == 0
    error = capsys.readouterr().err
    assert "the training loss is 2819.56, but predicting the labels' mean has 25.4569; " in error
    assert error.endswith("the first step was 1, try --step 0.25 or --step auto\n")


@pytest.mark.parametrize("options, message", [
    (["--box", "1e-12"], "the least weight of this --model-range, not 1e-12"),
    (["--box", "1e-12"], "error: --box must be at least 4.18549e-06"),
    (["--model-range", "1e-12"], "or a larger --model-range if the model itself is large"),
    (["--train-rows", "5000"], "--train-rows must be from 1 to 442"),
    (["--early-stopping", "--train-rows", "1"], "error: --early-stopping holds rows out")])
def test_messages_speak_of_options(capsys, options, message):
    with contextlib.suppress(SystemExit):       # of wrong use
        assert main(["train", "diabetes", "--device", "golden", *options]) == 1
    assert message in capsys.readouterr().err


def test_only_parameters_become_options():
    parser: Any = build_parser()
    command = parser._subparsers._group_actions[0].choices["train"]
    for text in ("/data/train_rows/x.csv: no rows", "'model_range' is none", "fit_intercept=False",
                 "a box must be", "train_rows.csv", "my_train_rows"):
        assert in_options(text, command) == text


@pytest.fixture(params=["-", "/dev/stdin", "pipe", "pipe.csv", "pipe.npz"])
def stream(request, tmp_path, monkeypatch):
    """Standard input, or a pipe that nobody writes to."""
    monkeypatch.chdir(tmp_path)
    if request.param.startswith("pipe"):
        os.mkfifo(request.param)
    elif request.param != "-" and not Path(request.param).exists():
        pytest.skip(f"there is no {request.param}")
    reading, writing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    yield request.param
    os.dup2(before, 0)
    for descriptor in (before, reading, writing):
        os.close(descriptor)


def test_streams_in_place_of_files(stream, capsys):
    said = f"{stream}: this is standard input, a pipe or a device; DATA must be a file, since"
    np.savez("X.npz", X=ROWS, y=TARGETS)
    assert main(["train", "X.npz", "--device", "golden", "--epochs", "1", "--out", "m.npz"]) == 0
    for arguments in (["train", stream], ["quantize", stream, "--out", "q.npz"], ["info", stream],
                      ["predict", "m.npz", stream]):
        assert fails(capsys, *arguments).startswith(said)
    if stream != "-":
        assert "this is not a model file but standard input, a pipe" in fails(
            capsys, "predict", stream, "X.npz")


def test_outputs_that_would_replace_another_file(tmp_path, monkeypatch, capsys):
    """One that has the name of another, and one behind a name of the system."""
    def refused(*options):
        with pytest.raises(SystemExit) as stopped:
            main(["train", "X.npz", *options])
        assert stopped.value.code == 2
        return capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    np.savez("X.npz", X=ROWS, y=TARGETS)
    for options in (["--out", "same.npz", "--report", "./same.npz"], ["--out", "X.npz"]):
        assert "this command reads it, or writes it for another option; choose another" in \
            refused(*options)
    with open("kept", "w") as kept:
        name = f"/proc/self/fd/{kept.fileno()}"
        if not Path(name).exists():
            pytest.skip("there is no /proc")
        assert f"{name} cannot be written: it is no regular file" in refused("--out", name)


WRITERS = {
    "train": ["X.npz", "--device", "golden"], "quantize": ["X.npz"], "predict": ["m.npz", "X.npz"],
    "report": ["X.npz"], "doctor": ["--device", "sim"], "rtl": [], "bench": ["X.npz"],
    "curves": ["--quick"], "gradients": ["race", "fc"]}
OUTPUTS = {"report": "r.txt", "bench": "r.json", "curves": "folder", "gradients": "folder"}


@pytest.mark.parametrize("command", WRITERS)
def test_full_disk(command, tmp_path, monkeypatch, capsys):
    """It is found before the work, and the message says what, where and what to do."""
    monkeypatch.chdir(tmp_path)
    np.savez("X.npz", X=ROWS, y=TARGETS)
    assert main(["train", "X.npz", "--device", "golden", "--epochs", "1", "--out", "m.npz"]) == 0

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def work(*_, **__):
        raise AssertionError("work was begun before the output was checked")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    for name in ("bitstep.data.sources.read_file", "bitstep.data.sources.open_file"):
        monkeypatch.setattr(name, work)
    option, out = "--report" if command == "bench" else "--out", OUTPUTS.get(command, "out.npz")
    said = fails(capsys, command, *WRITERS[command], option, out)
    path = "folder/index.html" if out == "folder" else out
    assert said.startswith(f"{path} cannot be written: No space left on device: ")
    assert said.endswith(" bytes are needed; free some, or choose another folder")


def test_disk_that_is_full_later(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("X.npz", X=ROWS, y=TARGETS)
    assert main(["train", "X.npz", "--device", "golden", "--epochs", "1", "--out", "m.npz"]) == 0

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def read_only(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "fsync", full)
    assert fails(capsys, "predict", "m.npz", "X.npz", "--out", "p.txt") == (
        "p.txt cannot be written: No space left on device; free some space there, or write to "
        "another folder")
    monkeypatch.setattr(os, "fsync", read_only)
    assert fails(capsys, "predict", "m.npz", "X.npz", "--out", "p.txt") == (
        "p.txt cannot be written: Read-only file system; write to another folder")
