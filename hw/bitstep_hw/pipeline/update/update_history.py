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

    With ``batch_lookahead`` rows are asked for further back: c of all that have it are in a memory,
    by their number, and the nearest of them that a row asks for is ``idle_rows`` + 1 before it.

    Parameters
    ----------
    m : Module
        Module of the solver that uses this.
    config : PipelineConfig
        Gives ``update_interval``, ``correlated_rows``, ``solver.lead``, ``lookahead`` and
        ``batch_lookahead``.
    valid : Signal
        Strobe: a row enters.
    idle_row : Signal
        The row only fills a slot and has c = 0.
    clear : Signal
        Strobe: every c is forgotten.
    idle_rows : Signal, optional
        With ``batch_lookahead``: rows without data between two batches; constant.

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

    def __init__(self, m, config, *, valid, idle_row, clear, idle_rows=None):
        self._m, self._clear, self._update_interval = m, clear, config.update_interval
        self.dotted = config.stages.solver.cycles
        self.entry = self.dotted + config.stages.solver.lead
        self.stage_valid, self.stage_idle = {self.entry: valid}, {self.entry: idle_row}
        for left in range(self.entry - 1, -1, -1):
            self.stage_valid[left] = Signal(name=f"valid_{left}")
            self.stage_idle[left] = Signal(name=f"idle_{left}", reset_less=True)
            m.d.sync += [self.stage_valid[left].eq(self.stage_valid[left + 1]),
                         self.stage_idle[left].eq(self.stage_idle[left + 1])]
        self._history = [Signal(signed(UPDATE_WIDTH), name=f"c_{age}")
                         for age in range(1 if config.batch_lookahead else
                                          max(config.stages.solver.correlated_rows, 1))]
        self.newest = self._history[0]
        self._read_port = self._write = None
        if config.batch_lookahead:
            self._remember(config, valid, idle_rows)

    def _remember(self, config, valid, idle_rows):
        """A memory of the last rows' c, and the numbers of the rows."""
        m = self._m
        m.submodules.updates = updates = memory.Memory(
            shape=signed(UPDATE_WIDTH), depth=1 << config.lookahead.bit_length(), init=[])
        self._read_port = updates.read_port
        write = self._write = updates.write_port()
        # Number of the row that enters, and of the one with one cycle left; rows before it.
        self._entered, self._pushed = Signal.like(write.addr), Signal.like(write.addr)
        self._before = Signal(range(MAX_LOOKAHEAD + 1))
        self._idle_rows = idle_rows
        m.d.comb += [write.addr.eq(self._pushed), write.en.eq(self.stage_valid[1])]
        with m.If(valid):
            m.d.sync += [self._entered.eq(self._entered + 1),
                         self._before.eq(self._before + (self._before < config.lookahead))]
        with m.If(self.stage_valid[1]):
            m.d.sync += self._pushed.eq(self._pushed + 1)
        with m.If(self._clear):
            m.d.sync += [self._entered.eq(0), self._pushed.eq(0), self._before.eq(0)]

    def before(self, d, cycles_left):
        """c_(i-d), signed, for the row i with so many cycles left, at most
        ``d * update_interval``; with ``batch_lookahead`` c of the row ``idle_rows`` + d before, for
        the row that enters.
        """
        if self._read_port is not None:
            return self._recalled(d, self._read_port(domain="comb"))
        between = sum(self.stage_valid[left] for left in range(1, cycles_left))
        most = (cycles_left - 1) // self._update_interval
        options = [self._history[d - 1 - skipped] for skipped in range(min(most, d - 1) + 1)]
        chosen = Signal(signed(UPDATE_WIDTH), name=f"c_before_{d}")
        self._m.d.comb += chosen.eq(Array(options)[between] if len(options) > 1 else options[0])
        return chosen

    def terms(self, products, distances, width):
        """Numbers whose sum modulo 2^width is that of :meth:`before` times ``products``, of the row
        whose dot product comes a cycle later.
        """
        m, terms = self._m, []
        for d in distances:
            # The choice among the updates takes a cycle of its own.
            update = delay(m, self.before(d, self.entry), 1, name=f"far_{d}_update")
            product = products[d - 1] if self._read_port is not None \
                else delay(m, products[d - 1], 1, name=f"far_{d}_product")
            terms += partial_products(m, update, product, name=f"far_{d}")
        if self._read_port is None:
            return terms
        return [number for first in range(0, len(terms), _SUMMED) for number in compress_registered(
            m, terms[first:first + _SUMMED], width, valid=None, name=f"summed_{first}")]

    def _recalled(self, d, read):
        distance = Signal(range(2 * MAX_LOOKAHEAD), name=f"distance_{d}")
        recalled = Signal(signed(UPDATE_WIDTH), name=f"c_recalled_{d}")
        # Words from before the epoch's first row are those of another one.
        self._m.d.sync += distance.eq(self._idle_rows + d)
        self._m.d.comb += [read.addr.eq(self._entered - distance),
                           recalled.eq(Mux(self._before >= distance, read.data, 0))]
        return recalled

    def push(self, update):
        """Take ``update``, of the row with one cycle left, into the history; 0 for an idle row."""
        if self._write is not None:
            self._m.d.comb += self._write.data.eq(Mux(self.stage_idle[1], 0, update))
        with self._m.If(self.stage_valid[1]):
            self._m.d.sync += self.newest.eq(Mux(self.stage_idle[1], 0, update))
            for newer, older in pairwise(self._history):
                self._m.d.sync += older.eq(newer)
        with self._m.If(self._clear):
            self._m.d.sync += [c.eq(0) for c in self._history]
