"""The whole top, driven by the real driver, against the models of cocotbext-axi.

The driver runs in a thread (``bridge``) and its register accesses in the simulation (``resume``),
so this is the code path of a board, with bus models that know nothing of this project.
"""

import dataclasses
import json
import os

import cocotb
import numpy as np
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles

from bitstep.devices.register_device import RegisterDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import Control, Error, LabelFormat, Loss
from bitstep.pipeline.results import (
    AbortedError,
    BadConfigurationError,
    BusError,
    RangeOverflowError,
    beats_read,
)
from bitstep_sim.benches.support import MEMORY_BYTES, SEED, Shell
from bitstep_sim.board.verilog import identity
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.changed_device import NAMES, ChangedDevice
from bitstep_sim.testing.random_jobs import random_job, random_jobs

CONFIG = PipelineConfig(**json.loads(os.environ["CONFIG"]))
PAGE = 4096
LIMIT_CYCLES = 100_000
LOSSES = (Loss.LOGISTIC,) if CONFIG.loss_family == "logistic" else \
    (Loss.HINGE, Loss.LEAST_SQUARES, Loss.SQUARED_HINGE)
BROKEN = [("rows", "ROWS", Error.ROW_READ), ("aux_read", "LABELS", Error.AUX_READ),
          ("aux_read", "EPOCH_TABLE", Error.AUX_READ), ("aux_read", "MODEL_IN", Error.AUX_READ),
          ("aux_write", "MODEL_OUT", Error.MODEL_WRITE),
          *[("fine", "FINE", Error.ROW_READ)] * CONFIG.refetch]


class BenchBuffer:
    """A part of the bench's memory; implements :class:`bitstep.devices.base.Buffer`."""

    def __init__(self, memory, address, n_bytes):
        self.address, self._memory = address, memory
        self.array = np.full(n_bytes, 0xDB, np.uint8)

    def to_device(self):
        self._memory[self.address:self.address + self.array.size] = self.array.tobytes()

    def from_device(self):
        content = self._memory[self.address:self.address + self.array.size]
        self.array[:] = np.frombuffer(content, np.uint8)

    def free(self):
        pass


