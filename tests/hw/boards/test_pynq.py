# amaranth: UnusedElaboratable=no
"""PYNQ boards: what Vivado gets. There is no Vivado here: its Tcl runs with commands that only
record how they are called, and the flow with a program that writes what Vivado would.
"""

import dataclasses
import functools
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from amaranth.hdl import Fragment

from bitstep.pipeline.boards import BoardFacts
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import ADDRESS_WIDTH, REGISTERS
from bitstep_hw.axi.buses import MAX_BURST
from bitstep_hw.boards import __main__ as boards
from bitstep_hw.boards import pynq
from bitstep_hw.boards.vivado import IP_INSTANCE, IP_VLNV, ToolError, flow
from bitstep_hw.boards.vivado.flow import (
    ACCESS,
    SOURCES,
    Vivado,
    build,
    find_vivado,
    settings,
    sources,
    write_sources,
)
from bitstep_hw.boards.vivado.results import check_handoff, utilization
from bitstep_hw.boards.vivado.wrapper import buses, wrapper
from bitstep_hw.boards.zynq import BOARDS, REGISTERS_BYTES
from bitstep_hw.identity import identity
from bitstep_hw.top import Top, to_verilog
from bitstep_lab.races.board_profiles import PROFILES
from bitstep_sim.board.verilator import find_verilator

SMALL = PipelineConfig(bits=4, max_features=32, lookahead=0)
REFETCHING = PipelineConfig(bits=2, max_features=32, lookahead=0, refetch=True)
WOVEN = PipelineConfig(bits=16, row_format="woven", max_features=32, lookahead=0)
MODELS = PipelineConfig(bits=4, max_features=32, lookahead=0, models=2)
CONFIGS = {"two ports": SMALL, "three ports": REFETCHING, "woven rows": WOVEN}


@functools.cache
def verilog(config):
    return to_verilog(config)


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    """Verilog of a pipeline takes seconds."""
    monkeypatch.setattr(flow, "to_verilog", verilog)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_default_pipelines(board):
    configs = {bits: board.facts.config(bits) for bits in board.facts.bus_widths}
    widths = board.facts.bus_widths | {16: board.facts.woven_bus_width}
    for bits, config in (configs | {16: board.facts.woven_config()}).items():
        assert (config.bits, config.bus_width, config.cycles_per_update) == (bits, widths[bits], 4)
        assert all(config.allows_lookahead(config.required_lookahead(beats), beats)
                   for beats in range(1, config.max_beats + 1))
        board.check(config)
    assert sorted(board.facts.bus_widths) == [1, 2, 4, 8]
    with pytest.raises(ValueError, match="are for 1, 2, 4, 8 bits, not 3"):
        board.facts.config(3)


def counted():
    """LUT, FF, RAMB36 and DSP of each pipeline in docs/boards-pynq.md, where Yosys's counts are."""
    text = Path(__file__).parents[3].joinpath("docs/boards-pynq.md").read_text("utf-8")
    rows = (line.strip("| \n").split(" | ") for line in text.splitlines())
    return {name.strip("`"): [float(cell.replace(",", "")) for cell in cells[:4]]
            for name, *cells in rows if re.fullmatch(r"`w\d+-b\d.*`", name)}


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_default_pipelines_fit(board):
    """A default that is changed must be counted again (`bitstep_sim.reports.area.synthesize`). A
    tenth is for what the block design adds.
    """
    pipelines = counted()
    available = [board.facts.resources[name] for name in ("LUT", "FF", "RAMB36", "DSP")]
    for config in (*map(board.facts.config, board.facts.bus_widths), board.facts.woven_config()):
        used = pipelines[config.name]
        assert max(a / b for a, b in zip(used, available, strict=True)) < 0.9


def test_bus_must_fit_the_memory_ports():
    with pytest.raises(ValueError, match="ports of pynq-z1 have 64 bits, fewer than the row bus"):
        BOARDS["pynq-z1"].check(PipelineConfig(bus_width=128))
    BOARDS["kv260"].check(PipelineConfig(bus_width=128))


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_profile_is_of_the_board(board, tmp_path):
    """The races simulate the clock that Vivado is asked for."""
    simulated = PROFILES[board.name]
    assert simulated.clock_hz == 1e6 * board.clock_mhz
    assert simulated.bus_width == board.family.memory_width
    assert simulated.memory_latency == round(0.3 * board.clock_mhz)
    values = ps_values(board, tmp_path)
    clock = "CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ" if board.family.name == "zynq" \
        else "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"
    assert float(values[clock]) * 1e6 == simulated.clock_hz


