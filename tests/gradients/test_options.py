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


OTHER = {"levels": 6, "bits": 5, "bucket_size": 64, "samples": 7, "ratio": 4, "share": 0.25,
         "alpha": 0.5, "p": 0.4, "clip": 1.5, "unbiased": False, "zero": True, "symmetric": False,
         "norm": "linf", "per": "tensor"}


def test_text_has_every_option():
    """Ranks compare texts, and a state is refused by them, so no option may be left out."""
    for name in list_codecs():
        for option in set(options_of(name)) - {"payload"}:
            value = OTHER[option]
            if name == "nuqsgd":        # whose levels have 0 by default
                value = {"zero": False, "levels": 5}.get(option, value)
            found = repr(make_codec(name, **{option: value}))
            assert found != repr(make_codec(name)), (name, option)
    dqsg = make_codec("dqsg")
    assert repr(ErrorFeedback(dqsg, weight=0.5)) != repr(ErrorFeedback(dqsg))


def test_wrong_types_around_codecs():
    for value in WRONG["weight"]:
        with pytest.raises(ValueError, match=r"^weight must be"):
            ErrorFeedback(make_codec("dqsg"), weight=value)
    for value in CHOICE:
        with pytest.raises(ValueError, match=r"^name must be one of"):
            make_codec(value)
