"""Diagonal corrections: e = round(x w K / 2^(8 k)) for every model word, in the background."""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import (
    AUX_WIDTH,
    COEFFICIENT_WIDTH,
    MANTISSA_WIDTH,
    MAX_FEATURES,
    MAX_SHIFT,
    MODEL_WIDTH,
    SHIFT_UNIT,
    ceil_div,
)
from bitstep_hw.parts import memories
from bitstep_hw.parts.arithmetic import delay, enable_of, multiply, out_of_range
from bitstep_hw.pipeline.slot import slot_layout


class CorrectionEngine(wiring.Component):
    """Memory of the sampled model, which it turns into corrections and hands to the slots.

    A row of slots with ``sample`` set fills the store with model words. When its last slot is
    stored, the engine walks through the store, ``correction_lanes`` words a cycle, and replaces
    each word by its correction. Rows go on meanwhile; the next boundary waits for ``done``.
    Storage: ``capacity`` words of 32 bits, and as many coefficients of 18.
    Golden model: :func:`bitstep.golden.steps.correction`.

    Parameters
    ----------
    config : PipelineConfig
        Gives lanes, capacity and ``correction_lanes``.

    Members
    -------
    slot : In(slot_layout), correction : Out(ArrayLayout(signed(32), lanes))
        A slot, and :attr:`answer` cycles later the pending corrections of its words.
    sampled : In(ArrayLayout(signed(32), lanes))
        Words to sample, a cycle after that.
    beats : In
        Beats of a row.
    mantissa, shift : In
        K and k of this epoch. They may differ between beats if they are those of the beat
        ``walked`` so many cycles ago: ``mantissa`` :attr:`answer`, ``shift`` 2 more.
    load_start, load : In(1), load_i : In(64)
        Coefficients, two words of 32 bits at a time, after a start strobe (docs/memory-layout.md).
    stop : In(1)
        Ends the walk.
    done : Out(1)
        All corrections are in the store.
    saturated : Out(1), saturated_beat : Out
        A correction of this beat did not fit.
    walked : Out
        Beat whose words are being read.
    """

    def __init__(self, *, config):
        self.config = config
        words = data.ArrayLayout(signed(MODEL_WIDTH), config.lanes)
        super().__init__({
            "slot": In(slot_layout(config)),
            "correction": Out(words),
            "sampled": In(words),
            "beats": In(range(MAX_FEATURES + 1)),
            "mantissa": In(MANTISSA_WIDTH),
            "shift": In(range(MAX_SHIFT + 1)),
            "load_start": In(1),
            "load": In(1),
            "load_i": In(AUX_WIDTH),
            "done": Out(1), "stop": In(1),
            "saturated": Out(1),
            "walked": Out(range(config.max_beats)), "saturated_beat": Out(range(config.max_beats)),
        })

    @property
    def answer(self):
        """Cycles from an address to the word in the store, or to the coefficient."""
        return 1 + self.config.memory_wait

    @property
    def stages(self):
        """Cycles from an address to the correction that is written back."""
        return 5 + self.answer

    @property
    def groups(self):
        """Groups of ``correction_lanes`` words in a beat's model."""
        return ceil_div(self.config.model_lanes, self.config.correction_lanes)

    def elaborate(self, platform):
        m = Module()
        config, groups = self.config, self.groups
        coefficients = self._coefficients(m)
        late_slot = delay(m, self.slot, self.answer + 1, name="slot")   # whose words come

        # The walk: one group a cycle.
        walking, beat, group = Signal(), Signal(range(config.max_beats)), Signal(range(groups))
        address = Signal.like(coefficients.addr)
        with m.If(late_slot.valid & late_slot.sample & late_slot.last):
            m.d.sync += [walking.eq(1), beat.eq(0), group.eq(0), address.eq(0)]
        with m.Elif(walking):
            m.d.sync += [group.eq(group + 1), address.eq(address + 1)]
            with m.If(group == groups - 1):
                m.d.sync += [group.eq(0), beat.eq(beat + 1)]
                with m.If(beat == self.beats - 1):
                    m.d.sync += walking.eq(0)
        with m.If(self.stop):
            m.d.sync += walking.eq(0)
        m.d.comb += coefficients.addr.eq(address)
        ends = walking & (group == groups - 1) & (beat == self.beats - 1)
        m.d.comb += [self.done.eq(delay(m, ends, self.stages + 1, name="ends")),
                     self.walked.eq(beat)]

        # The store, read by slots and by the walk in turn.
        lanes = config.correction_lanes
        m.submodules.store = store = memory.Memory(
            shape=groups * lanes * MODEL_WIDTH, depth=config.max_beats, init=[],
            attrs=memories.attributes(config, depth=config.max_beats))
        read, write = store.read_port(), store.write_port(granularity=lanes * MODEL_WIDTH)
        finished = delay(m, walking, self.stages, name="finished")
        at_beat = delay(m, beat, self.stages, name="at_beat")
        words = [delay(m, read.data.word_select(lane, MODEL_WIDTH).as_signed(), self.answer - 1,
                       name=f"fetched_{lane}") for lane in range(groups * lanes)]
        corrections = self._multiply(m, words, coefficients, delay(m, group, 1, name="group"),
                                     walking)
        sampling = late_slot.valid & late_slot.sample
        m.d.comb += [
            read.addr.eq(Mux(walking, beat, self.slot.index)),
            read.en.eq(walking | (self.slot.valid & self.slot.correct) | C(config.always_read)),
            Cat(*self.correction).eq(Cat(words)),
            write.addr.eq(Mux(finished, at_beat, late_slot.index)),
            write.data.eq(Mux(
                finished, Cat(value[:MODEL_WIDTH] for value in corrections).replicate(groups),
                self.sampled)),
            write.en.eq(Mux(finished, 1 << delay(m, group, self.stages, name="at_group"),
                            sampling.replicate(groups))),
        ]
        m.d.sync += [
            self.saturated.eq(finished & Cat(
                out_of_range(value, MODEL_WIDTH) for value in corrections).any()),
            self.saturated_beat.eq(at_beat),
        ]
        return m

    def _multiply(self, m, words, coefficients, group, walking):
        """Exact corrections of a group, ``stages`` cycles after its address."""
        config = self.config
        lanes = config.correction_lanes
        half = Signal(MAX_SHIFT * SHIFT_UNIT)
        with m.Switch(self.shift):
            for shift in range(1, MAX_SHIFT + 1):
                with m.Case(shift):
                    m.d.sync += half.eq(1 << SHIFT_UNIT * shift - 1)
        waits = self.answer - 1
        fetched, chosen, multiplied = (delay(m, walking, cycles + waits, name=f"walking_{cycles}")
                                       for cycles in (1, 2, 5))
        chosen_group = delay(m, group, waits, name="late_group")
        late_shift = delay(m, self.shift, 2, name="shift")
        results = []
        for lane in range(lanes):
            word = Signal(signed(MODEL_WIDTH), name=f"word_{lane}", reset_less=True)
            with m.If(fetched), m.Switch(chosen_group):
                for number, old in enumerate(words[lane::lanes]):
                    with m.Case(number):
                        m.d.sync += word.eq(old)
            weight = coefficients.data.word_select(lane, COEFFICIENT_WIDTH).as_signed()
            weight = delay(m, weight, waits, name=f"weight_{lane}")
            factor = multiply(m, weight, self.mantissa, stages=1, valid=enable_of(config, fetched),
                              name=f"factor_{lane}",
                              width=COEFFICIENT_WIDTH + MANTISSA_WIDTH)
            exact = multiply(m, word, factor, stages=3, valid=enable_of(config, chosen),
                             name=f"exact_{lane}", addend=half,
                             width=MODEL_WIDTH + COEFFICIENT_WIDTH + MANTISSA_WIDTH + 1)
            shifted = Signal(signed(len(exact) - SHIFT_UNIT), name=f"shifted_{lane}",
                             reset_less=True)
            with m.If(multiplied), m.Switch(late_shift):
                for shift in range(1, MAX_SHIFT + 1):
                    with m.Case(shift):
                        m.d.sync += shifted.eq(exact >> SHIFT_UNIT * shift)
            results.append(shifted)
        return results

    def _coefficients(self, m):
        """Store the coefficients that come; returns the store's read port."""
        config = self.config
        per_group = config.correction_lanes // 2
        m.submodules.coefficients = store = memory.Memory(
            shape=config.correction_lanes * COEFFICIENT_WIDTH,
            depth=config.max_beats * self.groups, init=[], attrs=memories.attributes(config))
        write = store.write_port(granularity=2 * COEFFICIENT_WIDTH)
        address = Signal.like(write.addr)
        in_group = Signal(range(per_group))
        in_beat = Signal(range(config.model_lanes // 2))
        words = Cat(self.load_i[:COEFFICIENT_WIDTH],
                    self.load_i[MODEL_WIDTH:MODEL_WIDTH + COEFFICIENT_WIDTH])
        m.d.comb += [
            write.addr.eq(address),
            write.data.eq(words.replicate(per_group)),
            write.en.eq(Mux(self.load, 1 << in_group, 0)),
        ]
        with m.If(self.load_start):
            m.d.sync += [address.eq(0), in_group.eq(0), in_beat.eq(0)]
        with m.Elif(self.load):
            m.d.sync += [in_group.eq(in_group + 1), in_beat.eq(in_beat + 1)]
            with m.If((in_group == per_group - 1) | (in_beat == config.model_lanes // 2 - 1)):
                m.d.sync += [in_group.eq(0), address.eq(address + 1)]
            with m.If(in_beat == config.model_lanes // 2 - 1):
                m.d.sync += in_beat.eq(0)
        return store.read_port()
