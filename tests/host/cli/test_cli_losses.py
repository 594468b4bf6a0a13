"""Models, losses, refetching and regularisers on the command line."""

import json
import re

import numpy as np
import pytest
from command_line import train
from sklearn.datasets import load_wine

from bitstep import LowPrecisionClassifier, LowPrecisionSearchCV
from bitstep.cli import main
from bitstep.data import load, split
from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.pipeline.losses import LOSSES, loss_named
from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize_rows
from bitstep.training import schedules
from bitstep.training.choices import resolve
from bitstep.training.files.model_file import load_model
from bitstep.training.losses import mean_losses
from bitstep.training.objective import Objective


def run_of(tmp_path, *arguments):
    """Report of a training run that must succeed."""
    path = tmp_path / "run.json"
    assert train(*arguments, "--report", path) == 0
    return json.loads(path.read_text())


@pytest.mark.parametrize("model, loss, bits, encoding", [
    ("ls-svm", "squared_error", 4, "compensated"), ("l2-svm", "squared_hinge", 8, "stochastic"),
    ("svm", "hinge", 8, "nearest"), ("logistic", "log_loss", 8, "stochastic")])
def test_models(tmp_path, capsys, model, loss, bits, encoding):
    """The loss of the report is the model's own, and rows suit the model."""
    out = tmp_path / "model.npz"
    found = run_of(tmp_path, "breast_cancer", "--model", model, "--solver", "sgd", "--epochs", 20,
                   "--train-rows", 400, "--out", out, "--plot", tmp_path / "loss.png")
    config = found["config"]
    assert [config[key] for key in ("model", "loss", "bits", "encoding", "refetch")] == \
        [model, loss, bits, encoding, model == "svm"]
    assert found["history"][-1]["test_metric"] > 0.94
    assert found["loss_on"] == "features"
    assert f"Loss: {loss_named(loss).text} over K rows.\n" in capsys.readouterr().out
    dataset, _ = split(load("breast_cancer"), 400, True, 0)
    margins = (2 * dataset.labels - 1) * (
        dataset.features @ found["coef"][0] + found["intercept"][0])
    expected = {"squared_error": (1 - margins) ** 2 / 2, "log_loss": np.log1p(np.exp(-margins)),
                "squared_hinge": np.maximum(1 - margins, 0) ** 2 / 2,
                "hinge": np.maximum(1 - margins, 0)}[loss]
    assert found["history"][-1]["train_loss"] == pytest.approx(expected.mean())
    saved = load_model(out)
    assert saved.config == config
    assert main(["predict", str(out), "breast_cancer"]) == 0
    right = (saved.predict(dataset.features) == dataset.labels).mean()
    assert right > 0.94


@pytest.mark.parametrize("bits", [3, 4])
def test_training_that_starts_again_tells_what_is_known(tmp_path, capsys, bits):
    """Of a run that left its range: its cycles, unless it fetches rows again."""
    path = tmp_path / "run.json"
    assert main(["train", "breast_cancer", "--model", "svm", "--bits", str(bits), "--step", "50",
                 "--epochs", "2", "--device", "cpu", "--report", str(path),
                 *["--no-refetch"] * (bits == 4)]) == 0
    found = json.loads(path.read_text())
    assert found["restarts"]
    counters, shown = found["counters"], capsys.readouterr().out
    assert counters["overflows"] is None
    if bits == 4:
        assert counters["beats"] > 2 * 569
    else:
        assert counters["beats"] is None
    assert ("Pipeline, by the cycle model" in shown) == (counters["cycles"] is not None) \
        == (bits == 4)
    assert ("number of rows that were read again is not known" in shown) \
        == (counters["refetched_rows"] is None) == (bits == 3)


def test_refetched_rows(tmp_path, capsys):
    """The line on refetching; it uses every row as a training at 16 bits would."""
    options = ("breast_cancer", "--model", "svm", "--epochs", 20, "--schedule", "inverse", "--bits")
    found = run_of(tmp_path, *options, 3)
    rows = found["counters"]["refetched_rows"]
    assert 0 < rows < 20 * 569
    assert f"Refetching: {rows:,} of 11,380 rows ({100 * rows / 11380:.2f} %) were read again" in \
        capsys.readouterr().out
    assert found["config"]["pipeline"]["refetch"]
    straw = run_of(tmp_path, *options, 3, "--no-refetch")
    assert straw["counters"]["refetched_rows"] == 0
    assert "Refetching: no; every row was used as quantized." in capsys.readouterr().out
    floats = run_of(tmp_path, *options, 32)
    assert "Refetching" not in capsys.readouterr().out
    last, straw_last, best = (run["history"][-1]["train_loss"] for run in (found, straw, floats))
    assert abs(last - best) < abs(straw_last - best)


