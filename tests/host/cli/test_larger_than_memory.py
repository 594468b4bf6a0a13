"""Commands on files larger than they may have memory: peaks of real processes, and same results."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bitstep.cli import build_parser, main
from bitstep.cli import predict as predict_command
from bitstep.cli.advice import baseline
from bitstep.cli.train import make_request
from bitstep.data import load
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization import (
    LabelStream,
    load_quantized,
    quantize,
    quantize_labels,
    save_quantized,
)
from bitstep.training.files.model_file import LinearModel
from bitstep.training.losses import Moments
from bitstep.training.train import class_outputs, stored_outputs

MEGABYTE = 1 << 20
PEAK = """
import sys
from bitstep.cli import main
code = main(sys.argv[1:])
status = open("/proc/self/status").read()
print("peak", status.split("VmHWM:")[1].split()[0])
sys.exit(code)
"""

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(),
                                reason="there is no /proc to read the peak from")


def peak(*arguments):
    """Peak resident bytes of a command in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PEAK, *map(str, arguments)], check=True,
                          capture_output=True, text=True, timeout=300)
    found = re.search(r"peak (\d+)\n$", done.stdout)
    assert found
    return int(found[1]) * 1024


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 121 MB, and a model for it."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    np.save(folder / "large.npy", rng.standard_normal((300_000, 101), np.float32))
    LinearModel(np.ones((1, 100)), np.zeros(1), np.zeros(0),
                {"bits": 8, "encoding": "nearest"}).save(folder / "model.npz")
    return folder


@needs_proc
def test_peaks(large):
    """Far below the file, and with stored rows at most 1.5 times them and 64 MB."""
    least = peak("info", "--registers")
    source, stored = large / "large.npy", large / "quantized.npz"
    assert source.stat().st_size > 110 * MEGABYTE
    options = ["--out", stored, "--bits", "8", "--encoding", "nearest"]
    assert peak("quantize", source, *options, "--no-shuffle") < least + 45 * MEGABYTE
    assert peak("predict", large / "model.npz", source) < least + 45 * MEGABYTE
    rows = load_quantized(stored).rows.stored[0].nbytes
    assert rows > 29 * MEGABYTE
    assert peak("predict", large / "model.npz", stored) < 1.5 * rows + 64e6


AROUND_A_DEVICE = """
import sys
import numpy as np
from bitstep.cli import build_parser
from bitstep.cli.advice import baseline
from bitstep.cli.train import make_request
from bitstep.training.losses import code_losses
from bitstep.training.planning import plan
request = make_request(build_parser("train").parse_args(
    ["train", sys.argv[1], "--model", "logistic", "--device", "golden"]))    # loads no numba
for data in request.problem.outputs:
    job = plan(data, request.config, request.objective, request.training).job
    assert job.rows[0].sum() > 0        # as a device reads them
    code_losses(data, np.ones((3, data.n_features)), np.ones(3), request.objective.loss)
assert baseline(request.problem) > 0
status = open("/proc/self/status").read()
print("peak", status.split("VmHWM:")[1].split()[0])
"""


@needs_proc
@pytest.mark.parametrize(("n_features", "bits"), [
    (8, 1), pytest.param(100, 4, marks=pytest.mark.slow)])
def test_peak_of_a_training_around_the_device(tmp_path, n_features, bits):
    """Three classes of a file whose labels would fill much memory as numbers."""
    n_rows = 2_000_000 if n_features == 8 else 200_000
    data = quantize(np.random.default_rng(0).standard_normal((n_rows, n_features), np.float32),
                    np.arange(n_rows) % 3, bits=bits, encoding="nearest", task="classification")
    save_quantized(data, tmp_path / "q.npz")
    done = subprocess.run([sys.executable, "-c", AROUND_A_DEVICE, str(tmp_path / "q.npz")],
                          check=True, capture_output=True, text=True, timeout=300)
    assert int(done.stdout.split()[-1]) * 1024 < 1.5 * data.rows.stored[0].nbytes + 64e6


