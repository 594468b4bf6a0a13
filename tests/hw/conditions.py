"""A finder of registers that are made inside a condition.

A value that is delayed inside ``m.If`` is not delayed but held: its register moves only while the
condition holds, and keeps what it had when the condition last ended. Amaranth builds it without a
word. A register belongs in front of the condition that it is written in.
"""

import functools
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Fragment
from amaranth.hdl._ast import Assign, Statement

_CONDITIONS = ("If", "Elif", "Else", "Case", "Default", "State")


def _place():
    """Lines that are being carried out, from the statement to the ``elaborate`` around it."""
    frame, lines = sys._getframe(2), []
    while frame is not None:
        code = frame.f_code
        lines.append(f"{Path(code.co_filename).name}:{frame.f_lineno}")
        frame = None if code.co_name == "elaborate" else frame.f_back
    return " < ".join(lines)


class _Finder:
    """What signals were made under, and those that a clocked statement there writes."""

    def __init__(self):
        self.open = {}          # by module: numbers of its open conditions, outermost first
        self.count = 0
        self.made_under = {}    # by id of a signal: the signal, and what was open
        self.found = []

    def condition(self, original):
        """``Module.If`` and its like, which say when they are open."""
        @contextmanager
        @functools.wraps(original)
        def open_condition(module, *arguments):
            with original(module, *arguments) as value:
                stack = self.open.setdefault(id(module), [])
                self.count += 1
                stack.append(self.count)
                try:
                    yield value
                finally:
                    stack.pop()

        return open_condition

    def creation(self, original):
        """``Signal.__init__``, with a note of what is open."""
        @functools.wraps(original)
        def make(signal, *arguments, src_loc_at=0, **options):
            original(signal, *arguments, src_loc_at=src_loc_at + 1, **options)
            conditions = {number for stack in self.open.values() for number in stack}
            if conditions:
                self.made_under[id(signal)] = signal, conditions

        return make

    def addition(self, original):
        """``Module._add_statement``, which looks at what is written."""
        @functools.wraps(original)
        def add(module, assigns, domain, depth):
            stack = self.open.get(id(module), [])
            assigns = list(Statement.cast(assigns))
            for statement in assigns if domain != "comb" else ():
                for target in statement._lhs_signals() if isinstance(statement, Assign) else ():
                    signal, conditions = self.made_under.get(id(target), (None, ()))
                    if signal is not None and not conditions.isdisjoint(stack):
                        self.found.append(f"{_place()}: {signal.name}")
            return original(module, assigns, domain, depth)

        return add


def registers_in_conditions(*components):
    """Elaborate components; "file:line < file:line ...: name" of every register made inside a
    condition in which it is written, with the lines that led there, sorted.
    """
    finder = _Finder()
    with ExitStack() as stack:
        for name in _CONDITIONS:
            stack.enter_context(
                patch.object(Module, name, finder.condition(getattr(Module, name))))
        stack.enter_context(
            patch.object(Signal, "__init__", finder.creation(Signal.__init__)))
        stack.enter_context(
            patch.object(Module, "_add_statement", finder.addition(Module._add_statement)))
        for component in components:
            assert isinstance(component, Elaboratable)
            Fragment.get(component, None)
    return sorted(set(finder.found))