def test_refetching_of_several_classes(tmp_path):
    found = run_of(tmp_path, "digits", "--model", "svm", "--epochs", 2, "--train-rows", 600)
    assert np.shape(found["coef"]) == (10, 64)
    assert found["history"][-1]["test_metric"] > 0.85
    assert 0 < found["counters"]["refetched_rows"] < 2 * 10 * 600


def test_floating_point_rows(numbers, tmp_path):
    for options in (["--bits", 32], ["--encoding", "float"]):
        found = run_of(tmp_path, numbers[0], *options, "--epochs", 30)
        assert (found["config"]["bits"], found["config"]["encoding"]) == (32, "float")
        assert found["config"]["pipeline"]["row_format"] == "float32"
        assert found["history"][-1]["train_loss"] < 0.5


def test_l1_and_box(numbers, tmp_path, capsys):
    plain, sparse, boxed = (run_of(tmp_path, numbers[0], "--epochs", 100, *options)
                            for options in ([], ["--l1", 4], ["--box", 2]))
    assert 0.0 not in plain["coef"]
    assert 0.0 in sparse["coef"]
    half_ranges = np.ptp(np.loadtxt(numbers[0], delimiter=",")[:, :3], axis=0) / 2
    assert np.abs(boxed["coef"] * half_ranges).max() == pytest.approx(2)
    assert (sparse["config"]["l1"], sparse["config"]["box"]) == (4, None)
    assert boxed["config"]["pipeline"]["proximal"]
    assert not plain["config"]["pipeline"]["proximal"]
    capsys.readouterr()
    run_of(tmp_path, "breast_cancer", "--model", "svm", "--step", 15, "--epochs", 1, "--box", 0.01,
           "--l1", 0.001)
    error = capsys.readouterr().err
    assert "but predicting the best constant has 0.745167; the first step was 15, try --st" in error
    assert error.endswith("or --step auto or a smaller --l1 or a larger --box\n")


def test_quantized_file_for_refetching(tmp_path, capsys):
    stored, straw, whole = (str(tmp_path / name) for name in ("a.npz", "b.npz", "c.npz"))
    assert main(["quantize", "breast_cancer", "--model", "svm", "--out", stored]) == 0
    assert "8 bits nearest, 18,208 bytes of rows, and a copy with 16 bits a value" \
        in capsys.readouterr().out
    assert main(["info", stored]) == 0
    assert "fine rows        a copy with 16 bits a value" in capsys.readouterr().out
    codes = run_of(tmp_path, stored, "--model", "svm", "--epochs", 20)
    assert "over K rows, as fine rows (there are no features)" in capsys.readouterr().out
    features = run_of(tmp_path, "breast_cancer", "--model", "svm", "--epochs", 20)
    assert codes["coef"] == features["coef"]
    assert codes["loss_on"] == "fine_rows"
    assert codes["history"][-1]["train_loss"] == pytest.approx(
        features["history"][-1]["train_loss"], rel=1e-4)
    assert codes["counters"]["refetched_rows"] == features["counters"]["refetched_rows"]

    assert main(["quantize", "breast_cancer", "--model", "svm", "--no-fine-rows", "--out",
                 straw]) == 0
    found = run_of(tmp_path, straw, "--model", "svm", "--epochs", 3)
    assert not found["config"]["refetch"]
    assert found["loss_on"] == "codes"
    assert f"note: {straw} has no fine rows, so rows are used as quantized; `bitstep" \
        in capsys.readouterr().err
    run_of(tmp_path, straw, "--model", "svm", "--no-refetch", "--epochs", 3)
    assert capsys.readouterr().err == ""
    found = run_of(tmp_path, straw, "--model", "svm", "--batch", 16, "--epochs", 3)
    assert (found["config"]["refetch"], found["config"]["batch"]) == (False, 16)
    drawn = str(tmp_path / "d.npz")
    assert main(["quantize", "breast_cancer", "--model", "svm", "--encoding", "stochastic",
                 "--copies", "2", "--out", drawn]) == 0
    assert run_of(tmp_path, drawn, "--model", "svm", "--copies", 2, "--epochs", 2)

    # With another model or more classes, too.
    assert main(["quantize", "digits", "--bits", "6", "--encoding", "stochastic", "--fine-rows",
                 "--out", whole]) == 0
    for model in ("svm", "logistic", "l2-svm", "ls-svm"):
        found = run_of(tmp_path, whole, "--model", model, "--epochs", 1)
        assert found["config"]["model"] == model
        assert found["config"]["refetch"] == (model == "svm")


