"""Cycles of an epoch: rows, rows without data, proximal steps and rows that come again."""

from collections.abc import Iterable

from bitstep.cycles.refetching import ACTIVE, BY_CODES
from bitstep.cycles.rows.sequencer import FLUSH, NEVER, REFETCH, Sequencer
from bitstep.cycles.shape import Shape


class EpochClock:
    """Clock of the epochs of one run.

    Parameters
    ----------
    shape : Shape
    streams : AmpleStreams or SimulatedStreams
    """

    def __init__(self, shape: Shape, streams):
        self.shape, self.streams = shape, streams
        self.sequencer = Sequencer(shape, streams)
        self.fetched = 0        # rows of the run that were fetched again

    def run(self, start: int, events: Iterable[tuple[int, int]] = ()) -> int:
        """Run an epoch.

        Parameters
        ----------
        start : int
            Cycle of the sequencer's start strobe.
        events : iterable of (int, int)
            Rows that were replayed or fetched again, ascending, with their outcomes.

        Returns
        -------
        int
            Cycle in which every update is applied.
        """
        sequencer, shape = self.sequencer, self.shape
        self.row = 0
        self.events = iter(events)
        self.event, self.outcome = next(self.events, (NEVER, BY_CODES))
        self.to_step = shape.proximal_period or shape.rows
        self.seen, self.seen_far = {}, {}
        sequencer.periods.begin(shape.rows)
        sequencer.time = start + 1
        while True:
            while not self._enter():
                self._replay()
            time = sequencer.ends[-1] + sequencer.latency
            if shape.proximal_period:
                time += shape.proximal_cycles
            sequencer.counts[FLUSH] += time - self.flush_from + 1
            sequencer.time = time + 1
            if self.row == shape.rows:
                return time
            self.to_step = shape.proximal_period
            self.seen.clear()
            if not sequencer.periods.at_boundary:
                self._skip_periods()

    def _enter(self):
        """Let rows enter up to a proximal step or the epoch's end, and those without data that
        carry their updates. Return False if rows must come again before.
        """
        sequencer, periods = self.sequencer, self.sequencer.periods
        while self.to_step and self.row < self.shape.rows:
            if periods.fill:
                began = sequencer.time
                self.slots = sequencer.idle_row()
                sequencer.counts[FLUSH] += sequencer.time - began
            else:
                if periods.at_boundary:
                    self.seen.clear()
                    self._skip_periods()
                self.slots = sequencer.data_row()
                if self.slots == sequencer.beats:
                    self._count_row()
            if self.slots < sequencer.beats:
                return False
            self._skip_rows()
        for _ in range(sequencer.depth):
            self.slots = sequencer.idle_row()
            if self.slots < sequencer.beats:
                sequencer.counts[FLUSH] += sequencer.limit - self.flush_from
                return False
        return True

    def _count_row(self):
        """Count a row with data that has ended, and see whether it was left open."""
        sequencer = self.sequencer
        self.row += 1
        self.to_step -= 1
        self.flush_from = sequencer.time
        if self.row <= self.event or sequencer.limit != NEVER:
            return
        self.seen.clear()
        if self.shape.lookahead:
            sequencer.limit = sequencer.decided
            return
        first, last = sequencer.decided, self._decide()
        sequencer.hold = (first, last) if last > first else None

    def _decide(self):
        """Decide the open row, which is alone; return the cycle of its decision."""
        sequencer, outcome = self.sequencer, self.outcome
        if outcome != BY_CODES:
            self.fetched += 1
            sequencer.decided = self.streams.fetch(sequencer.decided, self.row - 1,
                                                   outcome == ACTIVE)
        self.event, self.outcome = next(self.events, (NEVER, BY_CODES))
        return sequencer.decided

    def _replay(self):
        """Let the open row come again, alone: first all rows in the pipeline end, and rows without
        data carry the updates before it.
        """
        sequencer = self.sequencer
        began, sequencer.limit = sequencer.limit, NEVER
        again = self.row - self.event
        self.row -= again
        self.to_step += again
        sequencer.periods.come_again(again)
        sequencer.time = began + 1
        if self.slots:      # what has begun as a row with data ends as one without
            sequencer.idle_row(self.slots)
        for _ in range(sequencer.depth):
            sequencer.idle_row()
        settled = sequencer.ends[-1] + sequencer.latency
        self.streams.rewind(settled)
        sequencer.time = settled + 1
        counts = list(sequencer.counts)
        sequencer.data_row()
        sequencer.counts[:] = counts        # all of this is one wait
        self.row += 1
        self.to_step -= 1
        decided = self._decide()
        sequencer.counts[REFETCH] += decided - began + 1
        sequencer.time = self.flush_from = decided + 1
        self.seen.clear()

    def _skip_rows(self):
        """Skip rows that enter as those before did, up to what is next to happen."""
        sequencer, periods = self.sequencer, self.sequencer.periods
        if sequencer.limit != NEVER or sequencer.hold or self.row % self.streams.anchor(self.shape):
            return
        room = min(self.to_step, self.shape.rows - self.row, self.event - self.row,
                   self.streams.steady_rows())
        if periods.period:
            room = min(room, periods.to_boundary)
        if room > 1:
            self._skip(self.seen, sequencer.state(), room - 1, periods.skip)

    def _skip_periods(self):
        """Skip whole periods between corrections or proximal steps that are as those before."""
        sequencer, periods, shape = self.sequencer, self.sequencer.periods, self.shape
        if sequencer.limit != NEVER or sequencer.hold:
            return
        room = min(shape.rows - self.row - shape.proximal_period - periods.period,
                   self.event - self.row, self.streams.steady_rows())
        if room > 0:
            to_step = self.to_step if shape.proximal_period else 0
            key = (sequencer.state(), to_step, periods.to_boundary)
            self._skip(self.seen_far, key, room, periods.skip_periods, to_step)

    def _skip(self, seen, key, room, skip, to_step=None):
        """Skip at most ``room`` rows if the state ``key`` was ``seen`` before."""
        sequencer = self.sequencer
        now = (self.row, sequencer.ends[-1], *sequencer.counts)
        before = seen.setdefault(key, now)
        if before is now:
            return
        rows, cycles, *counts = (new - old for new, old in zip(now, before, strict=True))
        times = room // rows
        if not times:
            return
        self.row += times * rows
        if to_step is None:
            self.to_step -= times * rows
        skip(times * rows)
        sequencer.shift(times * cycles)
        self.streams.skip(times * rows)
        self.flush_from += times * cycles
        for cause, count in enumerate(counts):
            sequencer.counts[cause] += times * count
        seen.clear()
