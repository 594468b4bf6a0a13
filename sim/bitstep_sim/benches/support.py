"""Parts of cocotb benches: seeded stalls, a memory that may be broken, the shell of a top."""

import mmap
import os
import random
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiRamRead,
    AxiRamWrite,
    AxiReadBus,
)

from bitstep.pipeline.parts.widths import ROW_PORTS
from bitstep.pipeline.registers import OFFSETS

SEED = int(os.environ.get("SEED", "0"))
MEMORY_BYTES = 1 << 20
LIMIT_US = 2000             # of simulated time, for any single wait
CLOCK_NS = 10


def stalls(role, probability):
    """Endless pause pattern for one channel, seeded by its role."""
    rng = random.Random(f"{SEED}-{role}")
    while True:
        yield rng.random() < probability


class _Breakable:
    """Mixin of a memory: accesses to an address in ``broken`` get an error response."""

    broken = range(0)

    def check(self, address, n_bytes):
        """Raise, which cocotbext-axi answers with SLVERR."""
        if any(at in self.broken for at in (address, address + n_bytes - 1)):
            raise OSError(f"broken memory at {address:#x}")


class BreakableRead(_Breakable, AxiRamRead):
    """Read side of a memory."""

    async def _read(self, address, length):
        self.check(address, length)
        return await super()._read(address, length)


class BreakableWrite(_Breakable, AxiRamWrite):
    """Write side of a memory."""

    async def _write(self, address, data):
        self.check(address, len(data))
        await super()._write(address, data)


class Shell:
    """Register bus and memory of a top with the ports of ``bitstep_hw.top.Top``.

    Parameters
    ----------
    dut : handle
        The top.
    stall : float
        Probability, per cycle and channel, that memory and register master pause.

    Attributes
    ----------
    memory : mmap
        ``MEMORY_BYTES`` at address 0, shared by all ports.
    rows, aux_read, aux_write : memories
        Ports; assign a ``range`` of addresses to ``broken`` to get errors.
    host : AxiLiteMaster
        The register master.
    """

    def __init__(self, dut, *, stall=0.0):
        self.dut = dut
        self.memory = mmap.mmap(-1, MEMORY_BYTES)
        clocking = (dut.clk, dut.rst)
        options = {"size": MEMORY_BYTES, "mem": self.memory}
        rows, aux = AxiReadBus.from_prefix(dut, "m_axi_rows"), AxiBus.from_prefix(dut, "m_axi_aux")
        registers = AxiLiteBus.from_prefix(dut, "s_axi")
        self.rows = BreakableRead(rows, *clocking, **options)
        self.aux_read = BreakableRead(aux.read, *clocking, **options)
        self.aux_write = BreakableWrite(aux.write, *clocking, **options)
        self.host = AxiLiteMaster(registers, *clocking)
        host_read: Any = self.host.read_if          # None only inside its constructor
        host_write: Any = self.host.write_if
        channels = {
            "rows-ar": self.rows.ar_channel, "rows-r": self.rows.r_channel,
            "aux-ar": self.aux_read.ar_channel, "aux-r": self.aux_read.r_channel,
            "aux-aw": self.aux_write.aw_channel, "aux-w": self.aux_write.w_channel,
            "aux-b": self.aux_write.b_channel,
            "host-ar": host_read.ar_channel, "host-r": host_read.r_channel,
            "host-aw": host_write.aw_channel, "host-w": host_write.w_channel,
            "host-b": host_write.b_channel,
        }
        if hasattr(dut, "m_axi_fine_araddr"):       # only pipelines that fetch rows again have it
            self.fine = BreakableRead(AxiReadBus.from_prefix(dut, "m_axi_fine"), *clocking,
                                      **options)
            channels |= {"fine-ar": self.fine.ar_channel, "fine-r": self.fine.r_channel}
        for port in range(1, max(ROW_PORTS)):       # rows may come over several
            if hasattr(dut, f"m_axi_rows{port}_araddr"):
                more = BreakableRead(AxiReadBus.from_prefix(dut, f"m_axi_rows{port}"), *clocking,
                                     **options)
                channels |= {f"rows{port}-ar": more.ar_channel, f"rows{port}-r": more.r_channel}
        if stall:
            for role, channel in channels.items():
                channel.set_pause_generator(stalls(role, stall))

    async def start(self):
        """Start the clock and reset the design."""
        Clock(self.dut.clk, CLOCK_NS, unit="ns").start()
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)

    async def read(self, name):
        """Read a register; a name without ``_LO`` or ``_HI`` of a pair reads both."""
        if name in OFFSETS:
            return await with_timeout(self.host.read_dword(OFFSETS[name]), LIMIT_US, "us")
        low = await self.read(f"{name}_LO")
        return low | await self.read(f"{name}_HI") << 32

    async def write(self, name, value):
        """Write a register; a name without ``_LO`` or ``_HI`` of a pair writes both."""
        if name in OFFSETS:
            await with_timeout(self.host.write_dword(OFFSETS[name], value), LIMIT_US, "us")
        else:
            await self.write(f"{name}_LO", value & 0xFFFFFFFF)
            await self.write(f"{name}_HI", value >> 32)

    async def finish(self):
        """Wait for the interrupt of a run that was just started."""
        await ClockCycles(self.dut.clk, 4)          # until that of the run before is gone
        if not self.dut.interrupt.value:
            await with_timeout(RisingEdge(self.dut.interrupt), LIMIT_US, "us")
        await ClockCycles(self.dut.clk, 1)
