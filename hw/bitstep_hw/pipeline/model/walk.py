"""Pairs of weights that hold features, one after the other."""

from amaranth import C, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_FEATURES


def add_walk(m, config, unit):
    """Put a :class:`ModelWalk` into a unit with ``beats`` and ``last_lanes``, and let it choose
    among ``unit.words``; returns the walk.
    """
    m.submodules.walk = walk = ModelWalk(config=config)
    words = unit.words
    m.d.comb += [
        walk.beats.eq(unit.beats), walk.last_lanes.eq(unit.last_lanes),
        words.index.eq(walk.index), words.pair.eq(walk.pair), words.shown.eq(walk.pair),
    ]
    return walk


def add_write_state(m, state, walk, unit):
    """State "Write" of a unit that writes each pair after its state "Read" and is done with the
    last one.
    """
    with state("Write"):
        m.d.comb += [unit.words.write.eq(1), walk.advance.eq(1), unit.done.eq(walk.last)]
        m.next = "Read"
        with m.If(walk.last):
            m.next = "Idle"


class ModelWalk(wiring.Component):
    """Counter of pairs in the order of :class:`bitstep_hw.pipeline.model.words.ModelWords`: the
    pairs of each beat, of the last one only those that hold features. The intercept is not among
    them.

    Parameters
    ----------
    config : PipelineConfig
        The shape of the model, and ``clock.memory_wait``.

    Members
    -------
    beats, last_lanes : In
        As the registers BEATS_PER_ROW and LAST_LANES; constant during a walk.
    restart : In(1)
        To the first pair.
    advance : In(1)
        To the next pair; after the last one to the first.
    index, pair : Out
        The pair's beat and its number in it.
    ready : Out(1)
        ``index`` has stood for a cycle (2 with a fast clock), so the store shows the pair. The
        cycle after ``restart`` and the one after a beat's last pair are without (2 cycles each).
    last : Out(1)
        The pair is the last one.
    """

    def __init__(self, *, config):
        self.config = config
        self.pairs = config.rows.model_lanes // 2
        super().__init__({
            "beats": In(range(MAX_FEATURES + 1)), "last_lanes": In(10),
            "restart": In(1), "advance": In(1),
            "index": Out(range(config.rows.max_beats)), "pair": Out(range(self.pairs)),
            "ready": Out(1), "last": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        last_index = Signal()
        ends = Signal()
        m.d.comb += [
            last_index.eq(self.index == self.beats - 1),
            ends.eq(self.pair == Mux(last_index, (self.last_lanes - 1) >> 1, self.pairs - 1)),
            self.last.eq(ends & last_index),
        ]
        settled = Signal(name="settled") if self.config.clock.memory_wait else C(1)
        m.d.sync += self.ready.eq(settled)
        if self.config.clock.memory_wait:
            m.d.sync += settled.eq(1)
            with m.If(self.restart | (self.advance & ends)):
                m.d.sync += settled.eq(0)
        with m.If(self.advance):
            m.d.sync += self.pair.eq(self.pair + 1)
            with m.If(ends):
                m.d.sync += [self.pair.eq(0), self.ready.eq(0),
                             self.index.eq(Mux(last_index, 0, self.index + 1))]
        with m.If(self.restart):
            m.d.sync += [self.index.eq(0), self.pair.eq(0), self.ready.eq(0)]
        return m
