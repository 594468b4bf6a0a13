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
from dataclasses import replace
from typing import Any

from bitstep.pipeline.results import sum_counters
from bitstep.training.loop.tracks import Track
from bitstep.training.trained import Restart, TrainedModel

GROWTH = 4.0                # of the range, by a restart
MOST_RESTARTS = 5           # 1,024 times the first range


def wider(track: Track) -> Any:
    """Plan and choice of planes of a job with the next range; None if there is none."""
    if not track.grows or track.restarts == MOST_RESTARTS:
        return None
    chosen = track.plan.model_range
    try:
        while True:
            chosen *= GROWTH
            planned = track.planner(chosen)
            if planned[0].job.label_shift < track.job.label_shift:
                return planned      # else a pipeline's largest shift hid the growth
    except ValueError:      # of the labels, the logistic loss, the steps or the box
        return None


class Growth:
    """Restarts of the jobs of a training.

    Parameters
    ----------
    tracks : sequence of Track
    tell : callable or None
        Called with a sentence on jobs that start again.
    restarts : sequence of Restart
        Those of a checkpoint, which are made at once.

    Attributes
    ----------
    restarts : list of Restart
    """

    def __init__(self, tracks: Sequence[Track], tell: Callable[[str], None] | None = None,
                 restarts: Sequence[Restart] = ()):
        self.tracks, self.tell, self.restarts = tracks, tell, list(restarts)
        for one in restarts:
            tracks[one.output].restart(tracks[one.output].planner(one.model_range))

    def restarts_of(self, first: int, count: int) -> list[Restart]:
        """Restarts of so many jobs from one on, with numbers among these."""
        return [replace(one, output=one.output - first) for one in self.restarts
                if first <= one.output < first + count]

    def grow(self, numbers: Sequence[int], *, to_the_end: bool) -> list[Restart]:
        """Give more room to those of some jobs that left their range; return their restarts.

        Parameters
        ----------
        numbers : sequence of int
        to_the_end : bool
            False: none starts again if one of them cannot.
        """
        left = [number for number in numbers if self.tracks[number].error]
        planned = {number: wider(self.tracks[number]) for number in left}
        for number, one in planned.items():
            if one is None and self.tracks[number].grows:
                _explain(self.tracks[number])
        if not to_the_end and None in planned.values():
            return []
        restarts = [self._restart(number, one) for number, one in planned.items()
                    if one is not None]
        self.restarts += restarts
        if restarts and self.tell:
            self.tell(_sentence(restarts, len(self.tracks)))
        return restarts

    def _restart(self, number: int, planned: Any) -> Restart:
        track = self.tracks[number]
        error: Any = track.error
        track.restart(planned)
        return Restart(number, error.epoch, track.plan.model_range, dict(error.result.counters))

    def give_up(self) -> None:
        """Take the epochs from jobs that would start again, of a training that was interrupted."""
        for track in self.tracks:
            if track.error and track.grows:
                track.empty()


def _explain(track: Track) -> None:
    """Say in a job's error that the range has grown as far as it can."""
    error: Any = track.error
    reached = f"{track.plan.model_range:g} times the largest label"
    if track.restarts:
        reached += f", {track.restarts} restarts after {track.first_range:g}"
    text = error.args[0].split(". Choose")[0]
    text = (f"{text}. The range of weights has grown as far as it does by itself, to "
            f"{reached}: choose a smaller step, a penalty (l2) or a box against weights "
            "that grow, or a larger model_range if the model itself is large")
    error.args = (text,)


def with_restarts(model: TrainedModel, restarts: Sequence[Restart]) -> TrainedModel:
    """A model whose counters contain the epochs that restarts gave up."""
    return replace(model, restarts=tuple(restarts), counters=sum_counters(
        [model.counters, *(one.counters for one in restarts)]))


def _sentence(restarts: Sequence[Restart], count: int) -> str:
    if len(restarts) > 1:
        return (f"{len(restarts)} of {count} models left their range, and start again with "
                f"{GROWTH:g} times of it")
    one = restarts[0]
    of = f" of model {one.output + 1} of {count}" if count > 1 else ""
    return (f"a number{of} left its range in epoch {one.epoch}; training starts again with a range "
            f"of weights of {one.model_range:g} times the largest label")
