"""Models of races of codecs."""

import sys

import numpy as np
import pytest

from bitstep_gradients.lab.perceptrons import Perceptron
from bitstep_gradients.lab.tasks import TaskError, make_task


@pytest.mark.parametrize("sizes, classifies", [
    ((7, 1), False), ((7, 3), True), ((7, 6, 5, 3), True), ((7, 5, 1), False)])
def test_gradient_is_the_slope_of_the_loss(sizes, classifies):
    rng = np.random.default_rng(1)
    model = Perceptron("test", sizes, classifies=classifies)
    # float64, so that differences are exact enough.
    parameters = {name: value + 0.3 * rng.standard_normal(value.shape)
                  for name, value in model.first_parameters(0).items()}
    features = rng.standard_normal((9, 7))
    labels = rng.integers(0, sizes[-1], 9) if classifies else rng.standard_normal(9)
    loss, gradient = model.gradient(parameters, features, labels)
    assert loss == pytest.approx(model.score(parameters, features, labels).loss)
    assert list(gradient) == list(parameters)
    for name, value in parameters.items():
        direction = rng.standard_normal(value.shape)
        ends = [model.score({**parameters, name: value + side * 1e-6 * direction}, features,
                            labels).loss for side in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(
            float(np.sum(gradient[name] * direction)), rel=1e-4, abs=1e-7)


def test_gradient_is_float32_as_the_parameters():
    model, samples = make_task("fc")
    parameters = model.first_parameters(3)
    assert sum(value.size for value in parameters.values()) == 266_610
    _, gradient = model.gradient(parameters, samples.features[:8], samples.labels[:8])
    assert all(value.dtype == np.float32 for value in gradient.values())
    assert {name: value.shape for name, value in gradient.items()} == {
        name: value.shape for name, value in parameters.items()}


def test_first_parameters():
    """He's normal distribution where there are hidden layers; else zeros."""
    first, same, other = (Perceptron("fc", (784, 300, 10), classifies=True).first_parameters(seed)
                          for seed in (1, 1, 2))
    for name, n_in in (("fc1.weight", 784), ("fc2.weight", 300)):
        assert first[name].std() == pytest.approx(np.sqrt(2 / n_in), rel=0.05)
        np.testing.assert_array_equal(first[name], same[name])
        assert (first[name] != other[name]).any()
    zeros = Perceptron("logreg", (784, 10), classifies=True).first_parameters(1)
    assert not any(value.any() for value in (*zeros.values(), first["fc1.bias"]))


def test_large_outputs_have_a_loss():
    model = Perceptron("test", (1, 2), classifies=True)
    parameters = {"fc1.weight": np.array([[1000.0, -1000.0]], np.float32),
                  "fc1.bias": np.zeros(2, np.float32)}
    loss, gradient = model.gradient(parameters, np.ones((1, 1), np.float32), np.array([1]))
    assert loss == 2000.0
    assert gradient["fc1.weight"].tolist() == [[1.0, -1.0]]


def test_accuracy_by_hand():
    model = Perceptron("test", (2, 2), classifies=True)
    parameters = {"fc1.weight": np.eye(2, dtype=np.float32), "fc1.bias": np.zeros(2, np.float32)}
    features = np.array([[2, 1], [1, 2], [3, 0], [0, 3]], np.float32)
    score = model.score(parameters, features, np.array([0, 1, 1, 1]))
    assert score.accuracy == 0.75
    assert score.loss == pytest.approx(
        np.mean([np.log1p(np.exp(-1))] * 2 + [np.log1p(np.exp(3)), np.log1p(np.exp(-3))]))


@pytest.mark.parametrize("name, source, message", [
    ("linreg", "digits", "linreg is for a regression, and digits is a classification; choose"),
    ("logreg", "diabetes", "logreg is for a classification, and diabetes is a regression"),
    ("lenet", "breast_cancer", "lenet needs images, and breast_cancer has none; take digits")])
def test_data_that_do_not_suit_the_model(name, source, message):
    with pytest.raises(TaskError, match=message):
        make_task(name, source)


def test_networks_need_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitstep_gradients.lab.networks", None)
    with pytest.raises(TaskError, match=r'lenet needs torch .*pip install "bitstep\[torch\]"'):
        make_task("lenet")
