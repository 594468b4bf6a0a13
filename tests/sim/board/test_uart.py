# amaranth: UnusedElaboratable=no
"""The driver against a whole board on a simulated serial line."""

import json
from dataclasses import replace

import numpy as np
import pytest
from uart_line import PIPELINE, SYSTEM, Faulty, flipped, write_manifest

from bitstep.cli import main
from bitstep.devices.golden import GoldenDevice
from bitstep.devices.uart import UartDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import BusError, DeviceError
from bitstep.training.files.checkpoint import load_checkpoint
from bitstep_sim.board.uart import UartBoard
from bitstep_sim.testing.random_jobs import random_job


@pytest.fixture
def manifest(tmp_path):
    return write_manifest(tmp_path, SYSTEM)


@pytest.fixture
def line():
    board = UartBoard(SYSTEM)
    yield board
    board.close()


def open_device(line, manifest, **options):
    return UartDevice(PIPELINE, manifest=manifest, transport=line,
                      **{"timeout_s": 0.03, **options})


def check(device, job):
    expected = GoldenDevice(PIPELINE).train(job)
    result = device.train(job)
    np.testing.assert_array_equal(result.models, expected.models)
    np.testing.assert_array_equal(result.intercepts, expected.intercepts)
    return result


JOB = random_job(PIPELINE, n_features=40, n_rows=24, seed=1)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("options", [
    pytest.param({}, marks=pytest.mark.slow),       # by day test_a_repeated_start_starts_once
    {"batch": 4, "correction_period": 8, "warm": True},
    {"label_format": LabelFormat.SIGN, "copies": 2, "epochs": 3},
])
def test_same_models_as_the_golden_model(line, manifest, options):
    device = open_device(line, manifest)
    result = check(device, random_job(PIPELINE, n_features=40, n_rows=20, seed=1, **options))
    assert result.counters["beats"] == len(result.models) * 20 * 3
    assert device.link.repeated == 0
    assert line.framing_errors == 0


def shortened(data):
    """One byte in the middle is missing."""
    return data[:len(data) // 2] + data[len(data) // 2 + 1:]


def truncated(data):
    """The second half is missing."""
    return data[:len(data) // 2]


def lost(_):
    """Nothing arrives."""
    return b""


def with_noise(data):
    """Bytes that nobody sent come first, a magic byte among them."""
    return b"\xb5\x00\xff" + data


FAULTS = [flipped, shortened, truncated, lost, with_noise]


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["writes", "reads"])
@pytest.mark.parametrize("steps", [
    {"writes": 13, "reads": 25}, pytest.param({"writes": 9, "reads": 13}, marks=pytest.mark.slow)],
    ids=["some", "more"])
def test_recovers_from_damaged_packets(line, manifest, steps, kind, fault):
    # Every 13th packet of a run, or every 9th, whatever it is: information, memory, registers,
    # START.
    numbers = range(1, 2000, steps[kind])
    device = open_device(Faulty(line, **{kind: dict.fromkeys(numbers, fault)}), manifest)
    check(device, JOB)
    assert device.link.repeated >= 10


def test_a_repeated_start_starts_once(line, manifest):
    device = open_device(line, manifest)
    first = check(device, JOB)
    # The answer to each register write is lost, START's too; none may be carried out twice.
    faulty = Faulty(line)
    device.link.transport = faulty
    written = []

    def write(data):
        if data[2] == 4 and data not in written:
            written.append(data)
            faulty.plans["read"][faulty.counts["read"] + 1] = lost
        line.write(data)

    faulty.write = write
    second = check(device, JOB)
    assert device.link.repeated == len(written) > 20
    assert second.counters["beats"] == first.counters["beats"]
    assert second.counters["cycles"] == first.counters["cycles"]


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["writes", "reads"])
def test_fails_if_nothing_gets_through(line, manifest, kind, fault):
    device = open_device(line, manifest)
    device.link.transport = Faulty(line, **{kind: dict.fromkeys(range(1000), fault)})
    before = line.cycles
    with pytest.raises(DeviceError, match=r"did not answer READ_REGISTER in 4 attempts \(.*check "
                                          "the cable"):
        device.read(0)
    assert line.cycles - before < 4 * 0.2 * SYSTEM.clock_hz
    device.link.transport = line
    line.sleep(0.05)
    line.discard()
    check(device, JOB)


