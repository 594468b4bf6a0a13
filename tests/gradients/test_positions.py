"""Positions of sparse messages: they come back, and the formula is the length."""

from itertools import combinations
from math import comb, lgamma, log, log2

import numpy as np
import pytest

from bitstep_gradients import MessageError
from bitstep_gradients.wire.positions import decode_positions, encode_positions, positions_bits


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9])
def test_every_choice_of_few_values(count):
    for kept in range(count + 1):
        for chosen in combinations(range(count), kept):
            coded = encode_positions(np.array(chosen, np.int64), count)
            assert len(coded) == (positions_bits(kept, count) + 7) // 8
            assert decode_positions(coded, kept, count).tolist() == list(chosen)


@pytest.mark.parametrize("kept", [1, 2, 100, 2666, 60_000, 133_305, 266_609, 266_610])
def test_choices_of_many_values(kept):
    count, rng = 266_610, np.random.default_rng(kept)
    for chosen in (np.sort(rng.choice(count, kept, replace=False)), np.arange(kept),
                   np.arange(count - kept, count)):
        coded = encode_positions(chosen, count)
        assert 0 <= 8 * len(coded) - positions_bits(kept, count) < 8
        assert decode_positions(coded, kept, count).tolist() == chosen.tolist()


def test_forms_by_hand():
    """4 of 16: a split takes 4 (b + 1) + (15 >> b) + 1 bits, at least 16, as the bitmap does.
    3 and 15 of 16 with b = 2: lows 11 and 11, then bits 0 + 0 and 1 + 3 of the rest.
    """
    assert [positions_bits(kept, 16) for kept in (0, 2, 4, 15, 16)] == [0, 10, 16, 16, 0]
    assert encode_positions(np.array([0, 3, 5, 15]), 16) == bytes([0b101001, 0b10000000])
    coded = np.unpackbits(np.frombuffer(encode_positions(np.array([3, 15]), 16), np.uint8),
                          bitorder="little")
    assert coded[:10].tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.2])
def test_bits_near_the_least(share):
    """The split form is within 0.65 bits a position of log2 of the number of choices."""
    count = 100_000
    kept = int(share * count)
    least = sum(log2((count - i) / (kept - i)) for i in range(kept))
    assert least <= positions_bits(kept, count) <= least + 0.65 * kept
    assert log2(comb(100, 10)) <= positions_bits(10, 100)


def test_bits_near_the_least_for_all_shares():
    """As the documentation tells them: few positions take more than many."""
    for count in np.geomspace(1000, 2**33, 50).astype(np.int64).tolist():
        for kept in {1, *np.geomspace(200, count / 5, 50).astype(np.int64).tolist()}:
            least = (lgamma(count + 1) - lgamma(kept + 1) - lgamma(count - kept + 1)) / log(2)
            assert 0 <= positions_bits(kept, count) - least <= (3 if kept == 1 else 0.7 * kept)


@pytest.mark.parametrize("kept, count", [(3, 16), (2, 64), (9, 16)])
def test_changed_bits_are_refused(kept, count):
    """A bit of the bitmap or of the high parts, changed: the number of ones is wrong."""
    coded = bytearray(encode_positions(np.arange(kept), count))
    coded[-1] ^= 1
    with pytest.raises(MessageError, match=f"{kept} rising positions of {count}"):
        decode_positions(bytes(coded), kept, count)


def test_positions_that_fall_or_lie_outside():
    coded = encode_positions(np.array([6, 7]), 64)       # the same high part
    swapped = np.unpackbits(np.frombuffer(coded, np.uint8), bitorder="little")
    low = 5
    swapped[:2 * low] = np.concatenate([swapped[low:2 * low], swapped[:low]])
    with pytest.raises(MessageError, match="rising"):
        decode_positions(np.packbits(swapped, bitorder="little").tobytes(), 2, 64)
    outside = np.array([0b1111111, 0b11], np.uint8).tobytes()   # 1 of 33: low 5 bits and a high 1
    assert positions_bits(1, 33) == 8
    assert decode_positions(encode_positions(np.array([32]), 33), 1, 33).tolist() == [32]
    with pytest.raises(MessageError):
        decode_positions(outside[:1], 1, 33)
    # 5 of 7 as a bitmap of a byte: the last bit is beyond them.
    assert positions_bits(5, 7) == 7
    with pytest.raises(MessageError, match="5 rising positions of 7"):
        decode_positions(bytes([0b10001111]), 5, 7)


def test_positions_that_come_twice():
    """6 and 6 of 64: low bits 0110 twice, and the high parts 0 and 0."""
    bits = np.zeros(16, np.uint8)
    bits[[1, 2, 5, 6, 8, 9]] = 1
    with pytest.raises(MessageError, match="2 rising positions of 64"):
        decode_positions(np.packbits(bits, bitorder="little").tobytes(), 2, 64)
