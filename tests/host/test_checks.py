"""Checks of parameters."""

import numpy as np
import pytest

from bitstep.checks import check_bool, is_integer


@pytest.mark.parametrize("value", [0, 5, np.int8(5), np.uint64(3), 1 << 70])
def test_integers(value):
    assert is_integer(value)
    assert is_integer(value, 0)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float32(1), "1", None, np.array([1])])
def test_what_is_no_integer(value):
    assert not is_integer(value)


def test_limits():
    assert [is_integer(value, 1, 3) for value in range(5)] == [False, True, True, True, False]


def test_flags():
    for value in (True, False, np.True_):
        check_bool("zero", value)
    for value in (0, 1, "no", None):
        with pytest.raises(ValueError, match=f"zero must be True or False, not {value!r}"):
            check_bool("zero", value)
