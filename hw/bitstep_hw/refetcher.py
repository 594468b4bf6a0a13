"""Rows at full precision: fetched, decided and applied."""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.config import (
    AUX_WIDTH,
    FULL_WIDTH,
    MAX_FEATURES,
    MAX_LABEL_SHIFT,
    MODEL_WIDTH,
    UPDATE_WIDTH,
)
from bitstep_hw.arithmetic import multiply, out_of_range
from bitstep_hw.axi import JOB_LAYOUT
from bitstep_hw.fsm import stoppable_states
from bitstep_hw.model_walk import ModelWalk

PAIR = data.ArrayLayout(signed(FULL_WIDTH), 2)      # two values of a row


class Refetcher(wiring.Component):
    """Takes one row at full precision through the hinge and into the model
    (docs/number-formats.md, Refetching), through the ``access`` ports of a
    :class:`bitstep_hw.model_store.ModelStore`.

    The first pass over the model forms the row's dot product, a pair of values a cycle and one
    cycle more a beat of codes, and keeps the row; if the row is active, the second pass subtracts
    it, 2 cycles a pair and one more a beat. ``done`` comes pairs + beats + 5 cycles after
    ``start`` for an inactive row, 3 pairs + 2 beats + 5 for an active one, and as many cycles later
    as ``i`` kept it waiting. Exact, nothing is clamped. Storage: a row of ``capacity`` values.
    Golden model: :meth:`bitstep.golden.sgd._Epoch.refetch`.

    Members
    -------
    start : In(1)
        Strobe: the row is fetched again. The words in the store are the model that it met, and
        nothing else changes them until ``done``.
    busy : Out(1), done : Out(1)
        ``busy`` is 1 from the cycle after ``start`` to that of ``done``, a strobe: the store's
        access is used.
    stop : In(1)
        Ends the row at once; beats that its job asked for must be discarded by the reader.
    epoch_start, row_passed : In(1)
        Strobes: the next row is the first of the copy; the next row is the one after. The row of
        ``start`` is the one whose ``row_passed`` has not come yet; it may come in the same cycle.
    label : In(1)
        With ``start``: the row's label, 1 for +1 and 0 for -1.
    unit : In(31)
        K, the update of a derivative of 1; constant during an epoch.
    address, beats, last_lanes, intercept_level, label_shift : In
        As the registers FULL_ADDRESS, BEATS_PER_ROW, LAST_LANES, INTERCEPT_LEVEL and LABEL_SHIFT;
        constant during an epoch and in the cycle before ``epoch_start``.
    job : Out(stream.Signature(JOB_LAYOUT)), i : In(stream.Signature(64))
        Where the row is and its beats, in the layout of docs/memory-layout.md. Values without a
        feature must be 0.
    index, pair, write, intercept, o : Out
        To the store's ``access`` ports.
    data : In(64)
        From the store: the pair addressed by ``index`` one cycle ago and ``pair`` now, or the
        intercept.
    saturated : Out(1)
        Strobe: a word left its range. 1 cycle after the word was written, which may be the cycle
        after ``done``.
    """

    def __init__(self, *, config):
        self.config = config
        self.pairs = config.model_lanes // 2
        super().__init__({
            "start": In(1), "stop": In(1), "busy": Out(1), "done": Out(1),
            "epoch_start": In(1), "row_passed": In(1),
            "label": In(1), "unit": In(UPDATE_WIDTH - 1),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)), "intercept_level": In(8),
            "address": In(64), "beats": In(range(MAX_FEATURES + 1)), "last_lanes": In(10),
            "job": Out(stream.Signature(JOB_LAYOUT)), "i": In(stream.Signature(AUX_WIDTH)),
            "index": Out(range(config.max_beats)), "pair": Out(range(self.pairs)),
            "write": Out(1), "intercept": Out(1), "o": Out(AUX_WIDTH), "data": In(AUX_WIDTH),
            "saturated": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.walk = walk = ModelWalk(config=config)
        m.submodules.row = row = memory.Memory(shape=PAIR, depth=self.pairs * config.max_beats,
                                               init=[])
        keep = row.write_port()
        values = row.read_port(transparent_for=(keep,))
        number = Signal(range(row.depth))       # of the pair in its row
        take, feed, arrived = Signal(), Signal(), Signal(3)
        applying = Signal()
        held = Signal(AUX_WIDTH, reset_less=True)
        update = Signal(signed(UPDATE_WIDTH), reset_less=True)
        m.d.sync += arrived.eq(Cat(take | feed, arrived))
        m.d.comb += [
            walk.beats.eq(self.beats), walk.last_lanes.eq(self.last_lanes),
            self.index.eq(walk.index), self.pair.eq(walk.pair),
            keep.addr.eq(number), keep.en.eq(take),
            keep.data.eq(self.i.payload.word_select(number[0], AUX_WIDTH // 2)),
            values.addr.eq(number),
        ]

        # Both passes multiply the row, with the model and then with the update.
        words, products, changed = [], [], []
        for side in range(2):
            word = held.word_select(side, MODEL_WIDTH).as_signed()
            products.append(multiply(
                m, values.data[side], Mux(applying, update, word), stages=2, valid=arrived[0],
                name=f"product_{side}", width=FULL_WIDTH + MODEL_WIDTH,
                addend=Mux(applying, 1 << config.full_fraction - 1, 0)))
            words.append(word)
        for side, (word, product) in enumerate(zip(words, products, strict=True)):
            result = Signal(signed(FULL_WIDTH + MODEL_WIDTH + 1), name=f"changed_{side}")
            m.d.comb += result.eq(word - (product >> config.full_fraction))
            changed.append(result)
        return m
