"""What a command trains on: data set, split, quantization, and the measures of a training run."""

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.cli.options import (
    DEFAULT_MODELS,
    UsageError,
    check_encoding,
    fill_defaults,
    is_quantized,
    task_of,
)
from bitstep.cli.progress import Bar
from bitstep.data import Dataset, load, split
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset, load_quantized, quantize
from bitstep.quantization.encodings import FULL_CELLS
from bitstep.training.losses import accuracies, code_losses, mean_losses
from bitstep.training.models import MODELS, Model
from bitstep.training.train import TrainedModel, class_outputs, class_targets


@dataclass(frozen=True)
class Problem:
    """A quantized training set with one label stream for each output, and its test set.

    Attributes
    ----------
    name : str
    model : str
        A key of :data:`bitstep.training.models.MODELS`.
    refetch : bool
        Whether rows shall be fetched again at full precision.
    outputs : list of QuantizedDataset
        The same packed rows, one set of labels for each output of the model.
    classes : ndarray of float64, shape (n_classes,)
        Empty for a regression.
    train, test : Dataset or None
        None where there are only codes.
    """

    name: str
    model: str
    refetch: bool
    outputs: list[QuantizedDataset]
    classes: np.ndarray
    train: Dataset | None
    test: Dataset | None

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
        """What the training loss is computed on: ``features``, ``codes``, or ``full``: the rows at
        16 bits, or the floating-point rows, of a quantized data set.
        """
        if self.train is not None:
            return "features"
        data = self.outputs[0]
        return "codes" if data.full is None and data.family != "float" else "full"

    def history(self, model: TrainedModel) -> list[dict[str, Any]]:
        """One entry an epoch: ``epoch``, ``step``, ``train_loss``, ``test_metric``."""
        if self.train is None:
            losses = np.mean([
                code_losses(data, model.weights[:, number], model.scaled_intercepts[:, number],
                            self.kind.loss)
                for number, data in enumerate(self.outputs)], axis=0)
        else:
            losses = mean_losses(self.kind.loss, self.train.features, self._targets(self.train),
                                 model.coefs, model.intercepts)
        metrics: list[Any] = [None] * model.epochs_done
        if self.test is not None and self.test.n_rows:
            if self.task == "classification":
                found = accuracies(self.test.features, self.test.labels, self.classes,
                                   model.coefs, model.intercepts)
            else:
                found = mean_losses(self.kind.loss, self.test.features, self._targets(self.test),
                                    model.coefs, model.intercepts)
            metrics = found.tolist()
        return [{"epoch": epoch, "step": float(step), "train_loss": float(loss),
                 "test_metric": metric}
                for epoch, (step, loss, metric) in enumerate(
                    zip(model.steps, losses, metrics, strict=True), start=1)]

    def describe(self, source: str) -> dict[str, Any]:
        """The report's ``dataset``."""
        return {"name": self.name, "source": source, "task": self.task,
                "train_rows": self.outputs[0].n_rows,
                "test_rows": self.test.n_rows if self.test is not None else 0,
                "n_features": self.outputs[0].n_features,
                "classes": self.classes.tolist() if len(self.classes) else None}

    @property
    def baseline(self) -> float:
        """Training loss of the best constant, which any useful model is below."""
        if self.train is None:
            targets = np.stack([data.label_values() for data in self.outputs], axis=1)
        else:
            targets = self._targets(self.train)
        return float(np.mean([constant_loss(self.kind.loss, column) for column in targets.T]))

    def _targets(self, dataset):
        if self.task == "classification":
            return class_targets(dataset.labels, self.classes)
        return dataset.labels[:, None]


def constant_loss(loss: Loss, targets: np.ndarray) -> float:
    """Least mean loss that a constant can have.

    Parameters
    ----------
    targets : ndarray of float64, shape (n_rows,)
        +1 and -1 for all losses but least squares.
    """
    if loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE):    # the same: the best is within [-1, 1]
        return float(np.var(targets)) / 2
    share = np.mean(targets > 0)
    if loss == Loss.HINGE:
        return 2 * float(min(share, 1 - share))
    return -float(sum(part * np.log(part) for part in (share, 1 - share) if part > 0))


