"""Queue that can go back to the oldest item it still keeps."""

from amaranth import Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out


class Replay(wiring.Component):
    """Queue that keeps items after they were taken, until they are released, and whose reader can
    return to the oldest of them.

    One item a cycle. An item is offered 2 cycles after it came, and after ``rewind`` at the
    earliest 1 cycle later. The reader must never need more than ``depth - 1`` items at a time.
    Storage: ``depth`` items in block memory.

    Parameters
    ----------
    shape : Shape
        Shape of an item.
    depth : int
        Items that are kept; a power of two, at least 4.

    Raises
    ------
    ValueError
        If ``depth`` is not such a number.

    Members
    -------
    i : In(stream.Signature(shape))
        Items in.
    o : Out(stream.Signature(shape))
        Items out. After ``rewind`` another item is offered, although the last was not taken.
    release : In(1)
        Strobe: the ``amount`` oldest items, which were taken, are not needed again.
    amount : In
        Number of items to release.
    rewind : In(1)
        Strobe: go back to the oldest item. Not together with ``release``.
    clear : In(1)
        Forgets every item.
    """

    def __init__(self, *, shape, depth):
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"Depth must be a power of two of at least 4, not {depth}")
        self.shape, self.depth = shape, depth
        super().__init__({
            "i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
            "release": In(1), "amount": In(range(depth)),
            "rewind": In(1), "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(shape=self.shape, depth=self.depth, init=[])
        write = store.write_port()
        read = store.read_port()
        # Places count on without end; the lowest bits are the address.
        oldest, wanted, newest = (Signal(range(2 * self.depth), name=name)
                                  for name in ("oldest", "wanted", "newest"))
        following = Signal.like(wanted)
        offered = Signal()
        taken = Signal()
        m.d.comb += [
            taken.eq(offered & self.o.ready),
            following.eq(wanted + taken),
            self.i.ready.eq(((newest - oldest)[:len(newest)] != self.depth) & ~self.clear),
            write.addr.eq(newest), write.data.eq(self.i.payload),
            write.en.eq(self.i.valid & self.i.ready),
            read.addr.eq(following),
            self.o.valid.eq(offered), self.o.payload.eq(read.data),
        ]
        m.d.sync += [wanted.eq(following), offered.eq(following != newest)]
        with m.If(write.en):
            m.d.sync += newest.eq(newest + 1)
        with m.If(self.release):
            m.d.sync += oldest.eq(oldest + self.amount)
        with m.If(self.rewind):
            m.d.sync += [wanted.eq(oldest), offered.eq(0)]
        with m.If(self.clear):
            m.d.sync += [oldest.eq(0), wanted.eq(0), newest.eq(0), offered.eq(0)]
        return m
