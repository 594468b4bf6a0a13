# amaranth: UnusedElaboratable=no
"""PYNQ boards: their pipelines, what Vivado gets, and the flow with a program that writes what
Vivado would. The Tcl itself is in test_vivado_tcl.py.
"""

import dataclasses
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from amaranth import Signal
from amaranth.hdl import Fragment
from stubbed_vivado import (
    BIT_PLANES,
    MODELS,
    REFETCHING,
    SMALL,
    TWO_ROW_PORTS,
    WITH_OTHER_PORTS,
    bitstream,
    verilog,
)

from bitstep.pipeline.boards import BoardFacts
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import ADDRESS_WIDTH, Loss
from bitstep.training.pipelines import pipeline_for
from bitstep_hw.axi.buses import MAX_BURST
from bitstep_hw.boards import __main__ as boards
from bitstep_hw.boards import pynq
from bitstep_hw.boards.choice import parse_config
from bitstep_hw.boards.vivado import ToolError
from bitstep_hw.boards.vivado.flow import Vivado, build, faster_choices, find_vivado
from bitstep_hw.boards.vivado.results import check_handoff, period_ns, utilization
from bitstep_hw.boards.vivado.sources import DECISIVE, SOURCES, code, digest, sources
from bitstep_hw.boards.vivado.wrapper import buses, wrapper
from bitstep_hw.boards.zynq import BOARDS, REGISTERS_BYTES
from bitstep_hw.top import Top
from bitstep_sim.board.verilator import find_verilator
from bitstep_sim.board.verilog import identity
from bitstep_sim.pynq_board.handoff import make_handoff

VERILOG_OF = "bitstep_hw.boards.vivado.sources.verilog_of"


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_default_pipelines(board):
    configs = {bits: board.facts.config(bits) for bits in board.facts.bus_widths}
    widths = board.facts.bus_widths | {16: board.facts.bit_plane_bus_width}
    for bits, config in (configs | {16: board.facts.bit_plane_config()}).items():
        assert (config.bits, config.bus_width, config.update_interval) == (
            bits, widths[bits], 4 if bits == 16 else 1)
        assert all(config.ahead.allows(config.stages.required_lookahead(beats), beats)
                   for beats in range(1, config.rows.max_beats + 1))
        board.check(config)
    assert board.facts.row_ports == tuple(board.family.row_ports)
    assert sorted(board.facts.bus_widths) == [1, 2, 4, 8]
    with pytest.raises(ValueError, match="are for 1, 2, 4, 8 bits, not 3"):
        board.facts.config(3)


@pytest.mark.parametrize(("row", "widths"), [
    ("1, 2, 4, 8 bits", lambda facts: facts.bus_widths.values()),
    ("bit-plane rows", lambda facts: [facts.bit_plane_bus_width])])
def test_bus_widths_of_the_documentation(row, widths):
    text = Path(__file__).parents[3].joinpath("docs/boards-pynq.md").read_text("utf-8")
    (cells,) = re.findall(rf"^\| bus width for {row} \| (.*) \|$", text, re.MULTILINE)
    assert BOARDS["pynq-z1"].facts.bus_widths == BOARDS["pynq-z2"].facts.bus_widths
    assert cells.split(" | ") == [", ".join(map(str, widths(BOARDS[name].facts)))
                                  for name in ("pynq-z2", "ultra96", "kv260")]


@pytest.mark.parametrize("n_features", [1, 3, 10, 20, 100, 4096])
@pytest.mark.parametrize(("name", "bits", "encoding", "options"), [
    ("32 bits", 32, "float", {}), ("`double`", 4, "double", {}),
    ("refetching", 8, "nearest", {"loss": Loss.HINGE, "refetch": True}),
    ("`--box`", 4, "nearest", {"proximal": True})])
