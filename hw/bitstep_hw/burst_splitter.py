"""Blocks of memory in, bursts out."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi import JOB_LAYOUT, MAX_BURST, check_data_width

BURST_LAYOUT = data.StructLayout({"address": 64, "length": 8})


class BurstSplitter(wiring.Component):
    """Splits each job into bursts that end where 16 beats are aligned.

    So no burst has more than 16 beats or crosses 4 KiB, the next address needs no sum with a
    length, and the length is a 4-bit difference. One burst per cycle, also across jobs; latency
    1 cycle. Stores one job. Jobs of no beats vanish.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    i : In(stream.Signature(JOB_LAYOUT))
        Blocks: byte address, whose bits below a beat are ignored, and number of beats.
    o : Out(stream.Signature(BURST_LAYOUT))
        Bursts: byte address, and beats - 1 as in ARLEN.
    clear : In(1)
        While 1, the job at hand and all that arrive are discarded.
    busy : Out(1)
        A job is at hand.
    """

    def __init__(self, *, data_width):
        check_data_width(data_width)
        self.data_width = data_width
        super().__init__({
            "i": In(stream.Signature(JOB_LAYOUT)),
            "o": Out(stream.Signature(BURST_LAYOUT)),
            "clear": In(1),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        beat_bits = (self.data_width // 8).bit_length() - 1
        index_bits = MAX_BURST.bit_length() - 1
        job = self.i.payload
        job_index = job.address[beat_bits:beat_bits + index_bits]

        valid = Signal()
        first = Signal(index_bits)          # where in its 16 beats the next burst starts
        last = Signal(index_bits)           # and where the last burst of the job ends
        chunk = Signal(64 - beat_bits - index_bits)
        chunks_left = Signal(32 - index_bits + 1)
        job_end = Signal(33)

        final = Signal()                    # chunks_left is 0
        m.d.comb += [
            job_end.eq(job_index + job.beats - 1),
            self.busy.eq(valid),
            self.o.valid.eq(valid & ~self.clear),
            self.o.payload.address.eq(Cat(first, chunk) << beat_bits),
            self.o.payload.length.eq(Mux(final, last, MAX_BURST - 1) - first),
            self.i.ready.eq(~valid | self.clear | (self.o.ready & final)),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                chunk.eq(chunk + 1),
                first.eq(0),
                chunks_left.eq(chunks_left - 1),
                final.eq(chunks_left == 1),
            ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid & (job.beats != 0) & ~self.clear)
            m.d.sync += [
                first.eq(job_index),
                Cat(last, chunks_left).eq(job_end),
                # job_end < MAX_BURST, without its sum.
                final.eq((job.beats[index_bits + 1:] == 0)
                         & (job.beats[:index_bits + 1] <= MAX_BURST - job_index)),
                chunk.eq(job.address[beat_bits + index_bits:]),
            ]
        return m
