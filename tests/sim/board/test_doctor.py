"""``bitstep doctor`` on the simulated board: whole, and with faults that its report must name."""

import contextlib
import functools
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from drawn_jobs import (
    EVERY_CYCLE,
    FLOAT,
    LOGISTIC,
    PACKED_WEIGHTS,
    REFETCH,
    WEIGHTED,
    WEIGHTED_REFETCH,
)
from drawn_jobs import WIDE as SEVERAL_PORTS
from uart_line import SYSTEM, Faulty, flipped, write_manifest

from bitstep.cli import main
from bitstep.devices.register_device import ForwardingDevice
from bitstep.devices.uart import UartDevice
from bitstep.doctor import Verdict, examine, jobs, memory, registers, runs, session, speed
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import MAP_VERSION, OFFSETS, Control, Status
from bitstep.pipeline.results import DeviceError, RunResult
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.device import SimBuffer, SimDevice
from bitstep_sim.board.uart import UartBoard

CONFIG = PipelineConfig(bits=5, max_features=80, lookahead=8)
DOUBLE = PipelineConfig(bits=2, row_format="two_levels", max_features=80, lookahead=8,
                        update_interval=4)
WIDE = PipelineConfig(bits=4, bus_width=128, row_ports=2, max_features=100, corrections=False)
ROUNDED = PipelineConfig(bits=4, max_features=80, lookahead=4, codebooks=True, model_bits=3,
                         rounded_updates=True)
PACKED = PipelineConfig(bits=3, max_features=7, lookahead=0, packed=True, models=3)
TWO = PipelineConfig(bits=4, max_features=256, lookahead=1, models=2, loss_family="logistic",
                     update_interval=6)
BIT_PLANES = PipelineConfig(row_format="bit_planes", bits=16, max_features=272, lookahead=4,
                       update_interval=4, proximal=True)
MIB = 1 << 20
PATTERNS = registers.PATTERNS


@pytest.fixture(autouse=True)
def few_patterns(monkeypatch):
    """All ones and the like; each bit by itself only where registers are what is looked at."""
    monkeypatch.setattr(registers, "PATTERNS", PATTERNS[:4])


@pytest.fixture(autouse=True)
def short_looks(monkeypatch):
    """A simulated clock is exact however short the look at it, and so is a simulated memory."""
    monkeypatch.setattr(runs, "LOOK_S", 0.01)
    monkeypatch.setattr(runs, "ENOUGH_S", 1e-4)
    monkeypatch.setattr(speed, "ROWS", 512)


def read_only(arrays):
    for array in arrays:
        array.flags.writeable = False


@functools.cache
def made(**parameters):
    """A job, and the models of golden as soon as they are asked for. No examination changes it."""
    job = MAKE_JOB(**parameters)
    read_only((*job.rows, job.labels))
    EXPECTED[id(job)] = functools.cache(functools.partial(EXPECTED_OF, job))
    return job


def expected_of(job):
    return EXPECTED[id(job)]() if id(job) in EXPECTED else EXPECTED_OF(job)


MAKE_JOB, EXPECTED_OF, EXPECTED = jobs.make_job, jobs.expected_of, {}


@pytest.fixture(autouse=True)
def jobs_made_once(monkeypatch):
    """Every examination of a pipeline makes the same jobs, which takes a third of its time."""
    for module in (jobs, memory, runs, speed):
        for name, known in (("make_job", lambda config, **rest: made(config=config, **rest)),
                            ("expected_of", expected_of)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, known)


NAMES = {offset: name for name, offset in OFFSETS.items()}


def diagnose(device, *, timeout_s=600.0, manifest=None):
    return examine(lambda: device, manifest=manifest, timeout_s=timeout_s, memory_bytes=MIB)


def named(report, title):
    """Text of the finding with this title that is not well."""
    found = [finding.text for finding in report.findings
             if finding.verdict in (Verdict.FAILED, Verdict.WARNING) and title in finding.title]
    assert found, f"nothing is said of {title!r} in:\n{report.text}"
    return " ".join("\n".join(found).split())


