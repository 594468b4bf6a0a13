"""Writer of derivatives of rows, which become labels in memory."""

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import AUX_WIDTH, LABEL_WIDTH
from bitstep_hw.axi.buses import JOB_LAYOUT, MAX_BURST

DEPTH = 64                  # words that are kept
ROOM = 16                   # words that are left for the rows in the pipeline


class DerivativeWriter(wiring.Component):
    """Pairs of labels as words for a write master, and the blocks of memory that they go to.

    A block is asked for once all of its words are here, so no burst waits for rows. Blocks have 16
    words, the last one what is left; the second label of a last word may be 0. While less than
    :data:`ROOM` words have room, no further row may enter the pipeline. Storage: :data:`DEPTH`
    words. The driver reads the labels; golden model: :func:`bitstep.golden.gradient.gradient`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``latency`` and ``update_interval``.

    Members
    -------
    start : In(1), rows : In(32), address : In(64)
        Strobe: an epoch begins, with so many rows (0: none is written), to this address.
    clear : In(1)
        All words are forgotten.
    valid : In(1), label : In(32)
        The label of the next row.
    hold : Out(1)
        No row with data may enter the pipeline.
    idle : Out(1)
        All words of all rows have left.
    job : Out(stream.Signature(JOB_LAYOUT)), o : Out(stream.Signature(64))
        Blocks, and their words.
    """

    def __init__(self, *, config):
        in_flight = -(-config.latency // config.update_interval) + 2
        assert in_flight <= 2 * (ROOM - 1), "rows in the pipeline must have room"
        super().__init__({
            "start": In(1), "rows": In(32), "address": In(64), "clear": In(1),
            "valid": In(1), "label": In(LABEL_WIDTH), "hold": Out(1), "idle": Out(1),
            "job": Out(stream.Signature(JOB_LAYOUT)), "o": Out(stream.Signature(AUX_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        words = fifo.SyncFIFOBuffered(width=AUX_WIDTH, depth=DEPTH)
        m.submodules.words = ResetInserter(self.clear | self.start)(words)
        rows_left = Signal(32)
        last = Signal()
        low = Signal(LABEL_WIDTH, reset_less=True)
        second = Signal()
        put = Signal()
        asked = Signal()
        waiting = Signal(range(DEPTH + 1))      # words that are in no block
        chunk = Signal(64 - 3)                  # address of the next block, in words
        whole = Signal()
        m.d.comb += [
            last.eq(rows_left == 1),
            put.eq(self.valid & (second | last)),
            words.w_en.eq(put),
            words.w_data.eq(Mux(second, Cat(low, self.label), self.label)),
            self.o.valid.eq(words.r_rdy), self.o.payload.eq(words.r_data),
            words.r_en.eq(self.o.ready),
            whole.eq(waiting >= MAX_BURST),
            self.job.valid.eq(whole | ((rows_left == 0) & (waiting != 0))),
            self.job.payload.address.eq(chunk << 3),
            self.job.payload.beats.eq(Mux(whole, MAX_BURST, waiting)),
            asked.eq(self.job.valid & self.job.ready),
            self.idle.eq((rows_left == 0) & (words.level == 0)),
        ]
        m.d.sync += [
            self.hold.eq(words.level > DEPTH - ROOM),
            waiting.eq(waiting + put - Mux(asked, self.job.payload.beats, 0)),
        ]
        with m.If(asked):
            m.d.sync += chunk.eq(chunk + MAX_BURST)
        with m.If(self.valid):
            m.d.sync += [low.eq(self.label), second.eq(~second), rows_left.eq(rows_left - 1)]
        with m.If(self.clear | self.start):
            m.d.sync += [rows_left.eq(Mux(self.clear, 0, self.rows)), second.eq(0), waiting.eq(0),
                         chunk.eq(self.address[3:])]
        return m


def connect_written(m, config, control, pipeline, models):
    """Connect what is written with the jobs of its master: models, in runs with DERIVATIVES labels
    of a :class:`DerivativeWriter`; return its stream.
    """
    if not config.stages.full_passes:
        wiring.connect(m, control.job, models.i_job)
        m.d.comb += control.write_idle.eq(models.idle)
        return pipeline.o_model
    m.submodules.derivatives = writer = DerivativeWriter(config=config)
    registers, chosen = control.registers, control.run.derivatives
    written = stream.Signature(AUX_WIDTH).create(path=("written",))
    m.d.comb += [
        writer.start.eq(pipeline.start), writer.clear.eq(control.stop),
        writer.rows.eq(Mux(chosen, registers.rows, 0)),
        writer.address.eq(registers.model_out_address),
        writer.valid.eq(pipeline.derivative_valid), writer.label.eq(pipeline.derivative),
        pipeline.hold_rows.eq(writer.hold), control.write_idle.eq(models.idle & writer.idle),
    ]
    for mine, others, target in ((writer.o, pipeline.o_model, written),
                                 (writer.job, control.job, models.i_job)):
        m.d.comb += [
            target.payload.eq(Mux(chosen, mine.payload, others.payload)),
            target.valid.eq(Mux(chosen, mine.valid, others.valid)),
            mine.ready.eq(target.ready & chosen), others.ready.eq(target.ready & ~chosen),
        ]
    return written
