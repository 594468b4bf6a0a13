"""Solver ``bit-centred`` on columns with values far out: the optimum of the rows as they are."""

import json
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.training.choices import OptimumWarning, resolve_scaler
from bitstep.training.files.model_file import load_model

rng = np.random.default_rng(0)
X = np.exp(2 * rng.standard_normal((5000, 4)))
Y = X @ [1, 2, 3, 4] + rng.standard_normal(5000)
LARGE = np.median(Y) < Y
BEST: Any = LinearRegression().fit(X, Y)
CENTRED: dict[str, Any] = {"solver": "bit-centred", "epochs": 12, "tol": 0.0, "random_state": 0}


def excess(coef, intercept):
    """Squared error above the least one, as a share of it."""
    return np.mean((X @ coef + intercept - Y) ** 2) / np.mean((BEST.predict(X) - Y) ** 2) - 1


def test_large_values_carry_the_line():
    model = LowPrecisionRegressor(l2=0.0, **CENTRED).fit(X, Y)
    assert model.clip_range_ is None
    assert excess(model.coef_, model.intercept_) < 1e-5


def test_a_clip_that_is_asked_for_is_said():
    message = (r"optimum of other rows: scaler 'quantile' clips 3 of 4 columns \(0.15 % of all "
               r"values\), 'minmax' none$")
    with pytest.warns(OptimumWarning, match=message):
        model = LowPrecisionRegressor(scaler="quantile", **CENTRED).fit(X, Y)
    assert excess(model.coef_, model.intercept_) > 1
    with pytest.warns(OptimumWarning, match="quantile"):
        LowPrecisionClassifier(scaler="quantile", l2=0.01, **CENTRED).fit(X, LARGE)


@pytest.mark.parametrize("kind", [LowPrecisionRegressor, LowPrecisionClassifier])
def test_sgd_clips(kind):
    model = kind(random_state=0, epochs=1).fit(X, LARGE)
    assert model.clip_range_ is not None


def test_default():
    assert resolve_scaler(None) == resolve_scaler(None, "sgd") == "quantile"
    assert resolve_scaler(None, "bit-centred") == "minmax"
    assert resolve_scaler("maxabs", "bit-centred") == "maxabs"
    assert resolve_scaler(None, fit_intercept=False) == "maxabs"
    assert resolve_scaler(None, "bit-centred", fit_intercept=False) == "maxabs"
    assert resolve_scaler("minmax", "bit-centred", fit_intercept=False) == "minmax"


def train(*options):
    assert main(["train", *map(str, options), "--epochs", "12", "--solver", "bit-centred",
                 "--tol", "0", "--l2", "0"]) == 0


def test_command_line(tmp_path, capsys):
    source, report, out = (tmp_path / name for name in ("rows.csv", "report.json", "out.npz"))
    np.savetxt(source, np.column_stack([X, Y]), delimiter=",", fmt="%.17g")
    train(source, "--report", report, "--out", out)
    assert "warning" not in capsys.readouterr().err
    assert json.loads(report.read_text())["config"]["scaler"] == "minmax"
    model = load_model(out)
    assert excess(model.coef[0], model.intercept[0]) < 1e-5
    train(source, "--scaler", "quantile")
    error = capsys.readouterr().err
    assert "warning: Solver 'bit-centred' ends at the optimum of other rows: " in error
    assert "scaler 'quantile' clips 3 of 4 columns (0.15 % of all values)" in error
    assert main(["train", str(source), "--scaler", "quantile"]) == 0        # that solver by default
    assert "scaler 'quantile' clips 3 of 4 columns" in capsys.readouterr().err