@pytest.mark.parametrize("number, model", [(0, "linreg"), (0, "huber"), (2, "ls-svm")])
@pytest.mark.parametrize("rows", [[], ["--bits", "32"]])
def test_quantized_file_without_an_intercept(tmp_path, numbers, number, model, rows):
    stored = str(tmp_path / "stored.npz")
    assert main(["quantize", numbers[number], "--model", model, "--no-intercept", *rows, "--out",
                 stored]) == 0
    codes, features = (run_of(tmp_path, data, "--model", model, "--solver", "sgd", "--epochs", 3,
                              "--no-intercept", *options)
                       for data, options in ((stored, []), (numbers[number], rows)))
    assert codes["coef"] == features["coef"]
    assert not np.any(codes["intercept"])
    run_of(tmp_path, stored, "--model", model, "--epochs", 3)       # or with one


def test_quantized_floating_point_file(tmp_path, capsys):
    stored, out = str(tmp_path / "quantized.npz"), str(tmp_path / "m.npz")
    assert main(["quantize", "diabetes", "--bits", "32", "--out", stored]) == 0
    assert main(["info", stored]) == 0
    assert "fine rows        all rows are exact" in capsys.readouterr().out
    codes = run_of(tmp_path, stored, "--epochs", 5, "--out", out)
    features = run_of(tmp_path, "diabetes", "--bits", 32, "--epochs", 5)
    assert codes["coef"] == features["coef"]
    assert codes["loss_on"] == "fine_rows"
    assert codes["history"][-1]["train_loss"] == pytest.approx(
        features["history"][-1]["train_loss"], rel=1e-6)
    assert main(["predict", out, stored]) == 0


@pytest.mark.parametrize("loss, share, expected", [
    (Loss.LEAST_SQUARES, 0.25, 0.375), (Loss.SQUARED_HINGE, 0.25, 0.375), (Loss.HINGE, 0.25, 0.5),
    (Loss.LOGISTIC, 0.25, 0.562335), (Loss.LOGISTIC, 1.0, 0.0), (Loss.HINGE, 1.0, 0.0)])
def test_loss_of_the_best_constant(loss, share, expected):
    targets = np.where(np.arange(100) < 100 * share, 1.0, -1.0)
    assert LOSSES[loss].constant(targets.mean(), targets.var()) == pytest.approx(expected, abs=1e-6)
    models = np.linspace(-3, 3, 601)        # no constant is better, and the best is among these
    losses = mean_losses(loss, np.zeros((100, 1)), targets[:, None], np.zeros((601, 1, 1)),
                         models[:, None])
    assert losses.min() == pytest.approx(expected, abs=0.05 if share == 1 else 1e-4)


# Wrong use, with exit code 2

@pytest.mark.parametrize("options, message", [
    ("--model lasso", "argument --model: invalid choice: 'lasso'"),
    ("--refetch", "--refetch needs --model svm, not --model linreg (by default): the update"),
    ("--model svm --batch 16", "--refetch (by default) does not go together with --batch 16"),
    ("--box 0", "argument --box: must be a number above 0, not '0'"),
    ("--box -1", "argument --box: must be a number above 0, not '-1'"),
    ("--l1 -1", "argument --l1: must be a number of at least 0, not '-1'"),
    ("--l1 inf", "argument --l1: must be a number of at least 0, not 'inf'")])
