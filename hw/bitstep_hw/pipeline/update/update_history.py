"""Updates of the last rows, as each row in the solver may see them."""

from itertools import pairwise

from amaranth import Array, Mux, Signal, signed
from amaranth.lib import memory

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD, UPDATE_WIDTH
from bitstep_hw.parts.arithmetic import compress_registered, delay, partial_products

_SUMMED = 8         # terms that a cycle makes two numbers of


class UpdateHistory:
    """Registers with the updates c of the last rows, and with flags of the rows in the solver.

    Time is counted backwards: a row has p cycles left when its c will be in the newest register p
    cycles later. Rows follow each other at any distance of at least ``update_interval`` cycles,
    so how many of them have shifted the registers since is counted.

    Parameters
    ----------
    m : Module
        Module of the solver that uses this.
    config : PipelineConfig
        Gives ``update_interval`` and ``solver.lead``.
    valid : Signal
        Strobe: a row enters.
    idle_row : Signal
        The row only fills a slot and has c = 0.
    clear : Signal
        Strobe: every c is forgotten.
    rows : int
        Rows whose c is kept, at least 1.

    Attributes
    ----------
    entry : int
        Cycles left of a row that enters.
    dotted : int
        Cycles left of a row whose dot product comes.
    stage_valid : dict of Signal
        By cycles left: there is a row.
    stage_idle : dict of Signal
        By cycles left: the row only fills a slot.
    newest : Signal
        c of the row with no cycles left.
    """

    def __init__(self, m, config, *, valid, idle_row, clear, rows):
        self._m, self._clear, self._update_interval = m, clear, config.update_interval
        self.dotted = config.stages.solver.cycles
        self.entry = self.dotted + config.stages.solver.lead
        self.stage_valid, self.stage_idle = {self.entry: valid}, {self.entry: idle_row}
        for left in range(self.entry - 1, -1, -1):
            self.stage_valid[left] = Signal(name=f"valid_{left}")
            self.stage_idle[left] = Signal(name=f"idle_{left}", reset_less=True)
            m.d.sync += [self.stage_valid[left].eq(self.stage_valid[left + 1]),
                         self.stage_idle[left].eq(self.stage_idle[left + 1])]
        self._history = [Signal(signed(UPDATE_WIDTH), name=f"c_{age}") for age in range(rows)]
        self.newest = self._history[0]

    def before(self, d, cycles_left):
        """c_(i-d), signed, for the row i with so many cycles left, at most
        ``d * update_interval``.
        """
        between = sum(self.stage_valid[left] for left in range(1, cycles_left))
        most = (cycles_left - 1) // self._update_interval
        options = [self._history[d - 1 - skipped] for skipped in range(min(most, d - 1) + 1)]
        chosen = Signal(signed(UPDATE_WIDTH), name=f"c_before_{d}")
        self._m.d.comb += chosen.eq(Array(options)[between] if len(options) > 1 else options[0])
        return chosen

    def terms(self, products, distances, width):
        """Numbers whose sum modulo 2^width is that of c times ``products`` of the rows at these
        distances before, of the row whose dot product comes a cycle later. ``products`` come with
        the row that enters.
        """
        del width       # of sums, which there are none of
        return self._multiplied(products, distances, early=1)

    def _multiplied(self, products, distances, *, early):
        """Numbers whose sum is that of c times ``products``, which come in the cycle after c, or
        so many cycles ``early``.
        """
        m, terms = self._m, []
        for d in distances:
            # The choice among the updates takes a cycle of its own.
            update = delay(m, self.before(d, self.entry), 1, name=f"far_{d}_update")
            product = delay(m, products[d - 1], early, name=f"far_{d}_product")
            terms += partial_products(m, update, product, name=f"far_{d}")
        return terms

    def push(self, update):
        """Take ``update``, of the row with one cycle left, into the history; 0 for an idle row."""
        with self._m.If(self.stage_valid[1]):
            self._m.d.sync += self.newest.eq(Mux(self.stage_idle[1], 0, update))
            for newer, older in pairwise(self._history):
                self._m.d.sync += older.eq(newer)
        with self._m.If(self._clear):
            self._m.d.sync += [c.eq(0) for c in self._history]


class UpdateMemory(UpdateHistory):
    """A memory with the updates of the last rows, by the rows' numbers, where rows that come in
    every cycle look ahead from a batch to the next: distances begin ``idle_rows`` + 1 rows before a
    row, and so far back every row has its update.

    Parameters
    ----------
    m, config, valid, idle_row, clear
        As :class:`UpdateHistory`; of the configuration also ``lookahead``.
    idle_rows : Signal
        Rows without data between two batches; constant during an epoch.
    """

    def __init__(self, m, config, *, valid, idle_row, clear, idle_rows):
        super().__init__(m, config, valid=valid, idle_row=idle_row, clear=clear, rows=1)
        self._idle_rows = idle_rows
        m.submodules.updates = self._updates = memory.Memory(
            shape=signed(UPDATE_WIDTH), depth=1 << config.lookahead.bit_length(), init=[])
        write = self._updates.write_port()
        self._write = write
        # Number of the row that enters, and of the one with one cycle left; rows before it.
        self._entered = Signal.like(write.addr)
        self._pushed = Signal.like(write.addr)
        self._before = Signal(range(MAX_LOOKAHEAD + 1))
        m.d.comb += [write.addr.eq(self._pushed), write.en.eq(self.stage_valid[1])]
        with m.If(valid):
            m.d.sync += [self._entered.eq(self._entered + 1),
                         self._before.eq(self._before + (self._before < config.lookahead))]
        with m.If(self.stage_valid[1]):
            m.d.sync += self._pushed.eq(self._pushed + 1)
        with m.If(clear):
            m.d.sync += [self._entered.eq(0), self._pushed.eq(0), self._before.eq(0)]

    def before(self, d, cycles_left):
        """c of the row ``idle_rows`` + d before the row that enters, signed."""
        assert cycles_left == self.entry
        read = self._updates.read_port(domain="comb")
        distance = Signal(range(2 * MAX_LOOKAHEAD), name=f"distance_{d}")
        chosen = Signal(signed(UPDATE_WIDTH), name=f"c_before_{d}")
        # Words from before the epoch's first row are those of another one.
        self._m.d.sync += distance.eq(self._idle_rows + d)
        self._m.d.comb += [read.addr.eq(self._entered - distance),
                           chosen.eq(Mux(self._before >= distance, read.data, 0))]
        return chosen

    def terms(self, products, distances, width):
        """As :meth:`UpdateHistory.terms`; ``products`` come a cycle later, and a cycle is there to
        sum groups of the numbers.
        """
        terms = self._multiplied(products, distances, early=0)
        return [number for first in range(0, len(terms), _SUMMED) for number in compress_registered(
            self._m, terms[first:first + _SUMMED], width, valid=None, name=f"summed_{first}")]

    def push(self, update):
        """Take ``update``, of the row with one cycle left, into the memory; 0 for an idle row."""
        super().push(update)
        self._m.d.comb += self._write.data.eq(Mux(self.stage_idle[1], 0, update))
