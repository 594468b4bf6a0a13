"""The loop of a training: the one place where epochs of a device become epochs of a training.

The jobs of a training (of outputs, or of the candidates of a sweep) go through it in rounds. A
round has all epochs, or with early stopping as many as there are before the rule can end the
training. It is trained in passes: jobs that share their rows in one run of the device, others one
after the other or, where the device has workers, at the same time. A run has all epochs of the
round, since a pipeline goes through them by itself, or one epoch where the host has to do between
epochs. What else there is to do happens in this order.

Before a run:

1. *Planes* (:class:`bitstep.training.loop.precision.PlaneChoice`): those of the epoch are chosen.
2. *Corrections between epochs* (:mod:`bitstep.training.loop.corrections`): corrections and proximal
   steps are taken out of the run.

After a run, for each of its jobs (:meth:`bitstep.training.loop.tracks.Track.take`):

3. *Corrections between epochs*: the host makes them.
4. *Counters*: those of the run are added to those of the runs before.
5. *Planes*: the rule sees what the epoch has changed.
6. *Errors*: epochs of the run become epochs of the training, in results and in messages.

After every finished epoch, while the run goes on (where each epoch is a run: after it):

7. *Progress*: the number of finished epochs of all jobs.
8. *Checkpoint* (:class:`bitstep.training.files.checkpoint_writer.CheckpointWriter`): the file.
9. *Progress*: the weights of the models, where the device shows them.

After a round:

10. *Growing ranges* (:class:`bitstep.training.loop.growing.Growth`): jobs that left theirs start
    again with more room, and the next round is theirs.
11. *Early stopping* (:class:`bitstep.training.scores.stopping.EarlyStopping`): the scores of the
    epochs of the round, and whether there is another one.

Ctrl-C may come at any of these places. Every job keeps the epochs that it has finished then; a job
that left its range and would start again has none.

Bit-centred training (:mod:`bitstep.training.centred`) is a loop of another kind: the host computes
the jobs of an outer step one from the results of the other, and makes some of them again, so a
device cannot go through outer steps by itself, and outputs share no pass. It counts, keeps, reports
and ends as this loop does (:mod:`bitstep.training.endings`).
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np

from bitstep.pipeline.device import Device, Run
from bitstep.pipeline.results import Outcome, RunError, TrainingInterrupted
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.loop.growing import Growth
from bitstep.training.loop.passes import passes_of, run_together
from bitstep.training.loop.tracks import Track
from bitstep.training.planning import Plan
from bitstep.training.scores.stopping import EarlyStopping

# Called with the number of a job, its plan, and the weights and intercept word of its last
# epoch.
OnWords = Callable[[int, Plan, np.ndarray, int], None]


class TrainingLoop:
    """The loop of a training.

    Parameters
    ----------
    device : Device
    tracks : sequence of Track
        Jobs, all with as many epochs.
    growth : Growth or None
        Restarts of these jobs; None: none start again.
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.begin`.
    on_epoch : callable or None
        Called with the finished epochs, summed over the jobs.
    on_words : callable or None
        Called with the number of a job, its plan, and the weights and intercept word of its
        last epoch.
    checkpoint : CheckpointWriter or None
        Keeps every epoch; those that it holds are not trained again. Jobs are trained one after the
        other.
    stopping : EarlyStopping or None
    to_the_end : bool
        False: a job that leaves its range, and cannot start again, ends the training.

    Attributes
    ----------
    interrupted : bool
        True if Ctrl-C ended the training.
    """

    def __init__(self, device: Device, tracks: Sequence[Track], growth: Growth | None = None, *,
                 timeout_s: float = 60.0, on_epoch: Callable[[int], None] | None = None,
                 on_words: OnWords | None = None, checkpoint: CheckpointWriter | None = None,
                 stopping: EarlyStopping | None = None, to_the_end: bool = False):
        self.device, self.tracks = device, tracks
        self.growth = growth or Growth(tracks)
        self.timeout_s, self.to_the_end = timeout_s, to_the_end
        self.on_epoch, self.on_words = on_epoch, on_words
        self.checkpoint, self.stopping = checkpoint, stopping
        self.interrupted = False
        self._epochs = self._until = len(tracks[0].job.epochs)      # of all, and of the round
        self._running: dict[int, int] = {}      # epochs of runs, by the number of the first job
        self._lock = threading.Lock()           # of what is reported

    def run(self) -> None:
        """Train; results, and errors of numbers that left their range, are in the tracks.

        Raises
        ------
        DeviceError
            See :meth:`bitstep.pipeline.device.Device.train`.
        """
        try:
            self._go_on()
            while self._round():
                pass
            if self.checkpoint and self.stopping and not any(one.error for one in self.tracks):
                self.checkpoint.stop()
        except KeyboardInterrupt:
            self.interrupted = True
            self.growth.give_up()
            if self.stopping and not any(one.error for one in self.tracks):
                self._ends(self.stopping, min(one.done for one in self.tracks))

    def _round(self) -> bool:
        """Train a round; True if another one follows."""
        until = min(self._epochs, self.stopping.until) if self.stopping else self._epochs
        self._until = until
        numbers = [number for number, track in enumerate(self.tracks)
                   if not track.error and track.done < until]
        self._train(numbers, until)
        restarts = self.growth.grow(numbers, to_the_end=self.to_the_end)
        if restarts:
            if self.checkpoint:
                self.checkpoint.restart(restarts, [self.tracks[one.output].job for one in restarts])
            if self.stopping:
                self.stopping.restart()
            if self._done():
                self._report()
            return True
        if self.stopping is None or any(track.error for track in self.tracks):
            return False
        return not self._ends(self.stopping, until)

    def _ends(self, stopping: EarlyStopping, until: int) -> bool:
        return stopping.ends([track.plan for track in self.tracks],
                             [track.result for track in self.tracks], until)

    def _go_on(self) -> None:
        """Take the epochs of the checkpoint."""
        if self.checkpoint is None:
            return
        begun = len(self.checkpoint.checkpoint.results)
        for number, track in enumerate(self.tracks[:begun]):
            track.go_on(self.checkpoint.begin(number, track.job))

    def _train(self, numbers: Sequence[int], until: int) -> None:
        """Train some jobs up to an epoch."""
        to_the_end = self.to_the_end or any(self.tracks[number].grows for number in numbers)

        def train(members: list[int]) -> bool:
            self._pass(members, until, to_the_end)
            return to_the_end or not any(self.tracks[number].error for number in members)

        if self.checkpoint:
            passes = [[number] for number in numbers]
        else:
            passes = passes_of(self.device, {number: self.tracks[number].next_job(until)
                                             for number in numbers},
                               lambda number: self.tracks[number].alone)
        if self.device.workers > 1 and len(passes) > 1 and not self.checkpoint:
            run_together(self.device, passes, train)
            return
        for members in passes:
            if not train(members):
                return

    def _pass(self, members: list[int], until: int, to_the_end: bool) -> None:
        """Train the jobs of a pass up to an epoch, in one run or in one for each epoch."""
        tracks = [self.tracks[number] for number in members]
        if self.checkpoint:
            self.checkpoint.begin(members[0], tracks[0].job)
        while tracks[0].done < until and not any(track.error for track in tracks):
            jobs = [track.next_job(until) for track in tracks]
            with self.device.begin(jobs, timeout_s=self.timeout_s, to_the_end=to_the_end) as run:
                self._run(run, members)

    def _run(self, run: Run, members: list[int]) -> None:
        """Go through a run, and take what becomes of its jobs."""
        first = self.tracks[members[0]]
        try:
            outcomes = run.finish(
                None if first.alone else lambda done: self._epoch(run, members, done))
        except TrainingInterrupted as stopped:
            self._take(members, stopped.outcomes)
            raise
        except RunError as error:
            self._take(members, [])
            first.fail(error)
            self._keep(members[0])
            raise
        self._take(members, outcomes, report=first.alone)
        if first.alone and not first.error and self.on_words:
            self.on_words(members[0], first.plan, *first.last())

    def _take(self, members: list[int], outcomes: Sequence[Outcome], *,
              report: bool = False) -> None:
        """Take the outcomes of a run that is over, as far as jobs were begun."""
        try:
            with self._lock:
                self._running.pop(members[0], None)
                for number, outcome in zip(members, outcomes, strict=False):
                    self.tracks[number].take(outcome)
                if report and not self.tracks[members[0]].error:
                    self._report()
        finally:            # what is told may raise KeyboardInterrupt
            if outcomes:
                self._keep(members[0])

    def _epoch(self, run: Run, members: list[int], done: int) -> None:
        """Tell of a run whose jobs have finished so many epochs, and keep them."""
        with self._lock:
            self._running[members[0]] = done
            self._report()
        if self.checkpoint:
            self.checkpoint.keep(members[0], self.tracks[members[0]].seen(run.outcomes()[0]))
        if self.on_words:
            for place, words, intercept in run.words():
                number = members[place]
                self.on_words(number, self.tracks[number].plan, words, intercept)

    def _keep(self, number: int) -> None:
        if self.checkpoint:
            self.checkpoint.keep(number, self.tracks[number].result)

    def _report(self) -> None:
        if self.on_epoch:
            self.on_epoch(self._done())

    def _done(self) -> int:
        """Finished epochs of all jobs; a job that left its range has those of the round."""
        return sum(self._until if track.error else track.done for track in self.tracks) \
            + sum(self._running.values())