@needs_proc
def test_shuffled_rows_wait_on_the_disk(large, tmp_path):
    """120 MB of positions are one part; four parts need less."""
    source, out = large / "large.npy", tmp_path / "quantized.npz"
    program = PEAK.replace("code = main", "import bitstep.quantization.streaming as streaming\n"
                           "streaming.PART_BYTES = 30 << 20\ncode = main")
    peaks = []
    for text in (program, PEAK):
        done = subprocess.run([sys.executable, "-c", text, "quantize", str(source), "--out",
                               str(out)], check=True, capture_output=True, text=True, timeout=300)
        peaks.append(int(done.stdout.split()[-1]) * 1024)
    assert peaks[0] < peaks[1] - 40 * MEGABYTE
    assert peaks[1] < 128 * MEGABYTE + 120 * MEGABYTE


# Predictions in pieces

@pytest.fixture
def tiny_pieces(monkeypatch):
    monkeypatch.setattr(predict_command, "CHUNK_VALUES", 40)
    monkeypatch.setattr("bitstep.data.blocks.BLOCK_VALUES", 200)
    monkeypatch.setattr("bitstep.data.text.CHUNK_BYTES", 500)


@pytest.mark.parametrize("name", ["set.npz", "set.npy", "set.csv", "set.svm", "quantized.npz"])
@pytest.mark.parametrize("classes", [0, 2, 5])
def test_predictions(tmp_path, capsys, tiny_pieces, name, classes):
    """Those of the whole data set, with its accuracy, or its loss and R2."""
    rng = np.random.default_rng(1)
    features = rng.uniform(-1, 1, (301, 7)).round(4)
    features[:, -1] = 0         # LIBSVM text ends before it
    labels = rng.integers(0, classes, 301).astype(float) if classes else rng.normal(size=301) + 1e5
    if name == "set.npz":
        np.savez(tmp_path / name, X=features, y=labels)
    elif name == "set.npy":
        np.save(tmp_path / name, np.column_stack([features, labels]))
    elif name == "set.csv":
        np.savetxt(tmp_path / name, np.column_stack([features, labels]), "%.17g", ",")
    elif name == "set.svm":
        (tmp_path / name).write_text("".join(
            f"{label!r} " + " ".join(f"{column + 1}:{value}" for column, value in enumerate(row)
                                     if value) + "\n"
            for row, label in zip(features.tolist(), labels.tolist(), strict=True)))
    else:
        data = quantize(features, labels, bits=8, encoding="nearest",
                        task="classification" if classes else "regression")
        save_quantized(data, tmp_path / name)
        scaled, _ = data.rows.values(slice(None))
        features = scaled * data.scaler.scale + data.scaler.centre
        labels = data.label_values()
    outputs = {0: 1, 2: 1, 5: 5}[classes]
    offset = 0 if classes else 1e5
    model = LinearModel(rng.normal(size=(outputs, 7)), rng.normal(size=outputs) + offset,
                        np.arange(float(classes)), {"bits": 8, "encoding": "nearest"})
    model.save(tmp_path / "model.npz")
    out = tmp_path / "out.txt"
    assert main(["predict", str(tmp_path / "model.npz"), str(tmp_path / name), "--out",
                 str(out)]) == 0
    expected, shown = model.predict(features), capsys.readouterr().out
    np.testing.assert_allclose(np.loadtxt(out), expected, rtol=1e-14)
    if classes:
        right = int((expected == labels).sum())
        assert shown.startswith(f"accuracy {100 * right / 301:.2f} % on 301 rows ({right} of them")
    else:
        loss = np.mean((expected - labels) ** 2) / 2
        assert shown.startswith(f"loss {loss:.6g} (1/(2K) sum of squared residuals), R2 "
                                f"{1 - 2 * loss / np.var(labels):.4f} on 301 rows")


def test_data_of_another_model_leave_no_predictions(tmp_path, capsys, tiny_pieces):
    LinearModel(np.ones((1, 2)), np.zeros(1), np.array([0.0, 1.0])).save(tmp_path / "model.npz")
    (tmp_path / "set.svm").write_text("7 1:1 2:1\n" * 90 + "8 1:1\n9 1:2\n")
    (tmp_path / "wide.svm").write_text("1 1:1 2:1\n" * 90 + "0 1:1 3:4\n")
    for name, message in (
            ("set.svm", "tells classes 0, 1 apart, the labels of {} are 7, 8, 9: use"),
            ("wide.svm", "was trained on 2 features, the data have at least 3: use")):
        assert main(["predict", str(tmp_path / "model.npz"), str(tmp_path / name), "--out",
                     str(tmp_path / "out.txt")]) == 1
        assert message.format(tmp_path / name) in capsys.readouterr().err
        assert not (tmp_path / "out.txt").exists()
    (tmp_path / "some.svm").write_text("7 1:1\n" * 90 + "1 1:1\n")      # one that it knows
    assert main(["predict", str(tmp_path / "model.npz"), str(tmp_path / "some.svm")]) == 0
    assert capsys.readouterr().out == ("accuracy 1.10 % on 91 rows (1 of them right; 90 are of "
                                       "classes that the model was not trained on)\n")


