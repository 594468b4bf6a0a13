"""Bit-centred training of multinomial logistic regression: all classes together.

The objective is F = mean of -log p_y, and the penalty of the weights of all classes, with p the
softmax of the classes' outputs. Outer steps are those of
:mod:`bitstep.training.centred.smooth`, of a point that has weights and intercept of every
class; passes are those of :mod:`bitstep.golden.softmax`, which read the rows once for all classes.

Adding the same model to those of all classes changes no probability, and the penalty asks for the
one that makes their sum 0. So models begin with a sum of 0, and moves keep it, but for rounding.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.golden.softmax import SHARED, error_bound
from bitstep.pipeline.device import Device
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import probabilities
from bitstep.pipeline.results import GradientSum, RunResult
from bitstep.quantization import QuantizedDataset
from bitstep.training.centred.certificates import softmax_gap
from bitstep.training.centred.curvature import Curvature, Inverse
from bitstep.training.centred.passes import FullPass
from bitstep.training.centred.smooth import SmoothRun


class SoftmaxRun(SmoothRun):
    """Bit-centred training of all classes.

    Parameters
    ----------
    outputs : sequence of QuantizedDataset
        The same rows, with labels +1 and -1 for each class.
    start : sequence of (ndarray of float64, float) or None
        Weights for scaled features and intercept of each class to begin with; None: zeros.
    device, others
        See :class:`bitstep.training.centred.run.CentredRun`.
    """

    def __init__(self, outputs: Sequence[QuantizedDataset], device: Device, *,
                 start: Sequence[tuple[np.ndarray, float]] | None = None, **others: Any):
        super().__init__(outputs[0], device, **others)
        self.outputs = outputs
        count = len(outputs)
        self.point = np.zeros(count * (outputs[0].n_features + 1))
        if start is not None:
            models = np.array([[*weights, intercept] for weights, intercept in start])
            self.point[:] = (models - models.mean(axis=0)).ravel()
        self.slope = np.zeros_like(self.point)
        self.moves = self.changes = np.empty((0, len(self.point)))
        # What certificates need: in place of points, the mean products of probabilities.
        self.passed = self._shared = np.zeros((count, count))

    def loss_pass(self, *arguments: Any, **options: Any) -> FullPass:
        """See :meth:`bitstep.training.centred.passes.CentredPasses.loss_pass`."""
        return super().loss_pass(*arguments, **options)._replace(shared=self._shared)

    def sums(self, jobs: Sequence[TrainingJob], derivative_planes: int) -> Sequence[GradientSum]:
        """See :meth:`bitstep.training.centred.passes.CentredPasses.sums`."""
        found = self.device.class_gradients(jobs, derivative_planes=derivative_planes,
                                            derivative_rows=self.derivative_rows)
        self.counters += [sums.counters for sums in found.classes[:1]]
        self._shared = found.shared / (2.0 ** SHARED * self.data.n_rows * self.mean_weight)
        return found.classes

    def results(self, jobs: Sequence[TrainingJob]) -> Sequence[RunResult]:
        """See :meth:`bitstep.training.centred.passes.CentredPasses.results`."""
        return self.device.train_classes(jobs, timeout_s=self.timeout_s)

    def keep_pass(self, found: FullPass) -> None:
        """Note the errors of its probabilities; the certificate needs no other pass than that of
        the present point.
        """
        del found
        self.error += error_bound(len(self.outputs))
        if self.data.rows.weight_sums.weighted:      # the weighted products are rounded once more
            self.error += 2.0 ** -SHARED / self.mean_weight

    def look_beside(self) -> None:
        """Its certificate needs no other pass."""

    def inverse_curvature(self, curvature: Curvature, values: np.ndarray) -> Inverse | None:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        return curvature.multinomial_inverse(probabilities(values))

    def _direction(self, planes: int) -> np.ndarray:
        move = super()._direction(planes)
        models = self._by_output(move)
        models -= models.mean(axis=0)
        return move

    def _take(self, found: FullPass, planes: int) -> None:
        super()._take(found, planes)
        assert found.shared is not None
        self.passed = found.shared

    def gap(self) -> float:
        """See :class:`bitstep.training.centred.run.CentredRun`."""
        return softmax_gap(self._by_output(self.slope), self.passed, self.penalties,
                           self.rows.column_moments, self.error,
                           fit_intercept=self.choice.fit_intercept)
