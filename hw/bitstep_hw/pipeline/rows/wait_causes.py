"""Causes for which no row enters, one a cycle."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.pipeline.rows.phases import Phase


class WaitCauses(wiring.Component):
    """The cause that counts in this cycle, combinationally: the first one that holds. None while a
    row with data enters, but for rows that come again.

    Members
    -------
    phase : In(Phase)
        Phase of the epoch.
    idle_row : In(1)
        The row that enters next has no data.
    replaying : In(1)
        Rows come again, from the strobe to the decision of the first of them.
    held : In(1)
        A row is fetched again.
    stuck : In(1)
        A row must not begin: a correction is awaited.
    too_close : In(1)
        The rows before are not far enough away.
    too_many : In(1)
        The row ``lookahead + 1`` before has no update.
    first, last : In(1)
        The next slot is the first of its row; it is the last.
    beat_valid, label_valid : In(1)
        There is a beat; there is a label.
    wait_refetch, wait_correction, wait_recursion, wait_lookahead, wait_rows, wait_labels : Out(1)
        The row waits for what the name says, in this order of precedence. ``wait_refetch`` also
        with ``replaying``.
    flushing : Out(1)
        Rows without data enter, or nothing does until their updates are there.
    """

    def __init__(self):
        super().__init__({
            "phase": In(Phase), "idle_row": In(1), "replaying": In(1), "held": In(1),
            "stuck": In(1), "too_close": In(1), "too_many": In(1),
            "first": In(1), "last": In(1), "beat_valid": In(1), "label_valid": In(1),
            "wait_refetch": Out(1), "wait_correction": Out(1), "wait_recursion": Out(1),
            "wait_lookahead": Out(1), "wait_rows": Out(1), "wait_labels": Out(1),
            "flushing": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        entering = (self.phase == Phase.ROWS) & ~self.idle_row
        blocked = 0
        for wait, holds in (
                (self.wait_refetch, self.held), (self.wait_correction, self.first & self.stuck),
                (self.wait_recursion, self.too_close), (self.wait_lookahead, self.too_many),
                (self.wait_rows, ~self.beat_valid),
                (self.wait_labels, self.last & ~self.label_valid)):
            m.d.comb += wait.eq(entering & holds & ~blocked)
            blocked = blocked | holds
        with m.If(self.replaying):
            m.d.comb += self.wait_refetch.eq(1)
        m.d.comb += self.flushing.eq((self.phase != Phase.IDLE) & ~entering & ~self.replaying)
        return m
