"""Trainings that may stop early: rounds of epochs, after each of which the models are scored.

A round has as many epochs as there are before the rule can end the training, so none is trained in
vain. It is a run of its own, which goes on from the model words of the one before, as a training
from a checkpoint does: bit for bit the epochs of one long run. Counters are sums over the runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bitstep.pipeline.device import Device, OnWords
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import (
    ModelsInterrupted,
    Outcome,
    RunError,
    RunResult,
    SaturationError,
    TrainingInterrupted,
)
from bitstep.training.checkpoint import joined, remaining_job
from bitstep.training.checkpoint_writer import CheckpointWriter
from bitstep.training.growing import GrowingJobs
from bitstep.training.output_runs import EpochReport, Pass, Runs, passes_of, run_passes
from bitstep.training.precision import PrecisionRunner
from bitstep.training.scores.stopping import Stopping, StopRule


@dataclass
class Rounds:
    """A training in rounds.

    Parameters
    ----------
    device : Device
    growing : GrowingJobs
        Job of each output.
    stopping : Stopping
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.train`.
    checkpoint : CheckpointWriter or None
        Keeps the epochs; what it holds already is not trained again.
    """

    device: Device
    growing: GrowingJobs
    stopping: Stopping
    timeout_s: float
    checkpoint: CheckpointWriter | None

    def run(self, on_epoch: EpochReport, on_words: OnWords | None) -> tuple[Runs, int | None]:
        """Train until the rule, or the last epoch, ends it.

        Parameters
        ----------
        on_epoch, on_words
            See :meth:`bitstep.pipeline.device.Device.train_models`.

        Returns
        -------
        runs : Runs
        best : int or None
            Epoch of the least score, counted from 0; None without held-out rows.

        Raises
        ------
        DeviceError
            See :meth:`bitstep.pipeline.device.Device.train_models`.
        """
        rule = StopRule(self.stopping.tol, self.stopping.patience)
        runs = Runs([None] * len(self.growing.plans))
        total = len(self.growing.plans[0].job.epochs)
        try:
            while rule.epochs < total and not (rule.ended or runs.interrupted):
                until = min(total, rule.epochs + rule.ahead)
                self._round(runs, rule.epochs, until, on_epoch, on_words)
                if self.growing.grow(runs, range(len(runs.outcomes))):
                    # Other models have other scores, so the rule begins again; outputs keep the
                    # epochs that they have.
                    rule = StopRule(self.stopping.tol, self.stopping.patience)
                    continue
                if any(isinstance(one, SaturationError) for one in runs.outcomes):
                    return runs, None
                self._score(runs, rule, until)
            if self.checkpoint is not None and not runs.interrupted:
                self.checkpoint.stop()
        except KeyboardInterrupt:
            runs.interrupted = True
        if rule.ended:
            runs.outcomes = [one if one is None or isinstance(one, SaturationError)
                             else _first(one, rule.epochs) for one in runs.outcomes]
        return runs, rule.best if self.stopping.held_out and rule.epochs else None

    def _round(self, runs: Runs, before: int, until: int, on_epoch: EpochReport,
               on_words: OnWords | None) -> None:
        """Train the outputs that have less than ``until`` epochs, from ``before`` or later on."""
        plans, runners = self.growing.plans, self.growing.runners
        numbers = [number for number, one in enumerate(runs.outcomes)
                   if not isinstance(one, RunResult) or one.epochs_done < until]
        ready = until * len(plans) - (until - before) * len(numbers)
        report = (lambda done: on_epoch(ready + done)) if on_epoch else None
        to_the_end = self.growing.can_grow(numbers)
        if self.checkpoint is None:
            earlier: list = list(runs.outcomes)
            jobs = [one.job for one in plans]
            for number in numbers:
                runner, done = runners[number], earlier[number]
                if isinstance(runner, PrecisionRunner) and done is not None:
                    runner.go_on(jobs[number], done)
                jobs[number] = _part(jobs[number], done, until)
            passes = [_joining(one, earlier) for one in passes_of(
                self.device, runners, jobs, self.timeout_s, on_words=on_words,
                to_the_end=to_the_end, numbers=numbers)]
        else:
            passes = [Pass([number], partial(
                train_kept, self.checkpoint, runners[number], number, plans[number].job,
                self.timeout_s, on_words, before, until)) for number in numbers]
        found = run_passes(self.device, passes, len(plans), until - before, report,
                           to_the_end=to_the_end, in_turn=self.checkpoint is not None)
        for number, outcome in enumerate(found.outcomes):
            if outcome is not None:
                runs.outcomes[number] = outcome
        runs.interrupted = found.interrupted

    def _score(self, runs: Runs, rule: StopRule, until: int) -> None:
        """Score the epochs that all outputs have finished."""
        results = [one for one in runs.outcomes if isinstance(one, RunResult)]
        if len(results) < len(self.growing.plans):
            return
        for epoch in range(rule.epochs, min(until, *(one.epochs_done for one in results))):
            rule.see(self.stopping.score(self.growing.plans, results, epoch))
            if rule.ended:
                return


def _part(job, earlier, until):
    """The job of the epochs after those of a result (None: there are none), up to ``until``."""
    done = 0 if earlier is None else earlier.epochs_done
    left = job if earlier is None else remaining_job(job, earlier)
    return replace(left, epochs=left.epochs[:until - done])


def _first(result: RunResult, count: int) -> RunResult:
    """The first epochs of a result."""
    return replace(result, models=result.models[:count], intercepts=result.intercepts[:count],
                   epoch_cycles=None)


def _joining(one: Pass, earlier: list) -> Pass:
    """A pass whose outcomes hold the epochs before it, too."""
    def whole(outcomes: Sequence[Outcome]) -> list[Outcome]:
        return [_whole(earlier[number], outcome)
                for number, outcome in zip(one.members, outcomes, strict=False)]

    def train(*, on_epoch: Callable[[int], None] | None) -> list[Outcome]:
        try:
            return whole(one.train(on_epoch=on_epoch))
        except ModelsInterrupted as stopped:
            raise ModelsInterrupted(whole(stopped.outcomes)) from None
        except TrainingInterrupted as stopped:
            raise ModelsInterrupted(whole([stopped.result])) from None
        except RunError as error:
            before = earlier[one.members[0]]
            if before is not None:
                error.result = joined(before, error.result)
                where = f"epochs count from epoch {before.epochs_done} of the training"
                error.args = (f"{error.args[0]} ({where})",)
            raise

    return Pass(one.members, train)


def _whole(earlier: RunResult | None, outcome: Outcome) -> Outcome:
    """An outcome with the epochs before it."""
    if earlier is None:
        return outcome
    if isinstance(outcome, SaturationError):
        return SaturationError(earlier.epochs_done + outcome.epoch, outcome.saturation,
                               joined(earlier, outcome.result))
    return joined(earlier, outcome)


def train_kept(checkpoint: CheckpointWriter, runner: Device, number: int, job: TrainingJob,
               timeout_s: float, on_words: OnWords | None = None, before: int = 0,
               until: int | None = None, *, on_epoch: EpochReport) -> list[Outcome]:
    """Train an output up to epoch ``until`` (None: the last one), and keep its epochs in the
    checkpoint; reports count from epoch ``before``.
    """
    report = (lambda done: on_epoch(max(done - before, 0))) if on_epoch else None
    if isinstance(runner, PrecisionRunner):
        runner.go_on(job, checkpoint.done(number, job))
    try:
        return [checkpoint.train(runner, number, job, timeout_s=timeout_s, on_epoch=report,
                                 on_words=on_words, until=until)]
    except SaturationError as error:
        return [error]
    except TrainingInterrupted as stopped:
        raise ModelsInterrupted([stopped.result]) from None
