"""Stages that only some pipelines have: what they consist of, and how they are connected.

An :class:`Extra` adds ports, components, connections and flags to a pipeline. The pipeline knows
none of them by name; :func:`extras_of` picks those that a configuration asks for.
"""

from typing import Any

from amaranth import C, Cat, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.widths import (
    AUX_WIDTH,
    LABEL_WIDTH,
    LOOKAHEAD_MARGIN_WIDTH,
    UPDATE_WIDTH,
)
from bitstep_hw.axi.buses import JOB_LAYOUT
from bitstep_hw.parts.arithmetic import delay, each, out_of_range
from bitstep_hw.parts.run import labels_of, reads_derivatives
from bitstep_hw.pipeline.model.corrections import CorrectionEngine
from bitstep_hw.pipeline.model.proximal import Proximal
from bitstep_hw.pipeline.model.refetcher import Refetcher
from bitstep_hw.pipeline.model.rounded_model import RoundedModel
from bitstep_hw.pipeline.model.words import lend
from bitstep_hw.pipeline.products.cell_bounds import CellBounds
from bitstep_hw.pipeline.update.update_sum import UpdateSum


class Extra:
    """A stage that only some pipelines have.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline's choices.

    Attributes
    ----------
    ports : dict
        Members that the pipeline gets for it.
    """

    def __init__(self, config):
        self.config = config
        self.ports: dict[str, Any] = {}

    def connect_sequencer(self, m, pipeline):
        """Connect what the sequencer has for it."""

    def connect_solver(self, m, solver, run):
        """Connect what a solver has for it, but for refetching."""

    def connect(self, m, pipeline, slots):
        """Make components submodules of the pipeline and connect them; ``slots`` are as they were
        0, 1, 2, ... cycles ago.
        """


class StoredWords(Extra):
    """The words that dot products meet are those of the store: a batch begins at once."""

    def connect_words(self, m, path):
        """Words for the dot product of a model."""
        m.d.comb += each(path.dot_product.words, path.store.slot_words)

    def connect(self, m, pipeline, slots):
        """Let batches begin."""
        m.d.comb += pipeline.sequencer.batch_ready.eq(pipeline.sequencer.batch_starts)


class RoundedWords(Extra):
    """The words that dot products meet are a copy of few bits, made at every batch's start, when
    the sequencer has let every update reach its words.
    """

    def __init__(self, config):
        super().__init__(config)
        self.rounded = RoundedModel(config=config)

    def connect_words(self, m, path):
        """Words for the dot product of a model."""
        m.d.comb += each(path.dot_product.words, self.rounded.o)
        m.d.comb += path.dot_product.exponent.eq(self.rounded.exponent)

    def connect(self, m, pipeline, slots):
        """Round the model between batches."""
        m.submodules.rounded = rounded = self.rounded
        (path,), sequencer = pipeline.paths, pipeline.sequencer
        m.d.comb += [
            rounded.epoch_start.eq(pipeline.start), rounded.start.eq(sequencer.batch_starts),
            sequencer.batch_ready.eq(rounded.done), rounded.stop.eq(pipeline.stop),
            rounded.key.eq(pipeline.steps.key), rounded.bits.eq(pipeline.run.model_bits),
            rounded.beats.eq(pipeline.run.beats_per_row), rounded.words.eq(path.store.beat_words),
            rounded.slot.eq(slots[self.config.stages.store.sampled - 1]),
        ]
        with m.If(rounded.busy):
            m.d.comb += path.store.words.index.eq(rounded.index)


class RoundedUpdates(Extra):
    """Updates are rounded to few bits."""

    def connect_solver(self, m, solver, run):
        """The number of bits."""
        m.d.comb += solver.update_bits.eq(run.update_bits)


class Centres(Extra):
    """Labels may be derivatives at a centre."""

    def connect_solver(self, m, solver, run):
        """What the labels are."""
        m.d.sync += solver.derivatives.eq(reads_derivatives(run))


class Corrections(Extra):
    """Corrections, an engine for each model; all engines are ready in the same cycle."""

    def __init__(self, config):
        super().__init__(config)
        self.engines = [CorrectionEngine(config=config) for _ in range(config.models)]

    def connect(self, m, pipeline, slots):
        """Corrections beside the slots that they are for."""
        for path, engine, steps in zip(pipeline.paths, self.engines, pipeline.all_steps,
                                       strict=True):
            m.submodules[path.named("engine")] = engine
            self._connect_engine(m, pipeline, path, engine, steps, slots)
            path.left_correction = engine.overflowed
        m.d.comb += pipeline.sequencer.corrected.eq(self.engines[0].done)

    def _connect_engine(self, m, pipeline, path, engine, steps, slots):
        port, late = pipeline.port, self.config.clock.strobe_delay
        m.d.comb += [
            engine.load_start.eq(port.load_coefficients),
            engine.load.eq(delay(m, path.selects(port, port.coefficient), late,
                                 name=path.named("coefficient"))),
            engine.load_i.eq(delay(m, port.i.payload, late, name=path.named("coefficients"))),
            engine.slot.eq(slots[self.config.stages.store.sampled - 1 - engine.answer]),
            engine.beats.eq(pipeline.run.beats_per_row), engine.stop.eq(pipeline.stop),
            engine.sampled.eq(path.store.sampled),
            engine.mantissa.eq(steps.correction_mantissa),
            engine.shift.eq(steps.correction_shift),
            path.store.correction.eq(engine.correction),
        ]


