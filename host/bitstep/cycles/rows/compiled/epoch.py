"""Clock of epochs whose rows are fetched again, in compiled loops."""

from collections import deque
from collections.abc import Iterable

import numpy as np

from bitstep.cycles.refetching import decision_delay, first_take
from bitstep.cycles.rows.compiled import places as p
from bitstep.cycles.rows.compiled.rows import run_rows
from bitstep.cycles.rows.epoch import EpochClock
from bitstep.cycles.rows.sequencer import CAUSES
from bitstep.cycles.shape import Shape

# Attributes that are numbers, with their places.
_SEQUENCER = {"time": p.TIME, "limit": p.LIMIT, "decided": p.DECIDED}
_PERIODS = {"rows_left": p.ROWS_LEFT, "to_boundary": p.TO_BOUNDARY, "since": p.SINCE,
            "at_boundary": p.AT_BOUNDARY, "fill": p.FILL, "needed": p.NEEDED,
            "corrected": p.CORRECTED}
_STREAMS = {"time": p.NOW, "beats_entered": p.BEATS_ENTERED, "labels": p.LABELS,
            "labels_from": p.LABELS_FROM, "words_left": p.WORDS_LEFT, "restart": p.RESTART,
            "keeping": p.KEEPING, "fine_bytes": p.FINE_BYTES}
_READER = {"room": p.DEPTH_LEFT, "issued": p.ISSUED, "valid": p.VALID, "is_last": p.IS_LAST,
           "inner": p.INNER, "out": p.OUT, "accepted": p.ACCEPTED, "beat_bytes": p.BEAT_BYTES}
_ADDRESS = {"most": p.MOST, "left": p.LEFT, "first": p.FIRST, "allowed": p.ALLOWED,
            "under_way": p.UNDER_WAY}
_QUEUES = {"row_stage": p.ROWS_HELD, "label_stage": p.LABELS_HELD}      # and the two places after
_REGISTERS = {"aux_stage": p.AUX_ITEMS, "word_stage": p.WORD_ITEMS}


