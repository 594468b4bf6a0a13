"""Splitter of blocks of memory into bursts."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.buses import JOB_LAYOUT, MAX_BURST, check_data_width

BURST_LAYOUT = data.StructLayout({"address": 64, "length": 8})


class BurstSplitter(wiring.Component):
    """Splitter of each job into bursts that end where 16 beats are aligned.

    So no burst has more than 16 beats or crosses 4 KiB, the next address needs no sum with a
    length, and a burst's length is 16 less its place in its 16 beats, the last one's what is left.
    One burst per cycle, also across jobs; latency 1 cycle. Stores one job. Jobs of no beats vanish.

    Parameters
    ----------
    data_width : int
        Bits of a beat; a power of two from 32 to 1024.

    Raises
    ------
    ValueError
        If ``data_width`` is another number.

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
        chunk = Signal(64 - beat_bits - index_bits)
        # Beats of the job that no burst has covered: stored as they come, because a sum before this
        # register is behind whatever chooses the job.
        left = Signal(32)
        low, high = left[:index_bits], left[index_bits:]
        final = Signal()                    # one burst covers what is left
        few = Signal(3)                     # bit k: high is k; final hangs on them
        m.d.comb += [
            self.busy.eq(valid),
            self.o.valid.eq(valid & ~self.clear),
            self.o.payload.address.eq(Cat(first, chunk) << beat_bits),
            self.o.payload.length.eq(Mux(final, (low - 1)[:index_bits], ~first)),
            self.i.ready.eq(~valid | self.clear | (self.o.ready & final)),
        ]
        # After a burst up to the boundary there are left + first - 16 beats, and first is 0.
        low_then = Signal(index_bits)
        carry = Signal()
        aligned = Signal()
        m.d.comb += [Cat(low_then, carry).eq(low + first), aligned.eq(low_then == 0)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                chunk.eq(chunk + 1),
                first.eq(0),
                left.eq(Cat(low_then, Mux(carry, high, high - 1))),
                few.eq(Mux(carry, few, Cat(few[1:], high == 3))),
                # Then at most 16 are left.
                final.eq(Mux(carry, few[0] | few[1] & aligned, few[1] | few[2] & aligned)),
            ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid & (job.beats != 0) & ~self.clear)
            m.d.sync += [
                first.eq(job_index),
                left.eq(job.beats),
                few.eq(Cat(job.beats[index_bits:] == k for k in range(len(few)))),
                final.eq((job.beats[index_bits + 1:] == 0)
                         & (job.beats[:index_bits + 1] <= MAX_BURST - job_index)),
                chunk.eq(job.address[beat_bits + index_bits:]),
            ]
        return m