def test_random_noise_between_requests(line, manifest):
    rng = np.random.default_rng(0)
    device = open_device(line, manifest)
    for _ in range(10):
        line.write(rng.integers(0, 256, rng.integers(1, 40), dtype=np.uint8).tobytes())
        line.sleep(0.01)
        assert device.read(0x010) == device.read(0x010) > 0
    assert device.link.repeated < 10


def test_memory_too_small(line, manifest):
    device = open_device(line, manifest)
    with pytest.raises(MemoryError, match=r"buffer of 19,200 bytes .* memory has 16,384, of which "
                                          r"16,384 are free: 85% of it would fit"):
        device.train(random_job(PIPELINE, n_features=40, n_rows=800))
    check(device, JOB)                                  # what was allocated is free again


def test_outside_of_the_memory(line, manifest):
    device = open_device(line, manifest)
    base, end = 0x1000_0000, 0x1000_4000
    device.link.write_memory(end - 16, bytes(range(16)))
    assert device.link.read_memory(end - 16, 16) == bytes(range(16))
    for address in (0, base - 8, end, end - 8, base + 4, 1 << 31):
        with pytest.raises(DeviceError, match=f"refused READ_MEMORY of 2 words at {address:#x}"):
            device.link.read_memory(address, 16)
        with pytest.raises(DeviceError, match="refused WRITE_MEMORY"):
            device.link.write_memory(address, bytes(16))
    assert device.link.read_memory(end - 16, 16) == bytes(range(16))


def test_pipeline_outside_of_the_memory(line, manifest):
    device = open_device(line, manifest)
    plain = device.allocate

    def allocate(n_bytes):
        buffer = plain(n_bytes)
        if n_bytes == JOB.rows[0].nbytes:
            buffer.address += 0x10_0000
            buffer.to_device = lambda: None
        return buffer

    device.allocate = allocate
    with pytest.raises(BusError, match="read of the rows with an error"):
        device.train(JOB)


def test_wrong_bitstream(line, manifest):
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "identity": "12" * 16}))
    with pytest.raises(DeviceError, match=r"identifies itself as .* another bitstream is loaded"):
        open_device(line, manifest).train(JOB)