def test_libsvm_text_whose_first_index_is_0(tmp_path):
    LinearModel(np.array([[1.0, 10.0]]), np.zeros(1), np.zeros(0)).save(tmp_path / "model.npz")
    (tmp_path / "set.svm").write_text("0 1:1 # 0:1\n0 1:2\n0  00:5 1:3\n")
    assert main(["predict", str(tmp_path / "model.npz"), str(tmp_path / "set.svm"), "--out",
                 str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text().split() == ["10.0", "20.0", "35.0"]
    np.testing.assert_array_equal(load(tmp_path / "set.svm").features, [[0, 1], [0, 2], [5, 3]])


# Labels and moments in blocks

@pytest.mark.parametrize(("label_format", "high"), [
    (LabelFormat.SIGN, 2), (LabelFormat.INT16, 100), (LabelFormat.INT32, 10_000_000)])
@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, (1 << 16) + 3])
def test_parts_of_labels(label_format, high, n_rows):
    labels = np.random.default_rng(n_rows).integers(0, high, n_rows).astype(float)
    labels[:2] = [0, 1][:n_rows]
    task = "classification" if high == 2 and n_rows > 1 else "regression"
    stream = quantize_labels(labels, n_rows, task=task,
                             label_bits=32 if label_format == LabelFormat.INT32 else 16)
    whole = stream.integers(n_rows)
    np.testing.assert_array_equal(np.concatenate(list(stream.blocks(n_rows))), whole)
    assert stream.largest(n_rows) == np.abs(whole).max()
    for start, stop in ((0, n_rows), (n_rows // 2, n_rows), (n_rows // 3, n_rows // 2 + 1)):
        np.testing.assert_array_equal(stream.part(start, stop), whole[start:stop])


@pytest.mark.parametrize("classes", [2, 3, 11])
@pytest.mark.parametrize("n_rows", [70, (1 << 16) + 70])
def test_outputs_of_stored_labels(classes, n_rows):
    labels = np.arange(n_rows) % classes * 1.5
    data = quantize(np.ones((n_rows, 1)), labels, bits=8, task="classification")
    expected = class_outputs(data.rows, labels, np.unique(labels))
    found = stored_outputs(data)
    assert len(found) == len(expected) == (1 if classes == 2 else classes)
    for mine, theirs in zip(found, expected, strict=True):
        assert isinstance(mine.labels, LabelStream)
        np.testing.assert_array_equal(mine.labels.stored, theirs.labels.stored)
        np.testing.assert_array_equal(mine.classes, theirs.classes)
        assert mine.rows is data.rows


def test_moments_do_not_cancel():
    values = np.random.default_rng(0).normal(size=1000) + 1e9
    moments = Moments()
    for part in np.split(values, [1, 3, 500]):
        moments.add(part)
    assert moments.count == 1000
    assert moments.mean == pytest.approx(values.mean(), rel=1e-15)
    assert moments.variance == pytest.approx(values.var(), rel=1e-9)


@pytest.mark.parametrize("model", ["linreg", "ls-svm", "l2-svm", "svm", "logistic"])
def test_the_best_constant_of_stored_labels(tmp_path, model):
    """That of the labels, up to the rounding of a regression's."""
    features = np.random.default_rng(0).normal(size=(500, 3))
    np.savez(tmp_path / "set.npz", X=features, y=np.where(features[:, 0] > 0.8, 7.0, -2.0))
    assert main(["quantize", str(tmp_path / "set.npz"), "--model", model, "--out",
                 str(tmp_path / "q.npz")]) == 0
    found = [baseline(make_request(build_parser().parse_args(
        ["train", str(tmp_path / name), "--model", model])).problem)
        for name in ("q.npz", "set.npz")]
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[0] > 0.1
