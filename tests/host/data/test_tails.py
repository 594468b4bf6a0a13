"""Tails of columns, against sorting; rows that come in pieces and columns that come late."""

import numpy as np
import pytest

from bitstep.data import tails
from bitstep.data.tails import ColumnTails, tail_count


def pieces(features, sizes):
    start = 0
    while start < len(features):
        size = sizes[start % len(sizes)]
        yield features[start:start + size]
        start += size


@pytest.mark.parametrize("room", [40, tails.TAIL_VALUES])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (7, 4), (1000, 3), (4001, 5), (300, 400),
                                   (3, 65_538)])
def test_ends_are_those_of_sorted_columns(shape, known, room, monkeypatch):
    monkeypatch.setattr(tails, "TAIL_VALUES", room)
    monkeypatch.setattr(tails, "_PENDING", 50)
    rng = np.random.default_rng(shape[0])
    features = rng.standard_normal(shape).astype(np.float32)
    features[:, 0] = rng.random(len(features)) < 0.01       # ties
    found = ColumnTails(shape[0] if known else None)
    for piece in pieces(features, [13, 500, 1]):
        found.add(piece)
    ordered = np.sort(features, axis=0)
    for share in (200, 1000):
        count = min(tail_count(shape[0], shape[1], share), len(features) - 1)
        low, high = found.ends(count)
        np.testing.assert_array_equal(low, ordered[count])
        np.testing.assert_array_equal(high, ordered[-count - 1])
    assert found.n_rows == shape[0]


def test_columns_that_come_late_were_zero(monkeypatch):
    monkeypatch.setattr(tails, "_PENDING", 10)
    features = np.random.default_rng(1).standard_normal((2000, 6))
    features[:900, 4:] = 0
    features[:, 0] = 0
    found = ColumnTails()
    found.add(features[:500, :3])       # columns 3 of these rows are zero, too
    features[:500, 3] = 0
    found.add(features[500:900, :4])
    found.add(features[900:])
    found.keep(1, 7)                    # without the first one, and with two more
    wanted = np.sort(np.hstack([features[:, 1:], np.zeros((2000, 2))]), axis=0)
    low, high = found.ends(10)
    np.testing.assert_array_equal(low, wanted[10])
    np.testing.assert_array_equal(high, wanted[-11])


def test_rows_that_come_after_columns_were_dropped(monkeypatch):
    monkeypatch.setattr(tails, "_PENDING", 10)
    features = np.random.default_rng(2).standard_normal((2000, 5))
    features[:, 0] *= 1e-3              # whose ends are near
    found = ColumnTails()
    found.add(features[:1000])
    found.ends(5)
    found.keep(1, 4)
    found.add(features[1000:, 1:])
    low, high = found.ends(10)
    wanted = np.sort(features[:, 1:], axis=0)
    np.testing.assert_array_equal(low, wanted[10])
    np.testing.assert_array_equal(high, wanted[-11])


def test_zero_has_no_sign():
    found = ColumnTails()
    found.add(np.array([[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]]))
    assert not np.signbit(found.ends(1)).any()


def test_count_has_room():
    assert tail_count(1, 1) == 1
    assert tail_count(1001, 28, 1000) == 2
    assert tail_count(10 ** 9, 28) == tails.TAIL_VALUES // 28
    assert tail_count(10 ** 9, 10 ** 6) == 1
