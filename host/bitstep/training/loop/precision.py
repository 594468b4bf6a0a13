"""Planes that a training of bit-plane rows chooses as it goes: ``planes="auto"``.

An epoch with few planes costs few bytes, and is as good as any while the model is far from where it
goes. So training begins with :data:`FIRST_PLANES` and doubles the planes, up to 8, after an epoch
that no longer gains. That is one whose change d of the weights

- has d . d' <= 0, with d' the change of the epoch before at the same planes: the model goes to and
  fro about a point; or
- has 16 d . d < d1 . d1, with d1 the change of the first epoch at these planes: the model has
  almost arrived where these planes lead.

It ends at 8, since an update moves a word by whole multiples of the level: with 16 planes its
rounding alone, by up to 2^16 last bits of a word, is more noise than that of codes of 8 bits.

Changes are integers and so are the products, so every device takes the same planes.
"""

from collections.abc import Mapping

import numpy as np

from bitstep.pipeline.job import EpochSteps, TrainingJob

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


class FixedPlanes:
    """The planes of a job whose epochs say theirs.

    Attributes
    ----------
    alone : bool
        True if each epoch is a run of its own, since its planes are not known before.
    """

    alone = False

    def __init__(self, job: TrainingJob):
        self._job = job

    @property
    def planes(self) -> list[int]:
        """Planes of every epoch; 0 of rows without."""
        return [steps.planes for steps in self._job.epochs]

    def epochs(self, number: int, count: int) -> tuple[EpochSteps, ...]:
        """The next epochs, of which the first has this number from 0."""
        return self._job.epochs[number:number + count]

    def see(self, before: tuple[np.ndarray, int], after: tuple[np.ndarray, int]) -> None:
        """Take in an epoch: model and intercept before it, and after it."""


class PlaneChoice:
    """The planes of a job's epochs, as they are chosen, in place of :class:`FixedPlanes`.

    Parameters
    ----------
    entries : mapping of int to tuple of EpochSteps
        The epochs of the job, for the planes of :data:`LADDER`.

    Attributes
    ----------
    planes : list of int
        Planes of the finished epochs.
    """

    alone = True

    def __init__(self, entries: Mapping[int, tuple[EpochSteps, ...]]):
        self._entries, self._rule = entries, PlaneRule()
        self.planes: list[int] = []

    def epochs(self, number: int, count: int) -> tuple[EpochSteps, ...]:
        """The next epoch, which has this number from 0."""
        del count
        return self._entries[self._rule.planes][number:number + 1]

    def see(self, before: tuple[np.ndarray, int], after: tuple[np.ndarray, int]) -> None:
        """Take in an epoch: model and intercept before it, and after it."""
        self.planes.append(self._rule.planes)
        new, old = ([*model.tolist(), int(intercept)] for model, intercept in (after, before))
        self._rule.see([one - other for one, other in zip(new, old, strict=True)])