def prepare(arguments: argparse.Namespace) -> Problem:
    """Read, split and quantize what a command's DATA names.

    Raises
    ------
    UsageError
        If options contradict each other or a quantized data set.
    """
    if is_quantized(arguments.data):
        return _from_codes(arguments)
    fill_defaults(arguments)
    refetch = resolve_refetch(arguments, has_full=True)
    dataset = load(arguments.data, data_home=arguments.data_home, progress=True)
    task = task_of(arguments, dataset)
    train, test = split(dataset, arguments.train_rows, arguments.shuffle, arguments.seed)
    task_of(arguments, dataset, train.labels)
    data = quantize_rows(arguments, train, full=refetch)
    if task == "regression":
        classes, outputs = np.zeros(0), [data]
    else:
        classes = np.unique(train.labels)
        outputs = class_outputs(data, train.labels, classes)
    return Problem(dataset.name, arguments.model or DEFAULT_MODELS[task], refetch, outputs, classes,
                   train, test)


def quantize_rows(arguments: argparse.Namespace, dataset: Dataset, task: str = "regression", *,
                  full: bool = False) -> QuantizedDataset:
    """Quantize the rows and labels of a data set as a command's options say.

    Parameters
    ----------
    task : {"regression", "classification"}
        How labels are stored.
    full : bool
        Whether a copy at full precision is made, for refetching.
    """
    with Bar(dataset.n_rows, "quantizing", " rows") as bar:
        return quantize(
            dataset.features, dataset.labels, bits=arguments.bits, encoding=arguments.encoding,
            bus_width=arguments.bus_width, scaler=arguments.scaler, copies=arguments.copies,
            seed=arguments.seed, task=task, full=full, progress=bar.to)


def resolve_refetch(arguments: argparse.Namespace, *, has_full: bool) -> bool:
    """Whether a training refetches: as asked for, or, by default, wherever it can.

    Parameters
    ----------
    arguments : argparse.Namespace
        With bits and encoding filled in.
    has_full : bool
        Whether the rows at full precision are there or can be made.

    Raises
    ------
    UsageError
        If refetching was asked for, or is the default, but does not go together with another
        option.
    """
    asked, loss = arguments.refetch, MODELS[arguments.model or "linreg"].loss
    if loss != Loss.HINGE:
        if asked:
            other = f", not --model {arguments.model}" if arguments.model else ""
            raise UsageError(f"--refetch needs --model svm{other}: the other losses depend on more "
                             "of a row than the side of a bound it is on")
        return False
    if arguments.encoding not in FULL_CELLS:
        if asked and arguments.encoding == "float":
            raise UsageError("--refetch does not go together with floating-point rows (--bits 32), "
                             "which are at full precision; leave one of the two out")
        if asked:
            raise UsageError("--refetch needs --encoding nearest or stochastic, whose codes bound "
                             f"the value, not {arguments.encoding}")
        return False
    if asked is False or (asked is None and not has_full):
        return False
    if not has_full:
        raise UsageError(f"--refetch needs rows at full precision, which {arguments.data} does not "
                         "hold: write it with `bitstep quantize --full`")
    if arguments.batch != 1:
        raise UsageError("Refetching needs --batch 1, because every row is decided with the model "
                         f"before it, not {arguments.batch}; --no-refetch uses the codes alone")
    return True


def _from_codes(arguments):
    data = load_quantized(arguments.data)
    for option, given in (("--train-rows", arguments.train_rows), ("--shuffle", arguments.shuffle),
                          ("--seed", arguments.seed)):
        if given is not None:
            raise UsageError(f"{option} needs features, but {arguments.data} is quantized already: "
                             "choose rows, order and seed with `bitstep quantize`")
    for name, stored in (("bits", data.bits), ("encoding", data.encoding), ("copies", data.copies),
                         ("bus_width", data.bus_width), ("scaler", data.scaler.kind)):
        given = getattr(arguments, name)
        if given not in (None, stored):
            raise UsageError(f"--{name.replace('_', '-')} {given} does not fit {arguments.data}, "
                             f"which was quantized with {stored}: leave the option out, or "
                             "quantize again")
        setattr(arguments, name, stored)
    arguments.seed = data.seed
    model = arguments.model or DEFAULT_MODELS[data.task]
    check_encoding(model, data.encoding, f"the encoding of {arguments.data}, ")
    if MODELS[model].task != data.task:
        raise UsageError(f"--model {model} does not fit {arguments.data}, which was quantized for "
                         f"a {data.task}")
    refetch = resolve_refetch(arguments, has_full=data.full is not None)
    if MODELS[model].loss == Loss.HINGE and arguments.refetch is None and not refetch \
            and data.encoding in FULL_CELLS:
        print(f"bitstep train: note: {arguments.data} has no rows at full precision, so rows are "
              "used as quantized; `bitstep quantize --full` writes a file for refetching",
              file=sys.stderr)
    if data.classes is None:
        outputs, classes = [data], np.zeros(0)
    else:
        outputs, classes = class_outputs(data, data.label_values(), data.classes), data.classes
    return Problem(arguments.data, model, refetch, outputs, classes, None, None)
