"""Bounds of columns: what they hold, and what they do to values, against sorting and counting."""

import numpy as np
import pytest

from bitstep.data import blocks
from bitstep.data.views import RowView
from bitstep.quantization.bounds import Bounds, fixed_bounds

LOW, HIGH = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 3.0, 2.5])


def bounds(*pairs):
    return Bounds(*np.array(pairs, np.float64).T)


def ends(found):
    return np.column_stack([found.low, found.high]).tolist()


@pytest.mark.parametrize("view", [False, True])
def test_values_beyond_are_counted_and_clipped(view, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 30)         # ten rows a block
    values = np.random.default_rng(0).normal(1, 2, (97, 3))
    values[:2] = LOW, HIGH                                  # which are within
    rows = RowView(values, np.arange(97)[::-1]) if view else values
    clipped, outside = Bounds(LOW, HIGH).clip(rows)
    assert outside.tolist() == [
        sum(not low <= value <= high for value in column)
        for column, low, high in zip(values.T, LOW, HIGH, strict=True)]
    wanted = [[min(max(value, low), high) for value, low, high in zip(row, LOW, HIGH, strict=True)]
              for row in values.tolist()]
    assert clipped[0:97].tolist() == (wanted[::-1] if view else wanted)
    again, outside = Bounds(LOW, HIGH).clip(clipped)
    assert again is clipped
    assert not outside.any()


def test_bounds_of_a_chunk():
    seen, before, given = bounds((-1, 5), (2, 3)), bounds((0, 1), (2, 2)), bounds((0, 2), (2, 4))
    assert ends(fixed_bounds(seen)) == [[-1, 5], [2, 3]]
    # Of what was before only a column of one value takes the range of the chunk.
    assert ends(fixed_bounds(seen, before=before)) == [[0, 1], [2, 3]]
    assert ends(fixed_bounds(seen, before=before, growing=True)) == [[-1, 5], [2, 3]]
    # What is given holds what was before, and no chunk widens it.
    assert ends(fixed_bounds(seen, given=given)) == [[0, 2], [2, 4]]
    assert ends(fixed_bounds(seen, given=bounds((0.5, 2), (3, 4)), before=before)) == \
        [[0, 2], [2, 4]]
    assert ends(fixed_bounds(seen, given=given, before=before, growing=True)) == [[0, 2], [2, 4]]
    # The least range of numbers is one.
    assert ends(fixed_bounds(seen, before=bounds((0, 5e-324), (2, np.nextafter(2, 3))))) == \
        [[0, 5e-324], [2, np.nextafter(2, 3)]]


@pytest.mark.parametrize("growing", [False, True])
def test_symmetric_bounds_have_zero_in_their_centre(growing):
    seen, before = bounds((-1, 5), (-3, -2), (-4, 1)), bounds((-1, 1), (-6, 6), (0, 0))
    assert ends(fixed_bounds(seen, symmetric=True)) == [[-5, 5], [-3, 3], [-4, 4]]
    found = fixed_bounds(seen, before=before, growing=growing, symmetric=True)
    assert ends(found) == [[-5, 5] if growing else [-1, 1], [-6, 6], [-4, 4]]
