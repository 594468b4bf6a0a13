"""Master that writes a stream of beats to blocks of memory."""

from amaranth import Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.address_channel import add_address_channel
from bitstep_hw.axi.buses import JOB_LAYOUT, RESP_OKAY, AxiWrite, check_data_width


class WriteMaster(wiring.Component):
    """Writer of its input to contiguous blocks through AXI4, one block per job.

    Addresses are sent ahead of the data, which goes out as it comes: one beat per cycle across
    bursts and jobs. Latency is 2 cycles from a job to AWVALID and 1 from the input to WVALID.
    Stores one beat and the lengths of the bursts under way.

    Parameters
    ----------
    data_width : int
        Bits of a beat; a power of two from 32 to 1024.
    max_outstanding : int
        Bursts that may be under way, response included; at least 2.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Members
    -------
    i_job : In(stream.Signature(JOB_LAYOUT))
        Blocks: byte address, aligned to a beat, and number of beats.
    i : In(stream.Signature(data_width))
        Their beats; accepted only after the address of their burst was issued.
    bus : Out(AxiWrite(data_width))
        The memory.
    stop : In(1)
        While 1, jobs and data are discarded and no burst is begun; bursts under way are ended
        with beats that write nothing. Hold it until ``idle``.
    idle : Out(1)
        No job at hand, all data sent and all responses received.
    error : Out(1)
        Strobe: a burst got an error response. Not later than ``idle``.
    """

    def __init__(self, *, data_width=64, max_outstanding=8):
        check_data_width(data_width)
        if max_outstanding < 2:
            raise ValueError(f"Outstanding bursts must be at least 2, not {max_outstanding}")
        self.data_width, self.max_outstanding = data_width, max_outstanding
        super().__init__({
            "i_job": In(stream.Signature(JOB_LAYOUT)),
            "i": In(stream.Signature(data_width)),
            "bus": Out(AxiWrite(data_width=data_width)),
            "stop": In(1), "idle": Out(1), "error": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        bus, channel = self.bus, add_address_channel(m, self, "aw")
        # One more than bursts, since its output register may be empty: never full at an issue.
        lengths = fifo.SyncFIFOBuffered(width=8, depth=self.max_outstanding + 1)
        m.submodules.lengths = lengths
        m.d.comb += [
            channel.has_room.eq(1), channel.has_more_room.eq(1),
            channel.ended.eq(bus.bvalid),
            lengths.w_data.eq(channel.issue_length),
            lengths.w_en.eq(channel.issue),
        ]

        # W: one register between the input and the bus.
        beat = Signal(8)
        last = beat == lengths.r_data
        free = Signal()
        send = Signal()
        m.d.comb += [
            free.eq(~bus.wvalid | bus.wready),
            send.eq(lengths.r_rdy & free & (self.i.valid | self.stop)),
            self.i.ready.eq((lengths.r_rdy & free) | self.stop),
            lengths.r_en.eq(send & last),
        ]
        with m.If(send):
            m.d.sync += [
                bus.wvalid.eq(1),
                bus.wdata.eq(self.i.payload),
                bus.wstrb.eq((~self.stop).replicate(self.data_width // 8)),
                bus.wlast.eq(last),
                beat.eq(beat + 1),
            ]
            with m.If(last):
                m.d.sync += beat.eq(0)
        with m.Elif(bus.wready):
            m.d.sync += bus.wvalid.eq(0)

        # B: counted.
        m.d.comb += bus.bready.eq(1)
        m.d.sync += self.error.eq(bus.bvalid & (bus.bresp != RESP_OKAY))
        m.d.comb += self.idle.eq(~channel.busy & (channel.outstanding == 0))
        return m