def test_bitstreams_of_their_own(name, bits, encoding, options, n_features):
    """Those of the documentation run what `bitstep train` asks for."""
    text = " ".join(Path(__file__).parents[3].joinpath("docs/boards-pynq.md").read_text(
        "utf-8").split())
    (fields,) = re.findall(rf"{name} \(`(\w+=[\w=,]+)`", text)
    config = parse_config(fields if fields.startswith("bits=") else f"bits={bits},{fields}")
    assert config.runs(pipeline_for(n_features=n_features, bits=bits, encoding=encoding, **options))


def counted():
    """LUT, FF, RAMB36 and DSP of each pipeline in docs/boards-pynq.md, where Yosys's counts are."""
    text = Path(__file__).parents[3].joinpath("docs/boards-pynq.md").read_text("utf-8")
    rows = (line.strip("| \n").split(" | ") for line in text.splitlines())
    return {name.strip("`"): [float(cell.replace(",", "")) for cell in cells[:4]]
            for name, *cells in rows if re.fullmatch(r"`w\d+-b\d.*`", name)}


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_default_pipelines_fit(board):
    """A default that is changed must be counted again (`python -m bitstep_sim.reports.area --board
    NAME`). A tenth is for what the block design adds.
    """
    pipelines = counted()
    available = [board.facts.resources[name] for name in ("LUT", "FF", "RAMB36", "DSP")]
    for config in (*map(board.facts.config, board.facts.bus_widths),
                   board.facts.bit_plane_config()):
        used = pipelines[config.name]
        assert max(a / b for a, b in zip(used, available, strict=True)) < 0.9


def test_bus_must_fit_the_memory_ports():
    with pytest.raises(ValueError, match=r"ports of pynq-z1 have 64 bits, fewer than those of .*: "
                       "choose a bus_width of at most 64 for row_ports=1, or of 128 for "
                       "row_ports=2"):
        BOARDS["pynq-z1"].check(PipelineConfig(bus_width=128))
    BOARDS["pynq-z1"].check(PipelineConfig(bus_width=128, row_ports=2))
    BOARDS["kv260"].check(PipelineConfig(bus_width=128))
    BOARDS["kv260"].check(PipelineConfig(bus_width=512, row_ports=4))


@pytest.mark.parametrize("config", [BIT_PLANES, MODELS], ids=["bit-plane rows", "two models"])
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


@pytest.mark.by_day(1)
@pytest.mark.parametrize("config", WITH_OTHER_PORTS)
def test_wrapper_connects_every_port(config, tmp_path):
    text = wrapper(verilog(config), title=config.name)
    (tmp_path / "all.v").write_text(verilog(config) + text)
    verilator = find_verilator()
    subprocess.run([*verilator.command, "--lint-only", "--top-module", "bitstep_ip", "-Wno-lint",
                    "-Werror-PINMISSING", "-Werror-PINCONNECTEMPTY", "-Werror-IMPLICIT",
                    "-Wno-SYMRSVDWORD", str(tmp_path / "all.v")], env=verilator.environment,
                   check=True)
    found, others = buses(verilog(config))
    assert [bus.name for bus in found] == [
        "s_axi", "m_axi_rows", "m_axi_rows1", "m_axi_rows2", "m_axi_rows3"][:1 + config.row_ports] \
        + ["m_axi_aux"] + ["m_axi_fine"] * config.refetch
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
    module = Top(REFETCHING)._connected(Signal())
    Fragment.get(module, None)              # or Amaranth warns that the parts were never used
    parts = module._named_submodules
    found, _ = buses(verilog(REFETCHING))
    told = {bus.name: bus.parameters for bus in found}
    for bus, reader in (("m_axi_rows", "rows"), ("m_axi_aux", "aux"), ("m_axi_fine", "fine")):
        assert told[bus]["NUM_READ_OUTSTANDING"] == parts[reader][0].max_outstanding
        assert told[bus]["NUM_READ_THREADS"] == 1
    assert told["m_axi_rows"]["NUM_READ_OUTSTANDING"] == 15
    module = Top(TWO_ROW_PORTS)._connected(Signal())
    Fragment.get(module, None)
    found, _ = buses(verilog(TWO_ROW_PORTS))
    told = {bus.name: bus.parameters for bus in found}
    for number, part in enumerate(module._named_submodules["rows"][0].parts):
        bus = told[f"m_axi_rows{number or ''}"]
        assert bus["NUM_READ_OUTSTANDING"] == part.max_outstanding
        assert bus["DATA_WIDTH"] == part.data_width == 64
    assert told["m_axi_aux"]["NUM_WRITE_OUTSTANDING"] == parts["models"][0].max_outstanding


