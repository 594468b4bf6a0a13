"""The SGD pipeline: rows and labels in, an updated model in the store."""

from amaranth import C, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.formats import FLOAT_GUARD
from bitstep.pipeline.parts.widths import AUX_WIDTH, LABEL_WIDTH, LOOKAHEAD_MARGIN_WIDTH
from bitstep_hw.axi.buses import JOB_LAYOUT
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.parts.dither import Dither
from bitstep_hw.parts.run import EpochSteps, RunRegisters, label_shape
from bitstep_hw.pipeline.model.port import ModelPort
from bitstep_hw.pipeline.model.refetcher import Refetcher
from bitstep_hw.pipeline.model.words import lend
from bitstep_hw.pipeline.model_path import ModelPath, connect_selected, each
from bitstep_hw.pipeline.products.cell_bounds import CellBounds
from bitstep_hw.pipeline.products.correlator import Correlator
from bitstep_hw.pipeline.rows.inputs import RowInputs
from bitstep_hw.pipeline.rows.levels import Levels
from bitstep_hw.pipeline.rows.sequencer import Sequencer


class Pipeline(wiring.Component):
    """One epoch of sequential mini-batch SGD at line rate (docs/pipeline.md).

    Golden model: :func:`bitstep.golden.sgd.train`. Latency from a row's last beat to the first
    beat that may apply it is ``config.latency`` cycles.

    Parameters
    ----------
    config : PipelineConfig
        The choices that this pipeline is made from.

    Members
    -------
    run : In(RunRegisters), steps : In(EpochSteps)
        Numbers of the run and of the epoch.
    start : In(1), done : Out(1)
        Strobes around an epoch.
    stop : In(1)
        Ends an epoch early; hold it for ``config.latency`` cycles before the next one.
    misaligned : Out(1), waits : Out(7)
        From the sequencer: a period that is no multiple of the batch; the reason why no row entered
        (rows, labels, look-ahead, recursion, correction, refetch, flush), bit 0 first.
    beat_entered, row_refetched : Out(1)
        Strobes: a beat of a row entered; a row is fetched again.
    clear, load, load_coefficients, unload : In(1), model_done : Out(1)
        Commands between epochs, and the strobe that one has ended, as those of
        :class:`bitstep_hw.pipeline.model.port.ModelPort`.
    i_model : In(stream.Signature(64)), o_model : Out(stream.Signature(64))
        Models and coefficients in, models out.
    fine_job : Out(stream.Signature(JOB_LAYOUT)), i_fine : In(stream.Signature(64))
        With ``refetch``: the fine row that is wanted, and its beats.
    i_rows : In(stream.Signature(beat_width)), i_labels : In(stream.Signature(signed(32)))
        The epoch's rows and labels.
    saturated : Out(3 * models)
        Strobes, three for each model, as :class:`bitstep.pipeline.registers.Saturation`.
    hold_rows : In(1), derivative_valid : Out(1), derivative : Out(32)
        With ``full_passes``: no row with data goes on; in a run that writes derivatives a
        strobe, and the label that holds that of the next row.
    model : In, saturation : In(3 * models), more_steps : In(EpochSteps()).array(models - 1)
        With more than one model: the one that the next load or unload is for, the flags of all, and
        the epoch's numbers of all but the first.
    """

    def __init__(self, *, config):
        self.config = config
        self.inputs = RowInputs(config=config)
        self.sequencer = Sequencer(config=config)
        self.levels = Levels(config=config)
        self.port = ModelPort(config=config)
        self.correlator = Correlator(config=config)
        self.dither = Dither(config=config)
        self.paths = [ModelPath(config, number) for number in range(config.models)]
        fine = {"fine_job": Out(stream.Signature(JOB_LAYOUT)),
                "i_fine": In(stream.Signature(AUX_WIDTH))}
        super().__init__({
            "run": In(RunRegisters()), "steps": In(EpochSteps()),
            "start": In(1), "stop": In(1), "done": Out(1),
            "i_rows": In(stream.Signature(config.rows.beat_width)),
            "i_labels": In(stream.Signature(label_shape(config.models))),
            "saturated": Out(3 * config.models), "misaligned": Out(1), "waits": Out(7),
            "beat_entered": Out(1), "row_refetched": Out(1),
            "clear": In(1), "load": In(1), "load_coefficients": In(1), "unload": In(1),
            "model_done": Out(1),
            "i_model": In(stream.Signature(AUX_WIDTH)), "o_model": Out(stream.Signature(AUX_WIDTH)),
            **(fine if config.refetch else {}),
            **({"hold_rows": In(1), "derivative_valid": Out(1), "derivative": Out(LABEL_WIDTH)}
               if config.stages.full_passes else {}),
            **({"model": In(range(config.models)), "saturation": In(3 * config.models),
                "more_steps": In(EpochSteps()).array(config.models - 1)}
               if config.models > 1 else {}),
        })

    def elaborate(self, platform):
        m = Module()
        first = self.paths[0]
        for names in (("inputs", "sequencer", "levels"), ("updates", "store"),
                      ("port", "correlator"), ("dot_product", "solver", "derivative_step"),
                      ("dither",)):
            for name in names:
                if hasattr(self, name):
                    m.submodules[name] = getattr(self, name)
                else:
                    first.place(m, [name])
        for path in self.paths[1:]:
            path.place(m, ["updates", "store", "dot_product", "solver", "derivative_step"])
        slots = self._sequence(m)
        dotted = slots[-1]      # beside the words that the store gives
        self._connect_levels(m, slots)
        self._connect_model(m, slots)
        self._connect_products(m, slots[2], dotted)
        self._connect_solvers(m, dotted)
        if self.config.model_bits:
            first.place(m, ["rounded"])
            first.round_model(m, self, slots)
        else:
            m.d.comb += self.sequencer.batch_ready.eq(self.sequencer.batch_starts)
        if self.config.corrections:
            self._connect_engines(m, slots)
        if self.config.stages.full_passes:
            first.place(m, ["update_sum"])
            first.connect_sums(m, self)
        if self.config.proximal:
            self._take_proximal_steps(m)
        rewritten = self._refetch(m, dotted) if self.config.refetch else C(0)
        m.d.comb += self.saturated.eq(Cat(flag for path in self.paths
                                          for flag in path.saturated(self, rewritten)))
        return m

    @property
    def _all_steps(self):
        """Numbers of the epoch, of every model."""
        return [self.steps, *(self.more_steps if self.config.models > 1 else ())]

    def _sequence(self, m):
        """Rows and labels to slots; returns the slots as they were 0, 1, 2, ... cycles ago."""
        sequencer, inputs, run = self.sequencer, self.inputs, self.run
        wiring.connect(m, wiring.flipped(self.i_rows), inputs.i_rows)
        wiring.connect(m, wiring.flipped(self.i_labels), inputs.i_labels)
        wiring.connect(m, inputs.o_rows, sequencer.i_rows)
        if self.config.stages.full_passes:
            m.d.comb += sequencer.hold_rows.eq(self.hold_rows)
        if self.config.stages.solver.fine:
            m.d.comb += sequencer.fine.eq(run.gradient & ~run.derivatives)
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

    def _connect_model(self, m, slots):
        """The models, their updates, and their way in and out."""
        port = self.port
        wiring.connect(m, wiring.flipped(self.i_model), port.i)
        wiring.connect(m, port.o, wiring.flipped(self.o_model))
        for path in self.paths:
            path.connect_words(m, port)
            path.connect_model(m, self, slots)
        if self.config.models > 1:
            connect_selected(m, self.paths, port)
            m.d.comb += [port.model.eq(self.model),
                         port.flags.eq(self.saturation.word_select(port.selected, 3))]
        m.d.comb += [
            port.beats.eq(self.run.beats_per_row), port.stop.eq(self.stop),
            port.clear.eq(self.clear), port.load.eq(self.load),
            port.load_coefficients.eq(self.load_coefficients), port.unload.eq(self.unload),
            self.model_done.eq(port.done),
        ]

    def _connect_products(self, m, slot, dotted):
        """Products with the rows before and with the models."""
        correlator, levels = self.correlator, self.levels
        # What the intercept's 1 counts in a dot product, and in a product of two rows.
        level, square = Signal(FLOAT_GUARD + 1), Signal.like(correlator.intercept_square)
        one = self.run.intercept_level[:self.config.rows.intercept_width]
        m.d.comb += level.eq(one << (FLOAT_GUARD if self.config.row_format == "float32" else 0))
        m.d.sync += square.eq(one * level)
        m.d.comb += [
            correlator.valid.eq(slot.valid), correlator.first.eq(slot.first),
            correlator.last.eq(slot.last), correlator.skip.eq(slot.skip),
            correlator.lookahead.eq(self.run.lookahead), correlator.intercept_square.eq(square),
            *each(correlator.dot, levels.dot),
        ]
        previous = levels.previous[:self.config.stages.solver.correlated_rows]
        for target, source in zip(correlator.previous_levels, previous, strict=True):
            m.d.comb += each(target, source)
        for path in self.paths:
            path.connect_dot_product(m, self, dotted, level)

    def _connect_solvers(self, m, dotted):
        """Solvers, and the dither that all models have in common."""
        stages = self.config.stages
        entered = stages.dot.cycles - stages.solver.lead        # cycles from a slot
        label = delay(m, self.sequencer.label, entered, name="label")
        labels = [label] if self.config.models == 1 else list(label)
        for path, own, steps in zip(self.paths, labels, self._all_steps, strict=True):
            path.connect_solver(m, self, dotted, own, steps)
        m.d.comb += [self.dither.key.eq(self.steps.key), self.dither.restart.eq(self.start),
                     self.dither.take.eq(self.paths[0].solver.take)]

    def _connect_engines(self, m, slots):
        """Corrections; all engines are ready in the same cycle."""
        for path, steps in zip(self.paths, self._all_steps, strict=True):
            path.place(m, ["engine"])
            path.connect_engine(m, self, slots, steps)
        m.d.comb += self.sequencer.corrected.eq(self.paths[0].engine.done)

    def _take_proximal_steps(self, m):
        """Proximal steps; all of them take as long."""
        for path, steps in zip(self.paths, self._all_steps, strict=True):
            path.place(m, ["proximal"])
            path.take_proximal_steps(m, self, steps)
        m.d.comb += self.sequencer.proximal_done.eq(self.paths[0].proximal.done)

    def _refetch(self, m, dotted):
        """Refetch rows that their codes do not decide. With look-ahead the codes are judged by a
        bound for every model that the updates in flight may make; a row that this leaves open
        comes again alone. Nothing else moves while a fine row is applied. Returns the strobe
        that such a row has left the range.
        """
        sequencer, run, (path,) = self.sequencer, self.run, self.paths
        solver = path.solver
        self._judge_codes(m, dotted)
        m.submodules.refetcher = refetcher = Refetcher(config=self.config)
        wiring.connect(m, refetcher.job, wiring.flipped(self.fine_job))
        wiring.connect(m, wiring.flipped(self.i_fine), refetcher.i)
        # Decided rows of the epoch: the row that a replay begins with.
        decided = Signal(32)
        with m.If(sequencer.decided):
            m.d.sync += decided.eq(decided + 1)
        with m.If(self.start):
            m.d.sync += decided.eq(0)
        with m.Elif(sequencer.replay):
            m.d.comb += [self.dither.restart.eq(1), self.dither.row.eq(decided)]
        m.d.comb += [
            sequencer.decided.eq(solver.o_decided | refetcher.done),
            sequencer.replay.eq(solver.o_replay), self.row_refetched.eq(solver.o_undecided),
            sequencer.hold.eq(solver.o_undecided | refetcher.busy),
            refetcher.derivative_step.eq(solver.o_derivative_step),
            refetcher.start.eq(solver.o_undecided), refetcher.stop.eq(self.stop),
            refetcher.positive.eq(solver.o_positive), refetcher.epoch_start.eq(self.start),
            refetcher.row_passed.eq(sequencer.decided), refetcher.label_shift.eq(run.label_shift),
            refetcher.address.eq(run.fine_address),
            refetcher.intercept_level.eq(run.intercept_level),
            refetcher.beats.eq(run.beats_per_row), refetcher.last_lanes.eq(run.last_lanes),
        ]
        lend(m, path.store.words, refetcher)
        return refetcher.saturated

    def _judge_codes(self, m, dotted):
        """Bounds that tell whether a row's codes decide it, into the solver."""
        sequencer, run, (path,) = self.sequencer, self.run, self.paths
        solver = path.solver
        m.submodules.bounds = bounds = CellBounds(config=self.config)
        label = delay(m, sequencer.label, self.config.stages.dot.cycles, name="bounds_label")
        margin = Signal(LOOKAHEAD_MARGIN_WIDTH, reset_less=True)
        # K, rounded up by any dither, for every update that the model has not met yet.
        rounded_down = path.derivative_step.value[STEP_FRACTION:]
        m.d.sync += margin.eq((rounded_down + 1) * run.lookahead_margin)
        m.d.comb += [
            bounds.valid.eq(dotted.valid), bounds.first.eq(dotted.first),
            bounds.last.eq(dotted.last), bounds.cell.eq(run.cell_half_levels),
            bounds.ends.eq(sequencer.replay_alone), bounds.dot.eq(path.dot_product.o),
            bounds.target.eq(label << run.label_shift),
            *each(bounds.levels, self.levels.late_dot),
            *each(bounds.words, path.store.slot_words),
            solver.refetching.eq(run.cell_half_levels != 0),
            solver.undecided.eq(bounds.undecided), solver.dot_margin.eq(bounds.dot_margin),
            solver.lookahead_margin.eq(margin),
            solver.replay_alone.eq(sequencer.replay_alone), solver.discard.eq(sequencer.discard),
        ]
