"""Cycles of an epoch: rows, rows without data, proximal steps and rows that come again."""

from collections import Counter
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
        # Rows of a batch that begins with an empty pipeline; 0: none does.
        self.drained = shape.batch if shape.config.drains else 0
        # Rows without data between two batches, where rows go on after a batch.
        self.between = shape.config.ahead.idle_rows(shape.lookahead, shape.beats)
        # A replay ends with an empty pipeline. What follows, up to the end of the next one, depends
        # on the rows between and on the outcome alone, if nothing else is periodic.
        self.is_simple = streams.constant and shape.lookahead > 0 \
            and not shape.correction_period and not shape.proximal_period
        self.known = {}         # cycles by rows between and outcome

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
        self.row, self.mark = 0, None
        self.events = iter(events)
        self.event, self.outcome = next(self.events, (NEVER, BY_CODES))
        self.to_step = stretch = self.stretch
        self.seen, self.seen_labels, self.seen_far = {}, {}, {}
        sequencer.periods.begin(shape.rows)
        sequencer.time = start + 1
        self.carries_on = False
        while True:
            if self.drained and not self.carries_on:
                self._begin_batch()
            while not self._enter():
                self._replay()
            self.to_step = stretch
            self.seen.clear()
            self.seen_labels.clear()
            if self.carries_on:
                sequencer.counts[FLUSH] += sequencer.time - self.flush_from
                self._skip_periods()
                continue
            time = sequencer.ends[-1] + sequencer.latency
            if self.steps_follow:
                time += shape.proximal_cycles
            sequencer.counts[FLUSH] += time - self.flush_from + 1
            sequencer.time = time + 1
            if self.row == shape.rows:
                return time
            if not sequencer.periods.meets_boundary:
                self._skip_periods()

    @property
    def stretch(self) -> int:
        """Rows from one time that the pipeline is empty to the next."""
        return self.drained or self.shape.proximal_period or self.shape.rows

    @property
    def steps_follow(self) -> bool:
        """True if a proximal step follows the latest row."""
        shape = self.shape
        return shape.proximal_period > 0 and (
            self.row == shape.rows or self.row % shape.proximal_period == 0)

    def _begin_batch(self):
        """Begin a batch with an empty pipeline: at a boundary a row without data adds a correction
        and samples the model; then the model is rounded.
        """
        sequencer = self.sequencer
        began = sequencer.time
        if sequencer.periods.at_boundary:
            sequencer.opening_row()
            sequencer.time = sequencer.ends[-1] + sequencer.latency + 1
        sequencer.time += self.shape.rounding_cycles + 1
        sequencer.counts[FLUSH] += sequencer.time - began

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
                if periods.meets_boundary:
                    self.seen.clear()
                    self.seen_labels.clear()
                    self._skip_periods()
                self.slots = sequencer.data_row()
                if self.slots == sequencer.beats:
                    self._count_row()
            if self.slots < sequencer.beats:
                return False
            self._skip_rows()
        # The first row of the next batch may carry the last update of this one.
        self.carries_on = self.shape.config.carries_on and self.row < self.shape.rows \
            and not self.steps_follow and not periods.at_boundary
        for _ in range(self.between if self.carries_on else sequencer.depth):
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
        for seen in (self.seen, self.seen_labels, self.seen_far):
            seen.clear()
        if self.shape.lookahead:
            sequencer.limit = sequencer.decided
            self.streams.keep()
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
        if self.is_simple:
            self._skip_replays()

    def _skip_replays(self):
        """Skip replays that come as long after another, and end, as one before."""
        sequencer, known, times = self.sequencer, self.known, Counter()
        now = (sequencer.time, *sequencer.counts)
        if self.mark is not None:
            key, before = self.mark
            known[key] = [new - old for new, old in zip(now, before, strict=True)]
        first = self.row
        end = self.shape.rows - sequencer.depth     # up to here nothing of the epoch's end is seen
        while self.event < end and (key := (self.event - self.row, self.outcome)) in known:
            times[key] += 1
            self.row = self.event + 1
            self.event, self.outcome = next(self.events, (NEVER, BY_CODES))
        changes = [sum(number * known[key][place] for key, number in times.items())
                   for place in range(len(now))]
        sequencer.shift(changes[0])
        sequencer.counts = [old + new for old, new in
                            zip(sequencer.counts, changes[1:], strict=True)]
        sequencer.periods.skip_periods(self.row - first)
        self.to_step -= self.row - first
        self.flush_from = sequencer.time
        fetched = sum(number for (_, outcome), number in times.items() if outcome != BY_CODES)
        self.fetched += fetched
        self.streams.skip_fetches(fetched)
        self.mark = None if self.event >= end else (
            (self.event - self.row, self.outcome), (sequencer.time, *sequencer.counts))

    def _skip_rows(self):
        """Skip rows that enter as those before did, up to what is next to happen."""
        sequencer, periods, streams = self.sequencer, self.sequencer.periods, self.streams
        if sequencer.limit != NEVER or sequencer.hold or self.row % streams.anchor:
            return
        room = min(self.to_step, self.shape.rows - self.row, self.event - self.row)
        if periods.period:
            room = min(room, periods.to_boundary)
        if room < 2:
            return
        state = sequencer.state()
        time = sequencer.time
        for labels, most in ((False, streams.steady_rows(time)), (True, streams.label_rows(time))):
            most = min(room - 1, most)
            if most > 0:
                streamed = (streams.rows_state if labels else streams.state)(time)
                streamed = streamed, streams.asked
                seen = self.seen_labels if labels else self.seen
                if rows := self._skip(seen, (state, streamed), most):
                    self.to_step -= rows
                    periods.skip(rows)
                    streams.skip(rows, labels=labels)
                    return

    def _skip_periods(self):
        """Skip whole periods between corrections or proximal steps that are as those before."""
        sequencer, periods, shape = self.sequencer, self.sequencer.periods, self.shape
        if sequencer.limit != NEVER or sequencer.hold:
            return
        batch = self.drained
        room = min(shape.rows - self.row - shape.proximal_period - periods.period - batch,
                   self.event - self.row, self.streams.steady_rows(sequencer.time))
        if room > 0:
            to_step = self.to_step if shape.proximal_period else 0
            if batch:
                to_step = self.row % (shape.proximal_period or batch)
            key = (sequencer.state(), self.streams.state(sequencer.time), self.streams.asked,
                   to_step, periods.to_boundary)
            if rows := self._skip(self.seen_far, key, room):
                periods.skip_periods(rows)
                self.streams.skip(rows)
                if not shape.proximal_period and not batch:
                    self.to_step -= rows
                self.seen.clear()
                self.seen_labels.clear()

    def _skip(self, seen, key, most):
        """Skip at most ``most`` rows if the state ``key`` was ``seen`` before; return how many."""
        sequencer = self.sequencer
        now = (self.row, sequencer.time, *sequencer.counts)
        before = seen.setdefault(key, now)
        rows, cycles, *counts = (new - old for new, old in zip(now, before, strict=True))
        times = most // rows if rows and cycles >= self.streams.window else 0
        if times:
            self.row += times * rows
            self.flush_from += times * cycles
            sequencer.shift(times * cycles)
            for cause, count in enumerate(counts):
                sequencer.counts[cause] += times * count
            seen.clear()
        return times * rows
