"""The SGD pipeline: rows and labels in, an updated model in the store."""

from typing import NamedTuple

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.steps import UNIT_FRACTION
from bitstep.pipeline.config import (
    AUX_WIDTH,
    FLOAT_GUARD,
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_FEATURES,
    MAX_LABEL_SHIFT,
    MAX_LOOKAHEAD,
    MAX_REFETCH_CELL,
    MAX_SHIFT,
    MODEL_WIDTH,
    SLACK_WIDTH,
    UPDATE_WIDTH,
)
from bitstep.pipeline.registers import Loss
from bitstep_hw.axi.buses import JOB_LAYOUT
from bitstep_hw.parts.arithmetic import delay, enable_of, when
from bitstep_hw.parts.dither import KEY_WIDTH, Dither
from bitstep_hw.parts.stream_register import connect_registered
from bitstep_hw.pipeline.model.corrections import CorrectionEngine
from bitstep_hw.pipeline.model.proximal import Proximal
from bitstep_hw.pipeline.model.refetcher import Refetcher
from bitstep_hw.pipeline.model.store import ModelStore
from bitstep_hw.pipeline.products.cell_bounds import CellBounds
from bitstep_hw.pipeline.products.correlator import Correlator
from bitstep_hw.pipeline.products.dot_product import DotProduct
from bitstep_hw.pipeline.rows.decoder import Decoder
from bitstep_hw.pipeline.rows.delay_lines import DelayLines
from bitstep_hw.pipeline.rows.replay import Replay
from bitstep_hw.pipeline.rows.sequencer import Sequencer
from bitstep_hw.pipeline.update.linear_solver import LinearSolver
from bitstep_hw.pipeline.update.logistic_solver import LogisticSolver
from bitstep_hw.pipeline.update.unit_update import UnitUpdate

# What reaches the store's words between slots.
_ACCESS_INPUTS = ("access_index", "access_pair", "access_shown", "access_write",
                  "access_intercept", "access_clear", "access_i")


class _Levels(NamedTuple):
    """Levels of a slot, one a lane, each in the cycle in which it is used."""

    dot: list               # for the products with the rows before
    late_dot: list          # the same ones, beside the model's words
    earlier: list           # of the rows before, nearest first
    older: list             # of the row to apply


def _each(targets, sources):
    """Statements that connect one array with another."""
    return [target.eq(source) for target, source in zip(targets, sources, strict=True)]


