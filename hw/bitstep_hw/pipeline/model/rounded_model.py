"""The model that dot products meet, rounded at random to few bits at every batch's start."""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.golden.rounded_model import FEATURES_PER_WORD, STREAM, TURN
from bitstep.pipeline.parts.stages import EXPONENT_STAGES
from bitstep.pipeline.parts.widths import FEW_BITS, MAX_FEATURES, MODEL_WIDTH
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.parts.dither import KEY_WIDTH, Dither
from bitstep_hw.parts.memories import memory_of
from bitstep_hw.pipeline.slot import slot_layout

_FRACTION = DITHER_WIDTH + 1        # fraction bits that decide how a word is rounded


class RoundedModel(wiring.Component):
    """Copy of the model with words of few bits, times one power of two, for a batch of rows.

    After ``start`` it walks twice through the words of a
    :class:`bitstep_hw.pipeline.model.store.ModelStore`,
    ``config.stages.rounding.lanes`` a cycle: for
    their largest magnitude, from which the power follows, and to round them. No slot may be in the
    pipeline meanwhile. ``done`` comes :meth:`bitstep.cycles.shape.Shape.rounding_cycles` after
    ``start``. Slots read the copy, a beat a cycle.

    Storage: ``capacity`` words of ``model_bits``, and a block of the generator of dithers.
    Golden model: :mod:`bitstep.golden.rounded_model`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``model_bits``, lanes, capacity and ``rounding.lanes``.

    Members
    -------
    epoch_start : In(1)
        Strobe: the next batch is an epoch's first.
    start : In(1), done : Out(1)
        Strobes around the rounding.
    stop : In(1)
        Ends it; hold it for ``config.latency`` cycles before the next epoch.
    key : In(32), bits : In(5), beats : In
        Key of the epoch; bits of a rounded word, 2 to ``model_bits``; beats of a row. Constant
        during an epoch.
    busy : Out(1), index : Out
        The beat of words that is read, while ``busy``.
    words : In(ArrayLayout(signed(32), lanes))
        Its words, 1 cycle after ``index`` (2 with a fast clock).
    slot : In(slot_layout), o : Out(signed(model_bits)).array(lanes)
        A slot, and 2 cycles later its words of the copy.
    exponent : Out(5)
        Power of two that they count; constant during a batch.
    """

    def __init__(self, *, config):
        self.config = config
        self.groups = config.stages.rounding.groups
        super().__init__({
            "epoch_start": In(1), "start": In(1), "done": Out(1), "stop": In(1),
            "key": In(KEY_WIDTH), "bits": In(range(FEW_BITS[1] + 1)),
            "beats": In(range(MAX_FEATURES + 1)),
            "busy": Out(1), "index": Out(range(config.rows.max_beats)),
            "words": In(data.ArrayLayout(signed(MODEL_WIDTH), config.rows.lanes)),
            "slot": In(slot_layout(config)),
            "o": Out(signed(config.model_bits)).array(config.rows.lanes),
            "exponent": Out(range(MODEL_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        answer = 1 + self.config.clock.memory_wait        # cycles from an index to its words
        m.submodules.dither = dither = Dither(config=self.config, stream=STREAM)
        group = Signal(range(self.groups))
        ends = Signal()
        rounds = Signal()
        known = Signal()
        self._walk(m, group, ends, rounds, known & dither.valid)
        words = self._group_words(m, delay(m, group, answer, name="group"))
        measured = delay(m, ends & ~rounds, answer + 3, name="measured")
        largest, folded = self._largest(m, words, delay(m, self.busy & ~rounds, answer + 2,
                                                        name="measuring"), measured)
        self._exponent(m, largest)
        with m.If(delay(m, folded, EXPONENT_STAGES, name="folded")):
            m.d.sync += known.eq(1)
        with m.If(self.start | self.stop | (known & dither.valid)):
            m.d.sync += known.eq(0)

        fetched = delay(m, self.busy & rounds, answer, name="fetched")
        dithers = self._dithers(m, dither, known & dither.valid, fetched,
                                delay(m, group == self.groups - 1, answer, name="last_group"))
        number = Signal(32)                         # of the batch
        m.d.comb += [dither.key.eq(self.key), dither.restart.eq(self.start),
                     dither.counter.eq(number)]
        with m.If(self.epoch_start):
            m.d.sync += number.eq(0)
        with m.Elif(self.done):
            m.d.sync += number.eq(number + 1)
        m.d.comb += self.done.eq(delay(m, ends & rounds, answer + 4, name="rounded"))
        self._copy(m, self._rounded(m, words, dithers), answer + 3, group, fetched)
        return m

    def _walk(self, m, group, ends, rounds, again):
        """Walk through all groups of words, and once more to round them from ``again`` on."""
        last_beat, last_group = self.index == self.beats - 1, group == self.groups - 1
        m.d.comb += ends.eq(self.busy & last_beat & last_group)
        with m.If(self.busy):
            m.d.sync += group.eq(Mux(last_group, 0, group + 1))
            with m.If(last_group):
                m.d.sync += self.index.eq(Mux(last_beat, 0, self.index + 1))
        with m.If(self.start | again):
            m.d.sync += [self.busy.eq(1), rounds.eq(again), group.eq(0), self.index.eq(0)]
        with m.Elif(ends):
            m.d.sync += self.busy.eq(0)
        with m.If(self.stop):
            m.d.sync += self.busy.eq(0)

    def _group_words(self, m, group):
        """Registers with the words of a group, a cycle after the words of its beat."""
        lanes, chosen = self.config.stages.rounding.lanes, []
        for lane in range(lanes):
            word = Signal(signed(MODEL_WIDTH), name=f"word_{lane}", reset_less=True)
            with m.Switch(group):
                for number, first in enumerate(range(lane, self.config.rows.lanes, lanes)):
                    with m.Case(number):
                        m.d.sync += word.eq(self.words[first])
                with m.Default():       # beyond the last lane of a beat
                    m.d.sync += word.eq(0)
            chosen.append(word)
        return chosen

    def _largest(self, m, words, valid, measured):
        """The largest magnitude of all lanes, and the strobe that it is known: after ``measured``
        the lanes are compared with each other.
        """
        found = [Signal(MODEL_WIDTH, name=f"largest_{lane}") for lane in range(len(words))]
        steps = (len(words) - 1).bit_length()
        folds = [delay(m, measured, step, name="fold") for step in range(steps)]
        counts = Cat(valid, *folds).any()
        for lane, (word, largest) in enumerate(zip(words, found, strict=True)):
            size = Signal(MODEL_WIDTH, name=f"size_{lane}", reset_less=True)
            other = Signal.like(size, name=f"other_{lane}")
            m.d.sync += size.eq(Mux(word[-1], -word, word))
            m.d.comb += other.eq(size)
            for step, fold in enumerate(folds):
                half = len(words) >> step + 1
                if lane < half:
                    with m.If(fold):
                        m.d.comb += other.eq(found[lane + half])
            with m.If(counts & (other > largest)):
                m.d.sync += largest.eq(other)
            with m.If(self.start):
                m.d.sync += largest.eq(0)
        return found[0], delay(m, measured, steps, name="fold_end")

    def _exponent(self, m, largest):
        """The exponent, some cycles after the largest magnitude: the least one with which it fits
        ``bits``.
        """
        length = Signal(range(MODEL_WIDTH + 1))
        for place in range(MODEL_WIDTH):
            with m.If(largest[place]):
                m.d.comb += length.eq(place + 1)
        limit = Signal(FEW_BITS[1] - 1)
        held = Signal.like(length)
        least = Signal(range(MODEL_WIDTH))
        m.d.sync += [
            held.eq(length), limit.eq((1 << self.bits) - 1 >> 1),
            least.eq(Mux(held > self.bits - 1, held - (self.bits - 1), 0)),
        ]
        # Settled before the words are rounded, and then constant.
        m.d.sync += self.exponent.eq(least + (largest > (limit << least)))

    def _dithers(self, m, dither, begin, fetched, last_group):
        """Dither of each lane of a group, 2 cycles after ``fetched``; all of a word of random bits
        begin with one of ``begin``.
        """
        config, lanes = self.config, self.config.stages.rounding.lanes
        whole = FEATURES_PER_WORD * TURN % (1 << DITHER_WIDTH)
        left = config.rows.lanes - (self.groups - 1) * lanes     # lanes of a beat's last group
        place = Signal(range(FEATURES_PER_WORD))            # of a group's first lane
        turned = Signal(DITHER_WIDTH)
        word = Signal(DITHER_WIDTH, reset_less=True)
        advance = Signal(range(lanes + 1))
        crosses = Signal()
        upcoming = Signal(range(FEATURES_PER_WORD + lanes))
        m.d.comb += [advance.eq(Mux(last_group, left, lanes)), upcoming.eq(place + advance),
                     crosses.eq(upcoming >= FEATURES_PER_WORD),
                     dither.take.eq(begin | (fetched & crosses))]
        moved = turned + Mux(last_group, C(left * TURN % (1 << DITHER_WIDTH), DITHER_WIDTH),
                             C(lanes * TURN % (1 << DITHER_WIDTH), DITHER_WIDTH))
        with m.If(fetched):
            m.d.sync += [place.eq(upcoming), turned.eq(moved - Mux(crosses, whole, 0))]
        with m.If(begin):
            m.d.sync += [place.eq(0), turned.eq(0)]
        with m.If(dither.take):
            m.d.sync += word.eq(dither.o)
        # Lanes beyond the word's last feature take the next word.
        base, following = (Signal(DITHER_WIDTH, name=name, reset_less=True)
                           for name in ("base", "following"))
        first = Signal.like(place, name="first_place")
        m.d.sync += [base.eq(word + turned), following.eq(dither.o + turned - whole),
                     first.eq(place)]
        results = []
        for lane in range(lanes):
            result = Signal(DITHER_WIDTH, name=f"dither_{lane}", reset_less=True)
            beyond = (first >= FEATURES_PER_WORD - lane) if lane and left != lanes else C(0)
            m.d.sync += result.eq(Mux(beyond, following, base) + lane * TURN % (1 << DITHER_WIDTH))
            results.append(result)
        return results

    def _rounded(self, m, words, dithers):
        """Registers with a group's words rounded, 2 cycles after the words."""
        results = []
        for lane, (word, dither) in enumerate(zip(words, dithers, strict=True)):
            moved = Signal(signed(self.config.model_bits + _FRACTION), name=f"moved_{lane}",
                           reset_less=True)
            result = Signal(signed(self.config.model_bits), name=f"rounded_{lane}",
                            reset_less=True)
            m.d.sync += [moved.eq(word << _FRACTION >> self.exponent),
                         result.eq(moved + Cat(C(1, 1), dither) >> _FRACTION)]
            results.append(result)
        return results

    def _copy(self, m, rounded, late, group, fetched):
        """The copy's memory: rounded words are written so many cycles ``late``, slots read."""
        config = self.config
        width = config.stages.rounding.lanes * config.model_bits
        m.submodules.copy = store = memory_of(
            config, shape=self.groups * width, depth=config.rows.max_beats)
        write = store.write_port(granularity=width)
        read = store.read_port()
        writing = delay(m, fetched, 3, name="writing")
        at_group = delay(m, group, late, name="write_group")
        held = Signal(self.groups * width, reset_less=True)
        m.d.comb += [
            write.addr.eq(delay(m, self.index, late, name="write_index")),
            write.data.eq(Cat(rounded).replicate(self.groups)),
            write.en.eq(Mux(writing, 1 << at_group, 0)),
            read.addr.eq(self.slot.index),
            read.en.eq(self.slot.valid | C(config.clock.always_read)),
        ]
        m.d.sync += held.eq(read.data)
        for lane, word in enumerate(self.o):
            m.d.comb += word.eq(held.word_select(lane, config.model_bits).as_signed())
