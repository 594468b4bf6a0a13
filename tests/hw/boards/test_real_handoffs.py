"""Hardware handoffs that Vivado wrote for other designs: what this project reads in a .hwh, what it
sets in the processing system, and what the simulated handoffs have is called so in them.

The files are not part of the repository (``../shared/data/hwh``, or BITSTEP_DATA/hwh).
"""

import fnmatch
import gzip
import os
import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from stubbed_vivado import FOUR_ROW_PORTS, REFETCHING, TWO_ROW_PORTS

from bitstep.pipeline.registers import REGISTERS
from bitstep_hw.boards.vivado import IP_INSTANCE, IP_VLNV, ToolError
from bitstep_hw.boards.vivado.processing_system import ps_settings
from bitstep_hw.boards.vivado.results import check_handoff
from bitstep_hw.boards.zynq import BOARDS, ZYNQ
from bitstep_sim.pynq_board.handoff import make_handoff

DATA = Path(os.environ.get("BITSTEP_DATA")
            or Path(__file__).resolve().parents[3].parent / "shared/data") / "hwh"
FILES = {"zynq": "pynq-z2-base.hwh.gz", "zynquplus": "zcu104-base.hwh.gz"}
# Of each, a peripheral with registers that the processor's port reaches.
PERIPHERALS = {"zynq": "btns_gpio", "zynquplus": "axi_intc_0"}
ALL = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


@cache
def text_of(family):
    path = DATA / FILES[family]
    if not path.is_file():
        pytest.skip(f"needs {path}, a hardware handoff that Vivado wrote")
    return gzip.decompress(path.read_bytes()).decode("utf-8-sig")


@cache
def real(family):
    return ElementTree.fromstring(text_of(family))


def processing_system(root, family):
    module, = (module for module in root.iter("MODULE") if module.get("MODTYPE") == family.cell)
    return module


def parameters(module):
    return {entry.get("NAME", ""): entry.get("VALUE", "")
            for entry in module.findall("PARAMETERS/PARAMETER")}


@cache
def graft(name, registers):
    """Bytes of the real .hwh of a family, with a peripheral that goes by the names of the pipeline;
    to write XML takes long.
    """
    family = next(board.family for board in BOARDS.values() if board.family.name == name)
    root = ElementTree.fromstring(text_of(family.name))
    old = {processing_system(root, family).get("INSTANCE"): family.instance,
           PERIPHERALS[family.name]: IP_INSTANCE}
    for element in root.iter():
        instance = element.get("INSTANCE")
        if instance in old:
            element.set("INSTANCE", old[instance])
        if element.tag == "MEMRANGE" and instance == PERIPHERALS[family.name]:
            element.set("BASEVALUE", f"0x{family.registers_address:08X}")
    module = root.find(f".//MODULE[@INSTANCE='{IP_INSTANCE}']")
    assert module is not None
    module.set("VLNV", IP_VLNV)
    for place in module.iter("REGISTERS"):
        if registers != "theirs":
            first = place[0]
            place[:] = [_renamed(first, entry) for entry in
                        (REGISTERS if registers == "ours" else ())]
    return ElementTree.tostring(root, "utf-8", xml_declaration=True)


@pytest.fixture
def grafted(tmp_path):
    """Makes a .hwh of the real one, with such a peripheral."""
    def make(board, registers="theirs"):
        path = tmp_path / "bitstep.hwh"
        path.write_bytes(graft(board.family.name, registers))
        return path

    return make


def _renamed(element, register):
    """A real register's entry with the name and the offset of one of ours."""
    made = ElementTree.fromstring(ElementTree.tostring(element))
    made.set("NAME", register.name)
    offset = made.find("PROPERTY[@NAME='ADDRESS_OFFSET']")
    assert offset is not None
    offset.set("VALUE", f"0x{register.offset:X}")
    return made


@ALL
def test_other_designs_are_refused(board, tmp_path):
    path = tmp_path / "base.hwh"
    path.write_text(text_of(board.family.name), encoding="utf-8-sig")
    with pytest.raises(ToolError, match=f"has no {IP_INSTANCE} of type {IP_VLNV}"):
        check_handoff(path, board)
    with pytest.raises(ToolError, match="is compressed with gzip: unpack it"):
        check_handoff(DATA / FILES[board.family.name], board)
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(ToolError, match="is no whole XML"):
        check_handoff(path, board)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["pynq-z2", "kv260", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("pynq-z1", "ultra96"))])
def test_registers_and_addresses_are_found(name, grafted):
    """Registers are found as Vivado lists them, so those of another IP are noticed; the real files
    are of a family of boards.
    """
    board = BOARDS[name]
    with pytest.raises(ToolError, match="lists other registers"):
        check_handoff(grafted(board), board)
    for registers in ("ours", "none"):
        check_handoff(grafted(board, registers), board)
    path = grafted(board, "ours")
    address = f"0x{board.family.registers_address:08X}"
    path.write_text(path.read_text().replace(address, "0x42000000"))
    with pytest.raises(ToolError, match=f"{IP_INSTANCE} at 0x42000000, not at {address}"):
        check_handoff(path, board)


