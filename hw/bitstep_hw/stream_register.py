"""A stage of registers in a stream, which cuts every path through it."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class StreamRegister(wiring.Component):
    """Hands a stream on a cycle later; neither ``valid`` nor ``ready`` passes combinationally.

    One item a cycle. Storage: two items.

    Parameters
    ----------
    shape : Shape
        Of an item.

    Members
    -------
    i : In(stream.Signature(shape)), o : Out(stream.Signature(shape))
        Items.
    clear : In(1)
        Forgets what is stored; what comes in the same cycle, too.
    """

    def __init__(self, *, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "clear": In(1)})

    def elaborate(self, platform):
        m = Module()
        # An item that comes when the one before was not taken is put aside.
        aside, holds = Signal.like(self.i.payload, reset_less=True), Signal()
        m.d.comb += self.i.ready.eq(~holds)
        with m.If(~holds):
            m.d.sync += aside.eq(self.i.payload)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [holds.eq(0), self.o.valid.eq(holds | self.i.valid),
                         self.o.payload.eq(Mux(holds, aside, self.i.payload))]
        with m.Elif(self.i.valid):
            m.d.sync += holds.eq(1)
        with m.If(self.clear):
            m.d.sync += [holds.eq(0), self.o.valid.eq(0)]
        return m