@pytest.mark.by_day(5)
@pytest.mark.parametrize("config",
                         [CONFIG, DOUBLE, pytest.param(WIDE, marks=pytest.mark.slow), FLOAT,
                          LOGISTIC, REFETCH, BIT_PLANES, ROUNDED, PACKED, TWO, WEIGHTED[0],
                          pytest.param(PACKED_WEIGHTS, marks=pytest.mark.slow),
                          EVERY_CYCLE[0], SEVERAL_PORTS[0], WEIGHTED_REFETCH],
                         ids=lambda config: config.name)
def test_all_is_well(monkeypatch, config):
    monkeypatch.setattr(registers, "PATTERNS", PATTERNS)
    device = SimDevice(config, memory_bytes=8 * MIB)
    report = diagnose(device)
    assert "RESULT: all is well" in report.text
    assert {finding.verdict for finding in report.findings} == {Verdict.OK}
    sections = [finding.section for finding in report.findings]
    assert sorted(set(sections), key=sections.index) == [
        "Device", "Clock", "Registers", "Interrupt", "Memory", "Training", "Abort", "Speed"]
    for line in report.text.splitlines():
        assert len(line) <= 100
    with pytest.raises(DeviceError, match="is closed"):
        device.read(0)


def test_large_buffer_without_a_page_for_each_port():
    device = SimDevice(SEVERAL_PORTS[0], memory_bytes=8 * MIB)
    report = examine(lambda: device, timeout_s=60, memory_bytes=8128)
    found, = (finding for finding in report.findings if finding.verdict == Verdict.SKIPPED)
    assert found.title == "rows in the large buffer"
    assert "8,128 bytes are fewer than a page of 4,096 for each of 2 ports" in found.found


def test_weights_that_do_nothing(monkeypatch):
    """Rows with weights are trained where the pipeline has them, and nowhere else."""
    right = SimDevice.train

    def train(self, job, **options):
        return right(self, replace(job, weights=None), **options)

    monkeypatch.setattr(SimDevice, "train", train)
    report = diagnose(SimDevice(WEIGHTED_REFETCH, memory_bytes=8 * MIB))
    for title in ("training (rows with weights)", "training (rows with weights read again)"):
        assert "weights differ" in named(report, title)


def test_register_that_should_not_be_there():
    class Answering(Broken):
        def read(self, offset):
            return 1 if NAMES.get(offset) == "WEIGHTED" else super().read(offset)

    assert "0x0f8 gave 0x00000001" in named(diagnose(Answering()), "addresses without a register")


def test_wrong_model_beside_another(monkeypatch):
    """The second model of a pass is compared, too."""
    right = SimDevice.train_models

    def train_models(self, jobs, **options):
        first, second = right(self, jobs, **options)
        assert isinstance(second, RunResult)
        second.models[1, 3] ^= 64
        return [first, second]

    monkeypatch.setattr(SimDevice, "train_models", train_models)
    report = diagnose(SimDevice(TWO, memory_bytes=8 * MIB))
    assert "model 1: after epoch 2 of 3, 1 of 17 weights differ" in named(
        report, "2 models side by side")


def test_every_kind_of_buffer():
    text = " ".join(diagnose(SimDevice(REFETCH, memory_bytes=8 * MIB)).text.split())
    for kind in ("rows", "labels", "epoch table", "models", "first model", "coefficients",
                 "fine rows"):
        assert f"{kind} from 0x" in text


class Broken(ForwardingDevice):
    """A simulated board with a fault."""

    def __init__(self, config=CONFIG, **options):
        super().__init__(SimDevice(config, memory_bytes=8 * MIB, **options))
        self.written = {}

    def read(self, offset):
        return self.read_name(NAMES.get(offset), self.device.read(offset))

    def read_name(self, name, value):
        return value

    def write(self, offset, value):
        self.written[NAMES.get(offset)] = value
        if NAMES.get(offset) == "CONTROL" and value & Control.START:
            self.start()
        self.device.write(offset, value)

    def start(self):
        """Called before a run starts."""

    def pair(self, name):
        return self.written.get(f"{name}_LO", 0) | self.written.get(f"{name}_HI", 0) << 32

    def memory(self, address, n_bytes):
        return self.device.board.memory[address - BASE:address - BASE + n_bytes]


class StuckRegister(Broken):
    def read_name(self, name, value):
        return value & ~32 if name == "BATCH" else value


