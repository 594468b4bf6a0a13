"""Solver ``auto``: which one it becomes and why, its defaults, and the models that users get."""

import json
import warnings
from typing import Any

import numpy as np
import pytest
from fakes import FakeDevice
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, LowPrecisionSearchCV
from bitstep.cli import main
from bitstep.options.rules import AUTOMATIC, RULES, Request
from bitstep.options.words import PYTHON
from bitstep.quantization import load_quantized
from bitstep.training.choices import OptimumWarning, check_options
from bitstep.training.pipelines import pipeline_for

X, Y = map(np.asarray, load_diabetes(return_X_y=True))
ROWS, CLASSES = map(np.asarray, load_breast_cancer(return_X_y=True))
SMALL = ROWS[:60, :4], CLASSES[:60]


def chosen(**asked: Any) -> Request:
    facts = {name: asked.pop(name) for name in ("no_bit_planes", "partial_fit", "stored_encoding",
                                                    "n_features") if name in asked}
    return check_options(Request(PYTHON, {"solver": "auto", "model": "logistic", **asked},
                                 facts=facts))


# What asks for SGD, and the rule that says so.
SGD = {
    "auto, device": {"no_bit_planes": "uart"},
    "auto, part": {"partial_fit": True},
    "auto, step": {"step": 0.1},
    "auto, schedule": {"schedule": "constant"},
    "auto, planes": {"planes": [2, 4]},
    "auto, epochs": {"epochs": 9},
    "bit-centred, loss": {"model": "svm"},
    "bit-centred, clipped loss": {"model": "huber"},
    "bit-centred, penalty": {"l1": 0.1},
    "bit-centred, batch": {"batch": 16},
    "bit-centred, range": {"model_range": 3.0},
    "bit-centred, early stopping": {"early_stopping": True},
    "bit-plane rows": {"bits": 4},
    "features of bit-centred training": {"n_features": (1 << 16) + 1},
    "planes of stored rows": {"stored_encoding": "nearest"},
    "epochs without gain, bit-centred": {"tol": 0.1, "n_iter_no_change": 3},
    "several models, bit-plane rows": {"device_models": 2},
    "few bits, no whole codes": {"update_bits": 4},
    "packed rows, no whole codes": {"packed": True, "model": "linreg"},
}


@pytest.mark.parametrize("name", SGD)
def test_what_asks_for_sgd(name):
    request = chosen(**SGD[name])
    assert request["solver"] == "sgd"
    rule = next(one for one in (*AUTOMATIC, *RULES) if one.name == name)
    reason = request.facts["solver_reason"]
    assert reason.endswith(f": {PYTHON.fill(rule.reason)}")
    assert "bit-centred" not in reason.partition(":")[0]
    assert request["l2"] is request["tol"] is None or name == "epochs without gain, bit-centred"
    assert request["epochs"] in (SGD[name].get("epochs"), 20)      # or what the rows ask for


def test_every_rule_of_the_choice_has_a_case():
    assert {rule.name for rule in AUTOMATIC} <= set(SGD)


@pytest.mark.parametrize("asked", [
    {}, {"n_features": 1 << 16}, {"l2": 0.0}, {"tol": 0.0}, {"epochs": 10},
    {"step": "auto"}, {"scaler": "quantile"}, {"model": "linreg"},
    {"model": "ls-svm"}, {"model": "l2-svm"}, {"stored_encoding": "bit_planes"},
    {"class_weight": "balanced"}, {"sweep": True, "l2": 0.1}])
def test_what_leaves_the_optimum(asked):
    request = chosen(**asked)
    assert request["solver"] == "bit-centred"
    assert request["epochs"] == asked.get("epochs", 100)
    assert request["tol"] == asked.get("tol", 1e-4)
    assert request["planes"] == "auto"


def test_more_features_than_bit_plane_rows_have():
    rows = np.random.default_rng(0).standard_normal((3, (1 << 16) + 1))
    model = LowPrecisionRegressor(random_state=0, epochs=10).fit(rows, rows[:, 0])
    assert model.solver_ == "sgd"
    with pytest.raises(ValueError, match="'bit-centred' does not go together with 65537 features: "
                                         "bit-plane rows are for up to 65,536 features; choose"):
        model.set_params(solver="bit-centred").fit(rows, rows[:, 0])


