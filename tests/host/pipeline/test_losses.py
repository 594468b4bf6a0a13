"""Formulas of losses at their corners: large margins, classes alone, and constants by hand."""

import math

import numpy as np
import pytest

from bitstep.pipeline.losses import LOSSES, MULTINOMIAL, formula_of, loss_named
from bitstep.pipeline.registers import Loss

LARGE = np.array([[-1e4, -800.0, 800.0, 1e4]])


@pytest.mark.parametrize("loss", [loss for loss in Loss if not LOSSES[loss].clipped])
def test_derivatives_are_those_of_the_values(loss):
    """By differences, of either target."""
    rule, values = formula_of(loss), np.linspace(-3, 3, 25)[:, None] + 0.01
    for target in (-1.0, 1.0):
        targets = np.full_like(values, target)
        slope = (rule.value(values + 1e-6, targets) - rule.value(values - 1e-6, targets)) / 2e-6
        assert rule.derivative(values, targets) == pytest.approx(slope, abs=1e-6)
        if rule.second is not None:
            slope = (rule.derivative(values + 1e-6, targets)
                     - rule.derivative(values - 1e-6, targets)) / 2e-6
            assert rule.second(values, targets) == pytest.approx(slope, abs=1e-6)
            assert rule.second(values, targets).max() <= rule.curvature


def test_logistic_loss_of_rows_far_from_the_border():
    """Without a warning: exponentials of these leave 64 bits."""
    rule = formula_of(Loss.LOGISTIC)
    ones = np.ones_like(LARGE)
    assert rule.value(LARGE, ones).tolist() == [[1e4, 800.0, 0.0, 0.0]]
    found = rule.derivative(LARGE, ones)
    assert found[0, :2].tolist() == [-1.0, -1.0]
    assert found[0, 2:] == pytest.approx(0, abs=1e-300)
    assert rule.derivative(-LARGE, -ones)[0, :2].tolist() == [1.0, 1.0]


def test_softmax_of_rows_far_from_the_border():
    targets = np.array([[1.0, -1.0, -1.0]] * 2)
    values = np.array([[-1e4, 1e4, 0.0], [1e4, -1e4, 0.0]])
    assert MULTINOMIAL.value(values, targets).tolist() == [[2e4] * 3, [0.0] * 3]
    assert MULTINOMIAL.derivative(values, targets).tolist() == [[-1.0, 1.0, 0.0], [0.0] * 3]
    assert values[0].tolist() == [-1e4, 1e4, 0.0]       # which is the caller's


def test_huber_loss_beyond_its_bound_is_a_line():
    rule = formula_of(Loss.HUBER).within(np.array([1.0, 0.5]))
    values = np.array([[0.5, 0.25], [3.0, -2.0]])
    assert rule.value(values, np.zeros((2, 2))).tolist() == [
        [0.125, 0.03125], [2.5, 0.5 * (2.0 - 0.25)]]
    assert rule.derivative(values, np.zeros((2, 2))).tolist() == [[0.5, 0.25], [1.0, -0.5]]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_best_constants(share):
    """Of a class with this share of the rows, by trying many; mean and variance of its targets are
    2 share - 1 and 4 share (1 - share).
    """
    moments = [(2 * share - 1, 4 * share * (1 - share))]
    tried = np.linspace(-20, 20, 4001)[:, None]
    for loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.LOGISTIC):
        rule = formula_of(loss)
        losses = share * rule.value(tried, np.ones_like(tried)) \
            + (1 - share) * rule.value(tried, -np.ones_like(tried))
        assert rule.baseline(moments) == pytest.approx(losses.min(), abs=1e-4)
        assert rule.baseline(moments * 3) == pytest.approx(rule.baseline(moments))


def test_best_constants_of_all_classes_together():
    """The entropy of their shares, also of a class without a row."""
    shares = [0.5, 0.25, 0.25, 0.0]
    found = MULTINOMIAL.baseline([(2 * one - 1, 0.0) for one in shares])
    assert found == pytest.approx(1.5 * math.log(2))


def test_losses_have_one_name_each():
    assert all(loss_named(rule.name) is rule for rule in LOSSES.values())
    with pytest.raises(KeyError):
        loss_named("absolute")
