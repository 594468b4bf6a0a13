"""Planes that a training of woven rows chooses as it goes: ``planes="auto"``.

An epoch with few planes costs few bytes, and is as good as any while the model is far from where it
goes. So training begins with :data:`FIRST_PLANES` and doubles the planes, up to 8, after an epoch
that no longer gains. That is one whose change d of the model words

- has d . d' <= 0, with d' the change of the epoch before at the same planes: the model goes to and
  fro about a point; or
- has 16 d . d < d1 . d1, with d1 the change of the first epoch at these planes: the model has
  almost arrived where these planes lead.

It ends at 8, since an update moves a word by whole multiples of the level: with 16 planes its
rounding alone, by up to 2^16 last bits of a word, is more noise than that of codes of 8 bits.

Changes are integers and so are the products, so every device takes the same planes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from bitstep.pipeline.device import Device, OnWords
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.results import (
    RunError,
    RunResult,
    SaturationError,
    TrainingInterrupted,
    collect,
)
from bitstep.training.counters import sum_counters

LADDER = (2, 4, 8)          # more planes make the rounding of updates coarser than the codes
FIRST_PLANES = LADDER[0]
LITTLE = 16                 # ratio of squares of two changes, of which the later is then small


class PlaneRule:
    """The planes of the next epoch, from the changes of the model so far."""

    def __init__(self):
        self.planes = FIRST_PLANES
        self._first = self._last = None

    def see(self, change: list[int]) -> None:
        """Take in the change of all words by an epoch at the present planes."""
        size = sum(word * word for word in change)
        stalled = False
        if self._first is None:
            self._first = size
        else:
            along = sum(a * b for a, b in zip(change, self._last or [], strict=True))
            stalled = along <= 0 or LITTLE * size < self._first
        self._last = change
        if stalled and self.planes < LADDER[-1]:
            self.planes *= 2
            self._first = self._last = None


class PrecisionRunner(Device):
    """A device that chooses the planes of each epoch.

    Parameters
    ----------
    device : Device
        Runs the rows, an epoch at a time; it stays open.
    entries : mapping of int to tuple of EpochSteps
        The epochs of the job, for the planes of :data:`LADDER`.

    Attributes
    ----------
    planes : list of int
        Planes of the finished epochs, of those of :meth:`go_on`, too.
    """

    def __init__(self, device: Device, entries: Mapping[int, tuple[EpochSteps, ...]]):
        self.device, self._entries = device, entries
        self.name, self.config, self.clock_hz = device.name, device.config, device.clock_hz
        self.planes: list[int] = []
        self._rule, self._earlier = PlaneRule(), 0

    def go_on(self, job: TrainingJob, earlier: RunResult) -> None:
        """Take in the epochs that a job has had, before :meth:`train` gets those that are left."""
        self.planes, self._rule, self._earlier = [], PlaneRule(), earlier.epochs_done
        words = [*job.model.tolist(), int(job.intercept)]
        for model, intercept in zip(earlier.models, earlier.intercepts, strict=True):
            words = self._see(words, model, intercept)

    def _see(self, before: list[int], model: np.ndarray, intercept: int) -> list[int]:
        """Take in an epoch's model; its words."""
        after = [*model.tolist(), int(intercept)]
        self.planes.append(self._rule.planes)
        self._rule.see([new - old for new, old in zip(after, before, strict=True)])
        return after

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None,
              on_models: Callable[[RunResult], None] | None = None,
              on_words: OnWords | None = None) -> RunResult:
        """Run a job; see :meth:`bitstep.pipeline.device.Device.train`."""
        if not self._earlier:
            self.planes, self._rule = [], PlaneRule()
        done: list[RunResult] = []
        words = [*job.model.tolist(), int(job.intercept)]

        def result() -> RunResult:
            return collect([one.models[-1] for one in done], [one.intercepts[-1] for one in done],
                           job.n_features, sum_counters([one.counters for one in done]))

        try:
            for number in range(len(job.epochs)):
                entry = self._entries[self._rule.planes][self._earlier + number]
                one = replace(job, epochs=(entry,),
                              model=np.array(words[:-1], np.int32), intercept=words[-1])
                try:
                    done.append(self.device.train(one, timeout_s=timeout_s))
                except SaturationError as error:
                    raise SaturationError(number + 1, error.saturation, result()) from None
                except RunError as error:
                    error.result = result()
                    raise
                words = self._see(words, done[-1].models[-1], done[-1].intercepts[-1])
                if on_epoch:
                    on_epoch(len(done))
                if on_models:
                    on_models(result())
                if on_words:
                    on_words(0, done[-1].models[-1], int(done[-1].intercepts[-1]))
            return result()
        except KeyboardInterrupt:
            raise TrainingInterrupted(result()) from None

    def close(self) -> None:
        """Nothing to release."""
