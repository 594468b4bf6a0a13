"""Cycles of an epoch of packed rows: turns of the rows of a beat, and of models."""

from collections.abc import Iterable

from bitstep.cycles.rows.sequencer import (
    CAUSES,
    CORRECTION,
    FLUSH,
    LABELS,
    LOOKAHEAD,
    NEVER,
    ROWS,
)
from bitstep.cycles.shape import Shape


class PackedClock:
    """Clock of the epochs of one run on a pipeline for packed rows.

    A beat is taken in the cycle of the last slot of the beat before, or later, and has its first
    slot a cycle after that. Times are cycles since the run's first.

    Parameters
    ----------
    shape : Shape
    streams : AmpleStreams or SimulatedStreams
        Beats, each with the labels of its rows.

    Attributes
    ----------
    counts : list of int
        Cycles by ``CAUSES``.
    fetched : int
        0: no row is fetched again.
    """

    fetched = 0

    def __init__(self, shape: Shape, streams):
        self.shape, self.streams = shape, streams
        self.per_beat, self.latency = shape.config.rows.rows_per_beat, shape.config.latency
        self.counts = [0] * len(CAUSES)
        self.sequencer = self

    def run(self, start: int, events: Iterable[tuple[int, int]] = ()) -> int:
        """Run an epoch; ``start`` is the cycle of the sequencer's start strobe. Return the cycle in
        which every update is applied.
        """
        del events
        self.rows, self.batch = self.shape.packed_rows, self.shape.batch
        self.time = start + 1           # first cycle in which a beat may be taken
        self.ready = self.time          # first cycle in which a batch may begin
        self.batches = 0                # batches that have ended
        self.corrected = self.time      # first cycle in which a correction may be added
        self.since = 0                  # rows since the last boundary between corrections
        seen = {}
        while self.rows:
            self._take_beat()
            if self.streams.constant:
                self._skip(seen)
        self.counts[FLUSH] += self.latency + 1
        return self.time + self.latency + 1

    def _take_beat(self):
        """Take a beat, and let its rows pass."""
        with_beat, end = self.streams.last(self.time, NEVER)
        self.counts[ROWS] += with_beat - self.time
        self.counts[LABELS] += end - with_beat
        slot, left = end + 1, min(self.per_beat, self.rows)
        self.rows -= left
        while left:
            size = min(left, self.batch)
            first = max(slot, self.ready)
            self.counts[LOOKAHEAD] += first - slot
            if self.shape.correction_period:
                first = self._correct(first, size)
            slot = first + self.shape.models
            left -= size
            self.batch -= size
            if not self.batch:
                self.batch, self.ready = self.shape.batch, first + self.latency
                self.batches += 1
        self.time = slot - 1

    def _correct(self, first, size):
        """Let a turn of so many rows, which could begin in the cycle ``first``, wait for its
        correction; return the cycle in which it begins.
        """
        boundary = self.since in (0, self.shape.correction_period)
        if self.since == self.shape.correction_period:
            wait = max(self.corrected - first, 0)
            self.counts[CORRECTION] += wait
            first, self.since = first + wait, 0
        if boundary:
            self.corrected = first + self.shape.models - 1 + self.shape.correction_delay
        self.since += size
        return first

    def _skip(self, seen):
        """Skip beats that pass as those before did: within a batch, or with whole batches."""
        most = self.rows // self.per_beat - 1
        inside = self.batch > 2 * self.per_beat
        if inside:
            most = min(most, (self.batch - 1) // self.per_beat - 1)
        if most < 1:
            return
        # Within a batch only beats of the same batch are alike.
        place = (0, self.batches) if inside else (self.batch, 0)
        key = (place, self.since, max(self.ready - self.time, 0),
               max(self.corrected - self.time, 0))
        now = (-self.rows, self.time, *self.counts)
        before = seen.setdefault(key, now)
        rows, cycles, *counts = (new - old for new, old in zip(now, before, strict=True))
        beats = rows // self.per_beat
        times = most // beats if beats else 0
        if not times:
            return
        if inside:
            self.batch -= times * rows
        self.rows -= times * rows
        self.counts = [old + times * new for old, new in zip(self.counts, counts, strict=True)]
        self.time += times * cycles
        self.ready += times * cycles
        self.corrected += times * cycles
        seen.clear()

    def shift(self, cycles: int) -> None:
        """Move the streams into the future; an epoch's own times begin anew with it."""
        self.streams.shift(cycles)
