"""Columns of few bits that have the rows' means and variances."""

import numpy as np
import pytest

from bitstep.quantization import quantize_bit_planes
from bitstep.quantization.weights import stored_weights
from bitstep.training.centred.code_columns import MOST, CodeColumns

RNG = np.random.default_rng(0)
FEATURES = np.column_stack([RNG.standard_normal(500), np.exp(2 * RNG.standard_normal(500)),
                            RNG.random(500) < 0.05, np.full(500, 3.0)])


def columns_of(rows, planes, fit_intercept):
    """The columns s q + d, beside the rows, shape (rows, features) each."""
    columns = CodeColumns.of(rows, planes, fit_intercept)
    codes = rows.levels(slice(None), planes)[0]
    return columns, codes, codes * columns.scales + columns.shifts, rows.levels(slice(None))[0]


@pytest.mark.parametrize("planes", [2, 6, 12])
@pytest.mark.parametrize("weights", [None, RNG.random(500) + 0.1])
def test_means_and_variances_are_those_of_the_rows(planes, weights):
    stored = None if weights is None else stored_weights(weights)
    rows = quantize_bit_planes(FEATURES, weights=stored)
    columns, _, found, exact = columns_of(rows, planes, True)
    np.testing.assert_allclose(np.average(found, axis=0, weights=stored),
                               np.average(exact, axis=0, weights=stored), atol=1e-9)
    inner = columns.scales < MOST
    assert inner[[0, 2, 3]].all()
    spread = np.sqrt([np.cov(one.T, aweights=stored, ddof=0).diagonal() for one in (found, exact)])
    np.testing.assert_allclose(spread[0, inner], spread[1, inner], atol=1e-9)


@pytest.mark.parametrize("planes", [1, 4])
def test_a_column_of_two_values_is_itself(planes):
    _, codes, found, exact = columns_of(quantize_bit_planes(FEATURES), planes, True)
    np.testing.assert_allclose(found[:, 2:], exact[:, 2:], atol=1e-9)
    assert np.abs(codes[:, 2] - exact[:, 2]).min() > 0.01


def test_without_an_intercept_mean_squares_are_those_of_the_rows():
    columns, _, found, exact = columns_of(quantize_bit_planes(FEATURES[:, :3]), 4, False)
    assert not columns.shifts.any()
    np.testing.assert_allclose((found ** 2).mean(axis=0), (exact ** 2).mean(axis=0), rtol=1e-9)


def test_models_of_columns_and_of_codes_have_the_same_outputs():
    columns, codes, found, _ = columns_of(quantize_bit_planes(FEATURES), 3, True)
    models = RNG.standard_normal((2, 5))
    of_codes = columns.to_codes(models)
    outputs = found @ models[:, :-1].T + models[:, -1]
    np.testing.assert_allclose(codes @ of_codes[:, :-1].T + of_codes[:, -1], outputs, rtol=1e-9)
    np.testing.assert_allclose(columns.from_codes(of_codes), models, rtol=1e-9)
    # The chain rule: for any move, gradients of both say the same of its slope.
    slopes, move = RNG.standard_normal((2, 5)), RNG.standard_normal((2, 5))
    np.testing.assert_allclose((columns.slopes(slopes) * move).sum(axis=1),
                               (slopes * columns.to_codes(move)).sum(axis=1), rtol=1e-9)
