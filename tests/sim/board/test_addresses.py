"""Places of buffers in memory: around 4 GiB, over each other, and where no run takes them; counters
around 2^32 and 2^64.
"""

import bisect
import contextlib
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from bit_plane_runs import FAST as BIT_PLANES
from centred_runs import constants_of
from drawn_jobs import CONFIGS, PACKED, REFETCH, TABLES
from simulated import TestedDevice, check_against_golden, compare, open_board

from bitstep.golden.sgd import train
from bitstep.pipeline.memory import ModelLayout
from bitstep.pipeline.registers import COUNTERS, OFFSETS, Loss, Status
from bitstep.pipeline.results import BadConfigurationError, RunError, RunResult
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.device import SimBuffer, SimDevice
from bitstep_sim.board.verilog import generate
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job, random_jobs

GIB_4 = 1 << 32
CONFIG = CONFIGS[1]
OPTIONS = {"n_rows": 70, "epochs": 3, "copies": 2, "warm": True, "correction_period": 4}
JOB = random_job(CONFIG, n_features=50, **OPTIONS)
BIT_PLANE_JOB = random_bit_plane_job(BIT_PLANES, planes=(16, 5, 3), n_features=70, n_rows=130,
                                     copies=2,
                             correction_period=4, **constants_of(70, 0))
# Jobs of a run, and the buffers that it has, in the order in which the driver asks for them.
COMMON = ("rows", "labels", "epoch table", "models", "first model", "coefficients")
RUNS = {
    "codes": ([JOB], COMMON),
    "refetch": ([random_job(REFETCH, n_features=50, n_rows=90, loss=Loss.HINGE, warm=True,
                            correction_period=4, cell_half_levels=2)], (*COMMON, "fine rows")),
    "tables": ([random_job(TABLES[0], n_features=50, **OPTIONS)], (*COMMON, "codebooks")),
    "bit_planes": ([BIT_PLANE_JOB], COMMON),
    "packed": (random_jobs(PACKED, 3, n_features=3, **OPTIONS), COMMON),
}


class PlacedDevice(SimDevice):
    """A simulated board whose memory reaches beyond 4 GiB; one of a run's buffers has a place of
    its own, and every one ends with its last beat.
    """

    def __init__(self, config, **options):
        self.number: int = -1
        self.place: Callable[[int], int] = before_4_gib
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


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in ("codes", "refetch") else [pytest.mark.slow])
    for name in RUNS])
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


class Overlapped(TestedDevice):
    """A board that is told of places that another buffer has.

    Parameters
    ----------
    device : SimDevice
    **places
        For the name of a register's pair, that of the pair whose value it gets, or a number.
    """

    def __init__(self, device, **places):
        super().__init__(device)
        self.places = places

    def write(self, offset, value):
        if offset == OFFSETS["CONTROL"]:
            for name, place in self.places.items():
                for shift, half in ((0, "_LO"), (32, "_HI")):
                    number = self.written[place + half] if isinstance(place, str) \
                        else place >> shift & 0xFFFF_FFFF
                    super().write(OFFSETS[name + half], number)
        super().write(offset, value)


@pytest.fixture(scope="module")
def board():
    with open_board(CONFIG) as device:
        yield device


@pytest.mark.parametrize("target", ["MODEL_IN_ADDRESS", "COEFFICIENTS_ADDRESS"])
def test_models_over_what_was_read_before(board, target):
    """The first model and the coefficients are read before a model is written. Each epoch's goes to
    the same place, and so the last one stays.
    """
    device = Overlapped(board, MODEL_OUT_ADDRESS=target, MODEL_OUT_STRIDE=0)
    words = {}
    device.on_start = words.update
    device.train(JOB)
    start = words[f"{target}_LO"] - BASE
    last = list(train(JOB))[-1]
    expected = ModelLayout(CONFIG, JOB.n_features).pack(last.model, last.intercept)
    np.testing.assert_array_equal(board.board.memory[start:start + expected.size], expected)
    check_against_golden(board, JOB)


def test_copies_over_each_other(board):
    """With a stride of 0 every epoch reads the first copy."""
    result = Overlapped(board, COPY_STRIDE=0).train(JOB)
    compare(result, list(train(replace(JOB, rows=(JOB.rows[0],) * 2))))


@pytest.mark.parametrize("target", ["ROWS_ADDRESS", "LABELS_ADDRESS", "EPOCH_TABLE_ADDRESS"])
def test_models_over_what_is_read_again(board, target):
    """What such a run trains is not defined; it ends, and the next is right."""
    device = Overlapped(board, MODEL_OUT_ADDRESS=target, MODEL_OUT_STRIDE=0)
    with contextlib.suppress(RunError):
        device.train(JOB)
    assert board.read(OFFSETS["STATUS"]) & (Status.BUSY | Status.DONE) == Status.DONE
    check_against_golden(board, JOB)


ADDRESSES = [name for name in OFFSETS if name.endswith(("_ADDRESS_LO", "_STRIDE_LO"))]


@pytest.mark.parametrize("name", ADDRESSES)
def test_misaligned_addresses(board, name):
    """Every bit below a beat; nothing is read or written."""
    before = board.board.stray_accesses
    for bit in range(3):
        with pytest.raises(BadConfigurationError) as found:
            Misaligned(board, name, 1 << bit).train(JOB)
        assert found.value.result.epochs_done == 0
        assert not found.value.result.counters["bytes_read"]
    assert board.board.stray_accesses == before
    check_against_golden(board, JOB)


class Misaligned(TestedDevice):
    """A board one of whose addresses is so many bytes further."""

    def __init__(self, device, name, distance):
        super().__init__(device)
        self.place = OFFSETS[name], distance

    def write(self, offset, value):
        super().write(offset, value + (offset == self.place[0]) * self.place[1])


# Values from which counters begin in these tests: a carry into the high half in the middle of the
# run, and one out of their 48 bits.
WIDTH = 48
PRESETS = ((1 << 32) - 300, (1 << WIDTH) - 300)
BUSY = ("cycles", "beats", "bytes_read")        # the run of ``JOB`` counts more than 300 of each


def preset_counters():
    """RTL whose counters begin with ``PRESETS``, in turn, and those values by name."""
    text, values = generate(CONFIG), {}
    for number, (name, _) in enumerate(COUNTERS):
        name, value = name.lower(), PRESETS[number % 2]
        found = re.search(rf"assign (\S.*?) += \S*count_{name} +\+ ", text)
        count = 0
        if found:
            text, count = re.subn(rf"(cleared +\? 48'h)0{{12}}( : {re.escape(found[1])} ?;)",
                                  rf"\g<1>{value:012x}\g<2>", text)
        assert count == 1 or name not in BUSY, f"the clear of {name} was not found"
        values[name] = value * count
    return text, values


def test_counters_that_wrap_around(board):
    """Into their high half, which a read of the low one keeps, and from the largest value to 0."""
    counters = board.train(JOB).counters
    text, presets = preset_counters()
    assert all(counters[name] > 300 for name in BUSY)
    seen = []

    def read_pairs():
        for _ in range(40):
            low = preset.read(OFFSETS["CYCLES_LO"])
            seen.append(low | preset.read(OFFSETS["CYCLES_HI"]) << 32)

    with open_board(CONFIG, verilog=text) as preset:
        result = TestedDevice(preset, during=read_pairs, cycles=200).train(JOB)
    assert result.counters == {
        name: (value + presets[name]) % (1 << WIDTH) for name, value in counters.items()}
    assert seen == sorted(set(seen))
    assert seen[0] < 1 << 32 < seen[-1]
