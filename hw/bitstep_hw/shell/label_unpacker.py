"""Unpacker of labels: the dense stream of words as a stream of labels."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import AUX_WIDTH, LABEL_WIDTH
from bitstep.pipeline.registers import LabelFormat


class LabelUnpacker(wiring.Component):
    """Splitter of 64-bit words into labels, lowest bits first.

    One label a cycle; a word is accepted as soon as the one before is used up. Stores one word.
    Golden model: :func:`bitstep.pipeline.levels.unpack_labels`.

    Members
    -------
    i : In(stream.Signature(64))
        Packed labels.
    o : Out(stream.Signature(signed(32)))
        Labels.
    label_format : In(2)
        A :class:`bitstep.pipeline.registers.LabelFormat`; constant during a run.
    restart : In(1)
        Drops what is left of a word: the next label is the first of a new stream.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(AUX_WIDTH)),
            "o": Out(stream.Signature(signed(LABEL_WIDTH))),
            "label_format": In(2),
            "restart": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        word = Signal(AUX_WIDTH)
        left = Signal(range(AUX_WIDTH + 1))
        per_word, shifted, label = Signal.like(left), Signal.like(word), Signal(signed(LABEL_WIDTH))
        with m.Switch(self.label_format):
            with m.Case(LabelFormat.SIGN.value):
                m.d.comb += [per_word.eq(64), shifted.eq(word >> 1),
                             label.eq(Mux(word[0], 1, -1))]
            with m.Case(LabelFormat.INT16.value):
                m.d.comb += [per_word.eq(4), shifted.eq(word >> 16),
                             label.eq(word[:16].as_signed())]
            with m.Default():
                m.d.comb += [per_word.eq(2), shifted.eq(word >> 32),
                             label.eq(word[:32].as_signed())]

        # Registers, because so much hangs on them.
        some = Signal()     # ``left`` is not 0
        one = Signal()      # it is 1
        room = ~some | (one & self.o.ready)
        m.d.comb += [
            self.o.valid.eq(some & ~self.restart),
            self.o.payload.eq(label),
            self.i.ready.eq(room & ~self.restart),
        ]
        # What is in ``word`` at a restart is forgotten anyway.
        with m.If(some & self.o.ready):
            m.d.sync += [word.eq(shifted), left.eq(left - 1), some.eq(~one), one.eq(left == 2)]
        with m.If(self.i.valid & room):
            m.d.sync += [word.eq(self.i.payload), left.eq(per_word), some.eq(1), one.eq(0)]
        with m.If(self.restart):
            m.d.sync += [some.eq(0), one.eq(0)]
        return m
