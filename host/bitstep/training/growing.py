"""Ranges of weights that grow: a job that leaves an automatic one is trained again with more room.

It starts again from its first model with :data:`GROWTH` times the range, up to
:data:`MOST_RESTARTS` times, so its model is the one that training with that ``model_range`` gives,
bit for bit, on every device. The range depends on data and options alone: it is the least of the
first one times 1, 4, 16, ... that holds all epochs.

Where a plane separates the classes, weights grow as long as margin losses are trained, so these
ranges grow. Least squares has its optimum within the first one: what leaves that diverges, and more
room would only hide it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bitstep.pipeline.device import Device
from bitstep.pipeline.results import Outcome, RunResult, SaturationError
from bitstep.training.counters import sum_counters
from bitstep.training.objective import Objective, Training
from bitstep.training.output_runs import EpochReport, Pass, Runs, run_passes
from bitstep.training.trained import Restart, TrainedModel

GROWTH = 4.0                # of the range, by a restart
MOST_RESTARTS = 5           # 1,024 times the first range


class GrowingJob:
    """A job that can be planned with a larger range.

    Parameters
    ----------
    planned : callable
        From a training to its plan and what runs it (:func:`bitstep.training.epochs.planned`).
    objective : Objective
    training : Training
        Its ``model_range`` is honoured where it is given.

    Attributes
    ----------
    plan : Plan
    runner : Device
        What runs the planned job.
    restarts : int
    first_range : float
        The range before the first restart.
    automatic : bool
        True if the range may grow.
    """

    def __init__(self, planned: Callable[[Training], tuple[Any, Device]], objective: Objective,
                 training: Training):
        self._planned, self._training = planned, training
        self.automatic = training.model_range is None and not objective.rule.quadratic
        self.restarts = 0
        self.plan, self.runner = planned(training)
        self.first_range = self.plan.model_range

    def with_range(self, model_range: float) -> tuple[Any, Device]:
        """Plan and runner with this range."""
        return self._planned(replace(self._training, model_range=model_range))

    def wider(self) -> tuple[Any, Device] | None:
        """Plan and runner with the next range; None if there is none."""
        if not self.automatic or self.restarts == MOST_RESTARTS:
            return None
        chosen = self.plan.model_range
        try:
            while True:
                chosen *= GROWTH
                made = self.with_range(chosen)
                if made[0].job.label_shift < self.plan.job.label_shift:
                    return made         # else a pipeline's largest shift hid the growth
        except ValueError:      # of the labels, the logistic loss, the steps or the box
            return None

    def take(self, made: tuple[Any, Device]) -> None:
        """Start again with plan and runner of another range."""
        self.plan, self.runner = made
        self.restarts += 1


@dataclass
class GrowingJobs:
    """Jobs of all outputs, or of all candidates.

    Parameters
    ----------
    jobs : list of GrowingJob
    tell : callable or None
        Called with a sentence on jobs that start again.
    keep : callable or None
        Called with their restarts and jobs, once for those that start again together.

    Attributes
    ----------
    plans, runners : list
        Of the jobs; the same lists for as long as the jobs grow.
    restarts : list of Restart
    """

    jobs: list[GrowingJob]
    tell: Callable[[str], None] | None = None
    keep: Callable[..., None] | None = None
    restarts: list[Restart] = field(default_factory=list)

    def __post_init__(self):
        for one in self.restarts:       # of a checkpoint
            self.jobs[one.output].take(self.jobs[one.output].with_range(one.model_range))
        self.plans = [one.plan for one in self.jobs]
        self.runners = [one.runner for one in self.jobs]

    def restarts_of(self, first: int, count: int) -> list[Restart]:
        """Restarts of so many jobs from one on, with numbers among these."""
        return [replace(one, output=one.output - first) for one in self.restarts
                if first <= one.output < first + count]

    def can_grow(self, numbers: Sequence[int]) -> bool:
        """True if one of these jobs may leave its range and start again."""
        return any(self.jobs[number].automatic for number in numbers)

    def grow(self, runs: Runs, numbers: Sequence[int], *, to_the_end: bool = False) -> list[int]:
        """Give more room to those of some jobs that left their range.

        Parameters
        ----------
        runs : Runs
            What became of the jobs; those that start again have no epochs then.
        numbers : sequence of int
        to_the_end : bool
            False: none starts again if one of them cannot.

        Returns
        -------
        list of int
            Jobs that start again.
        """
        left = [number for number in numbers if isinstance(runs.outcomes[number], SaturationError)]
        if runs.interrupted:
            for number in left:
                if self.jobs[number].automatic:
                    runs.outcomes[number] = _emptied(runs.outcomes[number])
            return []
        made = {number: self.jobs[number].wider() for number in left}
        for number, wider in made.items():
            if wider is None and self.jobs[number].automatic:
                self._explain(number, runs.outcomes[number])
        if not to_the_end and None in made.values():
            return []
        found = []
        for number, wider in made.items():
            if wider is not None:
                found.append(number)
                self._restart(number, wider, runs)
        if found:
            since = self.restarts[-len(found):]
            if self.tell:
                self.tell(_sentence(since, len(self.jobs)))
            if self.keep:
                self.keep(since, [self.plans[one.output].job for one in since])
        return found

    def _restart(self, number: int, made: tuple[Any, Device], runs: Runs) -> None:
        error: Any = runs.outcomes[number]
        self.jobs[number].take(made)
        self.plans[number], self.runners[number] = made
        self.restarts.append(Restart(number, error.epoch, made[0].model_range,
                                     dict(error.result.counters)))
        runs.outcomes[number] = _emptied(error)

    def _explain(self, number: int, error: Any) -> None:
        """Say in an error that the range has grown as far as it can."""
        job = self.jobs[number]
        reached = f"{job.plan.model_range:g} times the largest label"
        if job.restarts:
            reached += f", {job.restarts} restarts after {job.first_range:g}"
        text = error.args[0].split(". Choose")[0]
        text = (f"{text}. The range of weights has grown as far as it does by itself, to "
                      f"{reached}: choose a smaller step, a penalty (l2) or a box against weights "
                      "that grow, or a larger model_range if the model itself is large")
        error.args = (text,)


def run_growing(device: Device, growing: GrowingJobs, n_epochs: int,
                passes_for: Callable[[Sequence[int]], list[Pass]], on_epoch: EpochReport, *,
                to_the_end: bool = False, in_turn: bool = False) -> Runs:
    """Run jobs until none of them leaves its range, or one can grow no more.

    Parameters
    ----------
    device : Device
    growing : GrowingJobs
    n_epochs : int
        Epochs of each job.
    passes_for : callable
        Passes that train jobs of some numbers.
    on_epoch, to_the_end, in_turn
        See :func:`bitstep.training.output_runs.run_passes`.
    """
    count = len(growing.jobs)
    runs, left = Runs([None] * count), list(range(count))
    while left:
        done = (count - len(left)) * n_epochs
        if on_epoch and growing.restarts and done:
            on_epoch(done)
        report = (lambda more, done=done: on_epoch(done + more)) if on_epoch else None
        found = run_passes(device, passes_for(left), count, n_epochs, report,
                           to_the_end=to_the_end or growing.can_grow(left), in_turn=in_turn)
        for number in left:
            runs.outcomes[number] = found.outcomes[number] or runs.outcomes[number]
        runs.interrupted = found.interrupted
        left = growing.grow(runs, left, to_the_end=to_the_end)
    return runs


def with_restarts(model: TrainedModel, restarts: Sequence[Restart]) -> TrainedModel:
    """A model whose counters contain the epochs that restarts gave up."""
    return replace(model, restarts=tuple(restarts), counters=sum_counters(
        [model.counters, *(one.counters for one in restarts)]))


def _emptied(outcome: Outcome | None) -> RunResult:
    """What a job that starts again has: no epochs."""
    result: Any = outcome.result if isinstance(outcome, SaturationError) else outcome
    return replace(result, models=result.models[:0], intercepts=result.intercepts[:0],
                   epoch_cycles=None)


def _sentence(restarts: Sequence[Restart], count: int) -> str:
    if len(restarts) > 1:
        return (f"{len(restarts)} of {count} models left their range, and start again with "
                f"{GROWTH:g} times of it")
    one = restarts[0]
    of = f" of model {one.output + 1} of {count}" if count > 1 else ""
    return (f"a number{of} left its range in epoch {one.epoch}; training starts again with a range "
            f"of weights of {one.model_range:g} times the largest label")
