"""The registers at the outputs of ECP5's multipliers and memory blocks, which Yosys leaves unused.

A product that a register takes as it is can be kept by the multiplier's own output register. The
multiplier then needs its 3.5 ns before that register (speed grade 6) and nothing but the wire
after it, instead of 3.9 ns between two wires. A memory block answers 5.8 ns after its clock, and
its output register within one.
"""

import re
from dataclasses import dataclass

REGISTER = "TRELLIS_FF"
MULTIPLIER = "MULT18X18D"
MEMORY = "DP16KD"
_WIDE = 36          # data width at which a memory block writes at side A and reads at side B


@dataclass(frozen=True)
class _Outputs:
    """Outputs of a cell that have registers in common: their names, the clock's if the cell has
    one, and what turns the registers on.
    """

    pattern: str
    clock: str | None
    inputs: dict
    parameters: dict


def use_output_registers(netlist: dict, top: str) -> int:
    """Move registers into the multipliers and memory blocks in front of them, in a netlist that
    Yosys wrote as JSON.

    A cell is changed if each of its used outputs goes to one register and nowhere else, and all of
    these have the same clock (a memory block's own), start at 0, and have neither an enable nor a
    reset: an enable would do, but its wire is one for a whole block of multipliers, and nextpnr's
    router can take forever over it. What a memory block's register holds before the first clock
    edge is not defined, as little as what the block says.

    Parameters
    ----------
    netlist : dict
        The netlist, flat and of primitives; changed in place.
    top : str
        Its top module.

    Returns
    -------
    int
        Number of cells that were changed.
    """
    cells = netlist["modules"][top]["cells"]
    sinks = _sinks(cells, netlist["modules"][top].get("ports", {}))
    return sum(_use(cell, outputs, cells, sinks)
               for cell in list(cells.values()) for outputs in _outputs(cell))


def _outputs(cell):
    if cell["type"] == MULTIPLIER:
        return [_Outputs(r"P\d+", None, {"CE0": ["1"], "RST0": ["0"]},
                         {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0",
                          "REG_OUTPUT_RST": "RST0"})]
    if cell["type"] == MEMORY and int(cell["parameters"]["DATA_WIDTH_B"], 2) == _WIDE:
        return [_Outputs(r"DO[AB]\d+", "CLKB", {"OCEA": ["1"], "OCEB": ["1"]},
                         {"REGMODE_A": "OUTREG", "REGMODE_B": "OUTREG"})]
    return []


def _use(cell, outputs, cells, sinks):
    """Return True if the outputs' registers are in the cell now."""
    registers = _registers(cell, outputs.pattern, cells, sinks)
    clocks = {cells[name]["connections"]["CLK"][0] for name in registers.values()}
    if outputs.clock is not None and registers:
        clocks |= set(cell["connections"][outputs.clock])
        if cell["parameters"][f"{outputs.clock}MUX"] != outputs.clock:
            return False
    if len(clocks) != 1:
        return False
    for port, register in registers.items():
        cell["connections"][port] = cells.pop(register)["connections"]["Q"]
    inputs = outputs.inputs if outputs.clock else outputs.inputs | {"CLK0": list(clocks)}
    for port, bits in inputs.items():
        cell["port_directions"][port] = "input"
        cell["connections"][port] = bits
    cell["parameters"] |= outputs.parameters
    return True


def _sinks(cells, ports):
    """Where each bit ends: pairs of a cell's name and a port of it, or of None and a port of the
    top module.
    """
    found = {}
    for name, port in ports.items():
        for bit in port["bits"] if port["direction"] == "output" else ():
            found.setdefault(bit, []).append((None, name))
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                for bit in bits:
                    found.setdefault(bit, []).append((name, port))
    return found


def _registers(cell, pattern, cells, sinks):
    """Register of each used output, by port; nothing if one has none."""
    registers = {}
    for port, (bit,) in cell["connections"].items():
        if not re.fullmatch(pattern, port) or bit not in sinks:
            continue
        name, end = sinks[bit][0]
        if len(sinks[bit]) > 1 or end != "DI" or not _plain(cells[name]):
            return {}
        registers[port] = name
    return registers


def _plain(register):
    """Return True for a register that starts at 0 and takes a value in every cycle."""
    if register["type"] != REGISTER:
        return False
    parameters, connections = register["parameters"], register["connections"]
    return (parameters["REGSET"] == "RESET" and parameters["CLKMUX"] == "CLK"
            and parameters["CEMUX"].strip() == "1" and connections.get("LSR", ["0"]) == ["0"])
