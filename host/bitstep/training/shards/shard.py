"""A shard: a part of the rows, and what bit-centred training asks of it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.registers import Overflow
from bitstep.pipeline.results import GradientSum, RangeOverflowError, RunResult
from bitstep.quantization import BitPlaneRows, LevelSums, QuantizedDataset
from bitstep.quantization.weights import WeightSums
from bitstep.training.centred.passes import BitCentred, CentredPasses
from bitstep.training.files.checkpoint import describe_data
from bitstep.training.losses import code_accuracies, losses_of_codes
from bitstep.training.objective import Objective
from bitstep.training.raised import Raised
from bitstep.training.schedules import centred_period, centred_step


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all passes of a training have in common.

    Attributes
    ----------
    config : PipelineConfig
    objective : Objective
    fit_intercept : bool
    step : float or None
        Of the inner passes; None: what suits the rows of each shard.
    penalty : float
        Largest ridge penalty of a weight of scaled features, which limits a step.
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.train`.
    """

    config: PipelineConfig
    objective: Objective
    fit_intercept: bool
    step: float | None
    penalty: float
    timeout_s: float


@dataclass(frozen=True, eq=False)
class Order:
    """A pass for all shards, as parts of a job: rows, labels and keys are those of each shard.

    Attributes
    ----------
    number : int
        Of the pass; a shard's key follows from it.
    epochs : tuple of EpochSteps
    parts : dict of str to Any
        Others of :class:`bitstep.pipeline.job.TrainingJob`.
    """

    number: int
    epochs: tuple[EpochSteps, ...]
    parts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Written:
    """Derivatives that shards keep, in place of their bytes: those of the orders of all outputs of
    a pass, at some planes.
    """

    orders: Sequence[Order]
    planes: int

    @property
    def centre(self) -> tuple[Any, ...]:
        """What the derivatives depend on, beside the rows."""
        return (self.planes, *(
            (order.epochs[0].planes, order.parts["label_shift"], order.parts["intercept"],
             order.parts["model"].tobytes()) for order in self.orders))


class Sums(NamedTuple):
    """Sums of a full pass over a shard.

    Attributes
    ----------
    outputs : list of GradientSum
        Of each output of the pass.
    shared : ndarray of int64 or None
        Of a multinomial model, see :class:`bitstep.pipeline.results.ClassSums`.
    """

    outputs: list[GradientSum]
    shared: np.ndarray | None


@dataclass(frozen=True, eq=False, kw_only=True)
class InnerPasses:
    """Inner passes of all shards; parameters as of
    :meth:`bitstep.training.centred.passes.CentredPasses.train`.

    Attributes
    ----------
    number : int
        Passes before these.
    shares : sequence of float
        Step of each pass, as a multiple of a shard's step.
    factor : float
        Of the steps, after passes that diverged.
    options : dict of str to Any
        Others of the parameters.
    """

    number: int
    planes: int
    unit: float
    weights: np.ndarray
    slope: np.ndarray
    centre: np.ndarray | None
    shares: Sequence[float]
    factor: float
    options: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Move:
    """What the inner passes of a shard give.

    Attributes
    ----------
    move : ndarray of float64, shape (n_features + 1,), or None
        None if a number left its range.
    overflow : Overflow
    counters : list of dict
        Of the runs of the device.
    bytes_read : int
        Of rows.
    """

    move: np.ndarray | None
    overflow: Overflow
    counters: list[dict[str, int | None]]
    bytes_read: int


@dataclass(frozen=True, eq=False)
class ShardFacts:
    """What is known of a shard where its rows are not.

    Attributes
    ----------
    n_rows, n_features : int
    level_sums : LevelSums
        Sums of the levels of columns at every precision, exactly.
    weight_sums : WeightSums
        Of its rows.
    raised : Raised or None
        Of the rows as they were given, each once.
    """

    n_rows: int
    n_features: int
    level_sums: LevelSums
    weight_sums: WeightSums
    raised: Raised | None = None

    @property
    def few_rows(self) -> bool:
        """True of rows among which there is no correction."""
        return self.n_rows <= centred_period(self.n_rows)

    @property
    def plane_bytes(self) -> int:
        """Bytes of a plane of all rows."""
        return BitPlaneLayout(self.n_features).bytes_read(self.n_rows, 1)


class _OwnPasses(CentredPasses):
    """Passes over the rows of one shard."""

    shared: np.ndarray | None = None        # of all classes of a multinomial model

    def ordered(self, orders: Sequence[Order], derivative_planes: int) -> Sums:
        """Sums of a full pass."""
        self.passes = orders[0].number
        epochs = tuple(replace(one, key=self._key()) for one in orders[0].epochs)
        found = self.sums([
            self._job(epochs, labels=output.labels.stored, **order.parts)
            for order, output in zip(orders, self.outputs, strict=True)], derivative_planes)
        return Sums(list(found), self.shared)

    def move(self, inner: InnerPasses, weights: np.ndarray, options: dict[str, Any]) -> Move:
        """The move of inner passes."""
        self.passes, self.bytes_read, self.counters = inner.number, 0, []
        self.shares, self.step = inner.shares, self.choice.step * inner.factor
        move, overflow = None, Overflow(0)
        try:
            move = self.train(inner.planes, inner.unit, weights, inner.slope, inner.centre,
                              **options)
        except RangeOverflowError as error:
            overflow = error.overflow
        return Move(move, overflow, [dict(one) for one in self.counters], self.bytes_read)


