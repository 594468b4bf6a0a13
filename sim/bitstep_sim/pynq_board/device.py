"""The simulated board as a device of the pynq library."""
# pyright: reportMissingImports=false

import threading
from pathlib import Path

import numpy as np
from pynq import interrupt as pynq_interrupt
from pynq import ps as pynq_ps
from pynq.buffer import PynqBuffer
from pynq.pl_server.device import Device
from pynq.ps import Clocks
from pynqmetadata.frontends import Metadata

from bitstep.pipeline.registers import OFFSETS, Status
from bitstep_hw.boards.zynq import REGISTERS_BYTES, PynqBoard
from bitstep_sim.board import verilator
from bitstep_sim.board.allocator import Allocator
from bitstep_sim.board.compiled import BASE, Board
from bitstep_sim.board.verilog import generate
from bitstep_sim.pynq_board.handoff import CONTROLLER, read_config
from bitstep_sim.pynq_board.peripherals import (
    ClockRegisters,
    InterruptController,
    interrupt_file,
)

try:                                    # pynqmetadata 0.2
    from pynqmetadata.views.runtime import RuntimeMetadataParser
except ImportError:                     # 0.1, which Kria-PYNQ has
    from pynq.metadata.runtime_metadata_parser import RuntimeMetadataParser

POISON = 0xDB               # what memory holds that nobody wrote
# Where pynq's memory begins: on Zynq UltraScale+ it may be above 4 GiB, so that an address that was
# cut to 32 bits points elsewhere.
MEMORY = {"zynq": BASE, "zynquplus": 0x8_7000_0000}
_HIDDEN = {}                # pynq's objects for files of interrupts that a board does not have
CYCLES_AN_ACCESS = 1000     # what Python and the bus take on a board, roughly


class BusFault(RuntimeError):
    """An access to which nothing on the board answers: a real one would hang."""


class _Block:
    """A contiguous piece of memory: the processor's copy (its caches), and where it really is."""

    def __init__(self, address, n_bytes):
        self.address = address
        self.cached = np.full(n_bytes, POISON, np.uint8)


