"""Bit-centred training of the smooth losses of classes: logistic, and squared hinge.

With the derivative l' of a row's loss, the inner passes of an outer step from the centre c are

    x <- x - step ((l'(q.x) - l'(q.c)) q + P (x - c) + v)

P is the diagonal of the ridge penalties. The first term is 0 at the centre whatever the codes q
are. l'(q.c) is one number a row, the label of the inner passes: the full pass, which sums the
gradient g at the centre from all planes, writes it. So with v = g nothing moves at the optimum.

The change of the gradient by a move is not linear, so there is no combination of earlier moves that
is best for sure. Instead the inner passes are the first guess of the inverse Hessian in the BFGS
method of limited memory (Liu and Nocedal, Mathematical Programming 45, 1989): v is g less what the
last moves explain, and these moves are added again. A full pass at the new point decides. The loss
is convex, so it has not grown if the slope along the move is still negative; a slope of up to
:data:`RISE` of that at its start is accepted, too, and else the move is shortened to where the
slope would be 0.

Where outer steps are slow (:data:`SLOW`), the codes' errors are too large for the objective's
weakly curved directions. From then on an outer step refines: BFGS finds the least value of the
objective on columns of few bits, of :data:`LEAST_REFINED` planes or more
(:mod:`bitstep.training.centred.code_columns`), with a linear term by which its slope at the centre
is g (the surrogate of Shamir, Srebro and Zhang, ICML 2014, with codes in place of a part of the
rows). Each of its gradients is a pass over these planes, without updates. Its first guess of the
inverse Hessian is that of centred and standardized columns which have nothing in common.

Of few rows the host finds the curvature at the centre, and outer steps are those of Newton's method
(:mod:`bitstep.training.centred.curvature`), until a few were poor: then they refine.

Where a plane separates the classes, or columns depend on each other, weights may grow without an
optimum. None becomes larger than its limit (:attr:`SmoothRun.limits`); the others go on to where
the loss is least.

Steps are divided by the Lipschitz constant of l' (1/4 of the logistic loss, 1 of the squared
hinge; :func:`bitstep.training.schedules.centred_step`).
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from bitstep.golden.sigmoid import FINE_LOSS_BOUND
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import RangeOverflowError
from bitstep.training.centred.certificates import convex_gap
from bitstep.training.centred.code_columns import CodeColumns
from bitstep.training.centred.curvature import Curvature, Inverse
from bitstep.training.centred.passes import WORD_LIMIT, FullPass
from bitstep.training.centred.run import SLOW, CentredRun

MEMORY = 60                 # moves that are remembered
LEAST_REFINED = 6           # planes of the codes that are refined on
REFINED = 0.05              # share of the gradient that refining leaves
UNREFINED = 0.5             # least share of the gradient that is left where codes are too few
MAX_REFINING = 20           # its gradients, at most
MAX_POOR = 5                # moves of Newton's method that leave more, after which there are none
RISE = 0.5                  # accepted slope along a move, as a share of the one at its start
LEVEL = 0.1                 # the same, up or down, where the host finds the end of a move
MAX_LOOKS = 8               # its gradients, at most
MAX_SEARCHES = 6            # full passes of an outer step
PASSED = 4                  # full passes of each sign of which a certificate is made
MAX_STALLED = 3             # outer steps without a move after which training ends
LEAST_SHARE = 0.05          # of a move, below which weights at their limit stay out of it
LEAST_FIRST = 0.03          # first gradient of the logistic loss that counts, at least
FIRST_ROOM = 32.0           # largest weight that the first words have room for
ROOM = 4.0                  # times the largest weight
LARGEST_WEIGHT = 1024.0     # of columns that vary over all of their range, without an optimum
LARGEST_STANDARD = 128.0    # of standardized columns; those with far values vary little else
MOST_WEIGHT = 2.0 ** 16     # beyond it words are too coarse for a pass


class SmoothRun(CentredRun):
    """Bit-centred training of one output of a smooth loss of classes; parameters as of
    :class:`bitstep.training.centred.run.CentredRun`.
    """

    NUMBERS = (*CentredRun.NUMBERS, "room", "error", "slow", "poor")

    poor = 0                            # moves of Newton's method that left most of the gradient
    slow = False                        # outer steps refine, in place of inner passes
    _refines = False                    # this outer step refines
    error = 0.0                         # largest of a component of a slope, by rounding
    _last: FullPass | None = None       # pass at the present point
    _written = 0                        # planes of its derivatives
    _reach = 0.0                        # ``reach`` of its words
    _room = 0.0                         # largest weight that the last words have room for
    room = 0.0                          # the same of the present point

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._columns: dict[int, CodeColumns] = {}      # by planes
        self._products: list[float] = []                # of moves and changes
        # Points of the last full passes, and the slopes there.
        self.passed = np.empty((0, 2, len(self.point)))

    @property
    def ended(self) -> bool:
        """True if the gradient is as small as asked for, or the words cannot make it smaller."""
        return super().ended or self.stalled >= MAX_STALLED

    def slope_at_zeros(self) -> np.ndarray:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        return self.full_pass(np.zeros_like(self.point), FIRST_ROOM, 1.0).slope

    def size_at_start(self, slope: np.ndarray) -> float:
        """See :meth:`bitstep.training.centred.passes.CentredPasses.size_at_start`.

        Where no column tells the classes apart, or there is but an intercept, the first gradient is
        next to 0. The sigmoid rounds its argument to 2^-16, which may move the gradient of rows
        that all have a few values by 2^-19 and a little more: two thirds of :data:`LEAST_FIRST`
        times the usual ``tol``.
        """
        least = LEAST_FIRST if self.objective.loss == Loss.LOGISTIC else 0.0
        return max(super().size_at_start(slope), least)

    def begin(self, planes: int) -> None:
        """Take the full pass before the first outer step."""
        self.reach = self.reach or 1.0
        self._take(self._measured(self.point, planes), planes)

    def outer_step(self, planes: int, following: int) -> None:
        """Take an outer step."""
        if not self.slope.any():
            return
        self._refines = False
        direction = self.within(self._direction(planes))
        before = float(self.slope @ direction)
        if before >= 0:         # the memory, or the passes, point uphill
            self._forget()
            self._refines = False
            direction = self.within(self.gradient_step(self.slope))
            before = float(self.slope @ direction)
        if before >= 0:         # out of the box, in every component
            self.stalled = MAX_STALLED
            return
        for _ in range(MAX_SEARCHES):
            found = self._measured(self.point + direction, following)
            after = float(found.slope @ direction)
            if after <= RISE * -before:
                break
            share = _share(before, after)
            direction, before = share * direction, share * before
        else:
            self.stalled += 1
            self._forget()
            self.slow = True        # rows in an order of their own may lead all inner passes astray
            self.inner_rows = self.data.n_rows
            self.least = min(2 * max(planes, self.least), PLANES)
            return
        if self._refines and self.size(found.slope) > UNREFINED * self.size(self.slope):
            # The codes' objective is bent otherwise, as where many columns move together.
            self.least = min(2 * self.planes, PLANES)
        if self.curvature is not None \
                and self.size(found.slope) > UNREFINED * self.size(self.slope):
            self.poor += 1
            self.slow |= self.poor == MAX_POOR
        move, change = found.point - self.point, found.slope - self.slope
        self.stalled = 0 if move.any() else self.stalled + 1
        self._remember(move, change)
        self._take(found, following)

    @cached_property
    def limits(self) -> np.ndarray:
        """Largest weights, and intercept, of every output.

        With penalties p_j the optimum has p_j x_j^2 / 2 <= F(0), the loss at weights of 0: no
        limit but that of words keeps a weight from it. Without, a standardized weight is at most
        :data:`LARGEST_STANDARD`: where a column has far values, weights for its range are larger.
        """
        weights = LARGEST_STANDARD / self._roots
        if self.objective.strongly_convex:
            at_zeros = max(1.0, math.log(len(self.outputs)))
            weights = np.maximum(weights, np.sqrt(2 * at_zeros / self.penalties))
        weights = np.clip(weights, LARGEST_WEIGHT, MOST_WEIGHT)
        # The intercept makes up for the means of columns.
        intercept = LARGEST_WEIGHT + (weights - LARGEST_WEIGHT) @ np.abs(self._means)
        return np.tile(np.append(weights, min(intercept, MOST_WEIGHT)), len(self.outputs))

    def within(self, move: np.ndarray, point: np.ndarray | None = None) -> np.ndarray:
        """The move of :meth:`bitstep.training.centred.run.CentredRun.within` after which no weight
        is beyond its limit: a part of it, or, where a weight is as large as that, its other
        components.

        Of classes that a plane separates the curvature vanishes as weights grow, so a quasi-Newton
        move has no bound. At its end words would be too coarse for a pass. What is left of a step
        down the gradient is downhill: no component changes its sign.
        """
        move, start = super().within(move), self.point if point is None else point
        room = np.maximum(self.limits - np.sign(move) * start, 0.0)
        sizes = np.abs(move)
        moved = sizes > 0
        share = float((room[moved] / np.maximum(sizes, room)[moved]).min(initial=1.0))
        return share * move if share >= LEAST_SHARE else np.sign(move) * np.minimum(sizes, room)

    def gap(self) -> float:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        points, slopes = np.append(self.passed, [[self.point, self.slope]], axis=0).swapaxes(0, 1)
        found = convex_gap(points, slopes, self.penalties, self.error,
                           fit_intercept=self.choice.fit_intercept)
        return found + (FINE_LOSS_BOUND if self.objective.loss == Loss.LOGISTIC else 0.0)

    def look_beside(self) -> None:
        """Take full passes with a larger or smaller intercept, until its slope had both signs."""
        if not self.choice.fit_intercept:
            return
        passes = self.passes
        for sign in (1.0, -1.0):
            known = [*self.passed[:, 1, -1], self.slope[-1]]
            step = 2 * max(abs(float(self.slope[-1])), self.error) / self.objective.rule.curvature
            for _ in range(MAX_SEARCHES):
                if max(sign * slope for slope in known) > self.error:
                    break
                beside = self.point.copy()
                beside[-1] += sign * step
                found = self.full_pass(beside, max(self._room, ROOM * float(np.abs(beside).max())),
                                       self._bound(beside))
                self.keep_pass(found)
                known.append(found.slope[-1])
                step *= 8
        self.passes = passes        # a training that goes on has the keys of one that never ended

    def kept(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See :meth:`bitstep.training.centred.run.CentredRun.kept`."""
        numbers, arrays = super().kept()
        return numbers, arrays | {"passed": self.passed}

    def restore(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take the state of :meth:`kept`."""
        super().restore(numbers, arrays)
        self.passed = arrays["passed"].copy()

    def _take(self, found: FullPass, planes: int) -> None:
        """Make a full pass's point the centre."""
        self._last, self._written, self._reach = found, planes, self.reach
        self.room = self._room
        self.point, self.slope = found.point, found.slope

    def _direction(self, planes: int) -> np.ndarray:
        """The move of an outer step."""
        move = self._newton()
        if move is not None:
            return move
        gradients = [1.0, *(step.gradient for step in self.found[-2:])]
        if self.found and gradients[-1] > SLOW * gradients[-2]:
            self.slow = True
        if self.few_rows:
            self.planes = planes
            return self._bfgs(self.slope, self.gradient_step)
        if self.slow:
            return self._refined(max(planes, self.least, LEAST_REFINED))
        try:
            return self._bfgs(self.slope, lambda rest: self.tried(
                planes, lambda taken: self._inner(taken, rest)))
        except RangeOverflowError:
            self.slow = True
            return self._refined(max(planes, self.least, LEAST_REFINED))

    def _newton(self) -> np.ndarray | None:
        """The move of Newton's method, unless a few were poor: it goes far along directions that
        hardly matter, up to the limit of weights, and other moves leave these alone.
        """
        if self.curvature is None or self.poor >= MAX_POOR:
            return None
        move = self.newton_step()
        if move is None:
            self.poor, self.slow = MAX_POOR, True
            return None
        return self._shortened(self.curvature, self.within(move))

    def _shortened(self, curvature: Curvature, move: np.ndarray) -> np.ndarray:
        """A move of Newton's method, up to about where the slope along it is 0.

        The host has the rows, so no full pass is needed where a move goes too far.
        """
        values = curvature.values(self.point)
        changes = curvature.values(self.point + move) - values
        penalized = np.append(self.penalties, 0.0) * self._by_output(move)

        def slope_at(share: float) -> float:
            derivatives = self.objective.rule.derivative(values + share * changes, self.targets)
            point = self._by_output(self.point + share * move)
            return float(curvature.weights @ (derivatives * changes).sum(axis=1)
                         + (penalized * point).sum())

        falling, rising = slope_at(0.0), slope_at(1.0)
        least, most, level = 0.0, 1.0, LEVEL * abs(falling)
        rounding = abs(falling - float(self.slope @ move))      # of the pass at the point
        if falling >= 0 or rising <= level or rounding > level:
            return move
        for _ in range(MAX_LOOKS):
            share = least + _share(falling, rising) * (most - least)
            slope = slope_at(share)
            if abs(slope) <= level:
                break
            if slope < 0:
                least, falling = share, slope
            else:
                most, rising = share, slope
        return share * move

    def inverse_curvature(self, curvature: Curvature, values: np.ndarray) -> Inverse | None:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        second = self.objective.rule.second
        assert second is not None
        return curvature.inverse(second(values, self.targets)[:, 0])

    def _bfgs(self, slope: np.ndarray, guess: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The move of limited-memory BFGS whose first guess takes a slope to a move."""
        rest, shares = slope.copy(), []
        if len(self._products) != len(self.moves):      # of a training that goes on
            self._products = [float(move @ change) for move, change in zip(
                self.moves, self.changes, strict=True)]
        pairs = list(zip(self.moves, self.changes, self._products, strict=True))
        for move, change, product in reversed(pairs):
            shares.append(float(move.dot(rest)) / product)
            rest -= shares[-1] * change
        found = guess(rest)
        for (move, change, product), share in zip(pairs, reversed(shares), strict=True):
            found = found - (share + float(change.dot(found)) / product) * move
        return found

    def _scaled(self, rest: np.ndarray) -> np.ndarray:
        """A guess from the last move alone, with the same curvature for all weights of centred and
        standardized columns: in their own units rare columns have little of it, and those whose
        codes are far from 0 share it with the intercept.
        """
        if not len(self.moves):
            return self.gradient_step(rest)
        change = self.changes[-1]
        return -self._products[-1] / float(change @ self.standard_step(change)) \
            * self.standard_step(rest)

    def _refined(self, planes: int) -> np.ndarray:
        """The move to the least value of the objective on codes of few planes, to which a linear
        term gives the slope at the centre that all planes have. BFGS finds it with gradients of
        these codes.
        """
        self.planes, self._refines = planes, True
        bent = self.slope - self._pass_on_codes(self.point, planes).slope
        point, slope, before = self.point, self.slope, 0.0
        best, least = point, math.inf       # rounding may hide what is left before the goal
        goal = REFINED * self.size(slope)
        direction = None
        for _ in range(MAX_REFINING):
            if direction is None:
                direction = self.within(self._bfgs(slope, self._scaled), point)
                before = float(slope @ direction)
                if before >= 0:
                    self._forget()
                    direction = self.within(self.gradient_step(slope), point)
                    before = float(slope @ direction)
                if before >= 0:
                    break
            found = self._pass_on_codes(point + direction, planes)
            after = float((found.slope + bent) @ direction)
            if after > RISE * -before:
                share = _share(before, after)
                direction, before = share * direction, share * before
                continue
            self._remember(found.point - point, found.slope + bent - slope)
            point, slope, direction = found.point, found.slope + bent, None
            if (size := self.size(slope)) < least:
                best, least = point, size
            if size <= goal:
                break
        return best - self.point

    def _remember(self, move: np.ndarray, change: np.ndarray) -> None:
        """Keep a move, if the slope grew along it, and no more than the last ones."""
        product = float(move @ change)
        if product > 1e-12 * (move @ move):
            self.moves = [*self.moves, move][-MEMORY:]
            self.changes = [*self.changes, change][-MEMORY:]
            self._products = [*self._products, product][-MEMORY:]

    def _forget(self) -> None:
        self.moves, self.changes, self._products = [], [], []

    def _measured(self, point: np.ndarray, planes: int) -> FullPass:
        """The full pass at a point, which writes the derivatives at these planes."""
        largest = float(np.abs(point).max())
        # Derivatives need fraction bits below a label, so words cannot have room for any number.
        most = (WORD_LIMIT - 1) * self.data.label_scale * 2.0 ** (planes - DERIVATIVE_FRACTION)
        if largest > most:
            self.slow = True
        if not self._makes_inner_passes:
            most = max(most, ROOM * largest)
        self._room = min(most, self.reach * max(FIRST_ROOM, ROOM * largest))
        found = self._pass(point, planes)
        self.error = found.rounding * math.sqrt(self.data.n_rows)
        self.keep_pass(found)
        return found

    def keep_pass(self, found: FullPass) -> None:
        """Keep what a certificate needs of a full pass."""
        # Points where the slope of the intercept has different signs.
        rising = self.passed[:, 1, -1] > 0
        same = np.flatnonzero(rising == (found.slope[-1] > 0))
        self.passed = np.append(np.delete(self.passed, same[:1 - PASSED], axis=0),
                                [[found.point, found.slope]], axis=0)

    def _pass(self, point: np.ndarray, planes: int) -> FullPass:
        return self.full_pass(point, self._room, self._bound(point),
                              planes if self._makes_inner_passes else 0)

    @property
    def _makes_inner_passes(self) -> bool:
        """True if the next outer step needs derivatives of the rows."""
        return not (self.few_rows or self.slow or self.curvature)

    def _pass_on_codes(self, point: np.ndarray, planes: int) -> FullPass:
        """Gradient of the objective whose rows are the columns of so many planes."""
        if planes not in self._columns:
            self._columns[planes] = CodeColumns.of(self.rows, planes, self.choice.fit_intercept)
        columns = self._columns[planes]
        codes = columns.to_codes(self._by_output(point)).ravel()
        room = max(self.room, ROOM * float(np.abs(codes).max()))
        found = self.loss_pass(codes, room, self._bound(codes), planes=planes)
        exact = columns.from_codes(self._by_output(found.point)).ravel()
        slope = columns.slopes(self._by_output(found.slope)).ravel()
        return found._replace(point=exact, slope=slope + self.penalty_slope(exact))

    def _bound(self, point: np.ndarray) -> float:
        """Bound of the derivative of a row's loss."""
        return 1.0 if self.objective.rule.bounded else 1.0 + float(np.abs(point).sum())

    def _inner(self, planes: int, slope: np.ndarray) -> np.ndarray:
        """Run the inner passes from the centre, with other derivatives if these planes need them.
        """
        centre = self._centre(planes)
        return self.train(planes, centre.unit, -self.penalties, slope,
                          np.rint(self.point / centre.unit), labels=centre.derivatives,
                          label_format=LabelFormat.INT32, label_shift=centre.shift,
                          loss=self.objective.loss)

    def _centre(self, planes: int) -> FullPass:
        """The full pass at the centre, made again for other planes, another room or more rows."""
        if self._last is None:          # of a training that goes on: it was counted
            counts = self.passes, self.bytes_read
            self._room = self.room
            self._last, self._written = self._pass(self.point, planes), planes
            self.passes, self.bytes_read, self._reach = *counts, self.reach
        elif self._written != planes or self._reach != self.reach \
                or self._last.derivative_rows < self.inner_rows:
            self._take(self._measured(self.point, planes), planes)
        return self._last


def _share(before: float, after: float) -> float:
    """Share of a move that ends about where the slope along it is 0, from those at its ends."""
    return min(max(before / (before - after), 0.1), 0.7)
