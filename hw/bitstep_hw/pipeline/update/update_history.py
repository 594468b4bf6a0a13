"""Which updates a row on its way through a solver can see."""

from itertools import pairwise

from amaranth import Array, Mux, Signal, signed

from bitstep.pipeline.config import UPDATE_WIDTH, solver_stages


class UpdateHistory:
    """The updates c of the last rows, and the places of the rows on their way.

    Time is counted backwards: a row is at place p when its c will be in the newest register p
    cycles later; it enters at place ``entry``. Rows follow each other at any distance of at least
    ``recursion`` cycles, so how many of them have shifted the registers since is counted.

    Parameters
    ----------
    m : Module
        Of the solver that uses this.
    config : PipelineConfig
    valid, idle_row, clear : Signal
        A row enters; it only fills a slot and has c = 0; every c is forgotten.

    Attributes
    ----------
    entry : int
        Place where a row enters.
    at, idle : dict of Signal
        By place: whether a row is there, and whether it is an idle one.
    newest : Signal
        c of the row at place 0.
    """

    def __init__(self, m, config, *, valid, idle_row, clear):
        self._m, self._clear, self._recursion = m, clear, config.recursion
        self.entry = solver_stages(config.recursion) + config.solver_lead
        self.at, self.idle = {self.entry: valid}, {self.entry: idle_row}
        for place in range(self.entry - 1, -1, -1):
            self.at[place] = Signal(name=f"at_{place}")
            self.idle[place] = Signal(name=f"idle_{place}", reset_less=True)
            m.d.sync += [self.at[place].eq(self.at[place + 1]),
                         self.idle[place].eq(self.idle[place + 1])]
        self._history = [Signal(signed(UPDATE_WIDTH), name=f"c_{age}")
                         for age in range(max(config.lookahead, 1))]
        self.newest = self._history[0]

    def before(self, d, place):
        """c_(i-d), signed, for the row i that is at ``place``, at most ``d * recursion``."""
        between = sum(self.at[p] for p in range(1, place))
        most = (place - 1) // self._recursion
        options = [self._history[d - 1 - skipped] for skipped in range(min(most, d - 1) + 1)]
        chosen = Signal(signed(UPDATE_WIDTH), name=f"c_before_{d}")
        self._m.d.comb += chosen.eq(Array(options)[between] if len(options) > 1 else options[0])
        return chosen

    def push(self, update):
        """Take ``update``, of the row at place 1, into the history; 0 for an idle row."""
        with self._m.If(self.at[1]):
            self._m.d.sync += self.newest.eq(Mux(self.idle[1], 0, update))
            for newer, older in pairwise(self._history):
                self._m.d.sync += older.eq(newer)
        with self._m.If(self._clear):
            self._m.d.sync += [c.eq(0) for c in self._history]
