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

from bitstep.pipeline.job import EpochSteps

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


class PlaneChoice:
    """The planes of a job's epochs, as they are chosen.

    Parameters
    ----------
    entries : mapping of int to tuple of EpochSteps
        The epochs of the job, for the planes of :data:`LADDER`.

    Attributes
    ----------
    planes : list of int
        Planes of the finished epochs.
    """

    def __init__(self, entries: Mapping[int, tuple[EpochSteps, ...]]):
        self._entries, self._rule = entries, PlaneRule()
        self.planes: list[int] = []

    def entry(self, number: int) -> EpochSteps:
        """The next epoch, which has this number from 0."""
        return self._entries[self._rule.planes][number]

    def see(self, before: list[int], model: np.ndarray, intercept: int) -> list[int]:
        """Take in an epoch: the words before it, and model and intercept after it; return the words
        after it.
        """
        after = [*model.tolist(), int(intercept)]
        self.planes.append(self._rule.planes)
        self._rule.see([new - old for new, old in zip(after, before, strict=True)])
        return after
