"""``bitstep train`` with --early-stopping, --tol and --quiet."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep import progress
from bitstep.cli import main
from bitstep.cli.scoring import scored_rows
from bitstep.data import Dataset
from bitstep.pipeline.registers import Loss
from bitstep.quantization import Scaler
from bitstep.training.files.checkpoint import load_checkpoint
from bitstep.training.files.model_file import load_model
from bitstep.training.scores.scoring import spaced
from bitstep.training.scores.stopping import held_out


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A file of 300 rows of three classes that overlap."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((300, 20))
    best = features @ rng.standard_normal((20, 3)) + 8 * rng.standard_normal((300, 3))
    path = tmp_path_factory.mktemp("stopping") / "classes.csv"
    np.savetxt(path, np.column_stack([features, best.argmax(axis=1)]), delimiter=",")
    return str(path)


OPTIONS = ("--model", "logistic", "--epochs", "40", "--early-stopping", "--tol", "0.005",
           "--n-iter-no-change", "3", "--validation-fraction", "0.3")


@pytest.mark.by_day(1)
@pytest.mark.parametrize("device", ["golden", "cpu"])
def test_training_stops(classes, tmp_path, capsys, device):
    out, report, kept = (tmp_path / name for name in ("model.npz", "run.json", "run.ckpt"))
    command = ["train", classes, *OPTIONS, "--device", device, "--out", str(out)]
    assert main([*command, "--report", str(report)]) == 0
    text, found = capsys.readouterr().out, json.loads(report.read_text())
    history, epoch = found["history"], found["kept_epoch"]
    assert found["stopped_early"]
    assert 4 <= len(history) < 40
    losses = [entry["validation_loss"] for entry in history]
    assert epoch == 1 + int(np.argmin(losses))
    assert found["dataset"]["validation_rows"] == 90 == 300 - found["dataset"]["train_rows"]
    assert (f"Training stopped after epoch {len(history)}; the model is that of epoch {epoch}, "
            "whose loss on 90 held-out rows is the least.") in text
    assert "train accuracy  held-out loss  held-out accuracy" in text
    model = load_model(out)
    assert model.coef.tolist() == found["coef"]
    data = np.loadtxt(classes, delimiter=",")
    order = np.random.Generator(np.random.PCG64(0)).permutation(300)
    held = data[order][held_out(300, 0.3, 0, data[order, -1])[1]]
    assert np.mean(model.predict(held[:, :-1]) == held[:, -1]) == pytest.approx(
        history[epoch - 1]["validation_accuracy"])
    # From a checkpoint, which is finished.
    assert main([*command, "--checkpoint", str(kept)]) == 0
    assert load_checkpoint(kept).finished
    np.testing.assert_array_equal(load_model(out).coef, model.coef)
    capsys.readouterr()
    assert main([*command, "--resume", str(kept)]) == 0
    assert "is finished, so nothing is trained" in capsys.readouterr().err
    np.testing.assert_array_equal(load_model(out).coef, model.coef)
    with pytest.raises(SystemExit):
        main([*command, "--resume", str(kept), "--tol", "0.1"])
    assert "--tol is 0.1, the checkpoint's 0.005" in capsys.readouterr().err


def test_without_held_out_rows(classes, tmp_path, capsys):
    report = tmp_path / "run.json"
    assert main(["train", classes, "--model", "logistic", "--solver", "sgd", "--epochs", "40",
                 "--tol", "0.01", "--device", "golden", "--report", str(report)]) == 0
    found = json.loads(report.read_text())
    assert found["stopped_early"]
    assert found["kept_epoch"] == len(found["history"]) < 40
    assert found["dataset"]["train_rows"] == 300
    assert f"Training stopped after epoch {len(found['history'])}.\n" in capsys.readouterr().out


def test_quantized_files(classes, tmp_path, capsys):
    codes = str(tmp_path / "codes.npz")
    assert main(["quantize", classes, "--model", "logistic", "--out", codes]) == 0
    command = ["train", codes, "--device", "golden", "--epochs", "40"]
    assert main([*command, "--tol", "0.01"]) == 0
    assert "Training stopped after epoch" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*command, "--early-stopping"])
    assert "--early-stopping needs features, and " in capsys.readouterr().err


def test_bad_fraction(classes, capsys):
    with pytest.raises(SystemExit):
        main(["train", classes, "--early-stopping", "--validation-fraction", "1"])
    assert "must be a number between 0 and 1, not '1'" in capsys.readouterr().err


def test_quiet(classes, monkeypatch, capsys):
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    command = ["train", classes, "--model", "logistic", "--device", "golden", "--epochs", "2"]
    assert main(command) == 0
    error = capsys.readouterr().err
    assert "training: epoch 2 of 2, loss " in error
    assert ", accuracy " in error
    assert main([*command, "--quiet"]) == 0
    assert not capsys.readouterr().err


def test_held_out_rows_are_clipped_as_predictions_clip_them(tmp_path):
    """Each training has one of two outliers at least, and so clips."""
    X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    y = X @ [1.0, 2.0]
    X[7, 0] = X[1400, 0] = 1e5
    data, out, report = (str(tmp_path / name) for name in ("data.csv", "model.npz", "run.json"))
    np.savetxt(data, np.column_stack([X, y]), delimiter=",")
    for seed in "012":
        assert main(["train", data, "--epochs=3", "--early-stopping", "--validation-fraction=0.5",
                     "--quiet", "--seed", seed, "--out", out, "--report", report]) == 0
        assert load_model(out).clip is not None
        with open(report, encoding="utf-8") as file:
            losses = [entry["validation_loss"] for entry in json.load(file)["history"]]
        assert max(losses) < np.mean(y ** 2) / 2


def test_rows_that_are_looked_at_have_their_weights():
    """Some rows stand for all; each has the label and the weight that it has in the training."""
    labels = np.arange(40) % 2
    weights = np.arange(1, 41, dtype=np.uint16)
    data = Dataset("rows", np.linspace(-1, 1, 40)[:, None], labels.astype(float), "classification")
    problem: Any = SimpleNamespace(
        train_set=data, weights=weights, classes=np.array([0.0, 1.0]), loss=Loss.LOGISTIC,
        task="classification",
        outputs=[SimpleNamespace(scaler=Scaler("minmax", np.zeros(1), np.ones(1)))])
    found = scored_rows(problem, 7)
    picked = spaced(40, 7)
    assert found.weights is not None
    assert found.weights.tolist() == weights[picked].tolist()
    assert found.targets[:, 0].tolist() == (2.0 * labels[picked] - 1).tolist()
    problem.weights = None
    assert scored_rows(problem, 7).weights is None