class AliasedRegister(Broken):
    def write(self, offset, value):
        super().write(offset, value)
        if NAMES.get(offset) == "LABEL_SHIFT":
            self.device.write(OFFSETS["ROWS"], value)


class WrongIdentity(Broken):
    def read_name(self, name, value):
        return value ^ 1 if name == "IDENTITY_2" else value


class OldMap(Broken):
    def read_name(self, name, value):
        return 1 if name == "VERSION" else value


class WritableCounter(Broken):
    def read_name(self, name, value):
        return self.written.get(name, value) if name == "EPOCHS_DONE" else value


class AcceptsNothing(Broken):
    def read_name(self, name, value):
        return 0 if name == "ERROR" else value


class UnlockedRegister(Broken):
    def read_name(self, name, value):
        return self.written.get(name, value) if name == "EPOCHS" else value


class NoInterrupt(Broken):
    def await_interrupt(self, timeout_s):
        self.device.board.run(10_000)
        return False


class NoInterruptFile(Broken):
    def await_interrupt(self, timeout_s):
        raise DeviceError("there is no file of the interrupt")


class WrongBeats(Broken):
    def read_name(self, name, value):
        return value + 1 if name == "BEATS_LO" else value


class WrongBytes(Broken):
    def read_name(self, name, value):
        return value - 8 if name == "BYTES_READ_LO" else value


class EpochTooMany(Broken):
    def read_name(self, name, value):
        return value + 1 if name == "EPOCHS_DONE" and value else value


class OverflowStuck(Broken):
    def read_name(self, name, value):
        return value | 2 if name == "OVERFLOW" else value


class GoneAtTheEnd(Broken):
    def close(self):
        super().close()
        raise OSError("the port is gone")


class FewCycles(Broken):
    def read_name(self, name, value):
        return value // 8 if name == "CYCLES_LO" else value


class SlowClock(Broken):
    def seconds(self):
        return 1.6 * self.device.seconds()      # 62.5 MHz


class FastClock(Broken):
    def seconds(self):
        return self.device.seconds() / 1.25


class ForeignDividers(Broken):
    clock = SimpleNamespace(wanted_hz=100e6, found_hz=62.5e6, hz=100e6)


class TooFast(Broken):
    clock = SimpleNamespace(wanted_hz=100e6, found_hz=125e6, hz=125e6)


class RowsStuck(Broken):
    """Bit 13 of every word that the row port reads is 1."""

    def start(self):
        n_bytes = 8 * self.written["ROWS"] * self.written["BEATS_PER_ROW"]
        address = self.pair("ROWS_ADDRESS")
        if n_bytes and BASE <= address < BASE + 8 * MIB:
            self.memory(address, n_bytes).view("<u8")[:] |= np.uint64(1 << 13)


class WrongSteps(Broken):
    """The pipeline computes with steps that are a little too long."""

    def start(self):
        address = self.pair("EPOCH_TABLE_ADDRESS")
        if BASE <= address < BASE + 8 * MIB:
            entries = self.memory(address, 16 * self.written["EPOCHS"]).view("<u8")
            entries[::2] += (entries[::2] & np.uint64(0x3FFFF) != 0).astype(np.uint64)


class WrongAddress(Broken):
    """Bit 15 of the address that models are written to is 0."""

    def start(self):
        self.device.write(OFFSETS["MODEL_OUT_ADDRESS_LO"],
                          self.written["MODEL_OUT_ADDRESS_LO"] & ~0x8000)


class LeavesSomething(Broken):
    """What an abort leaves spoils the next run."""

    aborted = False

    def write(self, offset, value):
        if NAMES.get(offset) == "CONTROL" and value & Control.ABORT:
            self.aborted = True
        super().write(offset, value)

    def start(self):
        if self.aborted:
            WrongSteps.start(self)      # type: ignore[arg-type]


class CountsOnAfterAbort(LeavesSomething):
    """An abort leaves a beat in its counter."""

    def start(self):
        pass

    def read_name(self, name, value):
        return value + (self.aborted and name == "BEATS_LO")


class AbortIsNoError(LeavesSomething):
    def start(self):
        pass

    def read_name(self, name, value):
        return 0 if name == "ERROR" and self.aborted else value


