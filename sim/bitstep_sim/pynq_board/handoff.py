"""Bitstreams of the simulated board: a .hwh as Vivado writes it, in as far as pynq reads it, made
from the same tables as Vivado's sources; a .bit whose content is the configuration; a manifest.
"""

import json
from pathlib import Path
from xml.etree import ElementTree

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import REGISTERS
from bitstep_hw.boards.vivado import IP_INSTANCE, IP_VLNV
from bitstep_hw.boards.vivado.flow import manifest
from bitstep_hw.boards.vivado.sources import ACCESS
from bitstep_hw.boards.zynq import REGISTERS_BYTES, PynqBoard

AXI = "xilinx.com:interface:aximm:1.0"
CONTROLLER = "axi_intc_0"
_MEMORY_END = {"zynq": 0x1FFF_FFFF, "zynquplus": 0x7FFF_FFFF}


def write_bitstream(folder: Path, board: PynqBoard, config: PipelineConfig, *,
                    with_registers: bool = True,
                    dividers: tuple[int, int] | None = None) -> Path:
    """Write .bit, .hwh and .json of a simulated bitstream; returns the path of the .bit.

    Parameters
    ----------
    with_registers : bool
        If true, the .hwh lists the IP's registers.
    dividers : tuple of int, optional
        The clock's two dividers, as a Vivado may choose them for PLLs that are not the board's.
        Default: those that are right.
    """
    path = folder / f"{board.name}-{config.name}.bit"
    path.write_bytes(_bitstream(board, config))
    handoff = path.with_suffix(".hwh")
    text = make_handoff(board, config, with_registers=with_registers, dividers=dividers)
    handoff.write_text(text, "utf-8")
    found = manifest(board, config, path, handoff, tools={"simulated": "yes"})
    found.write(path.with_suffix(".json"))
    return path


def read_config(path: Path) -> PipelineConfig:
    """The configuration that a simulated bitstream holds."""
    content = path.read_bytes()
    return PipelineConfig(**json.loads(content[content.index(b"{"):].rstrip(b"\0")))


def _bitstream(board, config):
    """Vivado's header, then the configuration."""
    payload = json.dumps(config.to_dict()).encode()
    payload += bytes(-len(payload) % 4)
    fields = ((b"a", f"{config.name};UserID=0XFFFFFFFF;Version=0"),
              (b"b", board.part.rpartition("-")[0]), (b"c", "2026/01/01"), (b"d", "00:00:00"))
    header = bytes.fromhex("00090ff00ff00ff00ff0000001")
    for tag, text in fields:
        value = text.encode() + b"\0"
        header += tag + len(value).to_bytes(2, "big") + value
    return header + b"e" + len(payload).to_bytes(4, "big") + payload


def make_handoff(board: PynqBoard, config: PipelineConfig, *, with_registers: bool = True,
                 dividers: tuple[int, int] | None = None) -> str:
    """Text of the .hwh.

    Parameters
    ----------
    with_registers, dividers
        As of :func:`write_bitstream`.
    """
    family = board.family
    root = ElementTree.Element("EDKSYSTEM", EDWVERSION="1.2", VIVADOVERSION="simulated")
    _add(root, "SYSTEMINFO", ARCH=family.name, DEVICE=board.part.split("-")[0], NAME="bitstep")
    _add(root, "EXTERNALPORTS")
    _add(root, "EXTERNALINTERFACES")
    modules = _add(root, "MODULES")
    version = "5.5" if family.name == "zynq" else "3.5"
    ps = _module(modules, family.instance, f"xilinx.com:ip:{family.cell}:{version}", IS_PL="FALSE")
    parameters = _add(ps, "PARAMETERS")
    for name, value in _ps_parameters(board, config, dividers).items():
        _add(parameters, "PARAMETER", NAME=name, VALUE=str(value))
    _ports(ps, {family.clock: ("O", "clk", [(IP_INSTANCE, "aclk")]),
                family.interrupt: ("I", "INTERRUPT", [(CONTROLLER, "irq")])})
    interfaces = _add(ps, "BUSINTERFACES")
    _interface(interfaces, family.master, "MASTER", "registers", 32)
    for bus, (port, _) in board.ports(config).items():
        _interface(interfaces, family.named(family.memory, port), "SLAVE", bus,
                   family.memory_width)
    memory = _add(ps, "MEMORYMAP")
    _range(memory, IP_INSTANCE, family.master, "s_axi", "reg0", family.registers_address)
    _range(memory, CONTROLLER, family.master, "s_axi", "Reg", family.interrupts_address)

    controller = _module(modules, CONTROLLER, "xilinx.com:ip:axi_intc:4.1")
    _ports(controller, {"intr": ("I", "INTERRUPT", [(IP_INSTANCE, "interrupt")]),
                        "irq": ("O", "INTERRUPT", [(family.instance, family.interrupt)])})
    _interface(_add(controller, "BUSINTERFACES"), "s_axi", "SLAVE", "registers", 32)
    _pipeline(modules, board, config, with_registers)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _pipeline(modules, board, config, with_registers):
    family = board.family
    module = _module(modules, IP_INSTANCE, IP_VLNV)
    block = _add(_add(module, "ADDRESSBLOCKS"), "ADDRESSBLOCK", ACCESS="read-write",
                 INTERFACE="s_axi", NAME="reg0", RANGE=str(REGISTERS_BYTES), USAGE="register")
    if with_registers:
        registers = _add(block, "REGISTERS")
        for entry in REGISTERS:
            register = _add(registers, "REGISTER", NAME=entry.name)
            for name, value in {
                "DESCRIPTION": entry.text, "ADDRESS_OFFSET": f"0x{entry.offset:X}", "SIZE": "32",
                "ACCESS": ACCESS[entry.access], "IS_ENABLED": "true", "RESET_VALUE": "0x0",
            }.items():
                _add(register, "PROPERTY", NAME=name, VALUE=value)
    parameters = _add(module, "PARAMETERS")
    address = family.registers_address
    _add(parameters, "PARAMETER", NAME="C_S_AXI_BASEADDR", VALUE=f"0x{address:08X}")
    _add(parameters, "PARAMETER", NAME="C_S_AXI_HIGHADDR",
         VALUE=f"0x{address + REGISTERS_BYTES - 1:08X}")
    _ports(module, {"aclk": ("I", "clk", [(family.instance, family.clock)]),
                    "interrupt": ("O", "INTERRUPT", [(CONTROLLER, "intr")])})
    interfaces = _add(module, "BUSINTERFACES")
    _interface(interfaces, "s_axi", "SLAVE", "registers", 32)
    memory = _add(module, "MEMORYMAP")
    for bus, (port, width) in board.ports(config).items():
        _interface(interfaces, bus, "MASTER", bus, width)
        _add(memory, "MEMRANGE", ADDRESSBLOCK=f"{port}_DDR_LOWOCM", BASENAME="C_BASEADDR",
             BASEVALUE="0x00000000", HIGHNAME="C_HIGHADDR",
             HIGHVALUE=f"0x{_MEMORY_END[family.name]:08X}", INSTANCE=family.instance,
             IS_DATA="TRUE", IS_INSTRUCTION="TRUE", MASTERBUSINTERFACE=bus, MEMTYPE="MEMORY",
             SLAVEBUSINTERFACE=family.named(family.memory, port))


