import pickle
from typing import Any

import numpy as np
import pytest
from sharded import make_parts, same, train_parts
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.data.dataset import DataError
from bitstep.training.shards.parts import Part, make_shards, merge, shard_plan_of, summarize
from bitstep.training.shards.shards import LocalShards

DIABETES: Any = load_diabetes(return_X_y=True)
X, Y = DIABETES
CANCER: Any = load_breast_cancer(return_X_y=True)
IRIS: Any = load_iris(return_X_y=True)


def regressor(**options):
    return LowPrecisionRegressor(**{"solver": "bit-centred", "planes": 4, "epochs": 6,
                                    "random_state": 3, "l2": 1e-3, "tol": 0.0} | options)


def classifier(**options):
    return LowPrecisionClassifier(**{"solver": "bit-centred", "planes": 4, "epochs": 5,
                                     "random_state": 3, "l2": 1e-2, "tol": 0.0} | options)


@pytest.mark.parametrize("estimator, data", [
    (regressor(), (X, Y)), (regressor(l2=0.0, shuffle=False, random_state=0), (X, Y)),
    (regressor(fit_intercept=False, scaler="maxabs"), (X, Y)),
    (regressor(step=0.01, planes=[2, 8]), (X, np.stack([Y, -Y ** 2], axis=1))),
    (regressor(), (X[:5], Y[:5])),                      # fewer rows than between two corrections
    (regressor(), (X[:40], np.full(40, 2.0))),          # constant targets
    (classifier(), CANCER), (classifier(loss="squared_hinge"), CANCER),
    (classifier(loss="squared_error"), IRIS), (classifier(), IRIS)])
def test_one_shard_is_the_ordinary_training(estimator, data):
    estimator.fit(*data)
    model = train_parts(estimator, make_parts(data[0], data[1], [0, len(data[0])]))
    np.testing.assert_array_equal(model.coefs[-1], np.atleast_2d(estimator.coef_))
    np.testing.assert_array_equal(model.intercepts[-1], np.atleast_1d(estimator.intercept_))
    assert model.epochs_done == estimator.n_iter_
    assert model.counters["bytes_read"] == estimator.counters_["bytes_read"]
    read = [entry["bytes_read"] for entry in estimator.history_]
    assert model.bytes_read is not None
    assert model.bytes_read.tolist() == read


class Scattered(LocalShards):
    """Shards that are sent elsewhere before every pass, and answer in another order."""

    def each(self, name, method, *arguments, **options):
        found = {}
        for number in reversed(range(len(self._shards))):
            away = pickle.loads(pickle.dumps(self._shards[number]))
            found[number] = getattr(away, method)(self._device, *arguments, **options)
        return [found[number] for number in range(len(found))]


@pytest.mark.parametrize("estimator, data", [(regressor(), (X, Y)), (classifier(), CANCER),
                                             (classifier(), IRIS)])
def test_shards_keep_nothing_that_matters(estimator, data):
    parts = make_parts(data[0], data[1], [0, 100, 110, len(data[0])])
    assert same(train_parts(estimator, parts), train_parts(estimator, parts, shards=Scattered))


def test_pieces_of_a_part_are_shards():
    whole = train_parts(regressor(), make_parts(X, Y, [0, 442]), shard_rows=111)
    assert same(whole, train_parts(regressor(), make_parts(X, Y, [0, 110, 221, 331, 442])))
    assert not same(whole, train_parts(regressor(), make_parts(X, Y, [0, 442])))


@pytest.mark.parametrize("shards", [3, 16])
def test_optimum_is_that_of_all_rows(shards):
    ends = np.linspace(0, len(X), shards + 1).astype(int)
    order = np.argsort(Y)               # shards as unlike as can be
    model = train_parts(regressor(epochs=40, l2=0.0, tol=1e-6), make_parts(X[order], Y[order],
                                                                             ends))
    exact = Ridge(alpha=1e-9).fit(X, Y)
    np.testing.assert_allclose(X @ model.coefs[-1][0] + model.intercepts[-1][0], exact.predict(X),
                               atol=0.5)        # features of 16 bits, targets of 25 to 346


