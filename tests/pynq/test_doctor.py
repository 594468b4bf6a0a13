"""``bitstep doctor`` by the real pynq library: whole, and with faults that its report must name."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportOptionalSubscript=false

import json
import re

import pynq
import pytest

from bitstep.cli import main
from bitstep.devices.pynq import PynqBuffer, PynqDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import MAP_VERSION, OFFSETS
from bitstep_hw.boards.zynq import BOARDS
from bitstep_sim.board import verilator
from bitstep_sim.board.verilog import generate
from bitstep_sim.pynq_board import device as board_module
from bitstep_sim.pynq_board.device import SimulatedBoard
from bitstep_sim.pynq_board.handoff import write_bitstream

VERSION = tuple(map(int, pynq.__version__.split(".")[:2]))
# One board of each kind of processor; pynq 4 no longer knows Zynq-7000.
BOTH = pytest.mark.parametrize(
    "board", ["kv260"] if VERSION >= (4, 0) else ["pynq-z2", "kv260"], indirect=True)
CONFIG = PipelineConfig(bits=4, max_features=64, lookahead=2, update_interval=4)


@pytest.fixture
def board(request):
    verilator.build(generate(CONFIG))           # so that loading is as fast as on a board
    return BOARDS[getattr(request, "param", "kv260")]


@pytest.fixture
def doctor(board, tmp_path, capsys, monkeypatch):
    """Runs the command on a board; returns exit code and text."""
    monkeypatch.setattr(board_module, "CYCLES_AN_ACCESS", 100)      # there are thousands
    boards = []

    def run(*arguments, path=None, options=None, prepare=lambda simulated: None, dividers=None):
        path = path or write_bitstream(tmp_path, board, CONFIG, dividers=dividers)
        simulated = SimulatedBoard(board, **(options or {}))
        pynq.Device.active_device = simulated
        boards.append(simulated)
        prepare(simulated)
        code = main(["doctor", "--device", "pynq", "--bitfile", str(path), "--memory-mib", "1",
                     *arguments])
        return code, " ".join(capsys.readouterr().out.split())

    yield run
    for simulated in boards:
        simulated.close()


@BOTH
def test_all_is_well(doctor, board):
    code, text = doctor()
    assert code == 0, text
    assert "RESULT: all is well" in text
    for part in (f"pynq {pynq.__version__}", f"pynq's name of the board {board.title}",
                 f"register map in the manifest: {MAP_VERSION}", f"built for {board.name}",
                 f"{board.clock_mhz} MHz wanted", "read back after setting", "ok interrupt: came",
                 "ok clock, measured by a run: ", "ok abort", "ok speed"):
        assert part in text, text
    base = "0x870000000" if board.family.name == "zynquplus" else "0x10000000"
    assert f"rows from {base}" in text


# Dividers of a Vivado whose PLL is another, as in test_board.py.
FOREIGN = {"zynq": (4, 4), "zynquplus": (12, 1)}


@BOTH
def test_foreign_dividers_are_named(doctor, board):
    code, text = doctor(dividers=FOREIGN[board.family.name])
    assert code == 0, text
    if VERSION >= (4, 0):                       # sets a frequency, and not these dividers
        assert "RESULT: all is well" in text
    else:
        assert f"warning clock dividers expected {board.clock_mhz} MHz after loading" in text
        found = re.search(r"wanted, ([\d.]+) MHz found after loading, (\S+) MHz read back", text)
        assert float(found[1]) == pytest.approx(
            1000 / (16 if board.family.name == "zynq" else 12), rel=2e-5)
        assert float(found[2]) == pytest.approx(board.clock_mhz, rel=2e-5)
    found = re.search(r"ok clock, measured by a run: (\S+) MHz", text)
    assert found, text
    # On a busy machine .1 % less.
    assert float(found[1]) == pytest.approx(board.clock_mhz, rel=0.02)


@BOTH
def test_clock_sweep(doctor, board, monkeypatch):
    """The clocks that pynq's own dividers give; 30 MHz above its own the board is wrong."""
    made, read, most_mhz = [], PynqDevice.read, board.clock_mhz + 30

    def spoilt(self, offset):
        wrong = offset == OFFSETS["BATCH"] and self.clock_hz > 1e6 * most_mhz
        return read(self, offset) ^ (32 if wrong else 0)

    monkeypatch.setattr(PynqDevice, "read", spoilt)
    code, text = doctor("--clock-sweep", prepare=made.append)
    assert code == 0, text
    found = re.search(r"fastest clock: right up to (\S+) MHz, .*; wrong at (\S+) MHz", text)
    assert found, text
    assert most_mhz - 20 < float(found[1]) <= most_mhz < float(found[2]) < most_mhz + 20
    assert "ok bitstream's own clock, after the sweep: right" in text
    assert made[0].clocks.fpga_mhz == pytest.approx(board.clock_mhz, rel=2e-5)


