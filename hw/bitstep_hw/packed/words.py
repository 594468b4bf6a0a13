"""Weights of the models: read at the start of a turn, changed at its end."""

from functools import reduce
from operator import or_

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep_hw.packed.slot import slot_layout
from bitstep_hw.packed.sums import change_width
from bitstep_hw.parts.arithmetic import delay, out_of_range
from bitstep_hw.pipeline.model.words import ModelWords


class PackedWords(wiring.Component):
    """Memory of all models, a model's weights and intercept at one address.

    A slot reads the words of its model, that of the batch's start, ``store.words`` cycles after it;
    one slot's changes are subtracted in a cycle, ``latency - 1`` cycles after it, and can be read
    in the next one. Nothing is clamped: leaving the range at any row raises a flag, 2 cycles later.
    Storage: the words of ``models`` models, with ``minibatch`` twice.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``models``, ``lanes``, ``rows_per_beat`` and ``minibatch``.

    Members
    -------
    slot : In(slot_layout), o : Out(signed(32)).array(lanes), intercept : Out(signed(32))
        A slot; the words that it sees, ``store.words`` cycles later.
    pending : In(ArrayLayout(signed(32), lanes)), sampled : Out(likewise)
        With ``corrections``: correction of the slot's model, a cycle after the slot; words with it,
        another cycle later.
    change : In(1), model : In, changes : In(signed(change_width)).array(lanes + 1, rows_per_beat)
        Change a model by the last of each word's sums; the others are judged.
    overflowed : Out(1), overflowed_model : Out
        A word of this model left its range.
    words : In(ModelWords), selected : In
        Weights of the model ``selected`` between epochs. ``clear`` clears all models.
    """

    def __init__(self, *, config):
        self.config = config
        number, corrected = range(config.models), data.ArrayLayout(signed(MODEL_WIDTH),
                                                                   config.rows.lanes)
        super().__init__({
            "slot": In(slot_layout(config)), "o": Out(signed(MODEL_WIDTH)).array(config.rows.lanes),
            "intercept": Out(signed(MODEL_WIDTH)),
            "change": In(1), "model": In(number),
            "changes": In(signed(change_width(config))).array(config.rows.lanes + 1,
                                                              config.rows.rows_per_beat),
            "overflowed": Out(1), "overflowed_model": Out(number),
            "words": In(ModelWords(config=config)), "selected": In(number),
            "pending": In(corrected), "sampled": Out(corrected),
        })

    @property
    def _layout(self):
        """All weights of a model; the intercept and its padding come last."""
        return data.ArrayLayout(signed(MODEL_WIDTH), self.config.rows.model_lanes + 2)

    def elaborate(self, platform):
        m = Module()
        words = self.words
        m.submodules.models = store = memory.Memory(shape=self._layout, init=[],
                                                    depth=self.config.models)
        read = store.read_port(domain="comb")
        old = store.read_port(domain="comb")
        write = store.write_port(granularity=2)
        loaded = Signal(self.config.models)     # models that do not count as all 0
        m.d.comb += [
            read.addr.eq(Mux(self.slot.valid, self.slot.model, self.selected)),
            old.addr.eq(self.model),
            write.addr.eq(Mux(self.change, self.model, self.selected)),
        ]
        now, before = (self._known(m, port, loaded, name)
                       for port, name in ((read, "now"), (old, "before")))
        before, carry = self._show(m, now, before)
        pairs = len(write.en)
        with m.If(self.change):
            m.d.comb += [write.en.eq((1 << pairs) - 1), Cat(write.data).eq(Cat(
                (before[place] - sums[-1])[:MODEL_WIDTH] for place, sums in self._changed()))]
        with m.Elif(words.write):
            m.d.comb += [write.en.eq(1 << Mux(words.intercept, pairs - 1, words.pair)),
                         Cat(write.data).eq(words.write_data.replicate(pairs))]
        with m.If(write.en.any()):
            m.d.sync += loaded.eq(loaded | 1 << write.addr)
        with m.If(words.clear):
            m.d.sync += loaded.eq(0)
        self._judge(m, before, carry)
        return m

    def _changed(self):
        """Place in memory and sums of every word, in the order of places; without words that have
        no lane.
        """
        lanes, places = self.config.rows.lanes, self.config.rows.model_lanes
        zeros = [0] * self.config.rows.rows_per_beat
        sums = [*self.changes[:lanes], *[zeros] * (places - lanes), self.changes[lanes], zeros]
        return list(enumerate(sums))

    def _known(self, m, port, loaded, name):
        """Words that a port reads; 0 of models that were cleared and not written since."""
        known = Signal(self._layout, name=name)
        m.d.comb += known.as_value().eq(
            Mux(loaded.bit_select(port.addr, 1), port.data.as_value(), 0))
        return known

    def _show(self, m, now, before):
        """Words for the slot, or for the reader between epochs. Returns the words that the slot's
        changes are subtracted from, in that cycle, and a flag that a correction left the range.
        """
        words = self.words
        seen = Signal(self._layout, reset_less=True)
        slot, current, carry, read, sampled = self.slot, now, C(0), seen, ()
        if self.config.corrections:
            slot, sampled = delay(m, self.slot, 1, name="slot"), self.sampled
            current, carry, before, read = self._correct(m, slot, now, before)
        m.d.sync += seen.eq(current)
        if self.config.minibatch:
            m.submodules.starts = starts = memory.Memory(shape=self._layout, init=[],
                                                         depth=self.config.models)
            frozen = starts.read_port(domain="comb")
            freeze = starts.write_port()
            m.d.comb += [
                frozen.addr.eq(slot.model), freeze.addr.eq(slot.model),
                freeze.data.eq(current), freeze.en.eq(slot.valid & slot.first),
            ]
            with m.If(slot.valid & ~slot.first):
                m.d.sync += seen.eq(frozen.data)
        m.d.comb += [word.eq(seen[lane]) for lane, word in enumerate(self.o)]
        places = self.config.rows.model_lanes
        m.d.comb += self.intercept.eq(seen[places])
        m.d.comb += [word.eq(seen[lane]) for lane, word in enumerate(sampled)]
        pairs = [Cat(read[lane], read[lane + 1]) for lane in range(0, places, 2)]
        m.d.comb += words.read_data.eq(Array(pairs)[words.shown])
        with m.If(words.intercept):
            m.d.comb += words.read_data.eq(read[places].as_unsigned())
        m.d.comb += words.late_data.eq(words.read_data)
        return before, carry

    def _correct(self, m, slot, now, before):
        """Words a cycle after the slot, with the correction that is pending, and as they were read.
        What a slot with a correction changes are the words that it saw: a boundary finds all
        updates applied.
        """
        read = Signal(self._layout, reset_less=True)
        corrected = Signal(self._layout)
        m.d.sync += read.eq(now)
        m.d.comb += corrected.eq(read)
        corrects, carries = slot.valid & slot.correct, []
        for lane, pending in enumerate(self.pending):
            word = Signal(signed(MODEL_WIDTH + 1), name=f"corrected_{lane}")
            m.d.comb += word.eq(read[lane] + Mux(slot.correct, pending, 0))
            m.d.comb += corrected[lane].eq(word)
            carries.append(word[-1] ^ word[-2])
        wait = self.config.latency - 2      # cycles to the change
        changed = Signal(self._layout)
        late_words = delay(m, corrected, wait, name="late_words")
        m.d.comb += changed.eq(Mux(delay(m, corrects, wait, name="corrects"),
                                   late_words.as_value(), before.as_value()))
        carry = delay(m, corrects & Cat(carries).any(), wait, name="carry")
        return corrected, carry, changed, read

    def _judge(self, m, before, carry):
        """Flags of what left its range, a cycle for the differences and one for the choice."""
        wrong = Signal(len(self.changes), reset_less=True)
        judged = delay(m, self.change, 1, name="judged")
        for number, sums in enumerate(self.changes):
            place = number if number < self.config.rows.lanes else self.config.rows.model_lanes
            word = delay(m, before[place], 1, name=f"word_{number}")
            left = [out_of_range(word - delay(m, value, 1, name=f"sum_{number}_{row}"), MODEL_WIDTH)
                    for row, value in enumerate(sums)]
            with m.If(judged):
                m.d.sync += wrong[number].eq(reduce(or_, left))
        carried = delay(m, carry, 2, name="carried")
        m.d.comb += [
            self.overflowed.eq(delay(m, judged, 1, name="known") & (wrong.any() | carried)),
            self.overflowed_model.eq(delay(m, self.model, 2, name="model")),
        ]
