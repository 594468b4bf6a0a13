"""Scalers: values by hand, models there and back, what is refused."""

import numpy as np
import pytest

from bitstep.data import DataError
from bitstep.data.blocks import BLOCK_VALUES
from bitstep.quantization import (
    Scaler,
    column_ranges,
    fit_scaler,
    quantize_bit_planes,
    quantize_rows,
)
from bitstep.quantization.scaling import clipped_share, columns_of


def test_minmax_by_hand():
    features = np.array([[0, 5, -4], [10, 5, 2], [5, 5, -1]])
    scaler = fit_scaler(features)
    assert scaler.kind == "minmax"
    assert scaler.centre.tolist() == [5, 5, -1]
    assert scaler.scale.tolist() == [5, 1, 3]       # a constant column has scale 1
    assert scaler.transform(features).tolist() == [[-1, 0, -1], [1, 0, 1], [0, 0, 0]]


def test_maxabs_by_hand():
    features = np.array([[0, 5, -4, 0], [10, 5, 2, 0]], np.float32)
    scaler = fit_scaler(features, "maxabs")
    assert scaler.centre.tolist() == [0, 0, 0, 0]
    assert scaler.scale.tolist() == [10, 5, 4, 1]   # a column of zeros has scale 1
    assert scaler.transform(features).tolist() == [[0, 1, -1, 0], [1, 1, .5, 0]]


