"""Codebooks, which turn the codes of rows into levels of 8 bits."""

from amaranth import Cat, Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.formats import CODEBOOK_LEVEL_BITS
from bitstep.pipeline.parts.widths import AUX_WIDTH, MAX_FEATURES
from bitstep_hw.parts.memories import memory_of

_LANES_OF_WORD = AUX_WIDTH // CODEBOOK_LEVEL_BITS


class Codebooks(wiring.Component):
    """Stage of the row stream: each lane's code is an index into the table of its feature.

    One beat a cycle, a cycle long. Storage: a beat of levels, and a memory for each lane, of
    ``max_beats << bits`` levels. Golden model: :func:`bitstep.pipeline.levels.look_up`.

    The words of the tables come before the first beat: for each beat of a row, for each code, a
    level of every lane, 8 lanes a word (docs/memory-layout.md).

    Parameters
    ----------
    config : PipelineConfig
        Gives ``bus_width``, ``bits``, ``lanes``, ``max_beats`` and ``clock.fast``.

    Members
    -------
    i_tables : In(stream.Signature(64))
        Words of the tables; always ready.
    done : Out(1)
        Strobe beside the last word of the tables.
    words : In(32)
        Words of the tables; constant from ``clear`` on, as ``beats``.
    beats : In
        Beats of a row.
    i : In(stream.Signature(bus_width))
        Beats of codes; taken from the second cycle after ``done`` on.
    o : Out(stream.Signature(8 * lanes))
        Beats of levels.
    clear : In(1)
        Forgets the beat that is stored, and the place in tables and rows.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "i_tables": In(stream.Signature(AUX_WIDTH)), "done": Out(1), "words": In(32),
            "beats": In(range(MAX_FEATURES + 1)),
            "i": In(stream.Signature(config.bus_width)),
            "o": Out(stream.Signature(config.rows.lanes * CODEBOOK_LEVEL_BITS)),
            "clear": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        config, depth = self.config, self.config.rows.max_beats << self.config.bits
        advance = Signal()
        beat = Signal(range(config.rows.max_beats))
        group, place, left = self._place(m, depth)
        loaded = Signal()       # rows are read ahead of the tables
        m.d.comb += [advance.eq(~self.o.valid | self.o.ready), self.i.ready.eq(advance & loaded),
                     self.i_tables.ready.eq(1)]
        m.d.sync += loaded.eq(left == 0)
        with m.If(advance):
            m.d.sync += self.o.valid.eq(self.i.valid & loaded)
            with m.If(self.i.valid & loaded):
                m.d.sync += beat.eq(beat + 1)
                with m.If(beat + 1 == self.beats):
                    m.d.sync += beat.eq(0)
        for lane in range(config.rows.lanes):
            levels = memory_of(config, shape=signed(CODEBOOK_LEVEL_BITS), depth=depth)
            m.submodules[f"levels_{lane}"] = levels
            write = levels.write_port()
            read = levels.read_port()
            code = self.i.payload[lane * config.bits:(lane + 1) * config.bits]
            word = lane % _LANES_OF_WORD * CODEBOOK_LEVEL_BITS
            m.d.comb += [
                write.en.eq(self.i_tables.valid & (group == lane // _LANES_OF_WORD)),
                write.addr.eq(place),
                write.data.eq(self.i_tables.payload[word:word + CODEBOOK_LEVEL_BITS].as_signed()),
                read.en.eq(advance), read.addr.eq(Cat(code, beat)),
                self.o.payload.word_select(lane, CODEBOOK_LEVEL_BITS).eq(read.data),
            ]
        with m.If(self.clear):
            m.d.sync += [self.o.valid.eq(0), beat.eq(0), group.eq(0), place.eq(0),
                         left.eq(self.words), loaded.eq(0)]
        return m

    def _place(self, m, depth):
        """Place of the word of the tables that comes next; returns the group of lanes, the address
        in their memories, and the words that are left.
        """
        groups = self.config.rows.row_words
        group = Signal(range(groups))
        place = Signal(range(depth))
        left = Signal(32)
        with m.If(self.i_tables.valid):
            m.d.sync += [left.eq(left - 1), group.eq(group + 1)]
            with m.If(group == groups - 1):
                m.d.sync += [group.eq(0), place.eq(place + 1)]
        m.d.comb += self.done.eq(self.i_tables.valid & (left == 1))
        return group, place, left
