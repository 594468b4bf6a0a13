"""The model: read, updated, corrected, written back and handed on in one pass."""

from functools import reduce
from operator import add, or_

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import MODEL_WIDTH, UPDATE_WIDTH, ceil_div
from bitstep_hw.parts import memories
from bitstep_hw.parts.arithmetic import KEPT, delay, enable_of, multiply, out_of_range, when
from bitstep_hw.parts.lane_product import integer_product
from bitstep_hw.pipeline.model.words import ModelWords
from bitstep_hw.pipeline.slot import slot_layout

_SHARERS = 8        # lanes that share a copy of c with a fast clock


class ModelStore(wiring.Component):
    """Model words of a slot, after the update of the row ``lookahead + 1`` before.

    In the cycle after a slot enters (two cycles for floating-point rows, whose products take one
    more), its words are read and c times the older row's levels is formed; then V = X - c g; then
    U = V + e if a correction is pending. V is written back (U where the correction is committed)
    and U goes to the dot product, or, later in a batch, the model that was frozen at the batch's
    start. A slot a cycle, the words leave ``product_stages + 2`` cycles after the slot; two slots
    with the same index must be at least 2 cycles apart, 4 with ``recursion`` 4. Nothing is
    clamped: leaving the range raises a flag (docs/number-formats.md). Storage: ``capacity`` model
    words, once more with ``minibatch``.

    Between epochs the words are reached two at a time through ``words``.

    Members
    -------
    slot : In(slot_layout)
        A slot.
    levels : In(signed(level_width)).array(lanes), update : In(signed(32))
        Gradient levels and c of the row to apply; the levels
        ``config.product_stages - config.term_stages`` cycles after the slot.
    intercept_level : In(8)
        Level of the intercept's constant input.
    correction : In(ArrayLayout(signed(32), lanes))
        Pending corrections of the slot's words, ``product_stages`` cycles after the slot.
    slot_words : Out(signed(33)).array(lanes), intercept : Out(signed(32))
        Words for the dot product.
    sampled : Out(ArrayLayout(signed(32), lanes))
        Words to correct next time, one cycle before ``slot_words``.
    saturated : Out(1)
        A word left its range.
    words : In(ModelWords)
        The words between epochs.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "slot": In(slot_layout(config)),
            "levels": In(signed(config.level_width)).array(config.lanes),
            "update": In(signed(UPDATE_WIDTH)),
            "intercept_level": In(8),
            "correction": In(data.ArrayLayout(signed(MODEL_WIDTH), config.lanes)),
            "slot_words": Out(signed(MODEL_WIDTH + 1)).array(config.lanes),
            "intercept": Out(signed(MODEL_WIDTH)),
            "sampled": Out(data.ArrayLayout(signed(MODEL_WIDTH), config.lanes)),
            "saturated": Out(1),
            "words": In(ModelWords(config=config)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # A slot meets its words when the last stage of the product c g begins.
        slot = self._slot = delay(m, self.slot, config.product_stages - 1, name="slot")
        waits = config.product_stages - config.term_stages
        self._late_updates = self._copies(m, self.update, waits)
        self._multiply = enable_of(config, delay(m, self.slot.valid, waits, name="multiply"))
        one, two = Signal.like(slot), Signal.like(slot)
        m.d.sync += [one.eq(slot), two.eq(one)]
        # For a fast clock the words are read a cycle earlier, and wait in registers: memory blocks
        # are slow to answer. Two slots with the same index are further apart then.
        early = config.fast_clock
        asked = self.slot if early else slot
        pairs = config.model_lanes // 2
        access = self._access(m, 1 if early else 0)
        words = data.ArrayLayout(signed(MODEL_WIDTH), config.model_lanes)
        m.submodules.model = model = memory.Memory(
            shape=words, depth=config.max_beats, init=[],
            attrs=memories.attributes(config, depth=config.max_beats))
        write = model.write_port(granularity=2)
        read = model.read_port(transparent_for=() if early else (write,))
        m.d.comb += [
            read.addr.eq(Mux(asked.valid, asked.index, self.words.index)),
            write.addr.eq(Mux(access.outside, access.index, two.index)),
            write.en.eq(Mux(two.valid | access.clear, (1 << pairs) - 1, 0)),
        ]
        with m.If(access.write):
            m.d.comb += write.en.eq(1 << access.pair)
        frozen = self._frozen(m, one, two) if config.minibatch else None
        excesses, carries, held = [], [], []
        for lane in range(config.model_lanes):
            old = read.data[lane]
            if early:
                old = Signal(signed(MODEL_WIDTH), name=f"old_{lane}", reset_less=True)
                m.d.sync += old.eq(read.data[lane])
            held.append(old)
            if lane < config.lanes:     # a word without a lane stays 0
                m.d.comb += write.data[lane].eq(access.words[lane % 2])
                word, excess, carry = self._lane(m, lane, one, two, old, frozen)
                excesses.append(excess)
                carries.append(carry)
                with m.If(~access.outside):
                    m.d.comb += write.data[lane].eq(word)

        # The OR over all lanes takes two cycles. The registers move only if what they say counts.
        # A corrected word's carry comes out of a sum: for a fast clock it waits for a cycle.
        late, size = (1, 4) if early else (0, 8)
        corrected = two.valid & two.commit
        carries = [delay(m, carry, late, name=f"carry_{lane}")
                   for lane, carry in enumerate(carries)]
        counts = []
        for name, enable, wrong in (
                ("left", two.valid, excesses),
                ("left_corrected", delay(m, corrected, late, name="corrected"), carries)):
            groups = [reduce(or_, wrong[at:at + size]).any()
                      for at in range(0, config.lanes, size)]
            flags = Signal(len(groups), name=name, reset_less=True)
            with m.If(enable):
                m.d.sync += flags.eq(Cat(groups))
            counts.append(flags.any() & delay(m, enable, 1, name=f"{name}_valid"))
        m.d.sync += self.saturated.eq(reduce(or_, counts) | self._intercept(m, one, two))

        shown = [Cat(held[2 * pair:2 * pair + 2]) for pair in range(pairs)]
        m.d.comb += [self.words.read_data.eq(Array(shown)[self.words.shown]),
                     self.words.late_data.eq(
                         self._shown_late(m, shown) if early else self.words.read_data)]
        with m.If(self.words.intercept):
            m.d.comb += self.words.read_data.eq(self._intercept_word.as_unsigned())
        return m

    def _shown_late(self, m, shown):
        """``read_data`` a cycle later: lanes lie far apart, so the choice has a register inside."""
        low, groups = self.words.shown[:3], []
        for first in range(0, len(shown), 8):
            group = Signal(2 * MODEL_WIDTH, name=f"shown_{first}", reset_less=True)
            m.d.sync += group.eq(Array(shown[first:first + 8])[low])
            groups.append(group)
        chosen = groups[0]
        if len(groups) > 1:
            chosen = Array(groups)[delay(m, self.words.shown[3:], 1, name="shown")]
        intercept = delay(m, self._intercept_word.as_unsigned(), 1, name="shown_intercept")
        return Mux(delay(m, self.words.intercept, 1, name="intercept_shown"), intercept, chosen)

    def _copies(self, m, update, cycles):
        """c some cycles later, once for every few lanes: a register that drives them all is far
        from most.
        """
        number = ceil_div(self.config.lanes, _SHARERS)
        if not cycles:
            return [update] * number
        update = delay(m, update, cycles - 1, name="update")
        copies = [Signal(update.shape(), name=f"update_{copy}", reset_less=True,
                         attrs=KEPT) for copy in range(number)]
        m.d.sync += [copy.eq(update) for copy in copies]
        return copies

    def _access(self, m, cycles):
        """What writes words between slots, some cycles later."""
        access = self._later = Signal(data.StructLayout({
            "index": self.words.index.shape(), "pair": self.words.pair.shape(),
            "write": 1, "intercept": 1, "clear": 1, "outside": 1,
            "words": data.ArrayLayout(signed(MODEL_WIDTH), 2)}))
        now = Signal.like(access, name="access")
        m.d.comb += [
            now.index.eq(self.words.index), now.pair.eq(self.words.pair),
            now.write.eq(self.words.write & ~self.words.intercept),
            now.intercept.eq(self.words.write & self.words.intercept),
            now.clear.eq(self.words.clear),
            now.outside.eq(self.words.write | self.words.clear),
            now.words.as_value().eq(self.words.write_data),
            access.eq(delay(m, now, cycles, name="access")),
        ]
        return access

    def _lane(self, m, lane, one, two, old, frozen):
        """One lane's update; returns the word to store, bits that are 0 if the updated word is in
        its range, and a bit that is 0 if the corrected word is.
        """
        config = self.config
        # c times the level; what is left of the product's sum is the subtraction's.
        delta = reduce(add, integer_product(m, config, self.levels[lane],
                                            self._late_updates[lane // _SHARERS],
                                            fraction=0, valid=self._multiply,
                                            name=f"delta_{lane}"))
        product_width = 1 if config.family == "float" else config.level_width - 1
        updated = Signal(signed(UPDATE_WIDTH + product_width + 1), name=f"updated_{lane}",
                         reset_less=True)
        with when(m, enable_of(config, one.valid)):
            m.d.sync += updated.eq(old - delta)
        plain = updated[:MODEL_WIDTH].as_signed()
        excess = updated[MODEL_WIDTH:] ^ plain[-1].replicate(len(updated) - MODEL_WIDTH)
        seen = Signal(signed(MODEL_WIDTH + 1), name=f"seen_{lane}")
        stored = plain
        if config.corrections:
            pending = Signal(signed(MODEL_WIDTH), name=f"pending_{lane}", reset_less=True)
            # Chosen before the register: what comes after it is a sum's carry, and a long way.
            m.d.sync += pending.eq(Mux(one.correct, self.correction[lane], 0))
            m.d.comb += seen.eq(plain + pending)
            stored = Mux(two.commit, seen[:MODEL_WIDTH].as_signed(), plain)
        else:
            m.d.comb += seen.eq(plain)
        m.d.comb += self.sampled[lane].eq(seen)
        used = seen if frozen is None else Mux(two.frozen, frozen[lane], seen)
        with when(m, enable_of(config, two.valid)):
            m.d.sync += self.slot_words[lane].eq(used)
        carry = seen[-1] ^ seen[-2] if config.corrections else C(0)
        return stored, excess, carry

    def _frozen(self, m, one, two):
        """The model at the batch's start, beside slot ``two``."""
        words = self.sampled.shape()
        m.submodules.frozen = store = memory.Memory(
            shape=words, depth=self.config.max_beats, init=[],
            attrs=memories.attributes(self.config, depth=self.config.max_beats))
        write = store.write_port()
        read = store.read_port(transparent_for=() if self.config.fast_clock else (write,))
        held = Signal(words, name="held", reset_less=True)
        m.d.comb += [
            read.addr.eq(self._slot.index),
            read.en.eq((self._slot.valid & self._slot.frozen) | C(self.config.fast_clock)),
            write.addr.eq(two.index),
            write.data.eq(self.sampled),
            write.en.eq(two.valid & two.freeze),
        ]
        with when(m, enable_of(self.config, one.valid & one.frozen)):
            m.d.sync += held.eq(read.data)
        return held

    def _intercept(self, m, one, two):
        """The intercept as one more lane, kept in a register; whether it left its range."""
        word = self._intercept_word = Signal(signed(MODEL_WIDTH), name="intercept_word")
        updated = Signal(signed(UPDATE_WIDTH + 10), name="updated_intercept")
        overflow = Signal(name="overflow_intercept")
        frozen = Signal(signed(MODEL_WIDTH), name="frozen_intercept", reset_less=True)
        delta = multiply(m, self.update, self.intercept_level, name="delta_intercept",
                         stages=self.config.product_stages, valid=None, width=UPDATE_WIDTH + 9)
        m.d.comb += updated.eq(word - delta)
        m.d.sync += overflow.eq(0)
        with m.If(one.valid & one.first):
            m.d.sync += [word.eq(updated), overflow.eq(out_of_range(updated, MODEL_WIDTH))]
        with m.If(self._later.clear | self._later.intercept):
            m.d.sync += word.eq(self._later.words[0])
        with m.If(two.valid & two.first & two.freeze):
            m.d.sync += frozen.eq(word)
        used = Mux(two.frozen, frozen, word) if self.config.minibatch else word
        m.d.sync += self.intercept.eq(used)
        return overflow
