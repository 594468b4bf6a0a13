# amaranth: UnusedElaboratable=no
"""The Tcl that Vivado gets, in a real tclsh with a stubbed Vivado: the block design for every board
and the settings of its processing system.
"""

import re

import pytest
from stubbed_vivado import (
    FOUR_ROW_PORTS,
    REFETCHING,
    SMALL,
    TWO_ROW_PORTS,
    WITH_OTHER_PORTS,
    run_vivado,
    variables,
)

from bitstep.pipeline.registers import REGISTERS
from bitstep_hw.boards.vivado import IP_INSTANCE, IP_VLNV
from bitstep_hw.boards.vivado.sources import ACCESS, settings, write_sources
from bitstep_hw.boards.zynq import BOARDS, REGISTERS_BYTES
from bitstep_lab.races.board_profiles import PROFILES

# By Vivado's documents: the slave of the processing system, its clock, address space and memory.
ZYNQ = {f"HP{port}": (f"S_AXI_HP{port}", f"S_AXI_HP{port}_ACLK", f"S_AXI_HP{port}",
                      f"HP{port}_DDR_LOWOCM") for port in range(4)}
ULTRASCALE = {
    **{f"HPC{port}": (f"S_AXI_HPC{port}_FPD", f"saxihpc{port}_fpd_aclk", f"SAXIGP{port}",
                      f"HPC{port}_DDR_*") for port in range(2)},
    **{f"HP{port}": (f"S_AXI_HP{port}_FPD", f"saxihp{port}_fpd_aclk", f"SAXIGP{port + 2}",
                     f"HP{port}_DDR_*") for port in range(4)}}
# Ports for each number of those of rows: rows first, then labels and models, then fine rows.
TAKEN = {("zynq", 1): ["HP0", "HP1", "HP2"], ("zynq", 2): ["HP0", "HP2", "HP1", "HP3"],
         ("zynquplus", 1): ["HP0", "HP1", "HP2"], ("zynquplus", 2): ["HP0", "HP3", "HP1", "HP2"],
         ("zynquplus", 4): ["HP0", "HP1", "HP2", "HP3", "HPC0", "HPC1"]}


def names_of(board, config):
    """Of each bus of the top, in order: its own name and those of its port, by what is taken."""
    rows = ["m_axi_rows", "m_axi_rows1", "m_axi_rows2", "m_axi_rows3"][:config.row_ports]
    buses = [*rows, "m_axi_aux"] + ["m_axi_fine"] * config.refetch
    names = ZYNQ if board.family.name == "zynq" else ULTRASCALE
    taken = TAKEN[board.family.name, config.row_ports]
    return {bus: names[port] for bus, port in zip(buses, taken, strict=False)}


def run_tcl(board, config, folder, **options):
    """A whole build that must come to its end."""
    work = write_sources(board, config, folder)
    session = run_vivado(work, **options)
    assert session.code == 0, session.output
    return session, work


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("config", WITH_OTHER_PORTS)
def test_block_design(name, config, tmp_path):
    board = BOARDS[name]
    family, ps = board.family, board.family.instance
    if config.row_ports not in family.row_ports:
        with pytest.raises(ValueError, match="has none left with 4: choose a row_ports of at most"):
            board.check(config)
        return
    board.check(config)
    tcl, work = run_tcl(board, config, tmp_path)
    ports = names_of(board, config)

    made = dict(zip(*[iter(word for call in tcl.named("create_bd_cell") for word in call[-2:])] * 2,
                    strict=True))
    assert made[IP_VLNV] == IP_INSTANCE
    assert made[f"xilinx.com:ip:{family.cell}"] == ps
    buses_connected = set(tcl.named("connect_bd_intf_net"))
    for bus, (slave, *_) in ports.items():
        assert (f"{IP_INSTANCE}/{bus}", f"{bus}_0/S00_AXI") in buses_connected
        assert (f"{bus}_0/M00_AXI", f"{ps}/{slave}") in buses_connected
    assert (f"{ps}/{family.master}", "registers_0/S00_AXI") in buses_connected
    assert ("registers_0/M00_AXI", f"{IP_INSTANCE}/s_axi") in buses_connected
    assert ("registers_0/M01_AXI", "axi_intc_0/s_axi") in buses_connected
    assert len(buses_connected) == 3 + 2 * len(ports)

    nets = tcl.named("connect_bd_net")
    assert (f"{IP_INSTANCE}/interrupt", "axi_intc_0/intr") in nets
    assert ("axi_intc_0/irq", f"{ps}/{family.interrupt}") in nets
    clocked = {pin for net in nets if net[0] == f"{ps}/{family.clock}" for pin in net[1:]}
    assert clocked >= {f"{IP_INSTANCE}/aclk", f"{ps}/{family.master_clock}", "registers_0/aclk",
                       *(f"{ps}/{clock}" for _, clock, _, _ in ports.values())}
    # Every pin is driven once.
    ends = [pin for net in nets for pin in net[1:]]
    assert len(ends) == len(set(ends))

    assigned = tcl.named("assign_bd_address")
    for place, segment in ((family.registers_address, f"{IP_INSTANCE}/s_axi/reg0"),
                           (family.interrupts_address, "axi_intc_0/S_AXI/Reg")):
        assert ("-offset", f"0x{place:08X}", "-range", f"0x{REGISTERS_BYTES:08X}",
                "-target_address_space", f"{ps}/Data", segment, "-force") in assigned
    for bus, (_, _, space, segment) in ports.items():
        assert ("-target_address_space", f"{IP_INSTANCE}/{bus}", f"{ps}/{space}/{segment}") \
            in assigned
    # What a port offers beside the memory is excluded, and no master's aperture is too small.
    for bus, (_, _, space, _) in ports.items():
        assert ("-target_address_space", f"{IP_INSTANCE}/{bus}", f"{ps}/{space}/*") \
            in tcl.named("exclude_bd_addr_seg")
        assert ("-quiet", f"{bus}:APERTURE_0", bus) in tcl.named("ipx::remove_segment")
    assert len(tcl.named("exclude_bd_addr_seg")) == len(ports)
    words = [call[0] for call in tcl.calls]
    assert words.index("ipx::remove_segment") < words.index("ipx::save_core")
    digest = re.search(r"^set sources_digest (\w{64})$", (work / "settings.tcl").read_text(),
                       re.MULTILINE)
    assert digest is not None
    assert (work / "result.txt").read_text() == f"vivado 2022.1\nsources {digest[1]}\n"