class BenchDevice(RegisterDevice):
    """The bench as a device; every method may be called from a bridged thread only.

    Parameters
    ----------
    shell : Shell
    """

    name = "bench"
    clock_hz = 100e6       # as good as any: the bench counts cycles

    def __init__(self, shell):
        self.shell, self.config, self.identity = shell, CONFIG, identity(CONFIG)
        self._free = PAGE

    def read(self, offset):
        return resume(self.shell.read)(NAMES[offset])

    def write(self, offset, value):
        resume(self.shell.write)(NAMES[offset], value)

    def allocate(self, n_bytes):
        address, self._free = self._free, self._free + -(-n_bytes // PAGE) * PAGE + PAGE
        assert self._free <= MEMORY_BYTES
        return BenchBuffer(self.shell.memory, address, n_bytes)

    def wait(self, done, timeout_s):
        pause = resume(self._pause)
        for _ in range(0, LIMIT_CYCLES, 200):
            if done():
                return True
            pause()
        raise TimeoutError(f"The run is still busy after {LIMIT_CYCLES} cycles")

    async def _pause(self):
        await ClockCycles(self.shell.dut.clk, 200)

    def close(self):
        pass


async def run(shell, job, **options):
    """Train; returns the result, or the error."""
    def work():
        try:
            return ChangedDevice(BenchDevice(shell), **options).train(job)
        except Exception as error:
            return error
    return await bridge(work)()


def compare(result, job):
    """Every finished epoch must be golden's."""
    assert not isinstance(result, Exception), result
    for model, intercept, golden in zip(result.models, result.intercepts, train(job), strict=False):
        np.testing.assert_array_equal(model, golden.model)
        assert intercept == golden.intercept


async def trains(shell, job):
    """Run a job that ends well."""
    result = await run(shell, job)
    compare(result, job)
    assert result.epochs_done == len(job.epochs)
    assert result.counters["beats"] == beats_read(job, len(job.epochs))
    assert result.counters["refetched_rows"] == sum(epoch.refetched_rows for epoch in train(job))


async def prepare(dut, stall):
    shell = Shell(dut, stall=stall)
    await shell.start()
    return shell


def draw_job(*, n_features, epochs, seed, warm=False, intercept=True, **options):
    """A random job; with bit-plane rows every epoch has other planes."""
    if CONFIG.row_format != BIT_PLANES:
        return random_job(CONFIG, n_features=n_features, epochs=epochs, seed=seed, warm=warm,
                          intercept=intercept, **options)
    if options.get("loss", Loss.LEAST_SQUARES) != Loss.LEAST_SQUARES:
        options.pop("label_format", None)           # labels are signs
    options.pop("cell_half_levels", None)
    if not warm:
        options |= {"model": np.zeros(n_features, np.int32), "intercept": 0}
    if not intercept:
        options |= {"intercept_level": 0, "intercept": 0}
    planes = tuple((seed + 7 * number) % 16 + 1 for number in range(epochs))
    return random_bit_plane_job(CONFIG, n_features=n_features, seed=seed, planes=planes, **options)


def small_job(**options):
    """A few rows of two beats, for what ends early; rows are fetched again if they can be."""
    return draw_job(**{"n_features": CONFIG.rows.lanes + 1, "n_rows": 40, "epochs": 3, "seed": SEED,
                       "warm": True, "loss": LOSSES[0], "cell_half_levels": int(CONFIG.refetch),
                       **options})


@cocotb.test
@cocotb.parametrize(stall=[0.0, 0.4])
async def every_epoch_as_golden(dut, stall):
    shell = await prepare(dut, stall)
    for number, n_features in enumerate((1, CONFIG.rows.lanes, CONFIG.rows.lanes + 1,
                                         CONFIG.rows.capacity)):
        batch, loss = 1 + number, LOSSES[(number + 1) % len(LOSSES)]
        # With floating-point rows a period must be longer than the look-ahead.
        period = [0, 1, 2, 5][number] + (
            number and CONFIG.lookahead) * (CONFIG.row_format == "float32")
        await trains(shell, draw_job(
            n_features=n_features, n_rows=23, epochs=2, seed=SEED + number, batch=batch,
            correction_period=period * batch, copies=1 + number % 2, loss=loss,
            proximal_period=[1, 4, 0, 3][number] * batch * CONFIG.proximal,
            warm=number % 2 == 0, intercept=number != 1, label_format=LabelFormat(number % 3)))


@cocotb.test(skip=CONFIG.models == 1)
@cocotb.parametrize(stall=[0.0, 0.4])
async def every_model_as_golden(dut, stall):
    shell = await prepare(dut, stall)
    for count, n_features in ((CONFIG.models, CONFIG.rows.lanes + 1), (CONFIG.models - 1, 5)):
        jobs = random_jobs(CONFIG, count, n_features=n_features, n_rows=23, seed=SEED, batch=2,
                           correction_period=4, warm=True, loss=LOSSES[0])
        for result, job in zip(await bridge(
                lambda jobs=jobs: BenchDevice(shell).train_models(jobs))(), jobs, strict=True):
            compare(result, job)
            assert result.epochs_done == len(job.epochs)


@cocotb.test(skip=not CONFIG.refetch)
@cocotb.parametrize(stall=[0.0, 0.4])
async def every_refetched_row_as_golden(dut, stall):
    shell = await prepare(dut, stall)
    for number, n_features in enumerate((1, CONFIG.rows.lanes, CONFIG.rows.capacity)):
        job = small_job(n_features=n_features, n_rows=80, epochs=2, seed=SEED + number,
                        cell_half_levels=1 + number % 2, correction_period=[0, 7, 10][number])
        assert any(epoch.refetched_rows for epoch in train(job)), number
        await trains(shell, job)


@cocotb.test
@cocotb.parametrize(case=BROKEN)
async def bus_errors(dut, case):
    port, buffer, error = case
    shell = await prepare(dut, 0.2)
    memory, job = getattr(shell, port), small_job()

    def on_start(registers):
        start = registers[f"{buffer}_ADDRESS_LO"]
        # Labels may be one beat only, and not every row is fetched again.
        memory.broken = range(start + 16 * (buffer != "LABELS"),
                              start + (PAGE if port == "fine" else 24))

    result = await run(shell, job, on_start=on_start)
    assert isinstance(result, BusError), result
    assert await shell.read("ERROR") == error
    compare(result.result, job)
    memory.broken = range(0)
    await trains(shell, job)


@cocotb.test
async def bad_registers(dut):
    shell = await prepare(dut, 0.2)
    for registers in ({"ROWS": 0}, {"LOOKAHEAD": CONFIG.lookahead + 1}, {"LABELS_ADDRESS_LO": 4}):
        result = await run(shell, small_job(), registers=registers)
        assert isinstance(result, BadConfigurationError), result
    await trains(shell, small_job())


@cocotb.test
@cocotb.parametrize(cycles=[20, 300, 700])
async def abort(dut, cycles):
    shell = await prepare(dut, 0.2)
    job = small_job(n_rows=200)
    task = cocotb.start_soon(run(shell, job))
    while not await shell.read("STATUS") & 1:
        pass
    await ClockCycles(dut.clk, cycles)
    await shell.write("CONTROL", Control.ABORT)
    result = await task
    assert isinstance(result, AbortedError), result
    compare(result.result, job)
    await trains(shell, small_job())


@cocotb.test
async def overflow(dut):
    shell = await prepare(dut, 0.0)
    job = small_job(n_rows=60, cell_half_levels=0,
                    loss=Loss.LOGISTIC if CONFIG.loss_family == "logistic" else Loss.LEAST_SQUARES)
    if CONFIG.loss_family == "logistic":         # K must be too large, since no update is larger
        job = dataclasses.replace(job, label_shift=22)
    wild = dataclasses.replace(job.epochs[1], mantissa=(1 << 18) - 1, shift=1)
    job = dataclasses.replace(job, epochs=(job.epochs[0], wild, job.epochs[2]))
    result = await run(shell, job)
    assert isinstance(result, RangeOverflowError), result
    assert result.epoch == 2
    compare(result.result, job)
    await trains(shell, small_job())
