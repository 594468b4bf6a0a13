"""Tests for refetching: bounds that never miss, and sketches that rarely do."""

import math

import numpy as np
import pytest

from bitstep.quantization import encode
from bitstep_lab.negative_results.sketches import (
    bounds_refetch,
    residual_bounds,
    sign_matrix,
    sketch_error,
    sketch_refetch,
    sketched_residuals,
)

ROW, MODEL = np.array([[0.5, -1.0, 0.25, 0.0, 0.75]]), np.array([[1.0, 0.5, -2.0, 3.0, 1.5]])
DOT = 0.5 - 0.5 - 0.5 + 1.125


def test_matrix():
    matrix = sign_matrix(7, 4, np.random.default_rng(0))
    assert matrix.shape == (4, 7)
    assert set(matrix.ravel().tolist()) == {0.5, -0.5}


def test_sketches_by_hand():
    matrix = np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)     # a rotation: exact
    found = sketched_residuals(np.array([[0.5, 1.0], [2.0, 0.0]]), np.array([1.0, -1.0]),
                               np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]]), matrix)
    np.testing.assert_allclose(found, [[1 - 2.5, 1 - 1.0, 1 - 1.5], [1 + 2.0, 1 + 0.0, 1 + 6.0]],
                               atol=1e-12)


def estimates(size, label, draws):
    rng = np.random.default_rng(size)
    return np.array([sketched_residuals(ROW, np.array([label]), MODEL,
                                        sign_matrix(5, size, rng))[0, 0] for _ in range(draws)])


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_estimates_are_unbiased_with_the_variance_of_theory(label):
    draws, size = 20_000, 8
    found = estimates(size, label, draws)
    a, x = ROW[0] ** 2, MODEL[0] ** 2
    variance = (a.sum() * x.sum() + DOT ** 2 - 2 * (a * x).sum()) / size
    assert found.mean() == pytest.approx(1 - label * DOT, abs=5 * math.sqrt(variance / draws))
    assert found.var() == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize("size, failure", [(64, 0.05), (256, 0.05), (100, 0.2)])
def test_error_is_within_its_bound(size, failure):
    reach = sketch_error(size, failure) * np.linalg.norm(ROW) * np.linalg.norm(MODEL)
    off = np.abs(estimates(size, 1.0, 4000) - (1 - DOT))
    # At most `failure`; Chernoff's and the union bound are loose, so no tolerance is needed. But a
    # bound that is too large by much would be as wrong: a quarter of it must not hold.
    assert np.mean(off > reach) <= failure
    assert np.mean(off > reach / 4) > failure


def test_sketch_error_solves_its_equation():
    gamma = sketch_error(1024, 0.05)
    assert 4 * math.exp(-512 * (gamma ** 2 / 2 - gamma ** 3 / 3)) == pytest.approx(0.05)
    assert gamma == pytest.approx(0.1373, abs=1e-4)
    smallest = math.ceil(12 * math.log(4 / 0.05))
    assert sketch_error(smallest, 0.05) == pytest.approx(1, abs=0.1)
    assert sketch_error(smallest - 1, 0.05) == math.inf


def test_sketch_refetch_by_hand():
    found = sketch_refetch(np.array([-0.7, -0.6, 0.0, 0.6, 0.7]), 0.3)
    assert found.tolist() == [False, True, True, True, False]


def test_sketch_has_the_sign_where_it_is_within_the_gap():
    rng = np.random.default_rng(5)
    true = rng.uniform(-3, 3, 10_000)
    estimate = true + rng.uniform(-0.3, 0.3, true.size)
    kept = ~sketch_refetch(estimate, 0.3)
    assert 0.7 < kept.mean() < 0.9
    assert (np.sign(estimate[kept]) == np.sign(true[kept])).all()


def test_bounds_by_hand():
    low, high = residual_bounds(np.array([[0.5, -1.0]]), np.array([-1.0]),
                                np.array([[2.0, 0.5], [0.0, -1.0]]), 0.1)
    np.testing.assert_allclose(low, [[1 + 0.5 - 0.25, 1 + 1 - 0.1]])
    np.testing.assert_allclose(high, [[1 + 0.5 + 0.25, 1 + 1 + 0.1]])
    low, high = residual_bounds(np.array([[0.5, -1.0]]), np.array([1.0]), np.array([[2.0, 0.5]]),
                                np.array([0.1, 0.0]))       # the second feature is exact
    np.testing.assert_allclose([low, high], [[[0.3]], [[0.7]]])


def test_bounds_refetch_by_hand():
    found = bounds_refetch(np.array([-2.0, -1.0, -1.0, 0.0, 0.1]),
                           np.array([-0.1, 0.0, 1.0, 1.0, 1.0]))
    assert found.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("encoding", ["stochastic", "nearest"])
@pytest.mark.parametrize("bits", [3, 8])
def test_bounds_are_never_wrong(encoding, bits):
    rng = np.random.default_rng(bits)
    rows = rng.uniform(-1, 1, (4000, 6))
    rows[:2] = [[1.0] * 6, [-1.0] * 6]
    labels, models = rng.choice([-1.0, 1.0], 4000), rng.normal(size=(8, 6))
    codes = encode(rows, bits=bits, encoding=encoding, rng=rng).astype(np.int64)
    levels = codes - ((codes >> bits - 1) << bits)
    spacing = (1 if encoding == "stochastic" else 0.5) / (2 ** (bits - 1) - 1)
    low, high = residual_bounds(levels / (2 ** (bits - 1) - 1), labels, models, spacing)
    true = 1 - labels[:, None] * (rows @ models.T)
    rounding = 2 ** -22     # quantizing has 24 fraction bits
    assert (low <= true + rounding).all()
    assert (true <= high + rounding).all()
    refetched = bounds_refetch(low, high)
    assert (np.sign(low) == np.sign(true))[~refetched].all()
    # Neither is it vacuous: without the bounds some signs are wrong, and most rows pass at 8 bits.
    assert (np.sign(low + high) != np.sign(true)).any()
    assert bits < 8 or refetched.mean() < 0.06


@pytest.mark.parametrize("make, message", [
    (lambda: sign_matrix(0, 4, np.random.default_rng(0)),
     "n_features must be an integer of at least 1, not 0$"),
    (lambda: sign_matrix(4, -1, np.random.default_rng(0)),
     "size must be an integer of at least 1, not -1$"),
    (lambda: sketch_error(0, 0.5), "size must be an integer of at least 1, not 0$"),
    (lambda: sketch_error(8, 1.0), "failure must be above 0 and below 1, not 1.0$"),
    (lambda: sketched_residuals(ROW, np.ones(1), MODEL, np.ones((3, 4))),
     "as many columns, not 5, 5 and 4$"),
    (lambda: sketch_refetch(np.zeros(2), np.array([0.1, -0.2])),
     "gap must not be negative, not -0.2$"),
    (lambda: residual_bounds(ROW, np.ones(1), MODEL, -0.5),
     "spacing must not be negative, not -0.5$"),
])
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