def _ps_parameters(board, config, dividers):
    """Parameters that pynq reads: all four clocks, and on Zynq UltraScale+ the ports' widths."""
    mhz, found = board.clock_mhz, {}
    if dividers is None:
        dividers = (5, board.pll_mhz // 5 // mhz) if board.family.name == "zynq" \
            else (board.pll_mhz // mhz, 1)
    for number in range(4):
        if board.family.name == "zynq":
            found |= {f"PCW_FPGA_FCLK{number}_ENABLE": int(number == 0),
                      f"PCW_FCLK{number}_PERIPHERAL_DIVISOR0": dividers[0],
                      f"PCW_FCLK{number}_PERIPHERAL_DIVISOR1": dividers[1],
                      f"PCW_FCLK{number}_PERIPHERAL_CLKSRC": "IO PLL",
                      f"PCW_ACT_FPGA{number}_PERIPHERAL_FREQMHZ": f"{mhz:.6f}"}
        else:
            clock = f"PSU__CRL_APB__PL{number}_REF_CTRL__"
            found |= {f"PSU__FPGA_PL{number}_ENABLE": int(number == 0),
                      f"{clock}DIVISOR0": dividers[0], f"{clock}DIVISOR1": dividers[1],
                      f"{clock}SRCSEL": "IOPLL", f"{clock}ACT_FREQMHZ": f"{mhz:.6f}"}
    if board.family.name != "zynq":
        found["C_MAXIGP0_DATA_WIDTH"] = 128
        for port, _ in board.ports(config).values():
            found[f"C_SAXIGP{board.family.ports.index(port)}_DATA_WIDTH"] = \
                board.family.memory_width
    return found


def _add(parent, tag, **attributes):
    return ElementTree.SubElement(parent, tag, attributes)


def _module(modules, instance, vlnv, **attributes):
    return _add(modules, "MODULE", FULLNAME=f"/{instance}", INSTANCE=instance,
                IPTYPE="PERIPHERAL", IS_ENABLE="1", MODCLASS="PERIPHERAL",
                MODTYPE=vlnv.split(":")[2], VLNV=vlnv, **attributes)


def _ports(module, ports):
    parent = _add(module, "PORTS")
    for name, (direction, kind, ends) in ports.items():
        connections = _add(_add(parent, "PORT", DIR=direction, NAME=name, SIGIS=kind),
                           "CONNECTIONS")
        for instance, port in ends:
            _add(connections, "CONNECTION", INSTANCE=instance, PORT=port)


def _interface(interfaces, name, kind, bus, width):
    _add(interfaces, "BUSINTERFACE", BUSNAME=bus, DATAWIDTH=str(width), NAME=name, TYPE=kind,
         VLNV=AXI)


def _range(memory, instance, master, slave, block, address):
    _add(memory, "MEMRANGE", ADDRESSBLOCK=block, BASENAME="C_BASEADDR",
         BASEVALUE=f"0x{address:08X}", HIGHNAME="C_HIGHADDR",
         HIGHVALUE=f"0x{address + REGISTERS_BYTES - 1:08X}", INSTANCE=instance, IS_DATA="TRUE",
         IS_INSTRUCTION="TRUE", MASTERBUSINTERFACE=master, MEMTYPE="REGISTER",
         SLAVEBUSINTERFACE=slave)
