"""Losses and accuracies by hand, in chunks, and from codes."""

import numpy as np
import pytest

import bitstep.training.losses
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize, quantize_rows
from bitstep.training.losses import (
    accuracies,
    code_losses,
    mean_losses,
    squared_losses,
)
from bitstep.training.schedules import automatic_step
from bitstep.training.train import class_targets, report_counters

FEATURES = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0]])
FORMULAS = [LOSSES[loss].within(0.8) for loss in Loss]


def test_squared_losses_by_hand():
    # Model (1, 1), intercept 0: 3, 2, 1 against 3, 1, 3: residuals 0, 1, -2, 5 / 6.
    # Model (0, 0), intercept 1: residuals -2, 0, -2, 8 / 6.
    found = squared_losses(FEATURES, np.array([[3.0], [1.0], [3.0]]),
                           np.array([[[1.0, 1.0]], [[0.0, 0.0]]]), np.array([[0.0], [1.0]]))
    assert found == pytest.approx([5 / 6, 8 / 6])


@pytest.mark.parametrize("loss, expected", [
    # Outputs 3, 2, 1 against 1, -1, 1: margins 3, -2, 1. The zero model with intercept 1 has
    # margins 1, -1, 1.
    (Loss.LEAST_SQUARES, [(4 + 9 + 0) / 6, (0 + 4 + 0) / 6]),
    (Loss.SQUARED_HINGE, [9 / 6, 4 / 6]),
    (Loss.HINGE, [3 / 3, 2 / 3]),
    (Loss.LOGISTIC, [(0.0485874 + 2.1269280 + 0.3132617) / 3,
                     (0.3132617 + 1.3132617 + 0.3132617) / 3]),
    # Residuals 2, 3 and 0, and 0, 2 and 0; a bound of 2.5 counts 3 as 2.5 (3 - 1.25).
    (LOSSES[Loss.HUBER].within(2.5), [(2 + 4.375 + 0) / 3, (0 + 2 + 0) / 3])])
def test_mean_losses_by_hand(loss, expected):
    found = mean_losses(loss, FEATURES, np.array([[1.0], [-1.0], [1.0]]),
                        np.array([[[1.0, 1.0]], [[0.0, 0.0]]]), np.array([[0.0], [1.0]]))
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("loss", FORMULAS, ids=lambda rule: rule.name)
def test_losses_of_two_outputs(loss):
    rng = np.random.default_rng(0)
    targets = np.where(rng.normal(size=(3, 2)) > 0, 1.0, -1.0)
    coefs, intercepts = rng.normal(size=(4, 2, 2)), rng.normal(size=(4, 2))
    both = mean_losses(loss, FEATURES, targets, coefs, intercepts)
    one, two = (mean_losses(loss, FEATURES, targets[:, [number]], coefs[:, [number]],
                            intercepts[:, [number]]) for number in (0, 1))
    assert both == pytest.approx((one + two) / 2)


def test_losses_of_very_wrong_and_very_right_rows():
    features, targets = np.array([[1e5], [-1e5]]), np.array([[1.0], [1.0]])
    model = np.array([[[1.0]]]), np.zeros((1, 1))
    assert mean_losses(Loss.LOGISTIC, features, targets, *model) == pytest.approx([5e4])
    assert mean_losses(Loss.HINGE, features, targets, *model) == pytest.approx([(1e5 + 1) / 2])
    small = mean_losses(Loss.LOGISTIC, np.array([[40.0]]), np.ones((1, 1)), *model)
    assert small == pytest.approx([np.exp(-40)])       # not lost beside 1


def test_squared_losses_are_those_of_least_squares():
    model = np.array([[[1.0, 1.0]]]), np.array([[0.5]])
    targets = np.array([[3.0], [1.0], [3.0]])
    assert squared_losses(FEATURES, targets, *model) == \
        mean_losses(Loss.LEAST_SQUARES, FEATURES, targets, *model)


def test_several_outputs_are_averaged():
    targets = np.array([[3.0, 0.0], [1.0, 0.0], [3.0, 0.0]])
    found = squared_losses(FEATURES, targets, np.array([[[1.0, 1.0], [0.0, 0.0]]]),
                           np.array([[0.0, 1.0]]))
    assert found == pytest.approx([(5 + 3) / 12])


def test_chunks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(100, 3)), rng.normal(size=(100, 2))
    model = rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 2))
    whole = squared_losses(features, targets, *model)
    monkeypatch.setattr(bitstep.training.losses, "CHUNK_VALUES", 50)
    assert squared_losses(features, targets, *model) == pytest.approx(whole)


def test_each_of_our_threads_has_one_of_blas(monkeypatch):
    """Or they would wait for each other, in products that are small."""
    control = pytest.importorskip("threadpoolctl")
    threads = []

    def outputs(*arguments):
        threads.extend(library["num_threads"] for library in control.threadpool_info()
                       if library["user_api"] == "blas")
        return before(*arguments)

    before = bitstep.training.losses.outputs
    monkeypatch.setattr(bitstep.training.losses, "outputs", outputs)
    monkeypatch.setattr(bitstep.training.losses, "CHUNK_VALUES", 50)
    with control.threadpool_limits(2, "blas"):
        squared_losses(np.ones((100, 3)), np.ones((100, 1)), np.ones((1, 1, 3)), np.ones((1, 1)))
    assert set(threads) == {1}


