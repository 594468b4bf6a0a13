"""Weights of rows: repetitions, their order, and what is drawn."""

from typing import Any

import numpy as np
import pytest

from bitstep.data.views import RowView
from bitstep.training.copies import (
    CLOSE,
    COPIED_VALUES,
    COPIES,
    copies_of,
    pass_rows,
    weighted_order,
)
from bitstep.training.raised import Raised
from bitstep.training.weighing import HEAVY, weigh
from bitstep.training.weights import checked_weights, class_factors, class_sums, row_weights


def never() -> int:
    raise AssertionError("Whole weights draw nothing")


def test_order_by_hand():
    # Copies of row 0 at 0 and 1/2, of row 1 at 1/3, row 2 at 2/3.
    assert weighted_order(np.array([2.0, 1, 1]), never).tolist() == [0, 1, 0, 2]
    # A row of weight 0 is as good as none: rows 0, 2, 3 are at 0, 1/3, 2/3.
    assert weighted_order(np.array([2.0, 0, 1, 1]), never).tolist() == [0, 2, 0, 3]
    assert weighted_order(np.ones(4), never).tolist() == [0, 1, 2, 3]
    # Row 0 at 0, 1/3, 2/3, row 1 at 1/2, 1/2 + 1/2 = 0.
    assert weighted_order(np.array([3.0, 2]), never).tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_whole_weights_repeat(seed):
    weights = np.random.default_rng(seed).integers(0, 9, 500).astype(float)
    order = weighted_order(weights, never)
    np.testing.assert_array_equal(np.bincount(order, minlength=500), weights)
    # A row's copies are apart: none follows its like.
    assert (np.diff(order) != 0).all()


def test_draws_have_the_weights_as_their_mean():
    weights = np.array([0.25, 2.0, 0.0, 1.5, 0.1, 3.75, 1.0])
    counts = np.array([np.bincount(weighted_order(weights, lambda seed=seed: seed), minlength=7)
                       for seed in range(4000)])
    assert (counts[:, [1, 2, 6]] == [2, 0, 1]).all()
    assert (counts >= np.floor(weights)).all()
    assert (counts <= np.ceil(weights)).all()
    np.testing.assert_allclose(counts.mean(axis=0), weights, atol=0.04)     # 5 deviations
    assert set(counts.sum(axis=1)) == {8, 9}            # 8.6 on average


def test_draws_are_balanced_within_classes():
    groups = np.arange(1000) % 2            # in turn: every second row would be one class
    weights = np.where(groups == 0, 0.5, 0.251)
    for seed in range(20):
        found = groups[weighted_order(weights, lambda seed=seed: seed, groups)]
        assert np.bincount(found).tolist() in ([250, 125], [250, 126])


def test_same_draws_for_the_same_rows():
    rows, weights = np.random.default_rng(0).random((50, 3)), np.full(50, 0.5)
    targets = np.arange(50)[:, None]
    one, again, other, seeded = (
        pass_rows(values, targets, weights, lambda seed=seed: seed,
                  chunk=True).targets.ravel().tolist()
        for values, seed in ((rows, 1), (rows.copy(), 1), (rows + 1, 1), (rows, 2)))
    assert one == again
    assert len({tuple(one), tuple(other), tuple(seeded)}) == 3


def test_rows_of_a_pass_are_no_copy():
    rows, targets = np.random.default_rng(0).random((5, 3)), np.arange(5.0)[:, None]
    found = pass_rows(rows, targets, np.array([0.0, 2, 1, 1, 0]), never)
    view, labels, *rest = found[:6]
    assert rest == [None, 0.0, None, 1.0]
    assert found.other_weights is None
    np.testing.assert_array_equal(found.places, [1, 2, 1, 3])
    assert isinstance(view, RowView)
    assert view.shape == (4, 3)
    np.testing.assert_array_equal(view[0:4], rows[[1, 2, 1, 3]])
    np.testing.assert_array_equal(labels.ravel(), [1, 2, 1, 3])
    assert pass_rows(rows, targets, np.ones(5), never)[0] is rows
    assert pass_rows(rows, targets, None, never)[0] is rows


def test_balanced():
    labels = np.array(["a", "b", "b", "b", "c", "c"])
    classes = np.unique(labels)
    found: Any = class_factors("balanced", classes, class_sums(labels, None, classes))
    np.testing.assert_allclose(found, [2, 2 / 3, 1])
    # A row of weight 2 counts as two rows.
    weights = np.array([2.0, 1, 0, 1, 1, 1])
    found = class_factors("balanced", classes, class_sums(labels, weights, classes))
    np.testing.assert_allclose(found, [1, 1, 1])
    found = row_weights(weights, {"a": 0.5, "c": 3}, labels)
    np.testing.assert_allclose(found, [1, 1, 0, 1, 3, 3])