def test_an_asked_solver_is_not_chosen():
    for solver in ("sgd", "bit-centred"):
        request = chosen(solver=solver)
        assert request["solver"] == solver
        assert "solver_reason" not in request.facts


def test_classes_as_of_logistic_regression():
    model = LowPrecisionClassifier(random_state=0).fit(ROWS, CLASSES)
    best: Any = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(ROWS, CLASSES)
    assert model.solver_ == "bit-centred"
    assert model.l2_ == 1 / len(ROWS)
    assert model.n_iter_ < 40
    assert model.history_[-1]["gradient"] <= 1e-4
    np.testing.assert_allclose(model.coef_ * ROWS.std(axis=0), best[-1].coef_, atol=0.01)
    np.testing.assert_allclose(model.decision_function(ROWS), best.decision_function(ROWS),
                               atol=0.02)
    assert model.gap_ is not None
    assert 0 < model.gap_ < 1e-3


def test_values_as_of_ridge_with_any_scale():
    """The penalty is one of standardized columns, whatever their units and tails."""
    features = X * 10.0 ** np.arange(-5, 5)
    model = LowPrecisionRegressor(random_state=0).fit(features, Y)
    best = make_pipeline(StandardScaler(), Ridge()).fit(features, Y)
    assert model.l2_ == 1 / len(X)
    np.testing.assert_allclose(model.predict(features), best.predict(features), atol=0.5)
    strong = LowPrecisionRegressor(random_state=0, l2=0.5, tol=1e-6).fit(features, Y)
    best = make_pipeline(StandardScaler(), Ridge(alpha=0.5 * len(X))).fit(features, Y)
    np.testing.assert_allclose(strong.predict(features), best.predict(features), atol=0.1)
    none = LowPrecisionRegressor(random_state=0, l2=0.0, tol=1e-6).fit(features, Y)
    np.testing.assert_allclose(none.predict(features), LinearRegression().fit(X, Y).predict(X),
                               atol=0.5)
    assert none.gap_ is None


def test_order_of_rows_and_seed_hardly_matter():
    order = np.argsort(CLASSES, kind="stable")
    outputs = [LowPrecisionClassifier(random_state=seed, shuffle=False).fit(rows, labels)
               .decision_function(ROWS) for seed, rows, labels in (
                   (0, ROWS, CLASSES), (1, ROWS[order], CLASSES[order]))]
    np.testing.assert_allclose(*outputs, rtol=0.01, atol=0.02)


def test_clipped_columns_are_a_warning_of_the_default_too():
    features = np.sinh(2 * np.random.default_rng(0).standard_normal((2000, 3)))
    with pytest.warns(OptimumWarning, match="'quantile' clips 2 of 3 columns"):
        model = LowPrecisionRegressor(scaler="quantile", random_state=0).fit(
            features, features.sum(axis=1))
    assert model.solver_ == "bit-centred"


@pytest.mark.parametrize("solver", ["auto", "sgd"])
def test_without_an_intercept_and_nothing_else_set(solver):
    """Columns are scaled without a shift."""
    features = np.random.default_rng(0).standard_normal((300, 4)) + 2
    values = features @ [1.0, -2.0, 3.0, 0.5]
    model = LowPrecisionRegressor(fit_intercept=False, solver=solver, random_state=0).fit(
        features, values)
    assert model.intercept_ == 0
    assert model.score(features, values) > 0.99
    classes = LowPrecisionClassifier(fit_intercept=False, solver=solver, random_state=0).fit(
        features, values > 5)
    assert classes.score(features, values > 5) > 0.8


@pytest.mark.parametrize("asked, solver", [
    ({"n_iter_no_change": 3}, "bit-centred"), ({"tol": 1e-3}, "bit-centred"),
    ({"n_iter_no_change": 3, "tol": 1e-3}, "sgd")])
def test_patience_counts_with_tol(asked, solver):
    """Alone it asks for nothing, as of scikit-learn's estimators, whose checks set it."""
    assert LowPrecisionRegressor(random_state=0, **asked).fit(X[:60], Y[:60]).solver_ == solver


def test_a_search_needs_targets():
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        LowPrecisionSearchCV(LowPrecisionRegressor(), {"l2": [0.1]}).fit(X, None)


def test_an_end_before_the_goal_is_a_warning():
    with pytest.warns(ConvergenceWarning,
                      match=r"after 3 outer steps, more than 0.0001 times \(tol\)"):
        LowPrecisionClassifier(solver="bit-centred", epochs=3, random_state=0).fit(ROWS, CLASSES)


