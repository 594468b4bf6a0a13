"""Counter of the parts of planes that are read at a time."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.bit_planes import CHUNK_UNITS
from bitstep_hw.bit_planes.sizes import GROUPS_WIDTH


class Chunks(wiring.Component):
    """Chunks of an epoch, in units of 64 bytes of each plane: 16, or what is left of the block or
    of the rows.

    What reads memory and what takes the beats count the same chunks, each by one of these. A chunk
    is there a cycle after ``start``, or after ``next``. Golden model:
    :meth:`bitstep.pipeline.bit_planes.BitPlaneLayout.chunks`.

    Members
    -------
    start, stop, next : In(1)
        Strobes: begin an epoch; forget it; go on to the next chunk.
    plane_units : In(15), units : In(32)
        Units in a plane of a block, and in a plane of all rows; constant during a run.
    valid : Out(1), size : Out
        There is a chunk; its units, 1 to 16.
    block_ends : Out(1)
        It is the last one of its block.
    more : Out(1)
        Another one follows.
    """

    def __init__(self):
        super().__init__({
            "start": In(1), "stop": In(1), "next": In(1),
            "plane_units": In(GROUPS_WIDTH), "units": In(32),
            "valid": Out(1), "size": Out(range(CHUNK_UNITS + 1)),
            "block_ends": Out(1), "more": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        in_block = Signal(GROUPS_WIDTH)         # after this chunk
        in_epoch = Signal(32)
        block = Signal.like(in_block)           # from the next one on
        epoch = Signal.like(in_epoch)
        size = Signal.like(self.size)
        m.d.comb += [
            block.eq(Mux(self.start | self.block_ends, self.plane_units, in_block)),
            epoch.eq(Mux(self.start, self.units, in_epoch)),
            size.eq(_least(_least(CHUNK_UNITS, block), epoch)),
            self.block_ends.eq(in_block == 0), self.more.eq(in_epoch != 0),
        ]
        with m.If(self.start | self.next):
            m.d.sync += [self.size.eq(size), self.valid.eq(epoch != 0),
                         in_block.eq(block - size), in_epoch.eq(epoch - size)]
        with m.If(self.stop):
            m.d.sync += self.valid.eq(0)
        return m


def _least(a, b):
    """The lesser one; the first has at most 5 bits."""
    return Mux(b[5:].any() | (b[:5] > a), a, b[:5])
