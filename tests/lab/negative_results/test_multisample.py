"""Codes of several samples: widths, contents, and that the samples are independent again."""

from itertools import product

import numpy as np
import pytest

from bitstep_lab.negative_results.multisample import code_bits, decode_samples, encode_samples


@pytest.mark.parametrize("levels, samples, bits", [
    (16, 16, 8),        # the paper's 4 + 4 bits: 15 intervals, 17 counts
    (17, 16, 9),        # 16 intervals no longer fit
    (16, 15, 8), (2, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4),
])
def test_bits(levels, samples, bits):
    assert code_bits(levels=levels, samples=samples) == bits


def test_codes_by_hand():
    rng = np.random.default_rng(0)
    # Levels -1, -1/3, 1/3, 1: exact ones need no draw; 1 is the end of the last interval.
    codes = encode_samples(np.array([-1, -1 / 3 + 1e-15, 1, 1.5, -2]), levels=4, samples=5, rng=rng)
    assert codes.tolist() == [0, 6, 17, 17, 0]
    drawn = decode_samples(np.array([[0, 6, 17, 11]]), levels=4, samples=5, rng=rng)
    assert drawn.shape == (5, 1, 4)
    np.testing.assert_allclose(drawn[:, 0], [[-1, -1 / 3, 1, 1 / 3]] * 5)


def test_number_of_samples_that_went_up_is_kept():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 255, (40, 50))
    drawn = decode_samples(codes, levels=16, samples=16, rng=rng)
    low = codes // 17 * (2 / 15) - 1
    np.testing.assert_allclose(((drawn - low) / (2 / 15)).sum(axis=0), codes % 17, atol=1e-9)


def test_samples_are_independent_and_unbiased():
    # On the levels -1, 0, 1 the value 0.3 goes up with probability 0.3. Every pattern
    # of three samples has its probability, within five standard errors (at most 0.004).
    count = 400_000
    rng = np.random.default_rng(2)
    codes = encode_samples(np.full(count, 0.3), levels=3, samples=3, rng=rng)
    ups = decode_samples(codes, levels=3, samples=3, rng=rng).astype(int)
    found = np.bincount(ups[0] + 2 * ups[1] + 4 * ups[2], minlength=8) / count
    for pattern in product((0, 1), repeat=3):
        expected = 0.3 ** sum(pattern) * 0.7 ** (3 - sum(pattern))
        place = pattern[0] + 2 * pattern[1] + 4 * pattern[2]
        error = 5 * np.sqrt(expected * (1 - expected) / count)
        assert found[place] == pytest.approx(expected, abs=error)


def test_values_draw_their_own_arrangements():
    # One up of two in each of two columns: all four combinations are equally likely.
    drawn = decode_samples(np.full((40_000, 2), 1), levels=2, samples=2,
                           rng=np.random.default_rng(3))
    together = np.mean((drawn[0, :, 0] > 0) & (drawn[0, :, 1] > 0))
    assert together == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / 40_000))


@pytest.mark.parametrize("shape, message", [
    ({"levels": 1, "samples": 2}, "levels must be an integer of at least 2, not 1$"),
    ({"levels": 4, "samples": 0}, "samples must be an integer of at least 1, not 0$"),
    ({"levels": 4.0, "samples": 2}, "levels must be an integer of at least 2, not 4.0$"),
])
def test_bad_shape(shape, message):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=message):
        code_bits(**shape)
    with pytest.raises(ValueError, match=message):
        encode_samples(np.zeros(1), rng=rng, **shape)
    with pytest.raises(ValueError, match=message):
        decode_samples(np.zeros(1, int), rng=rng, **shape)


@pytest.mark.parametrize("codes", [[-1, 3], [0, 8]])
def test_bad_codes(codes):
    with pytest.raises(ValueError, match=rf"from 0 to 7, not from {codes[0]} to {codes[1]}$"):
        decode_samples(np.array(codes), levels=3, samples=3, rng=np.random.default_rng(0))


def test_not_finite():
    with pytest.raises(ValueError, match="u must be finite"):
        encode_samples(np.array([np.nan]), levels=3, samples=3, rng=np.random.default_rng(0))
