"""Early stopping and history of the estimators."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_wine

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, LowPrecisionSearchCV
from bitstep.estimators import base
from bitstep.training import copies

WINE = load_wine(return_X_y=True)


@pytest.mark.parametrize("options", [{}, {"loss": "squared_error"}])
def test_best_model_on_every_device(options):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    made = [LowPrecisionClassifier(random_state=0, early_stopping=True, epochs=25, tol=0.003,
                                   validation_fraction=0.3, n_iter_no_change=2, device=device,
                                   **options).fit(X, y) for device in ("golden", "cpu")]
    for model in made:
        losses = [entry["validation_loss"] for entry in model.history_]
        assert model.best_epoch_ == 1 + int(np.argmin(losses))
        assert model.n_iter_ == len(losses) < 25
        last = model.history_[-1]
        assert all(0.8 < last[name] <= 1 for name in ("train_accuracy", "validation_accuracy"))
    np.testing.assert_array_equal(made[0].coef_, made[1].coef_)
    assert made[0].history_ == made[1].history_


def test_history_has_the_accuracy():
    X, y = WINE
    model = LowPrecisionClassifier(random_state=0, epochs=3, scaler="minmax").fit(X, y)
    assert model.history_[-1]["train_accuracy"] == model.score(X, y)
    assert "validation_loss" not in model.history_[0]
    assert model.best_epoch_ == model.n_iter_ == 3


def test_regression_with_several_targets():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    Y = X @ rng.standard_normal((20, 2)) + 5 * rng.standard_normal((300, 2))
    model = LowPrecisionRegressor(random_state=0, epochs=60, tol=0.002, early_stopping=True)
    model.fit(X, Y)
    assert model.best_epoch_ <= model.n_iter_ < 60
    assert "train_accuracy" not in model.history_[0]
    whole = LowPrecisionRegressor(random_state=0, epochs=60, tol=0.002).fit(X, Y)
    assert whole.best_epoch_ == whole.n_iter_ < 60
    assert whole.n_samples_seen_ == 300 == model.n_samples_seen_ + 30


def test_copies_of_a_row_stay_together(monkeypatch):
    """A row that weights repeat is on one side."""
    monkeypatch.setattr(copies, "MADE", ())
    X, y = WINE
    options = {"random_state": 0, "early_stopping": True, "epochs": 4, "scaler": "minmax"}
    plain = LowPrecisionClassifier(**options).fit(X, y)
    twice = LowPrecisionClassifier(**options).fit(X, y, sample_weight=np.full(len(y), 2))
    assert twice.n_samples_seen_ == 2 * plain.n_samples_seen_
    for end in (0, 1):
        np.testing.assert_array_equal(plain.feature_range_[end], twice.feature_range_[end])


def test_kept_model_is_that_of_a_training_that_ended_there():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20))
    y = X @ rng.standard_normal(20) + 8 * rng.standard_normal(60)
    options = {"random_state": 2, "early_stopping": True, "schedule": "constant", "step": 0.05,
               "validation_fraction": 0.3}
    stopped = LowPrecisionRegressor(epochs=30, **options).fit(X, y)
    assert 1 < stopped.best_epoch_ < stopped.n_iter_ < 30
    ended = LowPrecisionRegressor(epochs=stopped.best_epoch_, **options).fit(X, y)
    np.testing.assert_array_equal(stopped.coef_, ended.coef_)
    assert stopped.intercept_ == ended.intercept_
    assert stopped.noise_floor_ is not None
    assert stopped.noise_floor_ == ended.noise_floor_


@pytest.mark.parametrize("early_stopping", [True, False])
def test_loss_that_stops_is_by_weight(early_stopping):
    """Five in six rows follow another line than those that have nearly all the weight, and are
    worse off in every epoch."""
    x = np.linspace(-1, 1, 600)[:, None]
    heavy = np.arange(600) % 6 == 0
    y, weights = np.where(heavy, x[:, 0], -x[:, 0]), np.where(heavy, 100.0, 1.0)
    model = LowPrecisionRegressor(random_state=0, early_stopping=early_stopping, epochs=40,
                                  step=0.002, schedule="constant", tol=0.001, n_iter_no_change=2)
    model.fit(x, y, sample_weight=weights)
    name = "validation_loss" if early_stopping else "train_loss"
    losses = [entry[name] for entry in model.history_]
    assert model.best_epoch_ > 5
    assert losses[0] > 2 * losses[-1]
    assert np.mean((model.predict(x) - y)[heavy] ** 2) < 0.1
    assert np.mean((model.predict(x) - y) ** 2) > np.mean(y ** 2)


def test_a_share_of_each_class_is_held_out(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 20 == 0
    entries, rare = base.history_entries, []

    def seen(*args, **named):
        held = next(one for one in args if isinstance(one, copies.Pass))
        rare.append((held.targets[:, 0] > 0).sum())
        return entries(*args, **named)

    monkeypatch.setattr(base, "history_entries", seen)
    for seed in range(8):
        LowPrecisionClassifier(random_state=seed, early_stopping=True, validation_fraction=0.5,
                               epochs=1).fit(X, y)
    assert len(rare) == 8
    assert set(rare) <= {4, 5}


def test_held_out_rows_are_clipped_as_predictions_clip_them():
    X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    y = X @ [1.0, 2.0]
    X[7, 0] = X[1400, 0] = 1e5
    for seed in range(3):       # each trains on one of the two at least, and so clips
        model = LowPrecisionRegressor(random_state=seed, early_stopping=True, epochs=3,
                                      validation_fraction=0.5).fit(X, y)
        assert model.clip_range_ is not None
        assert max(entry["validation_loss"] for entry in model.history_) < np.mean(y ** 2) / 2


def test_sparse_rows():
    X, y = WINE
    options = {"random_state": 0, "early_stopping": True, "epochs": 6, "verbose": 0}
    dense = LowPrecisionClassifier(**options).fit(X, y)
    other = LowPrecisionClassifier(**options).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(dense.coef_, other.coef_)
    assert dense.history_ == other.history_
    LowPrecisionClassifier(random_state=0, tol=0.1, epochs=6).fit(sparse.csr_matrix(X), y)


def test_warm_start_goes_on_from_the_best(tmp_path):
    X, y = WINE
    model = LowPrecisionClassifier(random_state=0, early_stopping=True, warm_start=True, tol=0.01,
                                   epochs=30).fit(X, y)
    first = model.n_iter_
    model.save(tmp_path / "model.npz")
    loaded = LowPrecisionClassifier.load(tmp_path / "model.npz")
    assert (loaded.early_stopping, loaded.best_epoch_) == (True, model.best_epoch_)
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    model.fit(X, y)
    assert model.n_iter_ > first
    assert [entry["epoch"] for entry in model.history_] == list(range(1, model.n_iter_ + 1))
    best = min(model.history_[first:], key=lambda entry: entry["validation_loss"])
    assert model.best_epoch_ == best["epoch"]


@pytest.mark.parametrize("options, message", [
    ({"early_stopping": 1}, "early_stopping must be True or False, not 1"),
    ({"early_stopping": True, "validation_fraction": 1.0}, "validation_fraction must be between"),
    ({"tol": -1.0}, "tol must be a number of at least 0"),
    ({"n_iter_no_change": 0}, "n_iter_no_change must be an integer of at least 1, not 0")])
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        LowPrecisionRegressor(**options).fit(np.eye(8), np.arange(8.0))


def test_what_does_not_go_together():
    X, y = WINE
    search = LowPrecisionSearchCV(LowPrecisionClassifier(early_stopping=True), {"l2": [0.0, 0.1]})
    with warnings.catch_warnings(), pytest.raises(ValueError, match="share their epochs"):
        search.fit(X, y)