def test_port_without_memory(tmp_path):
    """An empty list of segments would pass in silence, and no run would read a row."""
    answers = {("get_bd_addr_segs", "zynq_ultra_ps_e_0/SAXIGP3/HP1_DDR_*"): ""}
    session = run_vivado(write_sources(BOARDS["kv260"], SMALL, tmp_path), answers=answers.items())
    assert session.code == 1
    assert re.search(r"m_axi_aux must offer segments .*HP1_DDR_", session.output)
    assert not session.named("launch_runs")


def test_memory_alone_is_assigned(tmp_path):
    """Of a port with two segments of memory and two others."""
    place = "zynq_ultra_ps_e_0/SAXIGP2/HP0_"
    answers = {("get_bd_addr_segs", f"{place}DDR_*"): f"{place}DDR_LOW {place}DDR_HIGH",
               ("get_bd_addr_segs", "-quiet", "zynq_ultra_ps_e_0/SAXIGP2/*"):
               f"{place}DDR_LOW {place}LPS_OCM {place}QSPI {place}DDR_HIGH"}
    tcl, _ = run_tcl(BOARDS["kv260"], SMALL, tmp_path, answers=answers.items())
    for command, segments in (("assign_bd_address", ["DDR_LOW", "DDR_HIGH"]),
                              ("exclude_bd_addr_seg", ["LPS_OCM", "QSPI"])):
        assert [call[-1].removeprefix(place) for call in tcl.named(command)
                if call[1] == "bitstep_0/m_axi_rows"] == segments


def test_registers_of_the_packaged_ip(tmp_path):
    tcl, _ = run_tcl(BOARDS["pynq-z2"], SMALL, tmp_path)
    assert [call[0] for call in tcl.named("ipx::add_register")] == \
        [register.name for register in REGISTERS]
    properties = {(call[2], call[0]): call[1] for call in tcl.named("set_property")
                  if len(call) == 3}
    for register in REGISTERS:
        assert int(properties[register.name, "address_offset"], 0) == register.offset
        assert properties[register.name, "size"] == "32"
        assert properties[register.name, "access"] == ACCESS[register.access]
        assert properties[register.name, "description"] == register.text


@pytest.mark.parametrize(("name", "config"), [
    (name, config) for name in BOARDS for config in (REFETCHING, TWO_ROW_PORTS, FOUR_ROW_PORTS)
    if (BOARDS[name].family.name, config.row_ports) in TAKEN])
def test_ports_of_the_processing_system(name, config):
    board = BOARDS[name]
    zynq = board.family.name == "zynq"
    words, part = variables(settings(board, config, jobs=2), "ps_settings", "part")
    values = dict(zip(words[::2], words[1::2], strict=True))
    taken = TAKEN[board.family.name, config.row_ports][:config.row_ports + 1 + config.refetch]
    for number, port in enumerate(ZYNQ if zynq else ULTRASCALE):
        used = f"PCW_USE_S_AXI_{port}" if zynq else f"PSU__USE__S_AXI_GP{number}"
        width = f"PCW_S_AXI_{port}_DATA_WIDTH" if zynq else f"PSU__SAXIGP{number}__DATA_WIDTH"
        assert values[f"CONFIG.{used}"] == str(int(port in taken))
        assert values.get(f"CONFIG.{width}") == \
            (str(64 if zynq else 128) if port in taken else None)
    assert {"pynq-z1": "100", "pynq-z2": "100", "ultra96": "150", "kv260": "125"}[name] \
        in values.values()
    assert part == [board.part]