def test_optimum_of_classes_and_its_certificate():
    features, labels = CANCER
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    model = train_parts(classifier(epochs=40, l2=1e-2, tol=1e-5),
                        make_parts(scaled, labels, [0, 150, 320, 569]))
    exact = LogisticRegression(C=100 / 569, tol=1e-9, max_iter=5000).fit(scaled, labels)
    np.testing.assert_allclose(model.coefs[-1], exact.coef_, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(model.intercepts[-1], exact.intercept_, rtol=1e-2)
    assert model.gaps is not None
    assert model.gaps[-1, 0] < 1e-4


@pytest.mark.parametrize("shards", [3, 9, 20])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [regressor, classifier])
def test_columns_that_are_alike_in_all_rows(shards, weighted, kind):
    """Their weights are 0, and the others those without them; to find neither took 100 outer steps,
    or a crash of shards of few rows.
    """
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=(400, 2)), np.full(400, 3.0), np.full(400, 0.1)])
    targets = 2 * features[:, 0] + rng.normal(size=400)
    weights = rng.integers(1, 9, 400) / 7 if weighted else None
    if kind is classifier:
        targets = targets > 0
    ends = np.linspace(0, 400, shards + 1).astype(int)
    estimator = kind(epochs=30, tol=1e-5, l2=1e-3)
    model = train_parts(estimator, make_parts(features, targets, ends, weights))
    assert not model.coefs[..., 2:].any()
    assert model.epochs_done < 12
    assert model.gaps is not None
    assert model.gaps[-1, 0] < 1e-4
    plain = train_parts(estimator, make_parts(features[:, :2], targets, ends, weights))
    np.testing.assert_allclose(model.coefs[-1, :, :2], plain.coefs[-1], rtol=1e-4, atol=1e-4)


def test_optimum_of_several_classes():
    features, labels = IRIS
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    model = train_parts(classifier(epochs=60, tol=1e-5), make_parts(scaled, labels, [0, 75, 150]))
    exact = LogisticRegression(C=100 / 150, tol=1e-9, max_iter=5000).fit(scaled, labels)
    np.testing.assert_allclose(model.coefs[-1], exact.coef_, rtol=1e-2, atol=1e-3)


def test_a_class_may_lack_in_a_shard_and_a_shard_may_be_short():
    features, labels = IRIS             # sorted by class
    model = train_parts(classifier(epochs=30), make_parts(features, labels, [0, 50, 100, 143, 150]))
    values = features @ model.coefs[-1].T + model.intercepts[-1]
    assert (values.argmax(axis=1) == labels).mean() > 0.9


def test_devices_train_the_same_model():
    parts = make_parts(X[:150], Y[:150], [0, 70, 150])
    estimator = regressor(epochs=2)
    assert same(train_parts(estimator, parts), train_parts(estimator, parts, device="golden"))


def test_empty_parts_are_no_shards():
    parts = [*make_parts(X, Y, [0, 0, 200, 442]), Part("Last", X[:0], Y[:0])]
    assert same(train_parts(regressor(), parts),
                train_parts(regressor(), make_parts(X, Y, [0, 200, 442])))


# Errors: what was found, and where

@pytest.mark.parametrize("features, targets, classes, message", [
    ([[1.0, np.nan]], [1.0], False, r"Some: features .*, not nan \(row 0 of the part, column 'b'"),
    ([[1.0, 2.0]], [np.inf], False, "Some: targets must be finite, not inf"),
    ([[1.0, 2.0]], [1.0, 2.0], False, "Some: found 1 rows of features and targets of shape"),
    ([1.0, 2.0], [1.0, 2.0], False, "Some: features must be numbers of shape"),
    ([["x", "y"]], [1.0], False, "Some: features must be numbers"),
    ([[1.0, 2.0]], ["x"], False, "Some: targets must be numbers"),
    ([[1.0, 2.0]], [np.nan], True, "Some: labels must be finite"),
    ([[1.0, 2.0]], [1j], True, "Some: labels must be numbers or names, not complex128"),
    ([[1.0, 2.0]], [[1.0, 2.0]], True, "Some: labels of classes must have one column, not 2")])