@pytest.mark.parametrize("config", [WOVEN, MODELS], ids=["woven rows", "two models"])
def test_same_ports_as_the_others(config):
    """So what is checked for those holds for these."""
    assert Top(config).signature == Top(SMALL).signature
    assert BOARDS["pynq-z2"].ports(config) == BOARDS["pynq-z2"].ports(SMALL)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_bursts_and_addresses_fit(board):
    assert board.family.max_burst >= MAX_BURST
    assert 1 << ADDRESS_WIDTH <= REGISTERS_BYTES
    places = (board.family.registers_address, board.family.interrupts_address)
    assert all(place % REGISTERS_BYTES == 0 for place in places)
    assert abs(places[0] - places[1]) >= REGISTERS_BYTES


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_wrapper_connects_every_port(config, tmp_path):
    text = wrapper(verilog(config), title=config.name)
    (tmp_path / "all.v").write_text(verilog(config) + text)
    verilator = find_verilator()
    subprocess.run([*verilator.command, "--lint-only", "--top-module", "bitstep_ip", "-Wno-lint",
                    "-Werror-PINMISSING", "-Werror-PINCONNECTEMPTY", "-Werror-IMPLICIT",
                    "-Wno-SYMRSVDWORD", str(tmp_path / "all.v")], env=verilator.environment,
                   check=True)
    found, others = buses(verilog(config))
    assert [bus.name for bus in found] == ["s_axi", "m_axi_rows", "m_axi_aux"] \
        + ["m_axi_fine"] * config.refetch
    assert [port.name for port in others] == ["interrupt"]
    inner = re.findall(r"\.(\w+)\(", text)
    assert len(inner) == len(set(inner)) == 3 + sum(len(bus.ports) for bus in found)


def test_wrapper_tells_the_packager():
    text = wrapper(verilog(REFETCHING), title="x")
    for bus, protocol, data, mode in (("s_axi", "AXI4LITE", 32, None),
                                      ("m_axi_rows", "AXI4", 64, "READ_ONLY"),
                                      ("m_axi_aux", "AXI4", 64, "READ_WRITE"),
                                      ("m_axi_fine", "AXI4", 64, "READ_ONLY")):
        parameters = re.findall(rf'"XIL_INTERFACENAME {bus}, ([^"]*)"', text)
        assert len(parameters) == 1
        assert f"PROTOCOL {protocol}, DATA_WIDTH {data}," in parameters[0]
        assert (f"READ_WRITE_MODE {mode}" in parameters[0]) == (mode is not None)
        assert ("NUM_READ_OUTSTANDING" in parameters[0]) == (mode is not None)
        assert ("NUM_WRITE_OUTSTANDING 8, NUM_WRITE_THREADS 1" in parameters[0]) == \
            (mode == "READ_WRITE")
        assert f'aximm:1.0 {bus} ARADDR" *)' in text
    assert "ASSOCIATED_BUSIF s_axi:m_axi_rows:m_axi_aux:m_axi_fine" in text
    assert ".rst(~aresetn)" in text
    assert "SENSITIVITY LEVEL_HIGH" in text
    with pytest.raises(ValueError, match="must have a module bitstep_top"):
        wrapper("module other(a);\nendmodule\n", title="x")


def test_bursts_under_way():
    """The packager is told what the masters of the top have under way at most."""
    module = Top(REFETCHING)._connected()
    Fragment.get(module, None)              # or Amaranth warns that the parts were never used
    parts = module._named_submodules
    found, _ = buses(verilog(REFETCHING))
    told = {bus.name: bus.parameters for bus in found}
    for bus, reader in (("m_axi_rows", "rows"), ("m_axi_aux", "aux"), ("m_axi_fine", "fine")):
        assert told[bus]["NUM_READ_OUTSTANDING"] == parts[reader][0].max_outstanding
        assert told[bus]["NUM_READ_THREADS"] == 1
    assert told["m_axi_rows"]["NUM_READ_OUTSTANDING"] == 15
    assert told["m_axi_aux"]["NUM_WRITE_OUTSTANDING"] == parts["models"][0].max_outstanding


