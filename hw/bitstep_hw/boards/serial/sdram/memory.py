"""SDRAM that the pipeline's AXI ports and a host share."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from bitstep_hw.boards.serial.memory_ports import (
    WORD_BYTES,
    PortedMemory,
    ReadSlave,
    WriteSlave,
)
from bitstep_hw.boards.serial.sdram.controller import WORD_BITS, SdramController, SdramPins
from bitstep_hw.boards.serial.sdram.timing import BANKS, N_BYTES, SdramCycles

RUN = 32                    # words of a port, while others wait; 2 bursts of the masters here


class SdramMemory(PortedMemory):
    """SDRAM behind the pipeline's AXI ports, with a port of its own for the host.

    The host comes first, and has its word before the next byte on its line is there; it asks once
    in hundreds of cycles. The other ports take turns of at most ``RUN`` words: none waits longer
    than for a turn of each of the others, and none leaves an open page sooner than after 128
    cycles. A port without a request loses its turn at once.

    Parameters
    ----------
    n_bytes, base, n_readers
        See :class:`bitstep_hw.boards.serial.memory_ports.PortedMemory`.
    cycles : SdramCycles
        Timings of the chip.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Members
    -------
    rows, readers, writer, host_*
        As of the base class. ``host_grant`` comes at most ``cycles.wait`` cycles after the request
        once the chip is initialised.
    pins : Out(SdramPins())
        The chip.
    """

    SMALLEST, LARGEST = BANKS * WORD_BYTES << WORD_BITS + 1, N_BYTES    # from two rows in each bank

    def __init__(self, *, n_bytes, base, cycles: SdramCycles, n_readers=1):
        super().__init__(n_bytes=n_bytes, base=base, n_readers=n_readers, pins=Out(SdramPins()))
        self.cycles = cycles

    def elaborate(self, platform):
        m = Module()
        row_bits = (self.n_words // BANKS).bit_length() - 1 - WORD_BITS
        m.submodules.controller = controller = SdramController(cycles=self.cycles,
                                                               row_bits=row_bits)
        wiring.connect(m, wiring.flipped(self.pins), controller.pins)
        shape = {"base": self.base, "n_words": self.n_words}
        m.submodules.write_slave = writer = WriteSlave(**shape)
        wiring.connect(m, wiring.flipped(self.writer), writer.bus)
        readers = []
        for number, port in enumerate([self.rows, *self.readers]):
            reader = ReadSlave(**shape, latency=controller.latency)
            m.submodules[f"read_slave_{number}"] = reader
            wiring.connect(m, wiring.flipped(port), reader.bus)
            m.d.comb += reader.word.eq(controller.o)
            readers.append(reader)

        turns = [*readers, writer]
        chosen = self._choose(m, Cat(port.request for port in turns),
                              controller.take & ~self.host_request)
        served = Signal.like(chosen)
        host_served = Signal()
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
