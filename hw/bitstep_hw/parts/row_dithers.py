"""Random bits of rows that come in every cycle, by which their updates are rounded up or down."""

from amaranth import C, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH, ROWS_PER_BLOCK
from bitstep.golden.threefry import GROUP, PARITY, ROTATIONS, ROUNDS
from bitstep.pipeline.parts.stages import ROW_DITHER_CYCLES
from bitstep_hw.parts.arithmetic import compressed_sum, delay
from bitstep_hw.parts.dither import KEY_WIDTH

_AHEAD = 16             # rows whose bits are generated before they come in; a power of two
_ROUNDS_WITHOUT_SUM = 2


class RowDithers(wiring.Component):
    """Sixteen random bits for every row, from Threefry-2x32-20, with a row in every cycle.

    Bits are generated ahead of the rows, a round in a stage, and wait in a memory until their rows
    need them: no round then shares its cycle with another one, and none needs an enable, which
    would drive a thousand registers. The first stage has three rounds, of which two have no sum;
    what the key adds in the end is the last, with the choice of a row's bits. Storage: 64 bits a
    stage, and 16 for each row ahead. Golden model: :func:`bitstep.golden.dither.dithers`.

    Parameters
    ----------
    cycles : int
        Cycles from a row to its bits, at least 6. The first row of an epoch comes so late that they
        and those since ``restart`` are more than
        :data:`bitstep.pipeline.parts.stages.ROW_DITHER_CYCLES`.

    Members
    -------
    key : In(32)
        Key of the epoch; constant from ``restart`` on.
    restart : In(1)
        Strobe: the next row is the epoch's first, and all rows before have their bits, or need
        none.
    row : In(1)
        Strobe: there is a row.
    o : Out(16)
        Bits of the row so many cycles ago.
    """

    def __init__(self, *, cycles):
        self.cycles = cycles
        super().__init__({"key": In(KEY_WIDTH), "restart": In(1), "row": In(1),
                          "o": Out(DITHER_WIDTH)})

    def elaborate(self, platform):
        m = Module()
        # The first word of a row's block, and the row's place in it.
        first = Signal(32)
        place = Signal(range(ROWS_PER_BLOCK))
        ahead = Signal(range(_AHEAD + 1))       # rows that have begun here, but not come in
        begins = ~ahead[-1]
        m.d.sync += ahead.eq(ahead + begins - self.row)
        with m.If(begins):
            m.d.sync += Cat(place, first).eq(Cat(place, first) + 1)
        block, stages = self._block(m, first)
        assert stages + 2 == ROW_DITHER_CYCLES
        # Rows that are on their way through the stages, and then in the register behind them.
        passing = Signal(stages + 1)
        m.d.sync += passing.eq(Cat(begins, passing))
        self._keep(m, block, passing[-2], passing[-1])
        with m.If(self.restart):
            m.d.sync += [first.eq(self.key), place.eq(0), ahead.eq(0), passing.eq(0)]
        return m

    def _block(self, m, first):
        """Bits of the four rows of a block, and the registers before them."""
        # The second word is 0, and so is the key's: two rounds without a sum.
        x, turned = (first << 1)[:32], first.rotate_left(ROTATIONS[1])
        added = []
        for number in range(_ROUNDS_WITHOUT_SUM, ROUNDS):
            x, turned = self._round(x, turned ^ x, added, number)
            added = self._added(m, number)
            # The second word's exclusive or is left to what follows, which takes a level of logic
            # anyway, to add what the key adds.
            x, turned = (delay(m, word, 1, name=f"{name}_{number + 1}")
                         for word, name in ((x, "x"), (turned, "turned")))
        return Cat((x + added[0])[:32], ((turned ^ x) + added[1])[:32]), \
            ROUNDS - _ROUNDS_WITHOUT_SUM

    def _keep(self, m, block, chosen, written):
        """Keep the bits of the rows that have passed all stages until their rows need them.
        ``chosen`` and ``written``: a row's block is there, and its bits are in the register.
        """
        m.submodules.bits = bits = Memory(shape=DITHER_WIDTH, depth=_AHEAD, init=[])
        write = bits.write_port()
        read = bits.read_port(domain="comb")
        number = Signal(range(_AHEAD))
        needed = Signal(self.cycles - 1)        # by rows that came in so many cycles ago
        own = block.word_select(number[:ROWS_PER_BLOCK.bit_length() - 1], DITHER_WIDTH)
        m.d.comb += [
            write.en.eq(written), write.addr.eq(delay(m, number, 1, name="number")),
            write.data.eq(delay(m, own, 1, name="own")),
            self.o.eq(delay(m, read.data, 1, name="o")),
        ]
        m.d.sync += [number.eq(number + chosen), needed.eq(Cat(self.row, needed)),
                     read.addr.eq(read.addr + needed[-1])]
        with m.If(self.restart):
            m.d.sync += [number.eq(0), needed.eq(0), read.addr.eq(0)]

    def _round(self, x, y, added, number):
        """The first word after a round, and what the second one is but for an exclusive or with it;
        before the round ``added``, unless it is empty, counts in the words.
        """
        terms = [x, y]
        if added:
            y = (y + added[1])[:32]
            terms.append(added[2])
        return compressed_sum(terms, 32)[:32], y.rotate_left(ROTATIONS[number % len(ROTATIONS)])

    def _added(self, m, number):
        """What the key adds to the words after a round, and to their sum, in registers; empty
        for nothing. The key's second word is 0.
        """
        group, behind = divmod(number + 1, GROUP)
        if behind:
            return []
        keys = (self.key, C(0, KEY_WIDTH), self.key ^ PARITY)
        x, y = keys[group % 3], (keys[(group + 1) % 3] + group)[:32]
        return [delay(m, value, 1, name=f"added_{group}_{name}")
                for name, value in (("x", x), ("y", y), ("sum", (x + y)[:32]))]
