"""Bit-centred training: the exact optimum of least squares and ridge from passes over few bits.

An outer step takes the model x, the *centre*, and an offset z that begins at 0:

1. A full pass over all 16 planes sums the gradient g at the centre
   (:mod:`bitstep.golden.gradient`).
2. Inner passes over b planes take the offset towards the solution of H z = -g, with codes q::

       z <- z - step (q (q.z) - D o z + p o z + g)

   No labels occur. D is what the codes' variance lacks of the rows' (negative, or 0, so that the
   passes are as stable as without it), and p the ridge penalties. D o z, p o z and g are added by
   the corrections, every T rows (docs/number-formats.md).
3. Of all offsets so far and their changes of g, which are H times them, the host takes the
   combination with the least loss.

At g = 0 nothing moves, whatever the codes are: biased codes change the speed, not the result
(stochastic variance-reduced gradient: Johnson and Zhang, NIPS 2013; bit centring: De Sa et al.,
"High-accuracy low-precision training", 2018; here the rows have few bits). Centre and offset have
units of their own, and that of the offset shrinks with it. Step 3 is conjugate gradients in which
the inner passes are the preconditioner.

Where steps are slow, as on columns with far values, whose codes are next to an intercept's, every
other one has the gradient in weights of centred and standardized columns in place of step 2.

Of few rows the host finds H, and takes -H^-1 g in place of step 2
(:mod:`bitstep.training.centred.curvature`).

The losses of classes are in :mod:`bitstep.training.centred.smooth`.
"""

import math
from typing import Any

import numpy as np

from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.registers import LabelFormat
from bitstep.training.centred.certificates import quadratic_gap
from bitstep.training.centred.curvature import Curvature, Inverse
from bitstep.training.centred.passes import WORD_LIMIT, FullPass
from bitstep.training.centred.run import SLOW, CentredRun

ROOM = 4.0                  # times the last offset, for which the next one's words have room
FIRST_RANGE = 32.0          # largest first offset, in labels
CONJUGATE = 1e-10           # least share of a move's square that earlier moves do not have
MEASURABLE = 8.0            # least change of the slope along a move, over its error
MANY_SLOW = 3               # after so many, standardized columns have every other step
PATIENCE = 20               # outer steps without a smaller gradient after which training ends
_NO_LABELS = np.empty(0, np.uint8)