def test_accuracies_by_hand():
    two = accuracies(FEATURES, np.array([5, 5, 2]), np.array([2, 5]),
                     np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.zeros((2, 1)))
    assert two == pytest.approx([1.0, 1 / 3])       # values 1, 3, 0 and 2, -1, 1
    three = accuracies(FEATURES, np.array([1, 0, 2]), np.array([0, 1, 2]),
                       np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]), np.array([[0, 0, 1.5]]))
    assert three == pytest.approx([1.0])
    # Rows 0 and 1 are right, and their weights add up to more than a uint16 holds.
    weighted = accuracies(FEATURES, np.array([5, 5, 5]), np.array([2, 5]),
                          np.array([[[1.0, 0.0]]]), np.array([[-0.5]]),
                          np.array([40_000, 40_000, 20_000], np.uint16))
    assert weighted == pytest.approx([0.8])         # values 0.5, 2.5, -0.5


@pytest.mark.parametrize("encoding, bits", [
    ("compensated", 2), ("stochastic", 3), ("double", 3), ("double-symmetric", 3)])
def test_losses_on_codes_are_unbiased(encoding, bits):
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (60_000, 3))
    labels = features @ [1.0, -1.0, 0.5] + 0.3
    data = quantize(features, labels, bits=bits, encoding=encoding)
    weights, intercepts = np.array([[0.7, -1.0, 0.2], [1.0, -1.0, 0.5]]), np.array([0.3, 0.3])
    coefs, offsets = data.scaler.unscale_model(weights[:, None], intercepts[:, None])
    expected = squared_losses(features, labels[:, None], coefs, offsets)
    np.testing.assert_allclose(code_losses(data, weights, intercepts), expected, atol=0.004)


def two_classes(**options):
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (20_000, 3))
    signs = np.where(features @ [1.0, -1.0, 0.5] + rng.normal(size=20_000) > 0, 1.0, -1.0)
    data = quantize(features, signs, task="classification", **options)
    weights, intercepts = np.array([[0.7, -1.0, 0.2], [2.0, -2.0, 1]]), np.array([0.3, -0.1])
    coefs, offsets = data.scaler.unscale_model(weights[:, None], intercepts[:, None])
    exact = [mean_losses(loss, features, signs[:, None], coefs, offsets)
             for loss in FORMULAS]
    return data, [code_losses(data, weights, intercepts, loss) for loss in FORMULAS], exact


@pytest.mark.parametrize("encoding, bits, fine_rows", [
    ("float", 32, False), ("nearest", 2, True), ("stochastic", 1, True), ("nearest", 8, False)])
def test_losses_on_exact_rows(encoding, bits, fine_rows):
    _, found, exact = two_classes(encoding=encoding, bits=bits, fine_rows=fine_rows)
    np.testing.assert_allclose(found, exact, rtol=2e-3 if bits == 8 else 1e-4)


def test_losses_on_drawn_rows_are_too_large():
    _, found, exact = two_classes(encoding="stochastic", bits=2)
    for loss, ours, theirs in zip(Loss, found, exact, strict=True):
        assert loss == Loss.LEAST_SQUARES or (ours > theirs + 0.01).all()


@pytest.mark.parametrize("loss", [Loss.SQUARED_HINGE, Loss.HINGE, Loss.LOGISTIC])
def test_losses_on_codes_are_those_of_their_first_sample(loss):
    data, found, _ = two_classes(encoding="double", bits=4)
    rows, _ = data.rows.levels(slice(None))
    weights = np.array([[[0.7, -1.0, 0.2]], [[2.0, -2.0, 1]]])
    expected = mean_losses(loss, rows, data.label_values()[:, None], weights,
                           np.array([[0.3], [-0.1]]))
    assert found[loss] == pytest.approx(expected)


def test_levels_of_float_rows():
    data, *_ = two_classes(encoding="float", bits=32)
    dots, gradients = data.rows.levels(np.array([5, 2]))
    assert gradients is dots
    assert dots.dtype == np.float64
    np.testing.assert_array_equal(dots, data.rows.codes()[[5, 2]])


def test_targets_of_classes():
    labels = np.array([2, 7, 2])
    assert class_targets(labels, np.array([2, 7])).T.tolist() == [[-1, 1, -1]]
    assert class_targets(labels, np.array([2, 5, 7])).T.tolist() == \
        [[1, -1, 1], [-1, -1, -1], [-1, 1, -1]]


def test_automatic_step():
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (5000, 4))
    data = quantize(features, features[:, 0], bits=8, encoding="nearest")
    # R = 1 + 4 / 3, and the largest eigenvalue is that of the intercept, 1
    assert automatic_step(data.rows) == pytest.approx(0.2 / (7 / 3), rel=0.02)
    assert automatic_step(data.rows, fit_intercept=False) == pytest.approx(0.2 / (4 / 3), rel=0.03)
    assert automatic_step(data.rows, batch=100) == pytest.approx(80 / (7 / 3 + 99), rel=0.02)
    noisy = quantize(features, features[:, 0], bits=1)
    assert automatic_step(noisy.rows) == pytest.approx(0.2 / 5 / (1 + 12 * 2 / 3), rel=0.03)
    assert automatic_step(quantize_rows(np.zeros((3, 1)), bits=4),
                          fit_intercept=False) == 1.0


def test_report_counters():
    from bitstep.pipeline.results import COUNTER_NAMES
    counters = report_counters({name: place for place, name in enumerate(COUNTER_NAMES)})
    assert list(counters) == ["cycles", "beats", "stall_cycles", "bytes_read", "overflows",
                              "refetched_rows"]
    assert counters["stall_cycles"]["rows"] == COUNTER_NAMES.index("stall_rows")
    assert counters["stall_cycles"]["refetch"] == COUNTER_NAMES.index("stall_refetch")
    numbers = [value for value in counters.values() if isinstance(value, int)]
    assert sorted([*numbers, *counters["stall_cycles"].values()]) == list(range(13))
