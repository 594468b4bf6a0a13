"""Weights of few levels, by hand and by their mean; the network itself: test_networks.py."""

import sys

import numpy as np
import pytest

from bitstep.levels import level_cost, optimal_levels
from bitstep_lab.quantized_networks import __main__ as command
from bitstep_lab.quantized_networks.quantizers import Quantizer


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_uniform_levels_by_hand(rng):
    weights = np.array([[-2.0, 0.4], [1.2, 1.6]])
    quantizer = Quantizer("uniform", "nearest")
    assert quantizer.places(weights).tolist() == [-2, -1, 0, 1, 2]
    assert quantizer(weights, rng).tolist() == [[-2, 0], [1, 2]]


def test_optimal_levels_by_hand(rng):
    weights = np.repeat([-1.0, -0.5, 0.125, 0.25, 3.0], [5, 9, 7, 4, 1])
    found = Quantizer("optimal", "nearest")(weights, rng)
    assert found == pytest.approx(weights, abs=3 * 4 / 256)     # bins of the histogram
    assert len(np.unique(found)) == 5


def test_optimal_levels_have_less_variance(rng):
    weights = rng.normal(size=3000)
    costs = {name: level_cost(weights, Quantizer(name, "stochastic").places(weights))
             for name in ("uniform", "optimal")}
    exact = level_cost(weights, optimal_levels(weights, 5))
    assert exact <= costs["optimal"] < 1.01 * exact
    assert costs["optimal"] < 0.8 * costs["uniform"]


@pytest.mark.parametrize("levels", ["uniform", "optimal"])
def test_stochastic_rounding_has_no_bias(levels, rng):
    weights = rng.normal(size=40)
    quantizer = Quantizer(levels, "stochastic")
    drawn = np.array([quantizer(weights, rng) for _ in range(4000)], np.float64)
    spread = drawn.std(axis=0) / np.sqrt(4000)
    assert (np.abs(drawn.mean(axis=0) - weights) < 5 * spread + 1e-5).all()
    assert len(np.unique(drawn)) == 5


@pytest.mark.parametrize("levels", ["uniform", "optimal"])
@pytest.mark.parametrize("rounding", ["stochastic", "nearest"])
@pytest.mark.parametrize("value", [0.0, 0.75, -3.0])
def test_equal_weights_stay(levels, rounding, value, rng):
    found = Quantizer(levels, rounding)(np.full((2, 3), value), rng)
    assert found.dtype == np.float32
    assert (found == value).all()


@pytest.mark.parametrize("arguments, message", [
    (("best", "nearest"), "levels"), (("uniform", "up"), "rounding"),
    (("uniform", "nearest", 1), "n_levels")])
def test_bad_quantizers(arguments, message):
    with pytest.raises(ValueError, match=message):
        Quantizer(*arguments)


def test_torch_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "argv", ["quantized_networks"])
    with pytest.raises(SystemExit, match=r"pip install \"bitstep\[torch,sklearn\]\""):
        command.main()