class CorrectionsWithConstants(Corrections):
    """Corrections that add constants to words and intercept."""

    def _connect_engine(self, m, pipeline, path, engine, steps, slots):
        super()._connect_engine(m, pipeline, path, engine, steps, slots)
        port, late = pipeline.port, self.config.clock.strobe_delay
        m.d.comb += [
            engine.load_start.eq(port.load_coefficients | delay(
                m, port.constants_start, late, name="constants_start")),
            engine.load_constants.eq(delay(m, port.constants, late, name="constants")),
            engine.load_intercept.eq(delay(m, port.constant_intercept, late,
                                           name="constant_intercept")),
            path.store.intercept_correction.eq(engine.intercept),
        ]


class FullPasses(Extra):
    """Runs that sum the gradient of all rows, or write the derivatives of their losses."""

    def __init__(self, config):
        super().__init__(config)
        self.update_sum = UpdateSum()
        self.ports = {"hold_rows": In(1), "derivative_valid": Out(1),
                      "derivative": Out(LABEL_WIDTH)}

    def connect_sequencer(self, m, pipeline):
        """Hold rows, and let those of a gradient wait for the finer sigmoid."""
        m.d.comb += pipeline.sequencer.hold_rows.eq(pipeline.hold_rows)
        if self.config.stages.solver.fine:
            m.d.comb += pipeline.sequencer.fine.eq(
                pipeline.run.gradient & ~pipeline.run.derivatives)

    def connect(self, m, pipeline, slots):
        """What makes an epoch sum a gradient or write derivatives."""
        m.submodules.update_sum = update_sum = self.update_sum
        (path,), (engine,) = pipeline.paths, pipeline.extra(Corrections).engines
        run, port, solver = pipeline.run, pipeline.port, path.solver
        sums = run.gradient
        m.d.comb += [
            engine.sums.eq(sums), engine.index.eq(port.words.index),
            path.store.sums.eq(sums), path.store.high.eq(port.high), port.sums.eq(sums),
            update_sum.clear.eq(pipeline.start),
            update_sum.valid.eq(solver.o_valid & sums & ~run.derivatives),
            update_sum.i.eq(solver.o),
        ]
        if self.config.stages.solver.fine:
            m.d.comb += solver.fine.eq(sums & ~run.derivatives)
        m.d.comb += [
            solver.to_nearest.eq(run.derivatives),
            pipeline.derivative_valid.eq(solver.o_valid & solver.o_with_data & run.derivatives),
            pipeline.derivative.eq(Cat(solver.o_positive, solver.o)),
        ]
        # The label is twice the derivative.
        path.left_update |= update_sum.overflowed
        path.left_update |= pipeline.derivative_valid & out_of_range(solver.o, UPDATE_WIDTH - 1)


class ProximalSteps(Extra):
    """Proximal steps, when the sequencer has let every update reach its words; those of all models
    take as long.
    """

    def __init__(self, config):
        super().__init__(config)
        self.steps = [Proximal(config=config) for _ in range(config.models)]

    def connect(self, m, pipeline, slots):
        """Steps between rows."""
        run = pipeline.run
        for path, proximal, steps in zip(pipeline.paths, self.steps, pipeline.all_steps,
                                         strict=True):
            m.submodules[path.named("proximal")] = proximal
            m.d.comb += [
                proximal.start.eq(pipeline.sequencer.proximal), proximal.stop.eq(pipeline.stop),
                proximal.beats.eq(run.beats_per_row), proximal.last_lanes.eq(run.last_lanes),
                proximal.threshold.eq(steps.threshold), proximal.limit.eq(run.box_limit),
            ]
            lend(m, path.store.words, proximal)
        m.d.comb += pipeline.sequencer.proximal_done.eq(self.steps[0].done)