class AnswersEverywhere(Broken):
    def read(self, offset):
        return self.device.read(offset) if offset in NAMES else 77


class ModelStuck(Broken):
    """Bit 7 of every word that the pipeline loads as a model is 1."""

    def start(self):
        address = self.pair("MODEL_IN_ADDRESS")
        if self.written["WARM_START"]:
            n_words = CONFIG.rows.model_lanes * self.written["BEATS_PER_ROW"] + 2
            self.memory(address, 4 * n_words).view("<u4")[:] |= np.uint32(128)


class NeverEnds(Broken):
    """A run never starts, and says that it is busy; an abort ends it."""

    busy = False

    def write(self, offset, value):
        if NAMES.get(offset) == "CONTROL" and self.written.get("ROWS"):
            self.busy = bool(value & Control.START)
            value &= ~Control.START
        super().write(offset, value)

    def read_name(self, name, value):
        return Status.BUSY if name == "STATUS" and self.busy else value


class NoAbort(Broken):
    def write(self, offset, value):
        super().write(offset, value & ~Control.ABORT if NAMES.get(offset) == "CONTROL" else value)


class ReadFails(Broken):
    def read_name(self, name, value):
        if name == "OVERFLOW":
            raise OSError("bus error")
        return value


class BrokenMemory(Broken):
    """A board whose buffers have a fault: functions of a buffer and its device's copy."""

    def allocate(self, n_bytes):
        return BrokenBuffer(self.device.allocate(n_bytes), self)

    def to_device(self, buffer):
        buffer.to_device()

    def from_device(self, buffer):
        buffer.from_device()


class BrokenBuffer:
    def __init__(self, buffer: SimBuffer, board: BrokenMemory):
        self.buffer, self.board = buffer, board
        self.address, self.array, self.free = buffer.address, buffer.array, buffer.free

    def to_device(self):
        self.board.to_device(self.buffer)

    def from_device(self):
        self.board.from_device(self.buffer)


class NoFlush(BrokenMemory):
    def to_device(self, buffer):
        pass


class NoInvalidate(BrokenMemory):
    def from_device(self, buffer):
        pass


class StuckMemory(BrokenMemory):
    def to_device(self, buffer):
        buffer.to_device()
        copy = buffer._device_copy()
        copy[3::8] |= 8


class AliasedMemory(BrokenMemory):
    """Bit 14 of an address is not connected."""

    def to_device(self, buffer):
        buffer.to_device()
        copy = buffer._device_copy()
        if copy.size >= 1 << 15:
            copy[:1 << 14] = copy[1 << 14:1 << 15]


class LargeWrong(BrokenMemory):
    """The last byte of a large buffer."""

    def from_device(self, buffer):
        buffer.from_device()
        if buffer.array.size >= MIB:
            buffer.array[-1] ^= 0xFF


class SameMemory(BrokenMemory):
    def allocate(self, n_bytes):
        buffer = super().allocate(n_bytes)
        buffer.address &= ~0xF_FFFF
        return buffer


