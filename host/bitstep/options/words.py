"""Options in messages, in the words of where the user stands: parameters or a command's options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.options.models import MODELS
from bitstep.options.table import OPTIONS


@dataclass(frozen=True)
class Words:
    """Words of an interface.

    Parameters
    ----------
    say : callable
        Text of an option, by its name, with a value, or None for the option alone.
    """

    say: Callable[[str, Any], str]

    def fill(self, text: str) -> str:
        """A text in which ``{batch=1}`` and ``{l2}`` are options, with and without a value."""
        parts = text.split("{")
        for number, part in enumerate(parts[1:], start=1):
            inner, _, rest = part.partition("}")
            name, _, value = inner.partition("=")
            known = {"": None, "True": True, "False": False}.get(value, value)
            parts[number] = self.say(name, known) + rest
        return "".join(parts)


def _in_options(name: str, value: Any) -> str:
    """An option as it is typed."""
    flag = OPTIONS[name].flag
    if name == "sweep":
        return flag
    if value is False:
        return f"--no-{flag[2:]}"
    if value is None or value is True:
        return flag
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    return f"{flag} {f'{value:g}' if isinstance(value, float) else value}"


def _in_python(name: str, value: Any) -> str:
    """A parameter with its value."""
    if name == "sweep":
        return "LowPrecisionSearchCV or fit_candidates"
    if name == "model" and value is not None:
        value = MODELS[value].sklearn_loss
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, np.generic):
        value = value.item()
    python = OPTIONS[name].python or name
    return python if value is None else f"{python}={value!r}"


COMMAND_LINE = Words(_in_options)
PYTHON = Words(_in_python)
