"""Cycles of a whole run, and the counters that it leaves."""

from collections.abc import Iterable, Sequence

from bitstep.cycles.refetching import OpenRows
from bitstep.cycles.rows.epoch import EpochClock
from bitstep.cycles.rows.sequencer import CAUSES
from bitstep.cycles.shape import WORD_BYTES, Shape
from bitstep.cycles.streams.ample import AmpleStreams
from bitstep.cycles.streams.memory import Memory
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import COUNTER_NAMES

_SETTLE = 64        # cycles in which nothing may move before a run is done


def count_cycles(job: TrainingJob, memory: Memory | None = None, *,
                 config: PipelineConfig | None = None, epochs: int | None = None,
                 open_rows: Sequence[OpenRows] = (),
                 lookahead: int | None = None) -> dict[str, int | None]:
    """Count what a pipeline would count in a run of a job (docs/pipeline.md), without running it.

    No row is read. Steady parts of a run are multiplied, so the time this takes hardly depends on
    the number of rows.

    Parameters
    ----------
    job : TrainingJob
        Its sizes and parameters count.
    memory : Memory, optional
        None: the simulated board's memory as it is by default.
    config : PipelineConfig, optional
        The pipeline that runs the job; None: the job's own.
    epochs : int, optional
        Epochs that the run finishes; None: all of the job. A run that is told to make fewer counts
        like a job of so many.
    open_rows : sequence of OpenRows
        With refetching: an entry for each epoch, in order.
    lookahead : int, optional
        Value of the register LOOKAHEAD; None: what the driver writes.

    Returns
    -------
    dict of str to int or None
        Counters by name, as in :attr:`bitstep.pipeline.results.RunResult.counters`.

    Raises
    ------
    ValueError
        If there are more epochs than the job has, or if rows are fetched again and ``open_rows``
        has no entry for an epoch.
    """
    memory = Memory() if memory is None else memory
    shape = Shape.of(job, job.config if config is None else config, lookahead)
    epochs = shape.epochs if epochs is None else epochs
    if not 0 <= epochs <= shape.epochs:
        raise ValueError(f"epochs must be from 0 to {shape.epochs}, not {epochs}")
    if shape.refetching and len(open_rows) < epochs:
        raise ValueError(f"open_rows must have an entry for each of {epochs} epochs, "
                         f"not {len(open_rows)}")
    if not memory.is_ample(shape.config.beat_bytes):
        raise ValueError(f"Memory must have a latency of at most 32 cycles and no limit of its "
                         f"bandwidth, not {memory}")
    clock = RunClock(shape, AmpleStreams(shape, memory.latency))
    clock.load()
    for number in range(epochs):
        clock.epoch(open_rows[number] if shape.refetching else ())
        clock.write()
    clock.end()
    return clock.counters(epochs)


class RunClock:
    """Clock of a run, from the first cycle after its start.

    Parameters
    ----------
    shape : Shape
    streams : AmpleStreams or SimulatedStreams
    """

    def __init__(self, shape: Shape, streams):
        self.shape, self.streams = shape, streams
        self.epochs = EpochClock(shape, streams)
        self.late = shape.config.strobe_delay      # of a strobe
        self.time = 0
        self.model_io = 0

    def load(self):
        """From the start to the first epoch: checks, then model and coefficients."""
        shape, streams = self.shape, self.streams
        begin = shape.beats.bit_length()        # the check takes a cycle a bit
        streams.begin(begin + self.late)
        if shape.warm:
            end = streams.words(begin + 1 + self.late, shape.model_words)
        else:
            end = begin + self.late + shape.beats           # a beat's words a cycle
        self._moved(begin + 1, end + self.late)
        self.time += 1
        if shape.correction_period:
            began = self.time
            end = streams.words(began + self.late, shape.model_words)
            self._moved(began, end + self.late)

    def epoch(self, events: Iterable[tuple[int, int]] = ()):
        """Read the epoch's entry of the table and let its rows pass."""
        streams = self.streams
        began = self.time
        self._moved(began, streams.words(began, 2))
        streams.start_epoch(self.time)
        start = self.time + self.late + self.shape.config.start_delay
        self.time = self.epochs.run(start, events) + self.late + 2     # the verdict takes one

    def write(self):
        """Write the epoch's model."""
        end = self.streams.write_model(self.time, self.shape.model_words)
        self._moved(self.time, end)

    def end(self):
        """End the run after its last epoch."""
        self.time += _SETTLE

    def counters(self, epochs: int) -> dict[str, int | None]:
        """Counters of the run, which has ended after ``epochs`` epochs."""
        shape, fetched = self.shape, self.epochs.fetched
        models = shape.warm + (shape.correction_period > 0)
        words = epochs * (2 + shape.label_words) + models * shape.model_words \
            + fetched * shape.fine_words
        beats = epochs * shape.row_beats
        counters: dict[str, int | None] = dict.fromkeys(COUNTER_NAMES, 0)
        counters.update(zip(CAUSES, self.epochs.sequencer.counts, strict=True))
        counters.update(cycles=self.time, beats=beats, model_io=self.model_io,
                        bytes_read=beats * shape.config.beat_bytes + words * WORD_BYTES,
                        refetched_rows=fetched)
        return counters

    def _moved(self, began, end):
        """Count the cycles from ``began`` to ``end``, in which models or tables moved."""
        self.model_io += end - began + 1
        self.time = end + 1
