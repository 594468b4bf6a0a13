"""Fine rows: fetched, decided and applied."""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.formats import FINE_WIDTH
from bitstep.pipeline.parts.widths import (
    AUX_WIDTH,
    MAX_FEATURES,
    MAX_LABEL_SHIFT,
    MODEL_WIDTH,
    UPDATE_WIDTH,
)
from bitstep_hw.axi.buses import JOB_LAYOUT
from bitstep_hw.parts.arithmetic import multiply, out_of_range
from bitstep_hw.parts.fsm import stoppable_states
from bitstep_hw.pipeline.model.walk import add_walk, add_write_state
from bitstep_hw.pipeline.model.words import ModelWords

PAIR = data.ArrayLayout(signed(FINE_WIDTH), 2)      # two values of a row

# The step that is being done. A pair of values goes to the multipliers with ``take``, from the
# stream in the first pass, or with ``feed``, from memory in the second.
NOW = data.StructLayout({"idle": 1, "read": 1, "take": 1, "feed": 1, "add_intercept": 1,
                         "decide": 1})


class Refetcher(wiring.Component):
    """Unit that takes one fine row through the hinge and into the model
    (docs/number-formats.md, Refetching), through the ``words`` of a
    :class:`bitstep_hw.pipeline.model.store.ModelStore`.

    The first pass over the model forms the row's dot product and keeps the row. It takes a cycle a
    pair of values and one more a beat of codes. If the row is active, the second pass subtracts it,
    in 2 cycles a pair and one more a beat. ``done`` comes pairs + beats + 6 cycles after ``start``
    for an inactive row, 3 pairs + 2 beats + 6 for an active one, and as many cycles later as ``i``
    kept it waiting; with a fast clock one more a beat in each pass. Exact, nothing is clamped.
    Storage: a row of ``capacity`` values.
    Golden model: :meth:`bitstep.golden.integer.IntegerEpoch.refetch`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``max_beats``, ``model_lanes``, ``fine_fraction`` and ``clock.memory_wait``.

    Members
    -------
    start : In(1)
        Strobe: the row is fetched again. The words in the store are the model that it met, and
        nothing else changes them until ``done``.
    busy : Out(1), done : Out(1)
        ``busy`` is 1 from the cycle after ``start`` to that of ``done``, a strobe: the store's
        words are used.
    stop : In(1)
        Ends the row at once; beats that its job asked for must be discarded by the reader.
    epoch_start, row_passed : In(1)
        Strobes: the next row is the first one; the next row is the one after. The row of
        ``start`` is the one whose ``row_passed`` has not come yet; it may come in the same cycle.
    positive : In(1)
        With ``start``: the row's label is +1, not -1.
    derivative_step : In(31)
        With ``start``: K, the update of a derivative of 1, rounded by the row's dither.
    address, beats, last_lanes, intercept_level, label_shift : In
        As the registers FINE_ADDRESS, BEATS_PER_ROW, LAST_LANES, INTERCEPT_LEVEL and LABEL_SHIFT;
        constant during an epoch and in the cycle before ``epoch_start``.
    job : Out(stream.Signature(JOB_LAYOUT)), i : In(stream.Signature(64))
        Address and length of the row, and its beats, in the layout of docs/memory-layout.md. Values
        without a feature must be 0.
    words : Out(ModelWords)
        The store's words.
    overflowed : Out(1)
        Strobe: a word left its range. 1 cycle after the word was written, which may be the cycle
        after ``done``.
    """

    def __init__(self, *, config):
        self.config = config
        self.pairs = config.rows.model_lanes // 2
        self.depth = self.pairs * config.rows.max_beats
        super().__init__({
            "start": In(1), "stop": In(1), "busy": Out(1), "done": Out(1),
            "epoch_start": In(1), "row_passed": In(1),
            "positive": In(1), "derivative_step": In(UPDATE_WIDTH - 1),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)), "intercept_level": In(8),
            "address": In(64), "beats": In(range(MAX_FEATURES + 1)), "last_lanes": In(10),
            "job": Out(stream.Signature(JOB_LAYOUT)), "i": In(stream.Signature(AUX_WIDTH)),
            "words": Out(ModelWords(config=config, clear=False)),
            "overflowed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        walk = add_walk(m, self.config, self)
        held = Signal(AUX_WIDTH, reset_less=True)           # the model's pair
        constant = Signal(signed(MODEL_WIDTH), reset_less=True)     # the intercept's word
        update = Signal(signed(UPDATE_WIDTH), reset_less=True)      # of the row if it is active
        positive = Signal()
        applying = Signal()
        arrived = Signal(3)
        now = Signal(NOW)

        self._find_row(m)
        values = self._row(m, walk, now)
        words = [held.word_select(side, MODEL_WIDTH).as_signed() for side in range(2)]
        products = self._products(m, values, words, update, applying, arrived[0])
        level = Signal(signed(MODEL_WIDTH + 8), reset_less=True)
        active = self._active(m, products, level, positive, arrived[2], now)
        self._change(m, words, products, constant, level)
        self._control(m, walk, now, arrived == 0, active)

        m.d.sync += [
            arrived.eq(Mux(now.idle, 0, Cat(now.take | now.feed, arrived))),
            level.eq(Mux(now.decide, update, constant) * self.intercept_level),
        ]
        with m.If(now.idle):
            m.d.sync += [applying.eq(0), positive.eq(self.positive),
                         update.eq(Mux(self.positive, -self.derivative_step, self.derivative_step))]
        with m.If(now.decide):
            m.d.sync += applying.eq(1)
        with m.If(now.read):
            m.d.sync += held.eq(self.words.read_data)
        with m.If(self.words.intercept & ~self.words.write):
            m.d.sync += constant.eq(self.words.read_data[:MODEL_WIDTH].as_signed())
        return m

    def _control(self, m, walk, now, empty, active):
        """States of the two passes. ``empty``: no pair is in the multipliers."""
        m.d.comb += self.busy.eq(~now.idle)
        state = stoppable_states(m, self.stop, "Idle")
        with m.FSM():
            with m.State("Idle"):
                m.d.comb += [now.idle.eq(1), walk.restart.eq(1)]
                with m.If(self.start & ~self.stop):
                    m.next = "Intercept"
            with state("Intercept"):
                m.d.comb += self.words.intercept.eq(1)
                m.next = "Sum"
            with state("Sum"):
                m.d.comb += [now.read.eq(1), now.take.eq(self.i.valid & walk.ready),
                             walk.advance.eq(now.take)]
                with m.If(now.take & walk.last):
                    m.next = "Settle"
            with state("Settle"):
                m.d.comb += now.add_intercept.eq(empty)
                with m.If(empty):
                    m.next = "Compare"
            with state("Compare"):
                m.next = "Decide"
            with state("Decide"):
                m.d.comb += [now.decide.eq(1), walk.restart.eq(1), now.feed.eq(active),
                             self.done.eq(~active)]
                m.next = "Idle"
                with m.If(active):
                    m.next = "Write-Intercept"
            with state("Write-Intercept"):
                m.d.comb += [self.words.write.eq(1), self.words.intercept.eq(1)]
                m.next = "Read"
            with state("Read"):
                # A product takes as long as a pair: the one after is fed while this one is read.
                m.d.comb += [now.read.eq(1), now.feed.eq(walk.ready & ~walk.last)]
                with m.If(walk.ready):
                    m.next = "Write"
            add_write_state(m, state, walk, self)

    def _find_row(self, m):
        """Address of the next row, and the job for it."""
        next_row = Signal(64, reset_less=True)
        address = Signal(64, reset_less=True)
        pairs = Signal(range(self.depth + 1))
        pending = Signal()
        beats = Signal(range(self.depth // 2 + 2))
        m.d.sync += pairs.eq((self.beats - 1) * self.pairs + ((self.last_lanes + 1) >> 1))
        m.d.comb += [
            beats.eq((pairs + 1) >> 1),
            self.job.valid.eq(pending & ~self.stop),
            self.job.payload.address.eq(address),
            self.job.payload.beats.eq(beats),
        ]
        with m.If(self.epoch_start):
            m.d.sync += next_row.eq(self.address)
        with m.Elif(self.row_passed):
            m.d.sync += next_row.eq(next_row + beats * (AUX_WIDTH // 8))
        with m.If(self.stop | self.job.ready):
            m.d.sync += pending.eq(0)
        with m.If(self.start & ~self.stop):
            m.d.sync += [pending.eq(1), address.eq(next_row)]

    def _row(self, m, walk, now):
        """The pair of values that ``take`` or ``feed`` meant, one cycle later."""
        m.submodules.row = row = memory.Memory(shape=PAIR, depth=self.depth, init=[])
        write = row.write_port()
        read = row.read_port(transparent_for=(write,))
        number = Signal(range(self.depth))
        m.d.comb += [
            self.i.ready.eq(now.take & (number[0] | walk.last)),
            write.addr.eq(number), write.en.eq(now.take),
            write.data.eq(self.i.payload.word_select(number[0], AUX_WIDTH // 2)),
            read.addr.eq(number), read.en.eq(now.take | now.feed),
        ]
        with m.If(now.take | now.feed):
            m.d.sync += number.eq(number + 1)
        with m.If(now.idle | (now.take & walk.last)):
            m.d.sync += number.eq(0)
        return read.data

    def _products(self, m, values, words, update, applying, valid):
        """Values times weights or, rounded, times the update; 2 cycles after the values."""
        rounding = Mux(applying, 1 << self.config.rows.fine_fraction - 1, 0)
        return [multiply(m, value, Mux(applying, update, word), stages=2, valid=valid,
                         name=f"product_{side}", width=FINE_WIDTH + MODEL_WIDTH, addend=rounding)
                for side, (value, word) in enumerate(zip(values, words, strict=True))]

    def _active(self, m, products, level, positive, valid, now):
        """Flag that the row is active, 2 cycles after its intercept is added."""
        fraction = self.config.rows.fine_fraction
        terms = self.config.rows.capacity + 1      # and the intercept
        total = Signal(signed(FINE_WIDTH + MODEL_WIDTH - 1 + terms.bit_length()), reset_less=True)
        with m.If(valid):
            m.d.sync += total.eq(total + products[0] + products[1])
        with m.If(now.add_intercept):
            m.d.sync += total.eq(total + (level << fraction))
        with m.If(now.idle):
            m.d.sync += total.eq(0)
        target = Signal(self.config.rows.max_label_shift + fraction + 1, reset_less=True)
        active = Signal(reset_less=True)
        m.d.sync += [target.eq(C(1 << fraction) << self.label_shift),
                     active.eq(Mux(positive, total < target, total > -target))]
        return active

    def _change(self, m, words, products, constant, level):
        """Words to write, and the flag that one leaves its range."""
        fraction = self.config.rows.fine_fraction
        # A value has at most 8 bits before its fraction, a level too.
        changed = [Signal(signed(MODEL_WIDTH + 9), name=f"changed_{side}") for side in range(2)]
        for side, (word, product) in enumerate(zip(words, products, strict=True)):
            with m.If(self.words.intercept):
                m.d.comb += changed[side].eq(constant - level if side == 0 else 0)
            with m.Else():
                m.d.comb += changed[side].eq(word - (product >> fraction))
        m.d.comb += self.words.write_data.eq(Cat(result[:MODEL_WIDTH] for result in changed))
        m.d.sync += self.overflowed.eq(
            self.words.write & Cat(out_of_range(result, MODEL_WIDTH) for result in changed).any())
