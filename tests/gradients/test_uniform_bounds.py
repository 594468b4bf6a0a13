"""Bounds of uniform levels: Lemma 3.1 of the QSGD paper, Lemmas 2 and 3 of the DQSG paper."""

import numpy as np
import pytest
from tests.gradients.helpers import errors

from bitstep_gradients import Key, make_codec


@pytest.mark.parametrize("bucket_size", [0, 1, 64, 100])
@pytest.mark.parametrize("levels", [1, 2, 7, 127])
def test_bound_of_qsgd_is_the_smallest_of_three(levels, bucket_size):
    vector = np.random.default_rng(levels).normal(size=300).astype(np.float32)
    pieces = np.split(vector.astype(np.float64), range(bucket_size or 300, 300, bucket_size or 300))
    expected = sum(min(piece.size / (4 * levels**2), piece.size / levels**2,
                       np.sqrt(piece.size) / levels) * np.sum(piece**2) for piece in pieces)
    codec = make_codec("qsgd", levels=levels, bucket_size=bucket_size)
    assert codec.variance_bound(vector) == pytest.approx(expected)
    error = codec.expected_error(vector)
    assert error is not None
    assert error <= codec.variance_bound(vector)


def test_bound_of_qsgd_is_near_for_values_of_one_magnitude():
    """sqrt(d) / M |v|^2 less |v|^2: values of one magnitude and few levels."""
    vector = np.ones(4096, np.float32)
    codec = make_codec("qsgd", levels=1)
    found = np.mean(np.sum(errors(codec, vector, 30)**2, axis=1))
    assert found == pytest.approx((np.sqrt(4096) - 1) * 4096, rel=0.02)
    assert found < codec.variance_bound(vector) == np.sqrt(4096) * 4096
    assert codec.variance_bound(vector) < 4096 / 4 * 4096       # the bound by the step alone


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_lemma_2_rounding_is_dithering_without_subtraction(levels):
    """The same symbols with the same key; the receiver of DQSG subtracts the dither."""
    vector = np.random.default_rng(1).uniform(-1, 1, 1000).astype(np.float32)
    rounding, dithered = (make_codec(name, levels=levels) for name in ("qsgd-linf", "dqsg"))
    for step in range(5):
        key = Key(0, step)
        sent = [codec.encode(vector, key) for codec in (rounding, dithered)]
        assert sent[0][-200:] == sent[1][-200:]
        shift = rounding.decode(sent[0], key) - dithered.decode(sent[1], key)
        unit = np.abs(vector).max() / levels
        assert np.abs(shift).max() <= unit / 2 * (1 + 1e-6)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_lemma_2_variances(levels):
    """Uniform values: 1 / (6 M^2) by stochastic rounding, at most 1 / (4 M^2), and 1 / (12 M^2)
    with the dither subtracted.
    """
    vector = np.linspace(-1, 1, 4801, dtype=np.float32)
    found = [np.mean(errors(make_codec(name, levels=levels), vector, 300)**2, axis=0)
             for name in ("qsgd-linf", "dqsg")]
    assert found[0].mean() == pytest.approx(1 / (6 * levels**2), rel=0.01)
    places = np.abs(vector) * levels % 1
    assert found[0][np.abs(places - 0.5) < 0.02].mean() == pytest.approx(1 / (4 * levels**2),
                                                                        rel=0.02)
    assert found[1].mean() == pytest.approx(1 / (12 * levels**2), rel=0.01)
    assert found[1][np.abs(places - 0.5) < 0.02].mean() == pytest.approx(1 / (12 * levels**2),
                                                                        rel=0.05)


@pytest.mark.parametrize("kind", ["normal", "sparse", "equal"])
@pytest.mark.parametrize("levels", [1, 2])
def test_lemma_3_is_an_equality(levels, kind):
    """E|g' - g|^2 = n (|g|inf / M)^2 / 12, whatever the values are."""
    vector = np.random.default_rng(2).normal(size=3000).astype(np.float32)
    if kind == "sparse":
        vector[10:] = 0
    if kind == "equal":
        vector[:] = 0.7
    codec = make_codec("dqsg", levels=levels)
    expected = 3000 * (np.abs(vector).max() / levels)**2 / 12
    assert codec.expected_error(vector) == pytest.approx(expected)
    assert codec.variance_bound(vector) == pytest.approx(expected)
    assert np.mean(np.sum(errors(codec, vector, 100)**2, axis=1)) == pytest.approx(expected,
                                                                                   rel=0.01)
