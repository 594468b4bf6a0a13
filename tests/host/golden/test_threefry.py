"""Threefry-2x32-20: the published vectors, and the shapes of what it returns."""

import warnings

import numpy as np
import pytest

from bitstep.golden.threefry import threefry, threefry_of_one

ONES = 0xFFFF_FFFF


@pytest.mark.parametrize("key, counter, words", [   # kat_vectors of Random123
    ((0, 0), (0, 0), (0x6B20_0159, 0x99BA_4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB9_96FC, 0xBB00_2BE7)),
    ((0x1319_8A2E, 0x0370_7344), (0x243F_6A88, 0x85A3_08D3), (0xC492_3A9C, 0x483D_F7A0)),
])
def test_published_vectors(key, counter, words):
    assert tuple(int(word) for word in threefry(key, counter)) == words
    assert threefry_of_one(key, counter) == words
    # Of an array of counters, each has the words that it has alone.
    array = tuple(np.array([[0, word, 1]], np.uint32) for word in counter)
    assert tuple(int(word[0, 1]) for word in threefry(key, array)) == words


@pytest.mark.parametrize("counter, shape", [
    ((0, 0), ()), ((np.arange(5), 0), (5,)), ((0, np.arange(3)), (3,)),
    ((np.arange(4)[:, None], np.arange(3)), (4, 3)), ((np.arange(0), 0), (0,)),
    (([1, 2], [3, 4]), (2,))])
def test_counters_broadcast(counter, shape):
    words = threefry((1, 2), counter)
    assert [word.shape for word in words] == [shape] * 2
    assert [word.dtype for word in words] == [np.uint32] * 2
    for index in np.ndindex(shape):
        alone = tuple(int(np.broadcast_to(part, shape)[index]) for part in counter)
        assert [word[index] for word in words] == list(threefry((1, 2), alone))


def test_the_words_of_one_are_those_of_arrays():
    rng = np.random.default_rng(0)
    for numbers in rng.choice([0, 1, 1 << 31, ONES, *rng.integers(1 << 32, size=20)], (200, 4)):
        a, b, c, d = map(int, numbers)
        assert threefry_of_one((a, b), (c, d)) == tuple(map(int, threefry((a, b), (c, d))))


def test_inputs_are_not_changed():
    counter = np.arange(4, dtype=np.uint32)
    threefry((3, 4), (counter, counter))
    assert counter.tolist() == [0, 1, 2, 3]


def test_every_word_of_key_and_counter_counts():
    """A changed bit changes half of the 64 bits, within 5 standard deviations."""
    start = [5, 6, 7, 8]
    before = np.array(threefry((5, 6), (7, 8)), np.uint32)
    for position in range(4):
        for bit in (0, 13, 31):
            a, b, c, d = (word ^ (1 << bit) * (place == position)
                          for place, word in enumerate(start))
            after = np.array(threefry((a, b), (c, d)), np.uint32)
            flipped = np.unpackbits((before ^ after).view(np.uint8)).sum()
            assert abs(int(flipped) - 32) <= 20


def test_sums_overflow_without_a_warning():
    """Scalars warn of an overflow where arrays do not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for counter in ((ONES, ONES), ([ONES], [ONES]), (np.uint32(ONES), np.uint32(ONES))):
            threefry((ONES, ONES), counter)
