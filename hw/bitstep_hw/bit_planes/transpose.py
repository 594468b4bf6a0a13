"""Corner turn: beats of bit planes in, a few values of a row a cycle out."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.bit_planes import ALIGNMENT, CHUNK_UNITS, GROUP, PLANES
from bitstep.pipeline.parts.widths import MAX_FEATURES
from bitstep_hw.bit_planes.chunks import Chunks
from bitstep_hw.bit_planes.sizes import GROUPS_WIDTH
from bitstep_hw.parts.memories import memory_of


class BitPlaneTranspose(wiring.Component):
    """Stage of the row stream: it collects a chunk of every plane, then gives the rows in slots of
    a value for each lane.

    A value's code k of b bits leaves as the signed number k - 2^(b-1) of 16 bits, half of the level
    2 k + 1 - 2^b without its lowest bit, which is 1. So what follows need not know b.

    A beat and a slot a cycle; a slot leaves 2 cycles after the last beat that it needs. Golden
    model: :func:`bitstep.pipeline.bit_planes.from_bit_planes`. Storage: two chunks of 1 KiB of 16
    planes, in four memories. Each holds a quarter of every beat, which is as wide as a slot, so a
    slot at any group of 4 values finds its bits in two of them.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``bus_width``, ``lanes`` and ``clock.fast``.

    Members
    -------
    start, stop : In(1)
        Strobe: an epoch begins. While ``stop`` is 1, there are no slots.
    planes : In(5)
        Planes of the epoch, b; constant from ``start`` on, as all that follow are during a run.
    rows : In(32), beats : In
        Rows of an epoch; slots of a row.
    last_groups : In
        Groups of 4 values in a row's last slot.
    plane_units, units : In
        As those of :class:`bitstep_hw.bit_planes.chunks.Chunks`.
    i : In(stream.Signature(bus_width))
        Beats of planes, as :class:`bitstep_hw.bit_planes.plane_feeder.PlaneFeeder` asks for them.
    o : Out(stream.Signature(16 * lanes))
        Slots. Lanes beyond a row's end have bits of what comes next.
    """

    def __init__(self, *, config):
        self.config = config
        # In beats of a plane.
        self.depth = 2 * CHUNK_UNITS * ALIGNMENT // config.rows.beat_bytes
        super().__init__({
            "start": In(1), "stop": In(1), "planes": In(range(PLANES + 1)),
            "rows": In(32), "beats": In(range(MAX_FEATURES + 1)),
            "last_groups": In(range(config.rows.lanes // GROUP + 1)),
            "plane_units": In(GROUPS_WIDTH), "units": In(32),
            "i": In(stream.Signature(config.bus_width)),
            "o": Out(stream.Signature(config.rows.lanes * PLANES)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        words = config.bus_width // config.rows.lanes        # of a beat, each as wide as a slot
        banks = []
        for bank in range(words):
            store = memory_of(config, shape=data.ArrayLayout(config.rows.lanes, PLANES),
                              depth=self.depth)
            m.submodules[f"bank_{bank}"] = store
            write = store.write_port(granularity=1)
            read = store.read_port()
            banks.append((write, read))
        # Places count groups of 4 values, with a bit more than the memories have, so that full and
        # empty differ.
        place = Signal(range(2 * self.depth * config.bus_width // GROUP))
        complete = Signal(range(2 * self.depth))        # beats of every plane
        self._write(m, banks, place, complete)
        self._read(m, banks, place, complete)
        with m.If(self.start | self.stop):
            m.d.sync += [place.eq(0), complete.eq(0), self.o.valid.eq(0)]
        return m

    def _write(self, m, banks, place, complete):
        """Beats to the places of their planes; ``complete`` moves on with the last plane of a
        chunk.
        """
        config = self.config
        m.submodules.chunks = chunks = Chunks()
        plane = Signal(range(PLANES))
        beat = Signal(range(self.depth // 2))       # in the chunk
        at = Signal.like(complete)
        last = Signal()
        put = Signal()
        taken = place // (config.bus_width // GROUP)
        stored = Signal.like(complete)
        m.d.comb += [
            at.eq(complete + beat), stored.eq(at - taken),
            self.i.ready.eq(chunks.valid & ~stored[-1] & ~self.stop),
            put.eq(self.i.valid & self.i.ready),
            last.eq(beat == chunks.size * (ALIGNMENT // config.rows.beat_bytes) - 1),
            chunks.start.eq(self.start), chunks.stop.eq(self.stop),
            chunks.plane_units.eq(self.plane_units), chunks.units.eq(self.units),
        ]
        with m.If(put):
            m.d.sync += beat.eq(beat + 1)
            with m.If(last):
                m.d.sync += [beat.eq(0), plane.eq(plane + 1)]
                with m.If(plane == self.planes - 1):
                    m.d.comb += chunks.next.eq(1)
                    m.d.sync += [plane.eq(0), complete.eq(at + 1)]
        # Plane p is bit b - 1 - p of its codes. The highest bit is the sign, turned around, and
        # fills all bits from there on.
        sign = Signal()
        bit = Signal(range(PLANES))
        m.d.comb += [sign.eq(plane == 0), bit.eq(self.planes - 1 - plane)]
        wanted = Cat((bit == number) | (sign & (bit < number)) for number in range(PLANES))
        for (write, _), word in zip(banks, _words(self.i.payload, config.rows.lanes), strict=True):
            m.d.comb += [
                write.addr.eq(at), write.en.eq(Mux(put, wanted, 0)),
                write.data.as_value().eq(
                    (word ^ sign.replicate(config.rows.lanes)).replicate(PLANES)),
            ]
        with m.If(self.start | self.stop):
            m.d.sync += [beat.eq(0), plane.eq(0)]

    def _read(self, m, banks, place, complete):
        """Slots, as soon as all planes of their values are there."""
        config = self.config
        per_slot = config.rows.lanes // GROUP            # groups
        last = Signal()
        slot = Signal.like(self.beats)
        rows_left = Signal(32)
        advance = Signal.like(self.last_groups)
        left = Signal.like(place)
        there = Signal()
        issue = Signal()
        free = Signal()
        fetched = Signal()
        m.d.comb += [
            advance.eq(Mux(last, self.last_groups, per_slot)),
            left.eq(complete * (config.bus_width // GROUP) - place),
            there.eq((left >= advance) & (rows_left != 0)),
            free.eq(~fetched | ~self.o.valid | self.o.ready), issue.eq(there & free),
        ]
        with m.If(issue):
            m.d.sync += [place.eq(place + advance), slot.eq(slot + 1),
                         last.eq(slot == self.beats - 2)]
            with m.If(last):
                m.d.sync += [slot.eq(0), last.eq(self.beats == 1), rows_left.eq(rows_left - 1)]
        within = Signal(range(per_slot))        # of what was fetched
        word = Signal(range(len(banks)))
        group, first = place[:len(within)], place[len(within):][:len(word)]
        beat = place[len(within) + len(word):]
        for number, (_, read) in enumerate(banks):
            m.d.comb += [read.en.eq(free), read.addr.eq(beat + (first > number))]
        with m.If(free):
            m.d.sync += [fetched.eq(issue), within.eq(group), word.eq(first)]
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [self.o.valid.eq(fetched),
                         self.o.payload.eq(self._slot(banks, within, word))]
        with m.If(self.start | self.stop):
            m.d.sync += [fetched.eq(0), slot.eq(0), last.eq(self.beats == 1),
                         rows_left.eq(Mux(self.stop, 0, self.rows))]

    def _slot(self, banks, within, word):
        """The codes of a slot, which begins at a group of a word."""
        lanes = self.config.rows.lanes
        bits = []
        for number in range(PLANES):
            parts = [read.data[number] for _, read in banks]
            pair = Cat(Array(parts)[word], Array([*parts[1:], parts[0]])[word])
            bits.append((pair >> within * GROUP)[:lanes])
        return Cat(bit[lane] for lane in range(lanes) for bit in bits)


def _words(beat, width):
    """Words of so many bits of a beat."""
    return [beat[at:at + width] for at in range(0, len(beat), width)]
