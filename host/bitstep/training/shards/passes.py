"""Bit-centred training over shards.

An outer step asks each shard twice, and nothing but two vectors of a word for each feature comes
back from it:

1. A full pass: each shard sums the updates of its rows in integers. These sums have no order, so
   the gradient is the same, bit for bit, for any number of shards but for the dither, whose keys
   are those of each shard.
2. Inner passes: each shard takes the offset z over its own rows, from 0, with the slope g of all
   rows and its own codes. The offsets' mean, with the rows (and their weights) as weights, is the
   move. At g = 0 nothing moves whatever shards do, so the fixed point is the optimum of all rows.

What follows a move, such as conjugate directions or BFGS, is that of one shard and needs no rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.golden.softmax import SHARED
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Overflow
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    GradientSum,
    RangeOverflowError,
    RunResult,
    sum_counters,
)
from bitstep.quantization import BitPlaneRows
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.outputs import Kinds, train_centred
from bitstep.training.centred.passes import CentredPasses
from bitstep.training.centred.smooth import SmoothRun
from bitstep.training.centred.softmax import SoftmaxRun
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.objective import Objective, Training
from bitstep.training.shards.shard import InnerPasses, Move, Order, Setup, Sums, Written
from bitstep.training.shards.shards import Shards
from bitstep.training.shards.summed import SummedDataset, mean_of
from bitstep.training.trained import TrainedModel


class ShardedPasses(CentredPasses):
    """Passes over the rows of all shards.

    Parameters
    ----------
    shards : Shards
    setup : Setup
    arguments, options
        See :class:`bitstep.training.centred.run.CentredRun`; the device is that of each shard.
    """

    def __init__(self, *arguments: Any, shards: Shards, setup: Setup, **options: Any):
        super().__init__(*arguments, **options)
        self.shards, self.setup = shards, setup
        assert isinstance(self.data, SummedDataset)
        self._output = self.data.output
        self._plane_bytes = sum(one.plane_bytes for one in shards.facts)
        self.inner_rows = self.data.n_rows      # a shard takes all of its rows: rounds cost more

    @property
    def few_rows(self) -> bool:
        """True if no shard can make inner passes."""
        return all(one.few_rows for one in self.shards.facts)

    def _full_job(self, output: int, epochs: Any, model: np.ndarray, intercept: int,
                  shift: int) -> Any:
        """A pass of all shards, each with rows, labels and keys of its own."""
        del output
        return Order(self.passes, epochs, {"model": model, "intercept": intercept,
                                           "label_shift": shift, "loss": self.objective.loss})

    def sums(self, jobs: Sequence[Any], derivative_planes: int) -> Sequence[GradientSum]:
        """Sums of a full pass, of every output: those of all shards together."""
        found: list[Sums] = self.shards.each(
            "full-pass", "sums", self.setup, self._output, jobs, derivative_planes)
        written: Any = Written(jobs, derivative_planes) if derivative_planes else None
        totals = []
        for parts in zip(*(one.outputs for one in found), strict=True):
            overflow = Overflow(0)
            for part in parts:
                overflow |= part.overflow
            totals.append(GradientSum(
                np.sum([part.words for part in parts], axis=0),
                sum(part.intercept for part in parts), overflow, written,
                sum_counters([part.counters for part in parts])))
        # Those of the first output are of the pass of all.
        self.counters.append(totals[0].counters)
        self.take_shared([one.shared for one in found])
        return totals

    def take_shared(self, shared: Sequence[Any]) -> None:
        """Keep what only passes of all classes have, of each shard."""

    def train(self, planes: int, unit: float, weights: np.ndarray, slope: np.ndarray,
              centre: np.ndarray | None = None, **options: Any) -> np.ndarray:
        """Mean of the moves of all shards; see
        :meth:`bitstep.training.centred.passes.CentredPasses.train`.
        """
        found: list[Move] = self.shards.each(
            "inner-passes", "move", self.setup, self._output, InnerPasses(
                number=self.passes, planes=planes, unit=unit, weights=weights, slope=slope,
                centre=centre, shares=self.shares, factor=self.step / self.choice.step,
                options=options))
        self.passes += len(self.shares)
        self.bytes_read += sum(one.bytes_read for one in found)
        self.counters += [counters for one in found for counters in one.counters]
        overflow = Overflow(0)
        for one in found:
            overflow |= one.overflow
        if overflow:
            none = RunResult(np.zeros((0, self.data.n_features), np.int32), np.zeros(0, np.int32),
                             dict.fromkeys(COUNTER_NAMES))
            raise RangeOverflowError(overflow, none)
        return mean_of([one.move for one in found if one.move is not None], self.shards.facts)


class ShardedLeastSquares(ShardedPasses, BitCentredRun):
    """Bit-centred training of one output of least squares over shards."""


class ShardedSmooth(ShardedPasses, SmoothRun):
    """Bit-centred training of one output of a smooth loss of classes over shards."""


class ShardedSoftmax(ShardedPasses, SoftmaxRun):
    """Bit-centred training of all classes of a multinomial model over shards."""

    def take_shared(self, shared: Sequence[Any]) -> None:
        """Mean products of probabilities, for the certificate."""
        self._shared = np.sum(shared, axis=0) / (
            2.0 ** SHARED * self.data.n_rows * self.mean_weight)


def train_shards(shards: Shards, outputs: Sequence[SummedDataset], config: PipelineConfig,
                 objective: Objective, training: Training, *, step_asked: bool = False,
                 initial: tuple[np.ndarray, Any] | None = None, timeout_s: float = 60.0,
                 on_epoch: Any = None, checkpoint: CheckpointWriter | None = None) -> TrainedModel:
    """Train one linear model for each output by solver ``bit-centred``.

    With one shard the model is that of :func:`bitstep.training.train.train_model` on its rows.

    Parameters
    ----------
    shards : Shards
    outputs : sequence of SummedDataset
        Of the labels of each output, all on the same rows.
    config, objective, training, initial, timeout_s, on_epoch, checkpoint
        See :func:`bitstep.training.train.train_model`.
    step_asked : bool
        True if the step of the training is for all shards; False: each has one that suits its rows.

    Returns
    -------
    TrainedModel

    Raises
    ------
    DeviceError, TrainingInterrupted, ValueError
        As :func:`bitstep.training.train.train_model`, and what the engine of the shards raises.
    """
    rows = outputs[0].rows
    assert isinstance(rows, BitPlaneRows)
    setup = Setup(
        config=config, objective=objective, fit_intercept=training.fit_intercept,
        step=float(training.steps[0]) if step_asked else None,
        penalty=float(objective.penalties(rows, training.fit_intercept).max()), timeout_s=timeout_s)
    kinds = Kinds(ShardedLeastSquares, ShardedSmooth, ShardedSoftmax)
    return train_centred(kinds, outputs, None, config, objective, training, initial=initial,
                         timeout_s=timeout_s, on_epoch=on_epoch, checkpoint=checkpoint,
                         shards=shards, setup=setup)


def shard_losses(shards: Shards, objective: Objective, config: PipelineConfig,
                 model: TrainedModel, *, classes: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Loss after every epoch, the mean over rows and outputs, and with ``classes`` the share of the
    rows that are classified correctly, on the stored rows of all shards.
    """
    setup = Setup(config=config, objective=objective, fit_intercept=True, step=None, penalty=0.0,
                  timeout_s=0.0)
    found = shards.each("losses", "losses", setup, model.weights, model.scaled_intercepts,
                        classes=classes)
    count = sum(one.weight_sums.total for one in shards.facts)
    total = np.sum([losses for losses, _ in found], axis=0) / count
    return total, np.sum([right for _, right in found], axis=0) / count if classes else None
