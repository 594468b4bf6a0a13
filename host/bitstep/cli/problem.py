"""What a command trains on: data set, split, quantization, and the measures of a training run."""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.cli.common import Bar, UsageError, is_quantized, task_of
from bitstep.data import Dataset, load, split
from bitstep.losses import accuracies, code_losses, squared_losses
from bitstep.quantization import QuantizedDataset, quantize
from bitstep.training import TrainedModel, class_targets, with_signs


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
            losses = code_losses(self.outputs[0], model.weights[:, 0],
                                 model.scaled_intercepts[:, 0])
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

    def _targets(self, dataset):
        if self.task == "classification":
            return class_targets(dataset.labels, self.classes)
        return dataset.labels[:, None]


def prepare(arguments: argparse.Namespace) -> Problem:
    """Read, split and quantize what a command's DATA names."""
    if is_quantized(arguments.data):
        return _from_codes(arguments)
    dataset = load(arguments.data, data_home=arguments.data_home, progress=True)
    task = task_of(arguments.model, dataset.task, dataset.labels, dataset.name)
    train, test = split(dataset, arguments.train_rows, arguments.shuffle, arguments.seed)
    task_of(arguments.model, task, train.labels, f"{dataset.name}, the rows to train on")
    data = quantize_rows(arguments, train)
    if task == "regression":
        classes, outputs = np.zeros(0), [data]
    else:
        classes = np.unique(train.labels)
        outputs = [with_signs(data, signs) for signs in class_targets(train.labels, classes).T]
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
    if arguments.train_rows is not None:
        raise UsageError("--train-rows needs features: a quantized data set is trained on whole; "
                         "split with `bitstep quantize --train-rows`")
    data = QuantizedDataset.load(arguments.data)
    if arguments.model not in (None, {"regression": "linreg",
                                      "classification": "ls-svm"}[data.task]):
        raise UsageError(f"--model {arguments.model} does not fit {arguments.data}, which was "
                         f"quantized for a {data.task}")
    classes = np.zeros(0) if data.classes is None else data.classes
    return Problem(arguments.data, data.task, [data], classes, None, None)
