"""Random bits of the rows of a beat, by which their updates are rounded up or down."""

from amaranth import C, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH, ROWS_PER_BLOCK
from bitstep.golden.threefry import GROUP, PARITY, ROTATIONS, ROUNDS
from bitstep_hw.parts.arithmetic import each
from bitstep_hw.parts.dither import KEY_WIDTH


class BeatDithers(wiring.Component):
    """Sixteen random bits for every row of one beat after the other, from Threefry-2x32-20.

    A beat a cycle. A stage for each four rounds, and as many generators side by side as blocks of
    four rows may have a part in a beat. The first beat's bits are there
    ``PACKED_DITHER_STAGES + 1`` cycles after ``restart``. Storage: 5 stages of 64 bits for each
    generator. Golden model: :func:`bitstep.golden.dither.dithers`.

    Parameters
    ----------
    rows_per_beat : int

    Members
    -------
    key : In(32)
        Key of the epoch; constant from ``restart`` on.
    restart : In(1)
        Strobe: the next beat is the first one.
    o : Out(stream.Signature(16 * rows_per_beat))
        Bits of a beat's rows, the first row's lowest.
    """

    def __init__(self, *, rows_per_beat):
        self.rows_per_beat = rows_per_beat
        super().__init__({"key": In(KEY_WIDTH), "restart": In(1),
                          "o": Out(stream.Signature(rows_per_beat * DITHER_WIDTH))})

    @property
    def generators(self):
        """Blocks that have rows of one beat, at most."""
        step = self.rows_per_beat & -self.rows_per_beat        # of a beat's first row, a power of 2
        latest = ROWS_PER_BLOCK - min(step, ROWS_PER_BLOCK)     # place in its block
        return (latest + self.rows_per_beat + ROWS_PER_BLOCK - 1) // ROWS_PER_BLOCK

    def elaborate(self, platform):
        m = Module()
        there = C(1)
        row = Signal(32)
        moves = Signal()
        m.d.comb += moves.eq(~self.o.valid | self.o.ready)
        place = row[:2]
        blocks = [((row[2:] + number + self.key)[:32], C(0, 32))
                  for number in range(self.generators)]
        blocks = [self._registers(m, moves, pair, f"start_{number}")
                  for number, pair in enumerate(blocks)]
        place, there = self._along(m, moves, place, there, 0)
        for group in range(ROUNDS // GROUP):
            blocks = [self._registers(m, moves, self._rounds(*pair, group), f"{group}_{number}")
                      for number, pair in enumerate(blocks)]
            place, there = self._along(m, moves, place, there, group + 1)
        with m.If(moves):
            m.d.sync += row.eq(row + self.rows_per_beat)
        with m.If(self.restart):
            m.d.sync += row.eq(0)
        bits = Cat(*(Cat(pair) for pair in blocks))
        m.d.comb += self.o.valid.eq(there)
        with m.Switch(place):
            for first in range(ROWS_PER_BLOCK):
                with m.Case(first):
                    m.d.comb += self.o.payload.eq(bits >> first * DITHER_WIDTH)
        return m

    def _along(self, m, moves, place, there, stage):
        """Place of the first row in its block, and whether there is a beat, a stage later."""
        later, valid = Signal(2, name=f"place_{stage}"), Signal(name=f"there_{stage}")
        with m.If(moves):
            m.d.sync += [later.eq(place), valid.eq(there)]
        with m.If(self.restart):
            m.d.sync += valid.eq(0)
        return later, valid

    def _registers(self, m, moves, pair, name):
        """Registers of a block's two words."""
        kept = [Signal(32, name=f"{word}_{name}", reset_less=True) for word in "xy"]
        with m.If(moves):
            m.d.sync += each(kept, pair)
        return kept

    def _rounds(self, x, y, group):
        """The words after four rounds, and after the key's part that follows them. The key's second
        word is 0.
        """
        for number in range(GROUP):
            x = (x + y)[:32]
            y = y.rotate_left(ROTATIONS[number + GROUP * (group % 2)]) ^ x
        keys = (self.key, C(0, KEY_WIDTH), self.key ^ PARITY)
        return ((x + keys[(group + 1) % 3])[:32],
                (y + keys[(group + 2) % 3] + (group + 1))[:32])
