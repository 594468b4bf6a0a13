"""Vivado's results, read and checked: bitstream, reports, and the hardware handoff (.hwh)."""

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from bitstep.pipeline.registers import REGISTERS
from bitstep_hw.boards.vivado import IP_INSTANCE, IP_VLNV, ToolError
from bitstep_hw.boards.zynq import PynqBoard

# Rows of Vivado's report on utilization.
_USED = {"LUT": r"(?:Slice|CLB) LUTs\*?", "FF": r"(?:Slice|CLB) Registers",
         "RAMB36": r"Block RAM Tile", "DSP": r"DSPs"}

# Columns of the design's summary in Vivado's report on timing: the worst slack of each kind.
_TIMING, _USE = "Vivado's report on timing", "Vivado's report on utilization"
_SLACKS = {"setup": "WNS(ns)", "hold": "WHS(ns)", "pulse width": "WPWS(ns)"}
_HARMLESS = ("The driver of bitstep sets the clock itself and reads it back, so models are right; "
             "other programs that load the bitstream must do so, too")
_REPAIR = ("bring it back whole from the folder in which Vivado ran, or run `vivado -mode batch "
           "-source build.tcl` there again, which writes the files of a finished build once more")
_GZIP = b"\x1f\x8b"


def _read(path: Path, what: str) -> bytes:
    """Content of one of Vivado's files.

    Raises
    ------
    ToolError
        If it cannot be read, is empty or compressed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ToolError(f"{path} must be {what}, but cannot be read ({error.strerror}): "
                        f"{_REPAIR}") from error
    if not content.strip():
        raise ToolError(f"{path} must be {what}, but is empty: {_REPAIR}")
    if content.startswith(_GZIP):
        raise ToolError(f"{path} must be {what}, but is compressed with gzip: unpack it (gunzip) "
                        "under this name")
    return content


def read_report(path: Path, what: str) -> str:
    """Return the text of a report. Letters in another encoding, as in the name of a machine, are
    replaced.

    Parameters
    ----------
    path : Path
    what : str
        Name of the report, for messages.

    Raises
    ------
    ToolError
        If it cannot be read, is empty or compressed.
    """
    return _read(path, what).decode("utf-8-sig", "replace")


def check_bitstream(path: Path) -> None:
    """Compare the length of a .bit with the one in its header.

    Raises
    ------
    ToolError
        If it is no .bit or not whole.
    """
    what = "the bitstream that Vivado wrote (.bit)"
    content = _read(path, what)
    try:
        place = 4 + int.from_bytes(content[:2], "big")
        while content[place] != ord("e"):           # design, part, date, time
            if content[place] not in b"abcd":
                raise ToolError(f"{path} must be {what}, but has no header of one: {_REPAIR}")
            place += 3 + int.from_bytes(content[place + 1:place + 3], "big")
    except IndexError:
        raise ToolError(f"{path} must be {what}, but ends in its header: {_REPAIR}") from None
    start = place + 5
    expected = start + int.from_bytes(content[place + 1:start], "big")
    if len(content) != expected:
        raise ToolError(f"{path} must have the {expected:,} bytes that its header says, not "
                        f"{len(content):,}: {_REPAIR}")


def slacks(report: Path) -> dict[str, float]:
    """Return the worst slack of setup, hold and pulse width in ns, from Vivado's summary of timing.

    Raises
    ------
    ToolError
        If the report cannot be read, or the summary lacks one, as where no path was constrained.
    """
    lines, found = read_report(report, _TIMING).splitlines(), {}
    for names, _, values in zip(lines, lines[1:], lines[2:], strict=False):
        if names.strip().startswith(_SLACKS["setup"]):
            columns = re.split(r"\s{2,}", names.strip())
            if len(columns) == len(values.split()):
                found = dict(zip(columns, values.split(), strict=True))
            break
    slack_ns = {kind: _finite(found.get(name)) for kind, name in _SLACKS.items()}
    for kind, name in _SLACKS.items():
        if math.isnan(slack_ns[kind]):
            raise ToolError(
                f"{report} must tell the slack of {kind} as {name}, not "
                f"{found.get(name, 'nothing')!r}: without it nobody knows whether the clock is "
                "met; is the report whole, and the clock of the design constrained?")
    return slack_ns


def _finite(text):
    """Return a number; NaN for anything else."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def period_ns(report: Path, clock: str) -> float | None:
    """Return the period that a clock of the design was constrained to, from Vivado's report on
    timing; None if the report does not tell it.
    """
    row = re.search(rf"^\s*{re.escape(clock)}\s+\{{[^}}]*\}}\s+([\d.]+)\s", read_report(
        report, _TIMING) + "\n", re.MULTILINE)
    value = _finite(row[1]) if row else math.nan
    return value if value > 0 else None


