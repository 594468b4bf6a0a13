"""Runs of jobs: one after the other, or several at the same time."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from bitstep.pipeline.device import Device, OnWords
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import (
    ModelsInterrupted,
    Outcome,
    RunResult,
    SaturationError,
    TrainingInterrupted,
)
from bitstep.training.counters import sum_counters

EpochReport = Callable[[int], None] | None


class Train(Protocol):
    """Training of some jobs, as :meth:`bitstep.pipeline.device.Device.train_models`."""

    def __call__(self, *, on_epoch: EpochReport) -> list[Outcome]:
        """Run to the end."""
        ...


@dataclass(frozen=True)
class Pass:
    """Jobs whose models one call of a device trains.

    Attributes
    ----------
    members : list of int
        Numbers of the jobs.
    train : Train
    """

    members: list[int]
    train: Train


def passes_of(device: Device, runners: Sequence[Device], jobs: Sequence[TrainingJob],
              timeout_s: float, *, on_words: OnWords | None = None, to_the_end: bool = False,
              numbers: Sequence[int] | None = None) -> list[Pass]:
    """Passes over the rows: as few as the device needs, and one for each of its workers.

    Parameters
    ----------
    device : Device
        It trains ``device.models`` in a pass, ``device.workers`` passes at a time.
    runners : sequence of Device
        What runs each job: ``device``, or a device around it, which has passes of its own.
    jobs : sequence of TrainingJob
    timeout_s, on_words, to_the_end
        See :meth:`bitstep.pipeline.device.Device.train_models`.
    numbers : sequence of int or None
        Those of the jobs that are trained; None for all.
    """
    groups: list[list[int]] = []
    for number in range(len(jobs)) if numbers is None else numbers:
        job = jobs[number]
        for group in groups:
            if runners[number] is device is runners[group[0]] \
                    and device.shares_pass(jobs[group[0]], job):
                group.append(number)
                break
        else:
            groups.append([number])
    passes = []
    for group in groups:
        count = max(-(-len(group) // device.models), min(device.workers, len(group)))
        for turn in range(count):       # sizes differ by at most one
            members = group[turn * len(group) // count:(turn + 1) * len(group) // count]
            passes.append(Pass(members, partial(
                runners[group[0]].train_models, [jobs[number] for number in members],
                timeout_s=timeout_s, on_words=_words_of(on_words, members),
                to_the_end=to_the_end)))
    return passes


def _words_of(on_words: OnWords | None, members: list[int]) -> OnWords | None:
    """``on_words`` with numbers of the jobs of a pass."""
    if on_words is None:
        return None
    return lambda number, words, intercept: on_words(members[number], words, intercept)


@dataclass
class Runs:
    """Outcomes of jobs.

    Attributes
    ----------
    outcomes : list of RunResult, SaturationError or None
        One for each job; None for one that was not begun.
    interrupted : bool
        True if Ctrl-C ended the last ones.
    """

    outcomes: list[Outcome | None]
    interrupted: bool = False

    def take(self, one: Pass, found: Sequence[Outcome]) -> None:
        """Take in what became of the jobs of a pass."""
        for number, outcome in zip(one.members, found, strict=False):
            self.outcomes[number] = outcome

    @property
    def counters(self) -> dict[str, int | None]:
        """Sums over all runs that were begun, also those that left the range of a number."""
        return sum_counters([
            one.result.counters if isinstance(one, SaturationError) else one.counters
            for one in self.outcomes if one is not None])

    def part(self, first: int, count: int) -> "Runs":
        """Outcomes of so many jobs from one on."""
        return Runs(self.outcomes[first:first + count], self.interrupted)

    @property
    def begun(self) -> bool:
        """True if every job has an epoch, or left its range."""
        return all(isinstance(one, SaturationError) or (one is not None and one.epochs_done > 0)
                   for one in self.outcomes)

    def error(self) -> SaturationError | None:
        """Error of the first job that left its range; it names one of several."""
        for number, outcome in enumerate(self.outcomes, start=1):
            if isinstance(outcome, SaturationError):
                if len(self.outcomes) > 1:
                    outcome.args = (f"Class {number} of {len(self.outcomes)}: {outcome.args[0]}",)
                return outcome
        return None

    def results(self) -> list[RunResult]:
        """Results of all jobs.

        Raises
        ------
        SaturationError
            If one left its range.
        TrainingInterrupted
            On Ctrl-C before every job had an epoch.
        """
        error = self.error()
        if error is not None:
            raise error
        found = [one for one in self.outcomes if isinstance(one, RunResult)]
        ready = sum(result.epochs_done > 0 for result in found)
        if len(found) < len(self.outcomes):     # the last one that was begun was in training
            raise _nothing_kept(found[-1], len(found), len(self.outcomes))
        if ready < len(found):
            raise _nothing_kept(found[0], ready + 1, len(found))
        return found


def run_passes(device: Device, passes: Sequence[Pass], n_jobs: int, n_epochs: int,
               on_epoch: EpochReport, *, to_the_end: bool = False,
               in_turn: bool = False) -> Runs:
    """Run passes, ``device.workers`` at a time.

    Parameters
    ----------
    device : Device
    passes : sequence of Pass
    n_jobs, n_epochs : int
        Jobs of all passes, and epochs of each.
    on_epoch : callable or None
        Called with the finished epochs, summed over the jobs.
    to_the_end : bool
        False: a job that leaves its range ends the others, where they have not ended.
    in_turn : bool
        True: one pass after the other.

    Raises
    ------
    DeviceError
        See :meth:`bitstep.pipeline.device.Device.train_models`. The first error ends the others.
    """
    runs = Runs([None] * n_jobs)
    if device.workers > 1 and len(passes) > 1 and not in_turn:
        _run_together(device, passes, runs, on_epoch, to_the_end)
    else:
        _run_in_turn(passes, runs, on_epoch, n_epochs, to_the_end)
    return runs


def _run_in_turn(passes, runs, on_epoch, n_epochs, to_the_end):
    before = 0
    for one in passes:
        report = (lambda done, before=before: on_epoch(before + done)) if on_epoch else None
        try:
            runs.take(one, one.train(on_epoch=report))
        except ModelsInterrupted as stopped:
            runs.take(one, stopped.outcomes)
            runs.interrupted = True
            return
        if not to_the_end and any(isinstance(found, SaturationError) for found in runs.outcomes):
            return
        before += len(one.members) * n_epochs


def _run_together(device, passes, runs, on_epoch, to_the_end):
    """Run passes at the same time, in threads of their own."""
    lock, finished = threading.Lock(), [0] * len(passes)

    def work(number: int) -> list[Outcome]:
        def report(done: int) -> None:
            with lock:
                finished[number] = done
                if on_epoch:
                    on_epoch(sum(finished))
        found = passes[number].train(on_epoch=report)
        if not to_the_end and any(isinstance(one, SaturationError) for one in found):
            raise _Saturated(found)
        return found

    with ThreadPoolExecutor(min(device.workers, len(passes))) as pool:
        working = [pool.submit(work, number) for number in range(len(passes))]
        try:
            wait(working, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            runs.interrupted = True
        finally:
            if not all(one.done() for one in working):      # Ctrl-C, or one of them has failed
                device.end_jobs(True)
                wait(working)
                device.end_jobs(False)
    for one, future in zip(passes, working, strict=True):
        runs.take(one, _outcomes_of(future))


class _Saturated(Exception):
    """A model left its range, which ends the other passes."""

    def __init__(self, outcomes: list[Outcome]):
        super().__init__()
        self.outcomes = outcomes


def _outcomes_of(future: Future) -> list[Outcome]:
    """Outcomes of a pass that has ended; any other error is raised."""
    error = future.exception()
    if isinstance(error, (_Saturated, ModelsInterrupted)):
        return error.outcomes
    if error is not None:
        raise error
    return future.result()


def _nothing_kept(result: RunResult, number: int, count: int) -> TrainingInterrupted:
    """The exception of a training that was interrupted in output ``number`` of ``count``, before
    every one of them had an epoch.
    """
    text = "interrupted in the first epoch: there is no model yet, so none was kept"
    if count > 1:
        text = (f"interrupted in class {number} of {count}: no model was kept, because a "
                "one-vs-rest model needs all of them")
    stopped = TrainingInterrupted(result)
    stopped.args = (text,)
    return stopped
