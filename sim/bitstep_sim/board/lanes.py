"""Loops over lanes in the C++ that Verilator writes.

Verilator writes a variable and its statements once for each lane: hundreds of lines that differ in
numbers. Here variables whose names differ in their last number become an array, and successive
statements whose numbers grow evenly become a loop. The compiler then has little to read, and makes
vectors of the loops. Whatever does not have this form stays as it is.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

LEAST_LANES = 8         # variables of an array
LEAST_TURNS = 4         # statements of a loop

# `$` is written as __024: what follows it is a number of its own.
_MEMBER = re.compile(r" +([CSIQ]Data/\*\d+:0\*/) (\w*?(?:__024|\D))(0|[1-9]\d*);")
_USE = re.compile(r"\b(vlSelf(?:Ref\.|->))(\w*\d)\b")
_FUNCTION = re.compile(r"(?:VL_\w+ )?(?:void|bool) \w+\(.*\bvlSelf\) \{")
_NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-f]+|\d+)(U|ULL)?\b")
_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_STORE = re.compile(r"vlSelfRef\.(\w+)((?:\[[^=]*)?)\[(0x[0-9a-f]+|\d+)U?\] = (.*);")
_START = ("vlSelfRef.", "vlSelf->", "if (")


@dataclass(frozen=True)
class _Array:
    """Variables ``base + number`` of one type, as (number, line of the header) in order."""

    name: str
    base: str
    type: str
    members: list[tuple[int, int]]


def roll(folder: Path, prefix: str) -> int:
    """Write the lanes of a verilated model as loops, in its C++ files.

    Parameters
    ----------
    folder : Path
        Verilator's output.
    prefix : str
        Its option ``--prefix``.

    Returns
    -------
    int
        Statements that are in loops now.
    """
    header = folder / f"{prefix}___024root.h"
    lines = header.read_text().split("\n")
    others = "".join(path.read_text() for path in sorted(folder.glob(f"{prefix}*.cpp"))
                     if "___024root__" not in path.name)
    elements = {}
    for array in _arrays(lines, set(re.findall(r"\w+", others))):
        for index, (number, line) in enumerate(array.members):
            lines[line] = ""
            elements[f"{array.base}{number}"] = f"{array.name}[{index}]"
        lines[array.members[0][1]] = f"{array.type} {array.name}[{len(array.members)}];"
    header.write_text("\n".join(lines))
    rolled = 0
    for path in sorted(folder.glob(f"{prefix}___024root__*.cpp")):
        text = _USE.sub(lambda use: use[1] + elements.get(use[2], use[2]), path.read_text())
        roller = _Roller()
        path.write_text("\n".join(roller.file(text.split("\n"))))
        rolled += roller.rolled
    return rolled


def _arrays(header: list[str], taken: set[str]) -> list[_Array]:
    """Arrays that the variables of a header can be, none of which is used elsewhere by name."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for line, text in enumerate(header):
        member = _MEMBER.fullmatch(text)
        if member and f"{member[2]}{member[3]}" not in taken:
            found[member[2], member[1]].append((int(member[3]), line))
    return [_Array(f"{base}of_{number}", base, kind, sorted(members))
            for number, ((base, kind), members) in enumerate(found.items())
            if len(members) >= LEAST_LANES]


