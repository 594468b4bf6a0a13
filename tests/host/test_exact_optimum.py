"""Solver ``bit-centred`` on columns with values far out: the optimum of the rows as they are."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.training.choices import OptimumWarning, resolve_scaler
from bitstep.training.model_file import load_model

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


def test_quantized_file(tmp_path, capsys):
    source, stored = tmp_path / "rows.csv", tmp_path / "rows.npz"
    np.savetxt(source, np.column_stack([X, Y]), delimiter=",", fmt="%.17g")
    assert main(["quantize", str(source), "--bit-planes", "--out", str(stored)]) == 0
    capsys.readouterr()
    train(stored)
    assert "scaler 'quantile' clips 3 of 4 columns, 'minmax' none" in capsys.readouterr().err
    assert main(["quantize", str(source), "--bit-planes", "--scaler", "minmax", "--out",
                 str(stored)]) == 0
    capsys.readouterr()
    train(stored)
    assert "warning" not in capsys.readouterr().err
