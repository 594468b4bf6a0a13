"""The registers inside ECP5's multipliers and memory blocks, which Yosys leaves unused.

A product that a register takes as it is can be kept by the multiplier's own output register. The
multiplier then needs its 3.5 ns before that register (speed grade 6) and nothing but the wire
after it, instead of 3.9 ns between two wires. A memory block answers 5.8 ns after its clock, and
its output register within one. With registers at a multiplier's inputs the wires to it have a cycle
for themselves.
"""

import re
from dataclasses import dataclass

REGISTER = "TRELLIS_FF"
MULTIPLIER = "MULT18X18D"
MEMORY = "DP16KD"
_PRODUCT = r"P\d+"  # names of a product's bits
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


def use_registers(netlist: dict, top: str):
    """Move registers into memory blocks and multipliers: those behind memory blocks, those at both
    inputs of a multiplier, and those behind the other multipliers. ``netlist`` is changed in place.
    """
    use_output_registers(netlist, top, MEMORY)
    use_input_registers(netlist, top)
    use_output_registers(netlist, top, MULTIPLIER)


def use_output_registers(netlist: dict, top: str, kind: str) -> int:
    """Move registers into the multipliers or memory blocks in front of them, in a netlist that
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
    kind : str
        Which cells: :data:`MULTIPLIER`, without those that have registers already, or
        :data:`MEMORY`.

    Returns
    -------
    int
        Number of cells that were changed.
    """
    cells = netlist["modules"][top]["cells"]
    sinks = _sinks(cells, netlist["modules"][top].get("ports", {}))
    return sum(_use(cell, outputs, cells, sinks) for cell in list(cells.values())
               if cell["type"] == kind for outputs in _outputs(cell))


def use_input_registers(netlist: dict, top: str) -> int:
    """Move registers into the multipliers behind them, if registers take their products.

    A multiplier is changed if each bit of its factors is 0 or a register that takes the output of
    another register as it is, all by one clock. Behind gates a register stays where it is: the way
    to the multiplier would be added to that through the gates. Both factors or none: nextpnr knows
    no times of multipliers with registers for one. A register that goes elsewhere, too, stays for
    what is left. The product's register stays outside: the ways from it to the sum and to it from
    the multiplier, which is far from most of what it serves, have a cycle each.

    ``netlist`` and ``top`` are those of :func:`use_output_registers`, as is what is returned.
    """
    module = netlist["modules"][top]
    cells = module["cells"]
    sinks = _sinks(cells, module.get("ports", {}))
    drivers = {bit: name for name, cell in cells.items()
               for port, bits in cell["connections"].items()
               if cell["port_directions"][port] == "output" for bit in bits}
    changed, moved = 0, set()
    for cell in cells.values():
        if cell["type"] != MULTIPLIER or not _registers(cell, _PRODUCT, cells, sinks):
            continue
        # A sign would move with its factor. Yosys's signs are constants.
        registers = {port: drivers.get(bit) for port, (bit,) in cell["connections"].items()
                     if re.fullmatch(r"[AB]\d+|SIGNED[AB]", port)
                     and bit not in (["0"] if port[0] in "AB" else ["0", "1"])}
        if not all(_follows_a_register(name, cells, drivers) for name in registers.values()):
            continue
        clocks = {cells[name]["connections"]["CLK"][0] for name in registers.values()}
        if len(clocks) != 1:
            continue
        for port, name in registers.items():
            cell["connections"][port] = cells[name]["connections"]["DI"]
        _connect(cell, _always(clocks), {
            f"REG_INPUT{factor}_{name}": f"{name}0" for factor in "AB"
            for name in ("CLK", "CE", "RST")})
        moved.update(registers.values())
        changed += 1
    sinks = _sinks(cells, module.get("ports", {}))
    for name in moved:
        if cells[name]["connections"]["Q"][0] not in sinks:
            del cells[name]
    return changed


def _follows_a_register(name, cells, drivers):
    """Return True for a register that takes another's output as it is."""
    if name is None or not _plain(cells[name]):
        return False
    before = cells.get(drivers.get(cells[name]["connections"]["DI"][0]))
    return before is not None and (before["type"] == REGISTER
                                   or before["parameters"].get("REGMODE_A") == "OUTREG")


def _outputs(cell):
    if cell["type"] == MULTIPLIER and cell["parameters"].get("REG_INPUTA_CLK", "NONE") == "NONE":
        return [_Outputs(_PRODUCT, None, {},
                         {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0",
                          "REG_OUTPUT_RST": "RST0"})]
    if cell["type"] == MEMORY and int(cell["parameters"]["DATA_WIDTH_B"], 2) == _WIDE:
        return [_Outputs(r"DO[AB]\d+", "CLKB", {"OCEA": ["1"], "OCEB": ["1"]},
                         {"REGMODE_A": "OUTREG", "REGMODE_B": "OUTREG"})]
    return []


def _always(clocks):
    """Inputs of a multiplier whose registers move in every cycle."""
    return {"CLK0": list(clocks), "CE0": ["1"], "RST0": ["0"]}


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
    _connect(cell, outputs.inputs if outputs.clock else _always(clocks), outputs.parameters)
    return True


def _connect(cell, inputs, parameters):
    """Give a cell further inputs and other parameters."""
    for port, bits in inputs.items():
        cell["port_directions"][port] = "input"
        cell["connections"][port] = bits
    cell["parameters"] |= parameters


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
