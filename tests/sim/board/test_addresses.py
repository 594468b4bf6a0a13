"""Places of buffers in memory: around 4 GiB, over each other, and where no run takes them; counters
around 2^32 and 2^64.
"""

import bisect
import re
from dataclasses import replace

import numpy as np
import pytest
from centred_runs import constants_of
from drawn_jobs import CONFIGS, DENSE, REFETCH, TABLES
from simulated import TestedDevice, check_against_golden, compare
from woven_runs import FAST as WOVEN

from bitstep.golden.sgd import train
from bitstep.pipeline.registers import COUNTERS, OFFSETS, Error, Loss
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    BadConfigurationError,
    RunResult,
)
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.device import SimBuffer, SimDevice
from bitstep_sim.board.verilog import generate
from bitstep_sim.testing.random_jobs import random_job, random_jobs
from bitstep_sim.testing.woven_jobs import random_woven_job

GIB_4 = 1 << 32
CONFIG = CONFIGS[1]
OPTIONS = {"n_rows": 70, "epochs": 3, "copies": 2, "warm": True, "correction_period": 4}
JOB = random_job(CONFIG, n_features=50, **OPTIONS)
WOVEN_JOB = random_woven_job(WOVEN, planes=(16, 5, 3), n_features=70, n_rows=130, copies=2,
                             correction_period=4, **constants_of(70, 0))
# Jobs of a run, and the buffers that it has, in the order in which the driver asks for them.
COMMON = ("rows", "labels", "epoch table", "models", "first model", "coefficients")
RUNS = {
    "codes": ([JOB], COMMON),
    "refetch": ([random_job(REFETCH, n_features=50, n_rows=90, loss=Loss.HINGE, warm=True,
                            correction_period=4, cell_half_levels=2)], (*COMMON, "fine rows")),
    "tables": ([random_job(TABLES[0], n_features=50, **OPTIONS)], (*COMMON, "level tables")),
    "woven": ([WOVEN_JOB], COMMON),
    "dense": (random_jobs(DENSE, 3, n_features=3, **OPTIONS), COMMON),
}


class PlacedDevice(SimDevice):
    """A simulated board whose memory reaches beyond 4 GiB; one of a run's buffers has a place of
    its own, and every one ends with its last beat.
    """

    def __init__(self, config, **options):
        self.number, self.place = -1, None
        super().__init__(config, memory_bytes=GIB_4 - BASE + (1 << 20), **options)
        self._allocator.size = 1 << 24

    def allocate(self, n_bytes):
        """Allocate, the buffer that is asked for at the place that ``place`` gives for its size."""
        self.number -= 1
        if self.number != -1:
            return super().allocate(n_bytes)
        address = self.place(-(-n_bytes // 8) * 8)
        bisect.insort(self._allocator.blocks, (address, n_bytes))
        buffer = SimBuffer(self, address, n_bytes)
        self._buffers.append(buffer)
        self._update_ranges()
        return buffer

    def _update_ranges(self):
        self.board.set_allocated([(address, -(-n_bytes // 8) * 8)
                                  for address, n_bytes in self._allocator.blocks])


def before_4_gib(n_bytes):
    """The last bytes below 4 GiB, so that the address behind them is no word of 32 bits."""
    return GIB_4 - n_bytes


def across_4_gib(n_bytes):
    """4 GiB is in the middle."""
    return GIB_4 - n_bytes // 16 * 8


def from_4_gib(n_bytes):
    """The first bytes whose address has more than 32 bits."""
    return GIB_4


@pytest.mark.parametrize("name", RUNS)
def test_buffers_around_4_gib(name):
    jobs, buffers = RUNS[name]
    expected = [list(train(job)) for job in jobs]
    with PlacedDevice(jobs[0].config) as device:
        for place in (before_4_gib, across_4_gib, from_4_gib):
            for number, buffer in enumerate(buffers):
                device.number, device.place = number, place
                found = device.train_models(jobs)
                assert device.number < 0, f"no {buffer} were asked for"
                assert device.board.stray_accesses == 0, (
                    f"{buffer} {place.__name__}: {device.board.first_stray}")
                for result, epochs in zip(found, expected, strict=True):
                    assert isinstance(result, RunResult), f"{buffer} {place.__name__}"
                    compare(result, epochs)


def test_the_last_buffer_of_a_board():
    """A beat beyond the end of what was allocated would be seen."""
    with PlacedDevice(CONFIG) as device:
        device.number, device.place = 1, lambda n_bytes: GIB_4 - n_bytes
        check_against_golden(device, JOB)
        tested = TestedDevice(device, registers={"ROWS": JOB.n_rows + 128})
        with pytest.raises(Exception, match="error"):
            tested.train(JOB)
        assert device.board.stray_accesses


def overlapped(**registers):
    """A board whose driver is told of places that are another buffer's, by name of registers."""
    class Overlapping(TestedDevice):
        def write(self, offset, value):
            for name, source in registers.items():
                for half in ("_LO", "_HI"):
                    if offset == OFFSETS[name + half]:
                        value = self.written[source + half] if isinstance(source, str) else \
                            source >> 32 * (half == "_HI") & 0xFFFF_FFFF
            super().write(offset, value)
    return Overlapping