class BitCentredRun(CentredRun):
    """Bit-centred training of one output of least squares; parameters as of
    :class:`bitstep.training.centred.run.CentredRun`.
    """

    SHARES = (1.0, 0.125)
    NUMBERS = (*CentredRun.NUMBERS, "error", "gain", "slow")

    _inverse: Inverse | None = None
    slow = 0                    # outer steps that left most of the gradient
    gain = 0.0                  # largest component of the last offset, over that of the slope
    error = 0.0                 # of a component of the slope, about what rounding makes of it

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._weights: dict[int, np.ndarray] = {}       # what corrections add, by planes
        self.measured = np.empty((2, len(self.point)))  # point and slope of the last full pass
        self._forget()

    def kept(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See :meth:`bitstep.training.centred.run.CentredRun.kept`."""
        numbers, arrays = super().kept()
        return numbers, arrays | {"measured": self.measured, "errors": self.errors}

    def restore(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take the state of :meth:`kept`."""
        super().restore(numbers, arrays)
        self.measured, self.errors = arrays["measured"].copy(), arrays["errors"].copy()

    @property
    def ended(self) -> bool:
        """True if the gradient is as small as asked for, or, with ``tol``, of many outer steps none
        made it smaller: rounding of far outliers' rows may hide what is left.
        """
        gradients = [one.gradient for one in self.found]
        return super().ended or bool(self.choice.tol and len(gradients) > PATIENCE and min(
            gradients[-PATIENCE:]) >= min(gradients[:-PATIENCE]))

    def slope_at_zeros(self) -> np.ndarray:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        return self._measure(np.zeros_like(self.point)).slope

    def begin(self, planes: int) -> None:
        """Take the full pass before the first outer step."""
        del planes
        found = self._measure(self.point)
        self.point, self.slope = found.point, found.slope
        self.measured = np.array([found.point, found.slope])

    def outer_step(self, planes: int, following: int) -> None:
        """Take an outer step."""
        del following
        before = self.size(self.slope)
        move = self._direction(planes) if before else np.zeros_like(self.point)
        found = self._measure(self.point + self.within(move))
        self.combine(found.point, found.slope, found.rounding)
        self.slow += int(self.size(self.slope) > SLOW * before)

    def inverse_curvature(self, curvature: Curvature, values: np.ndarray) -> Inverse | None:
        """See :class:`bitstep.training.centred.run.CentredRun`; it is the same everywhere."""
        del values
        if self._inverse is None:
            self._inverse = curvature.inverse()
        return self._inverse

    @property
    def is_slow(self) -> bool:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        return self.slow >= MANY_SLOW

    def _direction(self, planes: int) -> np.ndarray:
        """The move of an outer step, before it is combined with earlier ones."""
        move = self.newton_step()
        if move is not None:
            return move
        # Who asks for planes or a step has inner passes with them.
        if self.choice.curvature and self.is_slow and len(self.found) % 2:
            self.planes = PLANES        # of the full pass, which is all that such a step reads
            return -self.standard_step(self.slope)
        return self.inner_passes(planes)

    def gap(self) -> float:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        return quadratic_gap(self.slope, self.penalties, self.rows.column_moments[0],
                             MEASURABLE * self.error, fit_intercept=self.choice.fit_intercept)

    def combine(self, point: np.ndarray, slope: np.ndarray, rounding: float) -> None:
        """Take the point of least loss among those that all moves so far reach.

        The loss is quadratic, so that is where the slope is at right angles to all moves; slopes
        are linear in the moves.
        """
        # From where a slope was measured: that of a combination has what rounding added up to.
        (before, slope_before), self.measured = self.measured, np.array([point, slope])
        move, change = point - before, slope - slope_before
        if not self._keep(move, change, 2 * rounding):
            self._forget()
            if not self._keep(move, change, 2 * rounding):
                if self.size(slope) < self.size(self.slope):
                    self.point, self.slope, self.error = point, slope, rounding
                return
        shares = self.moves @ slope
        self.error = rounding + float(np.abs(shares) @ self.errors)
        self.point, self.slope = point - shares @ self.moves, slope - shares @ self.changes

    def _keep(self, move: np.ndarray, change: np.ndarray, error: float) -> bool:
        """Make a move conjugate to those before, d_i . H d_j = 1 if i = j and 0 else, so that each
        has its share by itself, and keep it.

        False if it is hidden by the rounding of slopes: the new one's ``error``, and with each
        earlier one's share that of its change.
        """
        square = move @ change
        for _ in range(2):      # once is not enough in floating point
            shares = self.changes @ move
            move, change = move - shares @ self.moves, change - shares @ self.changes
            error += np.abs(shares) @ self.errors
        left = move @ change
        if left <= max(CONJUGATE * square, MEASURABLE * error * math.sqrt(move @ move)):
            return False
        root = math.sqrt(left)
        self.moves = np.concatenate([self.moves, move[None] / root])
        self.changes = np.concatenate([self.changes, change[None] / root])
        self.errors = np.append(self.errors, error / root)
        return True

    def _forget(self) -> None:
        self.moves = self.changes = np.empty((0, len(self.point)))
        self.errors = np.empty(0)

    def _measure(self, point: np.ndarray) -> FullPass:
        """The full pass at the nearest point that words can hold."""
        sizes = np.abs(point)
        return self.full_pass(point, max(float(sizes.max()), self.largest),
                              self.largest + float(sizes.sum()))

    def inner_passes(self, planes: int) -> np.ndarray:
        """An offset that takes the slope towards 0."""
        if self.few_rows:
            self.planes = planes
            return self.gradient_step(self.slope)
        slope = float(np.abs(self.slope).max())
        if not self.reach:
            drift = sum(self.shares) * self.inner_rows * self.step
            self.reach = min(drift * slope, FIRST_RANGE * self.largest)
        self.reach = max(self.reach, ROOM * self.gain * slope)
        move = self.tried(planes, self._inner)
        largest = float(np.abs(move).max())
        self.gain, self.reach = largest / slope, ROOM * largest or self.reach
        return move

    def _inner(self, planes: int) -> np.ndarray:
        """Run the inner passes with room for offsets of ``reach``."""
        if planes not in self._weights:
            self._weights[planes] = np.minimum(self.rows.excess[planes - 1], 0) - self.penalties
        # A sign is never 0, so the labels of classes have another format here.
        return self.train(planes, self.reach / WORD_LIMIT, self._weights[planes], self.slope,
                          labels=[_NO_LABELS], label_format=LabelFormat.INT16, label_shift=PLANES)
