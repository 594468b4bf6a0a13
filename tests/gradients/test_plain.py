"""Plain floats: the nearest 16-bit number, and the largest one for all beyond."""

import numpy as np
import pytest
from tests.gradients.helpers import CORNERS, check_corner

from bitstep_gradients import BFloat16, Key, make_codec

KEY = Key(11, 3, 1, 4)


@pytest.mark.parametrize("name", ["none", "fp16", "bf16"])
def test_corners(name):
    codec = make_codec(name)
    for vector in CORNERS:
        check_corner(codec, vector)
        values = np.asarray(vector, np.float32)
        error = codec.decode(codec.encode(vector, KEY), KEY) - values
        assert (codec.bias(vector) == error).all()
        assert codec.expected_error(vector) == np.sum(error.astype(np.float64)**2)


@pytest.mark.parametrize("name, values, expected", [
    ("fp16", [65504, 65519, 65520, 1e30, -3e38], [65504, 65504, 65504, 65504, -65504]),
    # Its largest number is (2 - 2^-7) 2^127; from (2 - 2^-8) 2^127 on values would be infinite.
    ("bf16", [(2 - 2**-8) * 2.0**127, -(2 - 2**-23) * 2.0**127],
     [(2 - 2**-7) * 2.0**127, -(2 - 2**-7) * 2.0**127]),
    # A tie is that of the even numbers: 7 bits follow the first in bf16, 10 in fp16.
    ("bf16", [1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-23, 1 + 3 * 2**-8 - 2**-23],
     [1, 1 + 2**-6, -1, 1 + 2**-7, 1 + 2**-7]),
    ("fp16", [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-23], [1, 1 + 2**-9, 1 + 2**-10])])
def test_by_hand(name, values, expected):
    codec = make_codec(name)
    assert codec.decode(codec.encode(np.array(values), KEY), KEY).tolist() == expected


@pytest.mark.parametrize("bits", [np.ones(2), np.ones(2, np.int16), [1], None])
def test_bfloat16_of_values_in_place_of_bits(bits):
    with pytest.raises(TypeError, match=r"bits must be an array of uint16, .*; BFloat16\.rounded"):
        BFloat16(bits)


def test_bfloat16_that_is_given_arrives():
    """All numbers of the type."""
    bits = np.arange(2**16, dtype=np.uint16)
    every = BFloat16(bits[bits & 0x7F80 != 0x7F80])
    codec = make_codec("bf16")
    found = codec.decode(codec.encode(every, KEY), KEY)
    assert (found.view(np.uint32) == every.bits.astype(np.uint32) << 16).all()