# The fault, the title of the finding that names it, and what the finding says.
FAULTS = [
    (StuckRegister, "bits of the writable", ["BATCH (0x050, 32 bits)", "bits 5 read 0"]),
    (AliasedRegister, "addresses of the writable", ["ROWS (0x040) gave"]),
    (WrongIdentity, "identity", ["another bitstream is loaded"]),
    (OldMap, "version of the register map", [f"expected {MAP_VERSION}", "found 1"]),
    (WritableCounter, "read-only registers", ["EPOCHS_DONE went from 0x00000000 to 0xffffffff"]),
    (AcceptsNothing, "a run without rows", ["STATUS 0x6, ERROR 0"]),
    (UnlockedRegister, "registers are locked", ["it became 2049"]),
    (NoInterrupt, "interrupt", ["none within 2 s", "says that the run is over", "reboot"]),
    (NoInterruptFile, "interrupt", ["no file of the interrupt"]),
    (WrongBeats, "counters", ["beats 541 instead of 540"]),
    (WrongBytes, "counters", ["bytes_read 4,720 instead of 4,728"]),
    (EpochTooMany, "counters", ["EPOCHS_DONE 4 instead of 3"]),
    (OverflowStuck, "counters", ["OVERFLOW 2 instead of 0"]),
    (FewCycles, "counters", ["cycles", "fewer than the"]),
    (FewCycles, "clock, measured", ["expected 100 MHz", 12.5]),
    (SlowClock, "clock, measured", [62.5]),
    (FastClock, "clock, measured", [125]),
    (ForeignDividers, "clock dividers", ["62.5 MHz found after loading"]),
    (TooFast, "clock", ["125 MHz read back", "may be wrong at a faster clock"]),
    (RowsStuck, "reads rows at", ["all in lane 2 of 12"]),
    (WrongSteps, "training (plain)", ["after epoch 1 of 3", "weights differ"]),
    (WrongAddress, "copies models", ["an address that the pipeline writes is wrong"]),
    (LeavesSomething, "after an abort", ["weights differ"]),
    (CountsOnAfterAbort, "counters after an abort", ["beats 541 instead of 540"]),
    (AbortIsNoError, "abort", ["expected ERROR 6 (ABORTED) found ERROR 0"]),
    (AnswersEverywhere, "addresses without", ["0x014 gave 0x0000004d"]),
    (ModelStuck, "bits of a model's weights", ["of each word of 32 bits", "7 (reads 1)"]),
    (NeverEnds, "training (plain)", ["made no progress"]),
    (NeverEnds, "ends with an interrupt", ["STATUS 0x1: it goes on"]),
    (NeverEnds, "large buffer", ["did not end within 0.1 s", "it was aborted"]),
    (NoAbort, "stops when it is told to", ["STATUS 0x1 before, 0x1 after", "configure the FPGA"]),
    (ReadFails, "read-only registers", ["OSError: bus error"]),
    (NoFlush, "buffers of a job", ["content of before", "flush"]),
    (NoInvalidate, "copies models", ["from_device does not invalidate"]),
    (StuckMemory, "buffers of a job", ["27 (reads 1)"]),
    (AliasedMemory, "large buffer", ["two addresses reach the same memory"]),
    (LargeWrong, "large buffer", ["1 wrong bytes", "at 0x100fffff"]),
    (SameMemory, "buffers of a job", ["begins at 0x10000000, inside of"]),
]


@pytest.fixture
def short_limits(monkeypatch):
    """Less patience, so that what never ends takes less time."""
    monkeypatch.setattr(session, "ABORT_TIMEOUT_S", 0.3)
    monkeypatch.setattr("bitstep.devices.driver.ABORT_TIMEOUT_S", 0.3)


@pytest.mark.parametrize("fault", dict.fromkeys(fault for fault, *_ in FAULTS),
                         ids=lambda fault: fault.__name__)
def test_fault_is_named(short_limits, monkeypatch, fault):
    if fault is NeverEnds:      # and gives no interrupt, however long it is waited for
        monkeypatch.setattr(runs, "INTERRUPT_TIMEOUT_S", 0.1)
    if fault in (StuckRegister, AliasedRegister):
        monkeypatch.setattr(registers, "PATTERNS", PATTERNS)
    report = diagnose(fault(), timeout_s=0.1 if fault is NeverEnds else 600.0)
    for title, said in (finding for kind, *finding in FAULTS if kind is fault):
        text = named(report, title)
        for part in said:
            if isinstance(part, str):
                assert part in text, report.text
            else:       # MHz; a busy machine lets few cycles pass, of which the last counts
                shown, = re.findall(r"found ([\d.]+) MHz", text)
                assert float(shown) == pytest.approx(part, rel=0.01), report.text
        for part in ("expected ", "found ", "do "):
            assert part in text
    # The other checks were done, and the report has its end.
    assert report.findings[-1].section == "Speed"
    assert "RESULT: " in report.text


@pytest.mark.parametrize("fault", [StuckRegister, AliasedRegister, WrongIdentity, OldMap])
def test_no_run_with_wrong_registers(fault):
    """It could write to any address of a board's memory."""
    device = fault()
    started = []
    device.start = lambda: started.append(True)
    report = diagnose(device)
    assert not started
    skipped = [finding.title for finding in report.findings if finding.verdict == Verdict.SKIPPED]
    assert skipped[:3] == ["refused run", "interrupt", "weights of a model"]
    assert skipped[-1] == "speed of the row stream"
    assert [finding.title for finding in report.findings
            if finding.section == "Memory" and finding.verdict == Verdict.OK] == [
        "buffers of a job (started from a model, two copies, batches of 4, L2)",
        "buffers of a job (clipped residuals)", "large buffer"]


