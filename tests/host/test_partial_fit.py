"""Chunks of rows through partial_fit: ranges that stay, what lies beyond them, and draws."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import bitstep
from bitstep.quantization.bounds import Bounds, ClippingWarning, fixed_bounds, given_bounds
from bitstep.training import chunks
from bitstep.training.chunks import chunk_seed, fingerprint, opened_model

LowPrecisionClassifier = partial(bitstep.LowPrecisionClassifier, device="golden")
LowPrecisionRegressor = partial(bitstep.LowPrecisionRegressor, device="golden")
X, Y = map(np.asarray, load_diabetes(return_X_y=True))
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER], Y[ORDER]
GIVEN = {"feature_range": (X.min(axis=0), X.max(axis=0)), "label_range": (Y.min(), Y.max())}


def stream(model, features, labels, sizes, **options):
    """Train on chunks whose sizes are taken in turn; the warnings."""
    start, turn = 0, 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while start < len(features):
            stop = start + sizes[turn % len(sizes)]
            model.partial_fit(features[start:stop], labels[start:stop], **options)
            start, turn = stop, turn + 1
    return caught


def test_a_single_row_after_a_hundred():
    features, labels = map(np.asarray, load_diabetes(return_X_y=True))
    model = LowPrecisionRegressor(random_state=0).partial_fit(features[:100], labels[:100])
    coef, intercept, ranges = model.coef_, model.intercept_, model.feature_range_
    np.testing.assert_array_equal(ranges, [features[:100].min(0), features[:100].max(0)])
    assert model.label_range_ == (labels[:100].min(), labels[:100].max())
    before = model.predict(features)
    model.partial_fit(features[100:101], labels[100:101])
    np.testing.assert_array_equal(model.feature_range_, ranges)
    assert model.label_range_ == (labels[:100].min(), labels[:100].max())
    assert model.n_samples_seen_ == 101
    # One step of one row, no larger than its residual allows, and weights that mean the same.
    assert not np.array_equal(model.coef_, coef)
    assert abs(model.intercept_ - intercept) < 10
    assert np.abs(model.predict(features) - before).max() < 30


@pytest.mark.parametrize("bits, sizes, given", [
    (1, [1, 100], {}), (4, [100, 1, 2, 7], {}), (32, [100, 1, 2, 7], GIVEN),
    *(pytest.param(*case, marks=pytest.mark.slow)
      for case in ((1, [2], {}), (4, [2], GIVEN), (32, [7], {}), (4, [1], {}), (1, [7], GIVEN),
                   (8, [100], {})))])
def test_streams_learn(bits, sizes, given):
    model = LowPrecisionRegressor(bits=bits, schedule="constant", random_state=0, **given)
    for passes in range(2 if sizes[0] < 3 else 5):
        caught = stream(model, X, Y, sizes)
        assert len(caught) == (not given and passes == 0), [str(one.message) for one in caught]
    assert model.score(X, Y) > (0.25 if bits == 1 else 0.33)
    assert model.n_samples_seen_ == (passes + 1) * len(X)
    assert (model.clipped_["features"] > 0) == (model.clipped_["labels"] > 0) == (not given)


@pytest.mark.parametrize("n_features, batch", [(256, 64), (256, 256), (4096, 64)])
@pytest.mark.parametrize("loss", ["squared_error", "hinge"])
def test_wide_rows(n_features, batch, loss):
    rng = np.random.default_rng(1)
    features = rng.uniform(-1, 1, (300, n_features)).astype(np.float32)
    values = features[:, :8].sum(axis=1)
    options = {"batch": batch, "schedule": "constant", "random_state": 0, "feature_range": (-1, 1)}
    if loss == "hinge":
        model = LowPrecisionClassifier(loss=loss, refetch=False, **options)
        caught = stream(model, features, np.sign(values), [100, 1, 199], classes=[-1.0, 1.0])
    else:
        model = LowPrecisionRegressor(label_range=(-6, 6), **options)
        caught = stream(model, features, values, [100, 1, 199])
    assert not caught
    assert model.score(features, np.sign(values) if loss == "hinge" else values) > 0


def test_values_outside_are_clipped_counted_and_named_once():
    model = LowPrecisionRegressor(bits=8, random_state=0).partial_fit(X[:100], Y[:100])
    twin = LowPrecisionRegressor(bits=8, random_state=0).partial_fit(X[:100], Y[:100])
    features, labels = X[100:200].copy(), Y[100:200].copy()
    features[:, 3] = np.where(np.arange(100) % 2, 1e300, -1e308)
    labels[7], labels[9] = 1e200, -1e9
    low, high = model.feature_range_
    inside = np.clip(features, low, high), np.clip(labels, *model.label_range_)
    counts = {"features": int((features != inside[0]).sum()),
              "labels": int((labels != inside[1]).sum())}
    with pytest.warns(ClippingWarning) as caught:
        model.partial_fit(features, labels)
    assert model.clipped_ == counts
    text = str(caught[0].message)
    assert text.startswith(
        f"{counts['features']} of 1000 feature values (column 3 (counted from 0) holds -1e+308 to "
        f"1e+300, the range is {low[3]:g} to {high[3]:g}) and {counts['labels']} of 100 labels "
        "(they are -1e+09 to 1e+200, the range is {:g} to {:g}): ".format(*model.label_range_))
    assert "set feature_range or label_range to (low, high)" in text
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(features, labels)
    assert model.clipped_ == {name: 2 * count for name, count in counts.items()}
    # Clipped values are what would have been trained on.
    twin.partial_fit(*inside)
    other = chunk_seed(0, features, twin.first_rows_), chunk_seed(0, inside[0], twin.first_rows_)
    assert other[0] != other[1]
    assert np.abs(model.history_[1]["train_loss"] / twin.history_[1]["train_loss"] - 1) < 0.05
    assert np.isfinite(model.history_[2]["train_loss"])


def test_clipping_of_encodings_without_draws_is_exact():
    first, second = (LowPrecisionRegressor(bits=4, encoding="nearest", random_state=0)
                     .partial_fit(X[:100], Y[:100]) for _ in range(2))
    low, high = first.feature_range_
    with pytest.warns(ClippingWarning):
        first.partial_fit(100 * X[100:], Y[100:])
    second.first_rows_ = fingerprint(np.clip(100 * X[100:], low, high)) + 1
    second.random_state = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        second.partial_fit(np.clip(100 * X[100:], low, high), Y[100:])
    # The updates' rounding differs with the seed, by less than a thousandth.
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-3)


def test_a_wider_range_on_the_way_keeps_the_model():
    model = LowPrecisionRegressor(bits=8, random_state=0, step=1e-6)
    model.partial_fit(X[:100], Y[:100]).partial_fit(X[:100], Y[:100])
    model.coef_ = np.arange(10.0)
    before = model.predict(X)
    model.set_params(feature_range=(-1, 1), label_range=(0, 1000)).partial_fit(X, Y)
    np.testing.assert_array_equal(model.feature_range_, np.repeat([[-1.0], [1.0]], 10, axis=1))
    assert model.label_range_ == (0.0, 1000.0)
    assert model.clipped_ == {"features": 0, "labels": 0}
    np.testing.assert_allclose(model.predict(X), before, atol=0.2)
    # A narrower one does not shrink it.
    model.set_params(feature_range=(-0.5, 0.5)).partial_fit(X, Y)
    np.testing.assert_array_equal(model.feature_range_, np.repeat([[-1.0], [1.0]], 10, axis=1))


@pytest.mark.parametrize("bits", [1, 2, 4, 32])
def test_columns_without_a_range_in_the_first_chunk(bits):
    """A constant column takes its range from the rows in which it varies, and is learned."""
    features = np.random.default_rng(2).uniform(-1, 1, (400, 3)) * [1, 1, 1000]
    features[:100, 2] = 5000.0
    features[100:, 2] += 5000.0
    labels = features @ [2.0, -1.0, 0.003]
    model = LowPrecisionRegressor(bits=bits, random_state=0, schedule="constant",
                                  copies=1 if bits == 32 else 3, label_range=(8, 22))
    model.partial_fit(features[:100], labels[:100])
    assert model.feature_range_[:, 2].tolist() == [5000.0, 5000.0]
    before = model.predict(features[:100])
    step = model.step_ or 0
    assert not stream(model, features[100:101], labels[100:101], [1])
    assert model.feature_range_[:, 2].tolist() == sorted([5000.0, features[100, 2]])
    np.testing.assert_allclose(model.predict(features[:100]), before, atol=3)
    assert 0 < (model.step_ or 0) <= step
    wide = LowPrecisionRegressor(bits=bits, random_state=0, schedule="constant",
                                 label_range=(8, 22))
    wide.partial_fit(features[:100], labels[:100])
    for _ in range(30):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClippingWarning)    # columns 0 and 1, a little
            wide.partial_fit(features[100:], labels[100:])
    assert wide.score(features, labels) > (0.6 if bits == 1 else 0.9)


def test_labels_without_a_range_in_the_first_chunk():
    model = LowPrecisionRegressor(random_state=0, schedule="constant",
                                  feature_range=GIVEN["feature_range"])
    model.partial_fit(X[:50], np.full(50, 151.0))
    np.testing.assert_allclose(model.predict(X), 151.0, atol=1e-3)
    assert model.label_range_ == (151.0, 151.0)
    model.partial_fit(X[:100], Y[:100])
    assert model.label_range_ == (Y[:100].min(), Y[:100].max())
    assert model.clipped_["labels"] == 0
    for _ in range(10):
        model.partial_fit(X[:100], Y[:100])
    assert model.score(X, Y) > 0.3


def test_without_intercept():
    model = LowPrecisionRegressor(scaler="maxabs", fit_intercept=False, random_state=0,
                                  schedule="constant")
    stream(model, X, Y - Y.mean(), [100, 1, 7])
    largest = np.abs(X[:100]).max(axis=0)
    np.testing.assert_array_equal(model.feature_range_, [-largest, largest])
    low, high = model.label_range_
    assert low == -high
    assert model.score(X, Y - Y.mean()) > 0.2


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("loss", ["squared_error", "squared_hinge", "hinge", "log_loss"])
@pytest.mark.parametrize("bits", [2, 4])
def test_chunks_of_one_class(loss, bits):
    features, labels = map(np.asarray, load_breast_cancer(return_X_y=True))
    low, high = np.percentile(features, [0, 100], axis=0)
    model = LowPrecisionClassifier(loss=loss, bits=bits, random_state=0, schedule="constant",
                                   feature_range=(low, high))
    model.partial_fit(features[:50], labels[:50])
    for start in range(50, 550, 10):
        chunk = slice(start, start + 10)
        for value in (0, 1):
            chosen = labels[chunk] == value
            if chosen.any():
                model.partial_fit(features[chunk][chosen], labels[chunk][chosen])
    assert model.score(features, labels) > 0.8
    assert model.clipped_ == {"features": 0, "labels": 0}


def test_first_chunk_of_one_class():
    features, labels = map(np.asarray, load_breast_cancer(return_X_y=True))
    with pytest.raises(ValueError, match=r"one class, .*give the first partial_fit all of them as"):
        LowPrecisionClassifier().partial_fit(features[labels == 1], labels[labels == 1])
    model = LowPrecisionClassifier(random_state=0)
    model.partial_fit(features[labels == 1], labels[labels == 1], classes=[0, 1])
    assert (model.predict(features[labels == 1]) == 1).all()


def test_rows_of_a_stream_are_rounded_independently():
    """At 1 bit a value of 0 is drawn as 1 and -1 equally often, in chunks of one row, too."""
    seeds = {chunk_seed(0, np.array([[float(number)]]), 0) for number in range(1000)}
    assert len(seeds) == 1000
    assert chunk_seed(7, X, fingerprint(X)) == 7
    # Of many rows evenly spaced ones, the first and the last among them, and the shape.
    many = np.zeros((2 * chunks.FINGERPRINT_VALUES, 1))
    changed = many.copy()
    changed[-1] = 1
    assert len({fingerprint(one) for one in (many, many[:-1], changed)}) == 3
    assert chunk_seed(7, X, fingerprint(X[:5])) != chunk_seed(8, X, fingerprint(X[:5]))
    # With the same numbers for every row, the column would be a second intercept.
    model = LowPrecisionRegressor(bits=1, random_state=0, schedule="constant", step=0.05,
                                  encoding="stochastic", feature_range=(-1, 1), label_range=(-3, 3))
    noise = np.random.default_rng(3).normal(0, 1e-6, (200, 2))
    stream(model, noise, np.ones(200), [1])
    assert model.intercept_ == pytest.approx(1, abs=0.3)
    assert np.abs(model.coef_).max() < 0.3


def test_warm_start_keeps_the_ranges():
    model = LowPrecisionRegressor(random_state=0, epochs=2, warm_start=True).fit(X[:100], Y[:100])
    with pytest.warns(ClippingWarning):
        model.fit(X, Y)
    assert model.n_iter_ == model.best_epoch_ == 4
    assert model.n_samples_seen_ == 100 + len(X)
    np.testing.assert_array_equal(model.feature_range_[0], X[:100].min(axis=0))
    model.set_params(warm_start=False).fit(X, Y)
    np.testing.assert_array_equal(model.feature_range_[0], X.min(axis=0))
    assert model.clipped_ == {"features": 0, "labels": 0}
    assert model.n_samples_seen_ == len(X)


def test_a_model_without_ranges_takes_those_of_the_rows():
    """As the model of a file of the command line, which keeps none."""
    model = LowPrecisionRegressor(random_state=0).partial_fit(X[:100], Y[:100])
    coef = model.coef_
    for name in ("feature_range_", "label_range_", "clipped_", "n_samples_seen_", "first_rows_"):
        delattr(model, name)
    model.partial_fit(X, Y)
    np.testing.assert_array_equal(model.feature_range_, [X.min(axis=0), X.max(axis=0)])
    assert model.n_iter_ == 2
    assert np.linalg.norm(model.coef_ - coef) < np.linalg.norm(coef)


def test_a_refused_chunk_leaves_the_model():
    model = LowPrecisionRegressor(random_state=0).partial_fit(X[:100], Y[:100])
    kept = dict(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ClippingWarning):
            model.partial_fit(10 * X, Y)
    model.set_params(model_range=1e-3)
    with pytest.raises(ValueError, match=r"initial model must be below .* larger model_range"):
        model.partial_fit(X[:100], Y[:100])
    model.set_params(model_range="auto")
    for name, value in kept.items():
        np.testing.assert_array_equal(vars(model)[name], value)


@pytest.mark.parametrize("parameters, message", [
    ({"feature_range": 3}, r"a pair \(low, high\) of two numbers or two arrays of shape"),
    ({"feature_range": (0, np.zeros(9))}, "feature_range must be 'auto' or a pair"),
    ({"feature_range": "wide"}, "feature_range must be 'auto' or a pair"),
    ({"feature_range": (1, 1)}, r"the first below the second, not 1 and 1 \(column 0, counted"),
    ({"feature_range": (np.zeros(10), np.eye(10)[3])}, r"not 0 and 0 \(column 0"),
    ({"feature_range": (0, np.inf)}, "pair of finite numbers, .* not 0 and inf"),
    ({"label_range": (5, 2)}, "label_range must be a pair of finite numbers, .* not 5 and 2$"),
    ({"label_range": (1, 2, 3)}, r"label_range must be 'auto' or a pair \(low, high\) of two n"),
    ({"label_range": (0, 1e200)}, "below 1e.100 in magnitude"),
    ({"model_range": 0}, "model_range must be a number above 0, or auto, not 0"),
    ({"model_range": 1e12}, "model_range must be at most")])
def test_bad_ranges(parameters, message):
    with pytest.raises(ValueError, match=message):
        LowPrecisionRegressor(**parameters).fit(X, Y)


def test_model_range():
    fine = LowPrecisionRegressor(random_state=0, model_range=3).fit(X, Y)
    assert fine.model_range_ == 3
    plain = LowPrecisionRegressor(random_state=0, solver="sgd", epochs=2)
    assert plain.fit(X, Y).model_range_ == 32
    assert fine.score(X, Y) > 0.48


def test_bounds_by_hand():
    seen = Bounds(np.array([0.0, 2.0, -1.0]), np.array([1.0, 2.0, 5.0]))
    assert fixed_bounds(seen) is not None
    before = Bounds(np.array([0.2, 7.0, -9.0]), np.array([0.4, 7.0, 9.0]))
    fixed = fixed_bounds(seen, before=before)
    assert (fixed.low.tolist(), fixed.high.tolist()) == ([0.2, 2.0, -9.0], [0.4, 7.0, 9.0])
    growing = fixed_bounds(seen, before=before, growing=True)
    assert (growing.low.tolist(), growing.high.tolist()) == ([0.0, 2.0, -9.0], [1.0, 7.0, 9.0])
    given = given_bounds("feature_range", (-2, [1, 2, 3]), 3)
    assert given is not None
    both = fixed_bounds(seen, before=before, given=given, growing=True)
    assert (both.low.tolist(), both.high.tolist()) == ([-2.0, -2.0, -9.0], [1.0, 7.0, 9.0])
    even = fixed_bounds(seen, symmetric=True)
    assert (even.low.tolist(), even.high.tolist()) == ([-1.0, -2.0, -5.0], [1.0, 2.0, 5.0])


def test_a_model_moves_to_opened_columns():
    coef, intercept = opened_model(
        np.array([[1.0, 2.0, 3.0]]), np.array([10.0]),
        Bounds(np.array([5.0, 7.0, 1.0]), np.array([5.0, 7.0, 2.0])),
        Bounds(np.array([5.0, 6.0, 1.0]), np.array([5.0, 8.0, 2.0])))
    assert (coef.tolist(), intercept.tolist()) == ([[1.0, 0.0, 3.0]], [24.0])
