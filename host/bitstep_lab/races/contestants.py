"""Contestants of a race, and the task that each is given.

Every contestant sees the same rows in the same order, takes the same steps, and is judged by the
same objective in float64: the mean loss on the features as they are, not as they were quantized,
plus the penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.options.models import MODELS, Model
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.quantization import (
    ENCODINGS,
    QuantizedDataset,
    QuantizedRows,
    Scaler,
    fit_scaler,
    quantize_labels,
)
from bitstep.training.losses import accuracies, mean_losses
from bitstep.training.train import class_outputs, class_targets
from bitstep_lab.races.board_profiles import Profile
from bitstep_lab.races.race_data import RaceData
from bitstep_lab.races.run_store import digest


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A pipeline on the profile's board.

    Attributes
    ----------
    bits, encoding
        See :func:`bitstep.quantization.quantize`.
    lookahead : int or "auto"
    batch : int or None
        None: the race's.
    refetch : bool
    levels : {"uniform", "optimal"}
    model_bits, update_bits : int
        See :class:`bitstep.training.objective.Training`. There is no such pipeline in RTL, so
        nothing is known of its cycles.
    update_interval : int or None
        None: the least that the pipeline's solver has.
    models : int
        Outputs that one pass over the rows trains.
    """

    bits: int
    encoding: str
    lookahead: int | str = "auto"
    batch: int | None = None
    refetch: bool = False
    levels: str = "uniform"
    model_bits: int = 0
    update_bits: int = 0
    update_interval: int | None = None
    models: int = 1

    @property
    def timed(self) -> bool:
        """True if there is such a pipeline in RTL, whose cycles are known."""
        return not (self.model_bits or self.update_bits)

    @property
    def name(self) -> str:
        """As plots and tables call it."""
        text = "float" if self.bits == FLOAT_BITS else \
            f"{self.bits} bit{'s' * (self.bits > 1)} {self.encoding}"
        if self.levels != "uniform":
            text += f", {self.levels} levels"
        for name in ("model", "update"):
            if bits := getattr(self, f"{name}_bits"):
                text += f", {name} {bits} bits"
        if self.refetch:
            text += ", refetching"
        if self.lookahead != "auto":
            text += f", look-ahead {self.lookahead}"
        if self.update_interval is not None:
            text += ", without waiting" if self.update_interval == 1 else \
                f", r = {self.update_interval}"
        if self.models > 1:
            text += f", {self.models} models a pass"
        return text if self.batch is None else f"{text}, batch {self.batch}"


FLOAT = Pipeline(bits=FLOAT_BITS, encoding="float")


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """A baseline of :func:`bitstep_lab.baselines.train_cpu` on this machine's cores.

    Attributes
    ----------
    method : {"sgd", "hogwild", "minibatch", "lowprec"}
    threads : int
    batch : int or None
        None: the race's.
    """

    method: str
    threads: int = 1
    batch: int | None = None

    @property
    def name(self) -> str:
        """As plots and tables call it."""
        text = f"CPU {self.method}, {self.threads} thread{'s' * (self.threads > 1)}"
        return text if self.batch is None else f"{text}, batch {self.batch}"


@dataclass(frozen=True)
class Sklearn:
    """scikit-learn's SGDRegressor or SGDClassifier, one thread."""

    @property
    def name(self) -> str:
        """As plots and tables call it."""
        return "scikit-learn"


Contestant = Pipeline | Cpu | Sklearn


