"""Vivado's results, read and checked: reports, and the description of the hardware (.hwh)."""

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
_SLACKS = {"setup": "WNS(ns)", "hold": "WHS(ns)", "pulse width": "WPWS(ns)"}
_REMEDY = ("Correct the settings of the clock in hw/bitstep_hw/boards/vivado/processing_system.py "
           "for this version of Vivado")


def slacks(report: Path) -> dict[str, float]:
    """The worst slack of setup, hold and pulse width in ns, from Vivado's summary of timing.

    Raises
    ------
    ToolError
        If the summary lacks one, as where no path was constrained.
    """
    lines, found = report.read_text(encoding="utf-8").splitlines(), {}
    for names, _, values in zip(lines, lines[1:], lines[2:], strict=False):
        if names.strip().startswith(_SLACKS["setup"]):
            columns = re.split(r"\s{2,}", names.strip())
            if len(columns) == len(values.split()):
                found = dict(zip(columns, values.split(), strict=True))
            break
    slack_ns = {}
    for kind, name in _SLACKS.items():
        try:
            slack_ns[kind] = float(found[name])
        except (KeyError, ValueError) as error:
            raise ToolError(
                f"{report} must tell the slack of {kind} as {name}, not "
                f"{found.get(name, 'nothing')!r}: without it nobody knows whether the clock is "
                "met; is the clock of the design constrained?") from error
    return slack_ns


def utilization(report: Path) -> dict[str, dict[str, float]]:
    """Used and available LUT, FF, RAMB36 and DSP from Vivado's report; what is not found there is
    left out.
    """
    text, found = report.read_text(encoding="utf-8"), {}
    for name, pattern in _USED.items():
        row = re.search(rf"^\|\s*{pattern}\s*\|(.+)\|\s*$", text, re.MULTILINE)
        if row:
            numbers = [float(cell) for cell in row[1].split("|")
                       if re.fullmatch(r"\s*[\d.]+\s*", cell)]
            if len(numbers) >= 3:       # used, fixed, (prohibited,) available, share
                found[name] = {"used": numbers[0], "available": numbers[-2]}
    return found


def check_handoff(path: Path, board: PynqBoard) -> None:
    """Compare a .hwh with what the driver relies on: the IP's type, its address, its registers if
    it lists them, and the clock's dividers, which pynq writes when it loads the bitstream.

    Raises
    ------
    ToolError
        If it differs.
    """
    root = ElementTree.parse(path).getroot()
    module = root.find(f".//MODULE[@INSTANCE='{IP_INSTANCE}']")
    if module is None or module.get("VLNV") != IP_VLNV:
        raise ToolError(f"{path} has no {IP_INSTANCE} of type {IP_VLNV}")
    ranges = [entry.get("BASEVALUE", "") for entry in
              root.findall(f".//MODULE[@INSTANCE='{board.family.instance}']//MEMRANGE")
              if entry.get("INSTANCE") == IP_INSTANCE]
    if [int(base, 0) for base in ranges] != [board.family.registers_address]:
        raise ToolError(f"{path} has {IP_INSTANCE} at {', '.join(ranges) or 'no address'}, not at "
                        f"0x{board.family.registers_address:08X}")
    listed = {}
    for register in module.iter("REGISTER"):
        offset = register.find("PROPERTY[@NAME='ADDRESS_OFFSET']")
        if offset is not None:
            listed[register.get("NAME")] = int(offset.get("VALUE", "-1"), 0)
    if listed and listed != {register.name: register.offset for register in REGISTERS}:
        raise ToolError(f"{path} lists other registers than bitstep.pipeline.registers")
    _check_clock(path, board, root)


def _check_clock(path, board, root):
    family = board.family
    values = {entry.get("NAME"): entry.get("VALUE", "") for entry in
              root.findall(f".//MODULE[@INSTANCE='{family.instance}']/PARAMETERS/PARAMETER")}
    name, wanted = family.source
    if values.get(name) != wanted:
        raise ToolError(f"{path} must divide the clock from {wanted}, for pynq sets its dividers "
                        f"on that PLL; {name} is {values.get(name, 'missing')}. {_REMEDY}")
    texts = [values.get(divider, "") for divider in family.dividers]
    if not all(text.isdecimal() for text in texts):
        raise ToolError(f"{path} must tell the clock's dividers, {' and '.join(family.dividers)}, "
                        f"not {' and '.join(text or 'nothing' for text in texts)}")
    first, second = map(int, texts)
    if first * second * board.clock_mhz != board.pll_mhz:
        mhz = board.pll_mhz / (first * second) if first * second else float("inf")
        raise ToolError(
            f"{path} divides by {first} x {second}, for a PLL of "
            f"{first * second * board.clock_mhz} MHz; that of {board.name} has {board.pll_mhz} "
            f"MHz, so pynq would set {mhz:.6g} MHz instead of {board.clock_mhz}. {_REMEDY}")
