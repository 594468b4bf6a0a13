"""Bit-centred training: the exact optimum of least squares and ridge from passes over few bits.

An outer step takes the model x, the *centre*, and an offset z that begins at 0:

1. A full pass over all 16 planes sums the gradient g at the centre
   (:mod:`bitstep.golden.gradient`).
2. Inner passes over b planes take the offset towards the solution of H z = -g, with codes q::

       z <- z - step (q (q.z) - D o z + l2 z + g)

   No labels occur. D is what the codes' variance lacks of the rows' (negative, or 0, so that the
   passes are as stable as without it). D o z, l2 z and g are added by the corrections, every T
   rows (docs/number-formats.md).
3. Of all offsets so far and their changes of g, which are H times them, the host takes the
   combination with the least loss.

At g = 0 nothing moves, whatever the codes are: biased codes change the speed, not the result
(stochastic variance-reduced gradient: Johnson and Zhang, NIPS 2013; bit centring: De Sa et al.,
"High-accuracy low-precision training", 2018; here the rows have few bits). Centre and offset have
units of their own, and that of the offset shrinks with it. Step 3 is conjugate gradients in which
the inner passes are the preconditioner.

The losses of classes are in :mod:`bitstep.training.bit_centred_smooth`.
"""

import numpy as np

from bitstep.pipeline.woven import PLANES
from bitstep.quantization import WovenRows
from bitstep.training.centred_passes import WORD_LIMIT
from bitstep.training.centred_run import CentredRun

ROOM = 4.0                  # times the last offset, for which the next one's words have room
FIRST_RANGE = 32.0          # largest first offset, in labels


class BitCentredRun(CentredRun):
    """Bit-centred training of one output of least squares; parameters as of
    :class:`bitstep.training.centred_run.CentredRun`.
    """

    def begin(self, planes: int) -> None:
        """Take the full pass before the first outer step."""
        del planes
        self.point, self.slope = self.measured(self.point)

    def outer_step(self, planes: int, following: int) -> None:
        """Take an outer step."""
        del following
        move = self.inner_passes(planes) if self.slope.any() else np.zeros_like(self.point)
        self.combine(*self.measured(self.point + move))

    def combine(self, point: np.ndarray, slope: np.ndarray) -> None:
        """Take the point of least loss among those that all moves so far reach.

        The loss is quadratic, so that is where the slope is at right angles to all moves; slopes
        are linear in the moves.
        """
        move = point - self.point
        self.moves.append(move)
        self.changes.append(slope - self.slope)
        moves, changes = np.array(self.moves), np.array(self.changes)
        sizes = np.sqrt(np.abs(np.einsum("ij,ij->i", moves, changes)))
        good = sizes > 0
        moves, changes = moves[good] / sizes[good, None], changes[good] / sizes[good, None]
        shares = np.linalg.lstsq(moves @ changes.T, -(moves @ slope), rcond=1e-10)[0]
        self.point, self.slope = point + shares @ moves, slope + shares @ changes

    def measured(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point that words can hold, and the gradient there."""
        found = self.full_pass(point, max(float(np.abs(point).max()), self.largest),
                               self.largest + float(np.abs(point).sum()))
        return found.point, found.slope

    def inner_passes(self, planes: int) -> np.ndarray:
        """An offset that takes the slope towards 0."""
        if self.few_rows:
            self.planes = planes
            return self.gradient_step(self.slope)
        if not self.reach:
            drift = sum(self.choice.shares) * self.data.n_rows * self.step
            self.reach = min(drift * float(np.abs(self.slope).max()), FIRST_RANGE * self.largest)
        move = self.tried(planes, self._inner)
        self.reach = ROOM * float(np.abs(move).max()) or self.reach
        return move

    def _inner(self, planes: int) -> np.ndarray:
        """Run the inner passes with room for offsets of ``reach``."""
        rows = self.data.rows
        assert isinstance(rows, WovenRows)
        return self.train(planes, self.reach / WORD_LIMIT,
                          np.minimum(rows.excess[planes - 1], 0) - self.objective.l2, self.slope,
                          labels=np.empty(0, np.uint8), label_shift=PLANES)
