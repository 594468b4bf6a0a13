"""What memories behind the pipeline's AXI ports and a host have in common: ports, slaves, sizes."""

from typing import ClassVar

from amaranth import Module, Mux, Signal
from amaranth.lib import data, fifo, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.buses import RESP_OKAY, AxiRead, AxiWrite

RESP_DECERR = 0b11
WORD_WIDTH = 64
WORD_BYTES = WORD_WIDTH // 8


class PortedMemory(wiring.Component):
    """Base class of memories that the pipeline and a host share.

    Bursts must be as the masters here make them: INCR, beats of 64 bits, within 4 KiB. Beats of
    bursts that begin outside of the memory get DECERR and change nothing.

    Parameters
    ----------
    n_bytes : int
        Size, a power of two from ``SMALLEST`` to ``LARGEST`` bytes.
    base : int
        Address of the first byte, a multiple of the size.
    n_readers : int
        Read ports beside that of the rows, at least 1.
    others
        Members beside those below.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Members
    -------
    rows : In(AxiRead(64))
        Rows.
    readers : In(AxiRead(64)).array(n_readers)
        The others.
    writer : In(AxiWrite(64))
        Models.
    host_request, host_write : In(1)
        The host asks for a word, or writes one; hold until ``host_grant``.
    host_address : In(range(n_bytes // 8)), host_i : In(64)
        Number of the word, and what is written.
    host_grant : Out(1)
        The request was taken.
    host_valid : Out(1), host_o : Out(64)
        Pulse: the word that was asked for.
    """

    SMALLEST: ClassVar[int]
    LARGEST: ClassVar[int]

    def __init__(self, *, n_bytes, base, n_readers, **others):
        self.check_size(n_bytes)
        if base % n_bytes or base < 0:
            raise ValueError(f"The memory's address must be a multiple of its size ({n_bytes}), "
                             f"not {base:#x}")
        if n_readers < 1:
            raise ValueError(f"There must be at least 1 more read port, not {n_readers}")
        self.n_bytes, self.base, self.n_readers = n_bytes, base, n_readers
        self.n_words = n_bytes // WORD_BYTES
        super().__init__({
            "rows": In(AxiRead(data_width=WORD_WIDTH)),
            "readers": In(AxiRead(data_width=WORD_WIDTH)).array(n_readers),
            "writer": In(AxiWrite(data_width=WORD_WIDTH)),
            "host_request": In(1), "host_write": In(1),
            "host_address": In(range(self.n_words)), "host_i": In(WORD_WIDTH),
            "host_grant": Out(1), "host_valid": Out(1), "host_o": Out(WORD_WIDTH),
            **others,
        })

    @classmethod
    def check_size(cls, n_bytes: int) -> None:
        """Raise ValueError unless there are memories of so many bytes."""
        if not cls.SMALLEST <= n_bytes <= cls.LARGEST or n_bytes & (n_bytes - 1):
            raise ValueError(f"The size of this memory must be a power of two from {cls.SMALLEST} "
                             f"to {cls.LARGEST} bytes ({cls.SMALLEST // 1024} to "
                             f"{cls.LARGEST // 1024} KiB), not {n_bytes} ({n_bytes / 1024:g} KiB)")