def test_rows_may_lack_a_rare_class():
    """As those of a fold: a dictionary that names every class, and more, is no slip."""
    weight, labels = {"a": 2.0, "b": 3.0, "rare": 9.0}, np.array(["a", "b", "a"])
    found: Any = row_weights(None, weight, labels)
    np.testing.assert_allclose(found, [2, 3, 2])
    # A class that is there, without a row to train on.
    labels = np.array(["a", "b", "c"])
    found = row_weights(np.array([1.0, 0, 1]), {"b": 2}, labels)
    np.testing.assert_allclose(found, [1, 0, 1])


@pytest.mark.parametrize("weights, message", [
    ([1, 2], r"must have shape \(3,\), one weight a row, not \(2,\)"),
    ([[1], [1], [1]], r"must have shape \(3,\), one weight a row, not \(3, 1\)"),
    ([1, -0.5, 1], r"of at least 0, not -0.5 \(row 1, counted from 0\)"),
    ([1, 1, np.nan], r"finite numbers .* not nan \(row 2"),
    ([np.inf, 1, 1], r"finite numbers .* not inf \(row 0"),
    (["a", "b", "c"], "must hold numbers, one a row"),
    ([1, 1 + 2j, 1], r"must hold numbers, one a row \(some are complex\)"),
    ([0, 0, 0], "all weights are zero")])
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        checked_weights(weights, 3)


@pytest.mark.parametrize("weight, message", [
    ("equal", "must be None, 'balanced' or a dictionary of weights by class, not 'equal'"),
    ({"x": 1}, "must hold classes of y only, 'a', 'b', not 'x'"),
    ({"a": -1}, "finite numbers of at least 0, not -1 for class 'a'"),
    ({"a": True}, "finite numbers of at least 0, not True for class 'a'"),
    ({"a": "2"}, "finite numbers of at least 0, not '2' for class 'a'"),
    ({"a": 0, "b": 0}, "at least one row with a weight above zero")])
def test_bad_class_weight(weight, message):
    with pytest.raises(ValueError, match=f"class_weight .*{message}"):
        row_weights(None, weight, np.array(["a", "b", "a"]))


def test_product_of_weights_is_too_large():
    with pytest.raises(ValueError, match="sample_weight times class_weight must fit 64-bit"):
        row_weights(np.array([1e300, 1]), {"a": 1e300}, np.array(["a", "b"]))


def test_too_many_rows():
    """Of a chunk, whose weights are copies."""
    with pytest.raises(ValueError, match=r"at most 1,048,576, .* not to 3e\+09; divide"):
        pass_rows(np.ones((2, 1)), np.ones((2, 1)), np.array([2e9, 1e9]), never, chunk=True)


@pytest.mark.parametrize("weights, copies", [
    ([1 / 7, 1 / 7, 1 / 7], [1, 1, 1]), ([0.5, 1, 1.5], [1, 2, 3]), ([1, 2.5], [2, 5]),
    ([2, 2], [2, 2]), ([0.1, 0.3], [1, 3]), ([5e-324, 1e-323], [1, 2]), ([1e308, 1e308], [1, 1]),
    ([5e7, 1e8], [1, 2]), ([1 / 3, 1 / 5], [5, 3])])
def test_ratios_of_whole_numbers_are_exact(weights, copies):
    """Whatever the weights add up to."""
    found, deviation = copies_of(np.array(weights, float))
    assert deviation == 0
    np.testing.assert_array_equal(found, copies)


@pytest.mark.parametrize("draw", [
    lambda rng, size: rng.uniform(0.5, 2, size), lambda rng, size: rng.exponential(1e-6, size),
    lambda rng, size: rng.integers(1, 100_001, size).astype(float),
    lambda rng, size: np.where(np.arange(size) % 3, 1.0, np.pi)])
def test_other_weights_have_copies_close_to_them(draw):
    """The deviation is that of what is drawn."""
    weights = draw(np.random.default_rng(0), 3000)
    copies, deviation = copies_of(weights)
    assert 0 < deviation <= CLOSE
    assert len(weights) <= copies.sum() <= COPIES * len(weights) * (1 + 1e-9)
    np.testing.assert_allclose(copies / copies.sum(), weights / weights.sum(), rtol=1e-9)
    counts = np.bincount(weighted_order(copies, lambda: 5), minlength=len(weights))
    drawn = np.sqrt(np.mean((counts - copies) ** 2) / np.mean(copies ** 2))
    assert drawn == pytest.approx(deviation, rel=0.1)


