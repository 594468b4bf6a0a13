"""Models of FPGA cells: Yosys's own, and those of ``cells`` where Yosys has only ports."""

import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

OWN = Path(str(resources.files("bitstep_sim.netlists") / "cells"))

_INCLUDE = re.compile(r'^`include "(.*)"$', re.MULTILINE)
_TIMES = re.compile(r"\bspecify\b.*?\bendspecify\b", re.DOTALL)     # which Verilator ignores
_MODULE = re.compile(r"^module\s+(\w+).*?\bendmodule\b", re.MULTILINE | re.DOTALL)


def library(kinds: Iterable[str], path: Path) -> str:
    """Verilog of the cells of a netlist, and of those that they consist of.

    Parameters
    ----------
    kinds : iterable of str
        Types of cells.
    path : Path
        Yosys's simulation cells of a family, such as ``share/xilinx/cells_sim.v``.

    Raises
    ------
    LookupError
        If there is no model of a cell.
    """
    known = _modules(_included(path))
    for own in sorted(OWN.glob("*.v")):
        known |= _modules(own.read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    waiting = sorted(kinds)
    while waiting:
        kind = waiting.pop()
        if kind not in known:
            raise LookupError(f"There must be a model of {kind} in {OWN} or {path.name}")
        if kind not in found:
            found[kind] = known[kind]
            waiting += sorted(known.keys() & set(re.findall(r"\w+", known[kind])))
    return "\n".join(found.values()) + "\n"


def _included(path: Path) -> str:
    """Text of a file with those that it includes, which lie beside it."""
    return _INCLUDE.sub(lambda found: _included(path.parent / found[1]),
                        path.read_text(encoding="utf-8"))


def _modules(text: str) -> dict[str, str]:
    return {found[1]: _TIMES.sub("", found[0]) for found in _MODULE.finditer(text)}