class ReadSlave(wiring.Component):
    """One read port: bursts become requests of words, and words become beats.

    A word a cycle, across bursts: the next one is taken while one is under way, so that ARREADY is
    a register and hangs on no other port. No request is made without room for its word.

    Parameters
    ----------
    base : int
        Address of the memory's first byte.
    n_words : int
        Words of 64 bits in the memory.
    latency : int
        Cycles from a grant to its word.

    Members
    -------
    bus : In(AxiRead(64))
        The master.
    request : Out(1), address : Out(range(n_words))
        A word is asked for; held until ``grant``.
    grant : In(1)
        The request was taken.
    word : In(64)
        The word, ``latency`` cycles after the grant.
    """

    def __init__(self, *, base, n_words, latency):
        self.base, self.n_words, self.latency = base, n_words, latency
        super().__init__({
            "bus": In(AxiRead(data_width=WORD_WIDTH)),
            "request": Out(1), "address": Out(range(n_words)), "grant": In(1),
            "word": In(WORD_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        depth = 2 * (self.latency + 1)
        beat = data.StructLayout({"word": WORD_WIDTH, "error": 1, "last": 1})
        m.submodules.store = store = fifo.SyncFIFO(width=beat.size, depth=depth)
        room = Signal(range(depth + 1), init=depth)
        active = Signal()
        error = Signal()
        left = Signal(8)
        last = left == 0
        burst = Signal(data.StructLayout({"address": range(self.n_words), "length": 8, "error": 1}))
        following = Signal.like(burst)
        waiting = Signal()
        ends = ~active | (self.grant & last)
        m.d.comb += [
            self.request.eq(active & (room != 0)),
            bus.arready.eq(~waiting),
            burst.address.eq(bus.araddr[3:]), burst.length.eq(bus.arlen),
            burst.error.eq(_outside(bus.araddr, self.base, self.n_words)),
        ]
        with m.If(bus.arready):
            m.d.sync += following.eq(burst)
        with m.If(self.grant):
            m.d.sync += [self.address.eq(self.address + 1), left.eq(left - 1)]
        with m.If(ends):
            first = Signal.like(burst)
            m.d.comb += first.eq(Mux(waiting, following, burst))
            m.d.sync += [active.eq(waiting | bus.arvalid), left.eq(first.length),
                         self.address.eq(first.address), error.eq(first.error), waiting.eq(0)]
        with m.Elif(bus.arvalid):
            m.d.sync += waiting.eq(1)

        # What is known of a beat travels beside its word.
        coming = data.StructLayout({"valid": 1, "error": 1, "last": 1})
        stage = Signal(coming)
        m.d.comb += [stage.valid.eq(self.grant), stage.error.eq(error), stage.last.eq(last)]
        for number in range(self.latency):
            following = Signal(coming, name=f"coming_{number}")
            m.d.sync += following.eq(stage)
            stage = following
        given = Signal(beat)
        taken = Signal(beat)
        m.d.comb += [
            given.word.eq(self.word), given.error.eq(stage.error), given.last.eq(stage.last),
            store.w_data.eq(given), store.w_en.eq(stage.valid),
            taken.eq(store.r_data), store.r_en.eq(bus.rready),
            bus.rvalid.eq(store.r_rdy), bus.rdata.eq(taken.word), bus.rlast.eq(taken.last),
            bus.rresp.eq(Mux(taken.error, RESP_DECERR, RESP_OKAY)), bus.rid.eq(0),
        ]
        m.d.sync += room.eq(room - self.grant + (store.r_rdy & bus.rready))
        return m


class WriteSlave(wiring.Component):
    """The write port: a burst at a time, each beat a request.

    Parameters
    ----------
    base : int
        Address of the memory's first byte.
    n_words : int
        Words of 64 bits in the memory.

    Members
    -------
    bus : In(AxiWrite(64))
        The master.
    request : Out(1), address : Out(range(n_words)), word : Out(64), strobe : Out(8)
        The bytes of ``word`` that ``strobe`` names are to be written; held until ``grant``.
    grant : In(1)
        The request was taken.
    """

    def __init__(self, *, base, n_words):
        self.base, self.n_words = base, n_words
        super().__init__({
            "bus": In(AxiWrite(data_width=WORD_WIDTH)),
            "request": Out(1), "address": Out(range(n_words)), "grant": In(1),
            "word": Out(WORD_WIDTH), "strobe": Out(WORD_BYTES),
        })

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        active = Signal()
        error = Signal()
        m.d.comb += [
            bus.awready.eq(~active & ~bus.bvalid),
            self.request.eq(active & bus.wvalid),
            self.word.eq(bus.wdata),
            self.strobe.eq(Mux(error, 0, bus.wstrb)),
            bus.wready.eq(self.grant),
            bus.bid.eq(0),
        ]
        with m.If(bus.awvalid & bus.awready):
            m.d.sync += [active.eq(1), self.address.eq(bus.awaddr[3:]),
                         error.eq(_outside(bus.awaddr, self.base, self.n_words))]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(self.grant):
            m.d.sync += self.address.eq(self.address + 1)
            with m.If(bus.wlast):
                m.d.sync += [active.eq(0), bus.bvalid.eq(1),
                             bus.bresp.eq(Mux(error, RESP_DECERR, RESP_OKAY))]
        return m


def _outside(address, base, n_words):
    bits = (n_words * WORD_BYTES).bit_length() - 1
    return address[bits:] != base >> bits
