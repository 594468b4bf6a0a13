"""Port for whole models into and out of the store, two words at a time."""

from amaranth import Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import AUX_WIDTH, MAX_FEATURES, MODEL_WIDTH
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.parts.fsm import stoppable_states
from bitstep_hw.pipeline.model.words import ModelWords


class ModelPort(wiring.Component):
    """Unit that clears, loads or unloads a :class:`bitstep_hw.pipeline.model.store.ModelStore`, and
    loads coefficients, in the layout of docs/memory-layout.md: the pairs of each beat, then the
    intercept.

    A pair a cycle; clearing takes a cycle a beat. One command at a time. Storage: 8 pairs.

    With ``has_constants`` constants in the same layout follow the coefficients; in a run that sums
    a gradient the high halves of all words follow their low halves.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``max_beats``, ``model_lanes``, ``has_constants``, ``full_passes`` and the store's
        waits.

    Members
    -------
    beats : In
        Beats of a row.
    clear, load, load_coefficients, unload : In(1)
        Strobes that begin a command.
    done : Out(1)
        Strobe: the command has ended (an unloaded model may still be in ``o``).
    stop : In(1)
        Ends a command and drops what is in ``o``.
    i : In(stream.Signature(64)), o : Out(stream.Signature(64))
        Models in and out.
    words : Out(ModelWords)
        The store's words.
    coefficient : Out(1)
        A pair of coefficients, or of constants, is taken from ``i``.
    constants, constant_intercept, constants_start : Out(1)
        With ``has_constants``: the pair is one of constants; the intercept's constant is taken;
        strobe beside the last word before the first constant.
    sums : In(1), high : Out(1)
        With ``full_passes``: the run sums a gradient; ``words`` is to show high halves.
    model : In, flags : In(3), selected : Out
        With more than one model: the one that the next command is for, and, while it is unloaded,
        its flags, which come beside the intercept; the one that ``words`` are of.
    """

    def __init__(self, *, config):
        self.config = config
        self.pairs = config.rows.model_lanes // 2
        super().__init__({
            "beats": In(range(MAX_FEATURES + 1)),
            "clear": In(1), "load": In(1), "load_coefficients": In(1), "unload": In(1),
            "done": Out(1), "stop": In(1),
            "i": In(stream.Signature(AUX_WIDTH)), "o": Out(stream.Signature(AUX_WIDTH)),
            "words": Out(ModelWords(config=config)), "coefficient": Out(1),
            "model": In(range(config.models)), "selected": Out(range(config.models)),
            "flags": In(3), "sums": In(1), "high": Out(1),
            "constants": Out(1), "constant_intercept": Out(1), "constants_start": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.buffer = buffer = fifo.SyncFIFOBuffered(width=AUX_WIDTH, depth=8)
        words = self.words
        index = Signal.like(words.index)
        pair = Signal.like(words.pair)
        at_intercept = Signal()
        # Constants come after coefficients, and high halves after low ones.
        again = Signal()
        second = Signal()
        asked = Signal()
        advance = Signal()
        last_pair = Signal()
        last_index = Signal()
        final = Signal.like(index)      # constant during a run
        m.d.sync += final.eq(self.beats - 1)
        stopped = delay(m, self.stop, self.config.clock.strobe_delay, name="stopped")
        m.d.comb += [
            last_pair.eq(pair == self.pairs - 1),
            last_index.eq(index == final),
            words.index.eq(index),
            words.pair.eq(pair),
            words.write_data.eq(Mux(words.clear, 0, self.i.payload)),
            self.o.valid.eq(buffer.r_rdy & ~self.stop),
            self.o.payload.eq(buffer.r_data),
            buffer.r_en.eq(self.o.ready | stopped),
        ]
        latency = self._read(m, buffer, asked, pair, at_intercept, second)
        with m.If(advance):
            m.d.sync += pair.eq(pair + 1)
            with m.If(last_pair):
                m.d.sync += [pair.eq(0), index.eq(index + 1)]
                with m.If(last_index):
                    m.d.sync += [index.eq(0), at_intercept.eq(1)]
        with m.If(again):
            m.d.sync += [index.eq(0), pair.eq(0), at_intercept.eq(0), second.eq(1)]
        state = stoppable_states(m, self.stop, "Idle")
        with m.FSM():
            with m.State("Idle"):
                m.d.sync += [index.eq(0), pair.eq(0), at_intercept.eq(0), second.eq(0)]
                if self.config.models > 1:
                    m.d.sync += self.selected.eq(self.model)
                for command, target in ((self.clear, "Clear"), (self.load, "Load"),
                                       (self.load_coefficients, "Coefficients"),
                                       (self.unload, "Unload")):
                    with m.If(command):
                        m.next = target
            with state("Clear"):
                m.d.comb += words.clear.eq(1)
                m.d.sync += index.eq(index + 1)
                with m.If(last_index):
                    m.d.comb += self.done.eq(1)
                    m.next = "Idle"
            self._load_states(m, state, advance, at_intercept, second, again)
            with state("Unload"):
                # Room for what is being read already: the memory cannot be held.
                m.d.comb += [advance.eq(buffer.level < 7 - latency), asked.eq(advance)]
                with m.If(advance & at_intercept):
                    m.next = "Last"
                    if self.config.stages.full_passes:
                        with m.If(self.sums & ~second):
                            m.d.comb += again.eq(1)
                            m.next = "Unload"
            with state("Last"):
                m.d.comb += self.done.eq(1)
                m.next = "Idle"
        return m

    def _load_states(self, m, state, advance, at_intercept, second, again):
        """States in which a model or its coefficients and constants come in."""
        with state("Load"):
            m.d.comb += [
                self.i.ready.eq(1),
                advance.eq(self.i.valid),
                self.words.write.eq(advance),
                self.words.intercept.eq(at_intercept),
            ]
            with m.If(advance & at_intercept):
                m.d.comb += self.done.eq(1)
                m.next = "Idle"
        with state("Coefficients"):
            last = self.i.valid & at_intercept
            m.d.comb += [
                self.i.ready.eq(1),
                self.coefficient.eq(self.i.valid & ~at_intercept),
                advance.eq(self.i.valid),
            ]
            if self.config.stages.has_constants:
                m.d.comb += [again.eq(last & ~second), self.constants_start.eq(again),
                             self.constants.eq(second), self.constant_intercept.eq(last & second)]
            with m.If(last & ~again):
                m.d.comb += self.done.eq(1)
                m.next = "Idle"

    def _read(self, m, buffer, asked, pair, at_intercept, second):
        """Put what was ``asked`` for into the buffer; returns the cycles until it is there."""
        # Until the store has the words, and for the choice among them (``late_data``).
        latency, waits = 1 + self.config.clock.memory_wait, self.config.clock.memory_wait
        m.d.comb += [
            self.words.shown.eq(delay(m, pair, latency, name="read_pair")),
            self.words.intercept.eq(delay(m, at_intercept, latency, name="read_intercept")),
            buffer.w_en.eq(delay(m, asked, latency + waits, name="read")),
            buffer.w_data.eq(self.words.late_data),
        ]
        if self.config.stages.full_passes:
            m.d.comb += self.high.eq(delay(m, second, latency, name="read_high"))
        if self.config.models > 1:
            with m.If(delay(m, at_intercept, latency + waits, name="buffered_intercept")):
                m.d.comb += buffer.w_data[MODEL_WIDTH:].eq(self.flags)
        return latency + waits
