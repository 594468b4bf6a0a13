"""A pipeline, its memory and a serial line: all that a board has behind its pins."""

from dataclasses import dataclass

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.axi.buses import connect_flat, flat_members
from bitstep_hw.boards.serial.link import Link
from bitstep_hw.boards.serial.memory_ports import WORD_WIDTH, PortedMemory
from bitstep_hw.boards.serial.sdram.controller import SdramPins
from bitstep_hw.boards.serial.sdram.memory import SdramMemory
from bitstep_hw.boards.serial.sdram.timing import N_BYTES, SdramCycles, SdramTiming
from bitstep_hw.boards.serial.shared_memory import SharedMemory
from bitstep_hw.boards.serial.uart import (
    MIN_DIVISOR,
    UartReceiver,
    UartTransmitter,
    check_divisor,
)
from bitstep_hw.top import Top, identity

BASE = 0x1000_0000      # of the shared memory: address 0 is outside, as on the simulated board
_VISIBLE_S = 0.05       # how long a light stays on for an event of one cycle


BAUD_ERROR = 0.02       # that both ends' sampling bears
MEMORIES = {"on-chip": 128 * 1024, "sdram": N_BYTES}       # bytes of each kind, unless asked for
_KINDS: dict[str, type[PortedMemory]] = {"on-chip": SharedMemory, "sdram": SdramMemory}
USUAL_RATES = (115_200, 230_400, 460_800, 500_000, 921_600, 1_000_000, 1_500_000, 2_000_000,
               3_000_000)


def usual_rates(clock_hz: float) -> list[int]:
    """Baud rates of the usual ones that a clock can be divided to."""
    found = []
    for baud in USUAL_RATES:
        divisor = round(clock_hz / baud)
        if divisor >= MIN_DIVISOR and abs(clock_hz / divisor / baud - 1) <= BAUD_ERROR:
            found.append(baud)
    return found


@dataclass(frozen=True, kw_only=True)
class SystemConfig:
    """A pipeline and what surrounds it.

    Parameters
    ----------
    pipeline : PipelineConfig
        Must have a row bus of 64 bits.
    memory_bytes : int
        Size of the shared memory, a power of two of at least 4,096; of ``sdram`` from 8,192 to
        32 MiB.
    memory : {"on-chip", "sdram"}
        Kind of the shared memory: block memories, or a chip beside the FPGA
        (:mod:`bitstep_hw.boards.serial.sdram`).
    clock_hz : int
        Clock of everything.
    baud : int
        Bits per second on the line; the clock must be within 2 % of a multiple, at least 8 times.
    gap_s : float
        Time without a byte that ends an unfinished request.

    Raises
    ------
    ValueError
        If a choice is out of range; the message says what must hold.
    """

    pipeline: PipelineConfig
    memory_bytes: int = 128 * 1024
    clock_hz: int = 50_000_000
    baud: int = 1_000_000
    gap_s: float = 0.05
    memory: str = "on-chip"

    def __post_init__(self):
        if self.memory not in MEMORIES:
            raise ValueError(f"The memory must be one of {', '.join(MEMORIES)}, not {self.memory}")
        _KINDS[self.memory].check_size(self.memory_bytes)
        if self.memory == "sdram":
            _ = self.sdram              # which checks the clock
        if self.pipeline.bus_width != WORD_WIDTH:
            raise ValueError(f"The row bus must have {WORD_WIDTH} bits for this memory, "
                             f"not {self.pipeline.bus_width}")
        if abs(self.clock_hz / self.divisor / self.baud - 1) > BAUD_ERROR:
            raise ValueError(f"The baud rate must be within 2 % of a fraction of the clock "
                             f"({self.clock_hz} Hz), not {self.baud}; the nearest is "
                             f"{self.clock_hz // self.divisor}. Of the usual rates this clock has "
                             f"{', '.join(map(str, usual_rates(self.clock_hz))) or 'none'}")
        check_divisor(self.divisor)

    @property
    def sdram(self) -> SdramCycles:
        """Timings of the SDRAM at this clock."""
        return SdramCycles(SdramTiming(), self.clock_hz)

    @property
    def divisor(self) -> int:
        """Cycles of a bit on the line."""
        return max(1, round(self.clock_hz / self.baud))


class SerialSystem(wiring.Component):
    """The pipeline's top with shared memory and link.

    Parameters
    ----------
    config : SystemConfig
        What it is made of.

    Members
    -------
    rx : In(1), tx : Out(1)
        The serial line.
    lights : Out(8)
        From the lowest: alive (blinks), request under way, damaged request, rows are read, models
        are written, run is done; the others are 0.
    sdram_* : Out(SdramPins())
        With this memory: the chip.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "rx": In(1, init=1), "tx": Out(1, init=1), "lights": Out(8),
            **(flat_members("sdram", Out(SdramPins())) if config.memory == "sdram" else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        fine_buses = config.pipeline.fine_buses
        m.submodules.top = top = Top(config.pipeline, number=identity(config.pipeline))
        shape = {"n_bytes": config.memory_bytes, "base": BASE, "n_readers": 1 + len(fine_buses)}
        if config.memory == "sdram":
            m.submodules.memory = memory = SdramMemory(**shape, cycles=config.sdram)
            m.d.comb += connect_flat(self, "sdram", memory.pins)
        else:
            m.submodules.memory = memory = SharedMemory(**shape)
        m.submodules.receiver = receiver = UartReceiver(divisor=config.divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(divisor=config.divisor)
        m.submodules.link = link = Link(
            base=BASE, n_bytes=config.memory_bytes, clock_hz=config.clock_hz, baud=config.baud,
            gap_cycles=round(config.gap_s * config.clock_hz))
        wiring.connect(m, link.o, transmitter.i)
        m.d.comb += [
            receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx),
            link.i_valid.eq(receiver.valid), link.i_byte.eq(receiver.byte),
            *connect_flat(top, "s_axi", link.bus),
            *connect_flat(top, "m_axi_rows", memory.rows),
            *connect_flat(top, "m_axi_aux", memory.readers[0]),
            *connect_flat(top, "m_axi_aux", memory.writer),
            *(statement for prefix, reader in zip(fine_buses, memory.readers[1:], strict=True)
              for statement in connect_flat(top, prefix, reader)),
            memory.host_request.eq(link.memory_request), memory.host_write.eq(link.memory_write),
            memory.host_address.eq(link.memory_address), memory.host_i.eq(link.memory_o),
            link.memory_grant.eq(memory.host_grant), link.memory_valid.eq(memory.host_valid),
            link.memory_i.eq(memory.host_o),
        ]
        beat = Signal(range(config.clock_hz))
        alive = Signal()
        m.d.sync += beat.eq(beat + 1)
        with m.If(beat == config.clock_hz // 2 - 1):
            m.d.sync += [beat.eq(0), alive.eq(~alive)]
        m.d.comb += self.lights.eq(Cat(
            alive, self._visible(m, link.active, "active"),
            self._visible(m, link.damaged, "damaged"),
            self._visible(m, top.m_axi_rows_rvalid, "rows"),
            self._visible(m, top.m_axi_aux_wvalid, "models"), top.interrupt))
        return m

    def _visible(self, m, event, name):
        """1 from an event on, for as long as an eye needs."""
        cycles = round(_VISIBLE_S * self.config.clock_hz)
        left = Signal(range(cycles + 1), name=f"light_{name}")
        with m.If(event):
            m.d.sync += left.eq(cycles)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return left != 0
