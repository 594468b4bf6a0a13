"""Phases of an epoch: rows, the rows that flush their updates, and what waits for these."""

from functools import reduce
from operator import or_

from amaranth import C, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import last_choice


class Phase(enum.Enum, shape=4):
    """Phase of an epoch.

    Attributes
    ----------
    IDLE
        No epoch.
    ROWS
        Rows with data enter.
    FLUSH
        Rows without data enter, which carry the last updates to the model's weights.
    SETTLE
        Nothing enters until every row has its update.
    PROXIMAL
        A proximal step is under way.
    REPLAY
        One row enters, alone: it could not be decided in company.
    DECISION
        That row's decision is awaited.
    BOUNDARY
        A row without data enters, in which a batch's first row finds its corrections.
    READY
        Nothing enters until that row's words are written.
    BATCH
        What a batch needs of its model is made.
    """

    IDLE = 0
    ROWS = 1
    FLUSH = 2
    SETTLE = 3
    PROXIMAL = 4
    REPLAY = 5
    DECISION = 6
    BOUNDARY = 7
    READY = 8
    BATCH = 9


class Phases(wiring.Component):
    """State machine of an epoch.

    Rows enter until the epoch's last one or one that a proximal step follows. Then come D + 1 rows
    without data, with D the run's look-ahead, and when these are through, the proximal step. A row
    that must come again is treated alike: D + 1 rows without data, then this row alone.

    With ``drains`` every batch ends likewise, with or without a proximal step. It begins with a row
    without data, if it is at a boundary of corrections, and with what ``batch_starts`` begins.

    A phase is there one cycle after the strobe that led to it. Stores two counters of rows, and
    one more with ``proximal``.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``proximal``, ``refetch`` and ``drains``.

    Members
    -------
    rows : In(32)
        Rows of the epoch, as the register; constant.
    lookahead : In
        D, as the register; constant.
    proximal_period : In(32)
        Rows between proximal steps, as the register; constant. 0: no such steps.
    start : In(1)
        Strobe: an epoch starts.
    stop : In(1)
        Ends the epoch, whatever its phase.
    first : In(1)
        The next slot is the first of its row.
    row_ends : In(1)
        Strobe: the last slot of a row enters.
    counted : In(1)
        Strobe: the last slot of a row with data enters.
    outstanding : In
        Rows that have entered and have no update yet.
    decided : In(1)
        Strobe: a row has its update.
    replay : In(1)
        Strobe: the rows that are not decided must come again.
    replayed : In
        Their number with ``replay``, else 0.
    proximal_done : In(1)
        Strobe: the proximal step is done.
    batch_ends, corrects : In(1)
        With ``drains``: the row that ends now is the last of its batch; the next row with data is
        the first of a period between corrections.
    batch_ready : In(1)
        With ``drains``, strobe: what ``batch_starts`` began is done.
    phase : Out(Phase)
        The phase.
    entering : Out(1)
        Register: rows with data may enter (``ROWS`` and ``REPLAY``).
    carrying : Out(1)
        Register: rows without data enter (``FLUSH`` and ``BOUNDARY``).
    rows_left : Out(32)
        Rows with data that have not ended.
    step_due : Out(1)
        A row that ends now is the last one before a proximal step.
    replay_alone : Out(1)
        The row in the pipeline meets exactly the words in the store.
    discard : Out(1)
        Register: the rows in the pipeline count for nothing, since they come again.
    rewind : Out(1)
        Strobe: the rows that are not decided must be offered again.
    proximal : Out(1)
        Strobe: the proximal step begins.
    batch_starts : Out(1)
        Strobe, with ``drains``: a batch begins, with every update and correction before it applied
        and no slot in the pipeline.
    done : Out(1)
        Strobe: every update of the epoch is applied.
    """

    def __init__(self, *, config, more=None):
        self.config = config
        super().__init__({
            "rows": In(32), "lookahead": In(range(MAX_LOOKAHEAD + 1)), "proximal_period": In(32),
            "start": In(1), "stop": In(1),
            "first": In(1), "row_ends": In(1), "counted": In(1),
            "outstanding": In(range(MAX_LOOKAHEAD + 2)),
            "decided": In(1), "replay": In(1), "replayed": In(range(MAX_LOOKAHEAD + 2)),
            "proximal_done": In(1),
            "phase": Out(Phase), "entering": Out(1), "carrying": Out(1),
            "rows_left": Out(32), "step_due": Out(1),
            "replay_alone": Out(1), "discard": Out(1), "rewind": Out(1),
            "proximal": Out(1), "done": Out(1),
            "batch_ends": In(1), "corrects": In(1), "batch_ready": In(1), "batch_starts": Out(1),
            **(more or {}),
        })

    def at_boundary(self):
        """1 in the phase ``BOUNDARY``."""
        return self.phase == Phase.BOUNDARY

    def elaborate(self, platform):
        m = Module()
        upcoming = Signal(Phase)
        m.d.comb += upcoming.eq(self.phase)
        # What decides about a slot in every cycle is one register each.
        m.d.sync += [
            self.phase.eq(upcoming),
            self.carrying.eq((upcoming == Phase.FLUSH) | (upcoming == Phase.BOUNDARY)),
            self.entering.eq((upcoming == Phase.ROWS) | (upcoming == Phase.REPLAY)),
        ]
        self._count_to_step(m)
        flush_left = Signal(range(MAX_LOOKAHEAD + 3))
        then_flush = Signal()
        # Compared a cycle before it is asked: rows are 2 cycles apart at least.
        last_row = Signal()
        none_left = Signal()
        m.d.sync += [last_row.eq(self.rows_left == 1), none_left.eq(self.rows_left == 0)]
        ends = last_row | self.step_due
        if self.config.drains:
            ends = ends | self.batch_ends
        with m.If(self.counted):
            m.d.sync += [self.rows_left.eq(self.rows_left - 1), then_flush.eq(ends)]
            with m.If(self.phase == Phase.REPLAY):
                m.d.comb += upcoming.eq(Phase.DECISION)
            with m.Elif(ends):
                m.d.comb += upcoming.eq(Phase.FLUSH)
                m.d.sync += flush_left.eq(self.lookahead + 1)
        with m.If(self.row_ends & (self.phase == Phase.FLUSH)):
            m.d.sync += flush_left.eq(flush_left - 1)
            with m.If(flush_left == 1):
                m.d.comb += upcoming.eq(Phase.SETTLE)
        begins = self._begin_batch(m, upcoming) if self.config.drains else Phase.ROWS
        self._settle(m, upcoming, none_left, self._step_follows(m, last_row), begins)
        if self.config.refetch:
            self._replay(m, upcoming, flush_left, then_flush)
        with m.If(self.start):
            m.d.comb += upcoming.eq(begins)
            m.d.sync += [self.rows_left.eq(self.rows), last_row.eq(self.rows == 1)]
        with m.If(self.stop):
            m.d.comb += upcoming.eq(Phase.IDLE)
            m.d.sync += self.discard.eq(0)
        return m

    def _count_to_step(self, m):
        """Count the rows before a proximal step."""
        if not self.config.proximal:
            return
        to_step = Signal(32)        # wraps below 0, so that rows may come again
        m.d.sync += to_step.eq(to_step - self.counted + self.replayed)
        with m.If(self.start | self.proximal):
            m.d.sync += to_step.eq(self.proximal_period - 1)
        self._tell_step(m, to_step)

    def _tell_step(self, m, to_step):
        m.d.comb += self.step_due.eq((self.proximal_period != 0) & (to_step == 0))

    def _step_follows(self, m, last_row):
        """1 if a proximal step follows the rows without data."""
        steps = (self.proximal_period != 0) & C(self.config.proximal)
        if not self.config.drains:
            return steps
        follows = Signal()
        with m.If(self.counted):
            m.d.sync += follows.eq(steps & (last_row | self.step_due))
        return follows

    def _begin_batch(self, m, upcoming):
        """Leave ``BOUNDARY``, ``READY`` and ``BATCH``; returns the phase that begins a batch."""
        starts = Signal(Phase)
        m.d.comb += starts.eq(Mux(self.corrects, Phase.BOUNDARY, Phase.BATCH))
        with m.Switch(self.phase):
            with m.Case(Phase.BOUNDARY):
                with m.If(self.row_ends):
                    m.d.comb += upcoming.eq(Phase.READY)
            with m.Case(Phase.READY):
                with m.If(self._through()):
                    m.d.comb += upcoming.eq(Phase.BATCH)
            with m.Case(Phase.BATCH):
                with m.If(self.batch_ready):
                    m.d.comb += upcoming.eq(Phase.ROWS)
        m.d.sync += self.batch_starts.eq((upcoming == Phase.BATCH) & (self.phase != Phase.BATCH)
                                         & ~self.stop)
        return starts

    def _through(self):
        """1 if every row that has entered has its update."""
        return self.outstanding == 0

    def _settle(self, m, upcoming, none_left, due, begins):
        """Leave ``SETTLE`` and ``PROXIMAL``, when every update has met its words."""
        through = Signal()
        settled = (self.phase == Phase.SETTLE) & self._through()
        with m.If(settled & self.discard):
            m.d.comb += [self.rewind.eq(1), upcoming.eq(Phase.REPLAY)]
            m.d.sync += self.discard.eq(0)
        with m.Elif(settled):
            m.d.comb += [self.proximal.eq(due), through.eq(~due), upcoming.eq(Phase.PROXIMAL)]
        with m.If(through | ((self.phase == Phase.PROXIMAL) & self.proximal_done)):
            m.d.comb += [self.done.eq(none_left),
                         upcoming.eq(Mux(self.done, Phase.IDLE, begins))]

    def _replay(self, m, upcoming, flush_left, then_flush):
        """A row whose look-ahead leaves it open comes again when the pipeline is empty: all
        updates before it are applied by rows without data, the rows after it are forgotten.
        """
        m.d.comb += self.replay_alone.eq(
            (self.phase == Phase.REPLAY) | (self.phase == Phase.DECISION) | (self.lookahead == 0))
        with m.If(self.replay):
            # What has begun as a row with data ends as one without.
            m.d.comb += upcoming.eq(Phase.FLUSH)
            m.d.sync += [self.discard.eq(1), self.rows_left.eq(self.rows_left + self.replayed),
                         flush_left.eq(self.lookahead + 1 + ~self.first)]
        with m.If((self.phase == Phase.DECISION) & self.decided):
            m.d.comb += upcoming.eq(Mux(then_flush, Phase.FLUSH, Phase.ROWS))
            m.d.sync += flush_left.eq(self.lookahead + 1)


