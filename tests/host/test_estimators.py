"""The estimators: scikit-learn's own checks, resuming, errors, and what they learn."""

import copy
import doctest
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import FakeDevice
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitstep.estimators
from bitstep import (
    LowPrecisionClassifier,
    LowPrecisionRegressor,
    LowPrecisionSearchCV,
    quantize,
)
from bitstep.data import Dataset
from bitstep.devices import DeviceError, open_device
from bitstep.devices.golden import GoldenDevice
from bitstep.estimators import base
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import RangeOverflowError
from bitstep.training.pipelines import pipeline_for

LOSSES = ("squared_error", "squared_hinge", "hinge", "log_loss")


# They compare predictions to a relative 1e-7, and by SGD the order of the rows counts.
ORDER = dict.fromkeys(("check_sample_weight_equivalence_on_dense_data",
                       "check_sample_weight_equivalence_on_sparse_data"),
                      "row order: no two fits by SGD agree to 1e-7")


def expected_failures(estimator):
    """None of the exact solver, which nothing but the loss was asked for."""
    asked = {name: value for name, value in estimator.get_params().items()
             if value != type(estimator)().get_params()[name]}
    return {} if asked.keys() <= {"loss"} and asked.get("loss") != "hinge" else ORDER


# What takes another way through the code: solvers, losses, encodings, rows that share a batch. SGD
# has few epochs: by default it takes 1,000 of the 40 rows of a check. OTHERS have those.
CONTRACT = [
    LowPrecisionRegressor(), LowPrecisionRegressor(bits=32, l1=0.01, box=1e6, epochs=50),
    LowPrecisionRegressor(bits=2, encoding="double", batch=24, epochs=50),
    LowPrecisionClassifier(),
    LowPrecisionClassifier(loss="hinge", epochs=30),
    LowPrecisionClassifier(loss="log_loss", solver="sgd", batch=1000, l2=0.01, epochs=20)]
OTHERS = [
    LowPrecisionRegressor(bits=32, l1=0.01, box=1e6),
    LowPrecisionRegressor(bits=2, encoding="double", batch=24),
    LowPrecisionRegressor(bits=1), LowPrecisionRegressor(bits=2, scaler="maxabs"),
    LowPrecisionRegressor(bits=2, encoding="double"),
    LowPrecisionRegressor(batch=64, schedule="constant"), LowPrecisionRegressor(batch=24),
    LowPrecisionClassifier(bits=1), LowPrecisionClassifier(loss="hinge", bits=1),
    LowPrecisionClassifier(loss="log_loss", bits=1, batch=1000, l2=0.01),
    *(LowPrecisionClassifier(loss=loss) for loss in LOSSES),
    LowPrecisionClassifier(loss="hinge", refetch=False, bits=32),
    LowPrecisionClassifier(loss="log_loss", bits=32)]