@pytest.mark.parametrize("kind", ["minmax", "maxabs"])
@pytest.mark.parametrize("n_features", [1, 3, 511, 513, BLOCK_VALUES + 1])
def test_every_block_counts(kind, n_features):
    n_rows = 2 * max(1, BLOCK_VALUES // n_features) + 1
    features = np.random.default_rng(0).normal(3, 1, (n_rows, n_features))
    features[n_rows - 1, n_features - 1] = 100      # the extreme is in the last, partial block
    scaler = fit_scaler(features, kind)
    low, high = features.min(axis=0), features.max(axis=0)
    if kind == "minmax":
        np.testing.assert_allclose(scaler.centre, (low + high) / 2, atol=1e-14)
        np.testing.assert_allclose(scaler.scale, (high - low) / 2, atol=1e-14)
    else:
        np.testing.assert_array_equal(scaler.scale, np.abs(features).max(axis=0))
    assert np.abs(scaler.transform(features)).max() <= 1


@pytest.mark.parametrize("column", [[1e16, 1e16 + 2], [-1.7e308, 1.7e308], [0, 5e-324],
                                    [1.7e308, 1.6e308], [0.1, 0.3, 0.2]])
@pytest.mark.parametrize("kind", ["minmax", "maxabs"])
def test_extremes_stay_in_range(column, kind):
    features = np.array(column)[:, None]
    scaled = fit_scaler(features, kind).transform(features)
    assert np.isfinite(scaled).all()
    assert np.abs(scaled).max() == pytest.approx(1)
    assert np.abs(scaled).max() <= 1


@pytest.mark.parametrize("value", [5e-324, -1.7e308, 0.1])
def test_a_column_of_one_value_is_zero(value):
    scaler = fit_scaler(np.full((3, 1), value))
    assert (scaler.centre.tolist(), scaler.scale.tolist()) == ([value], [1])


def test_infinity_beyond_a_given_scaler_counts_as_the_end():
    scaler = Scaler("minmax", np.array([1e308]), np.array([1e-3]))
    features = np.array([[-1.7e308], [1e308], [1.7e308]])
    rows = quantize_rows(features, bits=8, encoding="nearest", scaler=scaler)
    assert rows.levels(slice(None))[0].ravel().tolist() == [-1, 0, 1]
    assert quantize_bit_planes(features, scaler=scaler).codes().ravel().tolist() == \
        [0, 1 << 15, (1 << 16) - 1]


@pytest.mark.parametrize("kind", ["minmax", "maxabs"])
def test_models_there_and_back(kind):
    rng = np.random.default_rng(1)
    features = rng.normal(5, [1, 10, 1000], (50, 3))
    scaler = fit_scaler(features, kind)
    weights, intercept = rng.normal(size=(4, 3)), rng.normal(size=4)    # four models at once
    coef, free = scaler.unscale_model(weights, intercept)
    assert coef.shape == (4, 3)
    assert free.shape == (4,)
    np.testing.assert_allclose(features @ coef.T + free,
                               scaler.transform(features) @ weights.T + intercept)
    again, again_intercept = scaler.scale_model(coef, free)
    np.testing.assert_allclose(again, weights)
    np.testing.assert_allclose(again_intercept, intercept)


def test_model_by_hand():
    scaler = Scaler("minmax", np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    coef, intercept = scaler.unscale_model(np.array([6.0, 8.0]), 10.0)
    assert coef.tolist() == [3, 2]
    assert float(intercept) == 10 - 3 - 4


def test_models_together_are_those_alone():
    """Bit for bit, however many there are and whatever lies beside them in memory."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 8, 9, 130, 300):
        scaler = Scaler("minmax", rng.normal(size=n), rng.uniform(0.1, 9, n))
        weights, intercepts = rng.normal(size=(5, n)), rng.normal(size=5)
        alone = [scaler.unscale_model(*one) for one in zip(weights, intercepts, strict=True)]
        back = [scaler.scale_model(*one) for one in alone]
        for together in (weights, np.asfortranarray(weights)):
            coefs, free = scaler.unscale_model(together, intercepts)
            assert coefs.tolist() == [coef.tolist() for coef, _ in alone]
            assert free.tolist() == [float(one) for _, one in alone]
            assert scaler.scale_model(coefs, free)[1].tolist() == [float(one) for _, one in back]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["minmax", "maxabs"])
def test_not_finite(value, kind):
    features = np.zeros((40_000, 3), np.float32)
    features[30_001, 2] = value
    with pytest.raises(DataError, match=rf"finite, not {value} \(row 30001, column 2, counted"):
        fit_scaler(features, kind)


def test_unknown_kind():
    with pytest.raises(ValueError, match="one of quantile, minmax, maxabs, not 'standard'"):
        fit_scaler(np.ones((2, 2)), "standard")


@pytest.mark.parametrize(("centre", "scale", "message"), [
    ([0.0], [1.0, 1.0], "must have shape"), ([0.0], [0.0], "finite and positive"),
    ([np.nan], [1.0], "must be finite"), ([0.0], [np.inf], "scale finite")])
def test_bad_parts(centre, scale, message):
    with pytest.raises(ValueError, match=message):
        Scaler("minmax", np.array(centre), np.array(scale))


# Clipping at quantiles

def drawn(n_rows, n_features=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n_rows, n_features))


@pytest.mark.parametrize("n_rows", [100, 1000, 1001, 70_000])
def test_one_row_far_out_is_clipped(n_rows):
    features = drawn(n_rows)
    features[7, 1] = 1e6
    scaler = fit_scaler(features, "quantile")
    k = -(-n_rows // 1000)
    ordered = np.sort(features[:, 1])
    assert scaler.clip is not None
    assert scaler.clip[:, 1].tolist() == [ordered[k], ordered[-k - 1]]
    assert np.isinf(scaler.clip[:, [0, 2]]).all()
    polite = fit_scaler(features)
    np.testing.assert_array_equal(scaler.scale[[0, 2]], polite.scale[[0, 2]])
    assert scaler.scale[1] < 6
    assert np.abs(scaler.transform(features)).max() <= 1


@pytest.mark.parametrize("features", [
    drawn(99) * [1, 1, 1e6], drawn(5000), np.ones((500, 2)),
    (np.random.default_rng(0).random((4000, 5)) < 0.0005).astype(float)],
    ids=["few rows", "normal", "constant", "rare ones"])
def test_polite_columns_are_scaled_as_by_minmax(features):
    if len(features) == 99:
        features[5, 0] = 1e9
    scaler, other = fit_scaler(features, "quantile"), fit_scaler(features)
    assert scaler.clip is None
    np.testing.assert_array_equal(scaler.centre, other.centre)
    np.testing.assert_array_equal(scaler.scale, other.scale)


@pytest.mark.parametrize("far, clipped", [(1.5, True), (np.nextafter(1.5, 0), False)])
def test_half_of_a_range_is_clipped(far, clipped):
    """Without one value at either end, of 1000, a column from -0.5 to 1.5 is one from 0 to 1."""
    column = np.concatenate([[-0.5], np.arange(998) / 997, [far]])
    scaler = fit_scaler(column[:, None], "quantile")
    assert (scaler.clip is not None) == clipped
    assert scaler.scale.tolist() == pytest.approx([0.5 if clipped else 1])


def test_share_of_clipped_values():
    features = np.array([[-5.0, 1], [0, 2], [1, 3], [2, 2]])
    clip = np.array([[0.0, -np.inf], [1, np.inf]])
    assert clipped_share(features, clip) == 2 / 8


@pytest.mark.parametrize("encoding, bits", [("nearest", 3), ("compensated", 4), ("float", 32)])
def test_codes_are_those_of_clipped_features(encoding, bits):
    features = np.sinh(3 * drawn(3000, 4))
    rows = quantize_rows(features, bits=bits, encoding=encoding, scaler="quantile", seed=3)
    assert rows.scaler.clip is not None
    same = quantize_rows(np.clip(features, *rows.scaler.clip), bits=bits, encoding=encoding,
                         scaler="minmax", seed=3)
    np.testing.assert_array_equal(rows.stored[0], same.stored[0])


def test_extremes_are_clipped_without_overflow():
    features = drawn(1000, 2)
    features[0], features[1] = -1.7e308, 1.7e308
    scaler = fit_scaler(features, "quantile")
    assert scaler.scale.max() < 10


def test_waste_is_named_with_its_column():
    features = drawn(1000)
    assert columns_of(features).waste() is None
    features[3, 2] = 1e4
    found: list[str] = []
    fit_scaler(features, "minmax", found.append)
    assert len(found) == 1
    assert found[0].startswith("column 2 (counted from 0) is from -")
    assert "to 10000, but 99 % of its values are from -2." in found[0]
    assert "the others take 99.9" in found[0]
    fit_scaler(features, "quantile", found.append)
    assert len(found) == 1
    features[3, 0] = -1e6
    assert str(columns_of(features).waste()).endswith("and so do those of 1 more")


def test_no_waste_where_there_is_nothing_to_gain():
    """Of a column of one value and a few others, and of few rows, of which no value is one of a
    hundred.
    """
    rare = np.zeros((1000, 2))
    rare[:3, 0], rare[3] = 1, 1e6
    few = np.concatenate([drawn(98), np.full((1, 3), 1e6)])
    for features in (rare, few):
        assert columns_of(features).waste() is None


def test_bad_clip():
    with pytest.raises(ValueError, match=r"clip must have shape \(2, 2\), each column's first"):
        Scaler("quantile", np.zeros(2), np.ones(2), np.zeros((2, 2)))


@pytest.mark.parametrize("function", [fit_scaler, column_ranges])
@pytest.mark.parametrize(("features", "message"), [
    (np.ones(3), r"numbers of shape \(n_rows, n_features\), not float64 of shape \(3,\)"),
    (np.array([["a"]]), "numbers of shape"), (np.ones((0, 3)), "at least one row and 1 to"),
    (np.ones((2, 0)), "at least one row and 1 to")])
def test_what_no_rows_are(function, features, message):
    with pytest.raises(DataError, match=f"features must (be|have) {message}"):
        function(features)


def test_lists_are_rows():
    low, high = column_ranges([[1, 5], [3, 2]])
    assert (low.tolist(), high.tolist()) == ([1, 2], [3, 5])
