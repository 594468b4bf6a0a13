"""Checks of registers, counters and clock by hand: devices that are a few words."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep.cycles.shape import Shape
from bitstep.devices.golden import GoldenDevice
from bitstep.doctor import Verdict, jobs, registers, runs, session, speed, sweep
from bitstep.doctor.report import Report
from bitstep.doctor.session import Session
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import MAP_VERSION, OFFSETS, Control, Error, Status
from bitstep.pipeline.results import COUNTER_NAMES, beats_read

CONFIG = PipelineConfig(bits=3, max_features=60)
WIDTHS = {register.offset: register.width for register in CONFIG.registers
          if register.access == "rw"}


class Words:
    """Registers that keep what is written, cut to their widths, and refuse every run."""

    name, config, clock_hz, identity = "words", CONFIG, 100e6, 77

    def __init__(self):
        self.words = {OFFSETS["VERSION"]: MAP_VERSION, OFFSETS["IDENTITY_0"]: 77}

    def read(self, offset):
        return self.words.get(offset, 0)

    def write(self, offset, value):
        if offset in WIDTHS:
            self.words[offset] = value & (1 << WIDTHS[offset]) - 1
        elif offset == OFFSETS["CONTROL"] and value & Control.START:
            self.refuse()

    def refuse(self):
        self.words[OFFSETS["STATUS"]] = Status.DONE | Status.FAILED
        self.words[OFFSETS["ERROR"]] = Error.BAD_CONFIGURATION

    def wait(self, done, timeout_s):
        return done()


def examined(device, *checks):
    """The session after some checks, and the texts of what is not well."""
    found = Session(device, Report(), timeout_s=1.0, memory_bytes=1024)
    for check in checks:
        found.guard(check, check.__name__)
    return found, [" ".join(finding.text.split()) for finding in found.report.findings
                   if finding.verdict != Verdict.OK]


CHECKS = (registers.identity, registers.patterns, registers.read_only, registers.empty_run)


def test_registers_that_are_right():
    device = Words()
    found, wrong = examined(device, *CHECKS[:3])
    assert not wrong
    assert found.safe == {"identity", "bits", "addresses"}
    assert not any(device.words.get(offset) for offset in WIDTHS), "addresses that were drawn stay"
    assert not examined(device, *CHECKS)[1]


def test_bits_beyond_the_width_of_a_register():
    narrow = next(offset for offset, width in WIDTHS.items() if width < 20)

    class Beyond(Words):
        def read(self, offset):
            return super().read(offset) | (1 << 20 if offset == narrow else 0)

    found, (bits, addresses) = examined(Beyond(), registers.patterns)
    assert "bits of the writable registers" in bits
    assert f"(0x{narrow:03x}, {WIDTHS[narrow]} bits) gave" in bits
    assert "bits 20 read 1" in bits
    assert "addresses of the writable registers" in addresses
    assert not found.safe


def test_control_that_can_be_read():
    class Readable(Words):
        def read(self, offset):
            return 1 if offset == OFFSETS["CONTROL"] else super().read(offset)

    _, (wrong,) = examined(Readable(), registers.read_only)
    assert f"0x{OFFSETS['CONTROL']:03x} gave 0x00000001" in wrong


def test_four_registers_are_named():
    class Nothing(Words):
        def write(self, offset, value):
            pass

    _, (bits, addresses) = examined(Nothing(), registers.patterns)
    for text in (bits, addresses):
        assert f"; and {len(WIDTHS) - 4} more" in text
        assert text.count(" gave ") == 4


def test_a_run_that_should_have_been_refused():
    class Done(Words):
        def refuse(self):
            super().refuse()
            self.words[OFFSETS["STATUS"]] = Status.DONE

    _, (wrong,) = examined(Done(), *CHECKS)
    assert "expected STATUS 0x6, ERROR 1, at once found STATUS 0x2, ERROR 1" in wrong


def test_each_run_that_does_not_stop_is_a_finding(monkeypatch):
    monkeypatch.setattr(session, "ABORT_TIMEOUT_S", 0.0)
    device = Words()
    found, _ = examined(device)
    for busy, failures in ((1, 1), (1, 1), (0, 1), (1, 2)):
        device.words[OFFSETS["STATUS"]] = Status.BUSY * busy
        assert found.stop() is not bool(busy)
        assert found.report.count(Verdict.FAILED) == failures


JOB = jobs.make_job(CONFIG, n_features=43, n_rows=60)
# 3 epochs of 60 rows of 3 beats; in an epoch 120 bytes of labels and 16 of the epoch table.
RIGHT = {"cycles": 700, "beats": 540, "bytes_read": 540 * 8 + 3 * (120 + 16), "flush": 60,
         "model_io": 70, "stall_rows": 30, "overflows": 0, "refetched_rows": 0}


@pytest.mark.parametrize("changes, said", [
    ({}, ""),
    ({"cycles": 699}, "cycles 699, fewer than the 700 that beats and waits take"),
    ({"cycles": 539, "flush": 0, "model_io": 0, "stall_rows": 0}, "539, fewer than the 540"),
    ({"cycles": 2_000_000}, "cycles 2,000,000, more than 0.01 s of this clock"),
    ({"bytes_read": 4736}, "bytes_read 4,736 instead of 4,728"),
    ({"refetched_rows": 1}, "refetched_rows 1 instead of 0")])
def test_counters_by_hand(changes, said):
    found, _ = examined(Words())
    result = SimpleNamespace(counters=RIGHT | changes)
    found.results["plain"] = JOB, result, 0.01, {"EPOCHS_DONE": 3, "OVERFLOW": 0}
    runs.counters(found)
    (finding,) = found.report.findings
    assert (finding.verdict == Verdict.OK) is not bool(said)
    assert said in finding.found


def test_clock_where_the_counter_of_cycles_begins_anew():
    class Running(Words):
        now, begun = 0.0, (1 << 32) - 1_000_000

        def seconds(self):
            self.now += 1e-4
            return self.now

        def read(self, offset):
            if offset == OFFSETS["CYCLES_LO"]:
                return int(self.begun + 1e8 * self.now) % (1 << 32)
            return Status.BUSY if offset == OFFSETS["STATUS"] else 0

        def wait(self, done, timeout_s):
            self.now += timeout_s
            return done()

    found = runs.measure_clock(examined(Running())[0], 10.0)
    assert found is not None
    assert found.may_be(1e8)
    assert not found.may_be(1.1e8)


@pytest.mark.parametrize("slower, least, most", [
    (100, 299_000, 310_000), (500, 100_000, 110_000), (5000, 100_000, 110_000),
    (1_000_000, 590, 610)])
def test_clock_of_a_simulated_board_on_a_busy_machine(monkeypatch, slower, least, most):
    """It sees enough cycles for four digits, though it takes longer, up to 20 times as long."""
    class Slow(Words):
        now = 0.0

        def seconds(self):
            return self.now

        def read(self, offset):
            if offset == OFFSETS["CYCLES_LO"]:
                return int(1e8 * self.now)
            return Status.BUSY if offset == OFFSETS["STATUS"] else 0

        def wait(self, done, timeout_s):
            self.now += timeout_s / slower
            return done()

    board = Slow()
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: slower * board.now))
    found = runs.measure_clock(examined(board)[0], 10.0)
    assert found is not None
    assert least <= 1e8 * board.now <= most


def test_clocks_of_a_sweep_are_each_faster():
    """Dividers of a PLL of 1 GHz, to twice the board's own clock."""
    device: Any = SimpleNamespace(try_clock=lambda hz: 1e9 / round(1e9 / hz))
    assert list(sweep._clocks(device, 1e8)) == [1e9 / divider for divider in (9, 8, 7, 6, 5)]


