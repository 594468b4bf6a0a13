"""Master that reads blocks of memory as a stream of beats."""

from amaranth import Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.address_channel import add_address_channel
from bitstep_hw.axi.buses import JOB_LAYOUT, MAX_BURST, RESP_OKAY, AxiRead, check_data_width


class ReadMaster(wiring.Component):
    """Reader of contiguous blocks through AXI4, which delivers their beats in order.

    Data is requested only when the FIFO has room for it, so RREADY is always 1. One beat per
    cycle across bursts and jobs if ``fifo_depth`` covers the memory's latency and one more burst.
    Latency is 2 cycles from a job to ARVALID and 2 from RVALID to the output. Storage:
    ``fifo_depth`` beats in block memory.

    Parameters
    ----------
    data_width : int
        Bits of a beat; a power of two from 32 to 1024.
    fifo_depth : int
        Beats that may be requested and not yet taken; at least 32.
    max_outstanding : int
        Bursts that may be under way; at least 1.

    Raises
    ------
    ValueError
        If the width, the depth or the number of bursts is out of its range.

    Members
    -------
    i_job : In(stream.Signature(JOB_LAYOUT))
        Blocks: byte address, aligned to a beat, and number of beats.
    o : Out(stream.Signature(data_width))
        Their beats.
    bus : Out(AxiRead(data_width))
        The memory.
    stop : In(1)
        While 1, jobs and data are discarded and no burst is begun; hold it until ``idle``.
        What is offered at ``o`` is withdrawn.
    idle : Out(1)
        No job at hand, nothing under way, nothing stored.
    error : Out(1)
        Strobe: a beat came with an error response; its data is delivered all the same. Not later
        than ``idle`` and before the beat can leave.
    accepted : Out(1)
        Strobe: a beat came over the bus, whether it is discarded or not.
    """

    def __init__(self, *, data_width, fifo_depth=128, max_outstanding=8):
        check_data_width(data_width)
        if fifo_depth < 2 * MAX_BURST:
            raise ValueError(f"FIFO depth must be at least {2 * MAX_BURST}, not {fifo_depth}")
        if max_outstanding < 1:
            raise ValueError(f"Outstanding bursts must be at least 1, not {max_outstanding}")
        self.data_width, self.max_outstanding = data_width, max_outstanding
        self.fifo_depth = fifo_depth
        super().__init__({
            "i_job": In(stream.Signature(JOB_LAYOUT)),
            "o": Out(stream.Signature(data_width)),
            "bus": Out(AxiRead(data_width=data_width)),
            "stop": In(1), "idle": Out(1), "error": Out(1), "accepted": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus, channel = self.bus, add_address_channel(m, self, "ar")
        m.submodules.store = store = fifo.SyncFIFOBuffered(width=self.data_width,
                                                           depth=self.fifo_depth)
        # Only a burst takes room, so what there is without those that are issued now and were in
        # the last cycle is there in the next cycle. A whole burst's room is asked for even if it is
        # shorter: no subtraction.
        room = Signal(range(self.fifo_depth + 1), init=self.fifo_depth)
        issued = Signal()
        has_room, has_more_room = (
            Mux(issued, room >= (bursts + 1) * MAX_BURST, room >= bursts * MAX_BURST)
            for bursts in (1, 2))
        m.d.comb += [
            channel.has_room.eq(has_room), channel.has_more_room.eq(has_more_room),
            channel.ended.eq(bus.rvalid & bus.rlast),
        ]

        # R: into the FIFO, or nowhere.
        discarded = Signal()
        taken = Signal()
        m.d.comb += [
            bus.rready.eq(1),
            store.w_data.eq(bus.rdata),
            store.w_en.eq(bus.rvalid & ~self.stop),
            discarded.eq(bus.rvalid & self.stop),
            self.o.payload.eq(store.r_data),
            self.o.valid.eq(store.r_rdy & ~self.stop),
            store.r_en.eq(self.o.ready | self.stop),
            taken.eq(store.r_rdy & store.r_en),
        ]
        m.d.sync += [
            self.accepted.eq(bus.rvalid),
            self.error.eq(bus.rvalid & (bus.rresp != RESP_OKAY)),
        ]
        # A burst takes its room a cycle after it was issued, when its length is a register.
        requested = Signal(range(MAX_BURST + 1))
        with m.If(issued):
            m.d.comb += requested.eq(bus.arlen + 1)
        m.d.sync += [issued.eq(channel.issue), room.eq(room - requested + taken + discarded)]
        # What is requested or stored takes room.
        m.d.comb += self.idle.eq(~channel.busy & ~issued & (room == self.fifo_depth))
        return m
