"""Bit-centred training of one output: outer steps, and the state between them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.results import RangeOverflowError
from bitstep.quantization import QuantizedDataset
from bitstep.training.centred.curvature import Curvature, Inverse, finds_curvature
from bitstep.training.centred.passes import BitCentred, CentredPasses
from bitstep.training.objective import Objective
from bitstep.training.ranges import largest_stored
from bitstep.training.schedules import first_inner_rows

WIDER = 16.0                # by which the room of words grows after an overflow
MAX_TRIES = 20
SAME = 1e-15                # share of an objective that its rounding in float64 may be
SETTLING = 3                # steps of Newton's method that the host takes in the end, at most
SETTLING_LEFT = 1e-2         # share of the slope that such a step leaves, at most
SETTLED = 1e-6              # share of the point that such a step moves by, of which the next one
#                             would move by about the square
SLOW = 0.4                  # share of the gradient above which an outer step is a slow one
SLOW_STEP = 0.5             # the same, above which inner passes take twice as many rows


@dataclass
class OuterStep:
    """The state after an outer step.

    Attributes
    ----------
    point : ndarray of float64, shape (n_features + 1,)
        Weights for scaled features, and the intercept without the labels' offset; of a run of all
        classes these of each, one after the other.
    gradient : float
        Largest component of the gradient above the rounding of words, in standardized columns, as
        a multiple of that at weights of 0 with the best intercept.
    bytes_read : int
        Bytes of rows that were read since training began.
    planes : int
        Planes of its inner passes.
    gap : float
        Certificate: the objective is at most this above its optimum. Infinite if there is none.
    """

    point: np.ndarray
    gradient: float
    bytes_read: int
    planes: int
    gap: float = math.inf

    @property
    def weights(self) -> np.ndarray:
        """Weights of one output."""
        return self.point[:-1]

    @property
    def intercept(self) -> float:
        """Intercept of one output."""
        return float(self.point[-1])


class CentredRun(CentredPasses, ABC):
    """Bit-centred training of one output.

    Parameters
    ----------
    data : QuantizedDataset
        Bit-plane rows with labels of a regression or of two classes.
    device : Device
    config : PipelineConfig
    objective : Objective
        Its loss and ridge penalty count.
    choice : BitCentred
    start : (ndarray of float64, float) or None
        Weights for scaled features and intercept to begin with; None: zeros.
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.train`.

    Attributes
    ----------
    found : list of OuterStep
        The outer steps so far.
    """

    NUMBERS = ("passes", "bytes_read", "step", "reach", "first", "least", "planes", "stalled",
               "inner_rows")

    def __init__(self, data: QuantizedDataset, device: Device, config: PipelineConfig,
                 objective: Objective, choice: BitCentred,
                 start: tuple[np.ndarray, float] | None = None, timeout_s: float = 60.0):
        super().__init__(data, device, config, objective, choice, timeout_s)
        self.stalled = 0
        self.inner_rows = min(data.n_rows, choice.inner_rows
                              or first_inner_rows(data.n_rows, data.n_features))
        self.largest = data.label_scale * largest_stored(data)
        # The vectors hold a word for each feature, and the intercept's.
        self.point = np.zeros(data.n_features + 1)
        if start is not None:
            self.point[:-1], self.point[-1] = start[0], start[1] - data.label_offset
        self.slope = np.zeros_like(self.point)
        self.moves: Any = np.empty((0, len(self.point)))
        self.changes: Any = self.moves      # of the slope, by these moves
        self.reach = self.first = 0.0
        self.least, self.planes = 1, 0      # planes after a divergence, and of the last passes
        self.found: list[OuterStep] = []

    def steps(self) -> Iterator[OuterStep]:
        """Take the outer steps that are left; yield the state after each."""
        if not self.found:
            # A start at the optimum has no gradient of which there could be less.
            warm = self.slope_at_zeros() if self.point.any() else None
            self.begin(self.choice.planes[0])
            self.first = self.size_at_start(self.slope if warm is None else warm)
        for number in range(len(self.found), len(self.choice.planes)):
            if self.found and self.ended:
                return
            planes = self.choice.planes[number]
            following = self.choice.planes[min(number + 1, len(self.choice.planes) - 1)]
            self.outer_step(planes, following)
            gradient = self.size_above_rounding(self.slope) / (self.first or 1.0)
            if gradient > SLOW_STEP * (self.found[-1].gradient if self.found else 1.0):
                self.inner_rows = min(2 * self.inner_rows, self.data.n_rows)
            step = OuterStep(self.point.copy(), gradient, self.bytes_read, self.planes,
                             self.gap() if self.objective.strongly_convex else math.inf)
            self.found.append(step)
            last = self.ended or number + 1 == len(self.choice.planes)
            if last and self.objective.strongly_convex and step.gap == math.inf:
                self.look_beside()
                step.gap, step.bytes_read = self.gap(), self.bytes_read
            yield step

    @property
    def curvature(self) -> Curvature | None:
        """What takes the place of inner passes; None where it may not, or rows are too many."""
        if not self.choice.curvature or not finds_curvature(
                self.rows, len(self.outputs), slow=self.is_slow):
            return None
        return self._curvature

    @cached_property
    def _curvature(self) -> Curvature:
        return Curvature(self.rows, self._means, self._roots, self._varies, self.penalties,
                         self.choice.fit_intercept)

    @property
    def is_slow(self) -> bool:
        """True if inner passes leave most of the gradient, and nothing else takes their place."""
        return False

    @abstractmethod
    def inverse_curvature(self, curvature: Curvature, values: np.ndarray) -> Inverse | None:
        """Inverse of the curvature at the point where the outputs have these values; None if there
        is none.
        """

    def newton_step(self) -> np.ndarray | None:
        """The step of Newton's method, if the host finds the curvature."""
        if self.curvature is None:
            return None
        inverse = self.inverse_curvature(self.curvature, self.curvature.values(self.point))
        if inverse is None:
            return None
        self.planes = PLANES        # of the full pass, which is all that such a step reads
        return self.curvature.step(inverse, self.slope)

    @cached_property
    def targets(self) -> np.ndarray:
        """Labels of every output, as models without the labels' offset give them."""
        return np.column_stack([data.label_scale * data.stored_labels()
                                for data in self.outputs])

    def settle(self) -> None:
        """Take the last digits from the host, where it finds the curvature and the goal is reached.

        Rounding hides from passes what is left of the gradient. Steps of Newton's method in
        float64, from the gradient of the rows that the host has decoded, go on to the optimum. The
        objective is no larger there, so the certificate of the last pass holds.
        """
        if self.curvature is None or not self.curvature.exact \
                or self.found[-1].gradient > self.choice.tol:
            return
        curvature, rule = self.curvature, self.objective.rule
        point = best = self.point
        values = curvature.values(point)
        limit = self._objective(curvature, point, values) * (1 + SAME)
        if len(self.outputs) > 1:       # words round the sum of all classes' models, which is 0
            point = (self._by_output(point) - self._by_output(point).mean(axis=0)).ravel()
        for _ in range(SETTLING):
            inverse = self.inverse_curvature(curvature, values)
            if inverse is None:
                break
            slope = curvature.slope(rule.derivative(values, self.targets))
            move = self.within(curvature.step(inverse, slope + self.penalty_slope(point),
                                               SETTLING_LEFT))
            point = point + move
            values = curvature.values(point)
            if self._objective(curvature, point, values) > limit:
                break
            best = point
            if np.abs(move).max() <= SETTLED * np.abs(point).max():
                break
        self.found[-1] = replace(self.found[-1], point=best)

    def _objective(self, curvature: Curvature, point: np.ndarray, values: np.ndarray) -> float:
        """The objective at a point where the outputs have these values, by the host."""
        losses = self.objective.rule.value(values, self.targets)[:, 0]
        return float(curvature.weights @ losses + (
            self.penalties * np.square(self._by_output(point)[:, :-1])).sum() / 2)

    @property
    def ended(self) -> bool:
        """True if the gradient is as small as asked for, or cannot become smaller."""
        return self.found[-1].gradient <= self.choice.tol

    @abstractmethod
    def slope_at_zeros(self) -> np.ndarray:
        """The gradient at weights and intercept of 0, by a full pass."""

    @abstractmethod
    def begin(self, planes: int) -> None:
        """Take the full pass before the first outer step, whose inner passes have these planes."""

    @abstractmethod
    def outer_step(self, planes: int, following: int) -> None:
        """Take an outer step with inner passes at these planes; those after it have others."""

    @abstractmethod
    def gap(self) -> float:
        """Bound of the objective less its optimum, as
        :mod:`bitstep.training.centred.certificates` shows.
        """

    def look_beside(self) -> None:
        """Take the full passes that a certificate of the last outer step lacks: none."""
        return

    def kept(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Numbers and arrays from which :meth:`restore` goes on, bit for bit."""
        found = self.found
        width = len(self.point)
        return {name: getattr(self, name) for name in self.NUMBERS}, {
            "point": self.point, "slope": self.slope,
            "moves": np.reshape(self.moves, (-1, width)),
            "changes": np.reshape(self.changes, (-1, width)),
            "models": np.array([one.point for one in found]).reshape(-1, width),
            "gradients": np.array([one.gradient for one in found], np.float64),
            "gaps": np.array([one.gap for one in found], np.float64),
            "reads": np.array([[one.bytes_read, one.planes] for one in found], np.int64
                              ).reshape(-1, 2)}

    def restore(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take the state of :meth:`kept`."""
        for name in self.NUMBERS:       # checkpoints from before a number have its first value
            setattr(self, name, numbers.get(name, getattr(self, name)))
        self.point, self.slope = arrays["point"].copy(), arrays["slope"].copy()
        self.moves, self.changes = arrays["moves"].copy(), arrays["changes"].copy()
        self.found[:] = [
            OuterStep(model, float(gradient), int(read), int(planes), float(gap))
            for model, gradient, (read, planes), gap in zip(
                arrays["models"], arrays["gradients"], arrays["reads"], arrays["gaps"],
                strict=True)]

    def within(self, move: np.ndarray) -> np.ndarray:
        """A move without the weights of columns that have one value, where an intercept stands for
        these, and of columns of zeros: codes of 16 bits have no 0, so passes would move them.
        """
        return (self._by_output(move) * np.append(self._varies, True)).ravel()

    def tried(self, planes: int, run: Any) -> np.ndarray:
        """Call ``run(planes)``, which makes inner passes, until no number leaves its range: over
        all rows, since the first ones may lack a class; with more room, with more planes, and at
        all planes with half the step.
        """
        planes, least, failed = max(planes, self.least), self.reach, 0
        while True:
            try:
                move = run(planes)
            except RangeOverflowError:
                if self.inner_rows < self.data.n_rows:
                    self.inner_rows = self.data.n_rows
                    continue
                failed += 1
                if failed == MAX_TRIES:
                    raise
                self.reach *= WIDER
                if failed % 2 == 0:     # not the room was too small, but the passes diverge
                    self.reach = least
                    if planes == PLANES:
                        self.step /= 2
                    planes = self.least = min(2 * planes, PLANES)
                continue
            self.planes = planes
            return move
