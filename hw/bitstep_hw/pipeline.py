"""The SGD pipeline: rows and labels in, an updated model in the store."""

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.config import (
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_FEATURES,
    MAX_LABEL_SHIFT,
    MAX_LOOKAHEAD,
    MAX_SHIFT,
    UPDATE_WIDTH,
)
from bitstep_hw.arithmetic import delay
from bitstep_hw.correction_engine import CorrectionEngine
from bitstep_hw.correlator import Correlator
from bitstep_hw.decoder import Decoder
from bitstep_hw.delay_lines import DelayLines
from bitstep_hw.dot_product import DotProduct
from bitstep_hw.model_store import ModelStore
from bitstep_hw.sequencer import Sequencer
from bitstep_hw.solver import Solver


class Pipeline(wiring.Component):
    """One epoch of sequential mini-batch SGD at line rate (docs/pipeline.md).

    Golden model: :func:`bitstep.golden.sgd.train`. Latency from a row's last beat to the first
    beat that may apply it is ``config.latency`` cycles.

    Members
    -------
    rows, beats, last_lanes, batch, lookahead, period, intercept_level, label_shift : In
        As the registers of these names; constant during an epoch.
    mantissa, shift, correction_mantissa, correction_shift : In
        The epoch's entry of the epoch table.
    start : In(1), done : Out(1)
        Strobes around an epoch.
    stop : In(1)
        Ends an epoch early; hold it for ``config.latency`` cycles before the next one.
    misaligned : Out(1), waits : Out(6)
        From the sequencer: a period that is no multiple of the batch; why no row entered (rows,
        labels, look-ahead, recursion, correction, flush), bit 0 first.
    beat_entered : Out(1)
        A beat of a row entered.
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
            "saturated": Out(3), "misaligned": Out(1), "waits": Out(6), "beat_entered": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.sequencer = sequencer = self.sequencer
        m.submodules.store = store = self.store
        for name in ("rows", "beats", "batch", "lookahead", "period", "start", "stop"):
            m.d.comb += getattr(sequencer, name).eq(getattr(self, name))
        wiring.connect(m, wiring.flipped(self.i_rows), sequencer.i_rows)
        wiring.connect(m, wiring.flipped(self.i_labels), sequencer.i_labels)
        m.d.comb += [
            self.done.eq(sequencer.done),
            self.misaligned.eq(sequencer.misaligned),
            self.waits.eq(Cat(sequencer.wait_rows, sequencer.wait_labels, sequencer.wait_lookahead,
                              sequencer.wait_recursion, sequencer.wait_correction,
                              sequencer.flushing)),
            self.beat_entered.eq(sequencer.slot.valid & ~sequencer.slot.idle_row),
        ]

        slots = [sequencer.slot]
        for stage in range(1, 6):
            slots.append(Signal.like(sequencer.slot, name=f"slot_{stage}"))
            m.d.sync += slots[-1].eq(slots[-2])
        dot, late_dot, earlier, older = self._levels(m, slots)

        m.submodules.correlator = correlator = Correlator(config=config)
        m.submodules.dot_product = dot_product = DotProduct(config=config)
        m.submodules.solver = solver = Solver(config=config)
        square = Signal(15)
        m.d.sync += square.eq(self.intercept_level[:7] * self.intercept_level[:7])
        m.d.comb += [
            correlator.valid.eq(slots[2].valid), correlator.first.eq(slots[2].first),
            correlator.last.eq(slots[2].last), correlator.skip.eq(slots[2].skip),
            correlator.lookahead.eq(self.lookahead), correlator.intercept_square.eq(square),
            store.slot.eq(slots[2]),
            store.update.eq(self._update(m, slots[1], solver)),
            store.intercept_level.eq(self.intercept_level),
            dot_product.valid.eq(slots[5].valid), dot_product.first.eq(slots[5].first),
            dot_product.last.eq(slots[5].last),
            dot_product.intercept.eq(store.intercept),
            dot_product.intercept_level.eq(self.intercept_level),
            solver.clear.eq(self.start),
            solver.valid.eq(correlator.o_valid),
            solver.idle_row.eq(delay(m, slots[5].idle_row, config.tree_stages + 1, name="idle")),
            solver.label.eq(delay(m, sequencer.label, config.tree_stages + 6, name="label")),
            solver.dot.eq(dot_product.o),
            solver.mantissa.eq(self.mantissa), solver.shift.eq(self.shift),
            solver.label_shift.eq(self.label_shift),
            self.saturated[0].eq(solver.saturated), self.saturated[1].eq(store.saturated),
        ]
        for target, source in ((correlator.dot, dot), (store.levels, older),
                               (dot_product.levels, late_dot), (dot_product.words, store.words),
                               (solver.products, correlator.products),
                               *zip(correlator.earlier, earlier, strict=True)):
            m.d.comb += [a.eq(b) for a, b in zip(target, source, strict=True)]
        if self.engine is not None:
            m.submodules.engine = engine = self.engine
            m.d.comb += [
                engine.slot.eq(slots[2]), engine.beats.eq(self.beats), engine.stop.eq(self.stop),
                engine.sampled.eq(store.sampled), store.correction.eq(engine.correction),
                engine.mantissa.eq(self.correction_mantissa),
                engine.shift.eq(self.correction_shift),
                sequencer.corrected.eq(engine.done), self.saturated[2].eq(engine.saturated),
            ]
        return m

    def _levels(self, m, slots):
        """Levels of a slot: its own, again 3 cycles later, those of the rows before, and those of
        the row to apply.
        """
        config = self.config
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
        late_dot = decoded(delay(m, beat, 3, name="beat"), 0, "late_dot", slot=slots[4])
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
