"""Problems that a command trains: data set, split, quantization, and what is asked for."""

import argparse
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.cli.class_weights import asked_weight, weighted_rows
from bitstep.cli.columns import warn_of_many_classes, warn_of_optimum, warn_of_waste
from bitstep.cli.options import (
    asked_encoding,
    class_text,
    default_model,
    is_quantized,
    label_column,
    task_of,
)
from bitstep.cli.progress import Bar, shown
from bitstep.cli.request import stored_request
from bitstep.data import Dataset, load, split
from bitstep.devices import default_device
from bitstep.options.models import MODELS, Model
from bitstep.options.rules import Request as RuleRequest
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.losses import LOSSES, LossFunction
from bitstep.pipeline.registers import Loss
from bitstep.quantization import (
    BitPlaneRows,
    QuantizedDataset,
    QuantizedRows,
    label_bits_of,
    load_quantized,
    quantize_labels,
)
from bitstep.quantization.labels import near_range
from bitstep.quantization.scaling import clipped_features, fit_scaler
from bitstep.training.choices import Resolved, RowChoice, check_candidates, resolve
from bitstep.training.copies import Pass, go_along
from bitstep.training.losses import (
    code_accuracies,
    losses_of_codes,
    measures,
)
from bitstep.training.objective import Objective, Training, loss_of
from bitstep.training.scores.clipping import BeyondClip, beyond_clip
from bitstep.training.scores.fits import hold_out
from bitstep.training.solvers import solver_of
from bitstep.training.train import class_outputs, class_targets, stored_outputs
from bitstep.training.trained import TrainedModel
from bitstep.writing import first_of