@dataclass(frozen=True, eq=False)
class Race:
    """A race: data, model, contestants and training.

    Attributes
    ----------
    data : RaceData
    model : str
        A key of :data:`bitstep.options.models.MODELS`.
    profile : Profile
    contestants : sequence of Contestant
    epochs, schedule, l2, seed
        As for ``bitstep train``.
    batches : sequence of int
        Rows of a batch. Of several each contestant has the one with which it is first at the line
        (:func:`with_batches`); those that have no batches have batches of the first.
    step : float or None
        None: tuned for the float pipeline, see :func:`bitstep_lab.races.race.tuned_step`.
    rtl : bool
        True to run every pipeline on the simulated board. Else the native device runs them, its
        cycle model counts, and one of them is compared with the RTL (:func:`sample_of`).
    """

    data: RaceData
    model: str
    profile: Profile
    contestants: Sequence[Contestant]
    epochs: int = 10
    batches: Sequence[int] = (1,)
    schedule: str = "inverse"
    l2: float = 0.0
    step: float | None = None
    seed: int = 0
    rtl: bool = False

    @property
    def kind(self) -> Model:
        """Task, loss and names of the model."""
        return MODELS[self.model]

    @property
    def classes(self) -> np.ndarray:
        """Classes; empty for a regression."""
        return np.zeros(0) if self.kind.task == "regression" else np.unique(
            self.data.dataset.labels)

    @property
    def targets(self) -> np.ndarray:
        """Targets of the outputs, shape (n_rows, n_outputs)."""
        return class_targets(self.data.dataset.labels, self.classes)

    def outputs(self, rows: QuantizedRows) -> list[QuantizedDataset]:
        """Quantized rows with the labels of each output."""
        labels = self.data.dataset.labels
        if len(self.classes):
            return class_outputs(rows, labels, self.classes)
        return [QuantizedDataset(rows, quantize_labels(
            labels, rows.n_rows, label_bits=ENCODINGS[rows.encoding].label_bits))]

    def objective(self, coefs: np.ndarray, intercepts: np.ndarray,
                  weights: np.ndarray) -> np.ndarray:
        """Mean loss on the features plus penalty, of models of shape (n_models, n_outputs, ...).

        Parameters
        ----------
        coefs, intercepts
            In the features' units.
        weights
            In scaled feature space, where the penalty counts.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            losses = mean_losses(self.kind.loss, self.data.dataset.features, self.targets, coefs,
                                 intercepts)
            return losses + self.l2 / 2 * (weights ** 2).sum(axis=2).mean(axis=1)

    def judged(self, coefs, intercepts, weights) -> dict[str, Any]:
        """Losses and accuracies of every epoch."""
        dataset = self.data.dataset
        found = {"losses": self.objective(coefs, intercepts, weights).tolist()}
        if len(self.classes):
            found["accuracy"] = accuracies(dataset.features, dataset.labels, self.classes, coefs,
                                           intercepts).tolist()
        return found


@dataclass(frozen=True, eq=False)
class Task:
    """Task of a contestant of a race.

    Attributes
    ----------
    race : Race
    steps : ndarray of float64, shape (epochs,)
        In scaled feature space.
    batch : int
    """

    race: Race
    steps: np.ndarray
    batch: int

    def identity(self) -> list[Any]:
        """Values that a run depends on, besides contestant, profile and code."""
        dataset = self.race.data.dataset
        return [digest(dataset.features, dataset.labels, self.steps), self.race.model, self.batch,
                self.race.l2, self.race.seed]


def scale_rows(features: np.ndarray) -> tuple[Scaler, np.ndarray]:
    """The scaler of the pipelines, and float32 rows in scaled feature space."""
    scaler = fit_scaler(features)
    return scaler, np.ascontiguousarray((features - scaler.centre) / scaler.scale, np.float32)


def label_middle(targets: np.ndarray, task: str) -> float:
    """Start of a regression: the middle of the labels' range, as in pipelines; else 0."""
    return float(targets.min() / 2 + targets.max() / 2) if task == "regression" else 0.0


def with_batch(contestant: Pipeline, batch: int) -> Pipeline:
    """The same pipeline with another batch."""
    return replace(contestant, batch=batch)


def with_batches(contestant: Contestant, batches: Sequence[int]) -> list[Contestant]:
    """A contestant with each of several batches, as far as it has them: pipelines without
    refetching, those of more than one row without waiting (``update_interval`` 1) unless they say
    otherwise, and SGD on the CPU. Others, and those with a batch of their own, stay as they are.
    """
    if len(batches) < 2 or getattr(contestant, "batch", 1) is not None:
        return [contestant]
    if isinstance(contestant, Pipeline) and not contestant.refetch:
        waits = contestant.timed and contestant.update_interval is None
        return [replace(contestant, batch=batch,
                        update_interval=1 if waits and batch > 1 else contestant.update_interval)
                for batch in batches]
    if isinstance(contestant, Cpu) and contestant.method in ("sgd", "minibatch"):
        return [contestant if batch == 1 and contestant.method == "sgd"
                else replace(contestant, method="minibatch", batch=batch) for batch in batches]
    return [contestant]


def several_models(count: int, *pipelines: Pipeline) -> tuple[Pipeline, ...]:
    """The same pipelines, for so many models a pass."""
    return tuple(replace(one, models=count) for one in pipelines)


def sample_of(contestants: Sequence[Contestant]) -> Pipeline | None:
    """The pipeline of a race that is compared with the RTL: of those for codes, if there are any,
    the one with one model and the fewest lanes, which compiles in the shortest time; None if there
    is none.
    """
    pipelines = [one for one in contestants if isinstance(one, Pipeline) and one.timed]
    coded = [one for one in pipelines if one.encoding != FLOAT.encoding]
    return max(coded or pipelines, key=lambda one: (-one.models, one.bits), default=None)
