"""A job on its way through a training: the epochs it has, and the job of its next run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import (
    Ends,
    Outcome,
    RangeOverflowError,
    RunError,
    RunResult,
    result_of,
    sum_counters,
)
from bitstep.training.endings import named, nothing_kept
from bitstep.training.files.checkpoint import job_after
from bitstep.training.loop.corrections import corrected, without_corrections
from bitstep.training.loop.precision import FixedPlanes, PlaneChoice
from bitstep.training.planning import Plan

# From a range of weights (None: the one of the training) to a plan, and what chooses its planes
# (None: the epochs say theirs).
Planner = Callable[[float | None], tuple[Plan, PlaneChoice | None]]


class Track:
    """A job, the epochs that its runs have finished, and how it ended.

    Parameters
    ----------
    planner : callable
    grows : bool
        True if the job may start again with a larger range of weights.

    Attributes
    ----------
    plan : Plan
    planes : PlaneChoice or FixedPlanes
        What gives the planes of each epoch.
    restarts : int
        How often the job has started again.
    first_range : float
        The range before the first restart.
    done : int
        Finished epochs.
    begun : bool
        True if a run of it was begun.
    error : RangeOverflowError or None
        With which the job has ended; its result has the epochs before.
    """

    def __init__(self, planner: Planner, grows: bool = False):
        self.planner, self.grows = planner, grows
        self.restarts, self.begun = 0, False
        self._start(planner(None))
        self.first_range = self.plan.model_range

    def _start(self, planned: tuple[Plan, PlaneChoice | None]) -> None:
        self.plan, choice = planned
        self.planes = choice or FixedPlanes(self.job)
        self.empty()

    def empty(self) -> None:
        """Give the epochs up."""
        self._runs: list[RunResult] = []
        self.done = 0
        self.error: RangeOverflowError | None = None

    def restart(self, planned: tuple[Plan, PlaneChoice | None]) -> None:
        """Start again with the plan of another range."""
        self._start(planned)
        self.restarts += 1

    @property
    def job(self) -> TrainingJob:
        """The job of all epochs."""
        return self.plan.job

    @property
    def alone(self) -> bool:
        """True if each epoch is a run of its own, since the host has to do between epochs."""
        return self.planes.alone or self.plan.between_epochs

    @property
    def result(self) -> RunResult:
        """The finished epochs; counters are sums over the runs."""
        return joined(self._runs, self.job)

    def seen(self, outcome: Outcome) -> RunResult:
        """The finished epochs with those of a run that goes on."""
        return joined([*self._runs, result_of(outcome)], self.job)

    def go_on(self, earlier: RunResult) -> None:
        """Take epochs of a checkpoint, before the first run."""
        if earlier.epochs_done:
            self._add(earlier)
        self.begun = True
        before = self.job.model, self.job.intercept
        for after in zip(earlier.models, earlier.intercepts, strict=True):
            self.planes.see(before, after)
            before = after

    def next_job(self, until: int) -> TrainingJob:
        """The job of the next run: the epochs up to ``until``, or the first of them where each is a
        run of its own.
        """
        job = job_after(self.job, self.done, *self.last())
        epochs = self.planes.epochs(self.done, 1 if self.alone else until - self.done)
        if epochs != job.epochs:
            job = replace(job, epochs=epochs)
        return without_corrections(job) if self.plan.between_epochs else job

    def take(self, outcome: Outcome) -> None:
        """Take the outcome of a run, of the job of :meth:`next_job`: the one place where epochs of
        a run become epochs of a training, in results and in errors.
        """
        self.begun = True
        run, overflow = result_of(outcome), None
        if isinstance(outcome, RangeOverflowError):
            overflow = outcome.overflow
        before = self.last()
        if self.plan.between_epochs and run.epochs_done:
            words = corrected(self.job, before[0], run.models[-1],
                              self.planes.epochs(self.done, 1)[0])
            if isinstance(words, np.ndarray):
                run = replace(run, models=words[None])
            else:
                overflow, run = words, run.first(0)
        self._add(run)
        if run.epochs_done:
            self.planes.see(before, (run.models[-1], run.intercepts[-1]))
        if overflow is not None:
            self.error = RangeOverflowError(overflow, self.result)

    def fail(self, error: RunError) -> None:
        """Take the result of a run that another error ended, and let the error tell of the whole
        training.
        """
        done = self.done
        self.take(error.result)
        error.result = self.result
        if done:
            error.say_where(f"epochs count from epoch {done} of the training")

    def _add(self, run: RunResult) -> None:
        self._runs.append(run)
        self.done += run.epochs_done

    def last(self) -> tuple[np.ndarray, int]:
        """Model and intercept words after the last finished epoch."""
        for run in reversed(self._runs):
            if run.epochs_done:
                return run.models[-1], int(run.intercepts[-1])
        return self.job.model, self.job.intercept


def joined(runs: list[RunResult], job: TrainingJob) -> RunResult:
    """The result of runs of which each went on where the one before had ended."""
    if len(runs) == 1:
        return runs[0]
    models = [np.zeros((0, job.n_features), np.int32), *(run.models for run in runs)]
    intercepts = [np.zeros(0, np.int32), *(run.intercepts for run in runs)]
    ends = [run.epoch_cycles for run in runs if run.epoch_cycles is not None]
    known = bool(runs) and len(ends) == len(runs)
    return RunResult(np.concatenate(models), np.concatenate(intercepts),
                     sum_counters([run.counters for run in runs]) if runs else {},
                     Ends(lambda: list(_ends(runs)), sum(map(len, ends))) if known else None)


def _ends(runs: list[RunResult]) -> Iterator[int]:
    """Cycles to the end of each epoch, those of the runs before included."""
    start = 0
    for run in runs:
        ends = [start + end for end in run.epoch_cycles or ()]
        yield from ends
        start = ends[-1] if ends else start


def first_error(tracks: Sequence[Track]) -> RangeOverflowError | None:
    """Error of the first job that left its range; it names one of several."""
    for number, track in enumerate(tracks):
        if track.error:
            return named(track.error, number, len(tracks))
    return None


def results_of(tracks: Sequence[Track]) -> list[RunResult]:
    """Results of all outputs.

    Raises
    ------
    RangeOverflowError
        If one left its range.
    TrainingInterrupted
        After Ctrl-C before every output had an epoch.
    """
    error = first_error(tracks)
    if error is not None:
        raise error
    begun = [track.result for track in tracks if track.begun]
    count, ready = len(tracks), sum(track.done > 0 for track in tracks)
    if len(begun) < count:      # the last one that was begun was in training
        raise nothing_kept(len(begun), count, *begun[-1:])
    if ready < count:
        raise nothing_kept(ready + 1, count, begun[0])
    return begun