class CompiledEpochClock(EpochClock):
    """Clock of the epochs of one run with refetching, with the same results as
    :class:`bitstep.cycles.rows.epoch.EpochClock`.

    An epoch takes the numbers of sequencer and streams, and puts them back. Nothing is skipped but
    cycles in which nothing moves.

    Parameters
    ----------
    shape : Shape
    streams : SimulatedStreams
        Nothing has moved in them yet.
    """

    def __init__(self, shape: Shape, streams):
        super().__init__(shape, streams)
        self._readers = {p.ROWS: streams.rows, p.AUX: streams.aux}
        self._blocks, self._ends = self._all_blocks()
        self._numbers = np.zeros(p.ENDS + self.sequencer.depth, np.int64)
        self._memory = np.zeros(2)
        self._put_shape()

    def run(self, start: int, events: Iterable[tuple[int, int]] = ()) -> int:
        """Run an epoch, as :meth:`bitstep.cycles.rows.epoch.EpochClock.run`."""
        self.sequencer.periods.begin(self.shape.rows)
        self._put()
        time = run_rows(self._numbers, self._memory, self._blocks,
                        np.array(list(events), np.int64).reshape(-1, 2), start)
        self._take()
        return time

    def _all_blocks(self):
        """Blocks of both readers in one array, and where those of a reader begin and end."""
        blocks, ends = [], {}
        for at, reader in self._readers.items():
            first = len(blocks)
            blocks += reader.address.jobs
            ends[at] = first, len(blocks)
            reader.address.jobs = iter(blocks[first:])
        return np.array(blocks, np.int64), ends

    def _put_shape(self):
        """Put what does not change."""
        shape, sequencer, streams = self.shape, self.sequencer, self.streams
        for place, value in {
                p.N_ROWS: shape.rows, p.BEATS: shape.beats, p.DEPTH: sequencer.depth,
                p.LATENCY: sequencer.latency, p.UPDATE_INTERVALS: sequencer.update_interval,
                p.DISTANCE: sequencer.distance, p.PERIOD: sequencer.periods.period,
                p.CORRECTION_DELAY: sequencer.periods.delay,
                p.PROXIMAL_PERIOD: shape.proximal_period,
                p.PROXIMAL_CYCLES: shape.proximal_cycles if shape.proximal_period else 0,
                p.PAIRS: shape.pairs, p.PAIRS_PER_BEAT: shape.config.rows.model_lanes // 2,
                p.FINE_WORDS: shape.fine_words, p.FIRST_PAIR: first_take(shape, 0),
                p.INACTIVE_DELAY: decision_delay(shape, False),
                p.ACTIVE_DELAY: decision_delay(shape, True),
                p.LABELS_PER_WORD: shape.labels_per_word, p.LATE: streams.late,
                p.MEMORY_LATENCY: streams.memory.latency, p.ROWS_KEPT: streams.row_stage.depth,
                p.LABELS_KEPT: streams.label_stage.depth}.items():
            self._numbers[place] = value
        self._memory[p.RATE] = streams.memory.rate

    def _parts(self):
        """Objects with their attributes and places."""
        sequencer, streams = self.sequencer, self.streams
        yield self, {"fetched": p.FETCHED}, 0
        yield sequencer, _SEQUENCER, 0
        yield sequencer.periods, _PERIODS, 0
        yield streams, _STREAMS, 0
        yield streams.memory, {"available": p.AVAILABLE}, 0
        for name, place in _QUEUES.items():
            yield getattr(streams, name), {"kept": 0, "ahead": 1, "offered": 2}, place
        if streams.late:
            for name, place in _REGISTERS.items():
                yield getattr(streams, name), {"items": 0}, place
        for at, reader in self._readers.items():
            yield reader, _READER, at
            yield reader.address, _ADDRESS, at

    def _put(self):
        """Put sequencer and streams into the array."""
        numbers, sequencer, streams = self._numbers, self.sequencer, self.streams
        for part, names, first in self._parts():
            for name, place in names.items():
                numbers[first + place] = getattr(part, name)
        self._memory[p.DEBT] = streams.memory.debt
        numbers[p.COUNTS:p.COUNTS + len(CAUSES)] = sequencer.counts
        numbers[p.ENDS:], numbers[p.OLDEST] = sequencer.ends, 0
        numbers[p.HELD] = sequencer.hold is not None
        if sequencer.hold is not None:
            numbers[p.HOLD_FIRST], numbers[p.HOLD_LAST] = sequencer.hold
        numbers[p.N_RELEASES], numbers[p.FIRST_RELEASE] = len(streams.releases), 0
        numbers[p.RELEASES:p.RELEASES + len(streams.releases)] = streams.releases
        for at, reader in self._readers.items():
            self._put_reader(at, reader)

    def _put_reader(self, at, reader):
        numbers, address = self._numbers, reader.address
        first, numbers[at + p.END_NUMBER] = self._ends[at]
        numbers[at + p.NUMBER] = first + address.number
        numbers[at + p.OFFERED] = address.offered is not None
        if address.offered is not None:
            numbers[at + p.OFFERED_AT:at + p.OFFERED_BEATS + 1] = address.offered
        for name, place, items in ((p.N_STORED, p.STORED, address.stored),
                                   (p.N_BURSTS, p.BURSTS, reader.bursts)):
            flat = [number for item in items for number in item]
            numbers[at + name] = len(items)
            numbers[at + place:at + place + len(flat)] = flat
        numbers[at + p.FIRST_BURST] = 0

    def _take(self):
        """Take sequencer and streams from the array."""
        numbers, sequencer, streams = self._numbers.tolist(), self.sequencer, self.streams
        for part, names, first in self._parts():
            for name, place in names.items():
                setattr(part, name, numbers[first + place])
        streams.memory.debt = float(self._memory[p.DEBT])
        sequencer.counts[:] = numbers[p.COUNTS:p.COUNTS + len(CAUSES)]
        sequencer.ends = deque(numbers[p.ENDS:], maxlen=sequencer.depth)
        sequencer.ends.rotate(-numbers[p.OLDEST])
        sequencer.hold = (numbers[p.HOLD_FIRST], numbers[p.HOLD_LAST]) if numbers[p.HELD] else None
        streams.releases = deque(
            numbers[p.RELEASES + (numbers[p.FIRST_RELEASE] + place) % p.MOST_RELEASES]
            for place in range(numbers[p.N_RELEASES]))
        for at, reader in self._readers.items():
            self._take_reader(numbers, at, reader)

    def _take_reader(self, numbers, at, reader):
        address, number = reader.address, numbers[at + p.NUMBER]
        first, end = self._ends[at]
        address.number = number - first
        address.jobs = iter(self._blocks[number:end].tolist())
        address.offered = tuple(numbers[at + p.OFFERED_AT:at + p.OFFERED_BEATS + 1]) \
            if numbers[at + p.OFFERED] else None
        address.stored = deque(
            tuple(numbers[first:first + 3]) for first in range(
                at + p.STORED, at + p.STORED + 3 * numbers[at + p.N_STORED], 3))
        first = numbers[at + p.FIRST_BURST]
        places = ((first + number) % p.MOST_BURSTS for number in range(numbers[at + p.N_BURSTS]))
        reader.bursts = deque(numbers[at + p.BURSTS + 2 * place:at + p.BURSTS + 2 * place + 2]
                              for place in places)
