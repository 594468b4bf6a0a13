"""Feeders of jobs: the blocks of memory that a run reads, in order."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.registers import LabelFormat
from bitstep_hw.axi.buses import JOB_LAYOUT
from bitstep_hw.parts.fsm import stoppable_states


class RowFeeder(wiring.Component):
    """Feeder of the rows: one block for each epoch, its copy of them.

    The first block is offered a cycle after ``start``, each of the others 2 cycles after the one
    before was taken. Stores two addresses and two counters.

    Members
    -------
    start : In(1)
        Strobe: begins a run.
    stop : In(1)
        While 1, there are no jobs.
    epochs : In(32)
        As the register EPOCHS; constant during a run, as all that follow.
    copies : In(8)
        As the register COPIES.
    address : In(64)
        As the register ROWS_ADDRESS.
    stride : In(64)
        As the register COPY_STRIDE.
    beats : In(32)
        Beats of an epoch.
    o : Out(stream.Signature(JOB_LAYOUT))
        Blocks.
    """

    def __init__(self):
        super().__init__({
            "start": In(1), "stop": In(1),
            "epochs": In(32), "copies": In(8), "address": In(64), "stride": In(64),
            "beats": In(32),
            "o": Out(stream.Signature(JOB_LAYOUT)),
        })

    def elaborate(self, platform):
        m = Module()
        left = Signal(32)
        copy = Signal(8)
        address = Signal(64)
        offered = Signal()
        step = Signal()
        # What follows the block at hand: known a cycle after it, when it is needed at the earliest.
        following = Signal(64)
        ends = Signal()
        wraps = Signal()
        m.d.comb += [
            self.o.valid.eq(offered & ~self.stop),
            self.o.payload.address.eq(address),
            self.o.payload.beats.eq(self.beats),
        ]
        m.d.sync += [following.eq(address + self.stride), ends.eq(left == 1),
                     wraps.eq(copy == self.copies - 1)]
        with m.If(self.stop):
            m.d.sync += [offered.eq(0), step.eq(0)]
        with m.Elif(self.start):
            m.d.sync += [left.eq(self.epochs), copy.eq(0), address.eq(self.address),
                         offered.eq(self.epochs != 0), step.eq(0)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [offered.eq(0), step.eq(1)]
        with m.Elif(step):      # in a cycle of its own: much hangs on it
            m.d.sync += [left.eq(left - 1), copy.eq(copy + 1), address.eq(following),
                         offered.eq(~ends), step.eq(0)]
            with m.If(wraps):
                m.d.sync += [copy.eq(0), address.eq(self.address)]
        return m


class AuxFeeder(wiring.Component):
    """Feeder of all else: the first model, the coefficients, the codebooks, then for each
    epoch its table entry and the labels.

    A job a cycle, but for one cycle between an entry of the table and the labels. Stores an address
    and a counter.

    Parameters
    ----------
    codebooks : bool
        True if there are codebooks.
    streams : int
        Labels of a row, of several models, a power of two.
    constants : bool
        True if constants, as long as the coefficients, follow them.
    weights : bool
        True if rows can have weights.

    Members
    -------
    start : In(1)
        Strobe: begins a run.
    stop : In(1)
        While 1, there are no jobs.
    epochs, rows, label_format : In
        As the registers of these names; constant during a run, as all that follow.
    load_model : In(1)
        The first model is read.
    load_coefficients : In(1)
        The coefficients are read.
    model_beats : In(32)
        64-bit beats of a model, and of the coefficients.
    model_address, coefficients_address, table_address, labels_address : In(64)
        Addresses of the blocks.
    codebooks_address : In(64), codebooks_beats : In(32)
        With ``codebooks``: their address and 64-bit beats.
    models : In(5), shared_labels : In(1)
        With several ``streams``: as the registers of these names.
    weighted : In(1)
        With ``weights``: as the register WEIGHTED.
    label_beats : Out(32)
        64-bit beats of an epoch's labels.
    o : Out(stream.Signature(JOB_LAYOUT))
        Blocks.
    """

    def __init__(self, *, codebooks=False, streams=1, constants=False, weights=False):
        self.codebooks, self.streams, self.constants = codebooks, streams, constants
        self.weights = weights
        super().__init__({
            "start": In(1), "stop": In(1),
            "epochs": In(32), "rows": In(32), "label_format": In(2),
            "load_model": In(1), "load_coefficients": In(1), "model_beats": In(32),
            "model_address": In(64), "coefficients_address": In(64),
            "table_address": In(64), "labels_address": In(64), "label_beats": Out(32),
            "codebooks_address": In(64), "codebooks_beats": In(32),
            "models": In(5), "shared_labels": In(1), "weighted": In(1),
            "o": Out(stream.Signature(JOB_LAYOUT)),
        })

    def elaborate(self, platform):
        m = Module()
        label_beats = self.label_beats
        left = Signal(32)
        entry = Signal(64)
        labels, entries = self.rows, 1      # labels of an epoch; entries of the table
        if self.streams > 1:
            entries = self.models
            labels = Signal(32 + self.streams.bit_length() - 1)
            m.d.comb += labels.eq(Mux(self.shared_labels, self.rows, self.rows * self.streams))
        with m.Switch(self.label_format):
            with m.Case(LabelFormat.SIGN.value):
                m.d.sync += label_beats.eq((labels + 63) >> 6)
            with m.Case(LabelFormat.INT16.value):
                m.d.sync += label_beats.eq((labels + 3) >> 2)
            with m.Default():
                m.d.sync += label_beats.eq((labels + 1) >> 1)
        if self.weights:        # a row with a weight takes twice the bits, at least 32
            with m.If(self.weighted):
                with m.Switch(self.label_format):
                    with m.Case(LabelFormat.SIGN.value):
                        m.d.sync += label_beats.eq((self.rows + 1) >> 1)
                    with m.Case(LabelFormat.INT16.value):
                        m.d.sync += label_beats.eq((labels + 1) >> 1)
                    with m.Default():
                        m.d.sync += label_beats.eq(labels)

        taken = Signal()
        job = self.o.payload
        m.d.comb += taken.eq(self.o.valid & self.o.ready)
        state = stoppable_states(m, self.stop, "Idle")
        with m.FSM():
            with m.State("Idle"):
                with m.If(self.start & ~self.stop):
                    m.d.sync += [left.eq(self.epochs), entry.eq(self.table_address)]
                    m.next = "Model"
            with state("Model"):
                m.d.comb += [self.o.valid.eq(self.load_model & ~self.stop),
                             job.address.eq(self.model_address), job.beats.eq(self.model_beats)]
                with m.If(taken | ~self.load_model):
                    m.next = "Coefficients"
            with state("Coefficients"):
                m.d.comb += [self.o.valid.eq(self.load_coefficients & ~self.stop),
                             job.address.eq(self.coefficients_address),
                             job.beats.eq(self.model_beats << int(self.constants))]
                with m.If(taken | ~self.load_coefficients):
                    m.next = "Codebooks" if self.codebooks else "Table"
            if self.codebooks:
                with state("Codebooks"):
                    m.d.comb += [self.o.valid.eq(~self.stop),
                                 job.address.eq(self.codebooks_address),
                                 job.beats.eq(self.codebooks_beats)]
                    with m.If(taken):
                        m.next = "Table"
            with state("Table"):
                m.d.comb += [self.o.valid.eq(~self.stop), job.address.eq(entry),
                             job.beats.eq(2 * entries)]
                with m.If(taken):
                    m.next = "Step"
            with state("Step"):     # in a cycle of its own: much hangs on it
                m.d.sync += [entry.eq(entry + 16 * entries), left.eq(left - 1)]
                m.next = "Labels"
            with state("Labels"):
                m.d.comb += [self.o.valid.eq(~self.stop), job.address.eq(self.labels_address),
                             job.beats.eq(label_beats)]
                with m.If(taken):
                    with m.If(left == 0):
                        m.next = "Idle"
                    with m.Else():
                        m.next = "Table"
        return m
