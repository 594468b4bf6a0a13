"""Devices `uart` and `pynq` with pipelines for bit-plane rows and for several models: the RTL,
behind a line and a library of a few lines of Python.
"""
# pyright: reportMissingImports=false

import json
import struct
import sys
import zlib

import numpy as np
import pytest
from fake_pynq import FakePynq, write_bitstream
from simulated import compare, open_board
from uart_line import SYSTEM

from bitstep.cli import main
from bitstep.devices.golden import GoldenDevice
from bitstep.devices.pynq import PynqDevice, left
from bitstep.devices.uart import UartDevice
from bitstep.devices.uart.protocol import Command, Reply, information
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import OFFSETS, Control, Loss
from bitstep.pipeline.results import DeviceError, RunError, RunResult, beats_read
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, quantize_labels, sign_labels
from bitstep.training.choices import resolve_training
from bitstep.training.objective import Objective
from bitstep.training.train import train_model
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.verilog import identity
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_jobs

FAST = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=272, lookahead=4,
                      update_interval=4, proximal=True)
TWO = PipelineConfig(bits=4, max_features=256, lookahead=1, models=2, loss_family="logistic",
                     update_interval=6)
MIB = 1 << 20


class Line:
    """A serial line whose board answers at once, and on which Ctrl-C or an abort may come."""

    name = "a line without bits"
    cycles = 500                # between two looks at a run

    def __init__(self, device):
        self.device, self.waiting, self.looks, self.at_look = device, b"", 0, {}
        self.memory = device.allocate(4 * MIB)          # so that accesses to it are allowed

    def write(self, data):
        _, sequence, command, count, address = struct.unpack_from("<BBBBI", data)
        payload, words, at = data[12:-4], b"", address - BASE
        memory = self.device.board.memory
        if command == Command.WRITE_MEMORY:
            memory[at:at + len(payload)] = np.frombuffer(payload, np.uint8)
        elif command == Command.READ_MEMORY:
            words = memory[at:at + 8 * (count + 1)].tobytes()
        elif command == Command.WRITE_REGISTER:
            self.device.write(address, int.from_bytes(payload[:4], "little"))
        elif command == Command.READ_REGISTER:
            words = self.device.read(address).to_bytes(8, "little")
        else:
            words = struct.pack("<4Q", *information(
                base=BASE, n_bytes=4 * MIB, clock_hz=100_000_000, baud=1_000_000, gap_s=0.05))
        packet = struct.pack("<BBBB", 0x5B, sequence, Reply.OK, count) + words
        self.waiting = packet + zlib.crc32(packet).to_bytes(4, "little")

    def read(self, n_bytes, timeout_s):
        found, self.waiting = self.waiting[:n_bytes], self.waiting[n_bytes:]
        return found

    def sleep(self, seconds):
        self.looks += 1
        self.device.board.run(self.cycles)
        self.at_look.pop(self.looks, lambda: None)()

    def discard(self):
        self.waiting = b""

    def close(self):
        pass


class Pynq(FakePynq):
    """The module ``pynq`` on a simulated board."""

    def __init__(self, device):
        super().__init__(device.config)
        self.pipeline, self.limit = Stepped(device), 4 * MIB


class Stepped:
    """A simulated board whose clock runs while its status is read."""

    cycles = 500

    def __init__(self, device):
        self.device, self.looks, self.at_look = device, 0, {}

    def __getattr__(self, name):
        return getattr(self.device, name)

    def step(self):
        self.looks += 1
        self.device.board.run(self.cycles)
        self.at_look.pop(self.looks, lambda: None)()


@pytest.fixture(autouse=True)
def _marks(tmp_path, monkeypatch):
    """The mark of an open device is no other test's business, nor this machine's."""
    monkeypatch.setattr(left, "MARK", tmp_path / "mark.json")


@pytest.fixture(scope="module")
def boards():
    """A simulated board of each configuration."""
    with open_board(FAST) as bit_planes, open_board(TWO) as two:
        yield {BIT_PLANES: bit_planes, "two": two}


@pytest.fixture(params=["uart", "pynq"])
def opened(request, boards, tmp_path, monkeypatch):
    """Opens a device on one of the boards; returns it and what may happen at its looks."""
    devices = []

    def open_it(which):
        board = boards[which]
        config = board.config
        if request.param == "uart":
            path = tmp_path / "manifest.json"
            path.write_text(json.dumps({
                "config": config.to_dict(), "identity": f"{identity(config):032x}",
                "system": {"baud": SYSTEM.baud}}))
            watched = Line(board)
            device = UartDevice(config, manifest=path, transport=watched)
            devices.append(watched.memory.free)
        else:
            library = Pynq(board)
            monkeypatch.setitem(sys.modules, "pynq", library)
            watched = library.pipeline
            device = PynqDevice(config, bitfile=write_bitstream(
                tmp_path, config, identity=identity(config)))
        devices.append(device.close)
        return device, watched

    yield open_it
    for close in reversed(devices):
        close()


@pytest.mark.by_day(3)
@pytest.mark.parametrize("n_features, n_rows, options", [
    (256, 130, {"batch": 64, "planes": (4, 16, 1)}), (17, 300, {"batch": 256, "planes": (2, 9)}),
    (65, 40, {"planes": tuple(range(1, 17)), "correction_period": 3, "proximal_period": 5})])
