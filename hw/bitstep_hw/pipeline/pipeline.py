"""The SGD pipeline: rows and labels in, an updated model in the store."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring

from bitstep.pipeline.parts.formats import FLOAT_GUARD
from bitstep_hw.parts.arithmetic import delay, each
from bitstep_hw.parts.dither import Dither
from bitstep_hw.parts.row_dithers import RowDithers
from bitstep_hw.parts.run import labels_of, row_shape
from bitstep_hw.pipeline.extras import extras_of
from bitstep_hw.pipeline.frame import PipelineFrame
from bitstep_hw.pipeline.model_path import connect_selected, paths_of
from bitstep_hw.pipeline.products.correlator import Correlator
from bitstep_hw.pipeline.rows.between_batches import between_batches
from bitstep_hw.pipeline.rows.inputs import RowInputs
from bitstep_hw.pipeline.rows.levels import Levels
from bitstep_hw.pipeline.rows.sequencer import Sequencer


class Pipeline(PipelineFrame):
    """One epoch of sequential mini-batch SGD at line rate (docs/pipeline.md).

    Golden model: :func:`bitstep.golden.sgd.train`. Latency from a row's last beat to the first
    beat that may apply it is ``config.latency`` cycles.

    Parameters
    ----------
    config : PipelineConfig
        The choices that this pipeline is made from.

    Members
    -------
    fine_job : Out(stream.Signature(JOB_LAYOUT)), i_fine : In(stream.Signature(64))
        With ``refetch``: the fine row that is wanted, and its beats.
    hold_rows : In(1), derivative_valid : Out(1), derivative : Out(32)
        With ``full_passes``: no row with data goes on; in a run that writes derivatives a
        strobe, and the label that holds that of the next row.
    run, steps, start, done, ...
        Those of :class:`bitstep_hw.pipeline.frame.PipelineFrame`.
    """

    def __init__(self, *, config):
        self.inputs = RowInputs(config=config)
        self.sequencer = Sequencer(config=config)
        self.levels = Levels(config=config)
        self.correlator = Correlator(config=config)
        self.dither = RowDithers(cycles=config.stages.dot.cycles) \
            if config.clock.every_cycle else Dither(config=config)
        self.paths = paths_of(config)
        self.extras = extras_of(config)
        super().__init__(config, labels=row_shape(config), more={
            name: port for extra in self.extras for name, port in extra.ports.items()})

    def extra(self, kind):
        """The extra of a kind, which is there."""
        return next(extra for extra in self.extras if isinstance(extra, kind))

    def elaborate(self, platform):
        m = Module()
        first, *others = self.paths
        m.submodules.inputs = self.inputs
        m.submodules.sequencer = self.sequencer
        m.submodules.levels = self.levels
        first.place(m, "updates", "store")
        m.submodules.port = self.port
        m.submodules.correlator = self.correlator
        first.place(m, "dot_product", "solver", "derivative_step")
        m.submodules.dither = self.dither
        for path in others:
            path.place(m, "updates", "store", "dot_product", "solver", "derivative_step")
        slots = self._sequence(m)
        dotted = slots[-1]      # beside the words that the store gives
        self._connect_levels(m, slots)
        self._connect_model(m, slots)
        self._connect_products(m, slots[2], dotted)
        self._connect_solvers(m, dotted)
        for extra in self.extras:
            extra.connect(m, self, slots)
        m.d.comb += self.overflowed.eq(Cat(flag for path in self.paths
                                          for flag in path.overflowed()))
        return m

    def _sequence(self, m):
        """Rows and labels to slots; returns the slots as they were 0, 1, 2, ... cycles ago."""
        sequencer, inputs, run = self.sequencer, self.inputs, self.run
        self.ahead = run.lookahead
        if self.config.batch_lookahead:
            self.idle_rows, self.ahead = between_batches(
                m, self.config, beats=run.beats_per_row, lookahead=run.lookahead)
            m.d.comb += [sequencer.idle_rows.eq(self.idle_rows), sequencer.ahead.eq(self.ahead)]
        wiring.connect(m, wiring.flipped(self.i_rows), inputs.i_rows)
        wiring.connect(m, wiring.flipped(self.i_labels), inputs.i_labels)
        wiring.connect(m, inputs.o_rows, sequencer.i_rows)
        for extra in self.extras:
            extra.connect_sequencer(m, self)
        wiring.connect(m, inputs.o_labels, sequencer.i_labels)
        m.d.comb += [
            inputs.start.eq(self.start), inputs.stop.eq(self.stop),
            inputs.beats.eq(run.beats_per_row), inputs.release.eq(sequencer.decided),
            inputs.rewind.eq(sequencer.rewind), sequencer.rows.eq(run.rows),
            sequencer.beats.eq(run.beats_per_row), sequencer.batch.eq(run.batch),
            sequencer.lookahead.eq(run.lookahead), sequencer.period.eq(run.correction_period),
            sequencer.proximal_period.eq(run.proximal_period), sequencer.stop.eq(self.stop),
            sequencer.start.eq(delay(m, self.start, self.config.stages.start_delay,
                                     name="started")),
            self.done.eq(sequencer.done), self.misaligned.eq(sequencer.misaligned),
            self.waits.eq(Cat(sequencer.wait_rows, sequencer.wait_labels, sequencer.wait_lookahead,
                              sequencer.wait_recursion, sequencer.wait_correction,
                              sequencer.wait_refetch, sequencer.flushing)),
            self.beat_entered.eq(self.i_rows.valid & self.i_rows.ready),
        ]
        slots = [sequencer.slot]
        for stage in range(1, self.config.stages.store.words + 1):
            slots.append(Signal.like(sequencer.slot, name=f"slot_{stage}"))
            m.d.sync += slots[-1].eq(slots[-2])
        return slots

    def _connect_levels(self, m, slots):
        levels = self.levels
        m.d.comb += [
            levels.beat.eq(self.sequencer.beat), *each(levels.slots, slots[:-1]),
            levels.last_lanes.eq(self.run.last_lanes), levels.lookahead.eq(self.run.lookahead),
        ]
        if self.config.clock.every_cycle:
            m.d.comb += levels.start.eq(self.start)
        if self.config.batch_lookahead:
            m.d.comb += [levels.beats.eq(self.run.beats_per_row),
                         levels.idle_rows.eq(self.idle_rows)]

    def _connect_model(self, m, slots):
        """The models, their updates, and their way in and out."""
        self.connect_streams(m)
        for path in self.paths:
            path.connect_words(m, self.port)
            path.connect_model(m, self, slots)
        if len(self.paths) > 1:
            connect_selected(m, self.paths, self.port)
        self.connect_selection(m)
        self.connect_commands(m, beats=self.run.beats_per_row)

    def _connect_products(self, m, slot, dotted):
        """Products with the rows before and with the models."""
        correlator, levels = self.correlator, self.levels
        # What the intercept's 1 counts in a dot product, and in a product of two rows.
        level = Signal(FLOAT_GUARD + 1)
        square = Signal.like(correlator.intercept_square)
        one = self.run.intercept_level[:self.config.rows.intercept_width]
        m.d.comb += level.eq(one << self.config.rows.dot_fraction)
        m.d.sync += square.eq(one * level)
        m.d.comb += [
            correlator.valid.eq(slot.valid), correlator.first.eq(slot.first),
            correlator.last.eq(slot.last), correlator.skip.eq(slot.skip),
            correlator.lookahead.eq(self.ahead), correlator.intercept_square.eq(square),
            *each(correlator.dot, levels.dot),
        ]
        previous = levels.previous[:self.config.stages.solver.correlated_rows]
        for target, source in zip(correlator.previous_levels, previous, strict=True):
            m.d.comb += each(target, source)
        words, *_ = self.extras
        for path in self.paths:
            path.connect_dot_product(m, self, dotted, level)
            words.connect_words(m, path)

    def _connect_solvers(self, m, dotted):
        """Solvers, and the dither that all models have in common."""
        entered = self.config.stages.solver_entry
        row = self.sequencer.label
        label = delay(m, labels_of(self.config, row), entered, name="label")
        labels = [label] if len(self.paths) == 1 else list(label)
        for path, own, steps, shift in zip(self.paths, labels, self.all_steps, self.label_shifts,
                                           strict=True):
            path.connect_solver(m, self, dotted, own, steps, shift, row)
        m.d.comb += [self.dither.key.eq(self.steps.key), self.dither.restart.eq(self.start),
                     self.dither.row.eq(self.sequencer.i_labels.ready)
                     if isinstance(self.dither, RowDithers)
                     else self.dither.take.eq(self.paths[0].solver.take)]
