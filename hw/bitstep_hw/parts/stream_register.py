"""Register stage of a stream, which cuts every path through it."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class StreamRegister(wiring.Component):
    """Stage of a stream, a cycle long; neither ``valid`` nor ``ready`` passes combinationally.

    One item a cycle. Storage: two items.

    Parameters
    ----------
    shape : Shape
        Shape of an item.

    Members
    -------
    i : In(stream.Signature(shape))
        Items in.
    o : Out(stream.Signature(shape))
        Items out.
    clear : In(1)
        Forgets what is stored, and what comes in the same cycle.
    """

    def __init__(self, *, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "clear": In(1)})

    def elaborate(self, platform):
        m = Module()
        # Two items, written and read in turn: ``o.ready`` reaches flags alone, not the data.
        items = [Signal.like(self.i.payload, name=f"item_{number}", reset_less=True)
                 for number in range(2)]
        newest = Signal()       # where the next item goes
        oldest = Signal()       # where the next one comes from
        full = Signal()
        put = Signal()
        taken = Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            put.eq(self.i.valid & ~full),
            taken.eq(self.o.valid & self.o.ready),
            self.o.payload.eq(Mux(oldest, items[1], items[0])),
        ]
        for number, item in enumerate(items):
            with m.If(~full & (newest == number)):
                m.d.sync += item.eq(self.i.payload)
        m.d.sync += [
            newest.eq(newest ^ put),
            oldest.eq(oldest ^ taken),
            self.o.valid.eq(Mux(taken, full | put, self.o.valid | put)),
            full.eq(~taken & (full | (put & self.o.valid))),
        ]
        with m.If(self.clear):
            m.d.sync += [newest.eq(0), oldest.eq(0), self.o.valid.eq(0), full.eq(0)]
        return m


def connect_registered(m, name, source, target, *, clear, registered):
    """Connect two streams, through a :class:`StreamRegister` if ``registered``."""
    if not registered:
        wiring.connect(m, source, target)
        return
    m.submodules[f"{name}_register"] = register = StreamRegister(shape=source.payload.shape())
    m.d.comb += register.clear.eq(clear)
    wiring.connect(m, source, register.i)
    wiring.connect(m, register.o, target)