class Refetching(Extra):
    """Rows that their codes do not decide are fetched again. With look-ahead the codes are judged
    by a bound for every model that the updates in flight may make; a row that this leaves open
    comes again alone. Nothing else moves while a fine row is applied.
    """

    def __init__(self, config):
        super().__init__(config)
        self.ports = {"fine_job": Out(stream.Signature(JOB_LAYOUT)),
                      "i_fine": In(stream.Signature(AUX_WIDTH))}

    def connect(self, m, pipeline, slots):
        """Judge rows and fetch those that stay open."""
        sequencer, run, (path,) = pipeline.sequencer, pipeline.run, pipeline.paths
        solver, dither = path.solver, pipeline.dither
        self._judge_codes(m, pipeline, path, slots[-1])
        m.submodules.refetcher = refetcher = Refetcher(config=self.config)
        wiring.connect(m, refetcher.job, wiring.flipped(pipeline.fine_job))
        wiring.connect(m, wiring.flipped(pipeline.i_fine), refetcher.i)
        # Decided rows of the epoch: the row that a replay begins with.
        decided = Signal(32)
        with m.If(sequencer.decided):
            m.d.sync += decided.eq(decided + 1)
        with m.If(pipeline.start):
            m.d.sync += decided.eq(0)
        with m.Elif(sequencer.replay):
            m.d.comb += [dither.restart.eq(1), dither.row.eq(decided)]
        m.d.comb += [
            sequencer.decided.eq(solver.o_decided | refetcher.done),
            sequencer.replay.eq(solver.o_replay), pipeline.row_refetched.eq(solver.o_undecided),
            sequencer.hold.eq(solver.o_undecided | refetcher.busy),
            refetcher.derivative_step.eq(solver.o_derivative_step),
            refetcher.start.eq(solver.o_undecided), refetcher.stop.eq(pipeline.stop),
            refetcher.positive.eq(solver.o_positive), refetcher.epoch_start.eq(pipeline.start),
            refetcher.row_passed.eq(sequencer.decided), refetcher.label_shift.eq(run.label_shift),
            refetcher.address.eq(run.fine_address),
            refetcher.intercept_level.eq(run.intercept_level),
            refetcher.beats.eq(run.beats_per_row), refetcher.last_lanes.eq(run.last_lanes),
        ]
        lend(m, path.store.words, refetcher)
        path.rewritten = refetcher.overflowed

    def _judge_codes(self, m, pipeline, path, dotted):
        """Bounds that tell whether a row's codes decide it, into the solver."""
        sequencer, run, solver = pipeline.sequencer, pipeline.run, path.solver
        m.submodules.bounds = bounds = CellBounds(config=self.config)
        label = delay(m, labels_of(self.config, sequencer.label), self.config.stages.dot.cycles,
                      name="bounds_label")
        margin = self._lookahead_margin(m, pipeline, path.derivative_step)
        m.d.comb += [
            bounds.valid.eq(dotted.valid), bounds.first.eq(dotted.first),
            bounds.last.eq(dotted.last), bounds.cell.eq(run.cell_half_levels),
            bounds.ends.eq(sequencer.replay_alone), bounds.dot.eq(path.dot_product.o),
            bounds.target.eq(label << run.label_shift),
            *each(bounds.levels, pipeline.levels.late_dot),
            *each(bounds.words, path.store.slot_words),
            solver.refetching.eq(run.cell_half_levels != 0),
            solver.undecided.eq(bounds.undecided), solver.dot_margin.eq(bounds.dot_margin),
            solver.lookahead_margin.eq(margin),
            solver.replay_alone.eq(sequencer.replay_alone), solver.discard.eq(sequencer.discard),
        ]

    def _lookahead_margin(self, m, pipeline, step):
        """Bound of what the updates that the model has not met yet add to it: K of the epoch,
        rounded up by any dither, for each. No row's own K is larger.
        """
        margin = Signal(LOOKAHEAD_MARGIN_WIDTH, reset_less=True)
        bound = (step.value[STEP_FRACTION:] + 1) * pipeline.run.lookahead_margin
        if not self.config.row_weights:
            m.d.sync += margin.eq(bound)
            return margin
        # The rows' own K may fit where that of the epoch does not: then every row is left open.
        known = delay(m, pipeline.start, 1 + step.latency, name="step_known")
        with m.If(known):
            m.d.sync += margin.eq(Mux(step.too_large, C(-1, LOOKAHEAD_MARGIN_WIDTH), bound))
        return margin


def extras_of(config):
    """Return the extras of a pipeline, in the order in which they are connected; the first has the
    words that dot products meet.
    """
    stages = config.stages
    corrections = CorrectionsWithConstants if stages.has_constants else Corrections
    wanted = [(RoundedUpdates, stages.solver.rounding), (Centres, config.rows.centred),
              (corrections, stages.corrections), (FullPasses, stages.full_passes),
              (ProximalSteps, stages.proximal), (Refetching, stages.refetching)]
    words = RoundedWords if stages.rounding else StoredWords
    return [words(config), *(extra(config) for extra, stage in wanted if stage)]
