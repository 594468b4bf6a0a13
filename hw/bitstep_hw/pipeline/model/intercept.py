"""The intercept of the model: one more word, kept in a register."""

from amaranth import C, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MODEL_WIDTH, UPDATE_WIDTH
from bitstep_hw.parts.arithmetic import copies, multiply, out_of_range
from bitstep_hw.pipeline.slot import slot_layout


class Intercept(wiring.Component):
    """The intercept's word, updated with the first slot of each row, as the words of a
    :class:`bitstep_hw.pipeline.model.store.ModelStore` are, and that of the batch's start.

    Its level is the constant that the run gives it. Storage: two words, a third one with
    ``full_passes``. Golden model: :func:`bitstep.golden.sgd.train`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``dot.product``, ``intercept_width``, ``minibatch``, ``has_constants`` and
        ``full_passes``.

    Members
    -------
    slot_1, slot_2 : In(slot_layout)
        A slot one and two cycles after its words are read.
    update : In(signed(32)), level : In
        c of the row to apply, ``dot.product`` cycles before ``slot_1``; the intercept's level,
        constant during an epoch.
    write : In(1), i : In(signed(32))
        Write the word; only between slots.
    word : Out(signed(32)), o : Out(signed(32))
        The word; the one for the dot product, a cycle after ``slot_2``.
    overflow : Out(1)
        Strobe: the word has left its range, with ``slot_2``, or a cycle later if a correction made
        it leave.
    correction : In(signed(32))
        With ``has_constants``: what is pending for the word.
    sums : In(1), high : Out(signed(32))
        With ``full_passes``: the run sums a gradient; the word's high half.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "slot_1": In(slot_layout(config)), "slot_2": In(slot_layout(config)),
            "update": In(signed(UPDATE_WIDTH)), "level": In(config.rows.intercept_width),
            "write": In(1), "i": In(signed(MODEL_WIDTH)),
            "word": Out(signed(MODEL_WIDTH)), "o": Out(signed(MODEL_WIDTH)), "overflow": Out(1),
            "correction": In(signed(MODEL_WIDTH)), "sums": In(1), "high": Out(signed(MODEL_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        slot_1, slot_2 = self.slot_1, self.slot_2
        width = UPDATE_WIDTH + self.config.rows.intercept_width + 1      # of the product
        updated = Signal(signed(width + 1))
        frozen = Signal(signed(MODEL_WIDTH), reset_less=True)
        # The run's register is far away; this one is not merged with the dot product's.
        (level,) = copies(m, self.level, 1, 1, name="level")
        delta = multiply(m, self.update, level, stages=self.config.stages.dot.product,
                         valid=None, name="delta", width=width)
        m.d.comb += updated.eq(self.word - delta)
        sums = self.sums if self.config.stages.full_passes else C(0)
        m.d.sync += self.overflow.eq(0)
        seen = self._corrected(m, slot_2) if self.config.stages.has_constants else self.word
        with m.If(slot_1.valid & slot_1.first):
            m.d.sync += [self.word.eq(updated),
                         self.overflow.eq(out_of_range(updated, MODEL_WIDTH) & ~sums)]
            if self.config.stages.full_passes:
                m.d.sync += self.high.eq(high_half(updated, Mux(slot_1.apply, self.high, 0)))
        with m.If(self.write):
            m.d.sync += self.word.eq(self.i)
        with m.If(slot_2.valid & slot_2.first & slot_2.freeze):
            m.d.sync += frozen.eq(seen)
        used = Mux(slot_2.frozen, frozen, seen) if self.config.minibatch else seen
        m.d.sync += self.o.eq(used)
        return m

    def _corrected(self, m, slot_2):
        """The word with the correction that is pending for the slot's row, which may commit it."""
        seen = Signal(signed(MODEL_WIDTH + 1), name="seen")
        m.d.comb += seen.eq(self.word + Mux(slot_2.correct, self.correction, 0))
        with m.If(slot_2.valid & slot_2.first & slot_2.commit):
            m.d.sync += [self.word.eq(seen), self.overflow.eq(out_of_range(seen, MODEL_WIDTH))]
        return seen[:MODEL_WIDTH].as_signed()


def high_half(updated, before):
    """High half of a sum of two words whose low half takes the low bits of ``updated``, a wider
    signed number; ``before`` is the high half before.
    """
    return before + updated[MODEL_WIDTH:].as_signed() + updated[MODEL_WIDTH - 1]