def test_clock_that_is_not_what_pynq_reads(doctor, board, monkeypatch):
    """A clock from another PLL than pynq believes: only the measurement can tell."""
    monkeypatch.setattr(PynqDevice, "seconds", lambda self: 1.6 * self._board.seconds())
    code, text = doctor()
    assert code == 1
    found = re.search(r"FAILED clock, measured by a run expected 125 MHz found (\S+) MHz", text)
    assert found, text[text.index("Abort"):]
    assert float(found[1]) == pytest.approx(125 / 1.6, rel=0.1)


def test_clock_that_stays(doctor):
    def prepare(simulated):
        simulated.clocks.write = lambda address, value: None
    code, text = doctor(prepare=prepare)
    assert code == 1
    assert "FAILED open the device" in text
    assert "so it was not set" in text


def test_lost_interrupt(doctor):
    def prepare(simulated):
        simulated.interrupt_file.lost = True
    code, text = doctor(prepare=prepare)
    assert code == 1
    assert "FAILED interrupt expected an interrupt at the end of a run found none within" in text
    assert re.search(r"\d+ checks passed, 1 failed, 0 with a warning", text)


@pytest.mark.filterwarnings("ignore:Interrupt interrupt not created")
def test_no_file_of_the_interrupt(doctor):
    code, text = doctor(options={"with_interrupt": False})
    assert code == 1
    assert "it cannot be waited for: pynq does not offer the interrupt" in text
    assert "interrupt not offered by pynq" in text


def test_slow_memory(doctor):
    code, text = doctor(options={"bytes_per_cycle": 3.0})
    assert code == 0
    assert "warning speed of the row stream: the memory is slow" in text


def test_stopped_memory(doctor):
    """No transfer ever ends, so that a run cannot even be aborted."""
    code, text = doctor("--timeout", "0.3", options={"bytes_per_cycle": 1e-6})
    assert code == 1
    assert "STATUS 0x1: it goes on" in text
    assert "FAILED the pipeline stops when it is told to" in text
    assert "training (plain): not done: the pipeline is busy with a run that does not" in text


def test_too_little_memory(doctor):
    code, text = doctor(options={"memory_bytes": 1 << 15})
    assert code == 1
    assert "contiguous bytes" in text
    assert "ok bits of the writable registers" in text


def test_no_flush(doctor, monkeypatch):
    monkeypatch.setattr(PynqBuffer, "to_device", lambda self: None)
    code, text = doctor()
    assert code == 1
    assert "FAILED buffers of a job" in text
    assert "content of before" in text


def test_no_invalidate(doctor, monkeypatch):
    monkeypatch.setattr(PynqBuffer, "from_device", lambda self: None)
    code, text = doctor()
    assert code == 1
    assert "from_device does not invalidate" in text


def test_cut_address(doctor, monkeypatch):
    original = PynqDevice.write
    high = [offset for name, offset in OFFSETS.items() if name.endswith("ADDRESS_HI")]
    monkeypatch.setattr(PynqDevice, "write", lambda self, offset, value: original(
        self, offset, 0 if offset in high else value))
    code, text = doctor()
    assert code == 1
    assert "FAILED bits of the writable registers" in text
    assert "ROWS_ADDRESS_HI" in text
    assert "training (plain): not done: the register test did not pass" in text


def test_stuck_register(doctor, monkeypatch):
    original = PynqDevice.read
    monkeypatch.setattr(PynqDevice, "read", lambda self, offset: original(self, offset) | (
        4 if offset == OFFSETS["BATCH"] else 0))
    code, text = doctor()
    assert code == 1
    assert "BATCH (0x050, 32 bits) gave 0x00000004 for 0x00000000: bits 2 read 1" in text


@pytest.mark.parametrize("change, title", [
    ({"identity": "0" * 32}, "open the device expected a device that is what its manifest says"),
    ({"register_map": 1},
     f"version of the register map in the manifest expected {MAP_VERSION} found 1")])
def test_manifest_of_another_build(doctor, board, tmp_path, change, title):
    path = write_bitstream(tmp_path, board, CONFIG)
    manifest = path.with_suffix(".json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    code, text = doctor(path=path)
    assert code == 1
    assert f"FAILED {title}" in text
