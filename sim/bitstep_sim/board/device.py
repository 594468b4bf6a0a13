"""The simulated board as a device: the RTL of a real board, compiled, with a simulated memory."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bitstep.checks import check_integer, is_number
from bitstep.cycles import Memory
from bitstep.devices.register_device import RegisterDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import OFFSETS, Control
from bitstep.pipeline.results import DeviceError
from bitstep_sim.board import verilator
from bitstep_sim.board.allocator import Allocator
from bitstep_sim.board.compiled import BASE, Board
from bitstep_sim.board.verilog import generate, identity

MEMORY_BYTES = 1 << 31      # of address space; the system gives memory as it is written
POISON = 0xDB               # what memory holds that nobody wrote
CHUNK_S = 0.05              # aim for how long the clock runs without a look at the host


class SimBuffer:
    """Memory with separate copies for host and pipeline, as with caches that are not flushed.

    Parameters
    ----------
    device : SimDevice
        The device that allocated it.
    address, n_bytes : int
        Its place and size.
    """

    def __init__(self, device: "SimDevice", address: int, n_bytes: int):
        self._device = device
        self.address = address
        self.array = np.full(n_bytes, POISON, dtype=np.uint8)
        self._device_copy()[:] = POISON

    def _device_copy(self) -> np.ndarray:
        if self._device is None:
            raise DeviceError("The buffer was freed, or its device closed")
        start = self.address - BASE
        return self._device.board.memory[start:start + self.array.size]

    def to_device(self) -> None:
        """Copy from the host to the pipeline."""
        self._device_copy()[:] = self.array

    def from_device(self) -> None:
        """Copy from the pipeline to the host."""
        self.array[:] = self._device_copy()

    def free(self) -> None:
        """Give the memory back; twice is harmless."""
        if self._device is not None:
            self._device._free(self)
            self._device = None


class SimDevice(RegisterDevice):
    """The simulated board: the RTL of a real one, compiled by Verilator.

    The first use of a configuration generates and compiles its RTL, which takes from seconds to
    some minutes (docs/results/performance.md); later ones load the library from the user's cache
    folder.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    clock_hz : float
        What ``memory_gbps`` and reports of speed refer to, below 1e12; the simulation takes its own
        time.
    memory_latency : int
        Cycles from an address to its data, 1 to 100,000.
    memory_gbps : float or None
        Memory bandwidth in 10^9 bytes per second, 0.01 to 1e6, shared by all ports; None does not
        limit it.
    stall_probability : float
        Probability, per cycle and bus channel, that the memory does nothing; below 1.
    stall_seed : int
        Seed of these stalls, from 0 to 2**64 - 1.
    wave : path or None
        FST file to write; use it for short runs, it makes the simulation many times slower.
    memory_bytes : int
        Size of the memory, at least 1.
    progress : callable, optional
        Called with lines of text while something is generated or compiled.
    verilog : str or None
        RTL of a top to use instead of the pipeline's.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Attributes
    ----------
    board : Board
        The simulation, with cycle count and stray accesses.
    """

    name = "sim"
    any_models = True       # a pipeline for as many models as are asked for is made
    bit_planes = True

    def __init__(self, config: PipelineConfig, *, clock_hz: float = 100e6,
                 memory_latency: int = 20, memory_gbps: float | None = None,
                 stall_probability: float = 0.0, stall_seed: int = 0,
                 wave: str | Path | None = None, memory_bytes: int = MEMORY_BYTES,
                 progress: Callable[[str], None] | None = None, verilog: str | None = None):
        memory = Memory.of(clock_hz, memory_latency, memory_gbps)
        if not is_number(stall_probability, 0) or stall_probability >= 1:
            raise ValueError("stall_probability must be a number of at least 0 and below 1, not "
                             f"{stall_probability!r}")
        check_integer("stall_seed", stall_seed, 0, (1 << 64) - 1)
        check_integer("memory_bytes", memory_bytes, 1)
        self.config = config
        self.clock_hz = clock_hz
        self.identity = identity(config)
        self._latency, self._gbps = memory_latency, memory_gbps
        if verilog is None:
            verilog = generate(config, flat=wave is None, progress=progress)
        library = verilator.build(verilog, trace=wave is not None, progress=progress,
                                  label=config.name)
        self.board = Board(
            library, memory_bytes=memory_bytes, latency=memory.latency,
            bytes_per_cycle=memory.bytes_per_cycle,
            stall_probability=stall_probability, stall_seed=stall_seed, wave=wave)
        self._allocator = Allocator(BASE, memory_bytes)
        self._buffers: list[SimBuffer] = []
        self._cycles_per_second = 1e5

    def read(self, offset: int) -> int:
        """Read the 32-bit register at byte ``offset``."""
        return self.board.read(offset)

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at byte ``offset``.

        The start of a run begins the memory's timing anew, so that its cycles do not depend on the
        runs before.
        """
        if offset == OFFSETS["CONTROL"] and value & Control.START:
            self.board.restart_timing()
        self.board.write(offset, value)

    def allocate(self, n_bytes: int) -> SimBuffer:
        """Allocate shared memory, poisoned for host and pipeline alike.

        Raises
        ------
        ValueError
            If there is not at least one byte.
        MemoryError
            If there is no room.
        """
        if n_bytes < 1:
            raise ValueError(f"A buffer must have at least 1 byte, not {n_bytes}")
        buffer = SimBuffer(self, self._allocator.allocate(n_bytes), n_bytes)
        self._buffers.append(buffer)
        self._update_ranges()
        return buffer

    def _free(self, buffer: SimBuffer) -> None:
        self._allocator.free(buffer.address)
        self._buffers.remove(buffer)
        self._update_ranges()

    def _update_ranges(self):
        # A beat of the widest bus may reach beyond the last byte that was asked for.
        self.board.set_allocated([(address, -(-n_bytes // 64) * 64)
                                  for address, n_bytes in self._allocator.blocks])

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Run the clock until ``done()``, or for about ``timeout_s`` seconds of the host's clock.

        The clock stops when the interrupt rises, so a run costs no cycles after its end.
        """
        deadline = time.monotonic() + timeout_s
        while not (result := done()):
            if time.monotonic() >= deadline:
                break
            if self.board.interrupt:
                # The run ended between two of the registers that ``done()`` reads, each of which
                # takes cycles: no interrupt is to come, and the next ``done()`` knows.
                self.board.run(1)
                continue
            start = time.monotonic()
            chunk = max(1000, int(self._cycles_per_second * CHUNK_S))
            cycles = self.board.run(chunk)
            seconds = time.monotonic() - start
            if seconds > CHUNK_S / 10:
                self._cycles_per_second = cycles / seconds
            elif cycles == chunk:       # not ended by the interrupt: it can be twice as many
                self._cycles_per_second *= 2
        return result

    def await_interrupt(self, timeout_s: float) -> bool:
        """Run the clock until the interrupt is up, or for about ``timeout_s`` seconds of the
        host's clock.
        """
        return self.wait(lambda: self.board.interrupt, timeout_s)

    def seconds(self) -> float:
        """Time on the board."""
        return self.board.cycles / self.clock_hz

    def facts(self) -> dict[str, str]:
        """Properties of the simulation, for a report."""
        return {"simulation": "the RTL, compiled by Verilator; its time is that of the simulated "
                "clock", "memory latency": f"{self._latency} cycles", "memory bandwidth":
                "not limited" if self._gbps is None else f"{self._gbps:g} GB/s"}

    def close(self) -> None:
        """Free everything; twice is harmless."""
        for buffer in self._buffers:
            buffer._device = None
        self._buffers.clear()
        self.board.close()