class _Roller:
    """Rolls the functions of a file; ``rolled`` counts statements."""

    def __init__(self):
        self.rolled = 0

    def file(self, lines: list[str]) -> list[str]:
        """Lines of a file, with loops."""
        result, at = [], 0
        while at < len(lines):
            result.append(lines[at])
            at += 1
            if _FUNCTION.fullmatch(lines[at - 1]):
                end = lines.index("}", at)
                texts, stopped = self._units(lines[at:end], 0, 0)
                assert stopped == end - at, "a brace without its pair"
                result += texts
                at = end
        return result

    def _units(self, lines: list[str], at: int, depth: int) -> tuple[list[str], int]:
        """Statements from a line to the end of their block, and the line after them. A block within
        is one unit with what stands before it.
        """
        units, words = [], []
        while at < len(lines):
            text = lines[at].strip()
            if not words and text.startswith("}"):
                break
            at += 1
            if text.startswith("#"):
                units.append(text)
                continue
            if '"' not in text:
                text = text.split("//")[0].rstrip()
            words += [text] if text else []
            if text.endswith(";"):
                units.append(" ".join(words))
                words = []
            elif text.endswith("{"):
                block, at = self._block(lines, at, " ".join(words), depth)
                units.append(block)
                words = []
        return self._rolled([*units, *words], depth), at

    def _block(self, lines: list[str], at: int, head: str, depth: int) -> tuple[str, int]:
        """A block with what follows its brace: ``else`` and its block, or a condition."""
        parts = [head]
        while True:
            inner, at = self._units(lines, at, depth + 1)
            tail = ""
            while not tail or (tail != "}" and not tail.endswith((";", "{"))):
                tail = f"{tail} {lines[at].strip()}".strip()
                at += 1
            parts += [*inner, tail]
            if not tail.endswith("{"):
                return "\n".join(parts), at

    def _rolled(self, units: list[str], depth: int) -> list[str]:
        """Units, with loops of those that follow each other and differ in numbers alone."""
        forms = [_form(unit) if unit.startswith(_START) and '"' not in unit else (None, [])
                 for unit in units]
        result, at = [], 0
        while at < len(units):
            end = at + 1
            while end < len(units) and forms[end][0] is not None and forms[end][0] == forms[at][0]:
                end += 1
            if end - at < LEAST_TURNS:
                result += units[at:end]
            else:
                result += self._loops(units[at:end], [form[1] for form in forms[at:end]], depth)
            at = end
        return result

    def _loops(self, units: list[str], numbers: list[list[int]], depth: int) -> list[str]:
        """Units of one form as loops, as long as all their numbers grow evenly."""
        stores = [_stores(unit) for unit in units]
        order = list(range(len(units)))
        if _independent(stores):
            order.sort(key=lambda unit: stores[unit][0][0][1])      # type: ignore[index]
        result, at = [], 0
        while at < len(order):
            start, end = numbers[order[at]], at + 1
            steps = [b - a for a, b in zip(start, numbers[order[min(end, len(order) - 1)]],
                                           strict=True)]
            while end < len(order) and all(
                    number == first + (end - at) * step for number, first, step
                    in zip(numbers[order[end]], start, steps, strict=True)):
                end += 1
            if end - at < LEAST_TURNS:
                result += (units[unit] for unit in order[at:end])
            else:
                result.append(_loop(units[order[at]], steps, end - at, f"lane_{depth}"))
                self.rolled += end - at
            at = end
        return result


def _form(unit: str) -> tuple[str, list[int]]:
    """A unit without its numbers, and these."""
    return (_NUMBER.sub(lambda number: "#" + (number[2] or ""), unit),
            [int(number[1], 0) for number in _NUMBER.finditer(unit)])


def _stores(unit: str) -> tuple[list[tuple[str, int]], set[str]] | None:
    """Elements that a unit writes, as (array, last index), and names that it reads. None if it does
    anything else.
    """
    written, read = [], set()
    for text in unit.split("\n"):
        if text == "}":
            continue
        if text.startswith("if (") and text.endswith("{") and not _EQUALS.search(text):
            read |= set(re.findall(r"\w+", text))
            continue
        store = _STORE.fullmatch(text)
        if store is None or len(_EQUALS.findall(text)) != 1 or "RAND" in text:
            return None
        written.append((store[1], int(store[3], 0)))
        read |= set(re.findall(r"\w+", f"{store[2]} {store[4]}"))
    return (written, read) if written else None


def _independent(stores: Sequence[tuple[list[tuple[str, int]], set[str]] | None]) -> bool:
    """Say if units give the same in any order: none reads what one writes, or writes it again."""
    known = [store for store in stores if store is not None]
    written = list(chain.from_iterable(store[0] for store in known))
    names = {name for name, _ in written}
    return (len(known) == len(stores) and len(set(written)) == len(written)
            and all(names.isdisjoint(store[1]) for store in known))


def _loop(unit: str, steps: list[int], turns: int, name: str) -> str:
    each = iter(steps)

    def element(number):
        step, suffix = next(each), number[2] or ""
        if step == 0:
            return number[0]
        sign = "+" if step > 0 else "-"
        return f"({number[0]} {sign} {name} * {abs(step)}{suffix})"

    body = _NUMBER.sub(element, unit)
    return f"for (unsigned {name} = 0; {name} < {turns}; ++{name}) {{\n{body}\n}}"