def test_wrong_use(numbers, capsys, options, message):
    with pytest.raises(SystemExit) as caught:
        train(numbers[1], *options.split())
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_wrong_use_of_quantized_files(numbers, tmp_path, capsys):
    stored, straw, other = (str(tmp_path / f"{name}.npz") for name in ("stored", "straw", "other"))
    main(["quantize", numbers[1], "--model", "ls-svm", "--out", stored])
    main(["quantize", numbers[1], "--encoding", "nearest", "--out", straw])
    centred = str(tmp_path / "centred.npz")
    main(["quantize", numbers[0], "--scaler", "maxabs", "--out", centred])
    for arguments, message in (
            (["train", stored, "--model", "svm"],
             "--encoding compensated (of the file) does not go together with --model svm"),
            (["train", stored, "--refetch"], "--refetch needs --model svm"),
            (["train", centred, "--no-intercept"],
             f"--no-intercept needs labels around 0, but those of {centred} are around the centre"),
            (["train", stored, "--bits", "32"], "--bits 32 does not fit"),
            (["train", straw, "--model", "linreg"], "the file was quantized for a classification"),
            (["train", straw, "--model", "svm", "--refetch"],
             f"needs fine rows, and {straw} has none"),
            (["quantize", numbers[0], "--fine-rows", "--out", other],
             "--fine-rows does not go together with --encoding compensated (by default)"),
            (["quantize", numbers[0], "--fine-rows", "--bits", "32", "--out", other],
             "--fine-rows does not go together with --bits 32")):
        with pytest.raises(SystemExit) as caught:
            main([*arguments, *(["--device", "golden"] if arguments[0] == "train" else [])])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err


def test_labels_far_from_the_others(tmp_path):
    """For the Huber loss they count as 500 spreads away: 16 bits tell the others apart."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 2))
    labels = features @ [1, -5] + 0.1 * rng.normal(size=2000)
    labels[:3] = 1e6
    np.savetxt(tmp_path / "rows.csv", np.column_stack([features, labels]), delimiter=",")
    options = "--train-rows", 2000, "--model", "huber", "--epochs", 20
    found = run_of(tmp_path, tmp_path / "rows.csv", *options)
    np.testing.assert_allclose(found["coef"], [1, -5], atol=0.1)


def test_quantized_labels_that_are_alike_for_the_huber_loss(tmp_path, capsys):
    """A file was stored before its loss was known."""
    labels = np.arange(100.0)
    for name, last, said in (("near", 99, False), ("far", 1e7, True)):
        table, stored = tmp_path / f"{name}.csv", tmp_path / f"{name}.npz"
        np.savetxt(table, np.column_stack([labels % 7, np.append(labels[:-1], last)]), "%.17g",
                   delimiter=",")
        assert main(["quantize", str(table), "--bits", "8", "--encoding", "stochastic", "--out",
                     str(stored)]) == 0
        for model in ("huber", "linreg"):
            capsys.readouterr()
            assert train(stored, "--model", model, "--epochs", 1) == 0
            assert ("half of the labels of" in capsys.readouterr().err) == (
                said and model == "huber")


def test_models_of_many_weights_have_fewer_epochs(tmp_path, monkeypatch):
    """1,000 weights of three classes and all epochs, in place of 2^26: 1,000 / (3 * 13) epochs."""
    monkeypatch.setattr(schedules, "MODEL_VALUES", 1000)
    features, labels = map(np.asarray, load_wine(return_X_y=True))
    np.savetxt(tmp_path / "wine.csv", np.column_stack([features, labels]), delimiter=",")
    found = run_of(tmp_path, tmp_path / "wine.csv", "--model", "logistic", "--solver", "sgd")
    assert len(found["history"]) == 25
    model = LowPrecisionClassifier(loss="log_loss", solver="sgd", device="golden")
    assert model.fit(features, labels).n_iter_ == 25
    grid = LowPrecisionSearchCV(model, {"l2": [0.0, 0.1]}, cv=2).fit(features, labels)
    assert grid.best_estimator_.n_iter_ == 25
    resolved = resolve(Request(PYTHON, {"model": "linreg", "solver": "sgd"}))
    data = quantize_rows(features, bits=4)
    assert len(resolved.training(data, Objective()).steps) == 1000 // 13


def test_end_of_a_training_that_gains_nothing(capsys):
    for tol, text in (("1e-15", "which made the gradient no smaller."),
                      ("0.1", "by a tol of 0.1.")):
        assert main(["train", "diabetes", "--tol", tol]) == 0
        found = re.search(r"Training stopped after outer step \d+, (.*)\n", capsys.readouterr().out)
        assert found is not None
        assert found[1] == text
