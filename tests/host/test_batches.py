"""Batches that a user leaves open, on the paths of a user."""

import json

import numpy as np
import pytest

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main

ROWS = 5000
X = np.random.default_rng(0).uniform(-1, 1, (ROWS, 3))
Y = X @ [1.0, -0.5, 0.25]


@pytest.mark.parametrize("kind, y", [(LowPrecisionRegressor, Y), (LowPrecisionClassifier, Y > 0)])
def test_batches_of_many_rows(kind, y, tmp_path):
    """The model is the one that asks for them; its file says which they were."""
    options = {"solver": "sgd", "epochs": 2, "random_state": 0}
    model = kind(**options).fit(X, y)
    asked = kind(**options, batch=4).fit(X, y)
    assert (model.batch_, asked.batch_) == (4, 4)
    assert np.array_equal(model.coef_, asked.coef_)
    model.save(tmp_path / "model.npz")
    again = kind.load(tmp_path / "model.npz")
    assert (again.batch, again.batch_) == ("auto", 4)
    assert kind(**options).fit(X[:-1], y[:-1]).batch_ == 1
    assert kind(**options, step=0.1).fit(X, y).batch_ == 1
    assert kind().fit(X, y).batch_ == 1             # bit-centred
    assert kind(**options).partial_fit(X, y).batch_ == 1


def test_batches_of_candidates():
    """Those that choose a step have batches of 1, and the others those of many rows."""
    model = LowPrecisionRegressor(solver="sgd", epochs=2, random_state=0)
    with_step, without = model.fit_candidates(X, Y, [{"step": 0.1}, {"l2": 0.01}])
    assert (with_step.batch_, without.batch_) == (1, 4)
    alone = LowPrecisionRegressor(solver="sgd", epochs=2, random_state=0, l2=0.01).fit(X, Y)
    assert np.array_equal(without.coef_, alone.coef_)


def test_batches_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.column_stack([X, Y]), delimiter=",", header="a,b,c,y", comments="")
    report = tmp_path / "report.json"
    options = ("--label-column", "y", "--bits", "4", "--epochs", "2", "--report", str(report))
    assert main(["train", str(path), *options]) == 0
    assert "4 bits compensated, batches of 4, device" in capsys.readouterr().out
    assert json.loads(report.read_text())["config"]["batch"] == 4
    assert main(["train", str(path), *options, "--step", "0.1"]) == 0
    assert "4 bits compensated, device" in capsys.readouterr().out
    assert json.loads(report.read_text())["config"]["batch"] == 1
