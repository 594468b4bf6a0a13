"""Diagonal corrections: e = round((x w + v 2^18) K / 2^(8 k)) for every model word, in the
background.
"""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import (
    AUX_WIDTH,
    COEFFICIENT_WIDTH,
    MANTISSA_WIDTH,
    MAX_FEATURES,
    MAX_SHIFT,
    MODEL_WIDTH,
    SHIFT_UNIT,
)
from bitstep_hw.parts.arithmetic import delay, enable_of, multiply, out_of_range
from bitstep_hw.parts.memories import memory_of
from bitstep_hw.pipeline.slot import slot_layout


class CorrectionEngine(wiring.Component):
    """Memory of the sampled model, which it turns into corrections and hands to the slots.

    A row of slots with ``sample`` set fills the store with weights. When its last slot is
    stored, the engine walks through the store, ``corrections.lanes`` words a cycle, and replaces
    each word by its correction. Rows go on meanwhile; the next boundary waits for ``done``.
    Storage: ``capacity`` words of 32 bits, and as many coefficients of 18.
    Golden model: :func:`bitstep.golden.steps.correction`.

    With ``has_constants`` a constant v is added for each word and for the intercept, which takes
    the walk a cycle more; storage: a word of 32 bits for each. With ``full_passes`` the store
    holds the high halves of sums in a run that has no corrections: every slot reads its words and
    writes what ``sampled`` gives.

    Parameters
    ----------
    config : PipelineConfig
        Gives lanes, capacity, ``corrections.lanes``, ``has_constants`` and ``full_passes``.

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
    load_constants, load_intercept : In(1), intercept : Out(signed(32))
        With ``has_constants``: what ``load`` stores are constants; the low word of ``load_i`` is
        that of the intercept; the intercept's correction, there with ``done``.
    sums : In(1), index : In
        With ``full_passes``: the run sums a gradient; the beat whose words are read while no
        slot is.
    stop : In(1)
        Ends the walk.
    done : Out(1)
        All corrections are in the store.
    overflowed : Out(1), overflowed_beat : Out
        A correction of this beat did not fit.
    walked : Out
        Beat whose words are being read.
    """

    def __init__(self, *, config):
        self.config, stage = config, config.stages.corrections
        self.answer, self.stages, self.groups = stage.answer, stage.cycles, stage.groups
        self.lanes, self.beats_kept = stage.lanes, stage.beats
        words = data.ArrayLayout(signed(MODEL_WIDTH), config.rows.lanes)
        super().__init__({
            "slot": In(slot_layout(config, beats=stage.beats)),
            "correction": Out(words),
            "sampled": In(words),
            "beats": In(range(MAX_FEATURES + 1)),
            "mantissa": In(MANTISSA_WIDTH),
            "shift": In(range(MAX_SHIFT + 1)),
            "load_start": In(1),
            "load": In(1),
            "load_i": In(AUX_WIDTH),
            "done": Out(1), "stop": In(1),
            "overflowed": Out(1),
            "load_constants": In(1), "load_intercept": In(1), "intercept": Out(signed(MODEL_WIDTH)),
            "sums": In(1), "index": In(range(self.beats_kept)),
            "walked": Out(range(self.beats_kept)),
            "overflowed_beat": Out(range(self.beats_kept)),
        })

    def elaborate(self, platform):
        m = Module()
        config, groups = self.config, self.groups
        coefficients, constants, constant = self._loaded(m)
        # Whose words come; in every cycle they wait for a cycle behind their sums.
        late_slot = delay(m, self.slot, self.answer + 1 + config.stages.corrections.wait,
                          name="slot")

        # The walk: one group a cycle.
        walking = Signal()
        beat = Signal(range(self.beats_kept))
        group = Signal(range(groups))
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
        m.d.comb += [port.addr.eq(address) for port in (coefficients, constants)
                     if port is not None]
        ends = walking & (group == groups - 1) & (beat == self.beats - 1)
        # The intercept comes after the words.
        last = delay(m, ends & ~self.stop, 1, name="last") if config.stages.has_constants else C(0)
        done = last if config.stages.has_constants else ends
        m.d.comb += [self.done.eq(delay(m, done, self.stages + 1, name="ends")),
                     self.walked.eq(beat)]

        self._use_store(m, (coefficients, constants, constant), late_slot,
                        (walking, beat, group, last))
        return m

    def _use_store(self, m, loaded, late_slot, walk):
        """The store, read by slots and by the walk in turn; the walk's results are written."""
        config, groups, lanes = self.config, self.groups, self.lanes
        coefficients, constants, constant = loaded
        walking, beat, group, last = walk
        sums = self.sums if config.stages.full_passes else C(0)
        m.submodules.store = store = memory_of(
            config, shape=groups * lanes * MODEL_WIDTH, depth=self.beats_kept)
        write = store.write_port(granularity=lanes * MODEL_WIDTH)
        # Sums of short rows are read while they are written, as the weights of the model are.
        forwards = config.stages.full_passes and not config.clock.memory_wait
        read = store.read_port(transparent_for=(write,) if forwards else ())
        finished = delay(m, walking, self.stages, name="finished")
        at_beat = delay(m, beat, self.stages, name="at_beat")
        words = [delay(m, read.data.word_select(lane, MODEL_WIDTH).as_signed(), self.answer - 1,
                       name=f"fetched_{lane}") for lane in range(groups * lanes)]
        addends = self._constants(m, constants, constant, walking, last)
        corrections = self._multiply(m, words, coefficients, delay(m, group, 1, name="group"),
                                     walking, last, addends)
        sampling = late_slot.valid & (late_slot.sample | sums)
        asked = self.slot.index
        if config.stages.full_passes:
            asked = Mux(self.slot.valid, asked, self.index)
        m.d.comb += [
            read.addr.eq(Mux(walking, beat, asked)),
            read.en.eq(walking | (self.slot.valid & self.slot.correct) | sums
                       | C(config.clock.always_read)),
            Cat(*self.correction).eq(Cat(words)),
            write.addr.eq(Mux(finished, at_beat, late_slot.index)),
            write.data.eq(Mux(
                finished, Cat(value[:MODEL_WIDTH] for value in corrections).replicate(groups),
                delay(m, self.sampled, config.stages.corrections.wait, name="sampled"))),
            write.en.eq(Mux(finished, 1 << delay(m, group, self.stages, name="at_group"),
                            sampling.replicate(groups))),
        ]
        beyond = [out_of_range(value, MODEL_WIDTH) for value in corrections]
        left = finished & Cat(beyond).any()
        if config.stages.has_constants:
            finished_last = delay(m, last, self.stages, name="finished_last")
            left |= finished_last & beyond[0]
            with m.If(finished_last):
                m.d.sync += self.intercept.eq(corrections[0])
        m.d.sync += [self.overflowed.eq(left), self.overflowed_beat.eq(at_beat)]

    def _half(self, m):
        """Half of the last bit that is left after the shift."""
        half = Signal(MAX_SHIFT * SHIFT_UNIT)
        with m.Switch(self.shift):
            for shift in range(1, MAX_SHIFT + 1):
                with m.Case(shift):
                    m.d.sync += half.eq(1 << SHIFT_UNIT * shift - 1)
        return half

    def _constants(self, m, constants, constant, walking, last):
        """Addends of the lanes' products, which count in their last stage: v K 2^18 and half of the
        last bit.
        """
        half, waits = self._half(m), self.answer - 1
        lanes = self.lanes
        if constants is None:
            return [half] * lanes
        addends = []
        valid = enable_of(self.config, delay(m, walking | last, 1 + waits, name="constants_valid"))
        at_last = delay(m, last, 1, name="constants_last")
        for lane in range(lanes):
            value = constants.data.word_select(lane, MODEL_WIDTH).as_signed()
            if lane == 0:
                value = Mux(at_last, constant, value)
            value = delay(m, value, waits, name=f"constant_{lane}")
            product = multiply(m, value, self.mantissa, stages=3, valid=valid,
                               name=f"constants_{lane}", addend=half[COEFFICIENT_WIDTH:],
                               width=MODEL_WIDTH + MANTISSA_WIDTH + 1)
            addends.append(Cat(half[:COEFFICIENT_WIDTH], product).as_signed())
        return addends

    def _multiply(self, m, words, coefficients, group, walking, last, addends):
        """Exact corrections of a group, ``stages`` cycles after its address."""
        config = self.config
        lanes = self.lanes
        waits = self.answer - 1
        active = walking | last if config.stages.has_constants else walking
        between = config.stages.corrections.between
        fetched, chosen, multiplied = (delay(m, active, cycles + waits, name=f"walking_{cycles}")
                                       for cycles in (1, 2 + between, 5 + between))
        chosen_group = delay(m, group, waits, name="late_group")
        late_shift = delay(m, self.shift, 2, name="shift")
        results = []
        for lane in range(lanes):
            word = Signal(signed(MODEL_WIDTH), name=f"word_{lane}", reset_less=True)
            with m.If(fetched), m.Switch(chosen_group):
                for number, old in enumerate(words[lane::lanes]):
                    with m.Case(number):
                        m.d.sync += word.eq(old)
            if config.stages.has_constants:
                # The intercept has no coefficient.
                with m.If(delay(m, last, 1 + waits, name=f"fetched_last_{lane}")):
                    m.d.sync += word.eq(0)
            weight = coefficients.data.word_select(lane, COEFFICIENT_WIDTH).as_signed()
            weight = delay(m, weight, waits, name=f"weight_{lane}")
            factor = multiply(m, weight, self.mantissa, stages=1, valid=enable_of(config, fetched),
                              name=f"factor_{lane}",
                              width=COEFFICIENT_WIDTH + MANTISSA_WIDTH)
            word, factor = (delay(m, value, between, name=f"{name}_{lane}")
                            for value, name in ((word, "late_word"), (factor, "late_factor")))
            exact = multiply(m, word, factor, stages=3, valid=enable_of(config, chosen),
                             name=f"exact_{lane}", addend=addends[lane],
                             width=MODEL_WIDTH + COEFFICIENT_WIDTH + MANTISSA_WIDTH + 1)
            shifted = Signal(signed(len(exact) - SHIFT_UNIT), name=f"shifted_{lane}",
                             reset_less=True)
            with m.If(multiplied), m.Switch(late_shift):
                for shift in range(1, MAX_SHIFT + 1):
                    with m.Case(shift):
                        m.d.sync += shifted.eq(exact >> SHIFT_UNIT * shift)
            results.append(shifted)
        return results

    def _loaded(self, m):
        """Store the coefficients and constants that come; returns the read ports of both, and the
        intercept's constant.
        """
        config = self.config
        per_group = self.lanes // 2
        address = Signal(range(self.beats_kept * self.groups))
        in_group = Signal(range(per_group))
        in_beat = Signal(range(config.rows.model_lanes // 2))
        is_constant = self.load_constants if config.stages.has_constants else C(0)

        def store(name, width, load):
            m.submodules[name] = words = memory_of(
                config, shape=self.lanes * width, depth=self.beats_kept * self.groups,
                weights=False)
            write = words.write_port(granularity=2 * width)
            pair = Cat(self.load_i[:width], self.load_i[MODEL_WIDTH:MODEL_WIDTH + width])
            m.d.comb += [
                write.addr.eq(address), write.data.eq(pair.replicate(per_group)),
                write.en.eq(Mux(load, 1 << in_group, 0)),
            ]
            read = words.read_port()        # Amaranth takes its name from this
            return read

        coefficients = store("coefficients", COEFFICIENT_WIDTH, self.load & ~is_constant)
        constants = None
        constant = Signal(signed(MODEL_WIDTH))
        if config.stages.has_constants:
            constants = store("constants", MODEL_WIDTH, self.load & is_constant)
            with m.If(self.load_intercept):
                m.d.sync += constant.eq(self.load_i[:MODEL_WIDTH])
        with m.If(self.load_start):
            m.d.sync += [address.eq(0), in_group.eq(0), in_beat.eq(0)]
        with m.Elif(self.load):
            m.d.sync += [in_group.eq(in_group + 1), in_beat.eq(in_beat + 1)]
            with m.If((in_group == per_group - 1) | (in_beat == config.rows.model_lanes // 2 - 1)):
                m.d.sync += [in_group.eq(0), address.eq(address + 1)]
            with m.If(in_beat == config.rows.model_lanes // 2 - 1):
                m.d.sync += in_beat.eq(0)
        return coefficients, constants, constant
