"""The part of the pipeline that each model has of its own."""

from typing import Any

from amaranth import C, Cat
from amaranth.lib import wiring

from bitstep.pipeline.parts.formats import WOVEN
from bitstep.pipeline.parts.widths import UPDATE_WIDTH
from bitstep_hw.parts.arithmetic import delay, out_of_range
from bitstep_hw.parts.run import reads_derivatives
from bitstep_hw.pipeline.model.corrections import CorrectionEngine
from bitstep_hw.pipeline.model.proximal import Proximal
from bitstep_hw.pipeline.model.rounded_model import RoundedModel
from bitstep_hw.pipeline.model.store import ModelStore
from bitstep_hw.pipeline.model.words import lend
from bitstep_hw.pipeline.products.dot_product import DotProduct
from bitstep_hw.pipeline.update.derivative_step import DerivativeStep
from bitstep_hw.pipeline.update.linear_solver import LinearSolver
from bitstep_hw.pipeline.update.logistic_solver import LogisticSolver
from bitstep_hw.pipeline.update.update_queue import UpdateQueue
from bitstep_hw.pipeline.update.update_sum import UpdateSum


def each(targets, sources):
    """Statements that connect one array with another."""
    return [target.eq(source) for target, source in zip(targets, sources, strict=True)]


class ModelPath:
    """Model words, dot product, solver and updates of one model, with its corrections and proximal
    steps.

    Everything that depends on the rows alone comes from the pipeline, and all models meet a slot in
    the same cycle. So what one of them waits for, all do, and a strobe of the first is one of all.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    number : int
        Number of the model, from 0.
    """

    def __init__(self, config, number):
        self.config, self.number = config, number
        self.updates = UpdateQueue(config=config)
        self.store = ModelStore(config=config)
        self.dot_product = DotProduct(config=config)
        solver = LogisticSolver if config.solver == "logistic" else LinearSolver
        self.solver = solver(config=config)
        self.derivative_step = DerivativeStep()
        self.engine: Any = CorrectionEngine(config=config) if config.corrections else None
        self.rounded: Any = RoundedModel(config=config) if config.model_bits else None
        self.proximal: Any = Proximal(config=config) if config.proximal else None
        self.update_sum: Any = UpdateSum() if config.stages.full_passes else None

    def place(self, m, names):
        """Make parts submodules, in the order of ``names``; those of further models are numbered.
        """
        for name in names:
            m.submodules[name + (f"_{self.number}" if self.number else "")] = getattr(self, name)

    def connect_words(self, m, port):
        """Words to the port, while it has this model selected; all of them are cleared at once."""
        words, mine = port.words, self.store.words
        if self.config.models == 1:
            wiring.connect(m, words, mine)
            return
        for name in ("index", "pair", "shown", "write_data", "intercept", "clear"):
            m.d.comb += getattr(mine, name).eq(getattr(words, name))
        m.d.comb += mine.write.eq(words.write & (port.selected == self.number))

    def connect_model(self, m, pipeline, slots):
        """The model and its updates."""
        store, updates = self.store, self.updates
        m.d.comb += [
            updates.clear.eq(pipeline.start), updates.slot.eq(slots[1]),
            updates.i_valid.eq(self.solver.o_valid), updates.i.eq(self.solver.o),
            store.slot.eq(slots[2]), store.update.eq(updates.o),
            store.intercept_level.eq(pipeline.run.intercept_level),
            *each(store.levels, pipeline.levels.applied),
        ]

    def connect_dot_product(self, m, pipeline, dotted, level):
        """The dot product of the slot ``dotted``, whose intercept counts ``level``."""
        dot_product = self.dot_product
        m.d.comb += [
            dot_product.valid.eq(dotted.valid), dot_product.first.eq(dotted.first),
            dot_product.last.eq(dotted.last),
            dot_product.intercept.eq(self.store.intercept), dot_product.intercept_level.eq(level),
            *each(dot_product.levels, pipeline.levels.late_dot),
            *each(dot_product.words,
                  self.rounded.o if self.config.model_bits else self.store.slot_words),
        ]
        if self.config.model_bits:
            m.d.comb += dot_product.exponent.eq(self.rounded.exponent)

    def round_model(self, m, pipeline, slots):
        """A copy of few bits at every batch's start, when the sequencer has let every update reach
        its words.
        """
        rounded, store, sequencer = self.rounded, self.store, pipeline.sequencer
        m.d.comb += [
            rounded.epoch_start.eq(pipeline.start), rounded.start.eq(sequencer.batch_starts),
            sequencer.batch_ready.eq(rounded.done), rounded.stop.eq(pipeline.stop),
            rounded.key.eq(pipeline.steps.key), rounded.bits.eq(pipeline.run.model_bits),
            rounded.beats.eq(pipeline.run.beats_per_row), rounded.words.eq(store.beat_words),
            rounded.slot.eq(slots[2 + self.config.stages.dot.product]),
        ]
        with m.If(rounded.busy):
            m.d.comb += store.words.index.eq(rounded.index)

    def connect_solver(self, m, pipeline, dotted, label, steps):
        """The solver; ``label`` is that of the row that enters, with its products."""
        solver, step, config = self.solver, self.derivative_step, self.config
        suffix = f"_{self.number}" if self.number else ""
        stages = config.stages
        since_dotted = stages.dot.cycles - stages.solver.lead - stages.store.words
        m.d.comb += [
            solver.clear.eq(pipeline.start), solver.valid.eq(pipeline.correlator.o_valid),
            solver.idle_row.eq(delay(m, dotted.idle_row, since_dotted, name=f"idle{suffix}")),
            solver.label.eq(label),
            *each(solver.products, pipeline.correlator.products),
            solver.dot.eq(self.dot_product.o), solver.dither.eq(pipeline.dither.o),
            solver.derivative_step.eq(step.value), solver.step_too_large.eq(step.too_large),
        ]
        # Models of a run differ in their labels' scale, so it stands with their steps.
        label_shift = pipeline.run.label_shift if config.models == 1 else steps.label_shift
        for part in (solver, step):
            m.d.comb += [part.mantissa.eq(steps.mantissa), part.shift.eq(steps.shift),
                         part.label_shift.eq(label_shift)]
        if config.rounded_updates:
            m.d.comb += solver.update_bits.eq(pipeline.run.update_bits)
        if config.solver == "linear":
            m.d.comb += solver.loss.eq(pipeline.run.loss)
        if config.row_format == WOVEN:
            m.d.sync += solver.derivatives.eq(reads_derivatives(pipeline.run))

    def connect_engine(self, m, pipeline, slots, steps):
        """Corrections beside the slots that they are for."""
        engine, port, late = self.engine, pipeline.port, self.config.clock.strobe_delay
        suffix = f"_{self.number}" if self.number else ""
        taken = port.coefficient
        if self.config.models > 1:
            taken = taken & (port.selected == self.number)
        m.d.comb += [
            engine.load_start.eq(port.load_coefficients),
            engine.load.eq(delay(m, taken, late, name=f"coefficient{suffix}")),
            engine.load_i.eq(delay(m, port.i.payload, late, name=f"coefficients{suffix}")),
            engine.slot.eq(slots[self.config.stages.store.sampled - 1 - engine.answer]),
            engine.beats.eq(pipeline.run.beats_per_row), engine.stop.eq(pipeline.stop),
            engine.sampled.eq(self.store.sampled),
            engine.mantissa.eq(steps.correction_mantissa),
            engine.shift.eq(steps.correction_shift),
            self.store.correction.eq(engine.correction),
        ]
        if self.config.stages.has_constants:
            m.d.comb += [
                engine.load_start.eq(port.load_coefficients | delay(
                    m, port.constants_start, late, name="constants_start")),
                engine.load_constants.eq(delay(m, port.constants, late, name="constants")),
                engine.load_intercept.eq(delay(m, port.constant_intercept, late,
                                               name="constant_intercept")),
                self.store.intercept_correction.eq(engine.intercept),
            ]

    def connect_sums(self, m, pipeline):
        """What makes an epoch sum a gradient."""
        sums, port = pipeline.run.gradient, pipeline.port
        m.d.comb += [
            self.engine.sums.eq(sums), self.engine.index.eq(port.words.index),
            self.store.sums.eq(sums), self.store.high.eq(port.high), port.sums.eq(sums),
            self.update_sum.clear.eq(pipeline.start),
            self.update_sum.valid.eq(self.solver.o_valid & sums & ~pipeline.run.derivatives),
            self.update_sum.i.eq(self.solver.o),
        ]
        if self.config.stages.solver.fine:
            m.d.comb += self.solver.fine.eq(sums & ~pipeline.run.derivatives)
        if self.config.stages.full_passes:
            solver = self.solver
            m.d.comb += [
                solver.to_nearest.eq(pipeline.run.derivatives),
                pipeline.derivative_valid.eq(solver.o_valid & solver.o_with_data
                                             & pipeline.run.derivatives),
                pipeline.derivative.eq(Cat(solver.o_positive, solver.o)),
            ]

    def take_proximal_steps(self, m, pipeline, steps):
        """Proximal steps, when the sequencer has let every update reach its words."""
        proximal, run = self.proximal, pipeline.run
        m.d.comb += [
            proximal.start.eq(pipeline.sequencer.proximal), proximal.stop.eq(pipeline.stop),
            proximal.beats.eq(run.beats_per_row), proximal.last_lanes.eq(run.last_lanes),
            proximal.threshold.eq(steps.threshold), proximal.limit.eq(run.box_limit),
        ]
        lend(m, self.store.words, proximal)

    def saturated(self, pipeline, rewritten):
        """Flags of what leaves its range, bits as
        :class:`bitstep.pipeline.registers.Saturation`.
        """
        correction = self.engine.saturated if self.config.corrections else C(0)
        update = self.solver.saturated
        if self.config.stages.full_passes:
            update |= self.update_sum.saturated
        if self.config.stages.full_passes and not self.number:
            # The label is twice the derivative.
            update |= pipeline.derivative_valid & out_of_range(self.solver.o, UPDATE_WIDTH - 1)
        return [update, self.store.saturated | rewritten, correction]


def connect_selected(m, paths, port):
    """Words that are read, of the model that the port has selected."""
    for name in ("read_data", "late_data"):
        value = getattr(port.words, name)
        with m.Switch(port.selected):
            for path in paths:
                with m.Case(path.number):
                    m.d.comb += value.eq(getattr(path.store.words, name))