def test_device_that_cannot_be_closed():
    report = diagnose(GoneAtTheEnd())
    assert "found the port is gone do see that the board is still" in named(report, "close the")
    assert report.findings[-1].section == "End"
    assert "RESULT: FAILED" in report.text


def test_slow_memory_is_a_warning():
    report = diagnose(SimDevice(CONFIG, memory_bytes=8 * MIB, memory_gbps=0.3))
    assert "RESULT: works, but see the warnings" in report.text
    text = named(report, "the memory is slow")
    assert "at least 85% of the bus's 0.8 GB/s" in text
    assert "for rows from the memory" in text
    assert not report.failed


def test_a_run_that_does_not_stop_holds_up_nothing(short_limits):
    report = diagnose(NoAbort())
    skipped = {finding.title: finding.found for finding in report.findings
               if finding.verdict == Verdict.SKIPPED}
    assert skipped == {"speed of the row stream": "not done: the pipeline is busy with a run that "
                       "does not stop"}


def test_busy_from_the_start(short_limits):
    """What an earlier program left behind is stopped."""
    device = SimDevice(CONFIG, memory_bytes=8 * MIB)
    with_run = session.Session(device, None, timeout_s=1, memory_bytes=MIB)  # type: ignore[arg-type]
    with contextlib.ExitStack() as stack:
        runs.start_long_run(with_run, stack)
    assert "RESULT: all is well" in diagnose(device).text


def test_command_line(tmp_path, capsys):
    common = ["doctor", "--bits", "5", "--max-features", "80", "--lookahead", "8", "--memory-mib",
              "1"]
    path = tmp_path / "report.txt"
    assert main([*common, "--out", str(path), "--memory-latency", "90"]) == 0
    shown = capsys.readouterr().out
    assert path.read_text() in shown
    assert "memory latency           90 cycles" in shown
    assert "RESULT: all is well (2" in shown


@pytest.mark.slow
def test_serial_board(tmp_path):
    line = UartBoard(SYSTEM)
    faulty = Faulty(line, reads=dict.fromkeys(range(500, 2000, 500), flipped))
    faulty.seconds = line.seconds               # type: ignore[attr-defined]
    report = diagnose(UartDevice(SYSTEM.pipeline, manifest=write_manifest(tmp_path, SYSTEM),
                                 transport=faulty, timeout_s=0.1))  # type: ignore[arg-type]
    assert "RESULT: all is well" in report.text
    assert "shared memory            16,384 bytes from 0x10000000" in report.text
    # Where a line is bad the report says so.
    assert "Afterwards\n  requests sent again      3" in report.text
    assert "device 'uart' has none" in report.text


