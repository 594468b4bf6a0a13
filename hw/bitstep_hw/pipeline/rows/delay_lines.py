"""Delay lines: the beats of the rows before, at the same place in the row."""

from amaranth import Array, C, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.parts.memories import memory_of


class DelayLines(wiring.Component):
    """A chain of row-long delays: beat j of rows i - 1, i - 2, ... beside beat j of row i.

    Line d is a memory with one word for each beat of a row. A slot reads word j of every line and
    writes each line's old word into the next line, so that every line holds one row. Rows longer
    than a line do not use it (:meth:`bitstep.pipeline.parts.lookahead.LookAhead.line_depth`).

    One slot a cycle; two slots with the same index must be at least 2 cycles apart, 4 with a fast
    clock (the sequencer sees to that). Latency: the line's word comes with its beat. Storage:
    ``beat_width`` times the sum of the depths, in bits.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``beat_width``, ``lookahead`` (there is one line more) and the depths.

    Attributes
    ----------
    rows : int
        Rows whose products with the row are formed.

    Members
    -------
    valid : In(1)
        A slot, one cycle before its beat.
    index : In
        Its index in the row.
    beat : In(beat_width)
        The beat of the slot announced in the cycle before.
    previous_beats : Out(ArrayLayout(beat_width, lookahead + 1))
        Beats of the rows before, nearest first, in the same cycle as ``beat``.
    """

    def __init__(self, *, config):
        self.config, self.rows = config, config.lookahead
        super().__init__({
            "valid": In(1),
            "index": In(range(config.rows.max_beats)),
            "beat": In(config.rows.beat_width),
            "previous_beats": Out(data.ArrayLayout(config.rows.beat_width, config.lookahead + 1)),
        })

    def place(self, m, levels, beat):
        """Make it a part of the levels, whose module is ``m``; returns the beats of the rows
        before, nearest first, beside ``beat``.
        """
        m.submodules.lines = self
        m.d.comb += [self.valid.eq(levels.slots[0].valid), self.index.eq(levels.slots[0].index),
                     self.beat.eq(beat)]
        return [self.previous_beats[line] for line in range(self.config.lookahead + 1)]

    def chosen(self, m, levels, values):
        """The one of ``values``, of these rows, that the run's look-ahead asks for."""
        choice = Signal(range(len(values)), name="choice", reset_less=True)
        m.d.sync += choice.eq(Mux(levels.lookahead < len(values), levels.lookahead,
                                  self.config.lookahead))
        return Array(values)[choice]

    def elaborate(self, platform):
        m = Module()
        late = self.config.clock.memory_wait      # what was read waits before it is written
        writing = delay(m, self.valid, 1 + late, name="writing")
        index = delay(m, self.index, 1 + late, name="index")
        newer = delay(m, self.beat, late, name="beat")
        for line in range(self.config.lookahead + 1):
            depth = self.config.ahead.line_depth(line + 1)
            m.submodules[f"line_{line + 1}"] = store = memory_of(
                self.config, shape=self.config.rows.beat_width, depth=depth, weights=False)
            read = store.read_port()
            write = store.write_port()
            m.d.comb += [
                read.addr.eq(self.index),
                # No enable with a fast clock, as in parts.arithmetic.enable_of.
                read.en.eq(self.valid | C(self.config.clock.always_read)),
                self.previous_beats[line].eq(read.data),
                write.addr.eq(index),
                write.data.eq(newer),
                write.en.eq(writing),
            ]
            newer = delay(m, read.data, late, name=f"newer_{line + 1}")
        return m
