"""Random words: a function of key, stream and place alone."""

import numpy as np
import pytest

from bitstep.golden.threefry import threefry
from bitstep_gradients import Key


def test_words_by_the_definition():
    key = Key(5, 6, 7, 8)
    inner = threefry((5, 6), (7, 8))
    first, second = threefry((int(inner[0]), int(inner[1])), (np.arange(3), 9))
    expected = [word for pair in zip(first, second, strict=True) for word in pair]
    assert key.words(5, stream=9).tolist() == expected[:5]
    assert key.words(3, stream=9, start=3).tolist() == expected[3:]
    assert key.words(0).size == 0


def test_every_field_counts():
    keys = [Key(1, 2, 3, 4), Key(2, 2, 3, 4), Key(1, 3, 3, 4), Key(1, 2, 4, 4), Key(1, 2, 3, 5),
            Key(1, 2, 3, 4).shared]
    assert len({tuple(key.words(4)) for key in keys}) == len(keys)
    assert Key(1, 2, 3, 4).shared == Key(1, 2, 9, 4).shared


@pytest.mark.parametrize("kind", [np.uint32, np.int64])
def test_numbers_of_numpy(kind):
    numbers = (2**32 - 1, 5, 2**32 - 2, 2**31)
    assert Key(*map(kind, numbers)).words(4).tolist() == Key(*numbers).words(4).tolist()


@pytest.mark.parametrize("field", ["seed", "step", "rank", "tensor"])
@pytest.mark.parametrize("value", [-1, 2**32, 1.5, True])
def test_bad_fields(field, value):
    with pytest.raises(ValueError, match=f"{field} must be an integer from 0"):
        Key(**{"seed": 0, field: value})


@pytest.mark.parametrize("kernels_off", [False, True])
def test_words_end_at_the_last_counter(monkeypatch, kernels_off):
    if kernels_off:
        monkeypatch.setattr("bitstep_gradients.kernels.find_kernels", lambda: None)
    key, last = Key(5, 6, 7, 8), 2**32 - 1
    inner = threefry((5, 6), (7, 8))
    pair = threefry((int(inner[0]), int(inner[1])), (np.uint32(last), np.uint32(last)))
    assert key.words(2, stream=last, start=2**33 - 2).tolist() == [int(word) for word in pair]


@pytest.mark.parametrize("numbers, message", [
    ({"count": 1, "start": 2**33}, "start must be an integer from 0 to 8589934591"),
    ({"count": 2, "start": 2**33 - 1}, "count must be an integer from 0 to 1,"),
    ({"count": -1}, "count must be an integer from 0"),
    ({"count": 1, "start": -1}, "start must be an integer"),
    ({"count": 1, "stream": 2**32}, "stream must be an integer")])
def test_words_that_would_come_twice(numbers, message):
    with pytest.raises(ValueError, match=message):
        Key(1).words(**numbers)