@pytest.mark.slow
def test_serial_board_with_faults(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bitstep.devices.uart.device.SerialTransport",
                        lambda port, baud: UartBoard(SYSTEM))
    monkeypatch.setattr(registers, "PATTERNS", registers.PATTERNS[:2])      # the line is slow
    path = write_manifest(tmp_path, SYSTEM)
    path.write_text(json.dumps({**json.loads(path.read_text()), "identity": "12" * 16,
                                "register_map": 1, "clock_mhz": {"constraint": 40}}))
    assert main(["doctor", "--device", "uart", "--port", "/dev/ttyUSB0", "--manifest",
                 str(path)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert f"FAILED identity expected {'12' * 16}, as the manifest says" in shown
    assert f"register map in the manifest expected {MAP_VERSION} found 1" in shown
    assert "FAILED clock expected 40 MHz, as the manifest says found 0.8 MHz" in shown
    assert "training (plain): not done: the register test did not pass" in shown


class Overclocked(Broken):
    """A board whose PLL of 1 GHz is divided by whole numbers, wrong above 130 MHz."""

    pll_hz, most_hz = 1e9, 130e6

    def __init__(self, config=CONFIG, **options):
        super().__init__(config, **options)
        self.asked, self.passed, self.seen = [100e6], 0.0, 0.0
        self.clock_hz = 100e6

    def seconds(self):
        own = self.device.seconds()
        self.passed += (own - self.seen) * 100e6 / self.clock_hz
        self.seen = own
        return self.passed

    def try_clock(self, hz):
        self.seconds()
        self.asked.append(hz)
        self.clock_hz = self.pll_hz / round(self.pll_hz / hz)
        return self.clock_hz

    @property
    def too_fast(self):
        return self.clock_hz > self.most_hz


class WrongWhenFast(Overclocked, WrongSteps):
    def start(self):
        if self.too_fast:
            super().start()


class RegistersWhenFast(Overclocked):
    def read_name(self, name, value):
        return value & ~32 if name == "BATCH" and self.too_fast else value


class EndlessWhenFast(Overclocked):
    def read_name(self, name, value):
        return value & ~Status.DONE if name == "STATUS" and self.too_fast else value


class StaysWhenFast(Overclocked):
    """The clock that is read back is not the one that the pipeline has."""

    def seconds(self):
        return self.device.seconds()


class Fast(Overclocked):
    most_hz = 1e9


def sweep(device):
    report = examine(lambda: device, timeout_s=0.3, memory_bytes=MIB, clock_sweep=True)
    return report, " ".join(report.text.split())


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind, right, ending", [
    (WrongWhenFast, "125 MHz right: 5 trainings", "142.9 MHz wrong: after epoch 1 of 3, "),
    (RegistersWhenFast, "125 MHz right", "142.9 MHz wrong: BATCH (0x050, 32 bits) gave"),
    (EndlessWhenFast, "125 MHz right", "142.9 MHz wrong: Device '"),
], ids=["models", "registers", "end"])
def test_clock_sweep(kind, right, ending):
    """Its figures are those of a PLL of 1 GHz over 10, 9, 8, 7."""
    device = kind()
    report, text = sweep(device)
    assert not report.failed, text
    assert right in text
    assert ending in text
    assert "fastest clock: right up to 125 MHz, 25% above the bitstream's 100 MHz" in text
    assert "; wrong at 142.9 MHz" in text
    assert "ok bitstream's own clock, after the sweep: right" in text
    assert max(device.asked) < 150e6
    assert device.asked[-1] == device.clock_hz == 100e6


def test_clock_sweep_to_its_end():
    device = Fast()
    report, text = sweep(device)
    assert not report.failed, text
    assert "right up to 200 MHz, 100% above the bitstream's 100 MHz; no more than 2 times" in text
    assert device.clock_hz == 100e6


def test_clock_sweep_of_a_clock_that_stays():
    _, text = sweep(StaysWhenFast())
    assert "111.1 MHz wrong: the clock is 100 MHz" in text
    assert "not the 111.1 MHz that are read back" in text
    assert "right up to 100 MHz, 0% above" in text


def test_clock_sweep_that_leaves_something():
    """What a clock that is too fast did to the board is a finding."""
    class Spoilt(WrongWhenFast):
        spoilt = False

        @property
        def too_fast(self):
            self.spoilt |= self.clock_hz > self.most_hz
            return self.spoilt

    device = Spoilt()
    report, _ = sweep(device)
    assert "weights differ" in named(report, "own clock, after the sweep")
    assert device.clock_hz == 100e6


def test_clock_sweep_ends_at_the_own_clock(monkeypatch):
    device = Fast()
    right = type(device).start

    def start(self):
        if self.clock_hz > 105e6:
            raise KeyboardInterrupt
        return right(self)

    monkeypatch.setattr(Fast, "start", start)
    with pytest.raises(KeyboardInterrupt):
        sweep(device)
    assert device.clock_hz == 100e6


def test_no_clock_sweep_where_the_clock_is_fixed_or_something_is_wrong():
    report, text = sweep(SimDevice(CONFIG, memory_bytes=8 * MIB))
    assert not report.failed
    assert "skipped clock sweep: not done: the clock of device 'sim' cannot be set" in text

    class Stuck(Fast, StuckRegister):
        pass

    device = Stuck()
    _, text = sweep(device)
    assert "skipped clock sweep: not done: something is wrong at the bitstream's own clock" in text
    assert device.asked == [100e6]