def test_long_rows_have_fewer_copies():
    weights = np.random.default_rng(0).uniform(0.5, 2, 1000)
    assert copies_of(weights, COPIED_VALUES // 4000)[0].mean() == pytest.approx(4, rel=1e-3)
    assert copies_of(weights, COPIED_VALUES)[0].mean() == pytest.approx(1)


def test_rows_that_are_left_out_are_said():
    rows, targets = np.zeros((1000, 2)), np.zeros((1000, 1))
    weights = np.ones(1000)
    weights[:300] = 1e-7
    found = pass_rows(rows, targets, weights, lambda: 0)
    assert found.note is not None
    assert found.note.startswith("30 % of the rows, with ")
    assert "4.3e-06 % of all weight, are not read at all" in found.note
    assert len(found.targets) == 700
    weights[:300] = 0
    assert pass_rows(rows, targets, weights, never).note is None
    assert pass_rows(rows, targets, np.linspace(0.1, 1, 1000), lambda: 0).note is None


def note_of(weights, groups=None):
    """The sentence on weights that go along with their rows."""
    weights = np.asarray(weights, float)
    return pass_rows(np.zeros((len(weights), 1)), np.zeros((len(weights), 1)), weights, never,
                     groups, along=True).note


def test_weights_that_are_raised_are_said():
    # 1e-6 of the largest is 0.066 of the least that 16 bits hold, 1 / 65,535: 15.3 times as much.
    weights = np.where(np.arange(1000) < 300, 1e-6, 1.0)
    note = note_of(weights)
    assert note is not None
    assert note.startswith("the weights of 30 % of the rows are too small beside the largest: 16 "
                           "bits hold them as up to 15.3 times what they should be")
    assert note_of(np.where(np.arange(1000) < 99, 1e-6, 1.0)) is None       # less than a tenth
    # Of a class that is rare, too.
    groups = (np.arange(1000) < 10).astype(int)
    note = note_of(np.where(groups, 1e-6, 1.0), groups)
    assert note is not None
    assert "1 % of the rows, among them those of 1 class, are" in note
    # Rounded down: 1.4 units are 1.
    note = note_of(np.where(np.arange(1000) < 300, 1.4 / 65535, np.linspace(0.5, 1, 1000)))
    assert note is not None
    assert "as up to 0.714 times" in note


@pytest.mark.parametrize("small", [1e-6, 1.4 / 65535])
@pytest.mark.parametrize("n_classes", [0, 2])
def test_parts_of_the_rows_say_what_all_of_them_do(small, n_classes):
    """Whichever of them has the small weights, and the class of these."""
    weights = np.where(np.arange(1000) < 300, small, np.linspace(0.5, 1, 1000))
    rule, groups = weigh(weights).rule(), (np.arange(1000) < 300).astype(int)
    features, values = np.zeros((1000, 1)), np.zeros((1000, 1))

    def raised(rows):
        found = Raised.of(rule, features[rows], groups[rows] if n_classes else values[rows],
                          weights[rows], n_classes)
        assert found is not None
        return found

    note = raised(slice(None)).note
    assert note is not None
    assert ("those of 1 class" in note) == bool(n_classes)
    parts = raised(slice(300)), raised(slice(300, None))
    assert (parts[0] + parts[1]).note == (parts[1] + parts[0]).note == note


def test_a_heavy_row_stands_in_the_pass_in_parts_that_decide():
    """The largest part of a row has the weight of four mean rows."""
    weights = np.full(1000, 1e-7)
    weights[:10] = 1
    note = note_of(weights)
    assert note is not None
    parts = np.ceil(1 / (HEAVY * weights.mean()))
    assert f"as up to {1e7 / 65535 / parts:.3g} times" in note


@pytest.mark.parametrize("weights", [
    np.random.default_rng(0).uniform(0.1, 10, 5000), np.random.default_rng(0).uniform(0, 1, 5000),
    np.random.default_rng(0).lognormal(0, 2, 5000), np.random.default_rng(0).exponential(1, 5000),
    np.where(np.arange(5000) < 5, 500.0, 0.5), np.where(np.arange(5000) < 5, 1.0, 1e-3),
    np.where(np.arange(5000) < 2500, 1.0, 1e-4)])
def test_ordinary_weights_are_not_said(weights):
    groups = (np.arange(5000) < 5).astype(int)
    assert note_of(weights, groups) is None


def test_one_weight_for_all_rows():
    found = checked_weights(2.0, 3)
    assert found is not None
    assert found.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="at least one number above 0"):
        checked_weights(0, 3)
    with pytest.raises(ValueError, match="of at least 0, not -1"):
        checked_weights(-1, 3)
