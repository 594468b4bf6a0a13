"""Passes of bit-centred training that all losses share: their jobs, and the state between them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bitstep.golden.dither import epoch_key
from bitstep.pipeline.config import (
    COEFFICIENT_WIDTH,
    MANTISSA_WIDTH,
    MODEL_WIDTH,
    SHIFT_UNIT,
    PipelineConfig,
)
from bitstep.pipeline.device import Device
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.results import SaturationError
from bitstep.pipeline.woven import PLANES, WovenLayout
from bitstep.quantization import QuantizedDataset, WovenRows
from bitstep.training import stepping
from bitstep.training.objective import Objective
from bitstep.training.ranges import largest_stored
from bitstep.training.schedules import CENTRED_PERIOD

WORD_LIMIT = 2.0 ** (MODEL_WIDTH - 1)
WIDER = 16.0                # by which the room of words grows after a saturation
MAX_TRIES = 20
UPDATE_LIMIT = 1 << 30      # largest update of a full pass
SUM_LIMIT = 1 << 46         # of all updates of a full pass


@dataclass(frozen=True, kw_only=True)
class BitCentred:
    """Choices of a bit-centred training.

    Parameters
    ----------
    planes : sequence of int
        Planes of the inner passes of every outer step, each 1 to 16.
    step : float
        Step of the inner passes, in scaled feature space.
    shares : sequence of float
        Step of each inner pass of an outer step, as a multiple of ``step``.
    period : int
        T, rows between two corrections.
    tol : float
        Training stops once the largest component of the gradient is at most this multiple of that
        at the model which it starts from.
    fit_intercept : bool
    """

    planes: Sequence[int]
    step: float
    shares: Sequence[float] = (1.0, 0.25)
    period: int = CENTRED_PERIOD
    tol: float = 0.0
    fit_intercept: bool = True


@dataclass
class OuterStep:
    """The state after an outer step.

    Attributes
    ----------
    weights : ndarray of float64, shape (n_features,)
        For scaled features.
    intercept : float
        Without the labels' offset.
    gradient : float
        Largest component of the gradient, as a multiple of that at the first model.
    bytes_read : int
        Bytes of rows that were read since training began.
    planes : int
        Planes of its inner passes.
    """

    weights: np.ndarray
    intercept: float
    gradient: float
    bytes_read: int
    planes: int


class FullPass(NamedTuple):
    """Result of a full pass.

    Attributes
    ----------
    point : ndarray of float64, shape (n_features + 1,)
        Nearest model that words can hold.
    slope : ndarray of float64, shape (n_features + 1,)
        Gradient of the objective there.
    unit : float
        Value of the last bit of a word.
    shift : int
        Label shift of that unit.
    derivatives : ndarray of uint8 or None
        Labels of inner passes, if they were asked for.
    """

    point: np.ndarray
    slope: np.ndarray
    unit: float
    shift: int
    derivatives: np.ndarray | None


class CentredRun(ABC):
    """Bit-centred training of one output.

    Parameters
    ----------
    data : QuantizedDataset
        Woven rows with labels of a regression or of two classes.
    device : Device
    config : PipelineConfig
    objective : Objective
        Its loss and l2 count.
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

    NUMBERS = ("passes", "bytes_read", "step", "reach", "first", "least", "planes", "stalled")

    def __init__(self, data: QuantizedDataset, device: Device, config: PipelineConfig,
                 objective: Objective, choice: BitCentred,
                 start: tuple[np.ndarray, float] | None = None, timeout_s: float = 60.0):
        self.data, self.device, self.config, self.choice = data, device, config, choice
        self.objective, self.timeout_s = objective, timeout_s
        self.layout = WovenLayout(data.n_features)
        self.bytes_read = self.passes = self.stalled = 0
        self.largest = data.label_scale * largest_stored(data)
        # The vectors hold a word for each feature, and the intercept's.
        self.point = np.zeros(data.n_features + 1)
        if start is not None:
            self.point[:-1], self.point[-1] = start[0], start[1] - data.label_offset
        self.slope = np.zeros_like(self.point)
        self.moves: list[np.ndarray] = []
        self.changes: list[np.ndarray] = []     # of the slope, by these moves
        self.step, self.reach, self.first = choice.step, 0.0, 0.0
        self.least, self.planes = 1, 0      # planes after a divergence, and of the last passes
        self.found: list[OuterStep] = []

    def steps(self) -> Iterator[OuterStep]:
        """Take the outer steps that are left; yield the state after each."""
        if not self.found:
            self.begin(self.choice.planes[0])
            self.first = float(np.abs(self.slope).max())
        for number in range(len(self.found), len(self.choice.planes)):
            if self.found and self.ended:
                return
            planes = self.choice.planes[number]
            following = self.choice.planes[min(number + 1, len(self.choice.planes) - 1)]
            self.outer_step(planes, following)
            gradient = float(np.abs(self.slope).max()) / (self.first or 1.0)
            self.found.append(OuterStep(self.point[:-1].copy(), float(self.point[-1]), gradient,
                                        self.bytes_read, self.planes))
            yield self.found[-1]

    @property
    def ended(self) -> bool:
        """True if the gradient is as small as asked for, or cannot become smaller."""
        return self.found[-1].gradient <= self.choice.tol

    @abstractmethod
    def begin(self, planes: int) -> None:
        """Take the full pass before the first outer step, whose inner passes have these planes."""

    @abstractmethod
    def outer_step(self, planes: int, following: int) -> None:
        """Take an outer step with inner passes at these planes; those after it have others."""

    def kept(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Numbers and arrays from which :meth:`restore` goes on, bit for bit."""
        found = self.found
        width = len(self.point)
        return {name: getattr(self, name) for name in self.NUMBERS}, {
            "point": self.point, "slope": self.slope,
            "moves": np.reshape(self.moves, (-1, width)),
            "changes": np.reshape(self.changes, (-1, width)),
            "models": np.array([[*one.weights, one.intercept] for one in found]
                               ).reshape(-1, width),
            "gradients": np.array([one.gradient for one in found], np.float64),
            "reads": np.array([[one.bytes_read, one.planes] for one in found], np.int64
                              ).reshape(-1, 2)}

    def restore(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take the state of :meth:`kept`."""
        for name in self.NUMBERS:
            setattr(self, name, numbers[name])
        self.point, self.slope = arrays["point"].copy(), arrays["slope"].copy()
        self.moves, self.changes = [*arrays["moves"]], [*arrays["changes"]]
        self.found[:] = [
            OuterStep(model[:-1].copy(), float(model[-1]), float(gradient), int(read), int(planes))
            for model, gradient, (read, planes) in zip(
                arrays["models"], arrays["gradients"], arrays["reads"], strict=True)]

    def full_pass(self, point: np.ndarray, largest: float, residual: float,
                  derivative_planes: int = 0) -> FullPass:
        """Sum the gradient at a point.

        Parameters
        ----------
        point : ndarray of float64, shape (n_features + 1,)
        largest : float
            What words must have room for.
        residual : float
            Bound of the derivative of a row's loss.
        derivative_planes : int
            See :meth:`bitstep.pipeline.device.Device.gradient`.
        """
        data, count = self.data, self.data.n_rows
        shift = min(math.floor(math.log2((WORD_LIMIT - 1) * data.label_scale / largest)) + PLANES,
                    self.config.max_label_shift)
        unit = data.label_scale * 2.0 ** (PLANES - shift)
        words = np.rint(point / unit)
        # Residuals in units of a dot product, and the scale that makes updates of them.
        mantissa, exponent = _floor_mantissa(
            min(UPDATE_LIMIT, SUM_LIMIT / count) / (residual * 2.0 ** PLANES / unit))
        self.passes += 1
        self.bytes_read += self.layout.bytes_read(count, PLANES)
        job = self._job((EpochSteps(mantissa, exponent, planes=PLANES, key=self._key()),),
                        model=words[:-1].astype(np.int32), intercept=int(words[-1]),
                        labels=data.labels.packed, label_shift=shift, loss=self.objective.loss)
        found = self.device.gradient(job, derivative_planes=derivative_planes)
        if found.saturation:
            raise AssertionError("The updates of a full pass have room")
        scale = unit / (EpochSteps.scale(mantissa, exponent) * 2.0 ** (2 * PLANES) * count)
        slope = scale * np.append(found.words.astype(np.float64), found.intercept)
        exact = words * unit
        slope[:-1] += self.objective.l2 * exact[:-1]
        if not self.choice.fit_intercept:
            slope[-1] = 0.0
        return FullPass(exact, slope, unit, shift, found.derivatives)

    def tried(self, planes: int, run: Any) -> np.ndarray:
        """Call ``run(planes)``, which makes inner passes, until no number leaves its range: with
        more room, with more planes, and at all planes with half the step.
        """
        planes, least = max(planes, self.least), self.reach
        for attempt in range(MAX_TRIES):
            try:
                move = run(planes)
            except SaturationError:
                if attempt + 1 == MAX_TRIES:
                    raise
                self.reach *= WIDER
                if attempt % 2:         # not the room was too small, but the passes diverge
                    self.reach = least
                    if planes == PLANES:
                        self.step /= 2
                    planes = self.least = min(2 * planes, PLANES)
                continue
            self.planes = planes
            return move
        raise AssertionError("The last attempt returns or raises")

    @property
    def few_rows(self) -> bool:
        """True of rows among which there is no correction, so that inner passes cannot be made."""
        return self.data.n_rows <= self.choice.period

    def gradient_step(self, slope: np.ndarray) -> np.ndarray:
        """Stand in for inner passes over few rows."""
        return -2 * self.choice.step * slope

    def train(self, planes: int, unit: float, weights: np.ndarray, slope: np.ndarray,
              centre: np.ndarray | None = None, **parts: Any) -> np.ndarray:
        """Move of the words by the inner passes.

        Parameters
        ----------
        planes : int
        unit : float
            Value of the last bit of a word.
        weights : ndarray of float64, shape (n_features,)
            What a correction adds for each unit of a weight's distance to the centre.
        slope : ndarray of float64, shape (n_features + 1,)
            What it subtracts.
        centre : ndarray of int, shape (n_features + 1,), or None
            Words that the passes begin with; None: zeros, the words of an offset.
        parts
            Of the job.

        Returns
        -------
        ndarray of float64, shape (n_features + 1,)
        """
        data, choice = self.data, self.choice
        start = np.zeros(data.n_features + 1) if centre is None else centre
        spare = 1.0 if centre is None else 1.001        # for the rounding of coefficients
        slope = slope / (unit * 2.0 ** COEFFICIENT_WIDTH)
        offset = np.abs(slope)
        offset[:-1] += np.abs(weights * start[:-1]) / 2.0 ** COEFFICIENT_WIDTH
        # Coefficients and constants have one factor, with which all of them fit their words.
        factor = max(np.abs(weights).max() / ((1 << COEFFICIENT_WIDTH - 1) - 1),
                     spare * offset.max() / (WORD_LIMIT - 1)) or 1.0
        coefficients = np.rint(weights / factor)
        constants = -slope / factor
        constants[:-1] -= coefficients * start[:-1] / 2.0 ** COEFFICIENT_WIDTH
        constants = np.clip(np.rint(constants), -WORD_LIMIT, WORD_LIMIT - 1)
        share = factor * data.n_rows / ((data.n_rows - 1) // choice.period)
        entries = []
        for step in self.step * np.asarray(choice.shares):
            self.passes += 1
            entries.append(EpochSteps(
                *stepping.step_mantissa(step * 4.0 ** -planes, step),
                *stepping.correction_mantissa(step * share), planes=planes, key=self._key()))
        self.bytes_read += len(entries) * self.layout.bytes_read(data.n_rows, planes)
        job = self._job(tuple(entries), model=start[:-1].astype(np.int32),
                        intercept=int(start[-1]), correction_period=choice.period,
                        coefficients=coefficients.astype(np.int32),
                        constants=constants[:-1].astype(np.int32),
                        constant_intercept=int(constants[-1]), **parts)
        result = self.device.train(job, timeout_s=self.timeout_s)
        return unit * (np.append(result.models[-1], result.intercepts[-1]) - start)

    def _key(self) -> int:
        return epoch_key(self.data.rows.seed % (1 << 32), self.passes)

    def _job(self, epochs, **parts) -> TrainingJob:
        data = self.data
        assert isinstance(data.rows, WovenRows)
        return TrainingJob(**{
            "config": self.config, "n_features": data.n_features, "rows": data.rows.packed,
            "label_format": data.label_format, "batch": 1, "correction_period": 0,
            "coefficients": np.zeros(data.n_features, np.int32), "epochs": epochs,
            "intercept_level": self.config.intercept_limit if self.choice.fit_intercept else 0,
            "woven_rows": data.n_rows, **parts})


def _floor_mantissa(scale: float) -> tuple[int, int]:
    """Mantissa and shift of the largest step of at most ``scale``."""
    limit = (1 << MANTISSA_WIDTH) - 1
    for shift in range(7, 0, -1):
        mantissa = math.floor(scale * 2.0 ** (SHIFT_UNIT * shift))
        if mantissa <= limit:
            return mantissa, shift
    return limit, 1
