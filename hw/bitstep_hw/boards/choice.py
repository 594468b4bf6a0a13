"""A pipeline as a command line names it: ``bits=4,lookahead=1``."""

import dataclasses
from typing import Any

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, BIT_PLANES


def parse_config(text: str, *, bit_planes: bool = False) -> PipelineConfig:
    """Return the configuration that ``field=value,...`` stands for.

    Fields that are not given have their defaults. ``lookahead=auto``, the default, is the
    look-ahead with which rows of any length never wait.

    Parameters
    ----------
    text : str
    bit_planes : bool
        True: row format and bits are those of bit-plane rows unless they are given.

    Raises
    ------
    ValueError
        If there is no such field, its value is out of range, or it is given twice.
    """
    fields = {field.name: field.default for field in dataclasses.fields(PipelineConfig)}
    choices: dict[str, Any] = {"lookahead": "auto"}
    if bit_planes:
        choices |= {"row_format": BIT_PLANES, "bits": BIT_PLANE_BITS}
    given: set[str] = set()
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"A configuration must be field=value,..., such as bits=4, not "
                             f"{text!r}; fields are: {', '.join(fields)}")
        if name not in fields:
            raise ValueError(f"{name!r} is no field of a configuration; fields are: "
                             f"{', '.join(fields)}")
        if name in given:           # one of the two would be built, and nobody told which
            raise ValueError(f"{name} must be given once, not twice in {text!r}; leave one out")
        given.add(name)
        choices[name] = _value(name, value, fields[name])
    automatic = choices["lookahead"] == "auto"
    # What a batch may look ahead depends on the look-ahead, so it is chosen after that.
    ahead = choices.pop("batch_lookahead", 0)
    config = PipelineConfig(**{**choices, "lookahead": 0} if automatic else choices)
    config = config.with_lookahead() if automatic and not config.refetch else config
    return dataclasses.replace(config, batch_lookahead=ahead)


def _value(name, text, default):
    if name == "lookahead" and text == "auto":
        return text
    if isinstance(default, bool):
        if text not in ("True", "False"):
            raise ValueError(f"{name} must be True or False, not {text!r}")
        return text == "True"
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{name} must be an integer, not {text!r}") from None
    return text
