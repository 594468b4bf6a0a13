"""Store of the model: read, updated, corrected, written back and handed on in one pass."""

from functools import reduce
from operator import or_

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MODEL_WIDTH, UPDATE_WIDTH, ceil_div
from bitstep_hw.parts.arithmetic import copies, delay, enable_of, when
from bitstep_hw.parts.lane_product import minus_product, value_stages
from bitstep_hw.parts.memories import memory_of
from bitstep_hw.pipeline.model.intercept import Intercept, high_half
from bitstep_hw.pipeline.model.words import ModelWords
from bitstep_hw.pipeline.slot import slot_layout

_SHARERS = 8        # lanes that share a copy of c with a fast clock


class ModelStore(wiring.Component):
    """Weights of a slot, after the update of the row ``lookahead + 1`` before.

    In the cycle after a slot enters (two cycles for floating-point rows, whose products take one
    more), its words are read and c times the older row's levels is formed; then V = X - c g; then
    U = V + e if a correction is pending. V is written back (U where the correction is committed)
    and U goes to the dot product, or, later in a batch, the model that was frozen at the batch's
    start. A slot a cycle, the words leave ``store.words - store.entry`` cycles after the slot; two
    slots with the same index must be at least 2 cycles apart, 4 with a fast clock. Nothing is
    clamped: leaving the range raises a flag (docs/number-formats.md). Storage: ``capacity`` model
    words, once more with ``minibatch`` and without ``model_bits``.

    With ``update_interval`` 1 slots with the same index may follow each other, but for one that
    commits, or that freezes words which a slot in the next 4 cycles asks for. A slot then takes
    the words of one of the 4 slots before, which are not in the memory when it reads.

    In a run that sums a gradient (``sums``) a word leaves nothing: it is the low half of a sum,
    whose high half comes as its correction and goes out as its sample. Before the first update of
    an epoch the high half is 0.

    Between epochs the words are reached two at a time through ``words``.

    Parameters
    ----------
    config : PipelineConfig
        Gives lanes, capacity and parts.

    Members
    -------
    slot : In(slot_layout)
        A slot.
    levels : In(signed(level_width)).array(lanes), update : In(signed(32))
        Gradient levels and c of the row to apply; c ``2 - store.entry`` cycles after the slot, the
        levels ``config.stages.dot.product - config.stages.dot.term`` later.
    intercept_level : In
        Level of the intercept's constant input.
    correction : In(ArrayLayout(signed(32), lanes))
        Pending corrections of the slot's words, a cycle before ``sampled``.
    slot_words : Out(signed(33)).array(lanes), intercept : Out(signed(32))
        Words for the dot product. With ``model_bits`` no ``slot_words``, since dot products meet
        a :class:`bitstep_hw.pipeline.model.rounded_model.RoundedModel`.
    beat_words : Out(ArrayLayout(signed(32), lanes))
        With ``model_bits``: words of the beat ``words.index``, when ``words.read_data`` has them.
    sampled : Out(ArrayLayout(signed(32), lanes))
        Words to correct next time, one cycle before ``slot_words``.
    overflowed : Out(1)
        A word left its range.
    words : In(ModelWords)
        The words between epochs.
    intercept_correction : In(signed(32))
        With ``has_constants``: pending correction of the intercept.
    sums : In(1), high : In(1)
        With ``full_passes``: the run sums a gradient; ``words`` shows high halves.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "slot": In(slot_layout(config)),
            "levels": In(signed(config.rows.level_width)).array(config.rows.lanes),
            "update": In(signed(UPDATE_WIDTH)),
            "intercept_level": In(config.rows.intercept_width),
            "correction": In(data.ArrayLayout(signed(MODEL_WIDTH), config.rows.lanes)),
            "beat_words": Out(data.ArrayLayout(signed(MODEL_WIDTH), config.rows.lanes)),
            "slot_words": Out(signed(config.stages.dot.word_width)).array(config.rows.lanes),
            "intercept": Out(signed(MODEL_WIDTH)),
            "sampled": Out(data.ArrayLayout(signed(MODEL_WIDTH), config.rows.lanes)),
            "overflowed": Out(1),
            "words": In(ModelWords(config=config)),
            "intercept_correction": In(signed(MODEL_WIDTH)), "sums": In(1), "high": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, words = self.config, self.words
        # A slot meets its words when the last stage of the product c g begins.
        slot = delay(m, self.slot, config.stages.store.sampled - config.stages.store.entry - 2,
                     name="slot")
        slot_1 = Signal.like(slot)
        slot_2 = Signal.like(slot)
        m.d.sync += [slot_1.eq(slot), slot_2.eq(slot_1)]
        writer = self._writer(m)
        read, write = self._memory(m, slot, slot_2, writer)
        seen_words = Signal(self.sampled.shape(), name="seen_words")
        frozen = self._frozen(m, slot, slot_1, slot_2, seen_words) \
            if config.minibatch and not config.model_bits else None
        # Until the levels of the row to apply are there.
        waits = config.stages.dot.product - config.stages.dot.term
        groups = ceil_div(config.rows.lanes, _SHARERS)
        updates = copies(m, self.update, waits + value_stages(config), groups, name="update")
        multiplies = enable_of(config, delay(m, self.slot.valid, waits, name="multiply"))
        choices = self._choices(m, (slot, slot_1, slot_2), groups) \
            if config.stages.store.forwarded else None
        excesses, carries, olds = [], [], []
        for lane in range(config.rows.model_lanes):
            old = delay(m, read.data[lane], config.clock.memory_wait, name=f"old_{lane}")
            olds.append(old)
            if lane >= config.rows.lanes:    # a word without a lane stays 0
                m.d.comb += write.data[lane].eq(0)
                continue
            group = lane // _SHARERS
            updated, word, excess = self._updated(
                m, lane, slot_1, old, choices and choices[group],
                lambda from_word, lane=lane, group=group: minus_product(
                    m, config, from_word, self.levels[lane], updates[group],
                    valid=multiplies, name=f"delta_{lane}"))
            seen, carry, pending, written = self._corrected(m, lane, slot_1, slot_2, word)
            m.d.comb += [seen_words[lane].eq(seen), self.sampled[lane].eq(
                Mux(self.sums, high_half(updated, pending), seen) if config.stages.full_passes
                else seen)]
            if config.model_bits:
                m.d.comb += self.beat_words[lane].eq(old)
            else:
                self._show(m, lane, slot_2, seen, frozen)
            excesses.append(excess)
            carries.append(carry)
            m.d.comb += write.data[lane].eq(writer.words[lane % 2])
            with m.If(~writer.outside):
                m.d.comb += write.data[lane].eq(written)
        m.submodules.constant = constant = Intercept(config=config)
        m.d.comb += [
            constant.slot_1.eq(slot_1), constant.slot_2.eq(slot_2),
            constant.update.eq(self.update), constant.level.eq(self.intercept_level),
            constant.write.eq(writer.clear | writer.intercept),
            constant.i.eq(writer.words[0]), self.intercept.eq(constant.o),
        ]
        if config.stages.has_constants:
            m.d.comb += constant.correction.eq(self.intercept_correction)
        left = self._left_range(m, slot_2, excesses, carries)
        intercepts = [constant.word.as_unsigned()]
        if config.stages.full_passes:
            m.d.comb += constant.sums.eq(self.sums)
            left &= ~self.sums
            intercepts.append(constant.high.as_unsigned())
        m.d.sync += self.overflowed.eq(left | constant.overflow)
        self._read(m, words, olds, intercepts)
        return m

    def _memory(self, m, slot, slot_2, writer):
        """Ports of the words' memory, which slots read, and write two cycles later. Between slots
        the user of ``words`` reads, and ``writer`` writes.
        """
        config = self.config
        m.submodules.model = model = memory_of(
            config, shape=data.ArrayLayout(signed(MODEL_WIDTH), config.rows.model_lanes),
            depth=config.rows.max_beats)
        write = model.write_port(granularity=2)
        read = model.read_port(transparent_for=() if config.clock.memory_wait else (write,))
        # Words that wait in registers are read a cycle earlier: slots with the same index are
        # further apart then.
        asked = self.slot if config.clock.memory_wait else slot
        pairs = config.rows.model_lanes // 2
        m.d.comb += [
            read.addr.eq(Mux(asked.valid, asked.index, self.words.index)),
            write.addr.eq(Mux(writer.outside, writer.index, slot_2.index)),
            write.en.eq(Mux(slot_2.valid | writer.clear, (1 << pairs) - 1, 0)),
        ]
        with m.If(writer.write):
            m.d.comb += write.en.eq(1 << writer.pair)
        return read, write

    def _writer(self, m):
        """Writes of the user of ``words``, delayed as a slot's words are."""
        words = self.words
        now = Signal(data.StructLayout({
            "index": words.index.shape(), "pair": words.pair.shape(),
            "write": 1, "intercept": 1, "clear": 1, "outside": 1,
            "words": data.ArrayLayout(signed(MODEL_WIDTH), 2)}), name="writes")
        m.d.comb += [
            now.index.eq(words.index), now.pair.eq(words.pair),
            now.write.eq(words.write & ~words.intercept),
            now.intercept.eq(words.write & words.intercept),
            now.clear.eq(words.clear), now.outside.eq(words.write | words.clear),
            now.words.as_value().eq(words.write_data),
        ]
        return delay(m, now, self.config.clock.memory_wait, name="writes")

    def _choices(self, m, later_slots, groups):
        """Flags by which a slot chooses among the words of the 4 slots before, in registers, for
        each group of lanes: for the choice between the third and the fourth, then whether one of
        these is meant, or the second, and whether it is the first.
        """
        slots = [delay(m, self.slot, 1, name="asked"), *later_slots]
        first, second, third, fourth = (
            slot.valid & (self.slot.index == slot.index) for slot in slots)
        flags = ((third, 1), (third | fourth, 2), (second, 2), (first, 3))
        return list(zip(*(copies(m, flag, cycles, groups, name=f"choice_{number}")
                          for number, (flag, cycles) in enumerate(flags)), strict=True))

    def _updated(self, m, lane, slot_1, old, choices, subtract):
        """A lane's X - c g in the cycle of slot 2, its word, and bits that are 0 within its range.
        ``old``: the word of slot 1 in the memory, or, with ``choices``, that of the slot after;
        ``subtract``: takes c g from a word.
        """
        config = self.config
        updated = Signal(signed(UPDATE_WIDTH + config.rows.change_width + 1),
                         name=f"updated_{lane}", reset_less=True)
        word = updated[:MODEL_WIDTH].as_signed()
        value = subtract(old if choices is None else
                         self._chosen(m, lane, word, old, choices))
        with when(m, enable_of(config, slot_1.valid)):
            m.d.sync += updated.eq(value)
        excess = updated[MODEL_WIDTH:] ^ word[-1].replicate(len(updated) - MODEL_WIDTH)
        return updated, word, excess

    def _chosen(self, m, lane, word, old, choices):
        """The word of slot 1, which no slot changes any more: ``word`` of a slot before, or ``old``
        of the memory. Behind the choice between the newest and all others there is a sum, and then
        the register with the newest; so the others are chosen from in the cycles before.
        """
        third, further, second, first = choices
        late, chosen = (Signal(signed(MODEL_WIDTH), name=f"{name}_{lane}", reset_less=True)
                        for name in ("late", "chosen"))
        m.d.sync += [late.eq(Mux(third, word, delay(m, word, 1, name=f"word_{lane}"))),
                     chosen.eq(Mux(second, word, Mux(further, late, old)))]
        return Mux(first, word, chosen)

    def _corrected(self, m, lane, slot_1, slot_2, word):
        """A lane's word with the correction that is pending, a bit that is 0 if it is in its range,
        what is pending, in a run that sums a gradient the high half of the word, and the word that
        is written.
        """
        seen = Signal(signed(MODEL_WIDTH + 1), name=f"seen_{lane}")
        if not self.config.corrections:
            m.d.comb += seen.eq(word)
            return seen, C(0), C(0), word
        pending = Signal(signed(MODEL_WIDTH), name=f"pending_{lane}", reset_less=True)
        counts, added = slot_1.correct, pending
        if self.config.stages.full_passes:
            counts = Mux(self.sums, slot_1.apply, counts)
            added = Mux(self.sums, 0, pending)
        # Chosen before the register: what comes after it is a sum's carry, and a long way.
        m.d.sync += pending.eq(Mux(counts, self.correction[lane], 0))
        m.d.comb += seen.eq(word + added)
        written = Mux(slot_2.commit, seen[:MODEL_WIDTH].as_signed(), word)
        return seen, seen[-1] ^ seen[-2], pending, written

    def _show(self, m, lane, slot_2, seen, frozen):
        """A lane's word for the dot product, that of the batch's start if the slot asks for it."""
        used = seen if frozen is None else Mux(slot_2.frozen, frozen[lane], seen)
        with when(m, enable_of(self.config, slot_2.valid)):
            m.d.sync += self.slot_words[lane].eq(used)

    def _left_range(self, m, slot_2, excesses, carries):
        """A flag that one of a slot's words has left its range: an OR over all lanes, in two
        cycles. Its registers move only if what they say counts. A corrected word's carry comes out
        of a sum: for a fast clock it waits for a cycle.
        """
        late, size = (1, 4) if self.config.clock.fast else (0, 8)
        corrected = slot_2.valid & slot_2.commit
        carries = [delay(m, carry, late, name=f"carry_{lane}")
                   for lane, carry in enumerate(carries)]
        counts = []
        for name, enable, wrong in (
                ("left", slot_2.valid, excesses),
                ("left_corrected", delay(m, corrected, late, name="corrected"), carries)):
            groups = [reduce(or_, wrong[first:first + size]).any()
                      for first in range(0, self.config.rows.lanes, size)]
            flags = Signal(len(groups), name=name, reset_less=True)
            with m.If(enable):
                m.d.sync += flags.eq(Cat(groups))
            counts.append(flags.any() & delay(m, enable, 1, name=f"{name}_valid"))
        return reduce(or_, counts)

    def _read(self, m, words, olds, intercepts):
        """The pair of words that is read, or the intercept; with two intercepts high halves in a
        cycle in which ``high`` is 1.
        """
        pairs = [Cat(olds[lane:lane + 2]) for lane in range(0, len(olds), 2)]
        intercept = intercepts[0]
        if len(intercepts) > 1:
            highs = Cat(*self.correction)
            pairs = [Mux(self.high, highs.word_select(number, len(pair)), pair)
                     for number, pair in enumerate(pairs)]
            intercept = Mux(self.high, intercepts[1], intercept)
        m.d.comb += words.read_data.eq(Array(pairs)[words.shown])
        with m.If(words.intercept):
            m.d.comb += words.read_data.eq(intercept)
        if not self.config.clock.memory_wait:
            m.d.comb += words.late_data.eq(words.read_data)
            return
        # Lanes lie far apart, so the choice has a register inside.
        groups = []
        for first in range(0, len(pairs), 8):
            group = Signal(2 * MODEL_WIDTH, name=f"shown_{first}", reset_less=True)
            m.d.sync += group.eq(Array(pairs[first:first + 8])[words.shown[:3]])
            groups.append(group)
        chosen = groups[0]
        if len(groups) > 1:
            chosen = Array(groups)[delay(m, words.shown[3:], 1, name="shown")]
        m.d.comb += words.late_data.eq(
            Mux(delay(m, words.intercept, 1, name="intercept_shown"),
                delay(m, intercept, 1, name="shown_intercept"), chosen))

    def _frozen(self, m, slot, slot_1, slot_2, seen_words):
        """The model at the batch's start, beside slot 2."""
        config, words = self.config, self.sampled.shape()
        m.submodules.frozen = store = memory_of(config, shape=words, depth=config.rows.max_beats)
        write = store.write_port()
        read = store.read_port(transparent_for=() if config.clock.memory_wait else (write,))
        held = Signal(words, name="held", reset_less=True)
        # Where the first row of a batch is stored, there is time for a register behind its sums.
        late = int(config.clock.every_cycle)
        m.d.comb += [
            read.addr.eq(slot.index),
            read.en.eq((slot.valid & slot.frozen) | C(config.clock.always_read)),
            write.addr.eq(delay(m, slot_2.index, late, name="frozen_index")),
            write.data.eq(delay(m, seen_words, late, name="frozen_words")),
            write.en.eq(delay(m, slot_2.valid & slot_2.freeze, late, name="freezes")),
        ]
        with when(m, enable_of(config, slot_1.valid & slot_1.frozen)):
            m.d.sync += held.eq(read.data)
        return held