@dataclass(frozen=True)
class Problem:
    """A quantized training set with one label stream for each output, and its test set.

    Attributes
    ----------
    name : str
    model : str
        A key of :data:`bitstep.options.models.MODELS`.
    request : RowChoice
        Description of the rows.
    outputs : list of QuantizedDataset
        The same stored rows, one set of labels for each output of the model.
    classes : ndarray of float64 or str, shape (n_classes,)
        Empty for a regression. Of data sets with named classes their numbers.
    train_set, test_set : Dataset or None
        None where there are only codes. Rows to train on are repeated where their weights
        do not go along with them.
    class_weight : "balanced", dict or None
        Weights by class that the options ask for.
    held : Pass or None
        Rows that ``--early-stopping`` holds out, with their labels as targets.
    other_weights : str or None
        See :class:`bitstep.training.copies.Pass`.
    stands_for : float
        See there.
    rule : LossFunction or None
        Loss with a bound that the options ask for, or of all classes together.
    beyond_clip : BeyondClip or None
        Rows of the train set that are clipped, if these are few.
    """

    name: str
    model: str
    request: RowChoice
    outputs: list[QuantizedDataset]
    classes: np.ndarray
    train_set: Dataset | None
    test_set: Dataset | None
    class_weight: Any = None
    held: Pass | None = None
    other_weights: str | None = None
    stands_for: float = 1.0
    rule: LossFunction | None = None
    beyond_clip: BeyondClip | None = None

    @property
    def weights(self) -> np.ndarray | None:
        """Weights of the rows to train on."""
        return self.outputs[0].rows.weights

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, if the data have some."""
        return self.outputs[0].feature_names if self.train_set is None \
            else self.train_set.feature_names

    @property
    def rows_meant(self) -> int:
        """Rows that those to train on stand for."""
        return round(self.outputs[0].n_rows * self.stands_for)

    @property
    def loss(self) -> Loss | LossFunction:
        """What is minimised, with its bound, or of all classes together."""
        return self.rule or self.kind.loss

    @property
    def kind(self) -> Model:
        """Task, loss and defaults of the model."""
        return MODELS[self.model]

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return self.kind.task

    @property
    def loss_on(self) -> str:
        """Rows that the training loss is computed on: ``features``, ``codes``, or ``fine_rows``:
        the rows with 16 bits a value, or the floating-point rows, of a quantized data set.
        """
        if self.train_set is not None:
            return "features"
        return "fine_rows" if self.outputs[0].rows.exact else "codes"

    def history(self, model: TrainedModel) -> list[dict[str, Any]]:
        """One entry an epoch: ``epoch``, ``step``, ``train_loss``, ``train_accuracy`` (None for a
        regression), ``validation_loss`` and ``validation_accuracy`` of held-out rows, and
        ``test_metric``.
        """
        none: list[Any] = [None] * model.epochs_done
        losses, shares = self.of_codes(model) if self.train_set is None else self._measured(
            self.train_set.features, self.train_set.labels, model, self.weights)
        held, held_shares = (none, none) if self.held is None else self._measured(
            self.held.features, self.held.targets, model, self.held.weights)
        metrics = none if self.test_set is None or not self.test_set.n_rows \
            else self._tested(self.test_set, model)
        history: list[dict[str, Any]] = [
            {"epoch": epoch, "step": float(step), "train_loss": loss, "train_accuracy": share,
             "validation_loss": held_loss, "validation_accuracy": held_share,
             "test_metric": metric}
            for epoch, (step, loss, share, held_loss, held_share, metric) in enumerate(
                zip(model.steps, losses, shares, held, held_shares, metrics, strict=True), start=1)]
        return [entry | facts for entry, facts in zip(history, model.facts(), strict=True)]

    def _measured(self, features: np.ndarray, labels: np.ndarray, model: TrainedModel,
                  weights: np.ndarray | None = None) -> tuple[list[Any], list[Any]]:
        """Loss and accuracy of each epoch's model on rows."""
        losses, shares = measures(
            self.loss, features, class_targets(labels, self.classes), model.coefs,
            model.intercepts, classes=self.task == "classification", weights=weights)
        return losses.tolist(), [None] * len(losses) if shares is None else shares.tolist()

    def _tested(self, rows: Dataset, model: TrainedModel) -> list[Any]:
        """Loss of each epoch's model on test rows, or accuracy: rows of a class that was not
        trained count as wrong.
        """
        if self.task == "regression":
            return self._measured(rows.features, rows.labels, model)[0]
        known = np.isin(rows.labels, self.classes)
        if known.all():
            return self._measured(rows.features, rows.labels, model)[1]
        if not known.any():
            return [0.0] * model.epochs_done
        shares = self._measured(rows.features[known], rows.labels[known], model)[1]
        return [share * float(known.mean()) for share in shares]

    def of_codes(self, model: TrainedModel) -> tuple[list[Any], list[Any]]:
        """Loss and accuracy of each epoch's model on the codes that are trained on."""
        losses = losses_of_codes(self.outputs, model.weights, model.scaled_intercepts, self.loss)
        shares = [None] * len(losses) if self.task == "regression" else code_accuracies(
            self.outputs, model.weights, model.scaled_intercepts).tolist()
        return losses.tolist(), shares

    def describe(self, source: str) -> dict[str, Any]:
        """The report's ``dataset``."""
        return {"name": self.name, "source": source, "task": self.task,
                "train_rows": self.outputs[0].n_rows,
                "validation_rows": 0 if self.held is None else len(self.held.targets),
                "test_rows": self.test_set.n_rows if self.test_set is not None else 0,
                "n_features": self.outputs[0].n_features,
                "classes": self.class_labels.tolist() if len(self.classes) else None}

    @property
    def class_labels(self) -> np.ndarray:
        """The classes as the data have them: numbers or names."""
        names = None if self.train_set is None else self.train_set.class_names
        return self.classes if names is None else np.array(names)[self.classes.astype(np.int64)]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A training run with everything that the options left open filled in.

    Attributes
    ----------
    source : str
        The data as the user named them.
    problem : Problem
    objective : Objective
    training : Training
    config : PipelineConfig
        Pipeline of the jobs.
    device : str
        Name of the device.
    initial : (ndarray, ndarray) or None
        That model: see :func:`bitstep.training.train.train_model`.
    resumed : int
        Epochs that were trained before this command, summed over the outputs.
    resolved : Resolved
        The options with all that was open.
    """

    source: str
    problem: Problem
    objective: Objective
    training: Training
    config: PipelineConfig
    device: str
    resolved: Resolved
    initial: tuple[np.ndarray, np.ndarray] | None = None
    resumed: int = 0

    @property
    def schedule(self) -> str:
        """Name of the schedule, or file of steps; solver ``bit-centred`` has one, which is none of
        the options.
        """
        return self.resolved.request["schedule"] or "constant"

    @property
    def init(self) -> str | None:
        """File of the model that the first epoch started from; None for zeros."""
        return self.resolved.request["init"]


def prepare(arguments: argparse.Namespace,
            requests: list[RuleRequest]) -> tuple[Problem, list[Resolved]]:
    """Read, split and quantize what a command's DATA names.

    Parameters
    ----------
    arguments : Namespace
    requests : list of bitstep.options.rules.Request
        Of each candidate of a sweep, with their options checked.

    Returns
    -------
    problem : Problem
    resolved : list of Resolved
        The requests, with all that was open.

    Raises
    ------
    UsageError, RuleError
        If options contradict each other or the data.
    """
    if is_quantized(arguments.data):
        return _from_codes(arguments, requests)
    dataset = load(arguments.data, data_home=arguments.data_home,
                   label_column=label_column(arguments), progress=not shown.quiet)
    names = dataset.class_names
    asked, source = requests[0], arguments.data
    task = task_of(asked, source, dataset.name, dataset.task, dataset.labels, names)
    model = asked["model"] or default_model(task, asked_encoding(asked))
    resolved = [resolve(one) for one in check_candidates([
        one.filled(model=model).knowing(n_features=dataset.n_features) for one in requests])]
    request = resolved[0].rows
    train_set, test_set = split(dataset, asked["train_rows"], bool(request.shuffle), request.seed)
    task_of(asked, source, f"{dataset.name}, the rows to train on", dataset.task,
            train_set.labels, names)
    weight = asked_weight(asked)
    along = go_along(getattr(arguments, "device", None) or default_device())
    classes = np.unique(train_set.labels) if task == "classification" else np.zeros(0)
    if names is not None:
        warn_of_many_classes([names[int(one)] for one in classes], train_set.n_rows)
    given = weighted_rows(train_set, weight, request.seed, along)
    held = None
    if resolved[0].held_fraction is not None:
        given, held = hold_out(given, resolved[0].held_fraction, request.seed,
                               given.targets if len(classes) else None)
    if weight is not None or held is not None:
        train_set = replace(train_set, features=given.features[0:len(given.targets)],
                            labels=given.targets)
        if len(classes):        # those of the rows whose weight is above 0
            classes = np.unique(train_set.labels)
    if task == "regression":
        # Labels first: rows may take minutes.
        labels = quantize_labels(train_set.labels, train_set.n_rows,
                                 center_labels=bool(asked["intercept"]),
                                 label_bits=label_bits_of(request.encoding),
                                 label_range=near_range(train_set.labels, MODELS[model].loss))
        outputs = [QuantizedDataset(rows_of(request, train_set), labels)]
    else:
        rows = rows_of(request, train_set, given.weights)
        outputs = class_outputs(rows, train_set.labels, classes)
        _warn_of_other_classes(test_set, classes)
    clip = outputs[0].scaler.clip
    warn_of_optimum(request.solver, clip, train_set.features, given.other_weights)
    # Before they are clipped.
    beyond = beyond_clip(train_set.features, clip, LOSSES[MODELS[model].loss])
    return Problem(dataset.name, model, request, outputs, classes, _clipped(train_set, clip),
                   _clipped(test_set, clip), weight, held and held._replace(
                       features=clipped_features(held.features[0:len(held.targets)], clip)),
                   given.other_weights, given.stands_for, _clipped_loss(resolved, outputs),
                   beyond), resolved


def _warn_of_other_classes(test_set: Dataset, classes: np.ndarray) -> None:
    """Say on standard error how many test rows are of classes that are not trained."""
    other = test_set.labels[~np.isin(test_set.labels, classes)]
    if len(other):
        found = np.unique(other)
        names = found.tolist() if test_set.class_names is None else \
            [test_set.class_names[int(one)] for one in found]
        print(f"bitstep train: note: {len(other)} of {test_set.n_rows} test rows are of classes "
              f"that are not trained ({first_of(names, 5, class_text)}) and count as "
              "wrong", file=sys.stderr)


def _clipped_loss(resolved, outputs):
    """The loss of a training, if it has a bound."""
    objective = resolved[0].objective(outputs[0].n_rows)     # of its penalty alone
    return loss_of(objective, outputs) if objective.rule.clipped else None


def _clipped(dataset: Dataset, clip: np.ndarray | None) -> Dataset:
    """The rows as a model counts them."""
    if clip is None:
        return dataset
    if not dataset.features.flags.writeable:
        return replace(dataset, features=clipped_features(dataset.features, clip))
    np.clip(dataset.features, clip[0], clip[1], out=dataset.features, casting="same_kind")
    return dataset


def rows_of(request: RowChoice, dataset: Dataset,
            weights: np.ndarray | None = None) -> QuantizedRows | BitPlaneRows:
    """Quantize the rows of a data set, with a progress bar."""
    scaler = fit_scaler(dataset.features, request.scaler,
                        None if solver_of(request.solver).exact else warn_of_waste)
    with Bar(dataset.n_rows, "quantizing", " rows") as bar:
        return request.quantize(dataset.features, scaler, seed=request.seed, weights=weights,
                                progress=bar.to)


def _from_codes(arguments, requests):
    data = load_quantized(arguments.data)
    asked = requests[0]
    model = asked["model"] or default_model(data.task, data.encoding)
    resolved = [resolve(one) for one in check_candidates([
        stored_request(one, arguments.data, data, model).knowing(n_features=data.n_features)
        for one in requests])]
    data = replace(data, rows=data.rows.for_bus(resolved[0].rows.bus_width))
    if LOSSES[MODELS[model].loss].one_sided and asked["refetch"] is None \
            and not resolved[0].rows.refetch and encoding_of(data.encoding).cell:
        print(f"bitstep train: note: {arguments.data} has no fine rows, so rows are used "
              "as quantized; `bitstep quantize --fine-rows` writes a file for refetching",
              file=sys.stderr)
    warn_of_optimum(resolved[0].solver, data.scaler.clip, None)
    if LOSSES[MODELS[model].loss].clipped and data.labels_alike:
        print(f"bitstep train: note: half of the labels of {arguments.data} are alike, in steps of "
              f"{data.label_scale:.3g}, so --epsilon counts in their standard deviation, outliers "
              "included; if outliers have stretched the steps, train on the data that were "
              "quantized", file=sys.stderr)
    if data.classes is None:
        outputs, classes = [data], np.zeros(0)
    else:
        outputs = stored_outputs(data)
        classes = data.classes
    return Problem(arguments.data, model, resolved[0].rows, outputs, classes, None, None,
                   rule=_clipped_loss(resolved, outputs)), resolved
