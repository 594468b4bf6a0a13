"""Kinds of options: what they read and hold, and how messages say it."""

import argparse

import numpy as np
import pytest

from bitstep.options.table import OPTIONS, weights_of
from bitstep.options.types import Integer
from bitstep.options.words import PYTHON


@pytest.mark.parametrize("text, weights", [
    ("no=1,yes=5", {"no": 1, "yes": 5}), ("-1=.5, 1=2", {"-1": 0.5, "1": 2}),
    ("Smith, John=2,b=1", {"Smith, John": 2, "b": 1}), ("a=b=3", {"a=b": 3}),
    ("rest=0,x=1", {"rest": 0, "x": 1})])
def test_weights_of_classes(text, weights):
    assert weights_of(text) == weights


@pytest.mark.parametrize("text", ["no", "no=1,no=2", "no=1, no=2", "=1", "no=1,yes", "no=-1",
                                  "no=few", ""])
def test_texts_that_are_no_weights(text):
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        weights_of(text)


def test_ends_of_a_range():
    share = OPTIONS["validation_fraction"].kind
    share.check("share", np.nextafter(1, 0))
    for value in (0.0, 1.0):
        with pytest.raises(ValueError, match="share must be a number between 0 and 1, not "):
            share.check("share", value)
    with pytest.raises(ValueError, match=r"rows must be an integer from 1 to 2\*\*32 - 1, not 0"):
        Integer(1, (1 << 32) - 1).check("rows", 0)


def test_values_are_said_as_they_are_written():
    assert PYTHON.say("planes", np.int64(4)) == PYTHON.say("planes", "4") == "planes=4"
    assert PYTHON.say("planes", [4, 8]) == "planes=[4, 8]"