class Pipeline(wiring.Component):
    """One epoch of sequential mini-batch SGD at line rate (docs/pipeline.md).

    Golden model: :func:`bitstep.golden.sgd.train`. Latency from a row's last beat to the first
    beat that may apply it is ``config.latency`` cycles.

    Members
    -------
    rows, beats, last_lanes, batch, lookahead, period, intercept_level, label_shift, loss,
    proximal_period, box_limit, refetch_cell, refetch_slack, full_address : In
        As the registers of these names; constant during an epoch.
    mantissa, shift, correction_mantissa, correction_shift, threshold, key : In
        The epoch's entry of the epoch table.
    start : In(1), done : Out(1)
        Strobes around an epoch.
    stop : In(1)
        Ends an epoch early; hold it for ``config.latency`` cycles before the next one.
    misaligned : Out(1), waits : Out(7)
        From the sequencer: a period that is no multiple of the batch; why no row entered (rows,
        labels, look-ahead, recursion, correction, refetch, flush), bit 0 first.
    beat_entered, row_refetched : Out(1)
        Strobes: a beat of a row entered; a row is fetched again.
    access_index, access_pair, access_shown, access_write, access_intercept, access_clear : In
    access_i : In(64), access_o : Out(64), access_late : Out(64)
        The model between epochs, as :class:`bitstep_hw.pipeline.model.store.ModelStore` gives it.
    full_job : Out(stream.Signature(JOB_LAYOUT)), i_full : In(stream.Signature(64))
        With ``refetch``: which row at full precision is wanted, and its beats.
    i_rows : In(stream.Signature(bus_width)), i_labels : In(stream.Signature(signed(32)))
        The epoch's rows and labels.
    saturated : Out(3)
        Strobes, bits as :class:`bitstep.pipeline.registers.Saturation`.
    """

    def __init__(self, *, config):
        self.config = config
        self.sequencer = Sequencer(config=config)
        self.store = ModelStore(config=config)
        self.correlator = Correlator(config=config)
        self.dot_product = DotProduct(config=config)
        solver = LogisticSolver if config.solver == "logistic" else LinearSolver
        self.solver = solver(config=config)
        self.unit_update = UnitUpdate()
        self.dither = Dither(config=config)
        self.engine = CorrectionEngine(config=config) if config.corrections else None
        full = {"full_job": Out(stream.Signature(JOB_LAYOUT)),
                "i_full": In(stream.Signature(AUX_WIDTH))}
        access = {name: self.store.signature.members[name]
                  for name in (*_ACCESS_INPUTS, "access_o", "access_late")}
        super().__init__({
            "rows": In(32), "beats": In(range(MAX_FEATURES + 1)), "last_lanes": In(10),
            "batch": In(32), "lookahead": In(range(MAX_LOOKAHEAD + 1)), "period": In(32),
            "intercept_level": In(8), "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
            "mantissa": In(MANTISSA_WIDTH), "shift": In(range(MAX_SHIFT + 1)),
            "correction_mantissa": In(MANTISSA_WIDTH),
            "correction_shift": In(range(MAX_SHIFT + 1)),
            "start": In(1), "stop": In(1), "done": Out(1),
            "i_rows": In(stream.Signature(config.bus_width)),
            "i_labels": In(stream.Signature(signed(LABEL_WIDTH))),
            "loss": In(Loss), "proximal_period": In(32), "threshold": In(MODEL_WIDTH - 1),
            "box_limit": In(MODEL_WIDTH - 1), "refetch_cell": In(range(MAX_REFETCH_CELL + 1)),
            "refetch_slack": In(32), "full_address": In(64), "key": In(KEY_WIDTH),
            "saturated": Out(3), "misaligned": Out(1), "waits": Out(7), "beat_entered": Out(1),
            "row_refetched": Out(1),
            **access, **(full if config.refetch else {}),
        })

    def elaborate(self, platform):
        m = Module()
        for name in ("sequencer", "store", "correlator", "dot_product", "solver", "unit_update",
                     "dither"):
            m.submodules[name] = getattr(self, name)
        slots = self._sequence(m)
        # Slots stand beside the words that the store gives when they enter the dot product.
        dotted = slots[4 + self.config.product_stages]
        levels = self._levels(m, slots)
        self._connect_store(m, slots, levels.older)
        self._connect_products(m, slots, dotted, levels)
        self._connect_solver(m, dotted)
        rewritten = Signal()                # a refetched row left the range
        m.d.comb += [self.saturated[0].eq(self.solver.saturated),
                     self.saturated[1].eq(self.store.saturated | rewritten)]
        if self.engine is not None:
            self._connect_engine(m, slots, self.engine)
        if self.config.proximal:
            self._proximal(m)
        if self.config.refetch:
            self._replay(m)
            self._refetch(m, dotted, levels.late_dot, rewritten)
        else:
            self._connect_streams(m)
        return m

    def _connect_streams(self, m):
        """Rows and labels; for a fast clock through registers."""
        # Labels beyond an epoch's last row are of no use; such rows there are none.
        for name, source, target, clear in (
                ("rows", self.i_rows, self.sequencer.i_rows, self.stop),
                ("labels", self.i_labels, self.sequencer.i_labels, self.stop | self.start)):
            connect_registered(m, name, wiring.flipped(source), target, clear=clear,
                               registered=self.config.fast_clock)

    def _sequence(self, m):
        """The sequencer, and its slots as they were some cycles ago."""
        sequencer = self.sequencer
        for name in ("rows", "beats", "batch", "lookahead", "period", "proximal_period", "stop"):
            m.d.comb += getattr(sequencer, name).eq(getattr(self, name))
        m.d.comb += [
            sequencer.start.eq(delay(m, self.start, self.config.start_delay, name="started")),
            self.done.eq(sequencer.done),
            self.misaligned.eq(sequencer.misaligned),
            self.waits.eq(Cat(sequencer.wait_rows, sequencer.wait_labels, sequencer.wait_lookahead,
                              sequencer.wait_recursion, sequencer.wait_correction,
                              sequencer.wait_refetch, sequencer.flushing)),
            self.beat_entered.eq(self.i_rows.valid & self.i_rows.ready),
        ]
        slots = [sequencer.slot]
        for stage in range(1, 5 + self.config.product_stages):
            slots.append(Signal.like(sequencer.slot, name=f"slot_{stage}"))
            m.d.sync += slots[-1].eq(slots[-2])
        return slots

    def _connect_store(self, m, slots, older):
        store = self.store
        m.d.comb += [
            store.slot.eq(slots[2]),
            store.update.eq(self._update(m, slots[1], self.solver)),
            store.intercept_level.eq(self.intercept_level),
            self.access_o.eq(store.access_o), self.access_late.eq(store.access_late),
            *(getattr(store, name).eq(getattr(self, name)) for name in _ACCESS_INPUTS),
            *_each(store.levels, older),
        ]

    def _connect_products(self, m, slots, dotted, levels):
        """Products with the rows before and with the model."""
        correlator, dot_product = self.correlator, self.dot_product
        # What the intercept's 1 counts in a dot product, and in a product of two rows.
        unit, square = Signal(FLOAT_GUARD + 1), Signal(FLOAT_GUARD + 1)
        fraction = FLOAT_GUARD if self.config.family == "float" else 0
        m.d.comb += unit.eq(self.intercept_level << fraction)
        m.d.sync += square.eq(self.intercept_level[:7] * unit)
        m.d.comb += [
            correlator.valid.eq(slots[2].valid), correlator.first.eq(slots[2].first),
            correlator.last.eq(slots[2].last), correlator.skip.eq(slots[2].skip),
            correlator.lookahead.eq(self.lookahead), correlator.intercept_square.eq(square),
            *_each(correlator.dot, levels.dot),
            dot_product.valid.eq(dotted.valid), dot_product.first.eq(dotted.first),
            dot_product.last.eq(dotted.last),
            dot_product.intercept.eq(self.store.intercept), dot_product.intercept_level.eq(unit),
            *_each(dot_product.levels, levels.late_dot),
            *_each(dot_product.words, self.store.words),
        ]
        for target, source in zip(correlator.previous_levels, levels.earlier, strict=True):
            m.d.comb += _each(target, source)

    def _connect_solver(self, m, dotted):
        solver, unit_update, config = self.solver, self.unit_update, self.config
        entered = config.dot_stages - config.solver_lead      # cycles from a slot
        since_dotted = entered - 4 - config.product_stages
        m.d.comb += [
            solver.clear.eq(self.start),
            solver.valid.eq(self.correlator.o_valid),
            solver.idle_row.eq(delay(m, dotted.idle_row, since_dotted, name="idle")),
            solver.label.eq(delay(m, self.sequencer.label, entered, name="label")),
            *_each(solver.products, self.correlator.products),
            solver.dot.eq(self.dot_product.o), solver.dither.eq(self.dither.o),
            self.dither.key.eq(self.key), self.dither.take.eq(solver.take),
            self.dither.restart.eq(self.start),
            solver.unit.eq(unit_update.unit), solver.unit_too_large.eq(unit_update.too_large),
        ]
        for name in ("mantissa", "shift", "label_shift"):
            m.d.comb += [getattr(part, name).eq(getattr(self, name))
                         for part in (solver, unit_update)]
        if config.solver == "linear":
            m.d.comb += solver.loss.eq(self.loss)

    def _connect_engine(self, m, slots, engine):
        m.submodules.engine = engine
        m.d.comb += [
            engine.slot.eq(slots[2 + self.config.product_stages - engine.answer]),
            engine.beats.eq(self.beats),
            engine.stop.eq(self.stop), engine.sampled.eq(self.store.sampled),
            engine.mantissa.eq(self.correction_mantissa), engine.shift.eq(self.correction_shift),
            self.store.correction.eq(engine.correction),
            self.sequencer.corrected.eq(engine.done), self.saturated[2].eq(engine.saturated),
        ]

    def _proximal(self, m):
        """Proximal steps, when the sequencer has let every update reach its words."""
        m.submodules.proximal = proximal = Proximal(config=self.config)
        m.d.comb += [
            proximal.start.eq(self.sequencer.proximal), proximal.stop.eq(self.stop),
            self.sequencer.proximal_done.eq(proximal.done),
            proximal.beats.eq(self.beats), proximal.last_lanes.eq(self.last_lanes),
            proximal.threshold.eq(self.threshold), proximal.limit.eq(self.box_limit),
            proximal.data.eq(self.store.access_o),
        ]
        with m.If(proximal.busy):
            m.d.comb += self._reach(proximal)

    def _replay(self, m):
        """Rows and labels that may have to come again."""
        sequencer = self.sequencer
        # Rows on their way, and the one that is being read.
        depth = 1 << (2 * self.config.max_beats + 63).bit_length()
        for name, stream_in, stream_out, length, amount, clear in (
                ("rows", self.i_rows, sequencer.i_rows, depth, self.beats, self.stop),
                # Labels beyond an epoch's last row are of no use; such rows there are none.
                ("labels", self.i_labels, sequencer.i_labels, 64, 1, self.stop | self.start)):
            m.submodules[f"replay_{name}"] = replay = Replay(
                shape=stream_in.payload.shape(), depth=length)
            wiring.connect(m, wiring.flipped(stream_in), replay.i)
            wiring.connect(m, replay.o, stream_out)
            m.d.comb += [
                replay.release.eq(sequencer.decided), replay.amount.eq(amount),
                replay.rewind.eq(sequencer.rewind), replay.clear.eq(clear),
            ]

    def _refetch(self, m, dotted, levels, rewritten):
        """Rows that their codes do not decide. With look-ahead the codes are judged by a bound for
        every model that the updates on their way may make; a row that this leaves open comes
        again alone. Nothing else moves while a row at full precision is applied.
        """
        sequencer, store, solver = self.sequencer, self.store, self.solver
        m.submodules.bounds = bounds = CellBounds(config=self.config)
        m.submodules.refetcher = refetcher = Refetcher(config=self.config)
        wiring.connect(m, refetcher.job, wiring.flipped(self.full_job))
        wiring.connect(m, wiring.flipped(self.i_full), refetcher.i)
        label = delay(m, sequencer.label, self.config.dot_stages, name="bounds_label")
        margin = Signal(SLACK_WIDTH, reset_less=True)
        # K, rounded up by any dither, for every update that the model has not met yet.
        m.d.sync += margin.eq((self.unit_update.unit[UNIT_FRACTION:] + 1) * self.refetch_slack)
        # Decided rows of the epoch: the row that a replay begins with.
        decided = Signal(32)
        with m.If(sequencer.decided):
            m.d.sync += decided.eq(decided + 1)
        with m.If(self.start):
            m.d.sync += decided.eq(0)
        with m.Elif(sequencer.replay):
            m.d.comb += [self.dither.restart.eq(1), self.dither.row.eq(decided)]
        m.d.comb += [
            bounds.valid.eq(dotted.valid), bounds.first.eq(dotted.first),
            bounds.last.eq(dotted.last), bounds.cell.eq(self.refetch_cell),
            bounds.ends.eq(sequencer.replay_alone), bounds.dot.eq(self.dot_product.o),
            bounds.target.eq(label << self.label_shift),
            *_each(bounds.levels, levels), *_each(bounds.words, store.words),
            solver.refetching.eq(self.refetch_cell != 0),
            solver.undecided.eq(bounds.undecided), solver.dot_margin.eq(bounds.dot_margin),
            solver.lookahead_margin.eq(margin),
            solver.replay_alone.eq(sequencer.replay_alone), solver.discard.eq(sequencer.discard),
            sequencer.decided.eq(solver.o_decided | refetcher.done),
            sequencer.replay.eq(solver.o_replay),
            sequencer.hold.eq(solver.o_undecided | refetcher.busy),
            refetcher.start.eq(solver.o_undecided), refetcher.stop.eq(self.stop),
            refetcher.positive.eq(solver.o_positive), refetcher.unit.eq(solver.o_unit),
            refetcher.epoch_start.eq(self.start), refetcher.row_passed.eq(sequencer.decided),
            refetcher.address.eq(self.full_address), refetcher.data.eq(store.access_o),
            *(getattr(refetcher, name).eq(getattr(self, name))
              for name in ("label_shift", "intercept_level", "beats", "last_lanes")),
            rewritten.eq(refetcher.saturated), self.row_refetched.eq(solver.o_undecided),
        ]
        with m.If(refetcher.busy):
            m.d.comb += [*self._reach(refetcher), store.access_intercept.eq(refetcher.intercept)]

    def _reach(self, walker):
        """A walker through the model takes the place of ``access``."""
        store = self.store
        return [store.access_index.eq(walker.index), store.access_pair.eq(walker.pair),
                store.access_shown.eq(walker.pair), store.access_write.eq(walker.write),
                store.access_i.eq(walker.o)]

    def _levels(self, m, slots):
        """Levels of a slot: its own, again beside the model's words, those of the rows before, and
        those of the row to apply.
        """
        config = self.config
        later = 2 + config.product_stages
        m.submodules.lines = lines = DelayLines(config=config)
        beat = Signal(config.bus_width, reset_less=True)
        m.d.sync += beat.eq(self.sequencer.beat)
        m.d.comb += [lines.valid.eq(slots[0].valid), lines.index.eq(slots[0].index),
                     lines.beat.eq(beat)]
        # Lanes of a row's last beat: a comparison for each of them, constant during a run.
        mask = Signal(config.lanes, name="mask", reset_less=True)
        m.d.sync += mask.eq(Cat(self.last_lanes > lane for lane in range(config.lanes)))

        def decoded(code, sample, name, slot=slots[1]):
            decoder = Decoder(config=config, sample=sample)
            m.submodules[f"decode_{name}"] = decoder
            used = mask | (~slot.last).replicate(config.lanes)

            def held(value, name):
                register = Signal(value.shape(), name=name, reset_less=True)
                with when(m, enable_of(config, slot.valid)):
                    m.d.sync += register.eq(value)
                return register

            if not config.has_zero_code:
                # Gates before the register would keep memory blocks from using their own.
                m.d.comb += [decoder.beat.eq(held(code, name)),
                             decoder.used.eq(held(used, f"{name}_used"))]
                return list(decoder.levels)
            m.d.comb += [decoder.beat.eq(code), decoder.used.eq(used)]
            return [held(level, f"{name}_{lane}") for lane, level in enumerate(decoder.levels)]

        def chosen(values):
            """The one of ``values`` that the run's look-ahead asks for."""
            choice = Signal(range(len(values)), name="choice", reset_less=True)
            m.d.sync += choice.eq(Mux(self.lookahead < len(values), self.lookahead,
                                      config.lookahead))
            return Array(values)[choice]

        taps = [lines.previous_beats[line] for line in range(config.lookahead + 1)]
        dot = decoded(beat, 0, "dot")
        # Codes are fewer bits than levels, so the codes wait and are decoded a second time.
        late_dot = decoded(delay(m, beat, later, name="beat"), 0, "late_dot",
                           slot=slots[1 + later])
        earlier = [decoded(taps[d - 1], 1, f"earlier_{d}")
                   for d in range(1, config.lookahead + 1)]
        if config.term_stages == config.product_stages:
            return _Levels(dot, late_dot, earlier, decoded(chosen(taps), 1, "older"))
        # Memory blocks are slow to answer: what they say is in registers before the choice.
        last = decoded(taps[-1], 1, f"earlier_{config.lookahead + 1}")
        older = [Signal(level.shape(), name=f"older_{lane}", reset_less=True)
                 for lane, level in enumerate(last)]
        rows = [Cat(levels) for levels in (*earlier, last)]
        with when(m, enable_of(config, slots[2].valid)):
            m.d.sync += Cat(older).eq(chosen(rows))
        return _Levels(dot, late_dot, earlier, older)

    def _update(self, m, slot, solver):
        """c of the row to apply, from the queue of those that wait for their slot."""
        depth = 1 << (self.config.lookahead + 2).bit_length()
        m.submodules.updates = queue = memory.Memory(shape=signed(UPDATE_WIDTH), depth=depth,
                                                     init=[])
        write, read = queue.write_port(), queue.read_port(domain="comb")
        newest, oldest = Signal(range(depth)), Signal(range(depth))
        update = Signal(signed(UPDATE_WIDTH), reset_less=True)
        m.d.comb += [
            write.addr.eq(newest), write.data.eq(solver.o), write.en.eq(solver.o_valid),
            read.addr.eq(oldest),
        ]
        with m.If(solver.o_valid):
            m.d.sync += newest.eq(newest + 1)
        with m.If(slot.valid & slot.first):
            m.d.sync += update.eq(Mux(slot.apply, read.data, C(0, signed(UPDATE_WIDTH))))
            with m.If(slot.apply):
                m.d.sync += oldest.eq(oldest + 1)
        with m.If(self.start):
            m.d.sync += [newest.eq(0), oldest.eq(0)]
        return update