class _OwnClassPasses(_OwnPasses):
    """Passes of all classes of a multinomial model."""

    def sums(self, jobs: Sequence[TrainingJob], derivative_planes: int) -> Sequence[GradientSum]:
        """See :meth:`bitstep.training.centred.passes.CentredPasses.sums`."""
        found = self.device.class_gradients(jobs, derivative_planes=derivative_planes)
        self.shared = found.shared
        return found.classes

    def results(self, jobs: Sequence[TrainingJob]) -> Sequence[RunResult]:
        """See :meth:`bitstep.training.centred.passes.CentredPasses.results`."""
        return self.device.train_classes(jobs, timeout_s=self.timeout_s)


@dataclass(eq=False)
class Shard:
    """Rows of a shard, with the labels of each output.

    All methods are functions of the rows and their arguments: what is kept between calls saves
    time only, so that a shard which was lost and made again gives the same bits.

    Parameters
    ----------
    outputs : sequence of QuantizedDataset
        The same bit-plane rows, whose seed is that of the shard.
    raised : Raised or None
        See :class:`ShardFacts`.
    """

    outputs: Sequence[QuantizedDataset]
    raised: Raised | None = None
    _passes: dict[int, _OwnPasses] = field(default_factory=dict, repr=False)
    _written: dict[int, tuple[Any, Any]] = field(default_factory=dict, repr=False)

    @property
    def facts(self) -> ShardFacts:
        """What others know of it."""
        rows = self.rows
        assert rows.level_sums is not None      # of rows that come from no file
        return ShardFacts(rows.n_rows, rows.n_features, rows.level_sums, rows.weight_sums,
                          self.raised)

    @property
    def rows(self) -> BitPlaneRows:
        """Its rows."""
        rows = self.outputs[0].rows
        assert isinstance(rows, BitPlaneRows)
        return rows

    def __getstate__(self):
        return {"outputs": self.outputs, "raised": self.raised, "_passes": {}, "_written": {}}

    def joint_classes(self, device: Device) -> tuple[str, bool]:
        """Name of the device, and whether it has passes of all classes of a multinomial model."""
        return device.name, bool(device.joint_classes)

    def sums(self, device: Device, setup: Setup, output: int, orders: Sequence[Order],
             derivative_planes: int) -> Sums:
        """Sums of a full pass; derivatives stay here."""
        found = self._of(device, setup, output).ordered(orders, derivative_planes)
        if derivative_planes and not found.outputs[0].overflow:
            self._written[output] = (Written(orders, derivative_planes).centre,
                                     [one.derivatives for one in found.outputs])
        return Sums([replace(one, derivatives=None, counters=dict(one.counters))
                     for one in found.outputs], found.shared)

    def move(self, device: Device, setup: Setup, output: int, inner: InnerPasses) -> Move:
        """The move of inner passes over these rows."""
        passes = self._of(device, setup, output)
        if passes.few_rows:
            return Move(passes.gradient_step(inner.slope), Overflow(0), [], 0)
        options = {name: self._labels(passes, output, value) if name == "labels" else value
                   for name, value in inner.options.items()}
        weights = inner.weights
        if setup.objective.rule.quadratic:
            weights = weights + np.minimum(self.rows.excess[inner.planes - 1], 0)
        return passes.move(inner, weights, options)

    def digest(self, device: Device) -> str:
        """A digest of rows, labels and scaling, for checkpoints."""
        del device
        return hashlib.sha256(repr(describe_data(self.outputs)).encode()).hexdigest()

    def losses(self, device: Device, setup: Setup, weights: np.ndarray, intercepts: np.ndarray, *,
               classes: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Sums over the rows, times their stored weights, of the losses of models, the mean over
        the outputs, and with ``classes`` of the rows that they classify correctly.

        Parameters
        ----------
        device, setup
        weights : ndarray of float64, shape (n_models, n_outputs, n_features)
            For scaled features.
        intercepts : ndarray of float64, shape (n_models, n_outputs)
        classes : bool
        """
        del device
        total = self.rows.weight_sums.total
        losses = losses_of_codes(self.outputs, weights, intercepts, setup.objective.rule)
        return total * losses, \
            total * code_accuracies(self.outputs, weights, intercepts) if classes else None

    def _of(self, device: Device, setup: Setup, output: int) -> _OwnPasses:
        """Passes over the rows of an output."""
        passes = self._passes.get(output)
        if passes is None or passes.objective != setup.objective:
            step = setup.step or centred_step(self.rows, setup.objective.rule, setup.penalty)
            choice = BitCentred(planes=(), step=step, fit_intercept=setup.fit_intercept)
            kind, outputs = (_OwnClassPasses, self.outputs) if setup.objective.multinomial \
                else (_OwnPasses, [self.outputs[output]])
            passes = kind(outputs[0], device, setup.config, setup.objective, choice,
                          setup.timeout_s)
            passes.outputs = outputs
            self._passes[output] = passes
        passes.device = device          # its bus may be wider: planes are the same bytes for all
        passes.config = replace(setup.config, bus_width=device.config.bus_width)
        return passes

    def _labels(self, passes: _OwnPasses, output: int, labels: Any) -> Any:
        """Labels of inner passes: derivatives of these rows where an order stands for them."""
        written = labels[0]
        if not isinstance(written, Written):
            return labels
        kept = self._written.get(output)
        if kept is None or kept[0] != written.centre:
            found = passes.ordered(written.orders, written.planes)
            kept = self._written[output] = (written.centre,
                                            [one.derivatives for one in found.outputs])
        return kept[1]
