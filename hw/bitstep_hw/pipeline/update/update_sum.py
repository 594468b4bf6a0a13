"""Sum of the magnitudes of updates, which bounds the sums of a gradient."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import UPDATE_WIDTH
from bitstep.pipeline.results import UPDATES_LIMIT


class UpdateSum(wiring.Component):
    """Adder of the magnitudes of all updates of an epoch. While their sum is below
    :data:`bitstep.pipeline.results.UPDATES_LIMIT`, no sum of a gradient leaves 64 bits.

    Two cycles long. Golden model: :func:`bitstep.golden.gradient.gradient`.

    Members
    -------
    clear : In(1)
        Strobe: an epoch begins.
    valid : In(1), i : In(signed(32))
        An update.
    overflowed : Out(1)
        The sum has reached the limit.
    """

    def __init__(self):
        super().__init__({"clear": In(1), "valid": In(1), "i": In(signed(UPDATE_WIDTH)),
                          "overflowed": Out(1)})

    def elaborate(self, platform):
        m = Module()
        # An epoch has fewer than 2^32 updates of at most 2^31, so the bits above the limit's never
        # overflow.
        total = Signal(2 * UPDATE_WIDTH)
        size = Signal(UPDATE_WIDTH)
        there = Signal()
        m.d.sync += [size.eq(Mux(self.i[-1], -self.i, self.i)), there.eq(self.valid)]
        with m.If(there):
            m.d.sync += total.eq(total + size)
        with m.If(self.clear):
            m.d.sync += [there.eq(0), total.eq(0)]
        m.d.comb += self.overflowed.eq(total[UPDATES_LIMIT.bit_length() - 1:].any())
        return m
