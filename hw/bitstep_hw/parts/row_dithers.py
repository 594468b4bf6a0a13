"""Random bits of rows that come in every cycle, by which their updates are rounded up or down."""

from amaranth import C, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH, ROWS_PER_BLOCK
from bitstep.golden.threefry import GROUP, PARITY, ROTATIONS, ROUNDS
from bitstep.pipeline.parts.stages import ROW_DITHER_STAGES
from bitstep_hw.parts.arithmetic import compressed_sum, delay
from bitstep_hw.parts.dither import KEY_WIDTH

_ROUNDS_PER_STAGE = 2


class RowDithers(wiring.Component):
    """Sixteen random bits for every row, from Threefry-2x32-20, in a pipeline that rows pass.

    A row a cycle. Nothing waits, so no register needs an enable, which would drive a thousand of
    them. The first stage has four rounds, of which two have no sum, the others two; what the key
    adds in the end is the last, with the choice of a row's bits. Storage: 64 bits a stage. Golden
    model: :func:`bitstep.golden.dither.dithers`.

    Parameters
    ----------
    cycles : int
        Cycles from a row to its bits, at least
        :data:`bitstep.pipeline.parts.stages.ROW_DITHER_STAGES`.

    Members
    -------
    key : In(32)
        Key of the epoch; constant from ``restart`` on.
    restart : In(1)
        Strobe: the next row is the epoch's first.
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
        # The first word of the row's block, and the row's place in it.
        first, place = Signal(32), Signal(range(ROWS_PER_BLOCK))
        with m.If(self.row):
            m.d.sync += Cat(place, first).eq(Cat(place, first) + 1)
        with m.If(self.restart):
            m.d.sync += [first.eq(self.key), place.eq(0)]
        # The second word is 0, and so is the key's: two rounds without a sum.
        x, turned = (first << 1)[:32], first.rotate_left(ROTATIONS[1])
        ends = range(GROUP, ROUNDS + 1, _ROUNDS_PER_STAGE)
        added = []
        for begin, end in zip((2, *ends), ends, strict=False):
            for number in range(begin, end):
                x, turned = self._round(x, turned ^ x, added, number)
                added = self._added(m, number)
            # The second word's exclusive or is left to what follows, which takes a level of logic
            # anyway, to add what the key adds.
            x, turned = (delay(m, word, 1, name=f"{name}_{end}")
                         for word, name in ((x, "x"), (turned, "turned")))
        assert len(ends) + 1 == ROW_DITHER_STAGES
        block = Cat((x + added[0])[:32], ((turned ^ x) + added[1])[:32])
        chosen = block.word_select(delay(m, place, len(ends), name="place"), DITHER_WIDTH)
        m.d.comb += self.o.eq(delay(m, chosen, self.cycles - len(ends), name="chosen"))
        return m

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
