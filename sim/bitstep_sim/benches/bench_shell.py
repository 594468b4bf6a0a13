"""Register bank and AXI masters of :class:`~bitstep_sim.benches.fixture_top.FixtureTop` against the
models of cocotbext-axi, which know nothing of this project.
"""

import os
import random
import struct

import cocotb
from cocotb.triggers import ClockCycles

from bitstep.pipeline.registers import MAP_VERSION, Control, Error, Status, registers_of
from bitstep_sim.benches.fixture_top import BOTH, LABELS_ONLY, ROWS_ONLY, fold
from bitstep_sim.benches.support import SEED, Shell

BEAT_BYTES = int(os.environ["BUS_WIDTH"]) // 8
ROWS, LABELS, OUT = 0x10000, 0x60000, 0x80000 + 0xFF8


async def prepare(dut, stall):
    shell = Shell(dut, stall=stall)
    await shell.start()
    rng = random.Random(SEED)
    shell.memory[:] = rng.randbytes(len(shell.memory))
    for name, address in (("ROWS", ROWS), ("LABELS", LABELS), ("MODEL_OUT", OUT)):
        await shell.write(f"{name}_ADDRESS", address)
    return shell


def words(memory, address, count):
    return struct.unpack_from(f"<{count}Q", memory, address)


async def check_run(shell, beats, mode):
    rows = [fold(words(shell.memory, ROWS + i * BEAT_BYTES, BEAT_BYTES // 8))
            for i in range(beats)]
    labels = words(shell.memory, LABELS, beats)
    expected = [(mode != LABELS_ONLY) * row ^ (mode != ROWS_ONLY) * label
                for row, label in zip(rows, labels, strict=True)]
    around = words(shell.memory, OUT - 8, 1) + words(shell.memory, OUT + 8 * beats, 1)
    await shell.write("ROWS", beats)
    await shell.write("LABEL_FORMAT", mode)
    await shell.write("CONTROL", Control.START)
    await shell.finish()
    assert await shell.read("STATUS") == Status.DONE
    assert list(words(shell.memory, OUT, beats)) == expected
    assert words(shell.memory, OUT - 8, 1) + words(shell.memory, OUT + 8 * beats, 1) == around


@cocotb.test
@cocotb.parametrize(stall=[0.0, 0.6])
async def registers_keep_values(dut, stall):
    shell = await prepare(dut, stall)
    rng = random.Random(SEED)
    assert await shell.read("VERSION") == MAP_VERSION
    expected = {}
    # All that can be written of what the bank of a top without choices has.
    writable = [register for register in registers_of(()) if register.access == "rw"]
    for register in rng.sample(writable, len(writable)):
        value = rng.getrandbits(32)
        await shell.write(register.name, value)
        expected[register.name] = value % (1 << register.width)
    for name, value in expected.items():
        assert await shell.read(name) == value, name
    assert await shell.read("CONTROL") == 0


@cocotb.test
@cocotb.parametrize(stall=[0.0, 0.5], mode=[ROWS_ONLY, LABELS_ONLY, BOTH])
async def computes_what_it_should(dut, stall, mode):
    shell = await prepare(dut, stall)
    for beats in (1, 16, 17, 150):
        await check_run(shell, beats, mode)


@cocotb.test
@cocotb.parametrize(port=["rows", "aux_read", "aux_write"])
async def errors_end_the_run(dut, port):
    shell = await prepare(dut, 0.3)
    address, error = {"rows": (ROWS, Error.ROW_READ), "aux_read": (LABELS, Error.AUX_READ),
                      "aux_write": (OUT, Error.MODEL_WRITE)}[port]
    memory = getattr(shell, port)
    memory.broken = range(address + 64, address + 72)
    await shell.write("ROWS", 100)
    await shell.write("LABEL_FORMAT", BOTH)
    await shell.write("CONTROL", Control.START)
    await shell.finish()
    assert await shell.read("STATUS") == Status.DONE | Status.FAILED
    assert await shell.read("ERROR") == error
    memory.broken = range(0)
    await check_run(shell, 20, BOTH)


@cocotb.test
async def abort_ends_the_run(dut):
    shell = await prepare(dut, 0.3)
    await shell.write("ROWS", 1000)
    await shell.write("LABEL_FORMAT", BOTH)
    await shell.write("CONTROL", Control.START)
    await ClockCycles(dut.clk, 200)
    await shell.write("ROWS", 5)                    # locked
    assert await shell.read("ROWS") == 1000
    await shell.write("CONTROL", Control.ABORT)
    await shell.finish()
    assert await shell.read("ERROR") == Error.ABORTED
    await check_run(shell, 20, BOTH)
