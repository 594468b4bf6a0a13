"""Number of beats that packed rows take."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.formats import PACKED_COUNT_CYCLES


class BeatCount(wiring.Component):
    """Divider of rows by the rows of a beat, rounded up, a bit a cycle.

    The result is ready ``PACKED_COUNT_CYCLES`` cycles after ``start``. Stores 72 bits.

    Parameters
    ----------
    rows_per_beat : int
        Divisor, at least 1.

    Members
    -------
    start : In(1)
        Strobe: divide anew.
    rows : In(32)
        Dividend; constant in the cycle of ``start``.
    ready : Out(1)
        ``beats`` is right; not earlier than 2 cycles after ``start``.
    beats : Out(32)
        Quotient.
    """

    def __init__(self, *, rows_per_beat):
        self.rows_per_beat = rows_per_beat
        super().__init__({"start": In(1), "rows": In(32), "ready": Out(1), "beats": Out(32)})

    def elaborate(self, platform):
        m = Module()
        bits = PACKED_COUNT_CYCLES - 1       # of the dividend
        work = Signal(bits)
        rest = Signal(range(self.rows_per_beat))
        left = Signal(range(bits + 1))
        part = Signal(range(2 * self.rows_per_beat))
        fits = Signal()
        m.d.comb += [part.eq(Cat(work[-1], rest)), fits.eq(part >= self.rows_per_beat),
                     self.beats.eq(work)]
        m.d.sync += self.ready.eq(left == 0)
        with m.If(self.start):
            m.d.sync += [work.eq(self.rows + (self.rows_per_beat - 1)), rest.eq(0),
                         left.eq(bits), self.ready.eq(0)]
        with m.Elif(left != 0):
            m.d.sync += [work.eq(Cat(fits, work[:-1])), left.eq(left - 1),
                         rest.eq(Mux(fits, part - self.rows_per_beat, part))]
        return m
