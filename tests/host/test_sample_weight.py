"""``sample_weight`` and ``class_weight`` of the estimators and of the search."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import LinearSVC

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, LowPrecisionSearchCV
from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.training import copies
from bitstep.training.choices import OptimumWarning
from bitstep.training.copies import WeightWarning, weighted_order
from bitstep.training.raised import Raised
from bitstep.training.weighing import weigh

rng = np.random.default_rng(3)
X = rng.standard_normal((240, 6))
X[7] = 40.0                                 # a row that decides on clips and ranges
CLASSES = np.digitize(X[:, 0] + 0.4 * rng.standard_normal(240), [-0.7, 0.7])
TARGETS = X @ rng.standard_normal((6, 2)) + 0.1 * rng.standard_normal((240, 2))
WHOLE = rng.integers(0, 4, 240).astype(float)
RANGES: dict[str, Any] = {"feature_range": (-50, 50), "label_range": (-500, 500)}
ORDER = weighted_order(WHOLE, lambda: 0)
RAISED = "small weights of rows are raised, so no bound of the gap is given"


@pytest.fixture
def board(monkeypatch):
    """Devices have pipelines that were built without weights of rows."""
    monkeypatch.setattr(copies, "MADE", ())


def learned(model):
    return {name: value for name, value in vars(model).items()
            if name.endswith("_") and name not in ("counters_", "n_features_in_")}


def assert_same(first, second):
    one, other = learned(first), learned(second)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize("options", [
    {}, {"batch": 64}, {"encoding": "stochastic", "copies": 2}, {"scaler": "minmax", "bits": 2},
    {"bits": 32, "batch": 256}, {"levels": "optimal", "bits": 3},
    {"solver": "bit-centred", "epochs": 30}])
@pytest.mark.usefixtures("board")
def test_whole_weights_are_repeated_rows(options):
    """Bit for bit, with two targets."""
    options = {"epochs": 3, "random_state": 0, "shuffle": False} | options
    weighted = LowPrecisionRegressor(**options).fit(X, TARGETS, sample_weight=WHOLE)
    assert_same(weighted, LowPrecisionRegressor(**options).fit(X[ORDER], TARGETS[ORDER]))
    assert weighted.n_samples_seen_ == WHOLE.sum()


@pytest.mark.parametrize("options", [
    {}, {"loss": "hinge"}, {"loss": "squared_error", "batch": 64}, {"planes": 3}])
@pytest.mark.usefixtures("board")
def test_whole_weights_of_classes(options):
    options |= {"epochs": 3, "random_state": 0, "shuffle": False}
    weighted = LowPrecisionClassifier(class_weight={0: 2, 2: 0.5}, **options)
    weighted.fit(X, CLASSES, sample_weight=WHOLE * 2)
    order = weighted_order(WHOLE * np.array([4, 2, 1])[CLASSES], lambda: 0)
    assert_same(weighted, LowPrecisionClassifier(**options).fit(X[order], CLASSES[order]))


def test_weights_of_one_change_nothing():
    assert_same(LowPrecisionClassifier(epochs=2, random_state=0).fit(X, CLASSES, [1] * len(X)),
                LowPrecisionClassifier(epochs=2, random_state=0).fit(X, CLASSES))


def test_weight_0_is_removal():
    """Also of a class, of an outlier, and where weights are drawn."""
    weights = np.where(CLASSES == 1, 0.0, rng.uniform(0.3, 2, len(X)))
    weights[7] = 0
    rest = weights > 0
    weighted = LowPrecisionClassifier(epochs=2, random_state=0).fit(X, CLASSES, weights)
    assert_same(weighted, LowPrecisionClassifier(epochs=2, random_state=0).fit(
        X[rest], CLASSES[rest], weights[rest]))
    assert weighted.classes_.tolist() == [0, 2]
    assert weighted.feature_range_[1].max() < 5


@pytest.mark.parametrize("calls", [1, 2])
def test_same_bits_on_every_device(calls):
    """Of drawn weights, and of a second fit."""
    check_devices(rng.uniform(0, 2, len(X)), calls)


@pytest.mark.parametrize("calls", [1, 2])
def test_same_bits_of_rows_that_are_read_again(calls):
    check_devices(np.random.default_rng(8).uniform(0, 2, len(X)), calls, loss="hinge")


def check_devices(weights, calls, **options):
    """Fits of the golden model and of device cpu."""
    models = []
    for device in ("golden", "cpu"):
        model = LowPrecisionClassifier(epochs=2, random_state=0, device=device,
                                       class_weight="balanced", warm_start=True, **options)
        for _ in range(calls):
            model.fit(X, CLASSES, sample_weight=weights)
        models.append(model)
    assert_same(*models)
    assert models[0].n_samples_seen_ >= calls * len(X)


@pytest.mark.parametrize("name", ["golden", "cpu"])
@pytest.mark.parametrize("options", [
    {"loss": "squared_hinge"}, {"loss": "hinge", "refetch": False, "batch": 3, "l2": 0.01}])
def test_weights_of_packed_rows_go_along_with_them(name, options):
    """The model is that of rows that are not packed, and as many rows are read."""
    models = [LowPrecisionClassifier(
        epochs=2, random_state=0, solver="sgd", bits=4, class_weight="balanced",
        device={"name": name, "packed": packed}, **options).fit(X, CLASSES, sample_weight=WHOLE)
        for packed in (True, False)]
    assert_same(*models)
    packed, plain = (one.counters_["beats"] or 0 for one in models)
    assert packed == plain / 2      # two rows in a beat
    # Of copies there would be as many as the weights of 1 to 12 say.
    assert plain <= 2 * 3 * 1.25 * np.count_nonzero(WHOLE)


def test_weights_of_packed_rows_are_copies_on_a_board_without():
    config = PipelineConfig(bits=4, max_features=6, lookahead=0, packed=True)
    options: dict[str, Any] = {"epochs": 2, "random_state": 0, "solver": "sgd", "bits": 4,
                               "shuffle": False}
    with_weights, without = (replace(config, row_weights=chosen) for chosen in (True, False))
    found = [LowPrecisionRegressor(device=CpuDevice(one), **options).fit(X, TARGETS, WHOLE)
             for one in (with_weights, without)]
    repeated = LowPrecisionRegressor(device=CpuDevice(without), **options)
    assert_same(found[1], repeated.fit(X[ORDER], TARGETS[ORDER]))
    assert (found[0].coef_ != found[1].coef_).any()
    read = [model.counters_["beats"] or 0 for model in found]
    assert 0 < read[0] < read[1]


def test_balanced_finds_the_rare_class():
    rows = rng.standard_normal((3000, 256))
    labels = np.where(rows[:, 0] + rng.standard_normal(3000) > 2.3, "rare", "common")
    plain, balanced = (LowPrecisionClassifier(class_weight=weight, random_state=0, batch=64).fit(
        rows[:2000], labels[:2000]) for weight in (None, "balanced"))
    scores = [balanced_accuracy_score(labels[2000:], model.predict(rows[2000:]))
              for model in (plain, balanced)]
    assert scores[1] > scores[0] + 0.05


def test_partial_fit():
    whole, repeated = (LowPrecisionRegressor(random_state=0, schedule="constant", **RANGES)
                       for _ in range(2))
    for part in np.split(np.arange(len(X)), 4):
        order = weighted_order(WHOLE[part], lambda: 0)
        whole.partial_fit(X[part], TARGETS[part], sample_weight=WHOLE[part])
        repeated.partial_fit(X[part][order], TARGETS[part][order])
    assert_same(whole, repeated)


def test_stream_of_single_rows_of_small_weight():
    model = LowPrecisionRegressor(random_state=0, schedule="constant", **RANGES)
    model.partial_fit(X[:20], TARGETS[:20])
    for row in range(20, 120):
        model.partial_fit(X[row:row + 1], TARGETS[row:row + 1], sample_weight=[0.3])
    assert model.n_iter_ == model.n_samples_seen_ - 19
    assert 12 <= model.n_iter_ <= 50            # 31 on average, 5 deviations are 23


@pytest.mark.parametrize("size", [1 / 240, 0.01, 1e-9])
def test_chunks_of_small_weights_say_so(size):
    """Weights of 1/n are no weights of `fit`, and leave a chunk next to no row."""
    model = LowPrecisionRegressor(random_state=0, schedule="constant", **RANGES)
    model.partial_fit(X[:20], TARGETS[:20])
    with pytest.warns(WeightWarning, match=r"[%] of the rows of this call are not read.* multiply"):
        model.partial_fit(X, TARGETS, np.full(len(X), size))


def test_chunks_of_some_small_weights_say_nothing():
    model = LowPrecisionRegressor(random_state=0, schedule="constant", **RANGES)
    model.partial_fit(X, TARGETS, np.where(np.arange(len(X)) % 2, 1.0, 1e-3))


def test_partial_fit_with_class_weights():
    model = LowPrecisionClassifier(class_weight={2: 3}, random_state=0)
    model.partial_fit(X[:50], CLASSES[:50], classes=[0, 1, 2])
    assert model.n_samples_seen_ == 50 + 2 * (CLASSES[:50] == 2).sum()
    with pytest.raises(ValueError, match=r"needs all rows at once; give a dictionary"):
        model.set_params(class_weight="balanced").partial_fit(X, CLASSES)


def test_search_passes_weights_on():
    grid = {"l2": [0.0, 0.01]}
    search = LowPrecisionSearchCV(LowPrecisionClassifier(epochs=2, random_state=0), grid, cv=3)
    search.fit(X, CLASSES, sample_weight=WHOLE)
    best = LowPrecisionClassifier(epochs=2, random_state=0, **search.best_params_)
    assert_same(search.best_estimator_, best.fit(X, CLASSES, WHOLE))
    plain = LowPrecisionSearchCV(LowPrecisionClassifier(epochs=2, random_state=0), grid, cv=3)
    plain.fit(X, CLASSES)
    assert (plain.cv_results_["split0_test_score"] != search.cv_results_["split0_test_score"]).any()


def test_one_class_is_left():
    with pytest.raises(ValueError, match="class, 2, in rows of weights above 0; give rows of"):
        LowPrecisionClassifier().fit(X, CLASSES, sample_weight=CLASSES == 2)


def test_no_row_is_left():
    """Of a chunk: the rows of `fit` have the ratio of their weights."""
    with pytest.raises(ValueError, match=r"must leave at least one row to train on, .* multiply"):
        LowPrecisionRegressor(random_state=0).partial_fit(X, TARGETS, np.full(len(X), 1e-6))


@pytest.mark.parametrize("size", [1e-6, 1 / 240, 0.3, 1e9])
def test_size_of_weights_does_not_count(size):
    assert_same(LowPrecisionClassifier(epochs=2, random_state=0).fit(
        X, CLASSES, np.full(len(X), size)),
        LowPrecisionClassifier(epochs=2, random_state=0).fit(X, CLASSES))


@pytest.mark.parametrize("solver", ["sgd", "bit-centred"])
def test_large_weights_count_by_their_ratios(solver):
    """Floats are all whole from 2^53 on, so their sums are no numbers of rows."""
    def fitted(weights):
        return LowPrecisionClassifier(solver=solver, epochs=12, random_state=0).fit(
            X, CLASSES, sample_weight=weights)
    assert_same(fitted((WHOLE + 1) * 2.0 ** 60), fitted((WHOLE + 1) / 2.0 ** 20))
    exact = solver == "bit-centred"
    with pytest.warns(WeightWarning, match="are too small beside the largest"), \
            pytest.warns(OptimumWarning, match=RAISED) if exact else nullcontext():
        fitted(np.where(WHOLE > 0, 1e308, 1e-320))


def test_adaboost():
    """Its first round has weights of 1/n, the others any."""
    rows = rng.standard_normal((1000, 5))
    labels = (rows[:, 0] + rows[:, 1] + rng.standard_normal(1000) > 0).astype(int)
    model: Any = AdaBoostClassifier(LowPrecisionClassifier(random_state=0, epochs=5),
                                    n_estimators=5, random_state=0)
    float_model: Any = AdaBoostClassifier(LogisticRegression(), n_estimators=5, random_state=0)
    scores = [one.fit(rows, labels).score(rows, labels) for one in (model, float_model)]
    assert scores[0] > scores[1] - 0.03


@pytest.mark.usefixtures("board")
def test_weighted_optimum_of_copies():
    """Of any weights: within four times 2.2 % of the coefficients' standard error of .025, which
    five of sixty draws exceed: so these rows do not depend on the tests before.
    """
    drawn = np.random.default_rng(3)
    rows = drawn.standard_normal((2000, 4))
    targets = np.tanh(rows[:, 0]) + rows[:, 1] * rows[:, 2] + 0.1 * drawn.standard_normal(2000)
    weights = drawn.uniform(0, 2, 2000)
    best = LinearRegression().fit(rows, targets, weights).coef_
    with pytest.warns(OptimumWarning, match="deviate from their weights by 2.* %, so no .* gap"):
        found = LowPrecisionRegressor(solver="bit-centred", epochs=12, random_state=0).fit(
            rows, targets, weights).coef_
    assert np.abs(found - best).max() < 0.0022


def test_weighted_optimum():
    """Of any weights: they are rounded by 2^-17 of the largest. Twelve outer steps leave more in
    some draws of rows, so these do not depend on the tests before.
    """
    drawn = np.random.default_rng(3)
    rows = drawn.standard_normal((2000, 4))
    targets = np.tanh(rows[:, 0]) + rows[:, 1] * rows[:, 2] + 0.1 * drawn.standard_normal(2000)
    weights = drawn.uniform(0, 2, 2000)
    best = LinearRegression().fit(rows, targets, weights)
    found = LowPrecisionRegressor(solver="bit-centred", epochs=12, l2=0, random_state=0).fit(
        rows, targets, weights)
    assert np.abs(found.coef_ - best.coef_).max() < 2e-5
    assert abs(found.intercept_ - best.intercept_) < 2e-5
    assert found.n_samples_seen_ == 2000


@pytest.mark.parametrize("loss", ["squared_error", "squared_hinge", "log_loss"])
def test_whole_weights_have_the_optimum_of_repeated_rows(loss):
    options: dict[str, Any] = {"solver": "bit-centred", "l2": 0.01, "epochs": 60, "tol": 3e-5,
                               "random_state": 0, "loss": loss}
    weighted = LowPrecisionClassifier(**options).fit(X, CLASSES, WHOLE)
    repeated = LowPrecisionClassifier(**options).fit(X[ORDER], CLASSES[ORDER])
    plain = LowPrecisionClassifier(**options).fit(X, CLASSES)
    size = np.abs(repeated.coef_).max()
    assert np.abs(weighted.coef_ - repeated.coef_).max() < 1e-3 * size
    assert np.abs(plain.coef_ - repeated.coef_).max() > 0.01 * size
    assert weighted.n_samples_seen_ == (WHOLE > 0).sum()
    assert weighted.history_[-1]["train_loss"] == pytest.approx(
        repeated.history_[-1]["train_loss"], rel=1e-4)


def test_heavy_rows_stand_in_a_pass_several_times():
    rows, weights = rng.uniform(-1, 1, (240, 6)), np.where(np.arange(240) == 5, 500.0, 1.0)
    model = LowPrecisionRegressor(solver="bit-centred", epochs=30, l2=0, tol=0, random_state=0)
    model.fit(rows, TARGETS[:, 0], weights)
    # 500 is 162.4 times the mean of 739 / 240.
    assert model.n_samples_seen_ == 239 + 41
    best = LinearRegression().fit(rows, TARGETS[:, 0], weights).coef_
    assert np.abs(model.coef_ - best).max() < 1e-3 * np.abs(best).max()


def test_a_row_counts_once_in_the_default_penalty():
    """Also one that stands in a pass several times; but whole weights count as repeated rows."""
    rows, weights = rng.uniform(-1, 1, (240, 6)), np.where(np.arange(240) == 5, 500.5, 1.0)
    for given, stands_for in ((weights, 240), (np.round(weights), 239 + 500)):
        model = LowPrecisionRegressor(random_state=0).fit(rows, TARGETS[:, 0], given)
        assert model.l2_ == 1 / stands_for


@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_sgd_goes_to_the_weighted_optimum(loss):
    """And not to that of all rows alike, which is an eighth away."""
    rows = rng.standard_normal((3000, 3))
    weights = np.where(rows[:, 2] > 0, 1.0, 0.1)
    targets = np.where(rows[:, 2] > 0, rows[:, 0], rows[:, 1]) + 0.01 * rng.standard_normal(3000)
    found = [LowPrecisionRegressor(loss=loss, bits=8, epochs=30, random_state=0).fit(
        rows, targets, one).coef_[:2] for one in (weights, None)]
    best = [LinearRegression().fit(rows, targets, one).coef_[:2] for one in (weights, None)]
    for coef, other in zip(found, best, strict=True):
        np.testing.assert_allclose(coef, other, atol=0.06)
    assert found[0][0] > 0.84
    assert found[1][0] < 0.6


@pytest.mark.parametrize("bits", [4, 8])
def test_hinge_goes_to_the_weighted_optimum(bits):
    """With rows that are fetched again, each with its weight; that of all rows alike is far off."""
    drawn = np.random.default_rng(5)
    rows = drawn.standard_normal((3000, 4))
    labels = rows @ [1, -0.5, 0.2, 0] + drawn.standard_normal(3000) > 1.2
    weights = np.where(labels, 2.0, 1.0) * np.where(rows[:, 3] > 0, 1, 0.2)

    def loss_of(model):
        margins = (2 * labels - 1) * model.decision_function(rows)
        return np.average(np.maximum(0, 1 - margins), weights=weights)

    best = loss_of(LinearSVC(loss="hinge", C=10, max_iter=200_000).fit(rows, labels, weights))
    found = LowPrecisionClassifier(loss="hinge", bits=bits, random_state=0, epochs=30).fit(
        rows, labels, weights)
    assert loss_of(found) < 1.02 * best
    plain = LowPrecisionClassifier(loss="hinge", bits=bits, random_state=0, epochs=30)
    assert loss_of(plain.fit(rows, labels)) > 1.1 * best
    assert found.n_samples_seen_ == 3000
    assert (found.counters_["refetched_rows"] or 0) > 100


@pytest.mark.parametrize("row_weights", [False, True])
def test_pipeline_of_a_board_has_weights_of_rows_or_not(row_weights):
    """Where it has them, rows that are fetched again have theirs; else they are copied."""
    config = PipelineConfig(bits=8, max_features=64, refetch=True, row_weights=row_weights)
    model = LowPrecisionClassifier(loss="hinge", epochs=2, random_state=0,
                                   device=CpuDevice(config))
    model.fit(X, CLASSES > 0, np.random.default_rng(9).uniform(0, 2, len(X)))
    assert (model.n_samples_seen_ == len(X)) == row_weights
    assert (model.counters_["refetched_rows"] or 0) > 0


def test_certificates_are_of_the_weights_asked_for():
    options: dict[str, Any] = {"solver": "bit-centred", "l2": 0.01, "epochs": 30, "tol": 0,
                               "random_state": 0}
    for weight in (2.5, np.pi):
        found = LowPrecisionClassifier(class_weight={1: weight}, **options).fit(X, CLASSES)
        assert found.history_[-1]["gap"] < 1e-5


@pytest.mark.usefixtures("board")
def test_certificates_are_not_of_copies():
    """With l2 the gap of the weighted objective is within its certificate, or has none."""
    options: dict[str, Any] = {"solver": "bit-centred", "l2": 0.1, "epochs": 30, "tol": 0,
                               "random_state": 0}
    exact = LowPrecisionClassifier(class_weight={1: 2.5}, **options).fit(X, CLASSES)
    assert exact.history_[-1]["gap"] < 1e-5
    with pytest.warns(OptimumWarning, match="no bound of the gap"):
        drawn = LowPrecisionClassifier(class_weight={1: np.pi}, **options).fit(X, CLASSES)
    assert "gap" not in drawn.history_[-1]


def test_class_weight_of_no_whole_number_has_one_model():
    """Copies are in the ratio 2 to 5, so the seed has no part in the optimum."""
    coefs = [LowPrecisionClassifier(class_weight={1: 2.5}, solver="bit-centred", epochs=20, l2=0.01,
                                    tol=0, random_state=seed).fit(X, CLASSES).coef_
             for seed in range(3)]
    assert np.ptp(coefs, axis=0).max() < 1e-4 * np.abs(coefs).max()


@pytest.mark.usefixtures("board")
def test_rows_without_a_copy_are_said():
    weights = np.where(np.arange(len(X)) % 2, 1.0, 1e-7)
    with pytest.warns(WeightWarning, match=r"^50 % of the rows, with 1e-05 % of all weight, are "):
        LowPrecisionRegressor(random_state=0, epochs=1).fit(X, TARGETS, weights)


def test_weights_that_are_raised_are_said():
    """A class of weight 1e-6 counts as one of 1.5e-5."""
    model = LowPrecisionClassifier(class_weight={0: 1e-6}, random_state=0)
    with pytest.warns(WeightWarning, match="among them those of 1 class, are too small"), \
            pytest.warns(OptimumWarning, match=RAISED):
        model.fit(X, CLASSES)
    assert model.gap_ is None
    model.set_params(class_weight="balanced").fit(X, CLASSES, rng.uniform(0.1, 10, len(X)))


@pytest.mark.parametrize("weight", [1e-14, 1e-5])
@pytest.mark.parametrize("sparse", [False, True])
def test_weights_that_are_raised_for_a_row_far_from_all(weight, sparse):
    """One of them counts, though nearly all rows have their weights; the gap would be that of
    other weights.
    """
    features, targets, weights = X.copy(), TARGETS.copy(), np.ones(len(X))
    features[9, 0] = 1e5 * np.abs(features).max()
    weights[9] = weight
    model = LowPrecisionRegressor(random_state=0, solver="bit-centred", epochs=3, tol=0.0)
    with pytest.warns(OptimumWarning, match=RAISED), \
            pytest.warns(WeightWarning, match=r"^the weights of 0\.\d+ % of the rows are too "):
        model.fit(csr_matrix(features) if sparse else features, targets, weights)
    assert model.gap_ is None
    # Of a row as others are nothing is to be said.
    assert model.fit(X, targets, weights).gap_ is not None


def effect_of(columns, weights):
    """Of rows with these values and weights, in one part and in two."""
    columns, weights = np.asarray(columns, float).reshape(len(weights), -1), np.array(weights)
    rule = weigh(weights).rule()

    def moments(rows):
        found = Raised.of(rule, columns[rows, :-1], columns[rows, -1:], weights[rows])
        assert found is not None
        return found.moments

    whole = moments(slice(None))
    for middle in range(1, len(weights)):
        parts = moments(slice(middle)), moments(slice(middle, None))
        for name in ("weight", "added", "mean", "squares", "added_squares", "added_sums"):
            np.testing.assert_allclose(getattr(parts[0] + parts[1], name), getattr(whole, name),
                                       rtol=1e-9, atol=1e-12)
        assert (parts[0] + parts[1]).effect == pytest.approx(whole.effect)
    return whole.effect


def test_effect_of_raised_weights_by_hand():
    """Values 0, 2 and 101 of weights 1, 1 and 1e-6: their squared distances from the mean, 1.00005,
    sum up to 2.01. The last row has 1/65,535 in place of 1e-6.
    """
    weights, added = [1, 1, 1e-6], 1 / 65535 - 1e-6
    effect = effect_of([[0, 7], [2, 7], [101, 7]], weights)
    assert effect == pytest.approx(added * (101 - 1.00005) ** 2 / 2.01, rel=1e-4)
    assert effect_of([[7, 0], [7, 2], [7, 101]], weights) == pytest.approx(effect)
    # A value that all have is not far, however large; one that no other has is.
    assert effect_of(np.full((3, 2), 1e200 / 3), weights) == pytest.approx(added / 2)
    assert effect_of([[5, 0], [5, 2], [6, 1]], weights) == pytest.approx(added / 1e-6)
    # Weights whose ratio is no float.
    assert effect_of([[0, 7], [2, 7], [101, 7]], [1e308, 1e308, 1e-320]) == pytest.approx(
        (101 - 1) ** 2 / 2 / 65535, rel=1e-3)
    # Weights that are lowered have none.
    assert effect_of([[0, 7], [2, 7], [101, 7]], [1, 1, 1.4 / 65535]) == 0


def test_effect_of_a_value_whose_square_is_no_float():
    rule = weigh(np.array([1, 1, 1e-6])).rule()
    found = Raised.of(rule, np.array([[0.0], [2.0], [1e200]]), np.zeros((3, 1)),
                      np.array([1, 1, 1e-6]))
    assert found is not None
    assert found.moments.effect > 1e100


def test_one_weight_for_all_rows():
    """As scikit-learn's estimators take it."""
    plain = LowPrecisionClassifier(random_state=0).fit(X, CLASSES)
    assert_same(LowPrecisionClassifier(random_state=0).fit(X, CLASSES, sample_weight=2.0), plain)
    search = LowPrecisionSearchCV(LowPrecisionClassifier(random_state=0), {"l2": [0.01]}, cv=2)
    search.fit(X, CLASSES, sample_weight=2)
    with pytest.raises(ValueError, match="all weights are zero"):
        search.fit(X, CLASSES, sample_weight=0.0)