# One check has weights of 1,000 and 0.0001.
@parametrize_with_checks(CONTRACT, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore:.* are (not read at all|too small|raised)")
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore:.* are (not read at all|too small|raised)")
def test_contract_of_more_estimators(estimator, check):
    check(estimator)


def test_doctests():
    for kind in (LowPrecisionRegressor, LowPrecisionClassifier):
        for test in doctest.DocTestFinder(recurse=False).find(kind, kind.__name__):
            assert test.examples
            assert doctest.DocTestRunner().run(test).failed == 0


def test_examples_of_the_readme():
    readme = Path(__file__).resolve().parents[2] / "README.md"
    found = doctest.testfile(str(readme), module_relative=False)
    assert found.failed == 0
    assert found.attempted >= 12


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def test_regression(diabetes):
    X, y = diabetes
    model = LowPrecisionRegressor(solver="sgd", schedule="inverse", random_state=0).fit(X, y)
    best = LinearRegression().fit(X, y)
    assert model.coef_.shape == (10,)
    assert isinstance(model.intercept_, float)
    assert model.score(X, y) > best.score(X, y) - 0.02
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert [entry["epoch"] for entry in model.history_] == list(range(1, 21))
    loss = np.mean((model.predict(X) - y) ** 2) / 2
    assert model.history_[-1]["train_loss"] == pytest.approx(loss)
    assert model.history_[1]["step"] == pytest.approx(float(model.step_ or 0) / 2, rel=0.01)
    assert model.counters_["beats"] == 20 * len(X)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_classification_is_within_a_point_of_float(load):
    X, y = map(np.asarray, load(return_X_y=True))
    parts = train_test_split(X, y, random_state=0, test_size=0.3)
    train, test, train_y, test_y = map(np.asarray, parts)
    model = LowPrecisionClassifier(loss="squared_error", solver="sgd", scaler="minmax",
                                   random_state=0)
    model.fit(train, train_y)
    scaler = MinMaxScaler((-1, 1)).fit(train)
    classes = np.unique(y)
    targets = np.where(train_y[:, None] == (classes[1:] if len(classes) == 2 else classes), 1, -1)
    # Float64 SGD: same order, same steps, same scaling.
    u = np.hstack([scaler.transform(train), np.ones((len(train), 1))])
    weights = np.zeros((targets.shape[1], u.shape[1]))
    for entry in model.history_:
        for row, target in zip(u, targets, strict=True):
            weights -= entry["step"] * np.outer(weights @ row - target, row)
    values = np.hstack([scaler.transform(test), np.ones((len(test), 1))]) @ weights.T
    chosen = values[:, 0] > 0 if len(classes) == 2 else values.argmax(axis=1)
    assert abs(model.score(test, test_y) - np.mean(classes[chosen.astype(int)] == test_y)) <= 0.01
    n_outputs = 1 if len(classes) == 2 else len(classes)
    assert model.coef_.shape == (n_outputs, X.shape[1])
    assert model.intercept_.shape == (n_outputs,)


@pytest.mark.parametrize("parameters", [
    {}, {"schedule": "constant"}, {"l2": 0.1, "batch": 4}, {"copies": 3},
    {"encoding": "double-symmetric", "bits": 5}, {"schedule": [0.1, 0.05, 0.02, 0.01, 0.01, 0.01]},
    {"encoding": "double"}, {"scaler": "maxabs", "fit_intercept": False}],
    ids=lambda parameters: "-".join(parameters) or "default")
def test_resumed_is_uninterrupted(diabetes, parameters):
    X, y = diabetes
    # The schedule linear ends with the last epoch of each fit.
    options: dict[str, Any] = {"solver": "sgd", "schedule": "inverse"} | parameters
    whole, in_order = (LowPrecisionRegressor(epochs=6, random_state=3, shuffle=shuffle,
                                             **options).fit(X, y) for shuffle in (True, False))
    warm = LowPrecisionRegressor(epochs=3, random_state=3, warm_start=True, **options)
    warm.fit(X, y).fit(X, y)
    single = LowPrecisionRegressor(random_state=3, **options)
    for _ in range(6):
        single.partial_fit(X, y)
    for resumed, expected in ((warm, whole), (single, in_order)):
        np.testing.assert_array_equal(resumed.coef_, expected.coef_)
        assert resumed.intercept_ == expected.intercept_
        assert resumed.n_iter_ == 6
        assert [entry["epoch"] for entry in resumed.history_] == [1, 2, 3, 4, 5, 6]


CLASSIFIERS = [
    {"loss": "squared_hinge"}, {"loss": "hinge"}, {"loss": "hinge", "bits": 3},
    {"loss": "hinge", "refetch": False, "batch": 8}, {"loss": "log_loss"},
    {"loss": "log_loss", "bits": 32}, {"loss": "hinge", "encoding": "stochastic", "copies": 2},
    {"loss": "log_loss", "l1": 1e-3, "box": 2.0, "l2": 1e-3}]


@pytest.mark.parametrize("parameters", CLASSIFIERS, ids=lambda parameters: "-".join(
    f"{value}" for value in parameters.values()))
def test_resumed_classifier_is_uninterrupted(parameters):
    X, y = load_breast_cancer(return_X_y=True)
    options: dict[str, Any] = {"solver": "sgd", "schedule": "inverse"} | parameters
    whole = LowPrecisionClassifier(epochs=4, random_state=3, **options).fit(X, y)
    warm = LowPrecisionClassifier(epochs=2, random_state=3, warm_start=True, **options)
    warm.fit(X, y).fit(X, y)
    np.testing.assert_array_equal(warm.coef_, whole.coef_)
    np.testing.assert_array_equal(warm.intercept_, whole.intercept_)
    # A product of BLAS may end in another last digit for two epochs than for four.
    losses = [[entry.pop("train_loss") for entry in model.history_] for model in (warm, whole)]
    np.testing.assert_allclose(*losses, rtol=1e-12)
    assert warm.history_ == whole.history_


@pytest.mark.parametrize("loss, theirs", [("squared_hinge", 2.0), ("hinge", 1.0),
                                          ("log_loss", 1.0)])
@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_losses_are_near_scikit_learn(load, loss, theirs):
    """Accuracy beside SGDClassifier on the same scaled features; the history is the loss."""
    X, y = map(np.asarray, load(return_X_y=True))
    train, test, train_y, test_y = map(np.asarray, train_test_split(X, y, random_state=0,
                                                                    test_size=0.3))
    model = LowPrecisionClassifier(loss=loss, solver="sgd", random_state=0).fit(train, train_y)
    scaler = MinMaxScaler((-1, 1)).fit(train)
    rate = {"squared_hinge": 0.01, "hinge": 0.1, "log_loss": 0.3}[loss]
    other = SGDClassifier(loss=loss, alpha=1e-6, learning_rate="invscaling", eta0=rate,
                          power_t=0.25, max_iter=50, tol=None, random_state=0)   # type: ignore[arg-type]
    other.fit(scaler.transform(train), train_y)
    assert model.score(test, test_y) > other.score(scaler.transform(test), test_y) - 0.02
    classes = np.unique(y)
    signs = np.where(train_y[:, None] == (classes[1:] if len(classes) == 2 else classes), 1, -1)
    margins = signs * np.reshape(model.decision_function(train), signs.shape)
    values = {"squared_hinge": np.maximum(1 - margins, 0) ** 2, "hinge": np.maximum(1 - margins, 0),
              "log_loss": np.logaddexp(0, -margins)}[loss]
    assert model.history_[-1]["train_loss"] == pytest.approx(values.mean() / theirs)


def test_default_rows():
    """Bits and encoding suit the loss; bits 32 means floating point."""
    X, y = load_breast_cancer(return_X_y=True)
    for parameters, same in (
            ({}, {"loss": "log_loss", "bits": 8, "encoding": "stochastic", "scaler": "quantile"}),
            ({"loss": "squared_error"}, {"bits": 4, "encoding": "compensated"}),
            ({"loss": "hinge"}, {"bits": 8, "encoding": "nearest", "refetch": True}),
            ({"loss": "hinge", "encoding": "double"}, {"bits": 8, "refetch": False}),
            ({"loss": "log_loss"}, {"bits": 8, "encoding": "stochastic", "refetch": False}),
            ({"loss": "log_loss", "bits": 32}, {"encoding": "float"}),
            ({"loss": "hinge", "encoding": "float"}, {"bits": 32, "refetch": False})):
        first, second = (
            LowPrecisionClassifier(epochs=2, random_state=0).set_params(**given).fit(X, y)
            for given in (parameters, parameters | same))
        np.testing.assert_array_equal(first.coef_, second.coef_)


def test_refetching():
    """Nearly the model of exact rows; without it, that of the codes."""
    X, y = load_breast_cancer(return_X_y=True)
    refetched, straw, exact = (
        LowPrecisionClassifier(loss="hinge", random_state=0, bits=bits, refetch=refetch, epochs=50,
                               device={"name": "golden", "lookahead": 0}).fit(X, y)
        for bits, refetch in ((3, True), (3, False), (32, False)))
    rows_seen = (refetched.n_iter_ or 0) * len(X)
    assert 0 < (refetched.counters_["refetched_rows"] or 0) < rows_seen
    assert straw.counters_["refetched_rows"] == 0
    best = exact.history_[-1]["train_loss"]
    assert abs(refetched.history_[-1]["train_loss"] - best) < abs(
        straw.history_[-1]["train_loss"] - best)


def test_probabilities():
    X, y = load_breast_cancer(return_X_y=True)
    model = LowPrecisionClassifier(loss="log_loss", random_state=0).fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-model.decision_function(X))))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(found))
    model.intercept_ += 60          # next to 1 the other class keeps its digits
    np.testing.assert_allclose(model.predict_proba(X)[:, 0],
                               1 / (1 + np.exp(model.decision_function(X))))
    model.intercept_ += 1e5
    with np.errstate(all="raise"):
        assert np.isfinite(model.predict_log_proba(X)).all()
    X, y = load_digits(return_X_y=True)
    model = LowPrecisionClassifier(loss="log_loss", epochs=2, random_state=0).fit(X, y)
    found = model.predict_proba(X)
    each = 1 / (1 + np.exp(-model.decision_function(X)))
    np.testing.assert_allclose(found, each / each.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(found.argmax(axis=1), model.predict(X))
    model.intercept_ -= 1e5         # no class at all is likely
    with np.errstate(all="raise"):
        assert np.isfinite(model.predict_proba(X)).all()
    other = LowPrecisionClassifier(loss="hinge")
    assert not hasattr(other, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as caught:
        other.predict_proba(X)
    assert "Probabilities need loss='log_loss', not 'hinge'" in str(caught.value.__cause__)


def test_l1_and_box(diabetes):
    X, y = diabetes
    sparse = LowPrecisionRegressor(l1=10.0, random_state=0).fit(X, y)
    assert 0 < np.count_nonzero(sparse.coef_) < 10
    boxed = LowPrecisionRegressor(box=20.0, random_state=0).fit(X, y)
    scaled = np.abs(boxed.coef_) * np.ptp(X, axis=0) / 2
    assert scaled.max() == pytest.approx(20.0)


def test_floating_point_rows(diabetes):
    X, y = diabetes
    model = LowPrecisionRegressor(bits=32, random_state=0, shuffle=False).fit(X, y)
    scaler = MinMaxScaler((-1, 1)).fit(X)
    u = np.hstack([scaler.transform(X), np.ones((len(X), 1))])
    weights = np.append(np.zeros(10), (y.min() + y.max()) / 2)
    for entry in model.history_:
        for row, target in zip(u, y, strict=True):
            weights -= entry["step"] * (weights @ row - target) * row
    loss = np.mean((u @ weights - y) ** 2) / 2
    assert model.history_[-1]["train_loss"] == pytest.approx(loss, rel=1e-6)


def test_partial_fit_of_classes():
    X, y = map(np.asarray, load_digits(return_X_y=True))
    X, y = X[:200], y[:200]
    model = LowPrecisionClassifier(random_state=0, feature_range=(0, 16))
    model.partial_fit(X[y < 5], y[y < 5], classes=np.arange(10))
    assert model.classes_.tolist() == list(range(10))
    model.partial_fit(X, y)
    assert model.n_iter_ == 2
    with pytest.raises(ValueError, match=r"y must hold classes \[0, .*\] only, not \[77\]"):
        model.partial_fit(X, np.where(y == 3, 77, y))
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X, y, classes=np.arange(12))


def test_devices(diabetes):
    X, y = diabetes
    plain = LowPrecisionRegressor(random_state=0, epochs=2).fit(X, y)
    wide = {"name": "golden", "bus_width": 512, "lookahead": 0}
    opened = FakeDevice(pipeline_for(n_features=10, bits=4, encoding="compensated"))
    for device in (wide, opened, GoldenDevice(opened.config)):
        other = LowPrecisionRegressor(random_state=0, epochs=2, device=device).fit(X, y)
        np.testing.assert_array_equal(other.coef_, plain.coef_)
    assert not opened.closed
    # Rows without padding are what an opened device with a pipeline for them reads.
    plain.fit(X[:, :3], y)
    packed = pipeline_for(n_features=3, bits=4, encoding="compensated", packed=True)
    with open_device("cpu", packed) as device:
        other = LowPrecisionRegressor(random_state=0, epochs=2, device=device).fit(X[:, :3], y)
    np.testing.assert_array_equal(other.coef_, plain.coef_)
    found, expected = (dict(one.counters_)["beats"] or 0 for one in (other, plain))
    assert 0 < found < expected


@pytest.mark.parametrize("parameters, error, message", [
    ({"step": 100.0}, RangeOverflowError, "left the number range in epoch 1.* smaller step"),
    ({"step": "fast"}, ValueError, "step must be a number above 0, or auto, not 'fast'"),
    ({"step": -1.0}, ValueError, "step must be a number above 0, or auto, not -1.0"),
    ({"epochs": 0}, ValueError, "epochs must be an integer from 1 to 1000000, or auto, not 0"),
    ({"epochs": 1 << 31}, ValueError, "from 1 to 1000000, or auto, not 2147483648"),
    ({"bits": 9}, ValueError, "bits must be an integer from 1 to 8"),
    ({"bits": "few"}, ValueError, "8, or 32 for floating-point rows, or auto, not 'few'"),
    ({"l1": -1}, ValueError, "l1 must be a number of at least 0, not -1"),
    ({"box": 0.0}, ValueError, "box must be a number above 0, not 0.0"),
    ({"l2": "some"}, ValueError, "0, or a number of at least 1e-100, or auto, not 'some'"),
    ({"box": "1"}, ValueError, "box must be a number above 0, not '1'"),
    ({"model_range": "wide"}, ValueError, "model_range must be a number above 0, or auto, not 'w"),
    ({"tol": None}, ValueError, "tol must be a number of at least 0, not None"),
    ({"epochs": "20"}, ValueError, "integer from 1 to 1000000, or auto, not '20'"),
    ({"early_stopping": True, "validation_fraction": "a"}, ValueError, "without either, not 'a'"),
    ({"encoding": "fp4"}, ValueError, "encoding must be one of 'nearest'"),
    ({"batch": 0}, ValueError, "batch must be an integer from 1"),
    ({"l2": -1}, ValueError, "l2 must be 0, or a number of at least 1e-100, or auto, not -1"),
    ({"scaler": "standard"}, ValueError, "scaler must be one of 'quantile', .*, or auto, not 's"),
    ({"fit_intercept": False, "scaler": "minmax"}, ValueError,
     "fit_intercept=False needs scaler='maxabs'"),
    ({"schedule": [0.1], "epochs": 20}, ValueError, "at least 20 steps"),
    ({"schedule": 0.1}, ValueError, "schedule must be .*, a list of steps, or a file .*, not 0.1"),
    ({"solver": None}, ValueError, "solver must be one of 'auto', 'sgd', 'bit-centred', not None"),
    ({"fit_intercept": None}, ValueError, "fit_intercept must be True or False, not None"),
    ({"early_stopping": "auto"}, ValueError, "early_stopping must be True or False, not 'auto'"),
    ({"loss": ["huber"]}, ValueError, r"loss must be one of 'squared_error', .*, not \['huber'\]"),
    ({"l2": 10 ** 400}, ValueError, "l2 must be 0, or a number of at least 1e-100, or auto, not 1"),
    ({"tol": 10 ** 400}, ValueError, "tol must be a number of at least 0, or auto, not 10"),
    ({"validation_fraction": 1 << 70}, ValueError, "must be between 0 and 1, without either"),
    ({"feature_range": (0, 10 ** 400)}, ValueError, "feature_range must be 'auto' or a pair"),
    ({"random_state": -1}, ValueError, "random_state must be an integer of at least 0, not -1"),
    ({"random_state": True}, ValueError, "random_state must be an integer .*, not True"),
    ({"planes": "auto", "warm_start": True}, ValueError, "not go together with warm_start=True"),
    ({"device": "moon"}, DeviceError, "no device 'moon'"),
    ({"device": {"bus_width": 64}}, ValueError, "device must have a 'name'"),
    ({"device": None}, ValueError, "device must be 'auto', .* or an opened device, not None"),
    ({"device": 3}, ValueError, "device must be 'auto', .* or an opened device, not 3"),
    ({"device": {"name": "golden", "wave": "x"}}, DeviceError, "no option 'wave'")])
def test_bad_parameters(diabetes, parameters, error, message):
    with pytest.raises(error, match=message):
        LowPrecisionRegressor(**parameters).fit(*diabetes)


@pytest.mark.parametrize("parameters, message", [
    ({"loss": "perceptron"}, "loss must be one of 'squared_error', .*, not 'perceptron'"),
    ({"loss": {}}, "loss must be one of 'squared_error', .*, not {}"),
    ({"refetch": "always"}, "refetch must be True or False, or auto, not 'always'"),
    ({"refetch": 1}, "refetch must be True or False, or auto, not 1"),
    ({"loss": "hinge", "batch": 16}, r"refetch=True \(by default\) does not go .* with batch=16"),
    ({"loss": "log_loss", "box": -1.0}, "box must be a number above 0, not -1.0")])
def test_bad_parameters_of_a_classifier(parameters, message):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        LowPrecisionClassifier(**parameters).fit(X, y)


def test_one_class():
    with pytest.raises(ValueError, match="must have two classes, but y has one class"):
        LowPrecisionClassifier().fit(np.eye(3), [1, 1, 1])
    for classes, found in (([], "none"), ([2], "one class, 2")):
        with pytest.raises(ValueError, match=f"but the parameter classes holds {found}; give"):
            LowPrecisionClassifier().partial_fit(np.eye(3), [1, 2, 3], classes=classes)


@pytest.mark.parametrize("missing", [None, 3])
def test_labels_of_two_kinds(missing):
    names: Any = np.array(["no", missing, "yes"], object)
    message = "must hold labels of one kind, all numbers or all strings, and none that is missing"
    with pytest.raises(ValueError, match=f"y {message} .*; leave rows without a label out"):
        LowPrecisionClassifier().fit(np.eye(3), names)
    with pytest.raises(ValueError, match=f"classes {message}"):
        LowPrecisionClassifier().partial_fit(np.eye(2), names[[0, 2]], classes=names)
    with pytest.raises(ValueError, match=rf"classes {message} \(one is NaN\)"):
        LowPrecisionClassifier().partial_fit(np.eye(2), [0, 1], classes=[0, 1, np.nan])


def test_masked_values_are_refused(diabetes):
    X, y = diabetes
    far, high, weights = np.ma.masked_greater(X, 0.1), np.ma.masked_greater(y, 300), np.ones(len(y))
    model, message = LowPrecisionRegressor(random_state=0), "must have no masked values, but has"
    search = LowPrecisionSearchCV(model, {"l2": [0.1, 1.0]})
    for one in (model, search):
        with pytest.raises(ValueError, match=rf"^X {message} {far.mask.sum()} \(the first in "
                                             r"row 7, column 5, counted from 0\); fill them in"):
            one.fit(far, y)
        with pytest.raises(ValueError, match=rf"^y {message} 14 \(the first in row 9, counted"):
            one.fit(X, high)
        with pytest.raises(ValueError, match=f"^sample_weight {message} 14 "):
            one.fit(X, y, np.ma.masked_array(weights, high.mask))
    with pytest.raises(ValueError, match=f"^features {message}"):
        quantize(far, y, bits=4)
    with pytest.raises(ValueError, match=f"^labels {message}"):
        quantize(X, high, bits=4)
    with pytest.raises(ValueError, match=f"^diabetes: features {message}"):
        Dataset("diabetes", far, y, "regression")
    model.fit(np.ma.masked_array(X), y)         # nothing is masked
    with pytest.raises(ValueError, match=f"^X {message}"):
        model.predict(far)


def test_values_that_are_not_finite_are_refused_where_scikit_learn_is_told_that_none_is(diabetes):
    X, y = diabetes
    gap = np.where(np.arange(len(y)) == 3, np.nan, y)
    with config_context(assume_finite=True):
        with pytest.raises(ValueError, match=r"^Input y contains NaN"):
            LowPrecisionRegressor(random_state=0).fit(X, gap)
        with pytest.raises(ValueError, match=r"^Input X contains NaN"):
            LowPrecisionRegressor(random_state=0).fit(gap[:, None], y)


def test_overflow_names_the_class():
    X, y = map(np.asarray, load_digits(return_X_y=True))
    with pytest.raises(RangeOverflowError, match="Class 1 of 10: Training left"):
        LowPrecisionClassifier(loss="squared_error", step=10.0).fit(X[:100], y[:100])


def test_ctrl_c_leaves_the_last_finished_epoch(diabetes):
    X, y = diabetes
    device = FakeDevice(pipeline_for(n_features=10, bits=4, encoding="compensated"), interrupt=3)
    options: dict[str, Any] = {"solver": "sgd", "schedule": "inverse", "random_state": 0}
    model = LowPrecisionRegressor(device=device, **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    expected = LowPrecisionRegressor(epochs=3, **options).fit(X, y)
    assert model.n_iter_ == 3
    assert len(model.history_) == 3
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0.1)


@pytest.mark.parametrize("part", ["history_entries", "noise_floor"])
def test_ctrl_c_after_the_last_epoch_leaves_the_whole_model(diabetes, monkeypatch, part):
    """Losses of many epochs take longer to measure than the training takes."""
    X, y = diabetes
    model = LowPrecisionRegressor(solver="sgd", epochs=2, random_state=0, warm_start=True).fit(X, y)
    expected = copy.deepcopy(model).fit(X, y)
    measure = getattr(base, part)

    def stopped(*args, **named):
        monkeypatch.setattr(base, part, measure)
        raise KeyboardInterrupt

    monkeypatch.setattr(base, part, stopped)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    for name in ("coef_", "intercept_", "n_iter_", "history_", "noise_floor_", "n_samples_seen_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))
    assert model.n_iter_ == 4


def test_ctrl_c_while_a_model_is_kept_leaves_no_half_of_it(diabetes, monkeypatch):
    def stopped(features):
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "fingerprint", stopped)
    model = LowPrecisionRegressor(solver="sgd", epochs=2, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*diabetes)
    with pytest.raises(NotFittedError):
        model.predict(diabetes[0])


def test_labels_are_as_fine_as_floating_point_rows():
    """Without noise, no more is left of the weights than rows and steps round away."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = LowPrecisionRegressor(bits=32, epochs=200, random_state=0).fit(X, X @ [1, 2, 3])
    np.testing.assert_allclose(model.coef_, [1, 2, 3], atol=1e-6)


def test_constant_column_and_constant_target():
    X = np.column_stack([np.arange(30.0), np.full(30, 5.0)])
    for solver in ("auto", "sgd"):
        model = LowPrecisionRegressor(solver=solver, random_state=0, epochs=40).fit(X, 2 * X[:, 0])
        assert model.coef_[1] == 0.0
        assert model.coef_[0] == pytest.approx(2, rel=0.05)
    flat = LowPrecisionRegressor(random_state=0).fit(X, np.full(30, 7.0))
    np.testing.assert_allclose(flat.predict(X), 7.0, atol=1e-3)


def test_missing_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitstep.estimators", None)
    monkeypatch.delattr(bitstep, "estimators")
    with pytest.raises(ImportError, match=r'LowPrecisionRegressor needs .*"bitstep\[sklearn\]"'):
        _ = bitstep.LowPrecisionRegressor
    with pytest.raises(AttributeError, match="has no attribute 'Regressor'"):
        _ = bitstep.Regressor
    assert "LowPrecisionClassifier" in dir(bitstep)


def test_numbers_of_numpy_as_parameters():
    X, y = load_diabetes(return_X_y=True)
    whole: Any = np.int64(2), np.int32(1)
    search = GridSearchCV(LowPrecisionRegressor(epochs=whole[0], device="golden",
                                                random_state=whole[1]),
                          {"bits": np.arange(2, 4), "batch": np.array([1, 2])}, cv=2)
    search.fit(X[:60], y[:60])
    best = search.best_params_
    plain = LowPrecisionRegressor(epochs=2, device="golden", random_state=1,
                                  bits=int(best["bits"]), batch=int(best["batch"]))
    np.testing.assert_array_equal(search.best_estimator_.coef_, plain.fit(X[:60], y[:60]).coef_)


def test_exact_least_squares_from_few_bits():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    y = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + rng.standard_normal(400)
    model = LowPrecisionRegressor(solver="bit-centred", planes=4, epochs=20, tol=1e-6, l2=0.0,
                                  random_state=0).fit(X, y)
    design = np.hstack([X, np.ones((400, 1))])
    exact = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose([*model.coef_, model.intercept_], exact, atol=1e-3)
    assert 1 < model.n_iter_ < 20
    assert model.history_[0]["planes"] == 4
    again = LowPrecisionRegressor(solver="bit-centred", planes=4, epochs=1, tol=0.0,
                                  warm_start=True, random_state=0).fit(X, y)
    assert again.fit(X, y).n_iter_ == 2
    assert again.history_[1]["train_loss"] <= again.history_[0]["train_loss"]


def test_precision_as_a_schedule(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = np.where(X @ [1.0, -1.0, 0.5, 0.2] > 0, "a", "b")
    model = LowPrecisionClassifier(loss="log_loss", planes=[1, 3, 8], epochs=5, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.9
    assert [entry["planes"] for entry in model.history_] == [1, 3, 8, 8, 8]
    regression = LowPrecisionRegressor(planes="auto", random_state=1).fit(X, X[:, 0])
    regression.save(tmp_path / "model.npz")
    loaded = LowPrecisionRegressor.load(tmp_path / "model.npz")
    assert loaded.planes == "auto"
    np.testing.assert_array_equal(loaded.fit(X, X[:, 0]).coef_, regression.coef_)


@pytest.mark.parametrize("options, message", [
    ({"solver": "newton"}, "solver must be one of 'auto', 'sgd', 'bit-centred', not 'new"),
    ({"solver": "bit-centred", "bits": 4}, "solver='bit-centred' does not go .* with bits=4: "),
    ({"planes": 4, "encoding": "nearest"}, "planes=4 does not go .* with encoding='nearest': "),
    ({"planes": 0}, "planes must be 'auto', an integer from 1 to 16"),
])
def test_bad_bit_plane_options(options, message):
    with pytest.raises(ValueError, match=message):
        LowPrecisionRegressor(**options).fit(np.eye(8), np.arange(8.0))


def test_automatic_planes_need_one_go():
    model = LowPrecisionRegressor(planes="auto", epochs=2).fit(np.eye(8), np.arange(8.0))
    with pytest.raises(ValueError, match="a model does not hold; give a list of planes"):
        model.partial_fit(np.eye(8), np.arange(8.0))


@pytest.mark.parametrize("loss, refetch", [("log_loss", "auto"), ("hinge", True)])
def test_ranges_grow_with_the_weights(loss, refetch):
    """Rows that a plane separates, and so many of them that weights leave the first range."""
    X = np.random.default_rng(17).normal(size=(400, 2))
    y = X[:, 0] > 0
    options = {"loss": loss, "refetch": refetch, "epochs": 5, "step": 60.0, "random_state": 0}
    model = LowPrecisionClassifier(**options).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.restarts_[0].keys() == {"output", "epoch", "model_range"}
    assert model.model_range_ == model.restarts_[-1]["model_range"] == 128 * 4 ** len(
        model.restarts_)
    given = LowPrecisionClassifier(model_range=model.model_range_, **options).fit(X, y)
    assert np.array_equal(given.coef_, model.coef_)
    assert given.restarts_ == []
    with pytest.raises(RangeOverflowError, match="or a larger model_range if the model"):
        LowPrecisionClassifier(model_range=128, **options).fit(X, y)
    (found,) = LowPrecisionClassifier(**options).fit_candidates(X, y, [{}])
    assert np.array_equal(found.coef_, model.coef_)
    assert (found.restarts_, found.counters_) == (model.restarts_, model.counters_)
    chunks = LowPrecisionClassifier(**options)
    for _ in range(3):
        chunks.partial_fit(X, y)
    assert chunks.score(X, y) > 0.95
    assert chunks.model_range_ > 128


def test_a_refused_fit_leaves_an_estimator_unfitted(diabetes):
    model = LowPrecisionClassifier()
    with pytest.raises(ValueError, match="class"):
        model.fit(diabetes[0], np.zeros(len(diabetes[0])))
    with pytest.raises(NotFittedError):
        model.predict(diabetes[0])


def test_a_refused_fit_leaves_the_model_before():
    data: Any = load_digits(as_frame=True)
    X, y = data.data, data.target
    model = LowPrecisionClassifier(loss="squared_error", solver="sgd", epochs=2, random_state=0)
    before = model.fit(X, y).predict(X)
    other = X.iloc[:, :10]
    with pytest.raises(ValueError, match="must have two classes"):
        model.fit(other, y * 0)
    device = FakeDevice(pipeline_for(n_features=10, bits=4, encoding="compensated"), interrupt=1)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(device=device).fit(other, y)       # while the first class is trained
    with pytest.raises(ValueError, match="sample_weight must"):
        model.fit(np.asarray(other), y, -1)
    np.testing.assert_array_equal(model.predict(X), before)
    assert list(vars(model)["feature_names_in_"]) == list(X.columns)


@pytest.mark.parametrize("solver", ["bit-centred", "sgd"])
def test_a_model_with_an_intercept_goes_on_without(diabetes, solver):
    X, y = diabetes
    for kind, labels in ((LowPrecisionRegressor, y), (LowPrecisionClassifier, y > 200),
                         (LowPrecisionClassifier, np.digitize(y, [90, 180]))):
        options: dict[str, Any] = {"solver": solver, "random_state": 0}
        model = kind(warm_start=True, **options).fit(X + 0.1, labels)
        model.set_params(fit_intercept=False).fit(X + 0.1, labels)
        assert not np.any(model.intercept_)
        fresh = kind(fit_intercept=False, **options).fit(X + 0.1, labels)
        assert model.history_[-1]["train_loss"] == pytest.approx(
            fresh.history_[-1]["train_loss"], rel=0.01)


def test_warm_start_is_no_word(diabetes):
    word: Any = "no"
    with pytest.raises(ValueError, match="warm_start must be True or False, not 'no'"):
        LowPrecisionRegressor(warm_start=word).fit(*diabetes)


@pytest.mark.parametrize("name", ["golden", "cpu"])
def test_beats_of_packed_rows(name, diabetes):
    X, y = diabetes[0][:50, :1], diabetes[1][:50]
    device = {"name": name, "packed": True}
    model = LowPrecisionRegressor(random_state=0, epochs=3, solver="sgd", bits=4, device=device)
    # A beat of 64 bits has 16 codes, so 50 rows are 4 beats.
    assert model.fit(X, y).counters_["beats"] == 12


def test_a_rare_column_beside_outliers():
    """The Huber loss starts at the labels' median: from the middle of their range the way is so
    long that the column, of 1 in 200 rows, would get a weight of hundreds on it.
    """
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=3000), rng.random(3000) < 0.005])
    labels = features @ [1, -5] + 0.3 * rng.normal(size=3000)
    labels[:10] += 400
    model = LowPrecisionRegressor(loss="huber", random_state=0).fit(features, labels)
    np.testing.assert_allclose(model.coef_, [1, -5], atol=0.3)


@pytest.mark.parametrize("intercept", [True, False])
def test_labels_far_beyond_the_bound_cost_nothing(intercept):
    """Their range would leave all others one integer."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3000, 2))
    labels = features @ [1, -5] + 0.3 * rng.normal(size=3000)
    labels[:3] = 1e6, -1e9, 1e6
    model = LowPrecisionRegressor(loss="huber", random_state=0, fit_intercept=intercept)
    np.testing.assert_allclose(model.fit(features, labels).coef_, [1, -5], atol=0.1)
    assert model.clipped_["labels"] == 3
    spread = 1.4826 * np.median(np.abs(labels - np.median(labels)))
    assert model.label_range_[1] == pytest.approx(np.median(labels) + 500 * spread,
                                                  rel=1e-9 if intercept else 1e-2)
    both = LowPrecisionRegressor(loss="huber", random_state=0).fit(
        features, np.column_stack([labels, features[:, 0]]))
    np.testing.assert_allclose(both.coef_, [[1, -5], [1, 0]], atol=0.1)
    wide = LowPrecisionRegressor(loss="huber", random_state=0, label_range=(-1e9, 1e6))
    assert wide.fit(features, labels).clipped_["labels"] == 0


@pytest.mark.parametrize("step, epochs, ways", [
    (1e-6, 20, "it was still falling: choose more epochs or step='auto'"),
    (0.13, 1, "choose a smaller step")])
def test_a_chosen_step_by_which_nothing_is_learned(step, epochs, ways):
    rng = np.random.default_rng(0)
    features = np.sign(rng.normal(size=(200, 12)))
    labels = np.exp(features @ rng.normal(size=12))         # whose mean is far from the middle
    model = LowPrecisionRegressor(step=step, epochs=epochs, solver="sgd", random_state=0)
    with pytest.warns(ConvergenceWarning, match="Training learned nothing: the training loss is "
                      f".*, but predicting the labels' mean has .*; {ways}"):
        model.fit(features, labels)
    # Without an intercept there is no constant, and a training that goes on knows why.
    model.set_params(warm_start=True).fit(features, labels)
    LowPrecisionRegressor(step=1e-6, solver="sgd", fit_intercept=False, random_state=0).fit(
        features, labels + labels.max())


@pytest.mark.parametrize("step", [0.003, 0.0003])
def test_a_pipeline_for_short_rows_trains_the_same_model(step):
    """Its dot products have fewer bits, which small model ranges would have left to labels."""
    rows, labels = [[-1.0], [0.3], [1.0], [-0.4], [0.7]], [0, 1, 1, 0, 1]
    short = PipelineConfig(bits=4, max_features=16, row_weights=True)

    def trained(device):
        made = LowPrecisionClassifier(
            loss="squared_hinge", solver="sgd", bits=4, encoding="nearest", epochs=3, step=step,
            batch=64, shuffle=False, random_state=0, device=device)
        return made.fit(rows, labels)

    golden = trained("golden")
    assert golden.coef_[0, 0] > 0
    for device in ("cpu", {"name": "cpu", "packed": True}, open_device("cpu", short)):
        found = trained(device)
        assert found.coef_.tobytes() == golden.coef_.tobytes()
        assert found.intercept_.tobytes() == golden.intercept_.tobytes()
