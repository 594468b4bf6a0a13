"""The Verilog that Vivado packages: the top with its buses marked for the IP packager."""

import re
from typing import NamedTuple

from bitstep_hw import TOP
from bitstep_hw.axi.buses import MAX_BURST

NAME = "bitstep_ip"
# Bursts that the top's masters have under way at most. Without these figures Vivado takes 2, and
# an interconnect may hold back the others.
READS_OUTSTANDING = {"m_axi_aux": 8, "m_axi_fine": 8}
ROW_READS_OUTSTANDING = 15
WRITES_OUTSTANDING = {"m_axi_aux": 8}


class Port(NamedTuple):
    """A port of the top: its direction (``input`` or ``output``) and width in bits."""

    name: str
    direction: str
    width: int


class Bus(NamedTuple):
    """An AXI bus of the top: its ports by their names in AXI."""

    name: str
    ports: dict[str, Port]

    @property
    def parameters(self) -> dict[str, object]:
        """Parameters of the bus for the IP packager."""
        data = (self.ports.get("RDATA") or self.ports["WDATA"]).width
        common = {"DATA_WIDTH": data, "ADDR_WIDTH": self.ports["ARADDR"].width}
        if "ARLEN" not in self.ports:
            return {"PROTOCOL": "AXI4LITE", **common}
        writes = "AWADDR" in self.ports
        found = {"PROTOCOL": "AXI4", **common, "MAX_BURST_LENGTH": MAX_BURST,
                 "SUPPORTS_NARROW_BURST": 0,
                 "READ_WRITE_MODE": "READ_WRITE" if writes else "READ_ONLY",
                 "NUM_READ_OUTSTANDING": READS_OUTSTANDING.get(self.name, ROW_READS_OUTSTANDING),
                 "NUM_READ_THREADS": 1}
        if writes:
            found |= {"NUM_WRITE_OUTSTANDING": WRITES_OUTSTANDING[self.name],
                      "NUM_WRITE_THREADS": 1}
        return found


def buses(verilog: str) -> tuple[list[Bus], list[Port]]:
    """AXI buses of the top, and its other ports but clock and reset.

    Parameters
    ----------
    verilog : str
        What :func:`bitstep_hw.top.verilog_of` gives.
    """
    text = re.search(rf"^module {TOP}\(.*?^endmodule", verilog, re.MULTILINE | re.DOTALL)
    if text is None:
        raise ValueError(f"The Verilog must have a module {TOP}")
    declared = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", text[0], re.MULTILINE)
    found: dict[str, dict[str, Port]] = {}
    others = []
    for direction, high, name in sorted(declared, key=lambda port: _order(port[2])):
        port = Port(name, direction, int(high or 0) + 1)
        prefix, _, signal = name.rpartition("_")
        if prefix:
            found.setdefault(prefix, {})[signal.upper()] = port
        elif name not in ("clk", "rst"):
            others.append(port)
    return [Bus(name, ports) for name, ports in found.items()], others


def _order(name: str) -> tuple[int, str]:
    """Registers first, then rows before what else there is of memory."""
    bus = name.rpartition("_")[0]
    order = ("s_axi", "m_axi_rows", "m_axi_rows1", "m_axi_rows2", "m_axi_rows3", "m_axi_aux",
             "m_axi_fine")
    return order.index(bus) if bus in order else len(order), name


def wrapper(verilog: str, *, title: str) -> str:
    """Verilog of ``bitstep_ip``, a shell around ``bitstep_top``: attributes that tell the IP
    packager the buses, and a reset that is active low, as Xilinx's are.

    Parameters
    ----------
    verilog : str
        What :func:`bitstep_hw.top.verilog_of` gives.
    title : str
        Of the pipeline, for a comment.
    """
    found, others = buses(verilog)
    names = ":".join(bus.name for bus in found)
    ports = [
        _port(Port("aclk", "input", 1), "xilinx.com:signal:clock:1.0 aclk CLK",
              {"ASSOCIATED_BUSIF": names, "ASSOCIATED_RESET": "aresetn"}),
        _port(Port("aresetn", "input", 1), "xilinx.com:signal:reset:1.0 aresetn RST",
              {"POLARITY": "ACTIVE_LOW"}),
    ]
    for bus in found:
        parameters = {"XIL_INTERFACENAME": bus.name, **bus.parameters}
        for signal, port in bus.ports.items():
            ports.append(_port(port, f"xilinx.com:interface:aximm:1.0 {bus.name} {signal}",
                               parameters))
            parameters = {}         # once is enough
    ports += [_port(port, f"xilinx.com:signal:interrupt:1.0 {port.name} INTERRUPT",
                    {"SENSITIVITY": "LEVEL_HIGH"}) for port in others]
    inner = [port.name for bus in found for port in bus.ports.values()]
    inner += [port.name for port in others]
    connections = ",\n".join(["        .clk(aclk)", "        .rst(~aresetn)",
                              *(f"        .{name}({name})" for name in inner)])
    listed = ",\n".join(ports)
    return (f"// Generated from the ports of the top for {title}: do not edit.\n"
            f"module {NAME} (\n{listed}\n);\n"
            f"    {TOP} top (\n{connections}\n    );\nendmodule\n")


def _port(port: Port, info: str, parameters: dict[str, object]) -> str:
    attributes = f'    (* X_INTERFACE_INFO = "{info}" *)\n'
    if parameters:
        text = ", ".join(f"{name} {value}" for name, value in parameters.items())
        attributes += f'    (* X_INTERFACE_PARAMETER = "{text}" *)\n'
    size = f"[{port.width - 1}:0] " if port.width > 1 else ""
    return f"{attributes}    {port.direction} wire {size}{port.name}"