def test_quantized_file(tmp_path, capsys):
    source, stored = tmp_path / "rows.csv", tmp_path / "rows.npz"
    np.savetxt(source, np.column_stack([X, Y]), delimiter=",", fmt="%.17g")
    assert main(["quantize", str(source), "--bit-planes", "--out", str(stored)]) == 0
    capsys.readouterr()
    for options in (("--solver", "bit-centred"), ()):
        assert main(["train", str(stored), *options]) == 0
        assert "scaler 'quantile' clips 3 of 4 columns, 'minmax' none" in capsys.readouterr().err
    assert main(["quantize", str(source), "--bit-planes", "--scaler", "minmax", "--out",
                 str(stored)]) == 0
    capsys.readouterr()
    train(stored)
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("far", [30, 100])
def test_an_outlier_does_not_end_training_early(far):
    """The intercept of the first model lies halfway to the outlier: its gradient is no measure."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((2000, 4))
    outputs = features @ [1, 2, 3, 4] + 0.5 * draw.standard_normal(2000)
    features[0] += far
    outputs[0] += 10 * far
    model = LowPrecisionRegressor(random_state=0).fit(features, outputs)
    best = LinearRegression().fit(features, outputs)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.02)
    assert model.history_[-1]["gradient"] < 1e-4


@pytest.mark.parametrize("rare", [1, 5])
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_few_rows_of_a_class(loss, rare):
    """A model that gives them no chance has a small gradient, and is not the optimum."""
    draw = np.random.default_rng(1)
    features = draw.standard_normal((20_000, 3))
    outputs = features @ [1, 2, -1] + draw.standard_normal(20_000)
    classes = np.zeros(20_000, int)
    classes[np.argsort(outputs)[-rare:]] = 1
    model = LowPrecisionClassifier(loss=loss, random_state=0).fit(features, classes)
    exact = LowPrecisionClassifier(loss=loss, random_state=0, tol=1e-7, solver="bit-centred",
                                   epochs=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact.fit(features, classes)
    assert model.history_[-1]["train_loss"] < 1.02 * exact.history_[-1]["train_loss"]
    if loss == "log_loss":
        assert model.predict_proba(features)[:, 1].sum() == pytest.approx(rare, rel=0.02)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_in_the_order_of_their_margin(classes):
    """Inner passes end where the last rows lead, so training refines instead."""
    draw = np.random.default_rng(2)
    features = draw.standard_normal((3000, 2))
    scores = features.sum(axis=1) + 0.5 * draw.standard_normal(3000)
    labels = np.digitize(scores, [-1, 1] if classes == 3 else [0])
    order = np.argsort(features.sum(axis=1))
    found = [LowPrecisionClassifier(shuffle=False, random_state=0, tol=1e-6, solver="bit-centred",
                                    epochs=100).fit(features[rows], labels[rows])
             for rows in (order, draw.permutation(3000))]
    np.testing.assert_allclose(found[0].coef_, found[1].coef_, rtol=1e-3, atol=1e-4)
    assert found[0].history_[-1]["gradient"] < 1e-6


@pytest.mark.parametrize("l2", [0, 1e-9, "auto"])
def test_a_column_of_zeros_without_an_intercept(l2):
    draw = np.random.default_rng(0)
    features = draw.standard_normal((200, 3))
    features[:, 2] = 0
    outputs = features[:, 0] + 5
    model = LowPrecisionRegressor(l2=l2, fit_intercept=False, scaler="maxabs", random_state=0)
    model.fit(features, outputs)
    assert model.coef_[2] == 0
    best = LinearRegression(fit_intercept=False).fit(features[:, :2], outputs)
    np.testing.assert_allclose(model.coef_[:2], best.coef_, atol=0.01)


@pytest.mark.parametrize("options", [
    {"bits": 1}, {"bits": 1, "encoding": "nearest"}, {"bits": 2, "encoding": "double"},
    {"planes": 1}])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_column_with_one_value_has_no_weight(options, intercept):
    """Codes without a level for 0 would give it one, by chance; outputs of the rows stay."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((300, 3))
    features[:, 2] = 7 if intercept else 0
    outputs = features[:, 0] + 5 * intercept
    model = LowPrecisionRegressor(random_state=0, solver="sgd", fit_intercept=intercept,
                                  scaler="minmax" if intercept else "maxabs", **options)
    model.fit(features, outputs)
    assert model.coef_[2] == 0
    assert model.coef_[0] != 0
    loss = np.mean((model.predict(features) - outputs) ** 2) / 2
    assert model.history_[-1]["train_loss"] == pytest.approx(loss, rel=1e-9)
    model.partial_fit(features, outputs)
    assert model.coef_[2] == 0


