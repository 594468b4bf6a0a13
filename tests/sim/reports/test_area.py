"""The pipelines whose area is counted, and how."""

import functools
import sys
from dataclasses import asdict

import pytest

from bitstep.pipeline.boards import FACTS
from bitstep.pipeline.config import PipelineConfig
from bitstep_sim.netlists import xc7
from bitstep_sim.reports import area
from bitstep_sim.reports.area import options

SMALL = {"bits": 8, "max_features": 8, "lookahead": 0, "minibatch": False, "corrections": False}
CELLS = {"LUT6": 5, "SRL16E": 1, "RAM32M": 2, "FDRE": 7, "RAMB36E1": 1, "RAMB18E1": 3, "DSP48E1": 4}


verilog_of = functools.cache(xc7.verilog_of)


@pytest.fixture(autouse=True)
def verilog_made_once(monkeypatch):
    """Tests of one pipeline elaborate it once."""
    monkeypatch.setattr(xc7, "verilog_of", verilog_of)


@pytest.fixture
def yosys(monkeypatch):
    """Give the program that stands in for Yosys, of either kind."""
    def use(program):
        for name in ("_NATIVE", "_WASM"):
            monkeypatch.setattr(xc7, name, program)
        monkeypatch.setattr(xc7, "find_spec", lambda name: True)
    return use


@pytest.mark.by_day(1)
@pytest.mark.parametrize("bus_width, reader", [(64, "read_verilog"), (512, "read_rtlil")])
def test_counts(yosys, bus_width, reader):
    yosys(f"""
import json, sys
read, synthesize, _ = sys.argv[1].split("; ")
assert read == "{reader} design" and "-top bitstep_top" in synthesize
assert "bitstep_top" in open("design").read()
json.dump({{"design": {{"num_cells_by_type": {CELLS}}}}}, open("stat.json", "w"))""")
    assert area.synthesize(PipelineConfig(bus_width=bus_width, **SMALL)) == {
        "LUT": 5 + 1 + 2 * 4, "FF": 7, "RAMB36": 2.5, "DSP": 4}


def test_a_failure_shows_the_end_of_the_log(yosys):
    yosys("import sys; print('x' * 5000); sys.exit('ERROR: no such pass')")
    with pytest.raises(RuntimeError, match=r"(?s)Yosys failed on w64-b8.*ERROR: no such pass"):
        area.synthesize(PipelineConfig(**SMALL))


def test_a_wait_has_an_end(yosys, monkeypatch):
    yosys("import time; time.sleep(600)")
    monkeypatch.setattr(xc7, "_TIMEOUT", 0.5)
    with pytest.raises(RuntimeError, match="did not end on w64-b8"):
        area.synthesize(PipelineConfig(**SMALL))


def test_without_yosys(monkeypatch):
    monkeypatch.setattr(xc7, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"bitstep\[bitstream\]"):
        area.synthesize(PipelineConfig(**SMALL))


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_an_option_changes_one_choice(bits):
    table = {label: asdict(config) for label, config in options(PipelineConfig(bits=bits)).items()}
    base = table.pop("none")
    for label, config in table.items():
        changed = {name for name in base if config[name] != base[name]}
        if "look-ahead" in label:
            assert changed == {"lookahead"}
        elif "per update" in label:
            assert changed - {"lookahead"} == {"update_interval"}
        else:
            n_changed = 2 if label == "model of 4 bits, updates of few bits" else 1
            assert len(changed - {"lookahead", "update_interval"}) == n_changed, label
    assert ("two samples a value" in table) == (bits >= 2)
    assert ("codebooks" in table) == (bits <= 5)


@pytest.fixture
def table(monkeypatch, capsys):
    """Run the command with counts that are the pipelines' bits, and give what it printed."""
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["area", *arguments])
        monkeypatch.setattr(xc7, "package", lambda: "pyosys")
        monkeypatch.setattr(area, "synthesize", lambda config: dict.fromkeys(
            ("LUT", "FF", "RAMB36", "DSP"), float(config.bits)))
        area.main()
        _, head, _, *lines = capsys.readouterr().out.splitlines()
        return head, [line.strip("| ").split(" | ") for line in lines]
    return run


def test_every_default_pipeline_of_a_board_is_counted(table):
    head, lines = table("--board", "kv260")
    assert head == "| configuration | LUT | FF | RAMB36 | DSP | of a xck26 |"
    facts = FACTS["kv260"]
    names = [line[0].strip("`") for line in lines]
    assert names[:4] == [facts.config(bits).name for bits in (1, 2, 4, 8)]
    assert names[4:] == ["w128-b1-one-n4096-d5-c4", "w256-b2-one-n4096-d5-c4-ports2",
                         "w512-b4-one-n4096-d5-c4-ports4", "w512-b8-one-n4096-d4-c4-ports4",
                         facts.bit_plane_config().name]
    assert lines[4][1:] == ["1", "1", "1", "1", "1%"]   # 1 of 144 block memories


def test_pipelines_are_named_as_for_a_bitstream(table):
    head, lines = table("bits=4,update_interval=4,models=2", "bits=8,lookahead=0")
    assert head.endswith("of a xc7z020 |")
    assert [line[0] for line in lines] == ["`w64-b4-one-n4096-d4-c4-m2`",
                                           "`w64-b8-one-n4096-d0-c2`"]
    assert lines[1][1:] == ["8", "8", "8", "8", "6%"]
    assert [line[0] for line in table()[1]][:2] == ["`w64-b1-one-n4096-d0-c2`",
                                                   "`w64-b1-one-n4096-d7-c2`"]
