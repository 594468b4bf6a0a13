"""The command line and the estimators prepare rows alike, and refuse alike."""

import json

import numpy as np
import pytest

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize, save_quantized
from bitstep.training.copies import Pass
from bitstep.training.scores.fits import hold_out
from bitstep.training.scores.scoring import ScoredRows

DRAWS = np.random.default_rng(8)
X = np.round(DRAWS.normal(size=(90, 4)), 6)
VALUES = np.round(X @ [1.0, -2, 0.5, 0] + DRAWS.normal(size=90), 6)
CLASSES = (VALUES > 1).astype(int)


@pytest.fixture
def table(tmp_path):
    def write(labels, rows=X, name="data.csv"):
        path = tmp_path / name
        path.write_text("\n".join(",".join(map(repr, map(float, (*row, label)))) for row, label in
                                  zip(rows, labels, strict=True)) + "\n")
        return path

    return write


@pytest.fixture
def train(tmp_path):
    """Train by the command line; the report."""
    def run(path, *options):
        report, out = tmp_path / "report.json", tmp_path / "model.npz"
        assert main(["train", str(path), *map(str, options), "--quiet", "--report", str(report),
                     "--out", str(out)]) == 0
        return json.loads(report.read_text()), np.load(out)["coef"]

    return run


def refused(capsys, *options):
    with pytest.raises(SystemExit) as stopped:
        raise SystemExit(main(["train", *map(str, options), "--quiet"]))
    assert stopped.value.code
    return capsys.readouterr().err


def test_default_penalty_counts_whole_weights(table, train):
    report, coef = train(table(CLASSES), "--model", "logistic", "--class-weight", "1=3")
    repeats = np.where(CLASSES == 1, 3, 1)
    again, expected = train(table(CLASSES.repeat(repeats), X.repeat(repeats, axis=0), "more.csv"),
                            "--model", "logistic")
    assert report["config"]["l2"] == again["config"]["l2"] == 1 / repeats.sum()
    np.testing.assert_allclose(coef, expected, rtol=1e-6)
    model = LowPrecisionClassifier(class_weight={1: 3}, random_state=0).fit(X, CLASSES)
    assert model.l2_ == report["config"]["l2"]
    np.testing.assert_array_equal(model.coef_, coef)


@pytest.mark.parametrize("options, parameters", [
    (["--solver", "sgd"], {"solver": "sgd"}), (["--bits", "8"], {"bits": 8}),
    (["--bits", "3"], {"bits": 3}), (["--step", "0.1"], {"step": 0.1}),
    (["--solver", "sgd", "--sweep", "l2=0,0.01"], {"solver": "sgd", "l2": 0})])
def test_default_epochs(options, parameters, table, train):
    report, coef = train(table(VALUES), *options)
    model = LowPrecisionRegressor(random_state=0, **parameters).fit(X, VALUES)
    assert len(report["history"]) == model.n_iter_
    np.testing.assert_array_equal(coef[0], model.coef_)


def test_default_penalty_of_balanced_classes_counts_whole_weights():
    weights = np.resize([2.0, 3], 90)
    model = LowPrecisionClassifier(class_weight="balanced", random_state=0).fit(
        X, CLASSES, sample_weight=weights)
    again = LowPrecisionClassifier(class_weight="balanced", random_state=0).fit(
        X.repeat(weights.astype(int), axis=0), CLASSES.repeat(weights.astype(int)))
    assert model.l2_ == again.l2_ == 1 / 225
    np.testing.assert_allclose(model.coef_, again.coef_, rtol=1e-3)


@pytest.mark.parametrize("weight, text", [(None, None), ({1: 9}, "1=9"), ("balanced", "balanced")])
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_same_rows_are_held_out(shuffle, weight, text, table, train):
    report, coef = train(
        table(CLASSES), "--model", "logistic", "--early-stopping", "--seed", 5,
        *(["--class-weight", text] if text else []), *([] if shuffle else ["--no-shuffle"]))
    model = LowPrecisionClassifier(early_stopping=True, shuffle=shuffle, class_weight=weight,
                                   random_state=5).fit(X, CLASSES)
    np.testing.assert_array_equal(model.coef_, coef)
    for name in ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy"):
        np.testing.assert_allclose([entry[name] for entry in model.history_],
                                   [entry[name] for entry in report["history"]], rtol=1e-12)


def test_held_out_rows_of_a_regression(table, train):
    _, coef = train(table(VALUES), "--early-stopping", "--seed", 5)
    model = LowPrecisionRegressor(early_stopping=True, random_state=5).fit(X, VALUES)
    np.testing.assert_array_equal(model.coef_, coef[0])


def test_held_out_rows_depend_on_the_order_of_the_pass_alone():
    model = LowPrecisionRegressor(early_stopping=True, random_state=5, shuffle=False)
    plain = model.fit(X, VALUES).coef_
    order = np.argsort(DRAWS.random(90))
    back = np.argsort(order)
    assert np.array_equal(model.fit(X[order][back], VALUES).coef_, plain)


def test_a_batch_of_more_rows_than_there_are_has_all(table, train):
    path = table(VALUES)
    (_, few), (report, many) = (train(path, "--epochs", 20, "--batch", batch)
                                for batch in (90, 1000))
    np.testing.assert_array_equal(few, many)
    assert report["config"]["batch"] == 90


def test_a_list_of_steps_has_an_epoch_each(table, train, tmp_path):
    steps = tmp_path / "steps.txt"
    steps.write_text("0.05\n0.02\n0.01\n")
    report, coef = train(table(VALUES), "--schedule", steps)
    model = LowPrecisionRegressor(schedule=[0.05, 0.02, 0.01], random_state=0).fit(X, VALUES)
    assert len(report["history"]) == model.n_iter_ == 3
    np.testing.assert_array_equal(model.coef_, coef[0])


