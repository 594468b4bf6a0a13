# amaranth: UnusedElaboratable=no
"""The driver against a whole board on a simulated serial line."""

import json

import numpy as np
import pytest

from bitstep.config import PipelineConfig
from bitstep.devices.base import DeviceError
from bitstep.devices.golden import GoldenDevice
from bitstep.devices.uart import UartDevice
from bitstep.driver import Driver
from bitstep.registers import LabelFormat
from bitstep.runs import RunTimeoutError
from bitstep_hw.boards.serial_system import SystemConfig
from bitstep_hw.identity import identity
from bitstep_sim.jobs import random_job
from bitstep_sim.uart_board import UartBoard

PIPELINE = PipelineConfig(bits=4, max_features=64, lookahead=1)
# A slow clock makes a second few cycles; 8 cycles a bit are the fewest that the receiver takes.
SYSTEM = SystemConfig(pipeline=PIPELINE, memory_bytes=16 * 1024, clock_hz=800_000, baud=100_000,
                      gap_s=0.01)


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"config": PIPELINE.to_dict(),
                                "identity": f"{identity(PIPELINE):032x}",
                                "system": {"baud": SYSTEM.baud}}))
    return path


@pytest.fixture
def line():
    board = UartBoard(SYSTEM)
    yield board
    board.close()


class Faulty:
    """A line that does to some packets what noise and bad cables do.

    ``plan`` maps the number of a write or of a read to a function of its bytes.
    """

    def __init__(self, line, *, writes=None, reads=None):
        self.line, self.plans = line, {"write": writes or {}, "read": reads or {}}
        self.counts = {"write": 0, "read": 0}
        self.name = line.name

    def _change(self, kind, data):
        self.counts[kind] += 1
        return self.plans[kind].get(self.counts[kind], bytes)(data)

    def write(self, data):
        self.line.write(self._change("write", data))

    def read(self, n_bytes, timeout_s):
        return self._change("read", self.line.read(n_bytes, timeout_s))

    def discard(self):
        self.line.discard()

    def sleep(self, seconds):
        self.line.sleep(seconds)

    def close(self):
        self.line.close()


def open_device(line, manifest, **options):
    return UartDevice(PIPELINE, manifest=manifest, transport=line,
                      **{"timeout_s": 0.1, **options})


def check(device, job):
    expected = Driver(GoldenDevice(PIPELINE)).train(job)
    result = Driver(device).train(job)
    np.testing.assert_array_equal(result.models, expected.models)
    np.testing.assert_array_equal(result.intercepts, expected.intercepts)
    return result


JOB = random_job(PIPELINE, n_features=40, n_rows=60, seed=1)


@pytest.mark.parametrize("options", [
    {}, {"batch": 4, "correction_period": 8, "warm": True},
    {"label_format": LabelFormat.SIGN, "copies": 2, "epochs": 3},
])
def test_same_models_as_the_golden_model(line, manifest, options):
    device = open_device(line, manifest)
    result = check(device, random_job(PIPELINE, n_features=40, n_rows=60, seed=1, **options))
    assert result.counters["beats"] == len(result.models) * 60 * 3
    assert device.link.repeated == 0
    assert line.framing_errors == 0


def test_information(line, manifest):
    device = open_device(line, manifest)
    assert (device.clock_hz, device.memory_bytes) == (800_000, 16 * 1024)
    assert device.link.gap_s == 0.01
