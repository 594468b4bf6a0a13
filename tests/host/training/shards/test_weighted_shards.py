"""Weights of rows and classes over shards: those of all rows in one place, exactly."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sharded import make_parts, same, train_parts
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.data.dataset import DataError
from bitstep.quantization import (
    QuantizedDataset,
    fit_scaler,
    quantize_bit_planes,
    quantize_labels,
)
from bitstep.training.shards.parts import (
    ClassWeights,
    Part,
    make_shards,
    merge,
    shard_plan_of,
    summarize,
    weighed_part,
)
from bitstep.training.shards.shard import Shard
from bitstep.training.shards.summed import summed_rows

DIABETES: Any = load_diabetes(return_X_y=True)
X, Y = DIABETES
CANCER: Any = load_breast_cancer(return_X_y=True)
IRIS: Any = load_iris(return_X_y=True)
RNG = np.random.default_rng(3)
DRAWN = RNG.exponential(size=600)
DRAWN[::7] = 0                                      # rows that are left out
HEAVY = np.where(np.arange(600) % 50 == 0, 30.0, 1.0)       # 18 times the mean
WHOLE = RNG.integers(0, 6, 600).astype(float)
SKEWED = np.append(np.full(300, 1e-3), np.full(300, 1.0))   # shards of unlike weights


def regressor(**options):
    return LowPrecisionRegressor(**{"solver": "bit-centred", "planes": 4, "epochs": 4,
                                    "random_state": 3, "tol": 0.0, "device": "cpu"} | options)


def classifier(**options):
    return LowPrecisionClassifier(**{"solver": "bit-centred", "planes": 4, "epochs": 4,
                                     "random_state": 3, "tol": 0.0, "device": "cpu"} | options)


@pytest.mark.parametrize("estimator, data, weights", [
    (regressor(), (X, Y), DRAWN), (regressor(l2=1e-3, shuffle=False), (X, Y), HEAVY),
    (regressor(fit_intercept=False, scaler="maxabs"), (X, Y), SKEWED),
    (regressor(), (X, Y), WHOLE), (regressor(), (X, Y), np.full(600, 2.5)),
    (regressor(), (X, np.stack([Y, -Y ** 2], axis=1)), DRAWN),
    (classifier(class_weight="balanced"), CANCER, None),
    (classifier(class_weight="balanced"), CANCER, DRAWN),
    (classifier(class_weight={0: 3, 1: 0.7}, loss="squared_hinge"), CANCER, None),
    (classifier(class_weight={1: 11}), CANCER, WHOLE),
    (classifier(class_weight={2: 3.5}), IRIS, None),
    (classifier(class_weight={0: 0, 2: 1.5}), IRIS, DRAWN),
    (classifier(class_weight={0: 0}), IRIS, None)])
def test_one_shard_is_the_ordinary_training(estimator, data, weights):
    features, labels = data
    weights = None if weights is None else weights[:len(features)]
    estimator.fit(features, labels, sample_weight=weights)
    parts = make_parts(features, labels, [0, len(features)], weights)
    model = train_parts(estimator, parts)
    np.testing.assert_array_equal(model.coefs[-1], np.atleast_2d(estimator.coef_))
    np.testing.assert_array_equal(model.intercepts[-1], np.atleast_1d(estimator.intercept_))
    assert [facts.get("gap") for facts in model.facts()] \
        == [entry.get("gap") for entry in estimator.history_]


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("weights", [DRAWN, HEAVY, WHOLE, SKEWED])
@pytest.mark.parametrize("shards", [3, 16])
def test_optimum_of_weighted_rows(weights, shards):
    weights = weights[:442]
    ends = np.linspace(0, 442, shards + 1).astype(int)
    model = train_parts(regressor(l2=1e-2, epochs=100, tol=1e-7), make_parts(X, Y, ends, weights))
    shares = weights / weights.sum()
    moments = shares @ (X - shares @ X) ** 2
    # A penalty of standardized columns, as that of Ridge on them.
    exact = Ridge(alpha=1e-2, tol=1e-12).fit(X / np.sqrt(moments), Y, sample_weight=shares)
    values = X @ model.coefs[-1][0] + model.intercepts[-1]
    expected = exact.predict(X / np.sqrt(moments))
    error = np.sqrt(shares @ (values.ravel() - expected) ** 2 / (shares @ (Y - shares @ Y) ** 2))
    assert error < 2e-4


def test_optimum_of_weighted_classes_and_its_certificate():
    features, labels = CANCER
    features = features / features.std(axis=0)
    model = train_parts(classifier(epochs=40, l2=1e-2, tol=1e-5, class_weight={0: 4.0}),
                        make_parts(features, labels, [0, 100, 300, 569], DRAWN[:569]))
    weights = DRAWN[:569] * np.where(labels == 0, 4.0, 1.0)
    shares = weights / weights.sum()
    centred = features - shares @ features
    scaled = centred / np.sqrt(shares @ centred ** 2)
    exact = LogisticRegression(C=1 / 1e-2, tol=1e-10, max_iter=10_000).fit(
        scaled, labels, sample_weight=shares)

    def objective(values, weights):
        signs = 2 * labels - 1
        return shares @ np.logaddexp(0, -signs * values) + 5e-3 * weights @ weights

    best = objective(exact.decision_function(scaled), exact.coef_[0])
    found = objective(features @ model.coefs[-1][0] + model.intercepts[-1],
                      model.coefs[-1][0] * np.sqrt(shares @ centred ** 2))
    assert best - 1e-9 < found < best * (1 + 1e-4)
    assert model.gaps is not None
    assert (found - best) / best < model.gaps[-1, 0] < 1e-4


def test_facts_of_weights_do_not_depend_on_partitions():
    """Sums of numbers that floating-point addition rounds differently in every order."""
    weights = np.ldexp(RNG.random(442), RNG.integers(-60, 60, 442))
    expected = summarize(Part("All", X, Y, weights=weights), False).weighed
    assert expected.total == sum(map(Fraction, weights.tolist()))
    for ends in ([0, 1, 442], [0, 100, 200, 300, 442]):
        found = merge([summarize(one, False) for one in make_parts(X, Y, ends, weights)])
        assert found.weighed == expected
    order = RNG.permutation(442)
    assert summarize(Part("All", X[order], Y[order], weights=weights[order]),
                     False).weighed == expected


@pytest.mark.parametrize("weights", [DRAWN, HEAVY, WHOLE])
def test_stored_weights_do_not_depend_on_partitions(weights):
    def stored(ends):
        parts = make_parts(X, Y, ends, weights[:442])
        summaries = [summarize(one, False) for one in parts]
        plan = shard_plan_of(merge(summaries), "minmax", shuffle=False)
        shards = [shard for number, (one, found) in enumerate(zip(parts, summaries, strict=True))
                  for shard in make_shards(one, plan, number, found)]
        codes = [np.column_stack([one.rows.codes(), np.asarray(one.rows.weights)])
                 for one in shards]
        return np.array(sorted(map(tuple, np.concatenate(codes).tolist())))

    np.testing.assert_array_equal(stored([0, 442]), stored([0, 40, 41, 300, 442]))


COLUMNS = np.column_stack([
    X[:, :3], np.full(442, 3.0), np.full(442, -1e-30), np.full(442, 0.1),      # alike in all rows
    np.arange(442) // 40, np.arange(442) == 441])       # alike in most shards


@pytest.mark.parametrize("weights", [None, np.arange(1, 443) % 7 + 1,
                                     np.random.default_rng(0).integers(1, 65536, 442)])
@pytest.mark.parametrize("ends", [[0, 442], [0, 100, 442], [*range(0, 441, 40), 442],
                                  list(range(443))])
def test_moments_at_every_precision_are_those_of_rows_in_one_place(weights, ends):
    """To the last bit: a column whose values are alike must not seem to vary."""
    stored = None if weights is None else weights.astype(np.uint16)
    whole = quantize_bit_planes(COLUMNS, weights=stored)
    facts = []
    for start, stop in pairwise(ends):
        rows = quantize_bit_planes(COLUMNS[start:stop], scaler=whole.scaler,
                                   weights=None if stored is None else stored[start:stop])
        labels = quantize_labels(np.arange(float(rows.n_rows)), rows.n_rows)
        facts.append(Shard([QuantizedDataset(rows, labels)]).facts)
    found = summed_rows(facts, whole.scaler, 64, 0)
    for planes in range(1, 17):
        np.testing.assert_array_equal(found.code_moments(planes), whole.code_moments(planes))
    np.testing.assert_array_equal(found.column_moments, whole.column_moments)
    assert (found.column_moments[1] > 0).tolist() == [True] * 3 + [False] * 3 + [True] * 2
    np.testing.assert_array_equal(found.penalty_units(), whole.penalty_units())


def test_one_row_of_many_that_differs():
    """Of 10^6 rows, in shards: 10^-6 of the variance of a column of two values, less a part."""
    features = np.zeros((10 ** 6, 1))
    features[-1] = 1
    scaler = fit_scaler(features, "minmax")
    facts = [Shard([QuantizedDataset(
        quantize_bit_planes(part, scaler=scaler), quantize_labels(np.arange(len(part)), len(part))
        )]).facts for part in np.array_split(features, 10)]
    found = summed_rows(facts, scaler, 64, 0).column_moments
    share = 1e-6
    step = 2 - 2.0 ** -15               # from the first level to the last
    np.testing.assert_allclose(found[:, 0], [share * step - (1 - 2.0 ** -16),
                                             share * (1 - share) * step ** 2], rtol=1e-13)


def test_devices_train_the_same_model():
    parts = make_parts(X[:150], Y[:150], [0, 70, 150], DRAWN[:150])
    estimator = regressor(epochs=2)
    assert same(train_parts(estimator, parts), train_parts(estimator, parts, device="golden"))


def test_rows_of_weight_0_are_no_rows():
    weights = np.ones(442)
    weights[:60] = weights[200:260] = 0
    parts = make_parts(X, Y, [0, 60, 300, 442], weights)        # the first has no row left
    kept = weights > 0
    ends = np.cumsum([0, 180, 142])
    assert same(train_parts(regressor(), parts),
                train_parts(regressor(), make_parts(X[kept], Y[kept], ends)))


def test_weights_of_classes_by_hand():
    features, labels = np.arange(12.0).reshape(6, 2), np.array(["a", "b", "b", "c", "b", "a"])
    weights = np.array([1, 2, 0, 4, 0.5, 1])
    parts = make_parts(features, labels, [0, 2, 6], weights)
    summary = merge([summarize(one, True, ("c",)) for one in parts])
    assert summary.classes.tolist() == ["a", "b", "c"]
    assert summary.class_sums == (2, 2.5, 4)
    assert summary.n_rows == 4
    balanced: Any = ClassWeights.of(summary, "balanced")
    np.testing.assert_allclose(balanced.factors, [8.5 / 6, 8.5 / 7.5, 8.5 / 12])
    asked: Any = ClassWeights.of(summary, {"c": 0, "b": 2})
    assert asked.classes.tolist() == ["a", "b"]
    found = [weighed_part(one, asked) for one in parts]
    assert [one.total for one in found] == [5, 2]
    assert [one.values for one in found] == [(1.0, 4.0), (1.0,)]
    assert ClassWeights.of(summary, None) is None


@pytest.mark.parametrize("weights, message", [
    ([1.0, -1.0], r"Some: sample_weight must hold finite numbers .* not -1 \(row 1"),
    ([1.0, np.nan], "Some: sample_weight must hold finite numbers"),
    ([1.0], r"Some: sample_weight must have shape \(2,\), one weight a row, not \(1,\)")])
def test_bad_weights(weights, message):
    with pytest.raises(DataError, match=message):
        summarize(Part("Some", X[:2], Y[:2], weights=np.array(weights)), False)


def test_weights_that_leave_too_little():
    with pytest.raises(DataError, match="all 1 parts are empty, or have rows of weight 0 only"):
        merge([summarize(Part("None", X, Y, weights=np.zeros(442)), False)])
    features, labels = IRIS
    for weight, weights, message in [
            ({0: 0, 1: 0}, None, "every label of a row of a weight above 0 is 2"),
            (None, np.where(labels == 1, 2.0, 0), "every label of a row of a weight above 0 is 1"),
            ({0: 0, 1: 0, 2: 0}, None, "class_weight must leave at least one row"),
            ({1: 1e-300}, np.full(150, 1e-300), "Partition 0: .* so small that it is 0"),
            ({1: 1e300}, np.full(150, 1e300), "Partition 0: sample_weight times class_weight")]:
        with pytest.raises(DataError, match=message):
            train_parts(classifier(class_weight=weight),
                        make_parts(features, labels, [0, 150], weights))
    with pytest.raises(ValueError, match="class_weight must hold classes of y only, 0, 1, 2"):
        train_parts(classifier(class_weight={3: 1}), make_parts(features, labels, [0, 150]))


def test_parts_whose_weights_change():
    summary = summarize(Part("Part 7", X, Y, weights=DRAWN[:442]), False)
    plan = shard_plan_of(summary, "minmax")
    with pytest.raises(DataError, match="Part 7 has other rows than when it was scaled"):
        make_shards(Part("Part 7", X, Y, weights=DRAWN[:442] * 2), plan, 0, summary)
