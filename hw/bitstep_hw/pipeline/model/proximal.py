"""Soft threshold and box constraint of a whole model."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import AUX_WIDTH, MAX_FEATURES, MODEL_WIDTH
from bitstep_hw.parts.fsm import stoppable_states
from bitstep_hw.pipeline.model.walk import add_walk, add_write_state
from bitstep_hw.pipeline.model.words import ModelWords


class Proximal(wiring.Component):
    """Unit that makes sign(X) min(max(|X| - threshold, 0), limit) of every model word X, but not of
    the intercept, through the ``words`` of a
    :class:`bitstep_hw.pipeline.model.store.ModelStore`.

    ``done`` comes with the last write, 2 cycles for every pair of words that holds features and 1
    more (2 with a fast clock) for every beat after ``start``. Nothing can leave its range.
    Golden model: :func:`bitstep.golden.steps.proximal_step`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``max_beats``, ``model_lanes`` and ``clock.memory_wait``.

    Members
    -------
    start : In(1), done : Out(1)
        Strobes around a step.
    busy : Out(1)
        From the cycle after ``start`` to that of ``done``: the store's words are used.
    stop : In(1)
        Ends a step at once; the model may be half done.
    beats, last_lanes : In
        As the registers BEATS_PER_ROW and LAST_LANES; constant during a step.
    threshold, limit : In(31)
        In units of a model word; constant during a step.
    words : Out(ModelWords)
        The store's words, but for the intercept.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "start": In(1), "done": Out(1), "busy": Out(1), "stop": In(1),
            "beats": In(range(MAX_FEATURES + 1)), "last_lanes": In(10),
            "threshold": In(MODEL_WIDTH - 1), "limit": In(MODEL_WIDTH - 1),
            "words": Out(ModelWords(config=config, intercept=False, clear=False)),
        })

    def elaborate(self, platform):
        m = Module()
        words = self.words
        walk = add_walk(m, self.config, self)
        held = Signal(AUX_WIDTH, reset_less=True)
        reach = Signal(MODEL_WIDTH, reset_less=True)    # from here on the limit holds
        m.d.sync += reach.eq(self.threshold + self.limit)
        m.d.comb += [
            words.write_data.eq(Cat(
                self._step(m, held.word_select(word, MODEL_WIDTH).as_signed(), reach,
                           name=f"word_{word}") for word in range(2))),
        ]

        state = stoppable_states(m, self.stop, "Idle")
        with m.FSM() as machine:
            with m.State("Idle"):
                m.d.comb += walk.restart.eq(1)
                with m.If(self.start & ~self.stop):
                    m.next = "Read"
            with state("Read"):
                m.d.sync += held.eq(words.read_data)
                with m.If(walk.ready):
                    m.next = "Write"
            add_write_state(m, state, walk, self)
        m.d.comb += self.busy.eq(~machine.ongoing("Idle"))
        return m

    def _step(self, m, word, reach, *, name):
        """Word after the step."""
        # Moving towards 0, instead of working on a magnitude, costs one addition and no negation.
        negative = word[-1]
        moved = Signal(signed(MODEL_WIDTH), name=f"{name}_moved")
        beyond = Signal(signed(MODEL_WIDTH + 1), name=f"{name}_beyond")
        result = Signal(signed(MODEL_WIDTH), name=name)
        m.d.comb += [
            moved.eq(Mux(negative, word + self.threshold, word - self.threshold)),
            beyond.eq(Mux(negative, word + reach, word - reach)),
            result.eq(moved),
        ]
        with m.If(beyond[-1] == negative):
            m.d.comb += result.eq(Mux(negative, -self.limit, self.limit))
        with m.Elif(moved[-1] != negative):
            m.d.comb += result.eq(0)
        return result
