"""Dither of the updates: values by hand, exact means, and the statistics of its bits."""

from fractions import Fraction

import numpy as np
import pytest

from bitstep.golden.dither import dithers, epoch_key, epoch_keys, round_dithered

# Key 0: block 0 is the published vector 6b200159 99ba4efe of Threefry.
FIRST = [0x0159, 0x6B20, 0x4EFE, 0x99BA]


def test_rows_take_halves_of_words():
    assert dithers(0, 4).tolist() == FIRST
    for n_rows in (0, 1, 2, 3):
        assert dithers(0, n_rows).tolist() == FIRST[:n_rows]
    long = dithers(0, 1001)
    assert long.dtype == np.int64
    assert long.shape == (1001,)
    for n_rows in (4, 5, 998):
        assert dithers(0, n_rows).tolist() == long[:n_rows].tolist()


def test_key_matters():
    assert len({tuple(dithers(key, 8).tolist()) for key in (0, 1, 2, 1 << 31, 0xFFFF_FFFF)}) == 5


@pytest.mark.parametrize("value, shift, dither, rounded", [
    # 1 / 256 goes up for the last 256 of the 65,536 dithers.
    (1, 8, 0xFEFF, 0), (1, 8, 0xFF00, 1), (1, 8, 0, 0), (1, 8, 0xFFFF, 1),
    (-1, 8, 0x00FF, -1), (-1, 8, 0x0100, 0), (-255, 8, 0xFEFF, -1), (-255, 8, 0xFF00, 0),
    (128, 8, 0x7FFF, 0), (128, 8, 0x8000, 1), (-128, 8, 0x7FFF, -1), (-128, 8, 0x8000, 0),
    # Whole numbers stay, whatever the dither.
    (0, 8, 0, 0), (0, 8, 0xFFFF, 0), (-256, 8, 0, -1), (-256, 8, 0xFFFF, -1),
    (1 << 56, 56, 0xFFFF, 1), (1 << 56, 56, 0, 1), (-1 << 56, 56, 0xFFFF, -1),
    # Sixteen bits: one dither a fraction.
    (1, 16, 0xFFFE, 0), (1, 16, 0xFFFF, 1), (3, 16, 0xFFFC, 0), (3, 16, 0xFFFD, 1),
    (-1, 16, 0, -1), (-1, 16, 1, 0),
    # Beyond, each dither stands for the middle of 2**-16: half of it at the ends.
    ((1 << 7) - 1, 24, 0xFFFF, 0), (1 << 7, 24, 0xFFFF, 1), ((1 << 23) - 1, 24, 0x8000, 1),
    ((1 << 23) - 128, 24, 0x8000, 1), ((1 << 23) - 129, 24, 0x8000, 0),
    ((1 << 24) - 129, 24, 0, 0), ((1 << 24) - 128, 24, 0, 1),
    (1 << 39, 56, 0xFFFF, 1), ((1 << 39) - 1, 56, 0xFFFF, 0),
])
def test_round_dithered(value, shift, dither, rounded):
    assert round_dithered(value, shift, dither) == rounded


@pytest.mark.covering(1)
@pytest.mark.parametrize("shift", [1, 2, 8, 16, 24, 32, 40, 48, 56])
@pytest.mark.parametrize("seed", range(3))
def test_mean_over_all_dithers(shift, seed):
    """Exactly the value up to 16 bits, else within 2**-17; the results are its neighbours."""
    rng = np.random.default_rng(seed)
    values = [0, 1, -1, (1 << shift - 1), -1 << shift - 1, (1 << shift) - 1, 1 - (1 << shift),
              *(rng.integers(-1 << shift, 1 << shift, 2) * (1 if shift > 50 else 37)).tolist()]
    largest = Fraction(0)
    for value in values:
        found = np.array([round_dithered(value, shift, dither) for dither in range(1 << 16)])
        exact = Fraction(value, 1 << shift)
        assert set(found.tolist()) <= {exact.__floor__(), exact.__ceil__()}
        assert (np.diff(found) >= 0).all()
        error = Fraction(int(found.sum()), 1 << 16) - exact
        largest = max(largest, abs(error))
    assert largest == 0 if shift <= 16 else largest <= Fraction(1, 1 << 17)


# The statistics of the bits. Seeds are fixed; each bound is one that chance passes in 1 of 10,000
# cases or fewer.

KEYS = [0, 1, 0x8000_0000, epoch_key(7, 3)]
N_ROWS = 1 << 18


def chi_square(bytes_):
    """Chi-square of how often each byte occurs against equal counts, as its distance from the mean
    in standard deviations.
    """
    counts = np.bincount(bytes_.astype(np.intp), minlength=256)     # 32-bit machines: no int64
    expected = counts.sum() / counts.size
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / (2 * freedom) ** 0.5


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("low", [0, 8])
def test_uniform(key, low):
    """All 256 values of either byte, at each of the four places in a block."""
    values = dithers(key, N_ROWS).reshape(-1, 4) >> low & 0xFF
    for place in range(4):
        assert abs(chi_square(values[:, place])) < 4.5


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("apart", [1, 2, 3, 4, 8])
def test_neighbours_are_independent(key, apart):
    """Pairs of the top 4 bits of rows some rows apart, by the place of the first in its block."""
    top = dithers(key, N_ROWS) >> 12
    pairs = top[:-apart] * 16 + top[apart:]
    for place in range(4):
        assert abs(chi_square(pairs[place::4])) < 4.5
    centred = (dithers(key, N_ROWS) - 32767.5) / 65536 * 12 ** 0.5
    assert abs(np.mean(centred[:-apart] * centred[apart:])) < 4 / N_ROWS ** 0.5


def test_epochs_are_independent():
    """Pairs of the same row's bits in two epochs, and of two seeds."""
    keys = [epoch_key(0, 0), epoch_key(0, 1), epoch_key(0, 2), epoch_key(1, 0)]
    for first, second in zip(keys, [*keys[1:], keys[0]], strict=True):
        pairs = (dithers(first, N_ROWS) >> 12) * 16 + (dithers(second, N_ROWS) >> 12)
        assert abs(chi_square(pairs)) < 4.5


def test_epoch_keys_differ():
    """Of 100 seeds and 100 epochs no two keys are equal: chance has 1 in 86 against it."""
    keys = {key for seed in range(100) for key in epoch_keys(seed, 0, 100)}
    assert len(keys) == 10_000
    assert all(0 <= key < 1 << 32 for key in keys)
    assert isinstance(epoch_key(0xFFFF_FFFF, 0xFFFF_FFFF), int)
    assert epoch_keys(7, 3, 5) == [epoch_key(7, epoch) for epoch in range(3, 8)]


@pytest.mark.parametrize("seed, epoch, key", [
    (0, 0, 0x1E3F1835), (1, 0, 0xB5B4A1EE), (0, 1, 0x4233DC34), (7, 3, 0x38E00E3A),
    (0xFFFF_FFFF, 0xFFFF_FFFF, 0xF4B42AF1)])
def test_key_of_an_epoch(seed, epoch, key):
    """First words of Threefry-2x32-20 with key (seed, 1) and counter (epoch, 0), of a program of
    its own that has the published vectors.
    """
    assert epoch_key(seed, epoch) == key


def test_keys_are_no_dithers():
    """The words that are keys belong to another key of the generator than any row's bits."""
    seed = 5
    words = dithers(seed, 4000).reshape(-1, 2)
    halves = set((words[:, 0] | words[:, 1] << 16).tolist())
    assert not halves & set(epoch_keys(seed, 0, 1000))
