"""The pipeline for packed rows: rows and labels in, updated models in their memory."""

from typing import Any

from amaranth import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from bitstep.golden.steps import WEIGHT_TURN
from bitstep.pipeline.parts.widths import BOUND_WIDTH, MANTISSA_WIDTH, MAX_LABEL_SHIFT
from bitstep_hw.packed.dots import RowDistances
from bitstep_hw.packed.sequencer import InterleavingSequencer
from bitstep_hw.packed.solvers import RowSolvers
from bitstep_hw.packed.sums import RowSums
from bitstep_hw.packed.words import PackedWords
from bitstep_hw.parts.arithmetic import delay, each
from bitstep_hw.parts.beat_dithers import BeatDithers
from bitstep_hw.parts.run import labels_of, row_shape
from bitstep_hw.pipeline.frame import PipelineFrame
from bitstep_hw.pipeline.model.corrections import CorrectionEngine
from bitstep_hw.pipeline.rows.decoder import decode
from bitstep_hw.pipeline.update.derivative_step import DerivativeStep
from bitstep_hw.pipeline.update.row_mantissa import row_mantissa

_DOT, _GRADIENT = 0, 1      # samples of a code


class PackedPipeline(PipelineFrame):
    """One epoch of sequential mini-batch SGD on packed rows (docs/pipeline.md#packed-rows).

    In the place of :class:`bitstep_hw.pipeline.pipeline.Pipeline`, with the same frame, port of
    models, engine of corrections, decoder and derivative step. Rows of a beat would need as many
    dot products and solvers side by side there too, and nothing of its look-ahead. Golden model:
    :func:`bitstep.golden.sgd.train`. Latency from a slot to the first one that may see its update
    is ``config.latency`` cycles; a slot a cycle.

    Parameters
    ----------
    config : PipelineConfig
        The choices that this pipeline is made from.

    Members
    -------
    models : In(5)
        With more than one model: as the register MODELS.
    i_labels : In(stream.Signature(row_shape))
        Labels of a beat, those of a row side by side, and with ``row_weights`` its weights.
    run, steps, start, done, ...
        Those of :class:`bitstep_hw.pipeline.frame.PipelineFrame`; ``start`` and ``unload`` are
        at least 2 cycles after the end of a command.
    """

    def __init__(self, *, config):
        self.sequencer = InterleavingSequencer(config=config)
        self.dithers = BeatDithers(rows_per_beat=config.rows.rows_per_beat)
        self.words = PackedWords(config=config)
        self.distances = RowDistances(config=config)
        # Of the slot's model; with weights, of each of its rows.
        self.steps_of_rows = [DerivativeStep(bound_width=0) for _ in range(
            config.rows.rows_per_beat if config.row_weights else 1)]
        self.solvers = RowSolvers(config=config)
        self.sums = RowSums(config=config)
        self.engine: Any = CorrectionEngine(config=config) \
            if config.stages.corrections else None
        super().__init__(config, labels=row_shape(config), more={"models": In(5)})

    def elaborate(self, platform):
        m = Module()
        for name in ("sequencer", "dithers", "words", "port", "distances"):
            m.submodules[name] = getattr(self, name)
        for row, step in enumerate(self.steps_of_rows):
            m.submodules["step" + (f"_{row}" if row else "")] = step
        m.submodules.solvers = self.solvers
        m.submodules.sums = self.sums
        self._sequence(m)
        self._connect_port(m)
        chosen = self._steps_of_slot(m)
        steps = self._after(m, chosen, self.config.stages.store.words - 1, "slot_step")
        self._measure(m, steps)
        self._solve(m, chosen, steps)
        self._change(m)
        if self.config.corrections:
            m.submodules.engine = self.engine
            self._connect_engine(m)
        return m

    def _after(self, m, value, cycles, name):
        """What belongs to a slot, so many cycles after it."""
        return delay(m, value, cycles, name=name)

    def _sequence(self, m):
        """Rows, labels and dithers to slots."""
        sequencer, run = self.sequencer, self.run
        wiring.connect(m, wiring.flipped(self.i_rows), sequencer.i_rows)
        wiring.connect(m, wiring.flipped(self.i_labels), sequencer.i_labels)
        wiring.connect(m, self.dithers.o, sequencer.i_dithers)
        m.d.comb += [
            sequencer.rows.eq(run.rows), sequencer.batch.eq(run.batch),
            sequencer.stop.eq(self.stop),
            sequencer.period.eq(run.correction_period), self.misaligned.eq(sequencer.misaligned),
            sequencer.models.eq(self.models if self.has_more_models else 1),
            sequencer.start.eq(delay(m, self.start, self.config.stages.start_delay,
                                     name="started")),
            self.dithers.key.eq(self.steps.key), self.dithers.restart.eq(self.start),
            self.done.eq(sequencer.done), self.beat_entered.eq(sequencer.entered),
            self.waits.eq(Cat(sequencer.wait_rows, sequencer.wait_labels, sequencer.wait_update,
                              C(0, 1),
                              sequencer.wait_correction, C(0, 1), sequencer.flushing)),
        ]

    def _connect_port(self, m):
        """The models, on their way in and out."""
        port, words = self.port, self.words
        self.connect_streams(m)
        wiring.connect(m, port.words, words.words)
        self.connect_commands(m, beats=1)
        m.d.comb += words.slot.eq(self.sequencer.slot)
        if self.has_more_models:
            m.d.comb += words.selected.eq(port.selected)
        self.connect_selection(m)

    def _steps_of_slot(self, m):
        """The step of the slot's model, a cycle after the slot."""
        layout = data.StructLayout({
            "mantissa": self.steps.mantissa.shape(), "shift": self.steps.shift.shape(),
            "label_shift": self.steps.label_shift.shape()})
        steps = Signal(layout, reset_less=True, name="slot_step")
        with m.Switch(self.sequencer.slot.model):
            for number, (entry, label_shift) in enumerate(
                    zip(self.all_steps, self.label_shifts, strict=True)):
                with m.Case(number):
                    m.d.sync += [steps.mantissa.eq(entry.mantissa), steps.shift.eq(entry.shift),
                                 steps.label_shift.eq(label_shift)]
        return steps

    def _labels(self):
        """Labels of the beat's rows, of the slot's model."""
        models, labels = self.config.models, labels_of(self.config, self.sequencer.labels)
        if self.config.rows.label_rows * models == 1:
            return [labels]
        per_row = [[labels[row * models + model] for model in range(models)]
                   for row in range(self.config.rows.rows_per_beat)]
        return [data.ArrayLayout(of_row[0].shape(), models)(Cat(*of_row))[self.sequencer.slot.model]
                for of_row in per_row]

    def _measure(self, m, steps):
        """Distances of the rows to their labels."""
        distances, words, stages = self.distances, self.words, self.config.stages.store.words
        m.d.comb += [
            distances.valid.eq(self._after(m, self.sequencer.slot.valid, stages, "entered")),
            distances.intercept.eq(words.intercept),
            distances.intercept_level.eq(self.run.intercept_level),
            distances.label_shift.eq(steps.label_shift),
            *each(distances.words, words.o),
        ]
        self._decode(m, self._after(m, self.sequencer.beat, stages - 1, "dot_beat"),
                     distances.levels,
                     _DOT)
        for row, (to, label) in enumerate(zip(distances.labels, self._labels(), strict=True)):
            m.d.comb += to.eq(self._after(m, label, stages, f"label_{row}"))

    def _decode(self, m, beat, levels, sample):
        """Drive ``levels`` with those of the rows of a beat, a cycle later."""
        config = self.config
        used = Signal(config.rows.lanes, name=f"used_{sample}", reset_less=True)
        m.d.sync += used.eq(Cat(self.run.last_lanes > lane for lane in range(config.rows.lanes)))
        for row in range(config.rows.rows_per_beat):
            for lane in range(config.rows.lanes):
                place = (row * config.rows.lanes + lane) * config.bits
                level = decode(beat[place:place + config.bits], bits=config.bits,
                               row_format=config.row_format, sample=sample)
                if not config.rows.has_zero_code:
                    level = Mux(used[lane], level, 0)
                register = Signal(levels[row][lane].shape(), reset_less=True,
                                  name=f"level_{sample}_{row}_{lane}")
                m.d.sync += register.eq(level)
                m.d.comb += levels[row][lane].eq(register)

    def _solve(self, m, chosen, steps):
        """Updates of the rows, from the cycle of their distances on; ``chosen``: the slot's step a
        cycle after it, ``steps``: when its words are multiplied.
        """
        solvers, slot = self.solvers, self.sequencer.slot
        measured = self.config.stages.dot.cycles       # cycles from a slot to its distances
        since = measured - self.config.stages.store.words      # and from its step
        signs = Cat(Value.cast(label)[-1] for label in self._labels())
        bound = Signal.like(solvers.bound)
        scaled = Signal(BOUND_WIDTH + MAX_LABEL_SHIFT)
        m.d.comb += scaled.eq(self.run.derivative_bound << steps.label_shift)
        m.d.sync += bound.eq(Mux(scaled[len(bound):].any(), ~0, scaled[:len(bound)]))
        m.d.comb += [
            solvers.bound.eq(self._after(m, bound, since - 1, "bound")),
            solvers.valid.eq(self._after(m, slot.valid, measured, "measured")),
            solvers.rows.eq(self._after(m, slot.rows, measured, "measured_rows")),
            solvers.positive.eq(~self._after(m, signs, measured, "negative")),
            solvers.dithers.eq(self._after(m, self.sequencer.dithers, measured - 1, "dithers")),
            *self._scale(m, chosen, steps, since),
            solvers.loss.eq(self.run.loss),
            *each(solvers.distances, self.distances.o),
        ]

    def _scale(self, m, chosen, steps, since):
        """Statements that give the solvers what they scale rows by; ``since``: cycles from
        ``steps`` to the distances.
        """
        solvers, latency = self.solvers, self.steps_of_rows[0].latency
        wait = self.config.stages.dot.cycles - 1 - latency      # in all, for largest derivatives
        if not self.config.row_weights:
            (step,) = self.steps_of_rows
            self._connect_step(m, step, chosen.mantissa, chosen.shift, chosen.label_shift)
            return [
                solvers.mantissa.eq(self._after(m, steps.mantissa, since, "mantissa")),
                solvers.shift.eq(self._after(m, steps.shift, since - 1, "shift")),
                solvers.derivative_step.eq(self._after(m, step.value, wait, "derivative_step")),
                solvers.step_too_large.eq(
                    self._after(m, step.too_large, wait, "step_too_large")),
            ]
        statements = [solvers.shift.eq(self._after(m, steps.shift, since - 1, "shift"))]
        shift = self._after(m, chosen.shift, wait, "late_shift")
        label_shift = self._after(m, chosen.label_shift, wait, "late_label_shift")
        for row, (step, own) in enumerate(zip(self.steps_of_rows, self._own_mantissas(m),
                                              strict=True)):
            mantissa = self._after(m, own, wait, f"own_{row}")  # 18 bits, where K has 47
            self._connect_step(m, step, mantissa, shift, label_shift)
            statements += [
                solvers.mantissa[row].eq(self._after(m, mantissa, latency, f"mantissa_{row}")),
                solvers.derivative_step[row].eq(step.value),
                solvers.step_too_large[row].eq(step.too_large),
            ]
        return statements

    def _connect_step(self, m, step, mantissa, shift, label_shift):
        """Inputs of a largest derivative."""
        m.d.comb += [step.factor.eq(self.run.derivative_bound), step.mantissa.eq(mantissa),
                     step.shift.eq(shift), step.label_shift.eq(label_shift)]

    def _own_mantissas(self, m):
        """Mantissas of the beat's rows by their weights, a cycle after the slot, as the step of its
        model is there. So the mantissa that they are made of is chosen a cycle earlier.
        """
        beat, mantissa = self.sequencer.labels, self.steps.mantissa
        if self.has_more_models:
            mantissa = Signal.like(mantissa, name="next_mantissa", reset_less=True)
            with m.Switch(self.sequencer.next_model):
                for number, entry in enumerate(self.all_steps):
                    with m.Case(number):
                        m.d.sync += mantissa.eq(entry.mantissa)
        kept, found = self._after(m, mantissa, 1, "slot_mantissa"), []
        for row in range(self.config.rows.rows_per_beat):
            own = Signal(MANTISSA_WIDTH, name=f"own_{row}")
            m.d.comb += own.eq(row_mantissa(
                m, self.run.weighted, self.steps.key, mantissa=mantissa, kept=kept,
                weight=beat.weight if self.config.rows.label_rows == 1 else beat.weight[row],
                place=beat.place + WEIGHT_TURN * row, stages=1,
                name=lambda name, row=row: f"{name}_{row}"))
            found.append(own)
        return found

    def _change(self, m):
        """Changes of the model, and the flags of what left its range."""
        sums, words, slot = self.sums, self.words, self.sequencer.slot
        solved = self.config.stages.dot.cycles + 2
        changed = solved + 1 + self.config.stages.store.sum
        m.d.comb += [
            sums.valid.eq(self._after(m, slot.valid, solved, "solved")),
            sums.intercept_level.eq(self.run.intercept_level),
            *each(sums.updates, self.solvers.o),
            words.change.eq(self._after(m, slot.valid, changed, "changed")),
            words.model.eq(self._after(m, slot.model, changed, "changed_model")),
        ]
        for targets, sources in zip(words.changes, sums.o, strict=True):
            m.d.comb += each(targets, sources)
        self._decode(m, self._after(m, self.sequencer.beat, solved - 1, "beat"), sums.levels,
                     _GRADIENT)
        solved_model = self._after(m, slot.model, solved, "solved_model")
        for number in range(self.config.models):
            m.d.comb += self.overflowed[3 * number:3 * number + 3].eq(Cat(
                self.solvers.overflowed & (solved_model == number),
                words.overflowed & (words.overflowed_model == number),
                self.engine.overflowed & (self.engine.overflowed_beat == number)
                if self.config.corrections else C(0)))

    def _connect_engine(self, m):
        """Corrections, of which each model has its own step: to the engine a model is a beat."""
        engine, port, slot, words = self.engine, self.port, self.sequencer.slot, self.words
        model = self.model if self.has_more_models else C(0)
        last = Cat(slot.model) == self.sequencer.models - 1
        m.d.comb += [
            engine.slot.valid.eq(slot.valid), engine.slot.index.eq(slot.model),
            engine.slot.last.eq(last), engine.slot.correct.eq(slot.correct),
            engine.slot.sample.eq(slot.sample), words.pending.eq(engine.correction),
            engine.sampled.eq(words.sampled), engine.beats.eq(self.sequencer.models),
            # The coefficients of all models come one after the other.
            engine.load_start.eq(port.load_coefficients & (model == 0)),
            engine.load.eq(port.coefficient), engine.load_i.eq(port.i.payload),
            engine.stop.eq(self.stop), self.sequencer.corrected.eq(engine.done),
        ]
        shift = Signal.like(engine.shift)
        with m.Switch(engine.walked):
            for number, entry in enumerate(self.all_steps):
                with m.Case(number):
                    m.d.sync += [engine.mantissa.eq(entry.correction_mantissa),
                                 shift.eq(entry.correction_shift)]
        m.d.comb += engine.shift.eq(self._after(m, shift, 2, "correction_shift"))
