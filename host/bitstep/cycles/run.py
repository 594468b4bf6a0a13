"""Cycles of a whole run, and the counters that it leaves."""

import functools
import importlib.util
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bitstep.cycles.refetching import OpenRows, PackedOpenRows
from bitstep.cycles.rows.epoch import EpochClock
from bitstep.cycles.rows.packed import PackedClock
from bitstep.cycles.rows.sequencer import CAUSES
from bitstep.cycles.shape import Shape, shape_of
from bitstep.cycles.streams.ample import AmpleStreams
from bitstep.cycles.streams.bit_planes import BitPlaneStreams
from bitstep.cycles.streams.memory import Memory
from bitstep.cycles.streams.simulated import SimulatedStreams
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import COUNTER_NAMES

Counted = tuple[dict[str, int | None], list[int]]

_SETTLE = 64        # cycles in which nothing may move before a run is done


def count_epochs(job: TrainingJob, memory: Memory | None = None, *,
                 config: PipelineConfig | None = None, epochs: int | None = None,
                 overflowed: bool = False, open_rows: Sequence[OpenRows] = (),
                 lookahead: int | None = None, others: Sequence[TrainingJob] = (),
                 gradient: bool = False,
                 derivatives: bool = False) -> tuple[dict[str, int | None], list[int]]:
    """Count what a pipeline would count in a run of a job (docs/pipeline.md), and when each epoch
    ends.

    No row is read. Steady parts of a run are multiplied, so the time this takes hardly depends on
    the number of rows.

    Parameters
    ----------
    job : TrainingJob
        Its sizes and parameters count.
    memory : Memory, optional
        None: the simulated board's memory as it is by default.
    config : PipelineConfig, optional
        The pipeline; None: the job's own.
    epochs : int, optional
        Epochs that the run finishes; None: all. If not ``overflowed``, as a job of so many.
    overflowed : bool
        A value left its range in the epoch after these, which ends the run after its last row; the
        counter ``overflows`` is then None.
    open_rows : sequence of OpenRows
        With refetching: an entry for each epoch, that of the overflowed one included.
    lookahead : int, optional
        Register LOOKAHEAD; None: what the driver writes.
    others : sequence of TrainingJob, gradient, derivatives : bool
        Jobs in the same run; the run sums a gradient; it writes derivatives in place of it.

    Returns
    -------
    counters : dict of str to int or None
        Counters by name, as in :attr:`bitstep.pipeline.results.RunResult.counters`.
    ends : list of int
        Cycles from the run's start to the end of each finished epoch.

    Raises
    ------
    ValueError
        If there are more epochs than the job has, or if rows are fetched again and ``open_rows``
        has no entry for an epoch.
    """
    return counting(job, memory, config=config, epochs=epochs, overflowed=overflowed,
                    open_rows=open_rows, lookahead=lookahead, others=others, gradient=gradient,
                    derivatives=derivatives)()


def counting(job: TrainingJob, memory: Memory | None = None, *,
             config: PipelineConfig | None = None, epochs: int | None = None,
             overflowed: bool = False, open_rows: Sequence[OpenRows] = (),
             lookahead: int | None = None, others: Sequence[TrainingJob] = (),
             gradient: bool = False,
             derivatives: bool = False) -> Callable[[], Counted]:
    """Prepare :func:`count_epochs`: return what counts when it is called, once. It can be pickled,
    and keeps sizes of the job alone unless rows are fetched again.
    """
    kind = {"gradient": gradient, "derivatives": derivatives}
    shape = shape_of(job, config or job.config, lookahead, others, **kind)
    most = shape.epochs - overflowed
    epochs = most if epochs is None else epochs
    if not 0 <= epochs <= most:
        raise ValueError(f"epochs must be from 0 to {most}, not {epochs}")
    if shape.refetching and len(open_rows) < epochs + overflowed:
        raise ValueError(f"open_rows must have an entry for each of {epochs + overflowed} epochs, "
                         f"not {len(open_rows)}")
    memory = memory or Memory()
    if not overflowed and epochs != shape.epochs:
        shape = replace(shape, epochs=epochs)
    if shape.refetching:
        rows = [PackedOpenRows(one) for one in open_rows]
        return Once(functools.partial(_run, shape, memory, epochs, overflowed, rows))
    return functools.partial(_count, shape, memory, epochs, overflowed)


class Once:
    """Counts when it is called for the first time, and keeps the numbers alone from then on. If it
    is pickled before, the copy counts: that may take minutes, which nobody expects of a pickle.
    """

    def __init__(self, count: Callable[[], Counted]):
        self._count: Callable[[], Counted] | None = count
        self._found: Counted = {}, []
        self._lock = threading.Lock()

    def __call__(self) -> Counted:
        with self._lock:
            if self._count is not None:
                self._found, self._count = self._count(), None
        return self._found

    def __reduce__(self):
        if self._count is not None:
            return Once, (self._count,)
        return functools.partial, (_given, *self._found)


def _given(counters: dict[str, int | None], ends: list[int]) -> Counted:
    return counters, ends


def _count(shape: Shape, memory: Memory, epochs: int, overflowed: bool) -> Counted:
    with _counting:         # outputs of a model, trained at the same time, have the same shape
        counters, ends = _known_run(shape, memory, epochs, overflowed)
    return dict(counters), list(ends)


def _run(shape, memory, epochs, overflowed, open_rows=None):
    clock = RunClock(shape, _streams(shape, memory, overflowed))
    clock.run(epochs, overflowed, open_rows)
    return clock.counters(None if overflowed else 0), clock.ends