def test_hard_shapes():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = LowPrecisionRegressor(random_state=0).fit(X[:1], Y[:1])
        assert one.predict(X[:1]) == pytest.approx(Y[:1])
        column = LowPrecisionRegressor(random_state=0).fit(X[:, :1], Y)
        assert column.score(X[:, :1], Y) == pytest.approx(
            LinearRegression().fit(X[:, :1], Y).score(X[:, :1], Y), abs=1e-3)
        constant = LowPrecisionRegressor(random_state=0).fit(np.c_[X, np.full(len(X), 7.0)], Y)
        assert constant.coef_[-1] == 0
        assert constant.score(np.c_[X, np.full(len(X), 7.0)], Y) > 0.517
        twice = LowPrecisionRegressor(random_state=0).fit(np.c_[X, X], Y)
        np.testing.assert_allclose(twice.coef_[:10], twice.coef_[10:], rtol=0.02, atol=0.5)
        wide = rng.standard_normal((40, 90)), rng.standard_normal(40)
        model = LowPrecisionRegressor(random_state=0).fit(*wide)
        best = make_pipeline(StandardScaler(), Ridge()).fit(*wide)
        np.testing.assert_allclose(model.predict(wide[0]), best.predict(wide[0]), atol=0.02)
        apart = np.r_[rng.standard_normal((50, 3)) - 4, rng.standard_normal((50, 3)) + 4]
        assert LowPrecisionClassifier(random_state=0).fit(apart, np.arange(100) >= 50).score(
            apart, np.arange(100) >= 50) == 1
        targets = np.c_[Y, -2 * Y, X[:, 2]]
        several = LowPrecisionRegressor(random_state=0).fit(X, targets)
        alone = LowPrecisionRegressor(random_state=0).fit(X, targets[:, 2])
        np.testing.assert_allclose(several.coef_[2], alone.coef_, rtol=1e-3, atol=1e-4)
        flowers, names = map(np.asarray, load_iris(return_X_y=True))
        assert LowPrecisionClassifier(random_state=0).fit(flowers, names).score(
            flowers, names) > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_columns_with_far_values(n_classes):
    """Their weights, for scaled features, are thousands at the optimum."""
    rng = np.random.default_rng(2)
    normal = rng.standard_normal((50_000, 4))
    labels = (normal @ rng.standard_normal((4, n_classes))
              + 0.5 * rng.standard_normal((len(normal), n_classes))).argmax(axis=1)
    features = np.exp(2 * normal)
    model = LowPrecisionClassifier(random_state=0).fit(features, labels)
    best: Any = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-6)).fit(features, labels)
    assert np.abs(model.coef_ * np.ptp(features, axis=0)).max() > 3000
    losses = [log_loss(labels, one.predict_proba(features)) for one in (model, best)]
    # Stored rows differ from these by half of 1/65535 of the range, a twentieth of a median.
    assert losses[0] == pytest.approx(losses[1], abs=2e-3)
    assert model.n_iter_ < 20


def test_columns_with_far_values_without_a_penalty():
    rng = np.random.default_rng(2)
    normal = rng.standard_normal((50_000, 4))
    classes = normal @ [1.0, 0.3, 0.2, -1.5] + 0.5 * rng.standard_normal(len(normal)) > 0
    features = np.exp(2 * normal)
    model = LowPrecisionClassifier(l2=0.0, random_state=0).fit(features, classes)
    assert np.abs(model.coef_ * np.ptp(features, axis=0)).max() > 2048
    assert model.n_iter_ < 20


def test_a_small_penalty_decides_how_large_a_weight_is():
    """No limit that keeps weights small without one: of classes apart it would be the model."""
    features = np.random.default_rng(0).standard_normal((200_000, 1))
    classes = features[:, 0] > 0.3
    model = LowPrecisionClassifier(l2=1e-8, tol=1e-6, random_state=0).fit(features, classes)
    best: Any = make_pipeline(StandardScaler(), LogisticRegression(
        C=1 / (1e-8 * len(features)), solver="newton-cholesky", tol=1e-10)).fit(features, classes)
    assert best[-1].coef_[0, 0] > 380
    assert model.coef_[0, 0] * features.std() == pytest.approx(best[-1].coef_[0, 0], rel=0.02)