@pytest.mark.parametrize(("name", "dividers", "change", "message"), [
    ("pynq-z2", (4, 4), (),
     r"4 x 4, for a PLL of 1600 MHz; .* 1000 MHz, so .* a clock of 62\.5 MHz instead of 100\."),
    ("kv260", (10, 1), (), "a clock of 100 MHz instead of 125"),
    ("ultra96", (8, 1), (), r"of 187\.5 MHz instead of 150"),
    ("kv260", None, ('VALUE="IOPLL"', 'VALUE="RPLL"'),
     r"divides the clock from RPLL \(.*PL0_REF_CTRL__SRCSEL\) instead of IOPLL"),
    ("pynq-z1", None, ('NAME="PCW_FCLK0_PERIPHERAL_DIVISOR1"', 'NAME="OTHER"'),
     "does not tell the clock's dividers, .* but 5 and nothing"),
    ("pynq-z1", (5, 0), (), "does not tell the clock's dividers, .* but 5 and 0"),
])
def test_clock_of_the_description(name, dividers, change, message, tmp_path):
    """As pynq 3 takes it: dividers for a PLL that is not the board's. The driver sets the clock."""
    path = tmp_path / "x.hwh"
    path.write_text(make_handoff(BOARDS[name], SMALL))
    assert check_handoff(path, BOARDS[name]) == []
    text = make_handoff(BOARDS[name], SMALL, dividers=dividers)
    path.write_text(text.replace(*change) if change else text)
    warning, = check_handoff(path, BOARDS[name])
    assert re.search(message, warning)
    assert "driver of bitstep sets the clock itself" in warning


def test_sources_are_reproducible():
    board = BOARDS["pynq-z2"]
    assert sources(board, SMALL) == sources(board, SMALL)
    assert tuple(sources(board, SMALL)) == SOURCES


# The flow, with a Vivado that is a few lines of Python and imports nothing that takes time.

VIVADO = """\
    #!{python} -IS
    import pathlib, sys, time
    if sys.argv[1:] == ["-version"]:
        print({said!r})
        raise SystemExit
    assert sys.argv[-2:] == ["-source", "build.tcl"] and pathlib.Path("settings.tcl").exists()
    {action}
    pathlib.Path("bitstep.bit").write_bytes({bits!r})
    pathlib.Path("bitstep.hwh").write_text({handoff!r}.replace(*{change!r}))
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

------------------------------------------------------------------------------------------------
| Clock Summary
| -------------
------------------------------------------------------------------------------------------------

Clock       Waveform(ns)       Period(ns)      Frequency(MHz)
-----       ------------       ----------      --------------
{clock}  {{0.000 5.000}}      {period}          100.000
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts such a Vivado on PATH."""
    def put(said="vivado v2022.1 (64-bit)", setup=0.5, hold="0.021", pulse="3.750",
            action="pass", change=("", ""), board="pynq-z2", clock="clk_fpga_0", period="10.000"):
        program = tmp_path / "bin" / "vivado"
        program.parent.mkdir(exist_ok=True)
        program.write_text(textwrap.dedent(VIVADO).format(
            python=sys.executable, said=said, action=action, bits=bitstream(), change=change,
            timing=TIMING.format(setup=setup, hold=hold, pulse=pulse, clock=clock, period=period),
            handoff=make_handoff(BOARDS[board], SMALL), report=REPORT))
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
    assert path.with_suffix(".bit").read_bytes() == bitstream()
    assert path.with_suffix(".hwh").exists()
    # What was built is not built again.
    assert run_flow(tmp_path, install(action="raise SystemExit(1)")) == path


