"""The model: read, updated, corrected, written back and handed on in one pass."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bitstep.config import MODEL_WIDTH, UPDATE_WIDTH
from bitstep_hw.arithmetic import out_of_range, scale
from bitstep_hw.slot import slot_layout


class ModelStore(wiring.Component):
    """Model words of a slot, after the update of the row ``lookahead + 1`` before.

    In the cycle after a slot enters, its words are read and c times the older row's levels is
    formed; then V = X - c g; then U = V + e if a correction is pending. V is written back (U where
    the correction is committed) and U goes to the dot product, or, later in a batch, the model
    that was frozen at the batch's start. A slot a cycle, the words leave 3 cycles after the slot;
    two slots with the same index must be at least 2 cycles apart. Nothing is clamped: leaving the
    range raises a flag (docs/number-formats.md). Storage: ``capacity`` model words, once more with
    ``minibatch``.

    Between epochs the words are reached two at a time, in the layout of docs/memory-layout.md,
    through ``access``.

    Members
    -------
    slot : In(slot_layout)
        A slot.
    levels : In(ArrayLayout(signed(level_width), lanes)), update : In(signed(32))
        Gradient levels and c of the row to apply.
    intercept_level : In(8)
        Level of the intercept's constant input.
    correction : In(ArrayLayout(signed(32), lanes))
        Pending corrections of the slot's words, in the cycle after the slot.
    words : Out(ArrayLayout(signed(33), lanes)), intercept : Out(signed(32))
        Words for the dot product.
    sampled : Out(ArrayLayout(signed(32), lanes))
        Words to correct next time, one cycle before ``words``.
    saturated : Out(1)
        A word left its range.
    access_index : In, access_pair : In
        Beat and pair of words that are reached between epochs.
    access_write, access_intercept, access_clear : In(1)
        Write the pair; it is the intercept's; write 0 into all words of the beat.
    access_i, access_o : In(64), Out(64)
        The pair; read data comes 1 cycle after the index and follows the pair at once.
    """

    def __init__(self, *, config):
        self.config = config
        words = data.ArrayLayout(signed(MODEL_WIDTH), config.lanes)
        super().__init__({
            "slot": In(slot_layout(config)),
            "levels": In(data.ArrayLayout(signed(config.level_width), config.lanes)),
            "update": In(signed(UPDATE_WIDTH)),
            "intercept_level": In(8),
            "correction": In(words),
            "words": Out(data.ArrayLayout(signed(MODEL_WIDTH + 1), config.lanes)),
            "intercept": Out(signed(MODEL_WIDTH)),
            "sampled": Out(words),
            "saturated": Out(1),
            "access_index": In(range(config.max_beats)),
            "access_pair": In(range(config.model_lanes // 2)),
            "access_write": In(1),
            "access_intercept": In(1),
            "access_clear": In(1),
            "access_i": In(2 * MODEL_WIDTH),
            "access_o": Out(2 * MODEL_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        pairs = config.model_lanes // 2
        m.submodules.model = model = memory.Memory(
            shape=config.model_lanes * MODEL_WIDTH, depth=config.max_beats, init=[])
        write = model.write_port(granularity=2 * MODEL_WIDTH)
        read = model.read_port(transparent_for=(write,))
        outside = Signal()      # the words are reached through ``access``
        m.d.comb += outside.eq(self.access_write | self.access_clear)

        one, two = Signal.like(self.slot), Signal.like(self.slot)
        m.d.sync += [one.eq(self.slot), two.eq(one)]
        m.d.comb += read.addr.eq(Mux(self.slot.valid, self.slot.index, self.access_index))

        frozen = self._frozen(m, one, two, write) if config.minibatch else None
        overflow, stored = [], []
        for lane in range(config.lanes):
            old = read.data.word_select(lane, MODEL_WIDTH).as_signed()
            delta = Signal(signed(UPDATE_WIDTH + config.level_width), name=f"delta_{lane}",
                           reset_less=True)
            m.d.sync += delta.eq(scale(self.levels[lane], self.update))
            updated = Signal(signed(UPDATE_WIDTH + config.level_width + 1),
                             name=f"updated_{lane}", reset_less=True)
            m.d.sync += updated.eq(old - delta)
            overflow.append(out_of_range(updated, MODEL_WIDTH))
            plain = updated[:MODEL_WIDTH].as_signed()
            seen = Signal(signed(MODEL_WIDTH + 1), name=f"seen_{lane}")
            m.d.comb += seen.eq(plain)
            if config.corrections:
                pending = Signal(signed(MODEL_WIDTH), name=f"pending_{lane}", reset_less=True)
                m.d.sync += pending.eq(Mux(one.correct, self.correction[lane], 0))
                m.d.comb += seen.eq(plain + pending)
                overflow.append(two.commit & out_of_range(seen, MODEL_WIDTH))
            m.d.comb += self.sampled[lane].eq(seen)
            stored.append(Mux(two.commit, seen[:MODEL_WIDTH], plain[:MODEL_WIDTH]))
            used = seen if frozen is None else Mux(two.frozen, frozen[lane], seen)
            m.d.sync += self.words[lane].eq(used)
        # One register a flag, and the wide OR in the cycle after.
        flags = Signal(len(overflow), reset_less=True)
        m.d.sync += flags.eq(Mux(two.valid, _cat(overflow), 0))

        flag_intercept = self._intercept(m, one, two)
        m.d.sync += self.saturated.eq(flags.any() | flag_intercept)

        enable = Signal(pairs)
        row = _cat(stored + [0] * (config.model_lanes - config.lanes), width=MODEL_WIDTH)
        m.d.comb += [
            enable.eq(Mux(self.access_clear, -1, 1 << self.access_pair)),
            write.addr.eq(Mux(outside, self.access_index, two.index)),
            write.data.eq(Mux(outside, self.access_i.replicate(pairs), row)),
            write.en.eq(Mux(outside, Mux(self.access_intercept, 0, enable),
                            two.valid.replicate(pairs))),
        ]
        with m.If(self.access_intercept):
            m.d.comb += self.access_o.eq(self._intercept_word.as_unsigned())
        with m.Else():
            m.d.comb += self.access_o.eq(_choose(m, read.data, self.access_pair, pairs))
        return m

    def _frozen(self, m, one, two, write):
        """Model at the batch's start, beside the words of slot ``two``."""
        config = self.config
        m.submodules.frozen = store = memory.Memory(
            shape=config.lanes * MODEL_WIDTH, depth=config.max_beats, init=[])
        port = store.write_port()
        read = store.read_port(transparent_for=(port,))
        held = Signal(config.lanes * MODEL_WIDTH, reset_less=True)
        m.d.comb += [
            read.addr.eq(self.slot.index),
            port.addr.eq(two.index),
            port.data.eq(self.sampled),
            port.en.eq(two.valid & two.freeze),
        ]
        m.d.sync += held.eq(read.data)
        return [held.word_select(lane, MODEL_WIDTH).as_signed() for lane in range(config.lanes)]

    def _intercept(self, m, one, two):
        """The intercept as one more lane, kept in a register."""
        word = self._intercept_word = Signal(signed(MODEL_WIDTH), name="intercept_word")
        delta = Signal(signed(UPDATE_WIDTH + 9), name="delta_intercept", reset_less=True)
        updated = Signal(signed(UPDATE_WIDTH + 10), name="updated_intercept")
        overflow = Signal(name="overflow_intercept")
        frozen = Signal(signed(MODEL_WIDTH), name="frozen_intercept", reset_less=True)
        m.d.sync += delta.eq(self.update * self.intercept_level)
        m.d.comb += updated.eq(word - delta)
        m.d.sync += overflow.eq(0)
        with m.If(one.valid & one.first):
            m.d.sync += [word.eq(updated), overflow.eq(out_of_range(updated, MODEL_WIDTH))]
        with m.If(self.access_clear | (self.access_write & self.access_intercept)):
            m.d.sync += word.eq(Mux(self.access_clear, 0, self.access_i[:MODEL_WIDTH].as_signed()))
        with m.If(two.valid & two.first & two.freeze):
            m.d.sync += frozen.eq(word)
        used = Mux(two.frozen, frozen, word) if self.config.minibatch else word
        m.d.sync += self.intercept.eq(used)
        return overflow


def _cat(values, width=None):
    from amaranth import C, Cat
    return Cat(C(value, width) if isinstance(value, int) else value for value in values)


def _choose(m, words, pair, pairs):
    """The pair of model words numbered ``pair``; a switch, because a shift of all is slow."""
    chosen = Signal(2 * MODEL_WIDTH, name="chosen_pair")
    with m.Switch(pair):
        for index in range(pairs):
            with m.Case(index):
                m.d.comb += chosen.eq(words.word_select(index, 2 * MODEL_WIDTH))
    return chosen
