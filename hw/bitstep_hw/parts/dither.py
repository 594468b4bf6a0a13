"""Random bits of the rows, by which their updates are rounded up or down."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH, ROWS_PER_BLOCK
from bitstep.golden.threefry import GROUP, PARITY, ROTATIONS, ROUNDS

KEY_WIDTH = 32
_GROUPS = ROUNDS // GROUP


class Dither(wiring.Component):
    """Sixteen random bits for one row after the other, from Threefry-2x32-20.

    The engine makes a block for four rows in ``config.stages.dither.cycles`` cycles: four rounds
    and the injection of the key that follows them in one cycle, or, where rows are 4 cycles apart
    and more, in three. The block of four rows is kept while the next one is made. The first row may
    be taken ``config.stages.dither.cycles + 2`` cycles after ``restart``, and rows
    ``config.update_interval`` cycles apart; after a restart within a block, the next row as late
    as the first. Storage: two blocks of 64 bits. Golden model:
    :func:`bitstep.golden.dither.dithers`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``dither.cycles``.
    stream : int
        Second word of the generator's key: 0 for rows.

    Members
    -------
    key : In(32)
        Key of the epoch; constant from ``restart`` on.
    counter : In(32)
        Second word of the generator's counter; constant from ``restart`` on.
    restart : In(1)
        Strobe: the next row is number ``row``.
    row : In(32)
        Number of a row in its epoch.
    take : In(1)
        Strobe: ``o`` is used, the next row's bits are wanted.
    o : Out(16)
        Bits of the next row.
    valid : Out(1)
        ``o`` is there. Nothing waits for it: a caller that keeps the times above need not ask.
    """

    def __init__(self, *, config, stream=0):
        self.config, self.stream = config, stream
        super().__init__({
            "key": In(KEY_WIDTH), "counter": In(KEY_WIDTH),
            "restart": In(1), "row": In(32),
            "take": In(1),
            "o": Out(DITHER_WIDTH),
            "valid": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        block = Signal(ROWS_PER_BLOCK * DITHER_WIDTH)
        index = Signal(range(ROWS_PER_BLOCK))
        number = Signal(32)                     # of the next block
        made = Signal()                 # the engine has a block
        fetch = Signal()                # it becomes ``block``
        load = Signal()
        # A cycle after the last bits of a block are taken: that is soon enough, since rows are two
        # cycles apart, and what takes them comes late in its cycle.
        m.d.comb += [
            self.o.eq(block.word_select(index, DITHER_WIDTH)),
            fetch.eq(made & ~self.valid),
            load.eq(self.restart | fetch),
        ]
        with m.If(self.take):
            m.d.sync += index.eq(index + 1)
            with m.If(index == ROWS_PER_BLOCK - 1):
                m.d.sync += self.valid.eq(0)
        first, second = self._engine(m, load, Mux(self.restart, self.row[2:], number), made)
        with m.If(fetch):
            m.d.sync += [block.eq(Cat(first, second)), self.valid.eq(1), number.eq(number + 1)]
        with m.If(self.restart):
            m.d.sync += [index.eq(self.row), self.valid.eq(0), number.eq(self.row[2:] + 1)]
        return m

    def _engine(self, m, load, number, made):
        """The words of the block ``number``; ``made`` is 1 from when they are ready until ``load``.
        """
        parts = self.config.stages.dither.cycles // _GROUPS      # cycles of a group
        x = Signal(32)
        y = Signal(32)
        group = Signal(range(_GROUPS))
        part = Signal(range(parts))
        following = Signal.like(group)
        last_part = part == parts - 1
        m.d.comb += following.eq(Mux(load, 0, group + (last_part & ~made)))
        # Where a group takes several cycles, what follows it may come a cycle late.
        add_x, add_y = self._injection(m, following if parts == 1 else group)
        m.d.sync += group.eq(following)
        with m.If(load):
            m.d.sync += [part.eq(0), made.eq(0)]
        with m.Elif(~made):
            m.d.sync += [part.eq(Mux(last_part, 0, part + 1)),
                         made.eq(last_part & (group == _GROUPS - 1))]
        first, second = number + self.key, self.counter + self.stream
        if parts == 1:
            new_x, new_y = self._rounds(x, y, group[0], None, range(GROUP))
            with m.If(load):
                m.d.sync += [x.eq(first), y.eq(second)]
            with m.Elif(~made):
                m.d.sync += [x.eq(new_x + add_x), y.eq(new_y + add_y)]
        else:
            # The second round's sum is the last to come: behind it there is one choice alone.
            new_x, new_y = self._rounds(x, y, group[0], part[0], range(GROUP // 2))
            others = Signal()
            other_x = Signal(32)
            other_y = Signal(32)
            m.d.comb += [others.eq(load | last_part),
                         other_x.eq(Mux(load, first, x + add_x)),
                         other_y.eq(Mux(load, second, y + add_y))]
            with m.If(load | ~made):
                m.d.sync += [x.eq(Mux(others, other_x, new_x)), y.eq(Mux(others, other_y, new_y))]
        return x, y

    def _rounds(self, x, y, odd, second_half, numbers):
        """The words after the rounds ``numbers`` of a group that is ``odd`` or not; with
        ``second_half``, a flag or None, after those half a group later.
        """
        def turned(y, number):
            return Mux(odd, y.rotate_left(ROTATIONS[number + GROUP]),
                       y.rotate_left(ROTATIONS[number]))

        for number in numbers:
            x = (x + y)[:32]
            turn = turned(y, number)
            if second_half is not None:
                turn = Mux(second_half, turned(y, number + GROUP // 2), turn)
            y = turn ^ x
        return x, y

    def _injection(self, m, group):
        """Registers with the key's part in the words after a group."""
        keys = (self.key, C(self.stream, KEY_WIDTH), self.key ^ PARITY ^ self.stream)
        add_x = Signal(KEY_WIDTH)
        add_y = Signal(KEY_WIDTH)
        with m.Switch(group):
            for number in range(_GROUPS):
                with m.Case(number):
                    m.d.sync += [add_x.eq(keys[(number + 1) % 3]),
                                 add_y.eq(keys[(number + 2) % 3] + (number + 1))]
        return add_x, add_y
