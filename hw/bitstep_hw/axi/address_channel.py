"""Address channel of a master: blocks of memory in, bursts on the bus."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.burst_splitter import BURST_LAYOUT, BurstSplitter
from bitstep_hw.axi.buses import BURST_INCR, CACHE_BUFFERABLE, JOB_LAYOUT, check_data_width


class AddressChannel(wiring.Component):
    """Address channel: splits jobs into bursts, puts their addresses on a bus, and counts the
    bursts under way.

    One burst a cycle; latency 2 cycles, of which one is a register between the splitter and the
    bus. The decision whether a burst may be issued is a register, so the two inputs on room say
    what holds in the next cycle.

    Parameters
    ----------
    data_width : int
        Bits of a beat; a power of two from 32 to 1024.
    max_outstanding : int
        Bursts that may be under way; at least 1.

    Members
    -------
    i_job : In(stream.Signature(JOB_LAYOUT))
        Blocks: byte address, aligned to a beat, and number of beats.
    stop : In(1)
        While 1, jobs are discarded and no burst is begun.
    has_room : In(1)
        In the next cycle there is room for a burst, if none is issued in this one.
    has_more_room : In(1)
        The same if one is issued in this cycle.
    ended : In(1)
        Strobe: a burst under way has ended.
    o : Out(stream.Signature(BURST_LAYOUT))
        Bursts on the bus: byte address, and beats - 1.
    issue : Out(1)
        Strobe: a burst leaves the splitter; in the next cycle it is at ``o``.
    issue_length : Out(8)
        Its beats - 1.
    outstanding : Out
        Bursts that were issued and have not ended.
    busy : Out(1)
        A job is at hand.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """

    def __init__(self, *, data_width, max_outstanding):
        check_data_width(data_width)
        if max_outstanding < 1:
            raise ValueError(f"Outstanding bursts must be at least 1, not {max_outstanding}")
        self.data_width = data_width
        self.max_outstanding = max_outstanding
        super().__init__({
            "i_job": In(stream.Signature(JOB_LAYOUT)),
            "stop": In(1), "has_room": In(1), "has_more_room": In(1), "ended": In(1),
            "o": Out(stream.Signature(BURST_LAYOUT)),
            "issue": Out(1), "issue_length": Out(8),
            "outstanding": Out(range(max_outstanding + 1)),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.splitter = splitter = BurstSplitter(data_width=self.data_width)
        wiring.connect(m, wiring.flipped(self.i_job), splitter.i)
        burst = splitter.o
        allowed = Signal()
        m.d.comb += [
            splitter.clear.eq(self.stop),
            self.busy.eq(splitter.busy),
            burst.ready.eq((~self.o.valid | self.o.ready) & allowed),
            self.issue.eq(burst.valid & burst.ready),
            self.issue_length.eq(burst.payload.length),
        ]
        m.d.sync += [
            # A register, because so much hangs on it.
            allowed.eq(Mux(
                self.issue,
                self.has_more_room & (self.outstanding < self.max_outstanding - 1),
                self.has_room & (self.outstanding != self.max_outstanding))),
            self.outstanding.eq(self.outstanding + self.issue - self.ended),
        ]
        with m.If(self.issue):
            m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(burst.payload)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m


def add_address_channel(m, master, prefix):
    """Add the address channel of a master to its module, connected with the master's jobs, its
    ``stop`` and the signals of its bus whose names begin with ``prefix``; return it.
    """
    channel = AddressChannel(data_width=master.data_width, max_outstanding=master.max_outstanding)
    m.submodules.channel = channel
    wiring.connect(m, wiring.flipped(master.i_job), channel.i_job)
    burst, constants = channel.o.payload, {
        "id": 0, "size": (master.data_width // 8).bit_length() - 1, "burst": BURST_INCR,
        "lock": 0, "cache": CACHE_BUFFERABLE, "prot": 0, "qos": 0}
    values = {"valid": channel.o.valid, "addr": burst.address, "len": burst.length, **constants}
    m.d.comb += [
        channel.stop.eq(master.stop),
        channel.o.ready.eq(getattr(master.bus, f"{prefix}ready")),
        *(getattr(master.bus, prefix + name).eq(value) for name, value in values.items()),
    ]
    return channel
