"""SDRAM that the pipeline's AXI ports and a host share."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.buses import AxiRead, AxiWrite
from bitstep_hw.boards.serial.sdram.controller import WORD_BITS, SdramController, SdramPins
from bitstep_hw.boards.serial.sdram.timing import BANKS, N_BYTES, SdramCycles
from bitstep_hw.boards.serial.shared_memory import (
    WORD_BYTES,
    WORD_WIDTH,
    _ReadSlave,
    _WriteSlave,
)

RUN = 32                    # words of a port, while others wait; 2 bursts of the masters here
SMALLEST = BANKS * WORD_BYTES << WORD_BITS + 1      # two rows in each bank


class SdramMemory(wiring.Component):
    """SDRAM behind the pipeline's AXI ports, with a port of its own for the host; but for ``pins``
    the same outside as :class:`~bitstep_hw.boards.serial.shared_memory.SharedMemory`.

    The host comes first, and has its word before the next byte on its line is there; it asks once
    in hundreds of cycles. The other ports take turns of at most ``RUN`` words: none waits longer
    than for a turn of each of the others, and none leaves an open page sooner than after 128
    cycles. A port without a request loses its turn at once. Bursts are as for the other memory.

    Parameters
    ----------
    n_bytes : int
        Size, a power of two from 8,192 bytes to the chip's 32 MiB.
    base : int
        Address of the first byte, a multiple of the size.
    cycles : SdramCycles
        Timings of the chip.
    n_readers : int
        Read ports beside that of the rows, at least 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Members
    -------
    rows, readers, writer, host_*
        As of the other memory. ``host_grant`` comes at most ``cycles.wait`` cycles after the
        request once the chip is initialised.
    pins : Out(SdramPins())
        The chip.
    """

    def __init__(self, *, n_bytes, base, cycles: SdramCycles, n_readers=1):
        if not SMALLEST <= n_bytes <= N_BYTES or n_bytes & (n_bytes - 1):
            raise ValueError(f"The size of an SDRAM must be a power of two from {SMALLEST} to "
                             f"{N_BYTES} bytes, not {n_bytes}")
        if base % n_bytes or base < 0:
            raise ValueError(f"The memory's address must be a multiple of its size ({n_bytes}), "
                             f"not {base:#x}")
        if n_readers < 1:
            raise ValueError(f"There must be at least 1 more read port, not {n_readers}")
        self.n_bytes, self.base, self.n_readers = n_bytes, base, n_readers
        self.n_words = n_bytes // WORD_BYTES
        self.cycles = cycles
        super().__init__({
            "rows": In(AxiRead(data_width=WORD_WIDTH)),
            "readers": In(AxiRead(data_width=WORD_WIDTH)).array(n_readers),
            "writer": In(AxiWrite(data_width=WORD_WIDTH)),
            "host_request": In(1), "host_write": In(1),
            "host_address": In(range(self.n_words)), "host_i": In(WORD_WIDTH),
            "host_grant": Out(1), "host_valid": Out(1), "host_o": Out(WORD_WIDTH),
            "pins": Out(SdramPins()),
        })

    def elaborate(self, platform):
        m = Module()
        row_bits = (self.n_words // BANKS).bit_length() - 1 - WORD_BITS
        m.submodules.controller = controller = SdramController(cycles=self.cycles,
                                                               row_bits=row_bits)
        wiring.connect(m, wiring.flipped(self.pins), controller.pins)
        shape = {"base": self.base, "n_words": self.n_words}
        m.submodules.write_slave = writer = _WriteSlave(**shape)
        wiring.connect(m, wiring.flipped(self.writer), writer.bus)
        readers = []
        for number, port in enumerate([self.rows, *self.readers]):
            reader = _ReadSlave(**shape, latency=controller.latency)
            m.submodules[f"read_slave_{number}"] = reader
            wiring.connect(m, wiring.flipped(port), reader.bus)
            m.d.comb += reader.word.eq(controller.o)
            readers.append(reader)

        turns = [*readers, writer]
        chosen = self._choose(m, Cat(port.request for port in turns),
                              controller.take & ~self.host_request)
        served, host_served = Signal.like(chosen), Signal()
        with m.If(controller.take):
            m.d.sync += [served.eq(chosen), host_served.eq(self.host_request)]
        m.d.comb += [
            controller.request.eq(self.host_request | chosen.any()),
            controller.write.eq(Mux(self.host_request, self.host_write, chosen[-1])),
            controller.address.eq(Mux(self.host_request, self.host_address, 0)),
            controller.i.eq(Mux(self.host_request, self.host_i, writer.word)),
            controller.strobe.eq(Mux(self.host_request, C(0xFF, WORD_BYTES), writer.strobe)),
            self.host_grant.eq(controller.grant & host_served),
        ]
        for number, port in enumerate(turns):
            with m.If(~self.host_request & chosen[number]):
                m.d.comb += controller.address.eq(port.address)
            m.d.comb += port.grant.eq(controller.grant & ~host_served & served[number])

        waiting = Signal(controller.latency)
        m.d.sync += waiting.eq(Cat(self.host_grant & ~self.host_write, waiting))
        m.d.comb += [self.host_valid.eq(waiting[-1]), self.host_o.eq(controller.o)]
        return m

    def _choose(self, m, requests, take):
        """One of the ports that ask, as one bit: that whose turn it is, else the next one."""
        count = len(requests)
        turn = Signal(count, init=1)
        left = Signal(range(RUN), init=RUN - 1)
        following = Signal(count)
        with m.Switch(turn):
            for number in range(count):
                with m.Case(1 << number):
                    for distance in range(count, 0, -1):        # the nearest is assigned last
                        other = (number + distance) % count
                        with m.If(requests[other]):
                            m.d.comb += following.eq(C(1 << other, count))
        stays = (requests & turn).any() & (left != 0)
        chosen = Signal(count)
        m.d.comb += chosen.eq(Mux(stays, turn, following))
        with m.If(take & requests.any()):
            m.d.sync += [turn.eq(chosen), left.eq(Mux(stays, left - 1, RUN - 1))]
        return chosen
