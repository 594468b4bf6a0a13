"""The registers inside ECP5's multipliers, which Yosys leaves unused.

A product that a register takes as it is can be kept by the multiplier's own output register. The
multiplier then needs its 3.5 ns before that register (speed grade 6) and nothing but the wire
after it, instead of 3.9 ns between two wires.
"""

import re
from collections import Counter

MULTIPLIER = "MULT18X18D"
REGISTER = "TRELLIS_FF"
_PRODUCT = re.compile(r"P\d+")
# Enables of the registers in a block of multipliers.
_ENABLES = 4


def use_output_registers(netlist: dict, top: str) -> int:
    """Move registers of products into their multipliers, in a netlist that Yosys wrote as JSON.

    A multiplier is changed if each of its used outputs goes to one register and nowhere else, and
    all of these have the same clock and enable, start at 0 and have no reset.

    Parameters
    ----------
    netlist : dict
        The netlist, flat and of primitives; changed in place.
    top : str
        Its top module.

    Returns
    -------
    int
        Number of multipliers that were changed.
    """
    cells = netlist["modules"][top]["cells"]
    sinks = _sinks(cells)
    moved = {}
    for name, cell in cells.items():
        if cell["type"] == MULTIPLIER:
            registers = _registers(cell, cells, sinks)
            if registers:
                moved[name] = registers
    enables = Counter(_control(cells[next(iter(registers.values()))])[1]
                      for registers in moved.values())
    ports = {enable: f"CE{rank % _ENABLES}" for rank, (enable, _) in
             enumerate(enables.most_common())}
    for name, registers in moved.items():
        multiplier = cells[name]
        clock, enable = _control(cells[next(iter(registers.values()))])
        for port, register in registers.items():
            multiplier["connections"][port] = cells.pop(register)["connections"]["Q"]
        inputs = {"CLK0": clock, ports[enable]: enable, "RST0": "0"}
        for port, bit in inputs.items():
            multiplier["port_directions"][port] = "input"
            multiplier["connections"][port] = [bit]
        multiplier["parameters"] |= {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": ports[enable],
                                     "REG_OUTPUT_RST": "RST0"}
    return len(moved)


def _sinks(cells):
    """Inputs at which each bit ends: pairs of a cell's name and a port."""
    found = {}
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for bit in bits:
                    found.setdefault(bit, []).append((name, port))
    return found


def _registers(multiplier, cells, sinks):
    """Register of each used output, by port; nothing if one has none or two differ."""
    registers = {}
    for port, (bit,) in multiplier["connections"].items():
        if not _PRODUCT.fullmatch(port) or bit not in sinks:
            continue
        ends = sinks[bit]
        name, end = ends[0]
        cell = cells[name]
        if len(ends) > 1 or cell["type"] != REGISTER or end != "DI" or not _plain(cell):
            return {}
        registers[port] = name
    controls = {_control(cells[name]) for name in registers.values()}
    return registers if len(controls) == 1 else {}


def _plain(register):
    """Whether a register starts at 0, keeps its value for an enable of 0, and has no reset."""
    parameters, connections = register["parameters"], register["connections"]
    return (parameters["REGSET"] == "RESET" and parameters["CLKMUX"] == "CLK"
            and parameters["CEMUX"].strip() in ("1", "CE")
            and connections.get("LSR", ["0"]) == ["0"])


def _control(register):
    """Clock and enable."""
    connections = register["connections"]
    always = register["parameters"]["CEMUX"].strip() == "1"
    return connections["CLK"][0], "1" if always else connections["CE"][0]
