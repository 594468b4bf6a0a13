"""Times at which rows enter the pipeline: the sequencer, row by row instead of cycle by cycle."""

from collections import deque

from bitstep.cycles.rows.periods import CorrectionPeriods, DrainedPeriods
from bitstep.cycles.shape import Shape

# Causes for which no slot of a row with data enters, in their order of precedence, and idle rows.
CAUSES = ("stall_refetch", "stall_correction", "stall_recursion", "stall_lookahead", "stall_rows",
          "stall_labels", "flush")
REFETCH, CORRECTION, RECURSION, LOOKAHEAD, ROWS, LABELS, FLUSH = range(len(CAUSES))
LONG_AGO = -(1 << 60)
NEVER = 1 << 60


class Sequencer:
    """Sequencer of one run: when every row begins and ends, and what it waited for.

    Times are cycles since the run's first. A row is known by the cycle of its last slot. Its
    first slot waits until the row D + 1 before has its update, its last one until
    ``update_interval`` cycles after the last slot of the row before, both for what the streams
    give.

    Parameters
    ----------
    shape : Shape
    streams : AmpleStreams or SimulatedStreams
        Beats and labels.

    Attributes
    ----------
    counts : list of int
        Cycles by ``CAUSES``.
    """

    def __init__(self, shape: Shape, streams):
        self.shape, self.streams = shape, streams
        config = shape.config
        self.latency, self.update_interval = shape.latency, config.update_interval
        self.beats, self.depth = shape.beats, shape.lookahead + 1
        self.distance = config.clock.slot_distance(shape.beats)
        self.counts = [0] * len(CAUSES)
        self.periods = (DrainedPeriods if shape.config.drains else CorrectionPeriods)(shape)
        self.ends = deque([LONG_AGO] * self.depth, maxlen=self.depth)
        self.time = 0           # first cycle in which the next slot may enter
        self.limit = NEVER      # cycle in which the rows that have entered must come again
        self.hold: tuple[int, int] | None = None    # first and last cycle of a row that is fetched
        self.decided = LONG_AGO     # cycle in which the latest row with data is decided

    def _wait(self, cause, until):
        """Count the cycles before ``until`` for a cause."""
        until = min(until, self.limit)
        if until > self.time:
            self.counts[cause] += until - self.time
            self.time = until

    def _gate(self, single):
        """Wait until the first slot of a row with data may enter, if its beat is there."""
        stuck = self.periods.ready
        if self.shape.config.refetch and self.periods.at_boundary:
            stuck = max(stuck, self.decided + 1)
        close = self.ends[-1] + (max(self.update_interval,
                                     self.distance) if single else self.distance)
        causes = ((CORRECTION, stuck), (RECURSION, close),
                  (LOOKAHEAD, self.ends[0] + self.latency))
        if self.hold is not None:
            first, last = self.hold
            for cause, until in causes:
                self._wait(cause, min(until, first))
            self._wait(REFETCH, last + 1)
            self.hold = None
        for cause, until in causes:
            self._wait(cause, until)

    def data_row(self):
        """Let a row with data enter. Return the slots that entered before the limit, all of them
        if the row ended.
        """
        slots = self.beats - 1
        self._gate(slots == 0)
        if slots:
            start = self.time
            self.time, taken = self.streams.beats(start, slots, self.limit)
            self.counts[ROWS] += self.time - start - taken
            if taken < slots:
                return taken
            self._wait(RECURSION, self.ends[-1] + self.update_interval)
        start = self.time
        with_beat, end = self.streams.last(start, self.limit)
        self.counts[ROWS] += with_beat - start
        self.counts[LABELS] += end - with_beat
        self.time = end
        if end >= self.limit:
            return slots
        self.ends.append(end)
        self.decided = end + self.latency
        self.time = end + 1
        self.periods.end_of_data_row(end)
        return self.beats

    def opening_row(self):
        """Let the row without data enter that comes before a boundary in an empty pipeline."""
        self.time = max(self.time, self.periods.corrected)
        self.idle_row()
        self.periods.end_of_opening_row(self.ends[-1])

    def idle_row(self, slots=0):
        """Let a row without data enter, of which ``slots`` slots have entered. Return the slots
        that entered before the limit, all of them if the row ended; nothing is counted.
        """
        start = self.time
        if not slots:
            start = max(start, self.ends[-1] + self.distance, self.ends[0] + self.latency)
        if self.hold is not None:
            start = max(start, self.hold[1] + 1)
            self.hold = None
        end = max(start + self.beats - slots - 1, self.ends[-1] + self.update_interval)
        if end >= self.limit:
            entered = min(max(self.limit - start, 0), self.beats - slots - 1)
            self.time = self.limit
            return slots + entered
        self.ends.append(end)
        self.time = end + 1
        self.periods.end_of_idle_row(end)
        return self.beats

    def state(self):
        """State that decides about all rows that follow, in times since the latest row's end, but
        for what the streams decide.
        """
        last = self.ends[-1]
        oldest = last - self.latency - self.beats       # what ended before holds up nobody
        return (self.time - last, *[max(end, oldest) - last for end in self.ends],
                self.periods.state(last))

    def shift(self, cycles):
        """Move everything into the future."""
        self.time += cycles
        self.decided += cycles
        self.ends = deque((end + cycles for end in self.ends), maxlen=self.depth)
        self.periods.shift(cycles)
        self.streams.shift(cycles)