def test_lights(line, manifest):
    device = open_device(line, manifest)
    seen = []
    job = random_job(PIPELINE, n_features=40, n_rows=1000 // 12, epochs=6)
    device.train(job, on_epoch=lambda _: seen.append(line.lights))
    assert seen[0] & 0b011110 == 0b011010               # active, rows, models; not damaged
    assert line.lights & 0b100110 == 0b100010           # active, done
    line.write(flipped(bytes([0xB5, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0])))
    line.sleep(0.005)
    assert line.lights & 0b000100                       # a damaged request


@pytest.mark.slow
def test_refetching(tmp_path):
    pipeline = PipelineConfig(bits=4, max_features=64, lookahead=0, refetch=True)
    system = replace(SYSTEM, pipeline=pipeline)
    line, path = UartBoard(system), write_manifest(tmp_path, system)
    job = random_job(pipeline, n_features=40, n_rows=60, loss=Loss.HINGE, cell_half_levels=1)
    expected = GoldenDevice(pipeline).train(job)
    result = UartDevice(pipeline, manifest=path, transport=line, timeout_s=0.1).train(job)
    np.testing.assert_array_equal(result.models, expected.models)
    refetched = result.counters["refetched_rows"]
    assert refetched == expected.counters["refetched_rows"]
    assert refetched


def test_information(line, manifest):
    device = open_device(line, manifest)
    assert (device.clock_hz, device.memory_bytes) == (800_000, 16 * 1024)
    assert device.link.gap_s == 0.01


def test_command_line(tmp_path, monkeypatch, capsys, manifest):
    pytest.importorskip("sklearn")
    monkeypatch.setattr("bitstep.devices.uart.device.SerialTransport",
                        lambda port, baud: UartBoard(SYSTEM))
    common = ["train", "breast_cancer", "--bits", "4", "--epochs", "3", "--train-rows", "100",
              "--model", "ls-svm"]
    assert main([*common, "--device", "uart", "--port", "/dev/ttyUSB0", "--manifest", str(manifest),
                 "--report", str(tmp_path / "uart")]) == 0
    assert main([*common, "--device", "golden", "--report", str(tmp_path / "golden")]) == 0
    reports = [json.loads((tmp_path / name).read_text()) for name in ("uart", "golden")]
    for key in ("coef", "intercept", "history", "dataset"):
        assert reports[0][key] == reports[1][key]
    assert reports[0]["counters"]["beats"] == 3 * 100 * 2
    capsys.readouterr()
    assert main([*common[:3], "2", *common[4:], "--device", "uart", "--port", "/dev/ttyUSB0",
                 "--manifest", str(manifest)]) == 1
    assert "the device has a pipeline for 4 bits" in capsys.readouterr().err
    assert main(["train", "digits", "--model", "ls-svm", "--bits", "4", "--device", "uart",
                 "--port", "/dev/ttyUSB0", "--manifest", str(manifest)]) == 1
    assert "the board's memory has 16,384, of which 16,384 are free" in capsys.readouterr().err


class Stopped(UartBoard):
    """A line on which Ctrl-C comes in a read, once so many have followed a write of a register:
    then the pipeline runs, and the driver looks at it.
    """

    def __init__(self, system, number):
        super().__init__(system)
        self.number, self.reads = number, -(1 << 30)

    def write(self, data):
        if data[2] == 4:        # of a register
            self.reads = 0
        super().write(data)

    def read(self, n_bytes, timeout_s):
        self.reads += 1
        if self.reads == self.number:
            self.number = 0
            raise KeyboardInterrupt
        return super().read(n_bytes, timeout_s)


@pytest.mark.slow
def test_resumed_run_is_that_of_one_piece(tmp_path, monkeypatch, manifest):
    """Ctrl-C between two answers of a board that is in the middle of its epochs."""
    pytest.importorskip("sklearn")
    kept, whole, parts = (tmp_path / name for name in ("run.ckpt", "whole.npz", "parts.npz"))

    def train_on_board(number, *options):
        monkeypatch.setattr("bitstep.devices.uart.device.SerialTransport",
                            lambda port, baud: Stopped(SYSTEM, number))
        return main(["train", "breast_cancer", "--model", "ls-svm", "--bits", "4", "--epochs", "24",
                     "--train-rows", "200", "--device", "uart", "--port", "/dev/ttyUSB0",
                     "--manifest", str(manifest), *map(str, options)])

    assert train_on_board(0, "--out", whole) == 0
    assert train_on_board(8, "--out", parts, "--checkpoint", kept) == 130
    assert 0 < load_checkpoint(kept).epochs_done < 24
    assert train_on_board(0, "--out", parts, "--resume", kept) == 0
    assert parts.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_data_set_that_does_not_fit_as_floats(tmp_path, monkeypatch):
    """The 1,797 digits of 64 features are 449 KiB as floats, and 56 KiB with 4 bits."""
    pytest.importorskip("sklearn")
    pipeline = PipelineConfig(bits=4, max_features=1024, lookahead=1)
    system = replace(SYSTEM, pipeline=pipeline, memory_bytes=128 * 1024)
    path = write_manifest(tmp_path, system)
    lines = []
    monkeypatch.setattr("bitstep.devices.uart.device.SerialTransport",
                        lambda port, baud: lines.append(UartBoard(system)) or lines[0])
    common = ["train", "digits", "--model", "ls-svm", "--bits", "4", "--epochs", "10"]
    assert main([*common, "--device", "uart", "--port", "/dev/ttyUSB0", "--manifest", str(path),
                 "--report", str(tmp_path / "uart")]) == 0
    assert main([*common, "--device", "golden", "--report", str(tmp_path / "golden")]) == 0
    reports = [json.loads((tmp_path / name).read_text()) for name in ("uart", "golden")]
    for key in ("coef", "intercept", "history"):
        assert reports[0][key] == reports[1][key]
    print(reports[0]["counters"], reports[0]["history"][-1])
