"""The registers inside ECP5's multipliers, which Yosys leaves unused.

A product that a register takes as it is can be kept by the multiplier's own output register. The
multiplier then needs its 3.5 ns before that register (speed grade 6) and nothing but the wire
after it, instead of 3.9 ns between two wires.
"""

import re

MULTIPLIER = "MULT18X18D"
REGISTER = "TRELLIS_FF"
_PRODUCT = re.compile(r"P\d+")


def use_output_registers(netlist: dict, top: str) -> int:
    """Move registers of products into their multipliers, in a netlist that Yosys wrote as JSON.

    A multiplier is changed if each of its used outputs goes to one register and nowhere else, and
    all of these have the same clock, start at 0, and have neither an enable nor a reset: an enable
    would do, but its wire is one for a whole block of multipliers, and nextpnr's router can take
    forever over it.

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
    changed = 0
    for cell in list(cells.values()):
        registers = _registers(cell, cells, sinks) if cell["type"] == MULTIPLIER else {}
        if not registers:
            continue
        clock = cells[next(iter(registers.values()))]["connections"]["CLK"]
        for port, register in registers.items():
            cell["connections"][port] = cells.pop(register)["connections"]["Q"]
        for port, bits in (("CLK0", clock), ("CE0", ["1"]), ("RST0", ["0"])):
            cell["port_directions"][port] = "input"
            cell["connections"][port] = bits
        cell["parameters"] |= {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0",
                               "REG_OUTPUT_RST": "RST0"}
        changed += 1
    return changed


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
        name, end = sinks[bit][0]
        cell = cells[name]
        if len(sinks[bit]) > 1 or cell["type"] != REGISTER or end != "DI" or not _plain(cell):
            return {}
        registers[port] = name
    clocks = {cells[name]["connections"]["CLK"][0] for name in registers.values()}
    return registers if len(clocks) == 1 else {}


def _plain(register):
    """Whether a register starts at 0 and takes a value in every cycle."""
    parameters, connections = register["parameters"], register["connections"]
    return (parameters["REGSET"] == "RESET" and parameters["CLKMUX"] == "CLK"
            and parameters["CEMUX"].strip() == "1" and connections.get("LSR", ["0"]) == ["0"])