class SimulatedBoard(Device):
    """A board with nothing on its FPGA until a bitstream is loaded.

    The processor's copy of a buffer and the memory's are two arrays, both poisoned, which only
    ``flush`` and ``invalidate`` make equal. The clock runs for 1,000 cycles with each access to a
    register, and while somebody waits for an interrupt.

    Parameters
    ----------
    board : PynqBoard
        Which board.
    memory_bytes : int
        What Linux has for contiguous buffers.
    with_interrupt : bool
        If true, Linux offers the interrupt as a file.
    pll_mhz : float, optional
        Clock of the PLL that the boot loader leaves; default: the board's.
    options
        For :class:`bitstep_sim.board.compiled.Board`, such as ``stall_probability``.

    Attributes
    ----------
    pipeline : Board or None
        The simulation of what was loaded.
    interrupt_file : InterruptFile
    cut_short : int
        Times that a bitstream was loaded in the middle of a run, which can hang a real board.
    """

    _probe_priority_ = 10

    def __init__(self, board: PynqBoard, *, memory_bytes: int = 1 << 24,
                 with_interrupt: bool = True, pll_mhz: float | None = None, **options):
        super().__init__(f"simulated-{board.name}")
        self.name = board.title
        self.board, self.options = board, options
        # What pynq reads of a device.
        self.arch = "armv7l" if board.family.name == "zynq" else "aarch64"
        self.capabilities = {"REGISTER_RW": True}
        self.memory_base = MEMORY[board.family.name]
        self.memory_bytes = memory_bytes
        self.blocks = Allocator(self.memory_base, memory_bytes)
        self.clocks = ClockRegisters(board.family.name, pll_mhz or board.pll_mhz)
        self.controller = InterruptController(
            lambda: self.pipeline is not None and self.pipeline.interrupt)
        self.interrupt_file = interrupt_file(board.family.first_interrupt)
        self.interrupt_file.board, self.interrupt_file.lost = self, False
        self.pipeline: Board | None = None
        self.cut_short = 0
        self._lock = threading.RLock()      # pynq's interrupts run on another thread
        self._offer_interrupt(with_interrupt)

    def _offer_interrupt(self, offered):
        """Tell pynq where the interrupt's file is. Its own object for the file lasts as long as
        the process, as on a board, but a board without the file must not see it.
        """
        number = self.board.family.first_interrupt
        pynq_interrupt.get_uio_irq = \
            lambda irq: self.interrupt_file.path if offered and irq == number else None
        pynq_interrupt._InterruptController._controllers.clear()
        opened = pynq_interrupt._InterruptController._uio_devices
        for file in (*opened.values(), *_HIDDEN.values()):
            file.wait_events.clear()        # another board is another process, in truth
        for this, other in ((opened, _HIDDEN),) if not offered else ((_HIDDEN, opened),):
            if number in this:
                other[number] = this.pop(number)

    def close(self) -> None:
        """Switch the board off."""
        if self.interrupt_file.board is self:
            self.interrupt_file.board = None
        self._clear()

    def _clear(self):
        with self._lock:
            if self.pipeline is not None:
                self.pipeline.close()
                self.pipeline = None

    def run(self, cycles: int) -> bool:
        """Let time pass; True once the processor is interrupted."""
        with self._lock:
            if self.pipeline is not None and not self.controller.output:
                self.pipeline.run(cycles)
            return self.controller.output

    def seconds(self) -> float:
        """Time on the board since the bitstream was loaded, if its clock has stayed the same."""
        with self._lock:
            cycles = 0 if self.pipeline is None else self.pipeline.cycles
            return cycles / (1e6 * self.clocks.fpga_mhz)

    # Loading bitstreams

    def get_bitfile_metadata(self, bitfile_name, partial=False):
        """Description of the hardware, from the .hwh beside the .bit."""
        parser = RuntimeMetadataParser(Metadata(str(Path(bitfile_name).with_suffix(".hwh"))))
        parser.mem_dict["PSDDR"] = {
            "raw_type": 2, "used": 1, "base_address": 0, "size": self.memory_bytes,
            "type": "DDR4", "streaming": False, "idx": 0, "tag": "PSDDR"}
        return parser

    def set_bitfile_name(self, bitfile_name):
        """As of pynq, which keeps the clocks of the first device of the process otherwise."""
        if "_real_instance" in Clocks.__dict__:
            del Clocks._real_instance
        if not hasattr(Clocks, "set_device"):
            pynq_ps.CPU_ARCH = self.arch    # pynq 3.0 asks the processor, not the device
        super().set_bitfile_name(bitfile_name)

    def download(self, bitstream, parser=None):
        """Put what the .bit holds onto the board."""
        config = read_config(Path(bitstream.bitfile_name))
        with self._lock:
            if self.pipeline is not None and self.pipeline.read(OFFSETS["STATUS"]) & Status.BUSY:
                self.cut_short += 1
            self._clear()
            library = verilator.build(generate(config), label=config.name)
            self.pipeline = Board(
                library, memory_bytes=self.memory_base - BASE + self.memory_bytes, latency=20,
                **self.options)
            self._update_ranges()
        super().post_download(bitstream, parser, self.name)

    def gen_cache(self, bitstream, parser=None):
        """Nothing: a board keeps the description for the next process."""

    def shutdown(self):
        """Nothing: a board's Linux would be told."""

    # Registers

    def _register(self, address):
        family = self.board.family
        if 0 <= address - family.registers_address < REGISTERS_BYTES and self.pipeline:
            # The top has 10 bits of address; the interconnect passes no more on.
            return self.pipeline, (address - family.registers_address) % 1024
        if 0 <= address - family.interrupts_address < REGISTERS_BYTES \
                and CONTROLLER in self.ip_dict and self.pipeline:
            return self.controller, address - family.interrupts_address
        if self.clocks.covers(address):
            return self.clocks, address
        raise BusFault(f"Nothing on the board answers at address {address:#x}")

    def read_registers(self, address, length):
        """Bytes at an address, a word at a time."""
        with self._lock:
            parts = []
            for at in range(address, address + length, 4):
                target, offset = self._register(at)
                if isinstance(target, Board):
                    target.run(CYCLES_AN_ACCESS)
                parts.append(target.read(offset).to_bytes(4, "little"))
            return b"".join(parts)

    def write_registers(self, address, data):
        """Write bytes, a word at a time."""
        with self._lock:
            for at in range(0, len(data), 4):
                target, offset = self._register(address + at)
                target.write(offset, int.from_bytes(data[at:at + 4], "little"))

    # Memory

    def allocate(self, shape, dtype="u4", **_):
        """Allocate a buffer of contiguous memory.

        Raises
        ------
        RuntimeError
            If there is no room.
        """
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with self._lock:
            try:
                address = self.blocks.allocate(n_bytes)
            except MemoryError as error:        # what XRT says
                raise RuntimeError("Failed to allocate Memory!") from error
            block = _Block(address, n_bytes)
            self._memory(block)[:] = POISON
            self._update_ranges()
        buffer = PynqBuffer(shape, dtype, buffer=block.cached, device=self, bo=block,
                            device_address=address, coherent=False)
        # So pynq gives memory back through us, and not by a system call that only a board has.
        buffer.memory, buffer.pointer, buffer.return_to = self, block, self
        buffer.freed = True
        return buffer

    def return_pointer(self, block):
        """Give a buffer back."""
        with self._lock:
            self.blocks.free(block.address)
            self._update_ranges()

    def _memory(self, block):
        if self.pipeline is None:
            raise RuntimeError("Overlay is not downloaded")
        start = block.address - BASE
        return self.pipeline.memory[start:start + block.cached.size]

    def _update_ranges(self):
        if self.pipeline is not None:
            # A beat of the widest bus may reach beyond the last byte that was asked for.
            self.pipeline.set_allocated([(address, -(-size // 64) * 64)
                                         for address, size in self.blocks.blocks])

    def flush(self, bo, offset, ptr, size):
        """Copy a buffer from the processor's caches to memory.

        Parameters
        ----------
        bo : object
            The buffer's block.
        offset, ptr, size : int
            Ignored: XRT takes whole buffers, too.
        """
        with self._lock:
            self._memory(bo)[:] = bo.cached

    def invalidate(self, bo, offset, ptr, size):
        """Copy a buffer from memory to the processor's caches.

        Parameters
        ----------
        bo, offset, ptr, size
            As for :meth:`flush`.
        """
        with self._lock:
            bo.cached[:] = self._memory(bo)
