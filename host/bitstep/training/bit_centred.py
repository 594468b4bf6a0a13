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
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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

WORD_LIMIT = 2.0 ** (MODEL_WIDTH - 1)
ROOM = 4.0                  # times the last offset, for which the next one's words have room
FIRST_RANGE = 32.0          # largest first offset, in labels
WIDER = 16.0                # by which an offset's room grows after a saturation
MAX_TRIES = 12
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
        at the zero model.
    fit_intercept : bool
    """

    planes: Sequence[int]
    step: float
    shares: Sequence[float] = (1.0, 0.25)
    period: int = 8
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


class BitCentredRun:
    """Bit-centred training of one output.

    Parameters
    ----------
    data : QuantizedDataset
        Woven rows with labels of a regression or of two classes.
    device : Device
    config : PipelineConfig
    objective : Objective
        Least squares; its l2 counts.
    choice : BitCentred
    start : (ndarray of float64, float) or None
        Weights for scaled features and intercept to begin with; None: zeros.
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.train`.
    """

    def __init__(self, data: QuantizedDataset, device: Device, config: PipelineConfig,
                 objective: Objective, choice: BitCentred,
                 start: tuple[np.ndarray, float] | None = None, timeout_s: float = 60.0):
        self.data, self.device, self.config, self.choice = data, device, config, choice
        self.objective, self.timeout_s = objective, timeout_s
        self.layout = WovenLayout(data.n_features)
        self.bytes_read = self.passes = 0
        self.largest = data.label_scale * largest_stored(data)
        # The vectors hold a word for each feature, and the intercept's.
        self.point = np.zeros(data.n_features + 1)
        if start is not None:
            self.point[:-1], self.point[-1] = start[0], start[1] - data.label_offset
        self.slope = np.zeros_like(self.point)
        self.moves: list[np.ndarray] = []
        self.changes: list[np.ndarray] = []
        self.step, self.reach, self.first = choice.step, 0.0, 0.0
        self.least, self.planes = 1, 0      # planes after a divergence, and of the last passes

    def steps(self):
        """Take the outer steps; yield an :class:`OuterStep` after each."""
        self.point, self.slope = self.full_pass(self.point)
        self.first = float(np.abs(self.slope).max())
        for planes in self.choice.planes:
            move = self.inner_passes(planes) if self.slope.any() else np.zeros_like(self.point)
            point, slope = self.full_pass(self.point + move)
            self.combine(point, slope)
            yield self.state()
            if np.abs(self.slope).max() <= self.choice.tol * self.first:
                return

    def state(self) -> OuterStep:
        """The state as it is now."""
        gradient = float(np.abs(self.slope).max()) / (self.first or 1.0)
        return OuterStep(self.point[:-1].copy(), float(self.point[-1]), gradient, self.bytes_read,
                         self.planes)

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

    def full_pass(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest point that words can hold, and the gradient there."""
        data, count = self.data, self.data.n_rows
        largest = max(float(np.abs(point).max()), self.largest)
        shift = min(math.floor(math.log2((WORD_LIMIT - 1) * data.label_scale / largest)) + PLANES,
                    self.config.max_label_shift)
        unit = data.label_scale * 2.0 ** (PLANES - shift)
        words = np.rint(point / unit)
        # Residuals in units of a dot product, and the scale that makes updates of them.
        residual = (self.largest + float(np.abs(point).sum())) * 2.0 ** PLANES / unit
        mantissa, exponent = _floor_mantissa(min(UPDATE_LIMIT, SUM_LIMIT / count) / residual)
        self.passes += 1
        self.bytes_read += self.layout.bytes_read(count, PLANES)
        job = self._job((EpochSteps(mantissa, exponent, planes=PLANES, key=self._key()),),
                        model=words[:-1].astype(np.int32), intercept=int(words[-1]),
                        labels=data.labels.packed, label_shift=shift)
        found = self.device.gradient(job)
        if found.saturation:
            raise AssertionError("The updates of a full pass have room")
        scale = unit / (EpochSteps.scale(mantissa, exponent) * 2.0 ** (2 * PLANES) * count)
        slope = scale * np.append(found.words.astype(np.float64), found.intercept)
        exact = words * unit
        slope[:-1] += self.objective.l2 * exact[:-1]
        if not self.choice.fit_intercept:
            slope[-1] = 0.0
        return exact, slope

    def inner_passes(self, planes: int) -> np.ndarray:
        """An offset that takes the slope towards 0."""
        if not self.reach:
            drift = sum(self.choice.shares) * self.data.n_rows * self.step
            self.reach = min(drift * float(np.abs(self.slope).max()), FIRST_RANGE * self.largest)
        planes, least = max(planes, self.least), self.reach
        for attempt in range(MAX_TRIES):
            try:
                move = self._inner(planes)
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
            self.reach = ROOM * float(np.abs(move).max()) or self.reach
            return move
        raise AssertionError("The last attempt returns or raises")

    def _inner(self, planes: int) -> np.ndarray:
        """Run the inner passes with room for offsets of ``reach``."""
        data, choice = self.data, self.choice
        unit = self.reach / WORD_LIMIT
        assert isinstance(data.rows, WovenRows)
        weights = np.minimum(data.rows.excess[planes - 1], 0) - self.objective.l2
        slope = self.slope / (unit * 2.0 ** COEFFICIENT_WIDTH)
        # Coefficients and constants have one factor, with which all of them fit their words.
        factor = max(np.abs(weights).max() / ((1 << COEFFICIENT_WIDTH - 1) - 1),
                     np.abs(slope).max() / (WORD_LIMIT - 1))
        constants = np.rint(-slope / factor)
        share = factor * data.n_rows / ((data.n_rows - 1) // choice.period)
        entries = []
        for step in self.step * np.asarray(choice.shares):
            self.passes += 1
            entries.append(EpochSteps(
                *stepping.step_mantissa(step * 4.0 ** -planes, step),
                *stepping.correction_mantissa(step * share), planes=planes, key=self._key()))
        self.bytes_read += len(entries) * self.layout.bytes_read(data.n_rows, planes)
        job = self._job(tuple(entries), model=np.zeros(data.n_features, np.int32), intercept=0,
                        labels=np.empty(0, np.uint8), label_shift=PLANES,
                        correction_period=choice.period,
                        coefficients=np.rint(weights / factor).astype(np.int32),
                        constants=constants[:-1].astype(np.int32),
                        constant_intercept=int(constants[-1]))
        result = self.device.train(job, timeout_s=self.timeout_s)
        return unit * np.append(result.models[-1], result.intercepts[-1]).astype(np.float64)

    def _key(self) -> int:
        return epoch_key(self.data.rows.seed % (1 << 32), self.passes)

    def _job(self, epochs, **parts) -> TrainingJob:
        data = self.data
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
