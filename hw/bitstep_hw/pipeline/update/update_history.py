"""Updates of the last rows, as each row in the solver may see them."""

from itertools import pairwise

from amaranth import Array, Mux, Signal, signed

from bitstep.pipeline.parts.widths import UPDATE_WIDTH


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
        Gives ``update_interval``, ``correlated_rows`` and ``solver.lead``.
    valid : Signal
        Strobe: a row enters.
    idle_row : Signal
        The row only fills a slot and has c = 0.
    clear : Signal
        Strobe: every c is forgotten.

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

    def __init__(self, m, config, *, valid, idle_row, clear):
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
                         for age in range(max(config.stages.solver.correlated_rows, 1))]
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

    def push(self, update):
        """Take ``update``, of the row with one cycle left, into the history; 0 for an idle row."""
        with self._m.If(self.stage_valid[1]):
            self._m.d.sync += self.newest.eq(Mux(self.stage_idle[1], 0, update))
            for newer, older in pairwise(self._history):
                self._m.d.sync += older.eq(newer)
        with self._m.If(self._clear):
            self._m.d.sync += [c.eq(0) for c in self._history]
