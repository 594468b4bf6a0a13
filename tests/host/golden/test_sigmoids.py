"""Both sigmoids against docs/number-formats.md: a reference written from its formulas, and values
worked out by hand.
"""

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest

from bitstep.golden.sigmoid import fine_sigmoid, sigmoid


def node(bits, place):
    """round(2^bits s(place)), in decimal numbers of 40 digits."""
    with localcontext() as context:
        context.prec = 40
        exact = Decimal(2) ** bits / (1 + (-Decimal(place)).exp())
        return int(exact.to_integral_value(ROUND_HALF_UP))


COARSE = {k: node(16, k / 4) for k in range(-32, 33)}
FINE = {k: node(24, k / 8) for k in range(-128, 129)}      # ends (even k) and middles


def chord(argument):
    place = min(max(argument, -2**15), 2**15 - 1) + 2**15
    k, w = place // 2**10 - 32, place % 2**10
    return COARSE[k] + ((COARSE[k + 1] - COARSE[k]) * w + 2**9) // 2**10


def parabola(argument):
    place = min(max(argument, -2**20), 2**20 - 1) + 2**20
    k, w = place // 2**14 - 64, place % 2**14
    low, middle, high = FINE[2 * k], FINE[2 * k + 1], FINE[2 * k + 2]
    bow = 4 * middle - 2 * (low + high)
    return low + (w * ((high - low) * 2**14 + bow * (2**14 - w)) + 2**27) // 2**28


def test_every_argument_of_the_chords():
    arguments = range(-2**15 - 3, 2**15 + 3)
    assert list(map(sigmoid, arguments)) == list(map(chord, arguments))


def test_parabolas():
    """Ends of all pieces and their neighbours, and every 37th argument."""
    ends = [end + step for end in range(-2**20, 2**20 + 1, 2**14) for step in (-1, 0, 1)]
    for argument in (*ends, *range(-2**20, 2**20, 37)):
        assert fine_sigmoid(argument) == parabola(argument), argument


@pytest.mark.parametrize("function, argument, value", [
    (sigmoid, 0, 32_768), (sigmoid, 1, 32_772), (sigmoid, 2**10, 36_843),
    (sigmoid, -2**15, 22), (sigmoid, -2**40, 22), (sigmoid, 2**15, 65_514),
    (fine_sigmoid, 0, 8_388_608), (fine_sigmoid, 2**14, 9_431_757),
    (fine_sigmoid, 2**13, 8_912_214), (fine_sigmoid, -2**40, 2)])
def test_values_worked_out_by_hand(function, argument, value):
    assert function(argument) == value
