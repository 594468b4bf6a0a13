"""What a command trains on: data set, split, quantization, and the measures of a training run."""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.cli.common import Bar, UsageError, fill_defaults, is_quantized, task_of
from bitstep.data import Dataset, load, split
from bitstep.losses import accuracies, code_losses, squared_losses
from bitstep.quantization import QuantizedDataset, quantize
from bitstep.training import TrainedModel, class_outputs, class_targets


@dataclass(frozen=True)
class Problem:
    """A quantized training set with one label stream for each output, and its test set.

    Attributes
    ----------
    name : str
    task : {"regression", "classification"}
    outputs : list of QuantizedDataset
        The same packed rows, one set of labels for each output of the model.
    classes : ndarray of float64, shape (n_classes,)
        Empty for a regression.
    train, test : Dataset or None
        None where there are only codes.
    """

    name: str
    task: str
    outputs: list[QuantizedDataset]
    classes: np.ndarray
    train: Dataset | None
    test: Dataset | None

    @property
    def loss_on(self) -> str:
        """What the training loss is computed on: ``features`` or ``codes``."""
        return "codes" if self.train is None else "features"

    def history(self, model: TrainedModel) -> list[dict[str, Any]]:
        """One entry an epoch: ``epoch``, ``step``, ``train_loss``, ``test_metric``."""
        if self.train is None:
            losses = np.mean([
                code_losses(data, model.weights[:, number], model.scaled_intercepts[:, number])
                for number, data in enumerate(self.outputs)], axis=0)
        else:
            losses = squared_losses(self.train.features, self._targets(self.train), model.coefs,
                                    model.intercepts)
        metrics: list[Any] = [None] * model.epochs_done
        if self.test is not None and self.test.n_rows:
            if self.task == "classification":
                found = accuracies(self.test.features, self.test.labels, self.classes,
                                   model.coefs, model.intercepts)
            else:
                found = squared_losses(self.test.features, self._targets(self.test), model.coefs,
                                       model.intercepts)
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
            return float(np.mean([np.var(data.label_values()) for data in self.outputs])) / 2
        return float(np.mean(np.var(self._targets(self.train), axis=0))) / 2

    def _targets(self, dataset):
        if self.task == "classification":
            return class_targets(dataset.labels, self.classes)
        return dataset.labels[:, None]


def prepare(arguments: argparse.Namespace) -> Problem:
    """Read, split and quantize what a command's DATA names."""
    if is_quantized(arguments.data):
        return _from_codes(arguments)
    fill_defaults(arguments)
    dataset = load(arguments.data, data_home=arguments.data_home, progress=True)
    task = task_of(arguments.model, dataset.task, dataset.labels, dataset.name)
    train, test = split(dataset, arguments.train_rows, arguments.shuffle, arguments.seed)
    task_of(arguments.model, task, train.labels, f"{dataset.name}, the rows to train on")
    data = quantize_rows(arguments, train)
    if task == "regression":
        classes, outputs = np.zeros(0), [data]
    else:
        classes = np.unique(train.labels)
        outputs = class_outputs(data, train.labels, classes)
    return Problem(dataset.name, task, outputs, classes, train, test)


def quantize_rows(arguments: argparse.Namespace, dataset: Dataset,
                  task: str = "regression") -> QuantizedDataset:
    """Quantize the rows and labels of a data set as a command's options say."""
    with Bar(dataset.n_rows, "quantizing", " rows") as bar:
        return quantize(
            dataset.features, dataset.labels, bits=arguments.bits, encoding=arguments.encoding,
            bus_width=arguments.bus_width, scaler=arguments.scaler, copies=arguments.copies,
            seed=arguments.seed, task=task, progress=bar.to)


def _from_codes(arguments):
    data = QuantizedDataset.load(arguments.data)
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
    if arguments.model not in (None, {"regression": "linreg",
                                      "classification": "ls-svm"}[data.task]):
        raise UsageError(f"--model {arguments.model} does not fit {arguments.data}, which was "
                         f"quantized for a {data.task}")
    if data.classes is None:
        return Problem(arguments.data, data.task, [data], np.zeros(0), None, None)
    outputs = class_outputs(data, data.label_values(), data.classes)
    return Problem(arguments.data, data.task, outputs, data.classes, None, None)