# A checkpoint asks after every epoch, and each output of a model for the same numbers again.
_known_run = functools.lru_cache(maxsize=1024)(_run)
_counting = threading.Lock()


def _streams(shape, memory, overflowed):
    """Streams of a run. What an overflowed run has read ahead depends on the whole run."""
    if shape.planes:
        return BitPlaneStreams(shape, memory)
    if memory.is_ample(shape.config.rows.beat_bytes) and not overflowed \
            and shape.labels_per_word > 1:
        return AmpleStreams(shape, memory.latency)
    return SimulatedStreams(shape, memory)


def _epoch_clock(shape, streams):
    """Clock of the epochs; compiled where numba is installed and most cycles must be simulated."""
    if shape.config.packed:
        return PackedClock(shape, streams)
    if shape.refetching and not streams.constant and importlib.util.find_spec("numba"):
        from bitstep.cycles.rows.compiled.epoch import CompiledEpochClock
        return CompiledEpochClock(shape, streams)
    return EpochClock(shape, streams)


class RunClock:
    """Clock of a run, from the first cycle after its start.

    Parameters
    ----------
    shape : Shape
    streams : AmpleStreams or SimulatedStreams
    """

    def __init__(self, shape: Shape, streams):
        self.shape, self.streams = shape, streams
        self.epochs = _epoch_clock(shape, streams)
        self.late = shape.config.clock.strobe_delay      # of a strobe
        self.time = 0
        self.model_io = 0
        self.ends: list[int] = []

    def run(self, epochs: int, overflowed: bool,
            open_rows: Sequence[Iterable[tuple[int, int]]] | None):
        """Run so many epochs, and another one that leaves the range if ``overflowed``."""
        self.load()
        number, seen = 0, {}
        while number < epochs + overflowed:
            if open_rows is None:
                number += self._skip_epochs(seen, number, epochs - number)
                if number == epochs + overflowed:
                    break
            self.epoch(() if open_rows is None else open_rows[number])
            if number < epochs:
                self.write()
            number += 1
        self.end()

    def load(self):
        """From the start to the first epoch: checks, then model, coefficients and codebooks.
        """
        shape, streams = self.shape, self.streams
        begin = shape.check_cycles
        streams.begin(begin + self.late)
        if shape.warm:
            end = self._load_models(begin + 1 + self.late, shape.model_words)
        else:
            end = begin + self.late + shape.beats           # a beat's words a cycle
        self._moved(begin + 1, end + self.late)
        self.time += 1
        if shape.correction_period:
            began = self.time
            end = self._load_models(began + self.late, shape.coefficient_words)
            self._moved(began, end + self.late)
        if shape.codebook_words:
            self._moved(self.time, streams.load_tables(self.time, shape.codebook_words))

    def _load_models(self, time, words):
        """Read so many words of each model, or of its coefficients, from ``time`` on; return the
        cycle of the last word.
        """
        shape = self.shape
        for _ in range(shape.models - 1):
            time = self.streams.words(time, words) + shape.next_model
        return self.streams.words(time, words)

    def epoch(self, events: Iterable[tuple[int, int]] = ()):
        """Read the epoch's entry of the table and let its rows pass."""
        streams = self.streams
        began = self.time
        self._moved(began, streams.words(began, 2 * self.shape.models))
        streams.start_epoch(self.time)
        start = self.time + self.late + self.shape.config.stages.start_delay
        self.time = self.epochs.run(start, events) + self.late + 2     # the verdict takes one

    def write(self):
        """Write the epoch's model."""
        end = self.streams.write_models(self.time)
        self._moved(self.time, end)
        self.ends.append(self.time)

    def end(self):
        """End the run: after its last epoch, or after one that left the range."""
        self.time = self.streams.end(self.time) + _SETTLE

    def counters(self, overflows: int | None) -> dict[str, int | None]:
        """Counters of the run, which has ended."""
        return {**dict.fromkeys(COUNTER_NAMES, 0),
                **dict(zip(CAUSES, self.epochs.sequencer.counts, strict=True)),
                "cycles": self.time, "model_io": self.model_io,
                "beats": self.streams.beats_entered, "bytes_read": self.streams.bytes_read,
                "refetched_rows": self.epochs.fetched, "overflows": overflows}

    def _skip_epochs(self, seen, number, most):
        """Skip at most so many epochs if they are as those before; return how many."""
        streams, sequencer = self.streams, self.epochs.sequencer
        key = streams.epoch_state(self.time)
        counts = (self.model_io, *sequencer.counts, *streams.totals)
        before = seen.setdefault(key, (number, self.time, counts))
        period = number - before[0]
        if not period:
            return 0
        times = max(min(most, streams.epochs_left), 0) // period
        length = self.time - before[1]
        cycles = times * length
        self.ends += [end + turn * length for turn in range(1, times + 1)
                      for end in self.ends[before[0]:number]]
        self.time += cycles
        more = [times * (new - old) for new, old in zip(counts, before[2], strict=True)]
        self.model_io += more[0]
        causes = len(sequencer.counts)
        sequencer.counts = [old + new for old, new in
                            zip(sequencer.counts, more[1:causes + 1], strict=True)]
        sequencer.shift(cycles)
        streams.skip_epochs(times * period, more[causes + 1:])
        return times * period

    def _moved(self, began, end):
        """Count the cycles from ``began`` to ``end``, in which models or tables moved."""
        self.model_io += end - began + 1
        self.time = end + 1