@pytest.mark.parametrize("weighted", [False, True])
def test_regressions_on_columns_with_far_values(weighted):
    rng = np.random.default_rng(0)
    features = rng.standard_t(1, (50_000, 20))
    values = features @ rng.standard_normal(20) + rng.standard_normal(len(features))
    weights = rng.uniform(0.1, 10, len(features)) if weighted else None
    model = LowPrecisionRegressor(random_state=0).fit(features, values, weights)
    best = make_pipeline(StandardScaler(), Ridge()).fit(features, values)
    assert model.n_iter_ < 20
    assert model.score(features, values, weights) > 0.999999 * best.score(
        features, values, weights)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("columns", [
    lambda rng, n_rows: np.ones((n_rows, 2)), lambda rng, n_rows: rng.integers(0, 2, (n_rows, 1))],
    ids=["constants", "one of two values"])
def test_columns_that_tell_nothing_apart(columns, n_classes):
    """A gradient that is next to 0 from the start on is no reason for a warning, which is an error
    here."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        labels = np.r_[np.arange(n_classes), rng.integers(0, n_classes, 51 - n_classes)]
        model = LowPrecisionClassifier(random_state=0).fit(columns(rng, 51), labels)
        assert model.n_iter_ <= 6


def test_devices_agree_with_nothing_set():
    first, second = (LowPrecisionClassifier(random_state=0, device=device).fit(*SMALL)
                     for device in ("golden", "cpu"))
    assert first.solver_ == second.solver_ == "bit-centred"
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.history_ == second.history_


def test_a_pipeline_without_bit_planes_trains_by_sgd():
    config = pipeline_for(n_features=4, bits=4, encoding="compensated")
    opened = FakeDevice(config)
    model = LowPrecisionRegressor(device=opened, random_state=0, epochs=20).fit(
        SMALL[0], SMALL[1])
    assert model.solver_ == "sgd"
    assert not opened.closed


def test_parts_go_on_by_sgd():
    model = LowPrecisionClassifier(random_state=0).partial_fit(ROWS, CLASSES)
    assert (model.solver_, model.n_iter_, model.l2_, model.gap_) == ("sgd", 1, 0.0, None)
    whole = LowPrecisionClassifier(random_state=0).fit(ROWS, CLASSES)
    before, steps = whole.decision_function(ROWS), whole.n_iter_
    whole.partial_fit(ROWS, CLASSES)
    assert (whole.solver_, whole.n_iter_) == ("sgd", steps + 1)
    assert 0 < np.abs(whole.decision_function(ROWS) - before).mean() < 1


def test_a_start_that_goes_on():
    model = LowPrecisionClassifier(solver="bit-centred", random_state=0, warm_start=True,
                                   epochs=4, tol=1e-9)
    with pytest.warns(ConvergenceWarning):
        model.fit(ROWS, CLASSES)
    first = model.gap_
    with pytest.warns(ConvergenceWarning):
        model.fit(ROWS, CLASSES)
    assert model.n_iter_ == 8
    assert model.gap_ is not None
    assert first is not None
    assert model.gap_ < first / 10


def test_a_file_keeps_solver_and_penalty(tmp_path):
    model = LowPrecisionClassifier(random_state=0).fit(*SMALL)
    model.save(tmp_path / "model.npz")
    loaded = LowPrecisionClassifier.load(tmp_path / "model.npz")
    assert loaded.get_params() == model.get_params()
    assert (loaded.solver_, loaded.l2_, loaded.gap_) == (
        "bit-centred", model.l2_, model.gap_)


def test_a_search_over_penalties_trains_each_to_its_optimum():
    grid: dict[str, Any] = {"l2": [1e-3, 0.1, 10.0]}
    search = LowPrecisionSearchCV(LowPrecisionRegressor(random_state=0), grid, cv=3).fit(X, Y)
    expected = GridSearchCV(LowPrecisionRegressor(random_state=0), grid, cv=3).fit(X, Y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"],
                                  expected.cv_results_["mean_test_score"])
    assert search.best_estimator_.solver_ == "bit-centred"
    assert search.best_params_ == expected.best_params_
    with pytest.raises(ValueError, match="solver='auto' is sgd for some and bit-centred for oth"):
        LowPrecisionRegressor().fit_candidates(X, Y, [{"l2": 0.1}, {"l1": 0.1}])


def test_verbose_says_which_and_why(capsys):
    LowPrecisionClassifier(random_state=0, verbose=1).fit(*SMALL)
    assert "Solver: bit-centred (nothing asks for sgd)\n" \
        in capsys.readouterr().err
    LowPrecisionClassifier(random_state=0, verbose=1, bits=4, epochs=2).fit(*SMALL)
    assert "Solver: sgd (bits=4: bit-plane rows are one copy of 16 bits" in capsys.readouterr().err
    LowPrecisionClassifier(random_state=0, verbose=1, solver="sgd", epochs=2).fit(*SMALL)
    assert "Solver" not in capsys.readouterr().err


def report_of(path):
    return json.loads(path.read_text())["config"]


def test_command_line(tmp_path, capsys):
    report, plot = tmp_path / "report.json", tmp_path / "loss.png"
    assert main(["train", "diabetes", "--report", str(report), "--plot", str(plot)]) == 0
    shown = capsys.readouterr()
    assert "Solver: bit-centred (nothing asks for sgd).\n" in shown.out
    assert "Certificate: the objective is at most" in shown.out
    assert not shown.err.count("warning")
    config = report_of(report)
    assert (config["solver"], config["l2"], config["tol"]) == ("bit-centred", 1 / 442, 1e-4)
    assert plot.stat().st_size > 10_000
    assert main(["train", "diabetes", "--bits", "4", "--epochs", "2", "--report",
                 str(report)]) == 0
    assert "Solver: sgd (--bits 4: bit-plane rows are" in capsys.readouterr().out
    config = report_of(report)
    assert (config["solver"], config["l2"], config["tol"]) == ("sgd", 0.0, 0.0)
    assert config["solver_reason"].startswith("--bits 4: ")
    assert main(["train", "diabetes", "--solver", "sgd", "--epochs", "2", "--report",
                 str(report)]) == 0
    assert "Solver" not in capsys.readouterr().out
    assert report_of(report)["solver_reason"] is None


def test_quantized_files(tmp_path, capsys):
    codes, planes, report = (str(tmp_path / name) for name in ("codes.npz", "planes.npz", "r.json"))
    assert main(["quantize", "diabetes", "--out", codes]) == 0
    assert main(["quantize", "diabetes", "--bit-planes", "--out", planes]) == 0
    assert load_quantized(planes).encoding == "bit_planes"
    capsys.readouterr()
    assert main(["train", codes, "--epochs", "12", "--report", report]) == 0
    assert "Solver: sgd (those of the file have encoding compensated: it reads rows bit plane" \
        in capsys.readouterr().out
    assert main(["train", planes, "--report", report]) == 0
    assert "Solver: bit-centred" in capsys.readouterr().out


def test_command_line_of_a_board_without_bit_planes(tmp_path, monkeypatch):
    """An open model may be one of classes, for which this board has no such pipeline."""
    monkeypatch.setattr("bitstep.cli.request.has_bit_planes",
                        lambda name, options, family: family != "logistic")
    report = tmp_path / "run.json"
    for options, solver in (([], "sgd"), (["--model", "linreg"], "bit-centred")):
        assert main(["train", "diabetes", *options, "--report", str(report)]) == 0
        found = json.loads(report.read_text())["config"]
        assert found["solver"] == solver
        assert ("device cpu" in found["solver_reason"]) == (solver == "sgd")


def test_sweep_of_penalties_on_the_command_line(tmp_path, capsys):
    report = tmp_path / "report.json"
    assert main(["train", "diabetes", "--sweep", "l2=0.001,0.1,10", "--train-rows", "300",
                 "--report", str(report)]) == 0
    assert "Best of 3 candidates by the loss on the test rows: --l2 " in capsys.readouterr().out
    assert report_of(report)["solver"] == "bit-centred"


def test_a_stopped_run_goes_on(tmp_path, capsys):
    kept, whole, resumed = (str(tmp_path / name) for name in ("k.ckpt", "a.npz", "b.npz"))
    assert main(["train", "diabetes", "--out", whole]) == 0
    assert main(["train", "diabetes", "--checkpoint", kept]) == 0
    assert main(["train", "diabetes", "--resume", kept, "--out", resumed]) == 0
    with np.load(whole) as one, np.load(resumed) as other:
        np.testing.assert_array_equal(one["coef"], other["coef"])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["train", "diabetes", "--resume", kept, "--solver", "sgd"])
    assert "checkpoint of a training with other options" in capsys.readouterr().err
