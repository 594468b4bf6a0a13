"""Options of all codecs and controllers: values of a wrong type are errors that name the option."""

import re
from typing import Any

import pytest

from bitstep_gradients import ErrorFeedback, list_codecs, make_codec
from bitstep_gradients.lab.contestants import CONTROLLER_OPTIONS, CONTROLLERS, options_of

INTEGER = ("abc", 2.5, True, [2])
NUMBER = ("abc", True, [0.5])
FLAG = ("no", "a", 1, None)
CHOICE: tuple[Any, ...] = (3, True, ["l2"])
WRONG = {       # None is wrong where it does not say that an option is not given
    "levels": INTEGER, "bits": INTEGER, "bucket_size": (*INTEGER, None),
    "samples": (*INTEGER, None), "ratio": (*INTEGER, None), "steps": (*INTEGER, None),
    "norm_steps": (*INTEGER, None), "interval": (*INTEGER, None), "first_bits": (*INTEGER, None),
    "share": (*NUMBER, None), "alpha": (*NUMBER, None), "p": (*NUMBER, None), "clip": NUMBER,
    "error": NUMBER, "like_bits": NUMBER, "mean_bits": NUMBER, "fall": (*NUMBER, None),
    "memory": (*NUMBER, None), "weight": (*NUMBER, None),
    "unbiased": FLAG, "zero": FLAG, "symmetric": FLAG, "plan": FLAG,
    "payload": CHOICE, "norm": (*CHOICE, None), "per": (*CHOICE, None)}
CASES = [(name, option) for name in list_codecs() for option in options_of(name)] \
    + [(name, option) for name, options in CONTROLLER_OPTIONS.items() for option in options] \
    + [("dq-sgd", "steps")]


def make(name, **options):
    """A codec, or a controller around one; DQ-SGD with what it needs."""
    if name not in CONTROLLERS:
        return make_codec(name, **options)
    if name == "dq-sgd":
        budget = {} if set(options) & {"error", "like_bits", "mean_bits"} else {"like_bits": 4}
        options = {"steps": 20, "alpha": 0.9, **budget, **options}
    return CONTROLLERS[name](make_codec("dqsg"), **options)


@pytest.mark.parametrize("option", sorted({option for _, option in CASES}))
def test_wrong_types(option):
    for name in (name for name, other in CASES if other == option):
        for value in WRONG[option]:
            with pytest.raises(ValueError, match=rf"^{option} must.*{re.escape(repr(value))}$"):
                make(name, **{option: value})


def test_wrong_types_around_codecs():
    for value in WRONG["weight"]:
        with pytest.raises(ValueError, match=r"^weight must be"):
            ErrorFeedback(make_codec("dqsg"), weight=value)
    for value in CHOICE:
        with pytest.raises(ValueError, match=r"^name must be one of"):
            make_codec(value)
