"""Several models on the native device, trained while their rows are read once."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bitstep.checks import check_timeout
from bitstep.devices.cpu import tiles, words
from bitstep.devices.cpu.arithmetic import Rule
from bitstep.devices.cpu.decoding import byte_tables, padded, row_format
from bitstep.devices.cpu.numbers import (
    codebooks_of,
    epoch_numbers,
    read_only,
    rule_of,
    weights_of,
)
from bitstep.devices.cpu.portions import dithers_of, portions
from bitstep.devices.cpu.rows import Epoch
from bitstep.devices.software import SoftwareDevice
from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.device import Run
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Overflow
from bitstep.pipeline.results import Outcome, RangeOverflowError, RunTimeoutError

TILE_BYTES = 1 << 14        # levels of a tile: with a model of its size they fit the nearest cache
MIN_TILE_ROWS, MAX_TILE_ROWS = 4, 256


class JointRun(Run):
    """Run of several jobs that read the same rows.

    A tile of rows is decoded, then every model takes it (:mod:`bitstep.devices.cpu.tiles`).

    Parameters
    ----------
    device : SoftwareDevice
        Its name and results are the run's.
    jobs : sequence of TrainingJob
        Of integer rows without refetching, any two of which share their rows
        (:func:`bitstep.pipeline.device.share_rows`).
    look : callable
        Called after every portion; it may raise KeyboardInterrupt.
    timeout_s, to_the_end
        See :meth:`bitstep.pipeline.device.Device.begin`.
    """

    def __init__(self, device: SoftwareDevice, jobs: Sequence[TrainingJob],
                 look: Callable[[], None], *, timeout_s: float, to_the_end: bool):
        check_timeout(timeout_s)
        self.device, self.jobs, self._look = device, jobs, look
        self.timeout_s, self.to_the_end = timeout_s, to_the_end
        job, count = jobs[0], len(jobs)
        self.shape = row_format(job.config, job.n_features)
        length = padded(job.n_features)
        rows = min(max(TILE_BYTES // length, MIN_TILE_ROWS), MAX_TILE_ROWS)
        levels = np.zeros((rows, length), np.int8)
        self.tile = tiles.Tile(levels, levels.copy() if self.shape.two_levels else levels,
                               byte_tables(job.config), codebooks_of(job),
                               np.zeros(length, np.int64), weights_of(job))
        streams = _numbers([(id(job.labels), job.label_format) for job in jobs])
        self._streams = [jobs[streams.index(number)] for number in range(max(streams) + 1)]
        self.models = tiles.Models(
            **{name: np.zeros((count, length), np.int32) for name in ("model", "seen", "pending")},
            coefficients=np.zeros((count, length), np.int64),
            state=np.zeros((count, words.STATE), np.int64),
            rules=np.zeros((count, len(Rule._fields)), np.int64),
            epochs=np.zeros((count, len(Epoch._fields)), np.int64),
            endings=np.zeros(count, np.int64), streams=np.array(streams),
            keys=np.zeros(count, np.int64), turns=np.zeros((count, 3), np.int64))
        for number, job in enumerate(jobs):
            self.models.model[number, :job.n_features] = job.model
            self.models.coefficients[number, :job.n_features] = job.coefficients
            self.models.state[number, words.INTERCEPT] = job.intercept
        self.done: list[list[EpochModel]] = [[] for _ in jobs]
        self._told = [0] * len(jobs)        # epochs of each when it was last shown

    def epochs(self) -> Iterator[int]:
        """See :meth:`bitstep.pipeline.device.Run.epochs`."""
        self._take(read_only(self.jobs[0].rows[0]), 0, 0)       # compiles, or loads, the kernels
        reported, started = 0, time.monotonic()
        for _ in self._portions():
            while reported < self._epochs_done():
                reported += 1
                yield reported
            elapsed, started = time.monotonic() - started, time.monotonic()
            if elapsed > self.timeout_s and self._running():
                raise self._timeout(elapsed)

    def words(self) -> Iterator[tuple[int, np.ndarray, int]]:
        """See :meth:`bitstep.pipeline.device.Run.words`."""
        for number, done in enumerate(self.done):
            if len(done) > self._told[number]:
                self._told[number] = len(done)
                yield number, done[-1].model, done[-1].intercept

    def outcomes(self) -> list[Outcome]:
        """See :meth:`bitstep.pipeline.device.Run.outcomes`."""
        found: list[Outcome] = []
        for job, done, ending in zip(self.jobs, self.done, self.models.endings.tolist(),
                                     strict=True):
            result = self.device.result(job, done, overflowed=bool(ending))
            found.append(RangeOverflowError(Overflow(ending), result) if ending else result)
        return found

    def _portions(self) -> Iterator[None]:
        """Train; yield after every portion of an epoch."""
        job = self.jobs[0]
        for number in range(len(job.epochs)):
            self._begin(number)
            rows = read_only(job.rows[number % len(job.rows)])
            for first, n_rows in portions(job, len(self.jobs)):
                self._take(rows, first, n_rows)
                self._look()
                if first + n_rows == job.n_rows:
                    self._keep()
                yield
            if self._is_over():
                return

    def _begin(self, number: int) -> None:
        """Begin an epoch: numbers of every model that has not ended."""
        models = self.models
        models.state[:, [words.BOUND, words.PENDING, words.REFETCHED]] = words.LIMIT, 0, 0
        keys = [job.epochs[number].key for job in self.jobs]
        models.keys[:] = _numbers(keys)
        self._keys = list(dict.fromkeys(keys))
        for place, job in enumerate(self.jobs):
            rule = rule_of(job, job.epochs[number])
            if rule is not None:
                models.rules[place] = rule
                models.epochs[place] = epoch_numbers(job, job.epochs[number])
            elif not models.endings[place]:
                models.endings[place] = Overflow.UPDATE

    def _take(self, rows: np.ndarray, first: int, n_rows: int) -> None:
        """Take rows; none of them, of a run that has not begun."""
        labels = np.stack([job.stored_labels(first, n_rows) for job in self._streams])
        dithers = np.stack([dithers_of(key, first, n_rows) for key in self._keys])
        tiles.take_tiles(rows, self.shape, self.tile, self.models, labels, dithers, first)

    _keys: Sequence[int] = (0,)     # of the epoch, each once

    def _is_over(self) -> bool:
        """True if the models that have left their range end the run, as they do at an epoch's end.
        """
        endings = self.models.endings
        return bool(endings.all() if self.to_the_end else endings.any())

    def _keep(self) -> None:
        """Keep the models after an epoch, none of one that ends the run."""
        if self._is_over():
            return
        for place, job in enumerate(self.jobs):
            if not self.models.endings[place]:
                self.done[place].append(EpochModel(
                    self.models.model[place, :job.n_features].copy(),
                    int(self.models.state[place, words.INTERCEPT])))

    def _epochs_done(self) -> int:
        return sum(map(len, self.done))

    def _running(self) -> bool:
        """True if a model has epochs left."""
        return any(len(done) < len(job.epochs) and not ending for job, done, ending in zip(
            self.jobs, self.done, self.models.endings, strict=True))

    def _timeout(self, elapsed: float) -> RunTimeoutError:
        epochs = len(self.jobs[0].epochs) * len(self.jobs)
        return RunTimeoutError(
            f"Device {self.device.name!r} took {elapsed:.1f} s for {self.device.portion} of "
            f"{len(self.jobs)} models, more than the limit of {self.timeout_s:g} s, with "
            f"{self._epochs_done()} of {epochs} epochs done; give it more time or use fewer rows",
            self.device.result(self.jobs[0], self.done[0], overflowed=False))


def _numbers(things: Sequence) -> list[int]:
    """Number of each thing, in the order in which they first occur."""
    known = {thing: number for number, thing in enumerate(dict.fromkeys(things))}
    return [known[thing] for thing in things]
