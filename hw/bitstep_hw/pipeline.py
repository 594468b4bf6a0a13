"""The SGD pipeline: rows and labels in, an updated model in the store."""

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.config import (
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
from bitstep.registers import Loss
from bitstep_hw.arithmetic import delay
from bitstep_hw.axi import JOB_LAYOUT
from bitstep_hw.cell_bounds import CellBounds
from bitstep_hw.correction_engine import CorrectionEngine
from bitstep_hw.correlator import Correlator
from bitstep_hw.decoder import Decoder
from bitstep_hw.delay_lines import DelayLines
from bitstep_hw.dot_product import DotProduct
from bitstep_hw.logistic_solver import LogisticSolver
from bitstep_hw.model_store import ModelStore
from bitstep_hw.proximal import Proximal
from bitstep_hw.refetcher import Refetcher
from bitstep_hw.replay import Replay
from bitstep_hw.sequencer import Sequencer
from bitstep_hw.solver import Solver
from bitstep_hw.unit_update import UnitUpdate

# What reaches the store's words between slots.
_ACCESS_INPUTS = ("access_index", "access_pair", "access_write", "access_intercept",
                  "access_clear", "access_i")


class Pipeline(wiring.Component):
    """One epoch of sequential mini-batch SGD at line rate (docs/pipeline.md).

    Golden model: :func:`bitstep.golden.sgd.train`. Latency from a row's last beat to the first
    beat that may apply it is ``config.latency`` cycles.

    Members
    -------
    rows, beats, last_lanes, batch, lookahead, period, intercept_level, label_shift, loss,
    proximal_period, box_limit, refetch_cell, refetch_slack, full_address : In
        As the registers of these names; constant during an epoch.
    mantissa, shift, correction_mantissa, correction_shift, threshold : In
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
    access_index, access_pair, access_write, access_intercept, access_clear : In
    access_i : In(64), access_o : Out(64)
        The model between epochs, as :class:`bitstep_hw.model_store.ModelStore` gives it.
    full_job : Out(stream.Signature(JOB_LAYOUT)), i_full : In(stream.Signature(64))
        With ``refetch``: which row at full precision is wanted, and its beats.
    i_rows : In(stream.Signature(bus_width)), i_labels : In(stream.Signature(signed(32)))
        The epoch's rows and labels.
    saturated : Out(3)
        Strobes, bits as :class:`bitstep.registers.Saturation`.
    """

    def __init__(self, *, config):
        self.config = config
        self.sequencer = Sequencer(config=config)
        self.store = ModelStore(config=config)
        self.engine = CorrectionEngine(config=config) if config.corrections else None
        full = {"full_job": Out(stream.Signature(JOB_LAYOUT)),
                "i_full": In(stream.Signature(AUX_WIDTH))}
        access = {name: self.store.signature.members[name]
                  for name in (*_ACCESS_INPUTS, "access_o")}
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
            "refetch_slack": In(32), "full_address": In(64),
            "saturated": Out(3), "misaligned": Out(1), "waits": Out(7), "beat_entered": Out(1),
            "row_refetched": Out(1),
            **access, **(full if config.refetch else {}),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.sequencer = sequencer = self.sequencer
        m.submodules.store = store = self.store
        for name in ("rows", "beats", "batch", "lookahead", "period", "proximal_period", "start",
                     "stop"):
            m.d.comb += getattr(sequencer, name).eq(getattr(self, name))
        m.d.comb += [
            self.done.eq(sequencer.done),
            self.misaligned.eq(sequencer.misaligned),
            self.waits.eq(Cat(sequencer.wait_rows, sequencer.wait_labels, sequencer.wait_lookahead,
                              sequencer.wait_recursion, sequencer.wait_correction,
                              sequencer.wait_refetch, sequencer.flushing)),
            self.beat_entered.eq(self.i_rows.valid & self.i_rows.ready),
        ]

        product = config.product_stages
        # Cycles from a slot to its row's entry into the solver, and to its dot product.
        dot_after = 5 + 2 * product + config.tree_stages
        entered = dot_after - config.solver_lead
        slots = [sequencer.slot]
        for stage in range(1, 5 + product):
            slots.append(Signal.like(sequencer.slot, name=f"slot_{stage}"))
            m.d.sync += slots[-1].eq(slots[-2])
        dotted = slots[4 + product]         # beside the words that the store gives
        dot, late_dot, earlier, older = self._levels(m, slots)

        m.submodules.correlator = correlator = Correlator(config=config)
        m.submodules.dot_product = dot_product = DotProduct(config=config)
        m.submodules.solver = solver = (
            LogisticSolver if config.solver == "logistic" else Solver)(config=config)
        m.submodules.unit_update = unit_update = UnitUpdate()
        # What the intercept's 1 counts in a dot product, and in a product of two rows.
        unit, square = Signal(FLOAT_GUARD + 1), Signal(FLOAT_GUARD + 1)
        fraction = FLOAT_GUARD if config.family == "float" else 0
        m.d.comb += unit.eq(self.intercept_level << fraction)
        rewritten = Signal()                # a refetched row left the range
        m.d.sync += square.eq(self.intercept_level[:7] * unit)
        m.d.comb += [
            correlator.valid.eq(slots[2].valid), correlator.first.eq(slots[2].first),
            correlator.last.eq(slots[2].last), correlator.skip.eq(slots[2].skip),
            correlator.lookahead.eq(self.lookahead), correlator.intercept_square.eq(square),
            store.slot.eq(slots[2]),
            store.update.eq(self._update(m, slots[1], solver)),
            store.intercept_level.eq(self.intercept_level),
            dot_product.valid.eq(dotted.valid), dot_product.first.eq(dotted.first),
            dot_product.last.eq(dotted.last),
            dot_product.intercept.eq(store.intercept), dot_product.intercept_level.eq(unit),
            solver.clear.eq(self.start),
            solver.valid.eq(correlator.o_valid),
            solver.idle_row.eq(delay(m, dotted.idle_row, entered - 4 - product, name="idle")),
            solver.label.eq(delay(m, sequencer.label, entered, name="label")),
            solver.dot.eq(dot_product.o),
            solver.mantissa.eq(self.mantissa), solver.shift.eq(self.shift),
            solver.label_shift.eq(self.label_shift),
            unit_update.mantissa.eq(self.mantissa), unit_update.shift.eq(self.shift),
            unit_update.label_shift.eq(self.label_shift),
            solver.unit.eq(unit_update.unit), solver.unit_too_large.eq(unit_update.too_large),
            self.saturated[0].eq(solver.saturated),
            self.saturated[1].eq(store.saturated | rewritten),
        ]
        for target, source in ((correlator.dot, dot), (store.levels, older),
                               (dot_product.levels, late_dot), (dot_product.words, store.words),
                               (solver.products, correlator.products),
                               *zip(correlator.earlier, earlier, strict=True)):
            m.d.comb += [a.eq(b) for a, b in zip(target, source, strict=True)]
        if self.engine is not None:
            m.submodules.engine = engine = self.engine
            m.d.comb += [
                engine.slot.eq(slots[1 + product]), engine.beats.eq(self.beats),
                engine.stop.eq(self.stop),
                engine.sampled.eq(store.sampled), store.correction.eq(engine.correction),
                engine.mantissa.eq(self.correction_mantissa),
                engine.shift.eq(self.correction_shift),
                sequencer.corrected.eq(engine.done), self.saturated[2].eq(engine.saturated),
            ]
        if config.solver == "linear":
            m.d.comb += solver.loss.eq(self.loss)
        m.d.comb += [getattr(store, name).eq(getattr(self, name)) for name in _ACCESS_INPUTS]
        m.d.comb += self.access_o.eq(store.access_o)
        if config.proximal:
            self._proximal(m, sequencer, store)
        if config.refetch:
            label = delay(m, sequencer.label, dot_after, name="bounds_label")
            self._refetch(m, sequencer, store, dotted, late_dot, label, dot_product, solver,
                          unit_update, rewritten)
        else:
            wiring.connect(m, wiring.flipped(self.i_rows), sequencer.i_rows)
            wiring.connect(m, wiring.flipped(self.i_labels), sequencer.i_labels)
        return m

    def _proximal(self, m, sequencer, store):
        """Proximal steps, when the sequencer has let every update reach its words."""
        m.submodules.proximal = proximal = Proximal(config=self.config)
        m.d.comb += [
            proximal.start.eq(sequencer.proximal), proximal.stop.eq(self.stop),
            sequencer.proximal_done.eq(proximal.done),
            proximal.beats.eq(self.beats), proximal.last_lanes.eq(self.last_lanes),
            proximal.threshold.eq(self.threshold), proximal.limit.eq(self.box_limit),
            proximal.data.eq(store.access_o),
        ]
        with m.If(proximal.busy):
            m.d.comb += self._reach(store, proximal)

    def _refetch(self, m, sequencer, store, dotted, levels, label, dot_product, solver,
                 unit_update, rewritten):
        """Rows that their codes do not decide. With look-ahead the codes are judged by a bound for
        every model that the updates on their way may make; a row that this leaves open comes
        again alone. Nothing else moves while a row at full precision is applied.
        """
        config = self.config
        m.submodules.bounds = bounds = CellBounds(config=config)
        m.submodules.refetcher = refetcher = Refetcher(config=config)
        wiring.connect(m, refetcher.job, wiring.flipped(self.full_job))
        wiring.connect(m, wiring.flipped(self.i_full), refetcher.i)
        decided = Signal()
        # Rows on their way, and the one that is being read.
        depth = 1 << (2 * config.max_beats + 63).bit_length()
        for name, stream_in, stream_out, length, amount in (
                ("rows", self.i_rows, sequencer.i_rows, depth, self.beats),
                ("labels", self.i_labels, sequencer.i_labels, 64, 1)):
            m.submodules[f"replay_{name}"] = replay = Replay(
                shape=stream_in.payload.shape(), depth=length)
            wiring.connect(m, wiring.flipped(stream_in), replay.i)
            wiring.connect(m, replay.o, stream_out)
            m.d.comb += [
                replay.release.eq(decided), replay.amount.eq(amount),
                replay.rewind.eq(sequencer.rewind),
                # Labels beyond an epoch's last row are of no use; rows there are none.
                replay.clear.eq(self.stop | (self.start if name == "labels" else 0)),
            ]
        slack = Signal(SLACK_WIDTH, reset_less=True)
        m.d.sync += slack.eq(unit_update.unit * self.refetch_slack)
        m.d.comb += [
            decided.eq(solver.o_decided | refetcher.done),
            sequencer.decided.eq(decided), sequencer.retry.eq(solver.o_retry),
            solver.refetching.eq(self.refetch_cell != 0), solver.slack.eq(slack),
            solver.reach.eq(bounds.reach), bounds.ends.eq(sequencer.probe),
            solver.probe.eq(sequencer.probe), solver.squash.eq(sequencer.squash),
            *(a.eq(b) for a, b in zip(bounds.levels, levels, strict=True)),
            *(a.eq(b) for a, b in zip(bounds.words, store.words, strict=True)),
            bounds.valid.eq(dotted.valid), bounds.first.eq(dotted.first),
            bounds.last.eq(dotted.last), bounds.cell.eq(self.refetch_cell),
            bounds.target.eq(label << self.label_shift), bounds.dot.eq(dot_product.o),
            solver.undecided.eq(bounds.undecided),
            refetcher.start.eq(solver.o_undecided), refetcher.stop.eq(self.stop),
            refetcher.positive.eq(solver.o_positive), refetcher.unit.eq(unit_update.unit),
            refetcher.epoch_start.eq(self.start),
            refetcher.row_passed.eq(decided),
            refetcher.label_shift.eq(self.label_shift),
            refetcher.intercept_level.eq(self.intercept_level),
            refetcher.address.eq(self.full_address),
            refetcher.beats.eq(self.beats), refetcher.last_lanes.eq(self.last_lanes),
            refetcher.data.eq(store.access_o),
            sequencer.hold.eq(solver.o_undecided | refetcher.busy),
            rewritten.eq(refetcher.saturated), self.row_refetched.eq(solver.o_undecided),
        ]
        with m.If(refetcher.busy):
            m.d.comb += [*self._reach(store, refetcher),
                         store.access_intercept.eq(refetcher.intercept)]

    @staticmethod
    def _reach(store, walker):
        """A walker through the model takes the place of ``access``."""
        return [store.access_index.eq(walker.index), store.access_pair.eq(walker.pair),
                store.access_write.eq(walker.write), store.access_i.eq(walker.o)]

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

        def decoded(code, sample, name, slot=slots[1]):
            decoder = Decoder(config=config, sample=sample)
            m.submodules[f"decode_{name}"] = decoder
            m.d.comb += [decoder.beat.eq(code),
                         decoder.used.eq(Mux(slot.last, (1 << self.last_lanes) - 1, -1))]
            registers = [Signal(level.shape(), name=f"{name}_{lane}", reset_less=True)
                         for lane, level in enumerate(decoder.levels)]
            with m.If(slot.valid):
                m.d.sync += [a.eq(b) for a, b in zip(registers, decoder.levels, strict=True)]
            return registers

        taps = [lines.earlier[line] for line in range(config.lookahead + 1)]
        dot = decoded(beat, 0, "dot")
        # Codes are fewer bits than levels, so the codes wait and are decoded a second time.
        late_dot = decoded(delay(m, beat, later, name="beat"), 0, "late_dot",
                           slot=slots[1 + later])
        earlier = [decoded(taps[d - 1], 1, f"earlier_{d}")
                   for d in range(1, config.lookahead + 1)]
        older = decoded(Array(taps)[self.lookahead], 1, "older")
        return dot, late_dot, earlier, older

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