class Tcl:
    """An interpreter that records every command it does not know: all of Vivado's."""

    ANSWERS = {("get_property", "PROGRESS"): "100%", ("version",): "2022.1"}

    def __init__(self, answers=()):
        self.interpreter = pytest.importorskip("tkinter").Tcl()
        self.calls, self.answers = [], {**self.ANSWERS, **dict(answers)}
        self.interpreter.createcommand("record", self._record)
        self.interpreter.eval("proc unknown {args} { return [record {*}$args] }")

    def _record(self, *words):
        self.calls.append(words)
        for start, answer in self.answers.items():
            if words[:len(start)] == start:
                return answer
        if words[0].startswith(("get_bd_", "ipx::get_", "ipx::add_")):
            # The object goes by its name, so that later calls show what they are about.
            return next(word for word in words[1:] if not word.startswith("-"))
        return words[0]

    def named(self, name):
        return [call[1:] for call in self.calls if call[0] == name]


def run_tcl(board, config, folder, **options):
    tcl = Tcl(**options)
    work = write_sources(board, config, folder)
    for name in ("project/bitstep.pipeline.results/impl_1/bitstep_wrapper.bit",
                 "project/bitstep.gen/sources_1/bd/bitstep/hw_handoff/bitstep.hwh"):
        (work / name).parent.mkdir(parents=True)
        (work / name).write_text(name)
    tcl.interpreter.eval(f"source {{{work / 'build.tcl'}}}")
    return tcl, work


