"""Multinomial logistic regression of the estimators and the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from bitstep import LowPrecisionClassifier
from bitstep.cli import main
from bitstep.devices.golden import GoldenDevice
from bitstep.training.choices import OptimumWarning
from bitstep.training.files.model_file import load_model

rng = np.random.default_rng(0)
# Columns of -1 and 1 alike: scaled, standardized and stored they are what they are.
X = np.stack([rng.permutation(np.repeat([-1.0, 1.0], 200)) for _ in range(6)], axis=1)
Y = (X @ rng.standard_normal((6, 4)) + rng.gumbel(size=(400, 4))).argmax(axis=1)
L2 = 0.01
CENTRED: dict[str, Any] = {"solver": "bit-centred", "l2": L2, "epochs": 60, "tol": 1e-6,
                           "random_state": 0}
FEW = CENTRED | {"epochs": 3, "tol": 0.0}


def reference(weights=None, **options) -> Any:
    total = len(Y) if weights is None else np.sum(weights)
    return LogisticRegression(C=1 / (L2 * total), tol=1e-10, max_iter=10_000, **options).fit(
        X, Y, sample_weight=weights)


def test_digits_by_default():
    """Columns of pixels that are rarely set hold up no other: in their own units the gradient is
    not small after 100 outer steps, which is a warning.
    """
    model = LowPrecisionClassifier(random_state=0).fit(*load_digits(return_X_y=True))
    assert model.solver_ == "bit-centred"
    assert model.n_iter_ < 50


def test_is_the_model_of_scikit_learn():
    model, best = LowPrecisionClassifier(**CENTRED).fit(X, Y), reference()
    assert model.multinomial_ is True
    assert model.coef_.shape == best.coef_.shape == (4, 6)
    # The middle of a stored cell is 2^-16 from the ends of a column.
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, best.intercept_, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X), best.predict_proba(X), atol=3e-4)
    np.testing.assert_allclose(model.predict_log_proba(X), best.predict_log_proba(X), atol=1e-3)
    np.testing.assert_array_equal(model.predict(X), best.predict(X))
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), model.predict(X))
    last = model.history_[-1]
    entropy = -best.predict_log_proba(X)[np.arange(len(Y)), Y].mean()
    assert last["train_loss"] == pytest.approx(entropy, abs=1e-4)
    assert 0 < last["gap"] < 1e-6
    assert last["train_accuracy"] == model.score(X, Y)


def test_probabilities_of_far_rows_are_finite():
    model = LowPrecisionClassifier(**FEW).fit(X, Y)
    far = 1e5 * X[:5]
    found = model.predict_proba(far)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert np.isfinite(model.predict_log_proba(far)).all()


@pytest.mark.parametrize("weights", [
    {"class_weight": {0: 3, 2: 2}},
    {"sample_weight": np.arange(400) % 3}])
def test_weights(weights):
    given = weights.get("sample_weight")
    options: dict[str, Any] = {
        name: value for name, value in weights.items() if name == "class_weight"}
    model: Any = LowPrecisionClassifier(**CENTRED, **options)
    model.fit(X, Y, sample_weight=given)
    rows = given if given is not None else np.array([3, 1, 2, 1])[Y]
    best = reference(rows)
    # Weighted columns have other variances, in whose units the penalty is.
    np.testing.assert_allclose(model.predict_proba(X), best.predict_proba(X), atol=5e-3)


def test_other_losses_and_solvers_are_one_vs_rest():
    for options in ({"solver": "sgd"}, {"loss": "squared_hinge"}):
        model = LowPrecisionClassifier().set_params(**FEW | options).fit(X, Y)
        assert model.multinomial_ is False
    two = LowPrecisionClassifier(**CENTRED).fit(X, Y > 1)
    assert two.multinomial_ is False
    assert two.coef_.shape == (1, 6)


def test_one_vs_rest_of_scikit_learn_composes():
    both: Any = OneVsRestClassifier(LowPrecisionClassifier(**CENTRED)).fit(X, Y)
    assert len(both.estimators_) == 4
    best = LogisticRegression(C=1 / (L2 * len(Y)), tol=1e-10).fit(X, Y == 2)
    np.testing.assert_allclose(both.estimators_[2].coef_, best.coef_, atol=1e-3)


def test_devices_without_such_passes_say_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(GoldenDevice, "joint_classes", False)
    with pytest.warns(OptimumWarning, match="Device 'golden' has no pass of all classes, so the 4 "
                                            "classes are trained one-vs-rest"):
        model = LowPrecisionClassifier(**FEW, device="golden").fit(X, Y)
    assert model.multinomial_ is False
    source, report = tmp_path / "rows.csv", tmp_path / "report.json"
    np.savetxt(source, np.column_stack([X, Y]), delimiter=",")
    options = ["train", str(source), "--model", "logistic", "--solver", "bit-centred", "--l2",
               "0.01", "--epochs", "2", "--device", "golden", "--report", str(report)]
    assert main(options) == 0
    assert "note: Device 'golden' has no pass of all classes" in capsys.readouterr().err
    found = json.loads(report.read_text())
    assert found["config"]["multinomial"] is False
    assert len(found["history"][0]["planes"]) == 4


def test_files(tmp_path):
    path = tmp_path / "model.npz"
    names = np.array(["red", "green", "blue", "grey"])[Y]
    model = LowPrecisionClassifier(**FEW).fit(X, names)
    model.save(path)
    again = LowPrecisionClassifier.load(path)
    assert again.multinomial_ is True
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert load_model(path).config["multinomial"] is True
    np.testing.assert_array_equal(load_model(path).predict(X), model.predict(X))


def test_goes_on():
    model = LowPrecisionClassifier(**FEW, warm_start=True).fit(X, Y)
    before = model.history_[-1]["train_loss"]
    model.fit(X, Y)
    assert model.n_iter_ == 6
    assert abs(model.history_[-1]["train_loss"] - before) < 0.1
    np.testing.assert_allclose(model.predict_proba(X), reference().predict_proba(X), atol=0.05)


def test_command_line(tmp_path, capsys):
    source, out, report, kept, stored = (str(tmp_path / name) for name in (
        "rows.csv", "out.npz", "report.json", "kept.npz", "stored.npz"))
    np.savetxt(source, np.column_stack([X, Y]), delimiter=",")
    options = ["--model", "logistic", "--solver", "bit-centred", "--l2", str(L2), "--tol", "1e-5",
               "--epochs", "40", "--no-shuffle"]
    assert main(["train", source, *options, "--out", out, "--report", report,
                 "--checkpoint", kept]) == 0
    text = capsys.readouterr().out
    assert "multinomial logistic, 400 rows" in text
    assert "Loss: 1/K sum of -log p(y), p the softmax of the classes' f(x) over K rows." in text
    assert "Certificate: the objective is at most" in text
    found = json.loads(Path(report).read_text())
    assert found["config"]["multinomial"] is True
    assert found["device_seconds"] is None      # no pipeline has such passes
    assert isinstance(found["history"][0]["planes"], int)
    loaded = LowPrecisionClassifier.load(out)
    assert loaded.multinomial_ is True
    np.testing.assert_allclose(loaded.predict_proba(X), reference().predict_proba(X), atol=1e-3)
    assert main(["predict", out, source]) == 0
    capsys.readouterr()
    # A finished checkpoint gives the model again; one-vs-rest is another training.
    assert main(["train", source, *options, "--resume", kept, "--report", report + "2"]) == 0
    assert json.loads(Path(report + "2").read_text())["coef"] == found["coef"]
    # From codes alone the loss is the same, but for the rounding of 16 bits.
    assert main(["quantize", source, "--bit-planes", "--model", "logistic", "--out", stored,
                 "--scaler", "minmax", "--no-shuffle"]) == 0
    assert main(["train", stored, *options[:-1], "--report", report]) == 0
    codes = json.loads(Path(report).read_text())
    assert codes["history"][-1]["train_loss"] == pytest.approx(
        found["history"][-1]["train_loss"], abs=1e-4)
    assert codes["history"][-1]["train_accuracy"] == found["history"][-1]["train_accuracy"]


def test_checkpoints_of_the_other_kind_are_refused(tmp_path, capsys, monkeypatch):
    source, kept = str(tmp_path / "rows.csv"), str(tmp_path / "kept.npz")
    np.savetxt(source, np.column_stack([X, Y]), delimiter=",")
    options = ["train", source, "--model", "logistic", "--solver", "bit-centred", "--epochs", "2",
               "--device", "golden"]
    assert main([*options, "--checkpoint", kept]) == 0
    monkeypatch.setattr(GoldenDevice, "joint_classes", False)
    with pytest.raises(SystemExit):
        main([*options, "--resume", kept])
    error = " ".join(capsys.readouterr().err.split())
    assert "is the checkpoint of a multinomial model" in error
    assert "trains a one-vs-rest model: go on with the options and on a device" in error


def test_partial_fit_says_that_it_goes_on_one_vs_rest():
    model = LowPrecisionClassifier(random_state=0).fit(X, Y)
    with pytest.warns(OptimumWarning, match="goes on one-vs-rest, by solver 'sgd'"):
        model.partial_fit(X, Y)
    assert model.multinomial_ is False
    model.partial_fit(X, Y)         # once