class EveryCyclePhases(Phases):
    """The same where a row may end in every cycle, and batches end as with ``drains``. Whether a
    row ends is known late, so all else is chosen from before: the phases after a row with data,
    after one without, and after none.

    With ``carries_on`` a batch that neither a proximal step nor a boundary follows ends with D rows
    without data, and rows go on: the next one carries the batch's last update. With
    ``batch_lookahead`` there are fewer of them, ``idle_rows``, and a later row carries it.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``proximal``, ``carries_on`` and ``batch_lookahead``.

    Members
    -------
    none_outstanding : In(1)
        No row that has entered has no update yet.
    will_correct : In(1)
        With ``carries_on``: the row with data after the next one is the first of a period between
        corrections.
    idle_rows : In
        With ``batch_lookahead``: rows without data after a batch that rows go on after; constant.
    opens : Out(1)
        A register: the phase is ``BOUNDARY``.
    rows, lookahead, phase, ...
        Those of :class:`Phases`.
    """

    def __init__(self, *, config):
        super().__init__(config=config, more={
            **({"will_correct": In(1)} if config.carries_on else {}),
            **({"idle_rows": In(range(MAX_LOOKAHEAD + 1))} if config.batch_lookahead else {}),
            "opens": Out(1), "none_outstanding": In(1),
        })

    def at_boundary(self):
        """1 in the phase ``BOUNDARY``."""
        return self.opens

    def elaborate(self, platform):
        m = Module()
        self._count_to_step(m)
        last_row = Signal()
        none_left = Signal()
        flush_left = Signal(range(MAX_LOOKAHEAD + 3))
        m.d.sync += [last_row.eq(last_choice(m, self.counted, self.rows_left == 2,
                                             self.rows_left == 1, name="last_row")),
                     none_left.eq(self.rows_left == 0)]
        with m.If(self.counted):
            m.d.sync += self.rows_left.eq(self.rows_left - 1)
        goes_on, resumes = self._carry_on(m, last_row)
        between = self.idle_rows if self.config.batch_lookahead else self.lookahead
        with m.If(self.phase == Phase.ROWS):
            m.d.sync += flush_left.eq(Mux(goes_on, between, self.lookahead + 1))
        with m.Elif(self.row_ends):
            m.d.sync += flush_left.eq(flush_left - 1)
        row, idle_row, none = following = [Signal(Phase, name=f"after_{name}")
                                           for name in ("row", "idle_row", "none")]
        ends = last_row | self.step_due | self.batch_ends
        m.d.comb += [row.eq(Phase.ROWS), idle_row.eq(self.phase), none.eq(self.phase)]
        with m.If(ends & ~(goes_on & (between == 0))):
            m.d.comb += row.eq(Phase.FLUSH)
        with m.If((self.phase == Phase.FLUSH) & (flush_left == 1)):
            m.d.comb += idle_row.eq(Mux(resumes, Phase.ROWS, Phase.SETTLE))
        with m.Elif(self.phase == Phase.BOUNDARY):
            m.d.comb += idle_row.eq(Phase.READY)
        begins = self._begin_batch(m, none)
        self._settle(m, none, none_left, self._step_follows(m, last_row), begins)
        with m.If(self.start):
            m.d.comb += none.eq(begins)
            m.d.sync += [self.rows_left.eq(self.rows), last_row.eq(self.rows == 1)]
        with m.If(self.stop):
            m.d.comb += [phase.eq(Phase.IDLE) for phase in following]

        def becomes(*phases):
            after_row, after_idle_row, after_none = (
                reduce(or_, (one == phase for phase in phases)) for one in following)
            return Mux(self.counted, after_row, Mux(self.row_ends, after_idle_row, after_none))

        m.d.sync += [
            self.phase.eq(Mux(self.counted, row, Mux(self.row_ends, idle_row, none))),
            self.carrying.eq(becomes(Phase.FLUSH, Phase.BOUNDARY)),
            self.entering.eq(becomes(Phase.ROWS)), self.opens.eq(becomes(Phase.BOUNDARY)),
        ]
        return m

    def _carry_on(self, m, last_row):
        """Flags that rows go on after the batch's last row, which ends now, and that they do after
        the rows without data: if neither the epoch ends nor a proximal step or a correction
        follows.
        """
        if not self.config.carries_on:
            return C(0), C(0)
        goes_on = Signal()
        resumes = Signal()
        m.d.comb += goes_on.eq(self.batch_ends & ~(last_row | self.step_due | self.will_correct))
        with m.If(self.counted):
            m.d.sync += resumes.eq(goes_on)
        return goes_on, resumes

    def _tell_step(self, m, to_step):
        # As ``last_row``. No row ends in the cycle after an epoch or a step.
        steps = self.proximal_period != 0
        m.d.sync += self.step_due.eq(last_choice(
            m, self.counted, (to_step == 1) & steps, (to_step == 0) & steps, name="due"))

    def _through(self):
        """1 if every row that has entered has its update."""
        return self.none_outstanding


def phases_of(config):
    """Return the state machine of a pipeline's epochs."""
    return (EveryCyclePhases if config.clock.every_cycle else Phases)(config=config)