@pytest.mark.parametrize("name", ["pynq-z2", "kv260"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_block_design(name, config, tmp_path):
    board = BOARDS[name]
    family, ps = board.family, board.family.instance
    tcl, work = run_tcl(board, config, tmp_path)
    ports = board.ports(config)

    made = dict(zip(*[iter(word for call in tcl.named("create_bd_cell") for word in call[-2:])] * 2,
                    strict=True))
    assert made[IP_VLNV] == IP_INSTANCE
    assert made[f"xilinx.com:ip:{family.cell}"] == ps
    buses_connected = set(tcl.named("connect_bd_intf_net"))
    for bus, (number, _) in ports.items():
        assert (f"{IP_INSTANCE}/{bus}", f"{bus}_0/S00_AXI") in buses_connected
        assert (f"{bus}_0/M00_AXI", f"{ps}/{family.memory.format(number)}") in buses_connected
    assert (f"{ps}/{family.master}", "registers_0/S00_AXI") in buses_connected
    assert ("registers_0/M00_AXI", f"{IP_INSTANCE}/s_axi") in buses_connected
    assert ("registers_0/M01_AXI", "axi_intc_0/s_axi") in buses_connected
    assert len(buses_connected) == 3 + 2 * len(ports)

    nets = tcl.named("connect_bd_net")
    assert (f"{IP_INSTANCE}/interrupt", "axi_intc_0/intr") in nets
    assert ("axi_intc_0/irq", f"{ps}/{family.interrupt}") in nets
    clocked = {pin for net in nets if net[0] == f"{ps}/{family.clock}" for pin in net[1:]}
    assert clocked >= {f"{IP_INSTANCE}/aclk", f"{ps}/{family.master_clock}", "registers_0/aclk",
                       *(f"{ps}/{family.memory_clock.format(number)}"
                         for number, _ in ports.values())}
    # Every pin is driven once.
    ends = [pin for net in nets for pin in net[1:]]
    assert len(ends) == len(set(ends))

    assigned = tcl.named("assign_bd_address")
    for place, segment in ((family.registers_address, f"{IP_INSTANCE}/s_axi/reg0"),
                           (family.interrupts_address, "axi_intc_0/S_AXI/Reg")):
        assert ("-offset", f"0x{place:08X}", "-range", f"0x{REGISTERS_BYTES:08X}",
                "-target_address_space", f"{ps}/Data", segment, "-force") in assigned
    for bus, (number, _) in ports.items():
        space = f"S_AXI_HP{number}" if name == "pynq-z2" else f"SAXIGP{number + 2}"
        segment = f"HP{number}_DDR_LOWOCM" if name == "pynq-z2" else f"HP{number}_DDR_*"
        assert ("-target_address_space", f"{IP_INSTANCE}/{bus}", f"{ps}/{space}/{segment}") \
            in assigned
    # What a port offers beside the memory is excluded, and no master's aperture is too small.
    for bus, (number, _) in ports.items():
        space = f"S_AXI_HP{number}" if name == "pynq-z2" else f"SAXIGP{number + 2}"
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
    assert ("-file", str(work / "timing.rpt")) in tcl.named("report_timing_summary")
    assert (work / "bitstep.bit").read_text().endswith("bitstep_wrapper.bit")
    assert (work / "bitstep.hwh").exists()


def test_port_without_memory(tmp_path):
    """An empty list of segments would pass in silence, and no run would read a row."""
    answers = {("get_bd_addr_segs", "zynq_ultra_ps_e_0/SAXIGP3/HP1_DDR_*"): ""}
    with pytest.raises(Exception, match=r"m_axi_aux must offer segments .*HP1_DDR_"):
        run_tcl(BOARDS["kv260"], SMALL, tmp_path, answers=answers)


def test_memory_alone_is_assigned(tmp_path):
    """Of a port with two segments of memory and two others."""
    place = "zynq_ultra_ps_e_0/SAXIGP2/HP0_"
    answers = {("get_bd_addr_segs", f"{place}DDR_*"): f"{place}DDR_LOW {place}DDR_HIGH",
               ("get_bd_addr_segs", "-quiet", "zynq_ultra_ps_e_0/SAXIGP2/*"):
               f"{place}DDR_LOW {place}LPS_OCM {place}QSPI {place}DDR_HIGH"}
    tcl, _ = run_tcl(BOARDS["kv260"], SMALL, tmp_path, answers=answers)
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


@pytest.mark.parametrize("name", BOARDS)
def test_ports_of_the_processing_system(name, tmp_path):
    board = BOARDS[name]
    text = settings(board, REFETCHING, jobs=2)
    tcl = Tcl()
    tcl.interpreter.eval(f"set here {{{tmp_path}}}\n{text}")
    words = tcl.interpreter.splitlist(tcl.interpreter.getvar("ps_settings"))
    values = dict(zip(words[::2], words[1::2], strict=True))
    for number in range(4):
        used = "PCW_USE_S_AXI_HP{}" if board.family.name == "zynq" else "PSU__USE__S_AXI_GP{}"
        width = "PCW_S_AXI_HP{}_DATA_WIDTH" if board.family.name == "zynq" \
            else "PSU__SAXIGP{}__DATA_WIDTH"
        index = number if board.family.name == "zynq" else number + 2
        assert values[f"CONFIG.{used.format(index)}"] == str(int(number < 3))
        assert values.get(f"CONFIG.{width.format(index)}") == \
            (str(board.family.memory_width) if number < 3 else None)
    assert "100" in values.values()
    assert tcl.interpreter.getvar("part") == board.part
    assert tcl.calls == []


def ps_values(board, tmp_path):
    """Settings of the processing system, by name."""
    tcl = Tcl()
    tcl.interpreter.eval(f"set here {{{tmp_path}}}\n{settings(board, SMALL, jobs=2)}")
    words = tcl.interpreter.splitlist(tcl.interpreter.getvar("ps_settings"))
    return dict(zip(words[::2], words[1::2], strict=True))


def test_source_of_the_clock(tmp_path):
    """The PLLs that the boards boot with, 1,000 MHz but for Ultra96's 1,500, divided to 100 MHz."""
    pl0, iopll = "CONFIG.PSU__CRL_APB__PL0_REF_CTRL__", "CONFIG.PSU__CRL_APB__IOPLL_CTRL__"
    for name, multiplier, halved, divider in (("kv260", 60, 1, 10), ("ultra96", 45, 0, 15)):
        values = ps_values(BOARDS[name], tmp_path)
        assert BOARDS[name].pll_mhz == (100 * multiplier // 3) // (1 + halved)
        assert values[f"{pl0}SRCSEL"] == "IOPLL"
        assert values["CONFIG.PSU__OVERRIDE__BASIC_CLOCK"] == "1"
        assert (values[f"{iopll}FBDIV"], values[f"{iopll}DIV2"]) == (str(multiplier), str(halved))
        assert (values[f"{pl0}DIVISOR0"], values[f"{pl0}DIVISOR1"]) == (str(divider), "1")
    for name in ("pynq-z1", "pynq-z2"):
        values = ps_values(BOARDS[name], tmp_path)
        assert BOARDS[name].pll_mhz == 1000
        assert values["CONFIG.PCW_FCLK0_PERIPHERAL_CLKSRC"] == "IO PLL"
        assert values["CONFIG.PCW_ENET0_PERIPHERAL_ENABLE"] == "1"
        assert values["CONFIG.PCW_ENET0_ENET0_IO"] == "MIO 16 .. 27"
        assert values["CONFIG.PCW_ENET0_PERIPHERAL_FREQMHZ"] == "1000 Mbps"


@pytest.mark.parametrize(("first", "message"), [
    ("4", "must have the product 10, .*, not 16"), ("5", None), ("", None)])
def test_dividers_are_looked_at_early(first, message, tmp_path):
    """Before hours of synthesis; a Vivado that tells nothing goes on."""
    second = "4" if first == "4" else "2"
    names = BOARDS["pynq-z2"].family.dividers
    answers = {("get_property", f"CONFIG.{name}"): value
               for name, value in zip(names, (first, second), strict=True)}
    if message is None:
        run_tcl(BOARDS["pynq-z2"], SMALL, tmp_path, answers=answers)
    else:
        with pytest.raises(Exception, match=message):
            run_tcl(BOARDS["pynq-z2"], SMALL, tmp_path, answers=answers)


@pytest.mark.parametrize(("name", "dividers", "change", "message"), [
    ("pynq-z2", (4, 4), (),
     r"4 x 4, for a PLL of 1600 MHz; .* 1000 MHz, so pynq would set 62\.5 MHz instead of 100\."),
    ("kv260", (8, 1), (), "would set 125 MHz"), ("ultra96", (8, 1), (), r"would set 187\.5 MHz"),
    ("kv260", None, ('VALUE="IOPLL"', 'VALUE="RPLL"'),
     "must divide the clock from IOPLL, .*PL0_REF_CTRL__SRCSEL is RPLL"),
    ("pynq-z1", None, ('NAME="PCW_FCLK0_PERIPHERAL_DIVISOR1"', 'NAME="OTHER"'),
     "must tell the clock's dividers, .* not 5 and nothing"),
])
def test_clock_of_the_description(name, dividers, change, message, tmp_path):
    """As pynq 3 takes it: dividers for a PLL that is not the board's."""
    from bitstep_sim.pynq_board.handoff import make_handoff
    path = tmp_path / "x.hwh"
    path.write_text(make_handoff(BOARDS[name], SMALL))
    check_handoff(path, BOARDS[name])
    text = make_handoff(BOARDS[name], SMALL, dividers=dividers)
    path.write_text(text.replace(*change) if change else text)
    with pytest.raises(ToolError, match=message):
        check_handoff(path, BOARDS[name])


def test_sources_are_reproducible():
    board = BOARDS["pynq-z2"]
    assert sources(board, SMALL) == sources(board, SMALL)
    assert tuple(sources(board, SMALL)) == SOURCES


# The flow, with a Vivado that is a few lines of Python.

VIVADO = """\
    #!{python}
    import pathlib, sys, time
    sys.path[:0] = {path!r}
    if sys.argv[1:] == ["-version"]:
        print({said!r})
        raise SystemExit
    assert sys.argv[-2:] == ["-source", "build.tcl"] and pathlib.Path("settings.tcl").exists()
    {action}
    pathlib.Path("bitstep.bit").write_bytes(b"bits")
    from bitstep_sim.pynq_board.handoff import make_handoff
    from bitstep_hw.boards.zynq import BOARDS
    from bitstep.pipeline.config import PipelineConfig
    text = make_handoff(BOARDS[{board!r}], PipelineConfig(**{config!r}))
    pathlib.Path("bitstep.hwh").write_text(text.replace(*{change!r}))
    pathlib.Path("utilization.rpt").write_text({report!r})
    pathlib.Path("timing.rpt").write_text({timing!r})
    digest = pathlib.Path("settings.tcl").read_text().split("set sources_digest ")[1]
    pathlib.Path("result.txt").write_text("vivado 2022.1\\nsources " + digest)
    """
REPORT = """\
| Slice LUTs*                | 12345 |     0 |          0 |     53200 | 23.20 |
| Slice Registers            |  7000 |     0 |          0 |    106400 |  6.58 |
| Block RAM Tile |   28.5 |     0 |          0 |       140 | 20.36 |
| DSPs           |  107 |     0 |          0 |       220 | 48.64 |
"""
TIMING = """\
| Design Timing Summary
| ---------------------

    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)  \
THS Failing Endpoints  THS Total Endpoints     WPWS(ns)     TPWS(ns)  TPWS Failing Endpoints  \
TPWS Total Endpoints
    -------      -------  ---------------------  -------------------      -------      -------  \
---------------------  -------------------     --------     --------  ----------------------  \
--------------------
      {setup}        0.000                      0                40513        {hold}        0.000 \
                     0                40513        {pulse}        0.000                       0 \
               14233
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts such a Vivado on PATH."""
    def put(said="vivado v2022.1 (64-bit)", setup=0.5, hold="0.021", pulse="3.750",
            action="pass", change=("", ""), board="pynq-z2"):
        program = tmp_path / "bin" / "vivado"
        program.parent.mkdir(exist_ok=True)
        program.write_text(textwrap.dedent(VIVADO).format(
            python=sys.executable, path=sys.path, said=said, action=action,
            timing=TIMING.format(setup=setup, hold=hold, pulse=pulse), change=change,
            board=board, config=SMALL.to_dict(), report=REPORT))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        return Vivado(str(program), "2022.1")
    return put


def run_flow(tmp_path, vivado, **options):
    values = {"folder": tmp_path / "work", "target": tmp_path / "out", "jobs": 1,
              "timeout_s": 60.0} | options
    return build(BOARDS["pynq-z2"], SMALL, vivado, **values)


def test_flow(tmp_path, install):
    vivado = install()
    assert find_vivado(BOARDS["pynq-z2"]) == vivado
    path = run_flow(tmp_path, vivado)
    found = json.loads(path.read_text())
    assert path.name == f"pynq-z2-{SMALL.name}.json"
    assert found["identity"] == f"{identity(SMALL):032x}"
    assert found["config"] == SMALL.to_dict()
    assert found["tools"] == {"vivado": "2022.1"}
    assert found["clock_mhz"] == {"constraint": 100, "achieved": 105.26}
    assert found["slack_ns"] == {"setup": 0.5, "hold": 0.021, "pulse width": 3.75}
    assert found["resources"]["LUT"] == {"used": 12345, "available": 53200}
    assert found["resources"]["RAMB36"] == {"used": 28.5, "available": 140}
    assert path.with_suffix(".bit").read_bytes() == b"bits"
    assert path.with_suffix(".hwh").exists()
    # What was built is not built again.
    assert run_flow(tmp_path, install(action="raise SystemExit(1)")) == path


@pytest.mark.parametrize(("options", "message"), [
    ({"setup": -0.3}, r"misses 100 MHz on pynq-z2: its setup slack is -0\.3 ns"),
    ({"hold": -0.05}, r"its hold slack is -0\.05 ns"),
    ({"pulse": -0.1}, r"its pulse width slack is -0\.1 ns"),
    ({"setup": "NA"}, r"must tell the slack of setup as WNS\(ns\), not 'NA'"),
    ({"setup": ""}, r"must tell the slack of setup as WNS\(ns\), not 'nothing'"),
    ({"pulse": "NA"}, "slack of pulse width"),
    ({"action": "print('ERROR: [Synth 8-1]'); raise SystemExit(1)"},
     r"Vivado failed with code 1 in .*\nERROR: \[Synth 8-1\]"),
    ({"action": "raise SystemExit(0)"}, "Vivado failed with code 0"),
    ({"change": ("0x43C00000", "0x43C10000")}, "at 0x43C10000, not at 0x43C00000"),
    ({"change": ("bitstep_ip:1.0", "bitstep_ip:2.0")}, "has no bitstep_0 of type bitstep:user:"),
    ({"change": ('NAME="ROWS"', 'NAME="LINES"')}, "lists other registers"),
])
def test_flow_that_fails(tmp_path, install, options, message):
    with pytest.raises(ToolError, match=message):
        run_flow(tmp_path, install(**options))
    assert not (tmp_path / "out").exists()


def test_flow_that_hangs(tmp_path, install):
    with pytest.raises(ToolError, match=r"took more than .* hours .*--timeout"):
        run_flow(tmp_path, install(action="time.sleep(60)"), timeout_s=0.5)


TEXT = "bits=4,max_features=32,lookahead=0"         # SMALL


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, install, capsys):
    """A folder of sources, and what Vivado makes in it on another machine."""
    monkeypatch.chdir(tmp_path)
    assert boards.main(["pynq-z2", "--tcl-only", "away", "--jobs", "7", TEXT]) == 0
    assert "python -m bitstep_hw.boards pynq-z2 --collect away" in capsys.readouterr().out
    folder = tmp_path / "away" / f"pynq-z2-{SMALL.name}"

    def run(**options):
        program = install(**options).program
        subprocess.run([program, "-source", "build.tcl"], cwd=folder, check=True)
        monkeypatch.setenv("PATH", "/nowhere")
        return folder

    return run


@pytest.mark.parametrize("named", [[TEXT], []])
def test_collect(tmp_path, elsewhere, named, capsys, monkeypatch):
    """A folder that was built elsewhere becomes files that the device and `deploy` take."""
    from bitstep.devices.pynq import read_bitstream
    monkeypatch.setattr(BoardFacts, "config", lambda board, bits: SMALL)
    elsewhere()
    assert boards.main(["pynq-z2", "--collect", "away", *named]) == 0
    path = tmp_path / "bitstreams" / f"pynq-z2-{SMALL.name}.bit"
    found = read_bitstream(path).manifest
    assert (found.board, found.config, found.identity) == ("pynq-z2", SMALL, identity(SMALL))
    assert f"wrote bitstreams/pynq-z2-{SMALL.name}.json" in capsys.readouterr().out


def test_collect_results_alone(tmp_path, elsewhere):
    """The sources need not come back."""
    folder = elsewhere()
    for name in SOURCES:
        (folder / name).unlink()
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 0


def _other_sources(folder):
    result = folder / "result.txt"
    result.write_text(result.read_text().replace("sources ", "sources 0"))


def _corrected_tcl(folder):
    with (folder / "build.tcl").open("a") as file:
        file.write("# corrected\n")


@pytest.mark.parametrize(("options", "damage", "message"), [
    ({}, lambda folder: (folder / "bitstep.hwh").unlink(), "has no bitstep.hwh: run `vivado"),
    ({}, _other_sources, "must be of the sources that this version of bitstep writes"),
    ({}, _corrected_tcl, "build.tcl was changed after it was written"),
    ({"setup": -1}, None, "its setup slack is -1 ns"),
    ({"change": ("0x43C00000", "0x43C10000")}, None, "at 0x43C10000, not at"),
])
def test_collect_refuses(tmp_path, elsewhere, capsys, options, damage, message):
    folder = elsewhere(**options)
    if damage:
        damage(folder)
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert f"1 of 1 failed: {SMALL.name}" in said
    assert not (tmp_path / "bitstreams").exists()


def test_collect_nothing(tmp_path, capsys):
    assert boards.main(["pynq-z2", "--collect", str(tmp_path)]) == 1
    assert "must hold a folder that --tcl-only wrote, such as pynq-z2-w64-b4" in \
        capsys.readouterr().err


def test_the_others_are_built(tmp_path, monkeypatch, install, capsys):
    """One that misses the clock stops no other, and each says which file to watch."""
    monkeypatch.chdir(tmp_path)
    configs = {bits: dataclasses.replace(SMALL, bits=bits, lookahead=1) for bits in (1, 2, 4, 8)}
    monkeypatch.setattr(BoardFacts, "config", lambda board, bits: configs[bits])
    monkeypatch.setattr(flow, "to_verilog", lambda config: f"// {config.name}\n{verilog(SMALL)}")
    missed = f"pathlib.Path.cwd().name == 'pynq-z2-{configs[2].name}' and sys.exit(3)"
    install(action=f"if {missed}: pass")
    assert boards.main(["pynq-z2"]) == 1
    said = capsys.readouterr()
    built = re.findall(r"^building pynq-z2-(\S+) with .*; watch (.*)$", said.out, re.MULTILINE)
    assert [name for name, _ in built] == [configs[bits].name for bits in (4, 2, 8, 1)]
    assert all(Path(path).name == "output.txt" and Path(path).exists() for _, path in built)
    assert f"1 of 4 failed: {configs[2].name}\n" in said.err
    assert len(list(Path("bitstreams").glob("*.json"))) == 3


@pytest.mark.parametrize(("said", "message"), [
    ("vivado v2019.1 (64-bit)", r"must be 2020\.2 or later, not 2019\.1"),
    ("something else", "does not tell a version of Vivado but 'something else'")])
def test_other_vivado(install, said, message):
    install(said=said)
    with pytest.raises(ToolError, match=message) as error:
        find_vivado(BOARDS["pynq-z2"])
    assert error.value.code == 2


@pytest.mark.parametrize("name", ["pynq-z1", "ultra96"])
def test_without_vivado(name, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    assert boards.main([name, "8"]) == 2
    said = capsys.readouterr().err
    assert f"needs Vivado (2020.2 or later; its free edition has {BOARDS[name].part})" in said
    assert f"python -m bitstep_hw.boards {name} --tcl-only DIR" in said


def test_sources_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    text = "bits=4,max_features=32,lookahead=0"
    assert boards.main(["pynq-z2", "--tcl-only", str(tmp_path), text]) == 0
    folder = tmp_path / f"pynq-z2-{SMALL.name}"
    assert sorted(path.name for path in folder.iterdir()) == sorted(SOURCES)
    assert "vivado -mode batch -source build.tcl" in capsys.readouterr().out


@pytest.mark.parametrize("texts, config", [
    ([], BOARDS["pynq-z2"].facts.woven_config()), (["max_features=32,lookahead=0"], WOVEN)])
def test_sources_of_woven_rows(tmp_path, monkeypatch, texts, config):
    monkeypatch.setattr(flow, "to_verilog", lambda config: verilog(WOVEN))
    assert boards.main(["pynq-z2", "--woven", "--tcl-only", str(tmp_path), *texts]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"pynq-z2-{config.name}"]


def test_woven_rows_have_no_bits(capsys):
    with pytest.raises(SystemExit, match="2"):
        boards.main(["pynq-z2", "--woven", "4"])
    assert "Bits must not be given with --woven, not 4" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "message"), [
    ("3", "are for 1, 2, 4, 8 bits, not 3"), ("bus_width=128", "memory ports of pynq-z2 have 64"),
    ("colour=1", "is no field of a configuration")])
def test_bad_pipeline(text, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        pynq.main("pynq-z2", [text])
    assert message in capsys.readouterr().err


def test_utilization_of_newer_devices(tmp_path):
    path = tmp_path / "utilization.rpt"
    path.write_text("| CLB LUTs  |  9000 |  0 |  0 |  117120 |  7.68 |\n| Other | 1 |\n")
    assert utilization(path) == {"LUT": {"used": 9000, "available": 117120}}


def test_description_without_registers(tmp_path):
    """As Vivado writes it if the packaged IP has none: the driver knows them."""
    from bitstep_sim.pynq_board.handoff import make_handoff
    path = tmp_path / "x.hwh"
    path.write_text(make_handoff(BOARDS["kv260"], SMALL, with_registers=False))
    check_handoff(path, BOARDS["kv260"])