@pytest.mark.parametrize("options, message", [
    (("--sweep", "l1=0,0.05"), "must have one solver, but --solver auto is sgd for some "),
    (("--sweep", "l1=0,0.05"), "for others; choose --solver sgd or --solver bit-centred"),
    (("--sweep", "l1=0.05,0"), "must have one solver"),
    (("--sweep", "update-bits=0,6"), "must have one solver"),
    (("--sweep", "step=auto,0.3"), "must have one solver"),
    (("--model", "svm", "--sweep", "model-bits=0,8"), "few bits cannot; choose --no-refetch"),
    (("--epsilon", "2"), "--epsilon 2 needs --model huber"),
    (("--encoding", "nearest", "--copies", "2"), "--encoding nearest: its codes are not drawn"),
    (("--bits", "32", "--copies", "2"), "--copies 2 does not go together with --bits 32"),
    (("--solver", "bit-centred", "--schedule", "inverse"), "it has one step for all outer steps")])
def test_refused_before_data_are_read(options, message, capsys):
    assert message in refused(capsys, "MISSING.csv", *options)


@pytest.mark.parametrize("parameters, message", [
    ({"schedule": "foo"}, "readable text file of steps, not 'foo'"),
    ({"schedule": [0.5, 0.2], "epochs": 3}, "at least 3 steps"),
    ({"schedule": [0.5, -0.2]}, "positive numbers only"),
    ({"schedule": object()}, "schedule must be 'constant', .* a list of steps, or a file"),
    ({"planes": [4, 17]}, "planes must be 'auto', an integer from 1 to 16"),
    ({"planes": []}, "planes must be"),
    ({"device": {"name": "golden", "foo": 1}}, "has no option 'foo'"),
    ({"random_state": -4}, "random_state must be an integer of at least 0, not -4"),
    ({"planes": "auto", "warm_start": True}, "planes='auto' .* a model does not hold; give a list"),
    ({"copies": 2, "encoding": "nearest", "solver": "sgd"}, "its codes are not drawn")])
def test_estimators_refuse_before_rows_are_quantized(parameters, message, monkeypatch):
    monkeypatch.setattr("bitstep.estimators.preparing.validate_data", None)
    with pytest.raises((ValueError, RuntimeError), match=message):
        LowPrecisionRegressor(**parameters).fit(X, VALUES)


def test_planes_by_themselves_need_all_epochs():
    with pytest.raises(ValueError, match="depend on the epochs before, which a model does not"):
        LowPrecisionRegressor(planes="auto").partial_fit(X, VALUES)


@pytest.mark.parametrize("loss", [Loss.HINGE, Loss.LOGISTIC, Loss.LEAST_SQUARES])
def test_the_best_constant_is_that_of_weighted_rows(loss):
    targets = np.where(np.arange(100) < 90, -1.0, 1.0)[:, None]
    weights = np.where(np.arange(100) < 90, 1, 9).astype(np.uint16)
    values, rows = np.zeros((100, 2), np.int32), np.repeat(np.arange(100), weights)
    found = ScoredRows(values, targets, loss, True, weights=weights).baseline
    assert found == pytest.approx(ScoredRows(values[rows], targets[rows], loss, True).baseline)
    assert found > 2 * ScoredRows(values, targets, loss, True).baseline


@pytest.mark.parametrize("options, message", [
    (("--levels", "optimal"), "--levels is optimal, the checkpoint's uniform"),
    (("--early-stopping", "--levels", "uniform"),
     "--early-stopping is yes, the checkpoint's not given; --validation-fraction is 0.1"),
    (("--train-rows", "50"), "with 90 rows to train on, not 50: check DATA and --train-rows")])
def test_resume_names_the_option_that_differs(options, message, table, tmp_path, capsys):
    path, kept = table(CLASSES), tmp_path / "run.ckpt"
    given = [path, "--model", "logistic", "--solver", "sgd", "--bits", 4, "--epochs", 2]
    if "--levels" not in options:
        given = [path, "--model", "ls-svm"]
    assert main(["train", *map(str, given), "--quiet", "--checkpoint", str(kept)]) == 0
    found = refused(capsys, *given, *options, "--resume", kept)
    assert message in found
    assert "--l2" not in found


def test_a_file_with_copies_of_equal_codes_is_trained_on(tmp_path, capsys):
    """`bitstep quantize` makes none, but older versions did."""
    path = tmp_path / "codes.npz"
    save_quantized(quantize(X, VALUES, bits=4, encoding="nearest", copies=2), path)
    assert main(["train", str(path), "--quiet"]) == 0
    assert not capsys.readouterr().err


def test_held_out_rows_keep_their_weights():
    numbers = np.arange(40)
    given = Pass(numbers[:, None] + 0.5, numbers[:, None] * 2.0, (numbers + 1).astype(np.uint16),
                 places=numbers // 2)
    train, held = hold_out(given, 0.25, 0, None)
    for part in (train, held):
        np.testing.assert_array_equal(part.features[:, 0] + 0.5, part.weights)
        np.testing.assert_array_equal(part.targets[:, 0] / 2 + 1, part.weights)
    rows = [set((part.targets[:, 0] / 2).astype(int)) for part in (train, held)]
    assert not rows[0] & rows[1]
    assert rows[0] | rows[1] == set(range(40))
    assert not {one // 2 for one in rows[0]} & {one // 2 for one in rows[1]}


def test_default_epochs_of_sgd(table, train):
    report, _ = train(table(VALUES), "--solver", "sgd")
    model = LowPrecisionRegressor(solver="sgd", random_state=0).fit(X, VALUES)
    assert report["config"]["epochs"] == model.n_iter_ == 1000      # 100,000 rows are more