@pytest.mark.parametrize("share, verdict", [(1.0, Verdict.OK), (0.8, Verdict.WARNING)])
def test_memory_as_fast_as_its_bus_is_not_slow(monkeypatch, share, verdict):
    """Bit-plane rows are taken faster than a bus of one beat a cycle brings them."""
    class Counted(Words):
        config = PipelineConfig(bits=16, row_format="bit_planes", max_features=64)

        def train(self, job, **options):
            result = GoldenDevice(self.config).train(job, **options)
            shape, beats = Shape.of(job, self.config, None), beats_read(job, 1)
            assert shape.rows * shape.beats < beats
            cycles = round(beats / share)
            counters = dict.fromkeys(COUNTER_NAMES, 0) | {
                "beats": beats, "cycles": cycles, "stall_rows": cycles - shape.rows * shape.beats}
            return SimpleNamespace(models=result.models, intercepts=result.intercepts,
                                   counters=counters)

    found, _ = examined(Counted())
    found.safe = {"identity", "bits", "addresses"}
    monkeypatch.setattr(speed, "long_rows", lambda session: jobs.make_job(
        session.config, n_features=64, n_rows=64, epochs=1))
    speed.stream(found)
    training, judged = found.report.findings
    assert training.verdict == Verdict.OK
    assert judged.verdict == verdict
    assert np.isclose(float(judged.found.partition("gives ")[2].split()[0]), 0.8 * share, rtol=1e-2)