def test_bit_plane_rows_as_golden(opened, n_features, n_rows, options):
    """Each number of planes, and a second run."""
    device, _ = opened(BIT_PLANES)
    for seed in range(2):
        job = random_bit_plane_job(FAST, n_features=n_features, n_rows=n_rows, seed=seed, **options)
        seen = []
        result = device.train(job, on_epoch=seen.append)
        compare(result, list(train(job)))
        assert seen[-1] == len(job.epochs)
        assert result.counters["beats"] == beats_read(job, len(job.epochs))


def test_abort_and_the_run_after_it(opened):
    device, watched = opened(BIT_PLANES)
    job = random_bit_plane_job(FAST, n_features=40, n_rows=300, planes=(3, 16, 5, 1))
    expected, watched.cycles = list(train(job)), 400
    watched.at_look[watched.looks + 6] = lambda: watched.device.write(OFFSETS["CONTROL"],
                                                                     Control.ABORT)
    with pytest.raises(RunError, match="aborted"):
        device.train(job)
    compare(device.train(job), expected)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_several_models_as_golden(opened, count):
    """Passes of one and of two models, on a used board."""
    device, _ = opened("two")
    assert device.models == 2
    jobs = random_jobs(TWO, count, n_features=40, n_rows=70, seed=count, loss=Loss.LOGISTIC,
                       batch=64, correction_period=64)
    for job, result in zip(jobs, device.train_models(jobs), strict=True):
        assert isinstance(result, RunResult)
        compare(result, list(train(job)))


def test_rows_that_the_pipeline_does_not_read(opened):
    device, _ = opened("two")
    with pytest.raises(DeviceError,
                       match=r"row format 'bit_planes', the device has a pipeline for 4 "
                                          r".*or choose rows of fixed bits"):
        device.train(random_bit_plane_job(FAST, n_features=5, n_rows=9))


@pytest.mark.parametrize("planes", ["2,4,8", "auto"])
def test_command_line(boards, tmp_path, monkeypatch, planes):
    """A file of bit-plane rows on device `pynq`, which finds its bitstream."""
    data = tmp_path / "rows.npz"
    assert main(["quantize", "diabetes", "--bit-planes", "--out", str(data)]) == 0
    write_bitstream(tmp_path, FAST, identity=identity(FAST), name="pynq-z2-bit-planes")
    write_bitstream(tmp_path, PipelineConfig(bits=4))
    monkeypatch.setenv("BITSTEP_BITSTREAMS", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynq", Pynq(boards[BIT_PLANES]))
    found = []
    for device in ("pynq", "cpu"):
        path = tmp_path / f"{device}.json"
        assert main(["train", str(data), "--planes", planes, "--epochs", "4", "--device", device,
                     "--report", str(path)]) == 0
        found.append(json.loads(path.read_text()))
    assert found[0]["coef"] == found[1]["coef"]
    assert [entry["planes"] for entry in found[0]["history"]] \
        == [entry["planes"] for entry in found[1]["history"]]


@pytest.mark.slow
def test_bit_plane_rows_over_the_bits_of_a_line(tmp_path):
    """The whole system of a serial board, memory and link included."""
    from dataclasses import replace

    from uart_line import write_manifest

    from bitstep_sim.board.uart import UartBoard
    config = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=64, lookahead=1)
    system = replace(SYSTEM, pipeline=config, memory_bytes=32 * 1024)
    board = UartBoard(system)
    device = UartDevice(config, manifest=write_manifest(tmp_path, system), transport=board,
                        timeout_s=0.1)
    for seed, planes in enumerate([(4, 16, 1), (2,)]):
        job = random_bit_plane_job(config, n_features=40 + seed, n_rows=150, planes=planes,
                                   seed=seed,
                               correction_period=8)
        expected, result = GoldenDevice(config).train(job), device.train(job)
        np.testing.assert_array_equal(result.models, expected.models)
        np.testing.assert_array_equal(result.intercepts, expected.intercepts)
    with pytest.raises(MemoryError, match="the board's memory has 32,768"):
        device.train(random_bit_plane_job(config, n_features=40, n_rows=400))
    board.close()


@pytest.mark.parametrize("loss", [Loss.LEAST_SQUARES, Loss.SQUARED_HINGE])
def test_bit_centred_training(opened, loss):
    """Whole trainings by the driver of all boards, twice; rows are copied once each time."""
    device, _ = opened(BIT_PLANES)
    rng = np.random.default_rng(0)
    features = rng.standard_normal((140, 20))
    values = features @ rng.standard_normal(20) + 0.1 * rng.standard_normal(140)
    labels = sign_labels(np.where(values > 0, 1, -1)) if loss != Loss.LEAST_SQUARES \
        else quantize_labels(values, 140)
    data, objective = QuantizedDataset(quantize_bit_planes(features), labels), Objective(loss=loss,
                                                                                         l2=1e-2)
    training = resolve_training(data.rows, objective, solver="bit-centred", epochs=3, planes=4)
    with GoldenDevice(FAST) as golden:
        expected = train_model([data], golden, FAST, objective, training)
    for _ in range(2):
        found = train_model([data], device, FAST, objective, training)
        np.testing.assert_array_equal(found.coefs, expected.coefs)
        assert device.kept_rows is None