@pytest.mark.by_day(7)
@pytest.mark.parametrize(("options", "message"), [
    ({"setup": -0.3}, r"misses 100 MHz on pynq-z2: its setup slack is -0\.3 ns; see .*; choose"),
    ({"hold": -0.05}, r"its hold slack is -0\.05 ns"),
    ({"pulse": -0.1}, r"its pulse width slack is -0\.1 ns"),
    ({"setup": "NA"}, r"must tell the slack of setup as WNS\(ns\), not 'NA'"),
    ({"setup": ""}, r"must tell the slack of setup as WNS\(ns\), not 'nothing'"),
    ({"pulse": "NA"}, "slack of pulse width"),
    ({"hold": "nan"}, r"must tell the slack of hold as WHS\(ns\), not 'nan'"),
    ({"setup": "inf"}, r"must tell the slack of setup as WNS\(ns\), not 'inf'"),
    ({"setup": "0.5", "period": "11.000"}, r"its setup slack is -0\.5 ns"),
    ({"setup": "10"}, r"a slack of setup below the period of 10 ns, not 10 ns"),
    ({"setup": "2", "period": "1.000"}, r"a slack of setup below the period of 10 ns, not 11 ns"),
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


def test_flow_that_is_under_way(tmp_path, install):
    """A second Vivado would delete what the first one works on."""
    vivado = install(action="""for _ in range(600):
        if pathlib.Path("go").exists(): break
        time.sleep(0.1)""")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run_flow, tmp_path, vivado)
        while not (found := list((tmp_path / "work").glob("*/*/output.txt"))):
            assert not first.done()
            time.sleep(0.01)
        with pytest.raises(ToolError, match=r"Another process builds in .*: wait until it ends"):
            run_flow(tmp_path, vivado)
        (found[0].parent / "go").touch()
        path = first.result()
    assert run_flow(tmp_path, install(action="raise SystemExit(1)")) == path


def test_vivado_ends_with_the_command(tmp_path, install):
    """It works for hours, and a second one would work in the same folder."""
    install(action="import os; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)")
    command = ("import signal, sys; from bitstep_hw.boards.__main__ import main\n"
               "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"      # which nohup has ignored
               f"sys.exit(main(['pynq-z2', '--folder', {str(tmp_path)!r}, {TEXT!r}]))")
    with subprocess.Popen([sys.executable, "-c", command], stderr=subprocess.PIPE, text=True,
                          cwd=tmp_path) as process:
        while not (found := [path for path in tmp_path.rglob("pid") if path.read_text()]):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (
        129, "interrupted; the same command goes on from the steps that were finished\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(found[0].read_text()), 0)


TEXT = "bits=4,max_features=32,lookahead=0"         # SMALL


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, install, capsys):
    """A folder of sources, and what Vivado makes in it on another machine."""
    monkeypatch.chdir(tmp_path)
    assert boards.main(["pynq-z2", "--tcl-only", "away", "--jobs", "7", TEXT]) == 0
    assert f"`python -m bitstep_hw.boards pynq-z2 --collect away {TEXT}`" in capsys.readouterr().out
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


def test_collect_with_warnings(tmp_path, elsewhere, capsys):
    """The driver sets the clock, so dividers for another PLL keep nobody from the bitstream; but
    the slack counts at the clock that it sets.
    """
    elsewhere(change=('CLKSRC" VALUE="IO PLL"', 'CLKSRC" VALUE="ARM PLL"'), period="10.100")
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 0
    assert re.search(r"^warning: .*bitstep.hwh divides the clock from ARM PLL",
                     capsys.readouterr().out, re.MULTILINE)
    manifest = json.loads(Path(f"bitstreams/pynq-z2-{SMALL.name}.json").read_text())
    assert manifest["slack_ns"]["setup"] == 0.4
    assert manifest["clock_mhz"]["achieved"] == pytest.approx(1000 / 9.6, abs=0.01)


def test_collect_without_a_period(tmp_path, elsewhere, capsys):
    elsewhere(clock="clk_other")
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 0
    assert "timing.rpt does not tell the period of clk_fpga_0, so it is taken to be 10 ns" in \
        capsys.readouterr().out


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
@pytest.mark.parametrize(("row", "expected"), [
    ("{}  {{0.000 5.000}}      10.000          100.000         ", 10.0),
    ("  {}    {{0.000 5.500}}  11.000  90.909", 11.0), ("{} 10.000", None), ("", None),
    ("{}  {{0.000 5.000}}  ....  1.0", None), ("{}  {{0.000 5.000}}  0.000  1.0", None),
    ("other_{0} {{0.000 2.500}} 5.000 200.000\n{0} {{0.000 5.000}} 10.000 100.0", 10.0)])
def test_period_of_the_clock(tmp_path, board, row, expected):
    path, name = tmp_path / "timing.rpt", board.family.clock_name
    path.write_text(f"| Clock Summary\n\n{row.format(name)}\n")
    assert period_ns(path, name) == expected


def _damage(name, change):
    def damage(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))
    return damage


