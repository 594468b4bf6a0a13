"""Codecs that take part in a race, as they are written: ``dqsg:bits=3,bucket_size=512``."""

from dataclasses import dataclass
from typing import Any

from bitstep_gradients import AdaQs, Codec, DqSgd, ErrorFeedback, OlandRaj, list_codecs, make_codec
from bitstep_gradients.control.controller import BitController
from bitstep_gradients.registry import CODECS, option_names

FEEDBACK = "feedback"           # option of every contestant: the weight of error feedback
CONTROLLERS: dict[str, type[BitController]] = {
    "dq-sgd": DqSgd, "oland-raj": OlandRaj, "adaqs": AdaQs}
CONTROLLER_OPTIONS = {
    "dq-sgd": ("alpha", "error", "like_bits", "mean_bits", "norm_steps", "plan", "interval",
               "first_bits"),
    "oland-raj": ("interval", "first_bits"),
    "adaqs": ("interval", "first_bits", "fall", "memory")}
BASE = "qsgd-linf"              # the codec inside a controller, unless "codec" names another


class ContestantError(ValueError):
    """A codec that cannot take part, as it was written."""


@dataclass(frozen=True)
class Contestant:
    """A codec of a race, or a controller of bits around one.

    Parameters
    ----------
    text : str
        Name in tables, as it was written.
    name : str
        Of :func:`bitstep_gradients.list_codecs` or :data:`CONTROLLERS`.
    options : tuple of (str, value)
        Of the codec, and of the controller.
    feedback : float or None
        Weight of error feedback; None: there is none.
    """

    text: str
    name: str
    options: tuple[tuple[str, Any], ...] = ()
    feedback: float | None = None

    def make(self, n_steps: int) -> Codec:
        """Make the codec, without error feedback.

        Parameters
        ----------
        n_steps : int
            Steps of the training, which a controller plans for.
        """
        options = dict(self.options)
        if self.name not in CONTROLLERS:
            return make_codec(self.name, **options)
        for name in ("bits", "levels"):
            if name in options:
                raise ValueError(f"{self.name} chooses {name} itself, at every step; leave {name} "
                                 "away")
        own = {name: options.pop(name) for name in CONTROLLER_OPTIONS[self.name] if name in options}
        own.setdefault("interval", 10)
        if self.name == "dq-sgd":
            own = {"steps": n_steps, "alpha": 0.99, **own}
            if not {"error", "like_bits", "mean_bits"} & set(own):
                own["like_bits"] = 4
        codec = make_codec(options.pop("codec", BASE), **options)
        return CONTROLLERS[self.name](codec, **own)

    def with_feedback(self, weight: float) -> "Contestant":
        """The same with error feedback, unless it sends every value as it is or has its own."""
        if self.name == "none" or self.feedback is not None:
            return self
        text = f"{self.text}{',' if ':' in self.text else ':'}{FEEDBACK}={weight:g}"
        return Contestant(text, self.name, self.options, weight)


def parse_contestant(text: str) -> Contestant:
    """Read a codec and its options.

    Parameters
    ----------
    text : str
        ``NAME`` or ``NAME:OPTION=VALUE,...``. Values are integers, numbers, true, false, none or
        texts.

    Returns
    -------
    contestant : Contestant

    Raises
    ------
    ContestantError
        For a codec, an option or a value that there is not.
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        option, equals, value = part.partition("=")
        if not equals or not option or not value:
            raise ContestantError(f"options of a codec must be OPTION=VALUE with commas between "
                                  f"them, not {part!r} in {text!r}")
        if option in options:
            raise ContestantError(f"{text!r} gives {option} twice; give it once")
        options[option] = _value(value)
    feedback = options.pop(FEEDBACK, None)
    if feedback is True:
        feedback = 1.0
    if feedback is not None and (isinstance(feedback, (bool, str)) or not 0 < feedback <= 1):
        raise ContestantError(f"{FEEDBACK} must be a number above 0 and at most 1, not "
                              f"{feedback!r} in {text!r}")
    found = Contestant(text, name, tuple(options.items()),
                       None if feedback is None else float(feedback))
    if name not in CONTROLLERS and name not in list_codecs():
        raise ContestantError(f"there is no codec {name!r}; there are "
                              f"{', '.join((*list_codecs(), *CONTROLLERS))}")
    try:
        codec = found.make(n_steps=1000)
        if feedback is not None:
            ErrorFeedback(codec, weight=float(feedback))
    except (ValueError, TypeError) as error:
        raise ContestantError(f"{text}: {error}") from error
    return found


def options_of(name: str) -> list[str]:
    """Names of the options that a contestant of a name takes, but for error feedback."""
    if name in CONTROLLERS:
        return ["codec", *CONTROLLER_OPTIONS[name]]
    return option_names(CODECS[name])


def _value(text: str) -> Any:
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


_UNIFORM = "bucket_size=512,payload=radix"
_FITTED = "bits=3,bucket_size=512,payload=huffman"
FIELD = {       # options in a race of all: they suit large tensors
    "qsgd": "bits=4,bucket_size=512", "qsgd-linf": "bits=4,bucket_size=512",
    "terngrad": _UNIFORM, "dqsg": _UNIFORM, "ndqsg": _UNIFORM, "nuqsgd": _FITTED,
    "alq": _FITTED, "alq-n": _FITTED, "amq": _FITTED, "amq-n": _FITTED, "alq-gd": _FITTED,
    "alq-n-gd": _FITTED, "alq-linf": _FITTED, "optimal": "bits=3,bucket_size=2048",
    "qcs": "payload=radix", "qcs-mmse": "payload=radix,feedback=1", "one-bit": "feedback=1",
    "sign": "feedback=1", "top-k": "share=0.01,feedback=1",
    "random-k": "share=0.05,unbiased=false,feedback=1", "dq-sgd": "bucket_size=512",
    "oland-raj": "bucket_size=512", "adaqs": "bucket_size=512"}


def whole_field() -> list[Contestant]:
    """A contestant of every codec and controller, with options of :data:`FIELD`."""
    return [parse_contestant(f"{name}:{FIELD[name]}" if name in FIELD else name)
            for name in (*list_codecs(), *CONTROLLERS)]
