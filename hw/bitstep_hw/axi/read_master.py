"""Blocks of memory as a stream of beats."""

from amaranth import Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.burst_splitter import BurstSplitter
from bitstep_hw.axi.buses import (
    JOB_LAYOUT,
    MAX_BURST,
    RESP_OKAY,
    AxiRead,
    address_constants,
    check_data_width,
)


class ReadMaster(wiring.Component):
    """Reads contiguous blocks through AXI4 and delivers their beats in order.

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
        Pulse: a beat came with an error response; its data is delivered all the same. Not later
        than ``idle`` and before the beat can leave.
    accepted : Out(1)
        Pulse for each beat that came over the bus, discarded or not.
    """

    def __init__(self, *, data_width, fifo_depth=128, max_outstanding=8):
        check_data_width(data_width)
        if fifo_depth < 2 * MAX_BURST:
            raise ValueError(f"FIFO depth must be at least {2 * MAX_BURST}, not {fifo_depth}")
        if max_outstanding < 1:
            raise ValueError(f"Outstanding bursts must be at least 1, not {max_outstanding}")
        self.data_width = data_width
        self.fifo_depth = fifo_depth
        self.max_outstanding = max_outstanding
        super().__init__({
            "i_job": In(stream.Signature(JOB_LAYOUT)),
            "o": Out(stream.Signature(data_width)),
            "bus": Out(AxiRead(data_width=data_width)),
            "stop": In(1),
            "idle": Out(1),
            "error": Out(1),
            "accepted": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.splitter = splitter = BurstSplitter(data_width=self.data_width)
        m.submodules.store = store = fifo.SyncFIFOBuffered(width=self.data_width,
                                                           depth=self.fifo_depth)
        bus = self.bus
        room = Signal(range(self.fifo_depth + 1), init=self.fifo_depth)
        outstanding = Signal(range(self.max_outstanding + 1))

        # AR: one register between the splitter and the bus.
        burst = splitter.o
        issue = Signal()
        issued = Signal()
        allowed = Signal()
        wiring.connect(m, wiring.flipped(self.i_job), splitter.i)
        m.d.comb += address_constants(bus, "ar")
        m.d.comb += [
            splitter.clear.eq(self.stop),
            burst.ready.eq((~bus.arvalid | bus.arready) & allowed),
            issue.eq(burst.valid & burst.ready),
        ]
        # A register, because so much hangs on it: only a burst takes room, so what there is without
        # those that are issued now and were in the last cycle is there in the next cycle. A whole
        # burst's room is asked for even if it is shorter: no subtraction.
        enough = [Mux(issued, room >= (bursts + 1) * MAX_BURST, room >= bursts * MAX_BURST)
                  for bursts in (1, 2)]
        m.d.sync += allowed.eq(Mux(
            issue, enough[1] & (outstanding < self.max_outstanding - 1),
            enough[0] & (outstanding != self.max_outstanding)))
        with m.If(issue):
            m.d.sync += [
                bus.arvalid.eq(1),
                bus.araddr.eq(burst.payload.address),
                bus.arlen.eq(burst.payload.length),
            ]
        with m.Elif(bus.arready):
            m.d.sync += bus.arvalid.eq(0)

        # R: into the FIFO, or nowhere.
        discarded, taken = Signal(), Signal()
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
            outstanding.eq(outstanding + issue - (bus.rvalid & bus.rlast)),
        ]
        # A burst takes its room a cycle after it was issued, when its length is a register.
        requested = Signal(range(MAX_BURST + 1))
        with m.If(issued):
            m.d.comb += requested.eq(bus.arlen + 1)
        m.d.sync += [issued.eq(issue), room.eq(room - requested + taken + discarded)]
        # What is requested or stored takes room.
        m.d.comb += self.idle.eq(~splitter.busy & ~issued & (room == self.fifo_depth))
        return m