def utilization(report: Path) -> dict[str, dict[str, float]]:
    """Used and available LUT, FF, RAMB36 and DSP from Vivado's report; what is not found there is
    left out.
    """
    text, found = read_report(report, _USE), {}
    for name, pattern in _USED.items():
        row = re.search(rf"^\|\s*{pattern}\s*\|(.+)\|\s*$", text, re.MULTILINE)
        if row:
            numbers = [float(cell) for cell in row[1].split("|")
                       if re.fullmatch(r"\s*[\d.]+\s*", cell)]
            if len(numbers) >= 3:       # used, fixed, (prohibited,) available, share
                found[name] = {"used": numbers[0], "available": numbers[-2]}
    return found


def check_handoff(path: Path, board: PynqBoard) -> list[str]:
    """Compare a .hwh with what the driver relies on: the IP's type, its address, and its registers
    if it lists them.

    Returns
    -------
    list of str
        Warnings: the clock's PLL or dividers are not those of the board. pynq writes the dividers
        when it loads the bitstream, before the driver sets the clock.

    Raises
    ------
    ToolError
        If it differs, or is no .hwh.
    """
    what = "the hardware handoff that Vivado wrote (.hwh)"
    content = _read(path, what)
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise ToolError(f"{path} must be {what}, but is no whole XML ({error}; it has "
                        f"{len(content):,} bytes): {_REPAIR}") from error
    module = root.find(f".//MODULE[@INSTANCE='{IP_INSTANCE}']")
    if module is None or module.get("VLNV") != IP_VLNV:
        raise ToolError(f"{path} has no {IP_INSTANCE} of type {IP_VLNV}: it must be the .hwh of "
                        f"the block design that build.tcl makes; {_REPAIR}")
    ranges = [entry.get("BASEVALUE", "") for entry in
              root.findall(f".//MODULE[@INSTANCE='{board.family.instance}']//MEMRANGE")
              if entry.get("INSTANCE") == IP_INSTANCE]
    if list(map(_number, ranges)) != [board.family.registers_address]:
        raise ToolError(f"{path} has {IP_INSTANCE} at {', '.join(ranges) or 'no address'}, not at "
                        f"0x{board.family.registers_address:08X}: it must be of a build for "
                        f"{board.name} by this version of bitstep")
    listed = {}
    for register in module.iter("REGISTER"):
        offset = register.find("PROPERTY[@NAME='ADDRESS_OFFSET']")
        if offset is not None:
            listed[register.get("NAME")] = _number(offset.get("VALUE", ""))
    if listed and listed != {register.name: register.offset for register in REGISTERS}:
        raise ToolError(f"{path} lists other registers than bitstep.pipeline.registers: build "
                        "again with this version of bitstep, or collect with the one that wrote "
                        "the sources")
    return _clock_warnings(path, board, root)


def _number(text):
    try:
        return int(text, 0)
    except ValueError:
        return None


def _clock_warnings(path, board, root):
    family = board.family
    values = {entry.get("NAME"): entry.get("VALUE", "") for entry in
              root.findall(f".//MODULE[@INSTANCE='{family.instance}']/PARAMETERS/PARAMETER")}
    name, wanted = family.source
    found = []
    if values.get(name) != wanted:
        found.append(f"{path} divides the clock from {values.get(name, 'an unknown PLL')} ({name}) "
                     f"instead of {wanted}, for which pynq takes its dividers")
    texts = [values.get(divider, "") for divider in family.dividers]
    if all(text.isdecimal() and int(text) for text in texts):
        first, second = map(int, texts)
        if first * second * board.clock_mhz != board.pll_mhz:
            found.append(f"{path} divides by {first} x {second}, for a PLL of "
                         f"{first * second * board.clock_mhz} MHz; that of {board.name} has "
                         f"{board.pll_mhz} MHz, so pynq loads the bitstream with a clock of "
                         f"{board.pll_mhz / (first * second):.6g} MHz instead of "
                         f"{board.clock_mhz}")
    else:
        found.append(f"{path} does not tell the clock's dividers, {' and '.join(family.dividers)}, "
                     f"but {' and '.join(text or 'nothing' for text in texts)}")
    return [f"{text}. {_HARMLESS}" for text in found]
