"""Runs of :class:`~bitstep_sim.benches.fixture_top.FixtureTop` on the simulated board."""

import functools

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import OFFSETS, Error, Status
from bitstep_hw.top import to_rtlil, to_verilog
from bitstep_sim.benches.fixture_top import BOTH, FAULTS, LABELS_ONLY, ROWS_ONLY, FixtureTop, fold
from bitstep_sim.board.device import SimDevice

IDENTITY = 0x0123456789ABCDEF_FEDCBA9876543210


@functools.cache
def fixture_verilog(bus_width: int, faulty: bool = False) -> str:
    """Verilog of the fixture."""
    return to_verilog(to_rtlil(FixtureTop(bus_width=bus_width, identity=IDENTITY,
                                         faulty=faulty)))


def fixture_device(bus_width: int = 64, *, faulty: bool = False, **options) -> SimDevice:
    """Simulated board with the fixture; ``options`` as of :class:`SimDevice`."""
    return SimDevice(PipelineConfig(bus_width=bus_width),
                     verilog=fixture_verilog(bus_width, faulty), **options)


class FixtureRun:
    """Buffers and registers of one run.

    Parameters
    ----------
    device : SimDevice
        Board with the fixture.
    beats : int
        Beats to process.
    mode : int
        Value of LABEL_FORMAT: ``ROWS_ONLY``, ``LABELS_ONLY`` or ``BOTH``.
    fault : str
        One of ``FAULTS``, for a faulty fixture.
    seed : int
        Seed of the data.
    """

    def __init__(self, device, beats, *, mode=BOTH, fault="none", seed=0):
        rng = np.random.default_rng(seed)
        self.device, self.beats, self.mode = device, beats, mode
        self.rows, self.labels, self.out = (
            device.allocate(beats * n_bytes) for n_bytes in (device.config.rows.beat_bytes, 8, 8))
        for buffer in (self.rows, self.labels):
            buffer.array[:] = rng.integers(0, 256, buffer.array.size, dtype=np.uint8)
            buffer.to_device()
        for name, buffer in (("ROWS", self.rows), ("LABELS", self.labels),
                             ("MODEL_OUT", self.out)):
            self.set_address(name, buffer.address)
        self.set("ROWS", beats)
        self.set("LABEL_FORMAT", mode)
        self.set("LABEL_SHIFT", FAULTS.index(fault))

    def set(self, name, value):
        """Write a register."""
        self.device.write(OFFSETS[name], value)

    def get(self, name):
        """Read a register."""
        return self.device.read(OFFSETS[name])

    def set_address(self, name, address):
        """Write the address registers of a buffer."""
        self.set(f"{name}_ADDRESS_LO", address & 0xFFFFFFFF)
        self.set(f"{name}_ADDRESS_HI", address >> 32)

    def start(self):
        """Start."""
        self.set("CONTROL", 1)

    def wait(self, timeout_s=60.0):
        """Wait for the end; return whether it came."""
        return self.device.wait(lambda: bool(self.get("STATUS") & Status.DONE), timeout_s)

    def run(self):
        """Start, wait, and return the error and the cycles."""
        self.start()
        if not self.wait():
            raise TimeoutError(f"Fixture is still busy after {self.get('CYCLES_LO')} cycles")
        return Error(self.get("ERROR")), self.get("CYCLES_LO")

    def expected(self):
        """Words that the run should write."""
        result = np.zeros(self.beats, dtype=np.uint64)
        if self.mode != LABELS_ONLY:
            words = self.rows.array.view(np.uint64).reshape(self.beats, -1)
            for index, column in enumerate(words.T):
                left, right = np.uint64(index), np.uint64((64 - index) % 64)
                result ^= column << left | (column >> right if index else np.uint64(0))
        if self.mode != ROWS_ONLY:
            result ^= self.labels.array.view(np.uint64)
        return result

    def written(self):
        """Words that it wrote."""
        self.out.from_device()
        return self.out.array.view(np.uint64).copy()


__all__ = ["BOTH", "FAULTS", "IDENTITY", "LABELS_ONLY", "ROWS_ONLY", "FixtureRun",
           "fixture_device", "fixture_verilog", "fold"]
