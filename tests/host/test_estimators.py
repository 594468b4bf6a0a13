"""The estimators: scikit-learn's own checks, resuming, errors, and what they learn."""

import doctest
import sys

import numpy as np
import pytest
from fakes import FakeDevice
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitstep.estimators
from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.devices import DeviceError
from bitstep.devices.golden import GoldenDevice
from bitstep.planning import pipeline_for
from bitstep.runs import SaturationError


@parametrize_with_checks([LowPrecisionRegressor(), LowPrecisionClassifier()])
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_doctests():
    for kind in (LowPrecisionRegressor, LowPrecisionClassifier):
        for test in doctest.DocTestFinder(recurse=False).find(kind, kind.__name__):
            assert test.examples
            assert doctest.DocTestRunner().run(test).failed == 0


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def test_regression(diabetes):
    X, y = diabetes
    model = LowPrecisionRegressor(random_state=0).fit(X, y)
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
    model = LowPrecisionClassifier(random_state=0).fit(train, train_y)
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
    whole = LowPrecisionRegressor(epochs=6, random_state=3, **parameters).fit(X, y)
    warm = LowPrecisionRegressor(epochs=3, random_state=3, warm_start=True, **parameters)
    warm.fit(X, y).fit(X, y)
    single = LowPrecisionRegressor(random_state=3, **parameters)
    for _ in range(6):
        single.partial_fit(X, y)
    for resumed in (warm, single):
        np.testing.assert_array_equal(resumed.coef_, whole.coef_)
        assert resumed.intercept_ == whole.intercept_
        assert resumed.n_iter_ == 6
        assert [entry["epoch"] for entry in resumed.history_] == [1, 2, 3, 4, 5, 6]


def test_partial_fit_of_classes():
    X, y = map(np.asarray, load_digits(return_X_y=True))
    X, y = X[:200], y[:200]
    model = LowPrecisionClassifier(random_state=0)
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


@pytest.mark.parametrize("parameters, error, message", [
    ({"step": 100.0}, SaturationError, "left the number range in epoch 1.* smaller step"),
    ({"step": "fast"}, ValueError, "step must be 'auto' or a positive number, not 'fast'"),
    ({"step": -1.0}, ValueError, "step must be a positive number, not -1.0"),
    ({"epochs": 0}, ValueError, "epochs must be an integer of at least 1, not 0"),
    ({"bits": 9}, ValueError, "bits must be an integer from 1 to 8"),
    ({"bits": 1, "encoding": "double"}, ValueError, "bits must be an integer from 2 to 8"),
    ({"encoding": "fp4"}, ValueError, "encoding must be one of nearest"),
    ({"batch": 0}, ValueError, "batch must be an integer from 1"),
    ({"l2": -1}, ValueError, "l2 must be at least 0"),
    ({"scaler": "standard"}, ValueError, "scaler must be one of minmax, maxabs"),
    ({"fit_intercept": False}, ValueError, "fit_intercept=False needs scaler='maxabs'"),
    ({"schedule": [0.1]}, ValueError, "at least 20 steps"),
    ({"device": "moon"}, DeviceError, "no device 'moon'"),
    ({"device": {"bus_width": 64}}, ValueError, "device must have a 'name'"),
    ({"device": {"name": "golden", "wave": "x"}}, DeviceError, "no option 'wave'")])
def test_bad_parameters(diabetes, parameters, error, message):
    with pytest.raises(error, match=message):
        LowPrecisionRegressor(**parameters).fit(*diabetes)


def test_one_class():
    with pytest.raises(ValueError, match="must have two classes, but y has one class"):
        LowPrecisionClassifier().fit(np.eye(3), [1, 1, 1])


def test_saturation_names_the_class():
    X, y = map(np.asarray, load_digits(return_X_y=True))
    with pytest.raises(SaturationError, match="Class 1 of 10: Training left"):
        LowPrecisionClassifier(step=10.0).fit(X[:100], y[:100])


def test_ctrl_c_leaves_the_last_finished_epoch(diabetes):
    X, y = diabetes
    device = FakeDevice(pipeline_for(n_features=10, bits=4, encoding="compensated"), interrupt=3)
    model = LowPrecisionRegressor(random_state=0, device=device)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    expected = LowPrecisionRegressor(random_state=0, epochs=3).fit(X, y)
    assert model.n_iter_ == 3
    assert len(model.history_) == 3
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0.1)


def test_constant_column_and_constant_target():
    X = np.column_stack([np.arange(30.0), np.full(30, 5.0)])
    model = LowPrecisionRegressor(random_state=0, epochs=40).fit(X, 2 * X[:, 0])
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