@pytest.mark.parametrize("model, classes", [
    (LowPrecisionRegressor(), 0), (LowPrecisionClassifier(), 2), (LowPrecisionClassifier(), 3),
    (LowPrecisionClassifier(loss="squared_hinge"), 2)])
def test_a_start_at_the_optimum_is_near_enough(model, classes):
    draw = np.random.default_rng(0)
    features = draw.standard_normal((2000, 5))
    outputs = features @ draw.standard_normal(5) + draw.standard_normal(2000)
    labels = np.digitize(outputs, np.quantile(outputs, np.arange(1, classes) / classes)) \
        if classes else outputs
    model.set_params(random_state=0, warm_start=True).fit(features, labels)
    steps, coef = model.n_iter_, model.coef_
    model.fit(features, labels)         # a ConvergenceWarning would be an error
    assert model.n_iter_ == steps + 1
    assert np.abs(model.coef_ - coef).max() < 1e-3 * np.abs(coef).max()


@pytest.mark.parametrize("kind", [LowPrecisionRegressor, LowPrecisionClassifier])
def test_a_gradient_that_rounding_hides_ends_training(kind):
    """Without a limit of its own least squares would take all of its outer steps."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((3000, 3))
    features[0] += 1e7
    outputs = features @ [1, 2, 3] + draw.standard_normal(3000)
    labels = outputs if kind is LowPrecisionRegressor else (outputs > 0).astype(int)
    model = kind(random_state=0, tol=1e-12, loss="squared_error", solver="bit-centred", epochs=300)
    with pytest.warns(ConvergenceWarning, match="of which the last made it no smaller"):
        model.fit(features, labels)
    assert model.n_iter_ < 100


@pytest.mark.parametrize("kind, rows, l2", [    # few rows, whose curvature the host finds; many
    (LowPrecisionRegressor, 300, 1e6), (LowPrecisionRegressor, 40_000, 1e6),
    (LowPrecisionClassifier, 300, 1e4), (LowPrecisionClassifier, 300, 1e6),
    (LowPrecisionClassifier, 40_000, 1e4)])
def test_a_large_penalty_ends_with_the_last_bits_of_words(kind, rows, l2):
    """Without a warning, which would ask for a larger one, as all are errors here."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((rows, 10))
    targets = features[:, 0] + rng.standard_normal(rows)
    if kind is LowPrecisionClassifier:
        targets = (targets > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind(l2=l2, random_state=0).fit(features, targets)
    assert model.n_iter_ <= 6
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    # To the first order: the mean of the standardized columns times the residuals, over l2.
    exact = scaled.T @ (targets - targets.mean()) / rows / l2
    least = np.abs(exact).max()
    np.testing.assert_allclose((model.coef_ * features.std(axis=0)).ravel(), exact,
                               atol=(2e-4 if rows == 300 else 2e-3) * least)


@pytest.mark.parametrize("kind", [LowPrecisionRegressor, LowPrecisionClassifier])
def test_the_largest_penalties_leave_no_weight(kind):
    features = np.random.default_rng(0).standard_normal((300, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind(l2=1e300, random_state=0).fit(features, features[:, 0] > 0)
    np.testing.assert_allclose(model.coef_, 0, atol=1e-12)
    assert model.n_iter_ <= 3


@pytest.mark.parametrize("solver", ["bit-centred", "sgd"])
@pytest.mark.parametrize("features, labels", [(1e250, 1e-90), (1e-250, 1e90)])
def test_weights_that_no_float_holds(solver, features, labels):
    """Those that are too small for one would be 0."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((50, 2))
    model = LowPrecisionRegressor(solver=solver, epochs=3, random_state=0, tol=0.0)
    with pytest.raises(ValueError, match=r"^Feature 0 .* together with that of the labels, not "
                       rf"\d\.\d\de[+-]{abs(np.log10(features)):.0f}; scale the column"):
        model.fit(values * features, values.sum(axis=1) * labels)
