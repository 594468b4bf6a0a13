"""Feeder of the planes that an epoch reads of its rows."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.bit_planes import ALIGNMENT, CHUNK_UNITS, PLANES
from bitstep_hw.axi.buses import JOB_LAYOUT
from bitstep_hw.bit_planes.chunks import Chunks
from bitstep_hw.bit_planes.sizes import GROUPS_WIDTH


class PlaneFeeder(wiring.Component):
    """Feeder of bit-plane rows: for each chunk of an epoch a block of each of its planes.

    An epoch's first block is offered a cycle after ``start``, which says that the epoch's entry of
    the table is there; each of the others 2 cycles after the one before was taken. Stores four
    addresses and the counters of :class:`bitstep_hw.bit_planes.chunks.Chunks`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``beat_bytes``.

    Members
    -------
    begin, start, stop : In(1)
        Strobes: a run begins; an epoch begins. While ``stop`` is 1, there are no jobs.
    planes : In(5)
        Planes that the epoch reads; constant from ``start`` on.
    copies : In(8), address : In(64), stride : In(64)
        As the registers COPIES, ROWS_ADDRESS and COPY_STRIDE; constant during a run.
    plane_units, units : In
        As those of :class:`bitstep_hw.bit_planes.chunks.Chunks`.
    o : Out(stream.Signature(JOB_LAYOUT))
        Blocks.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "begin": In(1), "start": In(1), "stop": In(1), "planes": In(range(PLANES + 1)),
            "copies": In(8), "address": In(64), "stride": In(64),
            "plane_units": In(GROUPS_WIDTH), "units": In(32),
            "o": Out(stream.Signature(JOB_LAYOUT)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.chunks = chunks = Chunks()
        copy = Signal(8)
        copy_address = Signal(64)
        block = Signal(64)              # addresses
        chunk = Signal(64)
        address = Signal(64)
        plane = Signal(range(PLANES))
        offered = Signal()
        step = Signal()
        plane_bytes = self.plane_units * ALIGNMENT
        m.d.comb += [
            chunks.start.eq(self.start), chunks.stop.eq(self.stop),
            chunks.plane_units.eq(self.plane_units), chunks.units.eq(self.units),
            self.o.valid.eq(offered & ~self.stop),
            self.o.payload.address.eq(address),
            self.o.payload.beats.eq(chunks.size * (ALIGNMENT // self.config.rows.beat_bytes)),
        ]
        following = Signal(64)
        m.d.comb += following.eq(Mux(chunks.block_ends, block + plane_bytes * PLANES,
                                     chunk + CHUNK_UNITS * ALIGNMENT))
        with m.If(self.begin):
            m.d.sync += [copy.eq(0), copy_address.eq(self.address)]
        with m.If(self.start):
            m.d.sync += [offered.eq(1), step.eq(0), plane.eq(0), block.eq(copy_address),
                         chunk.eq(copy_address), address.eq(copy_address),
                         copy.eq(copy + 1), copy_address.eq(copy_address + self.stride)]
            with m.If(copy == self.copies - 1):
                m.d.sync += [copy.eq(0), copy_address.eq(self.address)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [offered.eq(0), step.eq(1)]
        with m.Elif(step):      # in a cycle of its own: much hangs on it
            m.d.sync += [step.eq(0), offered.eq(1), plane.eq(plane + 1),
                         address.eq(address + plane_bytes)]
            with m.If(plane == self.planes - 1):
                m.d.comb += chunks.next.eq(1)
                m.d.sync += [offered.eq(chunks.more), plane.eq(0), address.eq(following),
                             chunk.eq(following)]
                with m.If(chunks.block_ends):
                    m.d.sync += block.eq(following)
        with m.If(self.stop):
            m.d.sync += [offered.eq(0), step.eq(0)]
        return m
