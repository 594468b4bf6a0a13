"""Passes of bit-centred training that all losses share, as jobs of a device."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bitstep.golden.dither import epoch_keys
from bitstep.pipeline.bit_planes import PLANES, BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.parts.widths import (
    COEFFICIENT_WIDTH,
    MANTISSA_WIDTH,
    MAX_SHIFT,
    MODEL_WIDTH,
    SHIFT_UNIT,
    ceil_div,
)
from bitstep.pipeline.results import GradientSum, RunError, RunResult
from bitstep.quantization import BitPlaneRows, QuantizedDataset
from bitstep.training import stepping
from bitstep.training.centred.code_columns import joined
from bitstep.training.objective import Objective
from bitstep.training.schedules import MOST_SHRINKING, centred_period

WORD_LIMIT = 2.0 ** (MODEL_WIDTH - 1)
UPDATE_LIMIT = 1 << 30      # largest update of a full pass
SUM_LIMIT = 1 << 46         # of all updates of a full pass
LEAST_COLUMNS = 1e-3        # share of the first gradient that counts as its columns' at least
KEYS = 64                   # of passes that are made at once


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
        Step of each inner pass of an outer step, as a multiple of ``step``; none: ``SHARES`` of the
        run's class.
    period : int
        T, rows between two corrections; 0: :func:`bitstep.training.schedules.centred_period`.
    batch : int
        Rows of the inner passes' batches, whose updates add up; with more than 1 the period is the
        next multiple of it.
    inner_rows : int
        Rows of the first inner passes; 0: :func:`bitstep.training.schedules.first_inner_rows`.
    tol : float
        Training stops once the largest component of the gradient is at most this multiple of that
        at weights of 0.
    fit_intercept : bool
    curvature : bool
        True if other steps may stand in for inner passes: the host's curvature
        (:mod:`bitstep.training.centred.curvature`), or a gradient of standardized columns.
    """

    planes: Sequence[int]
    step: float
    shares: Sequence[float] = ()
    period: int = 0
    batch: int = 1
    inner_rows: int = 0
    tol: float = 0.0
    fit_intercept: bool = True
    curvature: bool = False


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
    derivatives : list of ndarray of uint8, or of None
        Labels of inner passes of each output, if they were asked for.
    derivative_rows : int
        Rows that these are of: the first ones.
    rounding : float
        About what the rounding of the rows' updates changes a component of the gradient by.
    shared : ndarray of float64, shape (n_classes, n_classes), or None
        Mean of the product of the probabilities of two classes there, of a multinomial model.
    """

    point: np.ndarray
    slope: np.ndarray
    unit: float
    shift: int
    derivatives: list[np.ndarray | None]
    derivative_rows: int
    rounding: float
    shared: np.ndarray | None = None


class CentredPasses:
    """Passes over the rows of one output, or of several that a pass takes together: the points of
    these are one after the other in a point.

    Parameters
    ----------
    data, device, config, objective, choice, timeout_s
        See :class:`bitstep.training.centred.run.CentredRun`.

    Attributes
    ----------
    passes, bytes_read : int
        Of rows so far.
    counters : list of dict
        Of all runs of the device.
    step : float
        Of the inner passes.
    period : int
        T, rows between two corrections.
    inner_rows : int
        Rows of the inner passes: the first ones.
    shares : sequence of float
        Step of each inner pass, as a multiple of ``step``.
    outputs : sequence of QuantizedDataset
        ``data`` alone, unless a subclass has more.
    penalties : ndarray of float64, shape (n_features,)
        Ridge penalties of the weights of scaled features.
    unit : float
        Value of the last bit of a word of the last full pass.
    """

    unit = 0.0

    SHARES: Sequence[float] = (1.0, 0.25)

    def __init__(self, data: QuantizedDataset, device: Device, config: PipelineConfig,
                 objective: Objective, choice: BitCentred, timeout_s: float):
        self.data, self.device, self.config, self.choice = data, device, config, choice
        self.objective, self.timeout_s = objective, timeout_s
        self.outputs: Sequence[QuantizedDataset] = [data]
        self.bytes_read = self.passes = 0
        self.counters: list[Mapping[str, int | None]] = []
        self.step = choice.step
        self.period = ceil_div(choice.period or centred_period(data.n_rows),
                               choice.batch) * choice.batch
        self.shares = choice.shares or self.SHARES
        self.penalties = objective.penalties(self.rows, choice.fit_intercept)
        # Of columns, to standardize them; without an intercept they are not centred.
        self._roots = np.sqrt(self.rows.penalty_units(choice.fit_intercept))
        means, variances = self.rows.column_moments
        self._means = choice.fit_intercept * means
        # Those that training moves; a column of zeros has the codes next to 0.
        self._varies = (variances > 0) | (
            not choice.fit_intercept) & (np.abs(means) > 2.0 ** (1 - PLANES))
        self._layout = BitPlaneLayout(data.n_features)
        self._plane_bytes = self._layout.bytes_read(data.n_rows, 1)
        self.inner_rows = data.n_rows
        self._zeros = np.zeros(data.n_features, np.int32)
        self.mean_weight = data.rows.weight_sums.mean
        self._full_jobs: dict[tuple[int, int, int], TrainingJob] = {}
        self._keys: dict[int, list[int]] = {}       # of passes, in blocks

    @property
    def rows(self) -> BitPlaneRows:
        """The rows, with their moments."""
        rows = self.data.rows
        assert isinstance(rows, BitPlaneRows)
        return rows

    def full_pass(self, point: np.ndarray, largest: float, residual: float,
                  derivative_planes: int = 0, planes: int = PLANES) -> FullPass:
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
        planes : int
            Planes of the codes whose gradient it is.
        """
        found = self.loss_pass(point, largest, residual, derivative_planes, planes)
        self.unit = found.unit
        return found._replace(slope=found.slope + self.penalty_slope(found.point))

    def penalty_slope(self, point: np.ndarray) -> np.ndarray:
        """Gradient of the penalty."""
        slope = np.zeros(len(point))
        self._by_output(slope)[:, :-1] = self.penalties * self._by_output(point)[:, :-1]
        return slope

    def loss_pass(self, point: np.ndarray, largest: float, residual: float,
                  derivative_planes: int = 0, planes: int = PLANES) -> FullPass:
        """:meth:`full_pass` of the loss alone."""
        data, count = self.data, self.data.n_rows
        shift = min(math.floor(math.log2((WORD_LIMIT - 1) * data.label_scale / largest)) + PLANES,
                    self.config.rows.max_label_shift)
        unit = data.label_scale * 2.0 ** (PLANES - shift)
        words = np.rint(point / unit)
        exact = words * unit
        # Residuals in units of a dot product, and the scale that makes updates of them.
        mantissa, exponent = _floor_mantissa(
            min(UPDATE_LIMIT, SUM_LIMIT / count) / (residual * 2.0 ** planes / unit))
        mantissa, exponent = _unrounded(
            mantissa, exponent, data.rows.weight_sums.fraction_bits)
        self.passes += 1
        entries = (EpochSteps(mantissa, exponent, planes=planes, key=self._key()),)
        found = self.sums([
            self._full_job(number, entries, part[:-1].astype(np.int32), int(part[-1]), shift)
            for number, part in enumerate(self._by_output(words))], derivative_planes)
        # A pipeline writes derivatives in a run of its own, which reads their planes again.
        derivative_rows = self.derivative_rows if derivative_planes else 0
        self.bytes_read += planes * self._plane_bytes \
            + derivative_planes * self._bytes_of_plane(derivative_rows)
        if found[0].overflow:
            raise AssertionError("The updates of a full pass have room")
        scale = unit / (EpochSteps.scale(mantissa, exponent) * 2.0 ** (2 * planes) * count
                        * self.mean_weight)
        slope = np.empty(len(exact))
        for own, sums in zip(self._by_output(slope), found, strict=True):
            own[:-1], own[-1] = sums.words, sums.intercept if self.choice.fit_intercept else 0
        slope *= scale
        return FullPass(exact, slope, unit, shift, [sums.derivatives for sums in found],
                        derivative_rows, scale * 2.0 ** planes * math.sqrt(count))

    def sums(self, jobs: Sequence[TrainingJob], derivative_planes: int) -> Sequence[GradientSum]:
        """Sums of a full pass, of every output."""
        (job,) = jobs
        found = self.device.gradient(job, derivative_planes=derivative_planes,
                                     derivative_rows=self.derivative_rows)
        self.counters.append(found.counters)
        return [found]

    def results(self, jobs: Sequence[TrainingJob]) -> Sequence[RunResult]:
        """Results of inner passes, of every output."""
        (job,) = jobs
        return [self.device.train(job, timeout_s=self.timeout_s)]

    @property
    def derivative_rows(self) -> int:
        """Rows whose derivatives a full pass writes: the inner passes may double theirs next."""
        return min(2 * self.inner_rows, self.data.n_rows)

    def _bytes_of_plane(self, n_rows: int) -> int:
        """Bytes of a plane of the first rows."""
        return self._plane_bytes if n_rows == self.data.n_rows \
            else self._layout.bytes_read(n_rows, 1)

    def _by_output(self, point: np.ndarray) -> np.ndarray:
        """A view of a point, shape (n_outputs, n_features + 1)."""
        return point.reshape(len(self.outputs), -1)

    def size(self, slope: np.ndarray) -> float:
        """Largest component of a gradient, in standardized columns."""
        return max(self._size_of_columns(slope),
                   float(np.abs(self._by_output(slope)[:, -1]).max()))

    def size_above_rounding(self, slope: np.ndarray) -> float:
        """:meth:`size`, of each weight less what the last bit of its word changes of the penalty's
        gradient. With a large one that is more than any ``tol``, though words hold no better model.
        """
        left = slope.copy()
        own = self._by_output(left)
        own[:, :-1] -= own[:, -1:] * self._means
        own[:, :-1] = np.maximum(np.abs(own[:, :-1]) - self.unit * self.penalties, 0.0)
        return max(float((own[:, :-1] / self._roots * self._varies).max()),
                   float(np.abs(own[:, -1]).max()))

    def size_at_start(self, slope: np.ndarray) -> float:
        """:meth:`size` of the first gradient, had its model the best intercept.

        That depends on where labels happen to lie: of few rows of a class, or of a far outlier,
        the intercept's component would be thousands of times the others. With weights of 0 its
        change moves all derivatives by the same number, so it takes out that component alone. But a
        ten-millionth of it, with the usual ``tol``, is about the least that passes can measure.
        """
        return max(self._size_of_columns(slope), LEAST_COLUMNS * self.size(slope))

    def _size_of_columns(self, slope: np.ndarray) -> float:
        own = self._by_output(slope)
        centred = (own[:, :-1] - own[:, -1:] * self._means) / self._roots
        return float(np.abs(centred * self._varies).max())

    @property
    def few_rows(self) -> bool:
        """True of rows among which there is no correction, so that inner passes cannot be made."""
        return self.data.n_rows <= self.period

    def standard_step(self, slope: np.ndarray) -> np.ndarray:
        """The step along a gradient in weights of centred and standardized columns."""
        own = self._by_output(slope)
        weights = (own[:, :-1] - own[:, -1:] * self._means) / np.square(self._roots)
        return joined(weights, own[:, -1] - weights @ self._means).ravel()

    def gradient_step(self, slope: np.ndarray) -> np.ndarray:
        """Stand in for inner passes over few rows."""
        return -2 * self.choice.step * slope

    def train(self, planes: int, unit: float, weights: np.ndarray, slope: np.ndarray,
              centre: np.ndarray | None = None, *, labels: Sequence[Any],
              **parts: Any) -> np.ndarray:
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
        labels : sequence of ndarray of uint8
            Stored labels of every output.
        parts
            Of the jobs.

        Returns
        -------
        ndarray of float64, shape (n_features + 1,)
        """
        data = self.data
        slope = self._by_output(slope) / (-unit * 2.0 ** COEFFICIENT_WIDTH)
        offset, spare, model = np.abs(slope), 1.0, np.zeros(slope.shape)
        if centre is not None:
            spare = 1.001       # for the rounding of coefficients
            model = self._by_output(centre)
            offset[:, :-1] += np.abs(weights * model[:, :-1]) / 2.0 ** COEFFICIENT_WIDTH
        # Coefficients and constants have one factor, with which all of them fit their words.
        factor = max(np.abs(weights).max() / ((1 << COEFFICIENT_WIDTH - 1) - 1),
                     spare * offset.max() / (WORD_LIMIT - 1)) or 1.0
        coefficients = np.rint(weights / factor)
        constants = slope / factor
        constants[:, :-1] -= coefficients * model[:, :-1] / 2.0 ** COEFFICIENT_WIDTH
        constants = np.minimum(np.rint(constants), WORD_LIMIT - 1).astype(np.int32)
        share = factor * self.inner_rows / ((self.inner_rows - 1) // self.period)
        entries = []
        for step in [self.step * share for share in self.shares]:
            self.passes += 1
            try:
                mantissa = stepping.step_mantissa(step * 4.0 ** -planes / self.mean_weight, step)
            except stepping.ShortStepError as error:
                largest = self.period * float(self.penalties.max())
                raise stepping.blame_penalty(
                    error, self.objective,
                    MOST_SHRINKING / largest * step / self.step if largest else math.inf) from None
            entries.append(EpochSteps(
                *mantissa, *stepping.correction_mantissa(step * share), planes=planes,
                key=self._key()))
        self.bytes_read += len(entries) * planes * self._bytes_of_plane(self.inner_rows)
        row_weights = data.rows.weights
        if row_weights is not None and self.inner_rows < data.n_rows:
            row_weights = row_weights[:self.inner_rows]
        jobs = [self._job(
            tuple(entries), model=own[:-1].astype(np.int32), intercept=int(own[-1]),
            batch=self.choice.batch, correction_period=self.period,
            coefficients=coefficients.astype(np.int32), constants=added[:-1],
            constant_intercept=int(added[-1]), labels=stored, bit_plane_rows=self.inner_rows,
            weights=row_weights, **parts)
            for own, added, stored in zip(model, constants, labels, strict=True)]
        try:
            found = self.results(jobs)
        except RunError as error:
            self.counters.append(error.result.counters)
            raise
        self.counters += [one.counters for one in found]
        move = np.array([[*one.models[-1], one.intercepts[-1]] for one in found], np.float64)
        return ((move - model) * unit).ravel()

    def _key(self) -> int:
        block, place = divmod(self.passes, KEYS)
        if block not in self._keys:
            self._keys = {block: epoch_keys(self.data.rows.seed % (1 << 32), block * KEYS, KEYS)}
        return self._keys[block][place]

    def _full_job(self, output: int, epochs: tuple[EpochSteps, ...], model: np.ndarray,
                  intercept: int, shift: int) -> TrainingJob:
        """The job of a full pass of an output."""
        alike = output, shift, epochs[0].planes
        if alike in self._full_jobs:
            return self._full_jobs[alike].again(model, intercept, epochs)
        self._full_jobs[alike] = self._job(
            epochs, model=model, intercept=intercept, label_shift=shift,
            labels=self.outputs[output].labels.stored, loss=self.objective.loss)
        return self._full_jobs[alike]

    def _job(self, epochs, **parts) -> TrainingJob:
        data = self.data
        return TrainingJob(**{
            "config": self.config, "n_features": data.n_features, "rows": data.rows.stored,
            "label_format": data.label_format, "batch": 1, "correction_period": 0,
            "coefficients": self._zeros, "epochs": epochs,
            "intercept_level": self.config.rows.intercept_limit if self.choice.fit_intercept else 0,
            "bit_plane_rows": data.n_rows, "weights": data.rows.weights, **parts})


def _floor_mantissa(scale: float) -> tuple[int, int]:
    """Mantissa and shift of the largest step of at most ``scale``."""
    mantissa, shift = stepping.widest_mantissa(scale, math.floor)
    return min(mantissa, (1 << MANTISSA_WIDTH) - 1), shift


def _unrounded(mantissa: int, exponent: int, zeros: int) -> tuple[int, int]:
    """The largest step of at most this one whose mantissa ends with so many zeros: times a weight
    it is not rounded, so that all full passes have the same weights.
    """
    if mantissa >> zeros or exponent == MAX_SHIFT:
        return mantissa >> zeros << zeros, exponent
    limit = (1 << MANTISSA_WIDTH) - 1
    return min(mantissa << SHIFT_UNIT, limit) >> zeros << zeros, exponent + 1
