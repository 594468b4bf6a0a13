"""Sparse rows: the same models as of dense ones, without a dense matrix."""

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, LowPrecisionSearchCV
from bitstep.cli import main
from bitstep.quantization import scaling

DIGITS, NUMBERS = map(np.asarray, load_digits(return_X_y=True))
DIGITS, NUMBERS = DIGITS[:400], NUMBERS[:400]
FORMATS: list[Any] = [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array]


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize("options", [
    {}, {"scaler": "maxabs", "fit_intercept": False, "batch": 64}, {"loss": "hinge", "bits": 4},
    {"planes": 4, "loss": "squared_error"}])
def test_same_classifier(made, options):
    sparse = made(DIGITS)
    first, second = (LowPrecisionClassifier(epochs=2, random_state=0, **options).fit(
        rows, NUMBERS) for rows in (sparse, DIGITS))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.intercept_, second.intercept_)
    assert first.history_[-1]["train_loss"] == pytest.approx(second.history_[-1]["train_loss"])
    np.testing.assert_array_equal(first.predict(sparse), second.predict(DIGITS))
    np.testing.assert_allclose(first.decision_function(sparse), second.decision_function(DIGITS),
                               atol=1e-9)
    assert first.score(sparse, NUMBERS) == second.score(DIGITS, NUMBERS)


def test_clips_and_chunks():
    """Columns are clipped at quantiles, later chunks have values beyond, rows have weights."""
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((4000, 5)) < 0.6, np.sinh(3 * rng.standard_normal((4000, 5))), 0)
    targets, weights = np.tanh(rows).sum(axis=1), rng.uniform(0, 2, 4000)
    models = []
    for made in (np.asarray, scipy.sparse.csr_array):
        model = LowPrecisionRegressor(solver="sgd", random_state=0)
        model.fit(made(rows[:3000]), targets[:3000], weights[:3000])
        models.append(model.partial_fit(made(100 * rows[3000:]), targets[3000:] / 2))
    assert models[0].clip_range_ is not None
    for name in ("coef_", "clip_range_", "feature_range_", "first_rows_", "n_samples_seen_"):
        np.testing.assert_array_equal(getattr(models[0], name), getattr(models[1], name))
    assert models[0].clipped_ == models[1].clipped_
    assert models[0].clipped_["features"] > 500


def test_search():
    search = LowPrecisionSearchCV(LowPrecisionClassifier(epochs=2, random_state=0),
                                  {"l2": [0.0, 0.01]}, cv=2)
    scores = [search.fit(made(DIGITS), NUMBERS).cv_results_["mean_test_score"]
              for made in (np.asarray, scipy.sparse.csc_matrix)]
    np.testing.assert_array_equal(*scores)
    assert search.predict(scipy.sparse.coo_array(DIGITS)).shape == (400,)


@pytest.mark.filterwarnings("ignore:Training learned nothing")
@pytest.mark.filterwarnings("ignore:only 0.5 % of the values are not 0")
def test_memory():
    """4,096 columns: training holds codes, not values; prediction holds blocks. An automatic step
    would look at up to 2,048 dense rows.
    """
    n_rows, n_features = 2000, 4096
    rng = np.random.default_rng(0)
    places = rng.choice(n_rows * n_features, n_rows * n_features // 200, replace=False)
    rows = scipy.sparse.csr_array((rng.random(len(places)), np.divmod(places, n_features)),
                                  shape=(n_rows, n_features))
    labels = np.asarray(rows.sum(axis=1)).ravel() > 10
    model = LowPrecisionClassifier(bits=4, epochs=1, batch=256, step=0.1, random_state=0)
    model.fit(rows[:300], labels[:300])         # compiles
    tracemalloc.start()
    try:
        model.fit(rows, labels)
        model.predict(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n_rows * n_features * 8 / 3     # a dense matrix has 66 MB, codes have 4


def test_infinite_values_are_refused():
    rows = scipy.sparse.csr_array(DIGITS)
    rows.data[5] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        LowPrecisionClassifier().fit(rows, NUMBERS)


ZEROS = r"only 0\.1 % of the values are not 0, .* a trainer of sparse rows is faster, such as "


def rare(share):
    """Rows of 2,048 features of which so many are not 0, and classes."""
    rng = np.random.default_rng(0)
    made: Any = scipy.sparse.random
    features = made(2100, 2048, density=share, format="csr", random_state=0)
    return features, np.asarray(rng.integers(0, 2, 2100))


@pytest.mark.parametrize("dense", [False, True])
def test_rows_of_nearly_all_zeros_are_named(dense):
    features, labels = rare(0.001)
    with pytest.warns(UserWarning, match=ZEROS):
        LowPrecisionClassifier(epochs=1, random_state=0).fit(
            features.toarray() if dense else features, labels)


def test_the_exact_solver_names_them_too(monkeypatch):
    monkeypatch.setattr(scaling, "SPARSE_VALUES", 1 << 14)
    features, labels = rare(0.001)
    with pytest.warns(UserWarning, match="a trainer of sparse rows"):
        model = LowPrecisionClassifier(random_state=0).fit(features[:100, :200], labels[:100])
    assert model.solver_ == "bit-centred"


def test_other_rows_are_not_named():
    features, labels = rare(0.01)
    LowPrecisionClassifier(epochs=1).fit(features, labels)
    features, labels = rare(0.001)
    LowPrecisionClassifier(epochs=1).fit(features[:1000], labels[:1000])    # small


@pytest.mark.filterwarnings("default")
def test_the_command_says_the_same(tmp_path, capsys):
    features, labels = rare(0.001)
    np.savez(tmp_path / "set.npz", X=features.toarray().astype(np.float32), y=labels * 1.0)
    assert main(["train", str(tmp_path / "set.npz"), "--epochs", "1", "--device", "cpu"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "sparse" in line]
    assert len(said) == 1
    assert re.match("bitstep train: warning: " + ZEROS, said[0])
