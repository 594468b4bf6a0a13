"""Checks of parameters."""

import numpy as np
import pytest

from bitstep.checks import (
    check_bool,
    check_choice,
    check_integer,
    check_timeout,
    fits_float,
    is_integer,
    is_number,
)


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


@pytest.mark.parametrize("value", [0, 0.0, 2.5, np.float32(1), np.int8(3), 1 << 1000])
def test_numbers(value):
    assert is_number(value, 0)
    assert fits_float(value)


@pytest.mark.parametrize("value", [-1, True, np.True_, np.nan, np.inf, 1 << 2000, "1", None, 1j,
                                   np.array([1.0])])
def test_what_is_no_number_of_at_least_zero(value):
    assert not is_number(value, 0)
    with pytest.raises(ValueError, match="timeout_s must be a number of seconds, at least 0, not"):
        check_timeout(value)


def test_messages_say_what_must_hold():
    check_integer("n", 3, 1, 3)
    with pytest.raises(ValueError, match="n must be an integer from 1 to 3, not 4"):
        check_integer("n", 4, 1, 3)
    with pytest.raises(ValueError, match="n must be an integer of at least 1, not True"):
        check_integer("n", True, 1)


def test_choices():
    check_choice("n", 1, [1, 16])
    for value in (True, 2, "1", None):      # True is 1, but nobody means it
        with pytest.raises(ValueError, match=f"n must be one of 1, 16, not {value!r}"):
            check_choice("n", value, (one for one in (1, 16)))