HWH, BIT = "bitstep.hwh must be the hardware handoff", "bitstep.bit must be the bitstream"


@pytest.mark.by_day(10)
@pytest.mark.parametrize(("name", "change", "message"), [
    ("bitstep.hwh", lambda found: found[:len(found) // 2], f"{HWH}.*but is no whole XML"),
    ("bitstep.hwh", lambda found: b"", f"{HWH}.*but is empty"),
    ("bitstep.hwh", gzip.compress, f"{HWH}.*compressed with gzip: unpack it"),
    ("bitstep.hwh", lambda found: found.replace(b"bitstep_0", b"bit\xffstep_0"),
     f"{HWH}.*but is no whole XML"),
    ("bitstep.hwh", lambda found: found.replace(b"UTF-8", b"other"), f"{HWH}.*but is no whole XML"),
    ("bitstep.hwh", lambda found: b"<EDKSYSTEM/>", "has no bitstep_0 of type"),
    ("bitstep.hwh", lambda found: found.replace(b"0x43C00000", b"here"), "bitstep_0 at here, not"),
    ("bitstep.hwh", lambda found: found.replace(b'"ADDRESS_OFFSET" VALUE="0x',
                                                b'"ADDRESS_OFFSET" VALUE="x'), "other registers"),
    ("bitstep.bit", lambda found: found[:-1], "bitstep.bit must have the .* bytes"),
    ("bitstep.bit", lambda found: found[:20], f"{BIT}.*ends in its header"),
    ("bitstep.bit", lambda found: b"<html>no</html>" * 99, f"{BIT}.*in its header"),
    ("bitstep.bit", lambda found: b"\0\1" + found, f"{BIT}.*has no header of one"),
    ("bitstep.bit", lambda found: b"", f"{BIT}.*but is empty"),
    ("timing.rpt", lambda found: b"", "timing.rpt must be Vivado's report on timing, but is empty"),
    ("timing.rpt", gzip.compress, "timing.rpt .*compressed with gzip"),
    ("timing.rpt", lambda found: found[:400], r"must tell the slack of setup as WNS\(ns\)"),
    ("timing.rpt", lambda found: bytes(range(256)), "must tell the slack of setup"),
    ("utilization.rpt", lambda found: b" \n", "utilization.rpt must be .* but is empty"),
    ("utilization.rpt", gzip.compress, "utilization.rpt .*compressed with gzip"),
    ("result.txt", lambda found: b"", "result.txt must be .* but is empty"),
    ("result.txt", lambda found: b"vivado\n\n\xff\xfe\n",
     "must tell sources and vivado, .* but does not tell sources and vivado: bring back the whole"),
    ("result.txt", lambda found: b"vivado \n" + found[found.index(b"sources"):],
     "result.txt must tell .* but does not tell vivado: bring back the whole file"),
])
def test_collect_damaged_files(tmp_path, elsewhere, capsys, name, change, message):
    """Each says which file, what is wrong and what to do; there is no traceback."""
    _damage(name, change)(elsewhere())
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 1
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert f"1 of 1 failed: {SMALL.name}" in said
    assert not (tmp_path / "bitstreams").exists()


@pytest.mark.parametrize("name", ["bitstep.bit", "bitstep.hwh", "timing.rpt", "utilization.rpt",
                                  "result.txt"])
def test_collect_without_a_file(tmp_path, elsewhere, capsys, name):
    folder = elsewhere()
    (folder / name).unlink()
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 1
    assert f"has no {name}: run `vivado" in capsys.readouterr().err


def test_report_in_another_encoding(tmp_path, elsewhere):
    """A machine's or folder's name in a report is nobody's business."""
    folder = elsewhere()
    for name in ("timing.rpt", "utilization.rpt"):
        _damage(name, lambda found: b"| Host : caf\xe9\r\n" + found.replace(b"\n", b"\r\n"))(folder)
    _damage("bitstep.hwh", lambda found: b"\xef\xbb\xbf" + found)(folder)
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 0


def _other_sources(folder):
    result = folder / "result.txt"
    result.write_text(result.read_text().replace("sources ", "sources 0"))


def _corrected_tcl(folder):
    with (folder / "build.tcl").open("a") as file:
        file.write("puts corrected\n")


def _commented(folder):
    """Change what decides nothing: comments, empty lines, and the script that only collects."""
    for name, text in (("build.tcl", "\n    # Why it is so.\n"), ("settings.tcl", "# mine  \n"),
                       ("bitstep_ip.v", "// more\n/* and\nmore */\n"),
                       ("run.tcl", "puts corrected\n")):
        with (folder / name).open("a") as file:
            file.write(text)


def test_collect_commented_sources(tmp_path, elsewhere):
    _commented(elsewhere())
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 0


def test_collect_after_a_release_with_other_comments(tmp_path, elsewhere, monkeypatch):
    """Also where the comments are other ones in bitstep."""
    elsewhere()
    read = Path.read_text

    def reworded(path, *arguments, **options):
        text = read(path, *arguments, **options)
        return re.sub("^# .*", "# Other words.", text, flags=re.MULTILINE) + "# The end.\n" \
            if path.name in ("build.tcl", "run.tcl") and "bitstep_hw" in str(path) else text

    monkeypatch.setattr(Path, "read_text", reworded)
    assert sources(BOARDS["pynq-z2"], SMALL)["build.tcl"].endswith("# The end.\n")
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 0


def test_sources_of_a_release_become_bitstreams(tmp_path, install, capsys, monkeypatch):
    """The script builds every folder once, and --collect takes what it made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(BoardFacts, "config", lambda board, bits: SMALL)
    monkeypatch.setattr(BoardFacts, "bit_plane_config", lambda board: BIT_PLANES)
    assert boards.main(["release", "pynq-z2"]) == 0
    archive = next((tmp_path / "dist").iterdir())
    assert f"wrote dist/{archive.name}" in capsys.readouterr().out
    shutil.unpack_archive(archive)
    folder = tmp_path / archive.stem
    assert {path.name for path in folder.iterdir()} == {
        "README.txt", "build.sh", f"pynq-z2-{SMALL.name}", f"pynq-z2-{BIT_PLANES.name}"}
    assert f"python -m bitstep_hw.boards pynq-z2 --collect {folder.name}" in \
        (folder / "README.txt").read_text()
    install()
    subprocess.run(["sh", folder / "build.sh"], check=True, cwd="/", timeout=120)
    install(action="raise SystemExit(3)")       # nothing is left to do
    subprocess.run(["sh", folder / "build.sh"], check=True, cwd="/", timeout=120)
    assert boards.main(["pynq-z2", "--collect", folder.name]) == 0
    assert sorted(path.name for path in (tmp_path / "bitstreams").glob("*.json")) == sorted(
        f"pynq-z2-{config.name}.json" for config in (SMALL, BIT_PLANES))


def _renamed(folder, *, identity=None):
    """Sources as another Python writes them: other names in the netlist, and their checksum."""
    netlist = folder / "bitstep_top.v"
    netlist.write_text(netlist.read_text() + "\nmodule unused_name; endmodule\n")
    settings = folder / "settings.tcl"
    text = settings.read_text()
    if identity is not None:
        text = re.sub("(?m)^set identity .*", f"set identity {identity:032x}", text)
    texts = {name: (folder / name).read_text() for name in DECISIVE} | {"settings.tcl": text}
    settings.write_text(re.sub("(?m)^set sources_digest .*",
                               f"set sources_digest {digest(texts)}", text))
    (folder / "result.txt").write_text(f"vivado 2022.1\nsources {digest(texts)}\n")


def test_collect_with_another_python(tmp_path, elsewhere, capsys):
    """The pipeline's identity says that it is the same; but its files must be there, unchanged."""
    folder = elsewhere()
    _renamed(folder)
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 0
    shutil.rmtree(tmp_path / "bitstreams")
    text = (folder / "bitstep_top.v").read_text()
    for damage in (lambda: (folder / "bitstep_top.v").write_text(text + "module more; endmodule"),
                   lambda: (folder / "bitstep_top.v").unlink(),
                   lambda: (folder / "bitstep_top.v").write_text(text) and _renamed(
                       folder, identity=7)):
        damage()
        assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 1
        assert "must be of the sources that this version of bitstep" in capsys.readouterr().err
        assert not (tmp_path / "bitstreams").exists()


@pytest.mark.parametrize("update_interval, more", [(1, False), (2, True), (4, False)])
def test_choices_of_a_faster_clock(update_interval, more):
    """The registers of a fast clock are no advice where they are there."""
    found = faster_choices(PipelineConfig(update_interval=update_interval, lookahead=1))
    assert found == ("fewer bits, a smaller look-ahead or update_interval=4" if more else
                     "fewer bits or a smaller look-ahead")


def test_code_of_a_source():
    """Comments of Verilog end where they end, and are none in a string."""
    text = 'wire a; // b\n\n(* x = "http://c /* \\" // d */" *) /* e\nf */ g\n'
    assert code("bitstep_top.v", text) == 'wire a;\n(* x = "http://c /* \\" // d */" *)   g'
    assert code("build.tcl", "# a\n  set b {c # d}   \n\t# e\nset jobs 4\nputs #f\n") \
        == "  set b {c # d}\nputs #f"
    assert code("settings.tcl", "set jobs 2\nset sources_digest 0af\nset part x\n") == "set part x"


@pytest.mark.parametrize(("options", "damage", "message"), [
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
    assert "must hold a folder that --tcl-only wrote, such as pynq-z2-w128-b4" in \
        capsys.readouterr().err
    (tmp_path / f"pynq-z2-{SMALL.name}").mkdir()
    assert boards.main(["pynq-z2", "--collect", str(tmp_path)]) == 1
    assert f"has pynq-z2-{SMALL.name}, of no default pipeline: name its CONFIG" in \
        capsys.readouterr().err


@pytest.mark.parametrize("named", [["2"], ["--bit-planes"]])
def test_nothing_of_what_was_named(tmp_path, capsys, named):
    """The folder of a default pipeline is not said to be of none."""
    folder = f"pynq-z2-{BOARDS['pynq-z2'].facts.config(4).name}"
    (tmp_path / folder).mkdir()
    assert boards.main(["pynq-z2", "--collect", str(tmp_path), *named]) == 1
    assert f"has {folder}, of a pipeline that was not named: name its CONFIG" in \
        capsys.readouterr().err


def test_what_is_not_collected_is_said(tmp_path, elsewhere, capsys, monkeypatch):
    """Beside a default pipeline, one that was written out."""
    monkeypatch.setattr(BoardFacts, "config", lambda board, bits: SMALL)
    folder = elsewhere()
    (folder.parent / f"pynq-z2-{BIT_PLANES.name}").mkdir()
    assert boards.main(["pynq-z2", "--collect", "away"]) == 0
    assert f"note: away also holds pynq-z2-{BIT_PLANES.name}, of no default" in \
        capsys.readouterr().out


@pytest.mark.slow
def test_the_others_are_built(tmp_path, monkeypatch, install, capsys):
    """One that misses the clock stops no other, and each says which file to watch."""
    monkeypatch.chdir(tmp_path)
    configs = {bits: dataclasses.replace(SMALL, bits=bits, lookahead=1) for bits in (1, 2, 4, 8)}
    monkeypatch.setattr(BoardFacts, "config", lambda board, bits: configs[bits])
    monkeypatch.setattr(VERILOG_OF, lambda config: verilog(SMALL) + f"module {config.name} ();\n")
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
    assert boards.main(["pynq-z2", "--tcl-only", str(tmp_path), text, text]) == 0
    assert capsys.readouterr().out.count("wrote ") == 1
    assert boards.main(["pynq-z2", "--tcl-only", str(tmp_path), text]) == 0
    folder = tmp_path / f"pynq-z2-{SMALL.name}"
    assert sorted(path.name for path in folder.iterdir()) == sorted(SOURCES)
    assert "vivado -mode batch -source build.tcl" in capsys.readouterr().out


def test_output_that_nobody_reads():
    """As in ``... | head -1`` and ``... >&-``: no message, least of all one of a full disk."""
    command = [sys.executable, "-m", "bitstep_hw.boards", "--help"]
    reader, writer = os.pipe()
    os.close(reader)
    broken = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=600)
    os.close(writer)
    assert (broken.returncode, broken.stderr) == (1, b"")
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE,
                            timeout=600)
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_folder_that_cannot_be_written(tmp_path, elsewhere, capsys):
    """That of the sources, and that of what is collected."""
    (tmp_path / "file").touch()
    assert boards.main(["pynq-z2", "--tcl-only", "file", TEXT]) == 1
    assert "File exists: 'file'" in (said := capsys.readouterr().err)
    assert said.endswith(": choose another folder\n")
    elsewhere()
    (tmp_path / "bitstreams").touch()
    assert boards.main(["pynq-z2", "--collect", "away", TEXT]) == 1
    assert f"'bitstreams'\n1 of 1 failed: {SMALL.name}" in capsys.readouterr().err


@pytest.mark.parametrize("texts, config", [
    pytest.param([], BOARDS["pynq-z2"].facts.bit_plane_config(), marks=pytest.mark.slow),
    (["max_features=8,lookahead=0,minibatch=False,corrections=False"], BIT_PLANES)])
def test_sources_of_bit_plane_rows(tmp_path, monkeypatch, capsys, texts, config):
    monkeypatch.setattr(VERILOG_OF, lambda config: verilog(SMALL))     # with the same ports
    assert boards.main(["pynq-z2", "--bit-planes", "--tcl-only", str(tmp_path), *texts]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"pynq-z2-{config.name}"]
    assert f"pynq-z2 --bit-planes --collect {tmp_path}" in capsys.readouterr().out


@pytest.mark.parametrize("option, value", [("--jobs", "0"), ("--timeout", "nan")])
def test_bad_numbers(option, value, capsys):
    with pytest.raises(SystemExit, match="2"):
        boards.main(["pynq-z2", option, value])
    assert f"argument {option}: must be" in capsys.readouterr().err


def test_bit_plane_rows_have_no_bits(capsys):
    with pytest.raises(SystemExit, match="2"):
        boards.main(["pynq-z2", "--bit-planes", "4"])
    assert "Bits must not be given with --bit-planes, not 4" in capsys.readouterr().err


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
    path = tmp_path / "x.hwh"
    path.write_text(make_handoff(BOARDS["kv260"], SMALL, with_registers=False))
    check_handoff(path, BOARDS["kv260"])
