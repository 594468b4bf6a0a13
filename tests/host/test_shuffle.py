"""Parameter ``shuffle`` of the estimators."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tests.host.test_sample_weight import assert_same

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, LowPrecisionSearchCV
from bitstep.cli import main
from bitstep.data.dataset import shuffled
from bitstep.training.files.model_file import load_model

rng = np.random.default_rng(11)
X = rng.standard_normal((600, 5))
CLASSES = np.digitize(X[:, 0] - X[:, 1] + rng.standard_normal(600), [-0.7, 0.7])
TARGETS = X @ rng.standard_normal((5, 2)) + 0.1 * rng.standard_normal((600, 2))
WEIGHTS = rng.uniform(0.2, 2, 600)
ORDER = shuffled(600, 3)


def test_sorted_classes():
    """In the order of their classes the last one would win every epoch."""
    rows = rng.standard_normal((2000, 10))
    labels = (rows[:, 0] + rows[:, 1] + 1.5 * rng.standard_normal(2000) > 0).astype(int)
    order = np.argsort(labels, kind="stable")
    model = LowPrecisionClassifier(solver="sgd", random_state=0)
    mixed = model.fit(rows, labels).score(rows, labels)
    assert model.fit(rows[order], labels[order]).score(rows, labels) > mixed - 0.01
    model.set_params(shuffle=False)
    assert model.fit(rows[order], labels[order]).score(rows, labels) < mixed - 0.1


@pytest.mark.parametrize("made", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("options", [
    {}, {"batch": 64}, {"copies": 2}, {"planes": 4}, {"bits": 32},
    {"solver": "bit-centred", "tol": 0}, {"tol": 0.01}])
def test_targets_follow_their_rows(made, options):
    """And so do two targets of a row, and rows that are made dense."""
    chosen: dict[str, Any] = {"epochs": 2, "random_state": 3, **options}
    assert_same(LowPrecisionRegressor(**chosen).fit(made(X), TARGETS),
                LowPrecisionRegressor(shuffle=False, **chosen).fit(X[ORDER], TARGETS[ORDER]))


@pytest.mark.parametrize("weights", [None, WEIGHTS, np.round(WEIGHTS)])
@pytest.mark.parametrize("options", [
    {}, {"class_weight": "balanced"}, {"loss": "hinge"}, {"class_weight": {0: 2.5, 2: 1}}])
def test_weights_follow_their_rows(weights, options):
    chosen: dict[str, Any] = {"epochs": 2, "random_state": 3, **options}
    order = ORDER if weights is None else np.flatnonzero(weights)[
        shuffled(int(np.count_nonzero(weights)), 3)]
    one, other = (LowPrecisionClassifier(shuffle=shuffle, **chosen) for shuffle in (True, False))
    assert_same(one.fit(X, CLASSES, weights), other.fit(
        X[order], CLASSES[order], None if weights is None else weights[order]))


@pytest.mark.parametrize("weights", [None, np.round(WEIGHTS) + 1])
def test_rows_that_are_held_out_keep_their_targets(weights):
    """Without noise the model has no loss on them, nor on its own rows."""
    model = LowPrecisionRegressor(early_stopping=True, random_state=3, bits=32, epochs=40)
    model.fit(X, X @ [1, 2, 3, 4, 5], weights)
    assert model.history_[-1]["validation_loss"] < 1e-3
    assert model.history_[-1]["train_loss"] < 1e-3


def test_candidates_are_shuffled_as_by_fit():
    grid = [{"l2": 0.0}, {"l2": 0.1}]
    model = LowPrecisionClassifier(random_state=3, epochs=2)
    parts: Any = grid
    for one, chosen in zip(model.fit_candidates(X, CLASSES, grid, WEIGHTS), parts, strict=True):
        assert_same(one, LowPrecisionClassifier(random_state=3, epochs=2, **chosen).fit(
            X, CLASSES, WEIGHTS))
    order = np.argsort(CLASSES, kind="stable")
    search = LowPrecisionSearchCV(model, {"l2": [0.0]}, cv=3).fit(X[order], CLASSES[order])
    assert search.score(X, CLASSES) > 0.6


def test_chunks_are_not_shuffled():
    one, other = (LowPrecisionClassifier(random_state=3, shuffle=shuffle, epochs=1, solver="sgd",
                                         schedule="inverse")
                  for shuffle in (True, False))
    assert_same(one.partial_fit(X, CLASSES), other.fit(X, CLASSES))


def test_warm_start_goes_on_with_the_same_order():
    """Bit for bit."""
    one, other = (LowPrecisionClassifier(random_state=3, epochs=epochs, warm_start=epochs == 2,
                                         solver="sgd", schedule="inverse") for epochs in (2, 4))
    one.fit(X, CLASSES).fit(X, CLASSES)
    other.set_params(model_range=one.model_range_)
    np.testing.assert_array_equal(one.coef_, other.fit(X, CLASSES).coef_)


@pytest.mark.parametrize("weight", [None, "balanced", "0=1,1=2.5,2=1"])
def test_the_command_line_has_the_same_order(tmp_path, capsys, weight):
    """So it has the same model, bit for bit."""
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, CLASSES]), delimiter=",", fmt="%.17g")
    options = [] if weight is None else ["--class-weight", weight]
    assert main(["train", str(tmp_path / "rows.csv"), "--seed", "3", "--epochs", "2", "--model",
                 "logistic", "--out", str(tmp_path / "model.npz"), *options]) == 0
    capsys.readouterr()
    asked: Any = {0: 1, 1: 2.5, 2: 1} if weight and "=" in weight else weight
    model = LowPrecisionClassifier(random_state=3, epochs=2, class_weight=asked).fit(X, CLASSES)
    np.testing.assert_array_equal(load_model(tmp_path / "model.npz").coef, model.coef_)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_bad_value(value):
    with pytest.raises(ValueError, match=f"shuffle must be True or False, not {value!r}"):
        LowPrecisionClassifier(shuffle=value).fit(X, CLASSES)