@pytest.mark.parametrize(("name", "expected"), [
    pytest.param("pynq-z1", [], marks=pytest.mark.slow), ("pynq-z2", []),
    ("ultra96", ["from RPLL .*PL0_REF_CTRL__SRCSEL",
                 r"divides by 15 x 1, for a PLL of 2250 MHz; .* of 100 MHz instead of 150"]),
    ("kv260", ["from RPLL .*PL0_REF_CTRL__SRCSEL",
               r"divides by 15 x 1, for a PLL of 1875 MHz; .* of 66\.6667 MHz instead of 125"])])
def test_clock_of_the_description(name, expected, grafted):
    """Vivado's own choice on Zynq UltraScale+ is another PLL, as processing_system.py says."""
    found = check_handoff(grafted(BOARDS[name], "ours"), BOARDS[name])
    assert len(found) == len(expected)
    for warning, pattern in zip(found, expected, strict=True):
        assert re.search(pattern, warning)


@ALL
def test_settings_are_parameters_of_vivado(board):
    """A misspelled one would stop the build, or be another property."""
    known = parameters(processing_system(real(board.family.name), board.family))
    most = FOUR_ROW_PORTS if 4 in board.family.row_ports else TWO_ROW_PORTS
    names = [name.removeprefix("CONFIG.") for name in ps_settings(board, REFETCHING)[::2]]
    assert len(names) > 10
    assert set(names) <= set(known)
    assert {name.removeprefix("CONFIG.") for name in ps_settings(board, most)[::2]} <= set(known)
    assert {*board.family.dividers, board.family.source[0]} <= set(known)
    # Of the settings that Vivado's own board file makes for the same board, none is another one.
    if board.name == "pynq-z2":
        values = dict(zip(names, map(str, ps_settings(board, REFETCHING)[1::2]), strict=True))
        same = [name for name in values if name.startswith(("PCW_ENET0", "PCW_CRYSTAL", "PCW_FCLK0",
                                                            "PCW_PRESET_BANK1", "PCW_FPGA0"))]
        assert len(same) == 8
        assert [values[name] for name in same] == [known[name] for name in same]


@ALL
def test_pins_and_ports_are_those_of_vivado(board):
    """HP0 and HP2 alone, and no other: the real designs do not use all."""
    family = board.family
    module = processing_system(real(family.name), family)
    pins = {entry.get("NAME") for entry in module.findall("PORTS/PORT")}
    buses = {entry.get("NAME") for entry in module.findall("BUSINTERFACES/BUSINTERFACE")}
    assert {family.clock, family.reset, family.interrupt} <= pins
    for port in ("HP0", "HP2"):
        assert family.named(family.memory_clock, port) in pins
        assert family.named(family.memory, port) in buses
    if family is ZYNQ:
        assert family.master_clock in pins
        assert family.master in buses
    assert module.get("VLNV", "").startswith(f"xilinx.com:ip:{family.cell}:")


@ALL
def test_memory_behind_the_ports(board):
    """The pattern of build.tcl takes the memory, and not the flash or the on-chip memory."""
    family = board.family
    root = real(family.name)
    instance = processing_system(root, family).get("INSTANCE")
    ranges = [entry for entry in root.iter("MEMRANGE") if entry.get("INSTANCE") == instance
              and fnmatch.fnmatch(entry.get("SLAVEBUSINTERFACE", ""),
                              family.memory.replace("{port}", "HP?"))]
    assert ranges
    for entry in ranges:
        port = re.findall(r"HP\d", entry.get("SLAVEBUSINTERFACE", ""))[0]
        is_memory = fnmatch.fnmatch(entry.get("ADDRESSBLOCK", ""),
                                    family.named(family.memory_segment, port))
        assert is_memory == (entry.get("BASEVALUE") == "0x00000000")
        assert is_memory == ("DDR" in entry.get("ADDRESSBLOCK", ""))


def test_facts_of_the_board():
    """Clocks and memory of a PYNQ-Z2 as its vendor's overlay has them."""
    board = BOARDS["pynq-z2"]
    known = parameters(processing_system(real("zynq"), board.family))
    assert float(known["PCW_IO_IO_PLL_FREQMHZ"]) == board.pll_mhz
    assert float(known["PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ"]) == board.clock_mhz
    memory_gbps = 2e-3 * float(known["PCW_UIPARAM_ACT_DDR_FREQ_MHZ"]) \
        * int(known["PCW_UIPARAM_DDR_BUS_WIDTH"].removesuffix(" Bit")) / 8
    assert memory_gbps == pytest.approx(board.facts.memory_gbps)
    assert int(known["C_S_AXI_HP0_DATA_WIDTH"]) == board.family.memory_width
    system = real("zynq").find("SYSTEMINFO")
    assert system is not None
    assert board.part == "xc" + "".join(
        system.get(name, "") for name in ("DEVICE", "PACKAGE", "SPEEDGRADE"))


@ALL
def test_simulated_handoffs_are_like_real_ones(board):
    """The simulated ones are made from the project's own tables, and would confirm whatever these
    say: every element, attribute and parameter in them is one that Vivado writes.
    """
    root, made = real(board.family.name), ElementTree.fromstring(make_handoff(board, REFETCHING))

    def elements(tree):
        return {(parent.tag, child.tag) for parent in tree.iter() for child in parent}

    def attributes(tree):
        return {(element.tag, name) for element in tree.iter() for name in element.attrib}

    assert elements(made) <= elements(root)
    assert attributes(made) <= attributes(root)
    ours, theirs = (parameters(processing_system(tree, board.family)) for tree in (made, root))
    assert set(ours) <= set(theirs)