def test_bad_parts(features, targets, classes, message):
    with pytest.raises(DataError, match=message):
        summarize(Part("Some", np.array(features), np.array(targets), ("a", "b")), classes)


def test_parts_that_do_not_fit_each_other():
    good = summarize(Part("Good", X, Y, tuple("abcdefghij")), False)
    narrow = summarize(Part("Narrow", X[:, 1:], Y, tuple("bcdefghij")), False)
    other = summarize(Part("Other", X, Y, tuple("abcdefghik")), False)
    unnamed = summarize(Part("Unnamed", X, Y), False)
    several = summarize(Part("Several", X, np.stack([Y, Y], axis=1), tuple("abcdefghij")), False)
    for bad, message in [(narrow, "Narrow has 9 columns, Good has 10"),
                         (other, "Other: its column 9, counted from 0, is 'k', not 'j' as of Good"),
                         (unnamed, "Unnamed: its columns have no names"),
                         (several, "Several has 2 targets, Good has 1")]:
        with pytest.raises(DataError, match=message):
            merge([good, bad])
    with pytest.raises(DataError, match="at least one row; all 2 parts are empty"):
        merge([summarize(Part("None", X[:0], Y[:0]), False)] * 2)
    names = summarize(Part("Names", X[:2], np.array(["a", "b"])), True)
    numbers = summarize(Part("Numbers", X[:2], np.array([0, 1])), True)
    with pytest.raises(DataError, match="Numbers: labels are int64, those of Names are <U1"):
        merge([names, numbers])


def test_one_class_in_all_parts():
    with pytest.raises(DataError, match="must have two classes, but every label is 1"):
        shard_plan_of(merge([summarize(Part("One", X, np.ones(442, int)), True)]), "minmax")


@pytest.mark.parametrize("labels, broken", [
    ([1.0, 2.0, 2.5, 0.25], "0.25"), ([-1.5, 0.0, 3.0, 3.0], "-1.5"), ([0.5, 1.5, 1.5, 0.5], None),
    ([3.0, 1.0, 2.0, 1.0], None), ([3, 1, 2, 1], None), (["a", "b", "c", "a"], None)])
def test_values_are_no_classes(labels, broken):
    """As on one machine: more than two must be whole; they may be in different parts."""
    summary = merge([summarize(Part("Part", X[:2], np.array(two)), True)
                     for two in (labels[:2], labels[2:])])
    if broken is None:
        assert shard_plan_of(summary, "minmax").classes.tolist() == sorted(set(labels))
        return
    with pytest.raises(DataError, match="Labels of more than two classes must be whole numbers, "
                                        f"not {broken}; train a regression"):
        shard_plan_of(summary, "minmax")


def test_parts_that_change():
    part = Part("Part 7", X, Y)
    summary = summarize(part, False)
    plan = shard_plan_of(summary, "minmax")
    with pytest.raises(DataError, match="Part 7 has other rows than when it was scaled"):
        make_shards(Part("Part 7", X + 1, Y), plan, 0, summary)


def test_summaries_by_hand():
    first = summarize(Part("A", np.array([[1, 5], [3, 4]]), np.array(["b", "a"])), True)
    second = summarize(Part("B", np.array([[-2, 9]]), np.array(["b"])), True)
    found = merge([first, second])
    assert (found.low.tolist(), found.high.tolist()) == ([-2, 4], [3, 9])
    assert (found.classes.tolist(), found.class_sums) == (["a", "b"], (1, 2))
    assert found.n_rows == 3
