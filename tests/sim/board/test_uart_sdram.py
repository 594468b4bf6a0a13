# amaranth: UnusedElaboratable=no
"""The driver against a whole board with SDRAM: its line, its controller, and a model of the chip
that ends a test at the first command that the data sheet forbids.
"""

from dataclasses import replace

import numpy as np
import pytest
from uart_line import PIPELINE, SYSTEM, write_manifest

from bitstep.devices.driver import RegisterRun
from bitstep.devices.golden import GoldenDevice
from bitstep.devices.uart import UartDevice
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.results import BusError, DeviceError
from bitstep_sim.board.sdram_chip import MICRON_75, SdramViolation
from bitstep_sim.board.uart import UartBoard
from bitstep_sim.testing.random_jobs import random_job

pytestmark = pytest.mark.slow       # the board takes half a minute to compile

MIB = 1 << 20
# The chip must be refreshed, so the clock cannot be slow. This one has a CAS latency of 2, and 15
# cycles a bit.
BOARD = replace(SYSTEM, memory="sdram", memory_bytes=32 * MIB, clock_hz=45_000_000,
                baud=3_000_000, gap_s=0.001)
# The clock of the bitstream, with a CAS latency of 3, and a line that is faster to simulate.
FAST = replace(BOARD, clock_hz=75_000_000, baud=9_375_000)
JOB = random_job(PIPELINE, n_features=40, n_rows=60, seed=1)


@pytest.fixture(autouse=True)
def short_polls(monkeypatch):
    """Each look at a run is as many cycles of the simulation."""
    monkeypatch.setattr("bitstep.devices.uart.device.POLL_S", 0.0002)


@pytest.fixture
def system():
    return BOARD


@pytest.fixture
def line(system):
    board = UartBoard(system)
    yield board
    board.close()


@pytest.fixture
def device(system, line, tmp_path):
    return UartDevice(PIPELINE, manifest=write_manifest(tmp_path, system), transport=line,
                      timeout_s=0.05)


def check(device, job):
    expected = GoldenDevice(PIPELINE).train(job)
    result = device.train(job)
    np.testing.assert_array_equal(result.models, expected.models)
    np.testing.assert_array_equal(result.intercepts, expected.intercepts)
    return result


@pytest.mark.parametrize("options", [
    {}, {"batch": 4, "correction_period": 8, "warm": True},
    {"label_format": LabelFormat.SIGN, "copies": 2, "epochs": 3},
])
def test_same_models_as_the_golden_model(line, device, options):
    for _ in range(2):                                  # and a second run is as the first
        result = check(device, random_job(PIPELINE, n_features=40, n_rows=60, seed=1, **options))
        assert result.counters["beats"] == len(result.models) * 60 * 3
    assert device.link.repeated == 0
    assert line.framing_errors == 0


def test_information(device):
    assert (device.clock_hz, device.memory_bytes) == (45_000_000, 32 * MIB)
    assert "33,554,432 bytes from 0x10000000" in device.facts()["shared memory"]


def test_both_ends_of_the_memory(device):
    base, end = 0x1000_0000, 0x1200_0000
    content = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8).tobytes()
    for address in (base, base + 8 * MIB - 2048, end - 4096):
        device.link.write_memory(address, content)
    for address in (base, base + 8 * MIB - 2048, end - 4096):
        assert device.link.read_memory(address, 4096) == content
    for address in (base - 8, end, end - 8):
        with pytest.raises(DeviceError, match=f"refused READ_MEMORY of 2 words at {address:#x}"):
            device.link.read_memory(address, 16)
    assert device.link.read_memory(end - 4096, 4096) == content


@pytest.mark.parametrize("system", [FAST])
def test_more_rows_than_the_chip_has_memory_blocks_for(line, device):
    """144,000 bytes of rows: more than the 128 KiB of the other memory."""
    job = random_job(PIPELINE, n_features=40, n_rows=6000, seed=2, epochs=2)
    assert job.rows[0].nbytes == 144_000 > 128 * 1024
    result = check(device, job)
    beats, cycles = result.counters["beats"], result.counters["cycles"]
    assert beats == 2 * 6000 * 3
    # A beat is 4 cycles of the chip.
    assert 4 * beats / cycles > 0.85
    assert line.chip.commands["REFRESH"] > line.cycles * 8192 / (0.064 * FAST.clock_hz)


def test_an_abort_and_a_run_after_it(line, device):
    def stop(epoch):
        raise KeyboardInterrupt

    for n_epochs in (40, 41):
        long = random_job(PIPELINE, n_features=40, n_rows=400, seed=3, epochs=n_epochs)
        with pytest.raises(KeyboardInterrupt):
            device.train(long, on_epoch=stop)
        status = RegisterRun(device, [JOB], 1.0)
        with status.stack:
            assert 0 < status.read("EPOCHS_DONE") < n_epochs
        check(device, JOB)


def test_pipeline_outside_of_the_memory(device):
    plain = device.allocate

    def allocate(n_bytes):
        buffer = plain(n_bytes)
        if n_bytes == JOB.rows[0].nbytes:
            buffer.address += 32 * MIB
            buffer.to_device = lambda: None
        return buffer

    device.allocate = allocate
    with pytest.raises(BusError, match="read of the rows with an error"):
        device.train(JOB)
    device.allocate = plain
    check(device, JOB)


def test_a_chip_that_is_too_slow_ends_the_test(line, device):
    line.chip.part = replace(MICRON_75, rcd=60)
    with pytest.raises(SdramViolation, match="tRCD: "):
        device.train(JOB)
