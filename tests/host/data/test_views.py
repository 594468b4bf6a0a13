"""Views of rows: dense blocks of sparse, reordered and clipped rows."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bitstep.data.views import RowView, dense_blocks, is_sparse
from bitstep.quantization.bounds import Bounds

ROWS = np.where(np.random.default_rng(0).random((40, 3)) < 0.3,
                np.random.default_rng(1).standard_normal((40, 3)), 0.0)
FORMATS: list[Any] = [scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array,
                      scipy.sparse.lil_matrix, np.asarray]


@pytest.mark.parametrize("made", FORMATS)
def test_blocks(made):
    order = np.array([3, 3, 0, 39, 3])
    view = RowView(made(ROWS), order)
    assert (view.shape, view.size, len(view), view.dtype) == ((5, 3), 15, 5, np.float64)
    np.testing.assert_array_equal(view[1:4], ROWS[order[1:4]])
    np.testing.assert_array_equal(view[3:99], ROWS[order[3:]])
    np.testing.assert_array_equal(RowView(made(ROWS))[0:40], ROWS)


def test_clipped_blocks_are_those_of_an_array():
    rows = scipy.sparse.csr_array(ROWS.astype(np.float32))
    bounds = Bounds(np.array([-0.5, 0.1, -9.0]), np.array([0.5, 0.2, 9.0]))
    view, outside = bounds.clip(RowView(rows))
    dense, expected = bounds.clip(ROWS.astype(np.float32))
    np.testing.assert_array_equal(outside, expected)
    np.testing.assert_array_equal(view[0:40], dense)
    assert view.dtype == view[0:1].dtype == dense.dtype
    assert bounds.clip(view)[0] is view


def test_dense_blocks():
    rng = np.random.default_rng(0)
    wide = scipy.sparse.csc_array(rng.random((70, 1 << 14)) * (rng.random((70, 1 << 14)) < 0.01))
    blocks = list(dense_blocks(wide))
    assert max(block.size for block in blocks) <= 1 << 15
    np.testing.assert_array_equal(np.concatenate(blocks), wide.toarray())
    assert next(dense_blocks(ROWS)) is ROWS
    assert not is_sparse(ROWS)


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize("order", [[2, 0, 1], [39], [5, 6, 4], [5, 6, 5], [7, 5, 4], [5, 0, 1],
                                   []])
def test_any_order(made, order):
    """The same rows, each as often, and rows that follow each other without a copy."""
    found = RowView(made(ROWS), np.array(order, np.int64)).in_any_order()
    assert found.shape == (len(order), 3)
    np.testing.assert_array_equal(found[0:len(order)], ROWS[np.sort(order).astype(int)])
    if made is np.asarray:
        follow = len(order) > 0 and sorted(order) == list(range(min(order), max(order) + 1))
        assert np.shares_memory(found[0:1], ROWS) == follow


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize("order", [range(40), [7, 5, 6, 7, 30]])
def test_rows_of_clipped_rows(made, order):
    """What is taken of a view is in its order, and clipped by one pair of ends after the other."""
    order, view, rows = np.array(order), RowView(made(ROWS)), ROWS
    if len(order) < 40:
        view = view.take(order)
    for low, high in ((-0.5, 0.2), (0.1, 0.4), (0.3, 0.3)):
        view, rows = view.within(np.full(3, low), np.full(3, high)), np.clip(rows, low, high)
        np.testing.assert_array_equal(view[0:len(order)], rows[order])
        for taken in (np.array([4, 0, 3, 3]), np.array([2, 0, 1])):
            np.testing.assert_array_equal(view.take(taken)[0:9], rows[order[taken]])
            np.testing.assert_array_equal(view.take(taken).in_any_order()[0:9],
                                          rows[np.sort(order[taken])])
