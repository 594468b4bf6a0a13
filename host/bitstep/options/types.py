"""Types of options: which values there are, in an argument's text and in Python."""

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bitstep.checks import fits_float


@dataclass(frozen=True, eq=False)
class Type:
    """A type of option; argparse calls it with an argument's text.

    Parameters
    ----------
    others : dict of str by value
        Values that are allowed besides, and phrases of them for messages.
    """

    others: Mapping[Any, str] = field(default_factory=dict, kw_only=True)

    @property
    def text(self) -> str:
        """Values that there are, for messages: ``an integer from 1 to 8``."""
        return ", or ".join([self._range, *filter(None, self.others.values())])

    def __call__(self, text: str) -> Any:
        """The value of an argument's text."""
        for other in self.others:
            if text == str(other):
                return other
        try:
            value = self._read(text)
        except ValueError:
            value = None
        if value is None or not self._holds(value):
            raise argparse.ArgumentTypeError(f"must be {self.text}, not {text!r}")
        return value

    def check(self, name: str, value: Any, also: str = "") -> None:
        """Raise ValueError unless a parameter has such a value; ``also`` names another one."""
        if not self.holds(value):
            raise ValueError(f"{name} must be {self.text}{also}, not {value!r}")

    def holds(self, value: Any) -> bool:
        """True for a value of the type."""
        if isinstance(value, (bool, np.bool_)):
            return False
        return self._holds(value) or (
            isinstance(value, (str, int, np.integer)) and value in self.others)

    @property
    def _range(self) -> str:
        raise NotImplementedError

    def _read(self, text: str) -> Any:
        raise NotImplementedError

    def _holds(self, value: Any) -> bool:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Integer(Type):
    """Integers from ``low`` to ``high`` (None: without end)."""

    low: int
    high: int | None = None

    @property
    def _range(self):
        limits = f"of at least {self.low}" if self.high is None else f"from {self.low} to " + (
            "2**32 - 1" if self.high == (1 << 32) - 1 else str(self.high))
        return f"an integer {limits}"

    def _read(self, text):
        return int(text)

    def _holds(self, value):
        return isinstance(value, (int, np.integer)) and self.low <= value \
            and (self.high is None or value <= self.high)


@dataclass(frozen=True, eq=False)
class Number(Type):
    """Finite numbers above ``low``, or also ``low`` itself, and below ``high``; those between
    ``low`` and ``least`` are too small to compute with.
    """

    low: float
    above: bool = True
    high: float = math.inf
    least: float = -math.inf

    @property
    def _range(self):
        if self.high < math.inf:
            return f"a number between {self.low:g} and {self.high:g}"
        if self.least > self.low:
            return f"{self.low:g}, or a number of at least {self.least:g}"
        return f"a number {'above' if self.above else 'of at least'} {self.low:g}"

    def _read(self, text):
        return float(text)

    def _holds(self, value):
        return isinstance(value, (int, float, np.integer, np.floating)) \
            and fits_float(value) and self.low <= value < self.high \
            and not (self.above and value == self.low) \
            and (value == self.low or value >= self.least)


@dataclass(frozen=True, eq=False)
class Choice(Type):
    """Names, of which one is chosen."""

    names: tuple[Any, ...]

    @property
    def _range(self):
        return f"one of {', '.join(map(repr, self.names))}"

    def _read(self, text):
        return text

    def _holds(self, value):
        return isinstance(value, (str, int, np.integer)) and value in self.names


@dataclass(frozen=True, eq=False)
class Switch(Type):
    """Yes or no; ``lone`` if the command line cannot say no."""

    lone: bool = False

    @property
    def text(self):
        """Values that there are."""
        return ", or ".join(["True or False", *filter(None, self.others.values())])

    def holds(self, value):
        """True for a value of the type."""
        return isinstance(value, (bool, np.bool_)) or (
            isinstance(value, str) and value in self.others)


@dataclass(frozen=True, eq=False)
class Text(Type):
    """Texts of a form that a function reads.

    Parameters
    ----------
    read : callable
        The value of a text; raises :class:`argparse.ArgumentTypeError` for others.
    """

    read: Callable[[str], Any] = str

    def __call__(self, text):
        """The value of an argument's text."""
        return self.read(text)

    def holds(self, value):
        """True, since other code reads such values in Python."""
        return True


def or_auto(kind: Type) -> Type:
    """The values of a type, and ``auto``."""
    return replace(kind, others={**kind.others, "auto": "auto"})
