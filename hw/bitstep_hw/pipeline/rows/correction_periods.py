"""Periods of the corrections: which rows sample the model, count a correction or commit it."""

from amaranth import C, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import delay


class CorrectionPeriods(wiring.Component):
    """Flags of a row that concern corrections, constant from a row's first slot to its last.

    A period begins with a *boundary*: its first row with data. The row D after a boundary, with D
    the run's look-ahead, samples the words, unless the period is the epoch's last. The correction
    that the period before has asked for counts from the boundary on and is committed by the row D
    after it. A boundary waits until its correction is ready, and until D + 1 rows have passed
    since the boundary before: rows without data fill a period that is too short.

    With ``drains`` a row without data comes before a boundary's first row, ``opens``, and does all
    of this alone: it waits, commits and samples.

    Flags change in the cycle after ``row_ends``. Stores a counter of rows.

    Parameters
    ----------
    drains : bool
        Batches begin with an empty pipeline.
    carries_on : bool
        Rows go on after a batch that no boundary follows.

    Members
    -------
    rows : In(32)
        Rows of the epoch, as the register; constant.
    period : In(32)
        Rows of a period, as the register; constant. 0: no corrections.
    lookahead : In
        D, as the register; constant.
    start : In(1)
        Strobe: an epoch starts.
    row_ends : In(1)
        Strobe: the last slot of a row enters.
    counted : In(1)
        Strobe: the last slot of a row with data enters.
    idle_row : In(1)
        The row has no data.
    rows_left : In(32)
        Rows with data that have not ended.
    open_rows : In
        Rows that have entered and are not decided.
    replay : In(1)
        Strobe: these rows must come again.
    replayed : In
        Their number with ``replay``, else 0.
    corrected : In(1)
        Strobe: the correction asked for by the last ``sample`` row is ready.
    opens : In(1)
        With ``drains``: the row has no data and comes before a boundary.
    corrects, will_correct : Out(1)
        The next row with data is the first of a period; with ``carries_on``, the one after it is.
    boundary : Out(1)
        The row is the first of a period.
    correct : Out(1)
        The pending correction counts for the row.
    commit : Out(1)
        The row writes the pending correction into the model.
    sample : Out(1)
        The row stores its words for the next correction.
    fill : Out(1)
        The row is put in without data, because its period is too short.
    stuck : Out(1)
        The row must wait, for a correction or for the decision of the rows before.
    """

    def __init__(self, *, drains=False, carries_on=False):
        self.drains, self.carries_on = drains, carries_on
        super().__init__({
            "rows": In(32), "period": In(32), "lookahead": In(range(MAX_LOOKAHEAD + 1)),
            "start": In(1), "row_ends": In(1), "counted": In(1), "idle_row": In(1),
            "rows_left": In(32), "open_rows": In(range(MAX_LOOKAHEAD + 2)),
            "replay": In(1), "replayed": In(range(MAX_LOOKAHEAD + 2)), "corrected": In(1),
            "boundary": Out(1), "correct": Out(1), "commit": Out(1), "sample": Out(1),
            "opens": In(1), "corrects": Out(1), "fill": Out(1), "stuck": Out(1),
            "will_correct": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        to_boundary = Signal(32)    # rows with data
        since = Signal(range(MAX_LOOKAHEAD + 2))
        at_boundary = Signal()      # to_boundary is 0, with corrections
        opening = Signal()          # the epoch's first boundary, which has no correction
        pending = Signal()          # the last boundary's correction is not ready
        # Of the row before: a correction belongs to its period; its period asks for one.
        added = Signal()
        needed = Signal()
        # Likewise of this row, and its distance from its boundary.
        adds = Signal()
        needs = Signal()
        distance = Signal.like(since)
        # With an empty pipeline all is done in one row, as without look-ahead.
        begins, lookahead = (self.opens, C(0)) if self.drains \
            else (self.boundary, self.lookahead)
        periods = self.period != 0
        if self.carries_on:
            periods = delay(m, periods, 1, name="periods")
        m.d.comb += [
            self.boundary.eq(at_boundary & ~self.idle_row),
            self.corrects.eq(Mux(self.start, periods, at_boundary)),
            distance.eq(Mux(begins, 0, since)),
            adds.eq(Mux(begins, ~opening, added)),
            needs.eq(Mux(begins, self._more(m), needed)),
        ]
        reached = distance == lookahead
        m.d.comb += [
            self.correct.eq(adds & (distance <= lookahead)),
            self.commit.eq(adds & reached),
            self.sample.eq(needs & reached),
        ]
        following = Signal()        # at_boundary, when this row has ended
        if self.carries_on:
            self._follow(m, following, at_boundary, to_boundary, periods)
        else:
            m.d.comb += following.eq((self.period != 0)
                                     & Mux(at_boundary, self.period == 1, to_boundary == 1))
        with m.If(self.row_ends):
            m.d.sync += [
                # Before a boundary every update of the period before must have met its words.
                self.fill.eq(Mux(self.idle_row, at_boundary, following)
                             & ~(opening & ~begins) & (distance < lookahead)),
                since.eq(Mux(distance > lookahead, distance, distance + 1)),
                added.eq(adds), needed.eq(needs),
            ]
            with m.If(begins):
                m.d.sync += [opening.eq(0), pending.eq(needs)]
        with m.If(self.counted):
            m.d.sync += [to_boundary.eq(Mux(at_boundary, self.period - 1, to_boundary - 1)),
                         at_boundary.eq(following)]
        with m.If(self.replay):
            # A boundary that comes again is a row as any other: its correction is under way.
            m.d.sync += [to_boundary.eq(to_boundary + self.replayed), at_boundary.eq(0),
                         self.fill.eq(0)]
        with m.If(self.corrected):
            m.d.sync += pending.eq(0)
        self._wait(m, at_boundary, ~opening & pending, following & Mux(
            at_boundary, needs, ~opening & pending))
        with m.If(self.start):
            m.d.sync += [to_boundary.eq(0), since.eq(0), at_boundary.eq(self.period != 0),
                         self.fill.eq(0), opening.eq(1), added.eq(0), needed.eq(0),
                         pending.eq(0)]
        return m

    def _follow(self, m, following, at_boundary, to_boundary, periods):
        """Drive ``following``, with ``will_correct``, by a register: rows come in every cycle, and
        whether they go on is asked late in it.
        """
        ones, twos = (delay(m, self.period == rows, 1, name=f"periods_of_{rows}")
                      for rows in (1, 2))
        with m.If(self.counted):
            m.d.sync += following.eq(Mux(following, ones, Mux(
                at_boundary, twos, (to_boundary == 2) & periods)))
        with m.If(self.start):
            m.d.sync += following.eq(ones)
        m.d.comb += self.will_correct.eq(following)

    def _wait(self, m, at_boundary, pending, follows):
        """Let a boundary wait for its correction; ``follows``: it will, when this row has ended."""
        # Of all registers' next values, so that the gate has one level of logic less.
        waits = Signal()            # at a boundary whose correction is still under way
        m.d.sync += waits.eq(~self.start & ~self.corrected & ~self.replay & Mux(
            self.counted, follows, at_boundary & pending))
        m.d.comb += self.stuck.eq(waits & self.opens if self.drains
                                  else waits | (at_boundary & (self.open_rows != 0)))

    def _more(self, m):
        """1 if a further period follows this row's, compared a cycle before it is asked."""
        more = Signal()
        beyond = Signal(33)
        enough = Signal()
        m.d.sync += [
            beyond.eq(self.period + 1), enough.eq(self.period < self.rows),
            more.eq(Mux(self.counted, beyond < self.rows_left, self.period < self.rows_left)),
        ]
        with m.If(self.start):
            m.d.sync += more.eq(enough)
        return more