def ps_values(board):
    """Settings of the processing system, by name."""
    words, = variables(settings(board, SMALL, jobs=2), "ps_settings")
    return dict(zip(words[::2], words[1::2], strict=True))


def test_source_of_the_clock():
    """The PLLs that the boards boot with, 1,000 MHz but for Ultra96's 1,500, by whole dividers."""
    pl0, iopll = "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__", "CONFIG.PSU__CRL_APB__IOPLL_CTRL__"
    for name, multiplier, halved, divider in (("kv260", 60, 1, 8), ("ultra96", 45, 0, 10)):
        values = ps_values(BOARDS[name])
        assert BOARDS[name].pll_mhz == (100 * multiplier // 3) // (1 + halved)
        assert values[f"{pl0}SRCSEL"] == "IOPLL"
        assert values["CONFIG.PSU__OVERRIDE__BASIC_CLOCK"] == "1"
        assert (values[f"{iopll}FBDIV"], values[f"{iopll}DIV2"]) == (str(multiplier), str(halved))
        assert (values[f"{pl0}DIVISOR0"], values[f"{pl0}DIVISOR1"]) == (str(divider), "1")
    for name in ("pynq-z1", "pynq-z2"):
        values = ps_values(BOARDS[name])
        assert BOARDS[name].pll_mhz == 1000
        assert values["CONFIG.PCW_FCLK0_PERIPHERAL_CLKSRC"] == "IO PLL"
        assert values["CONFIG.PCW_ENET0_PERIPHERAL_ENABLE"] == "1"
        assert values["CONFIG.PCW_ENET0_ENET0_IO"] == "MIO 16 .. 27"
        assert values["CONFIG.PCW_ENET0_PERIPHERAL_FREQMHZ"] == "1000 Mbps"


@pytest.mark.parametrize(("first", "message"), [
    ("4", "WARNING: the clock's dividers have the product 16, not 10 as for the PLL"),
    ("", "WARNING: Vivado does not tell PCW_FCLK0_PERIPHERAL_DIVISOR0, but ''"), ("5", None)])
def test_dividers_stop_no_build(first, message, tmp_path):
    """The driver sets the clock, whatever they are."""
    second = "4" if first == "4" else "2"
    names = BOARDS["pynq-z2"].family.dividers
    answers = [(("get_property", f"CONFIG.{name}"), value)
               for name, value in zip(names, (first, second), strict=True)]
    tcl, _ = run_tcl(BOARDS["pynq-z2"], SMALL, tmp_path, answers=answers)
    assert message in tcl.output if message else "WARNING" not in tcl.output


def test_strategy(tmp_path):
    """Of the implementation, before its run is launched."""
    tcl, _ = run_tcl(BOARDS["kv260"], SMALL, tmp_path)
    given = ("set_property", "strategy", "Performance_ExplorePostRoutePhysOpt", "impl_1")
    assert tcl.calls.count(given) == 1
    launched = next(n for n, call in enumerate(tcl.calls) if call[:2] == ("launch_runs", "impl_1"))
    assert tcl.calls.index(given) < launched
    assert "strategy was not set" not in tcl.output


def test_strategy_that_vivado_does_not_know_stops_no_build(tmp_path):
    work = write_sources(BOARDS["kv260"], SMALL, tmp_path)
    text = (work / "build.tcl").read_text()
    assert text.count("Performance_ExplorePostRoutePhysOpt") == 1
    (work / "build.tcl").write_text(text.replace("Performance_ExplorePostRoutePhysOpt", "Other"))
    session = run_vivado(work)
    assert session.code == 0, session.output
    assert "WARNING: property strategy was not set: ERROR: " in session.output
    assert (work / "result.txt").exists()


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_profile_is_of_the_board(board):
    """The races simulate the clock that Vivado is asked for."""
    assert board.pll_mhz % board.clock_mhz == 0
    simulated = PROFILES[board.name]
    assert simulated.clock_hz == 1e6 * board.clock_mhz
    assert simulated.bus_width == board.family.memory_width
    assert simulated.memory_latency == round(0.3 * board.clock_mhz)
    values = ps_values(board)
    clock = "CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ" if board.family.name == "zynq" \
        else "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"
    assert float(values[clock]) * 1e6 == simulated.clock_hz
