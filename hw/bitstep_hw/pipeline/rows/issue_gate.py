"""Gate that lets a slot enter when nothing it needs is missing."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_FEATURES, MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import KEPT, delay


class IssueGate(wiring.Component):
    """Gate that decides in every cycle whether a slot enters.

    A row begins when the row D + 1 before it has its update, with D the run's look-ahead; rows end
    at least ``update_interval`` cycles apart; if these are 4, slots with the same index are, too. A
    row with data also needs its beats, and its label with the last of them. Stores when rows ended,
    ``config.latency`` bits, and ``solver.fine`` more.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``latency``, ``update_interval``, ``clock.fast`` and ``drains``.

    Members
    -------
    beats : In
        Beats of a row, as the register; constant.
    lookahead : In
        D, as the register; constant.
    entering : In(1)
        Rows with data may enter.
    carrying : In(1)
        Rows without data enter.
    fill : In(1)
        While ``entering``: the row is put in without data.
    stuck : In(1)
        A row with data must not begin; with ``drains`` none while ``carrying``.
    held : In(1)
        No slot may enter.
    first, last : In(1)
        The slot is the first of its row; it is the last.
    beat_valid, label_valid : In(1)
        There is a beat; there is a label.
    fine : In(1)
        With ``solver.fine``: updates come so many cycles later; constant during an epoch.
    issue : Out(1)
        A slot enters.
    row_ends : Out(1)
        It is the last of its row.
    counted : Out(1)
        It is the last of a row with data.
    too_close : Out(1)
        The slot must wait for the rows before to be far enough away.
    too_many : Out(1)
        The row must wait, because ``lookahead + 1`` rows before it have no update yet.
    outstanding : Out
        Rows that have entered and have no update yet.
    none_outstanding : Out(1)
        With ``update_interval`` 1, a register: there are none.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "beats": In(range(MAX_FEATURES + 1)), "lookahead": In(range(MAX_LOOKAHEAD + 1)),
            "entering": In(1), "carrying": In(1), "fill": In(1), "stuck": In(1), "held": In(1),
            "first": In(1), "last": In(1), "beat_valid": In(1), "label_valid": In(1),
            **({"fine": In(1)} if config.stages.solver.fine else {}),
            "issue": Out(1), "row_ends": Out(1), "counted": Out(1),
            "too_close": Out(1), "too_many": Out(1),
            "outstanding": Out(range(MAX_LOOKAHEAD + 2)),
            "none_outstanding": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        issue, row_ends, counted, waits, complete, with_data, without_data = (
            Signal(name=name, attrs=KEPT) for name in (
                "issue", "row_ends", "counted", "waits", "complete", "with_data", "without_data"))
        just = delay(m, row_ends, 1, name="just_ended")
        full = self._count_outstanding(m, row_ends, just)
        m.d.comb += [self.too_close.eq(self._close(m, row_ends, just)),
                     self.too_many.eq(self.first & full)]
        # So much hangs on this that it gets as few levels of logic as it can.
        m.d.comb += [
            waits.eq(self.too_close | self.too_many),
            complete.eq(self.beat_valid & (~self.last | self.label_valid)),
            with_data.eq(self.entering & ~self.fill & ~(self.first & self.stuck)),
            without_data.eq((self.carrying & ~(self.first & self.stuck) if self.config.drains
                             else self.carrying) | (self.entering & self.fill)),
            issue.eq(((with_data & complete) | without_data) & ~waits & ~self.held),
            row_ends.eq(((with_data & complete) | without_data) & self.last & ~waits & ~self.held),
            counted.eq(with_data & complete & self.last & ~waits & ~self.held),
            self.issue.eq(issue), self.row_ends.eq(row_ends), self.counted.eq(counted),
        ]
        return m

    def _count_outstanding(self, m, row_ends, just):
        """Count rows without an update; returns the flag that a further row must wait."""
        # The row that ended in the cycle before is not counted in.
        earlier = Signal(range(MAX_LOOKAHEAD + 2))
        finished = delay(m, row_ends, self.config.latency - 1, name="finished")
        if self.config.stages.solver.fine:
            late = delay(m, finished, self.config.stages.solver.fine, name="late_finished")
            finished = Mux(self.fine, late, finished)
        m.d.comb += self.outstanding.eq(earlier + just)
        if self.config.clock.every_cycle:
            m.d.sync += self.none_outstanding.eq((self.outstanding == finished) & ~row_ends)
        # For the case that a row ends now, and that none does.
        full = Signal()
        m.d.sync += [
            earlier.eq(self.outstanding - finished),
            full.eq(Mux(row_ends, self.outstanding + 1 - finished > self.lookahead,
                        self.outstanding - finished > self.lookahead)),
        ]
        return full

    def _close(self, m, row_ends, just):
        """1 if the rows before ended too short a time ago for this slot."""
        if self.config.clock.every_cycle:
            return C(0)
        # Rows that ended in one of the last ``update_interval`` - 1 cycles.
        ended = [row_ends, *(delay(m, row_ends, age, name=f"ended_{age}")
                             for age in range(1, self.config.update_interval - 1))]
        recent = Signal()
        m.d.sync += recent.eq(Cat(ended).any())
        if not self.config.clock.fast:
            return self.last & recent
        # Rows of 2 and 3 beats would have the same words read 2 and 3 cycles apart; the store
        # needs 4.
        close = Signal()
        pairs = Signal()
        short = Signal()
        m.d.sync += [pairs.eq(self.beats == 2), short.eq(pairs | (self.beats == 3)),
                     close.eq((row_ends & short) | (just & pairs))]
        return (self.last & recent) | close
