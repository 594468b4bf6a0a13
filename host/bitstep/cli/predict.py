"""``bitstep predict``: a model file on a data set."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from bitstep.cli.options import (
    UsageError,
    add_options,
    class_text,
    is_quantized,
    label_column,
)
from bitstep.cli.paths import check_writable
from bitstep.cli.progress import Bar, add_quiet_option, shown
from bitstep.data import open_table
from bitstep.data.blocks import row_blocks
from bitstep.data.libsvm import WidthError
from bitstep.data.tables.table import Table
from bitstep.data.tables.texts import LibsvmTable
from bitstep.quantization import load_quantized
from bitstep.training.losses import CHUNK_VALUES, Moments
from bitstep.training.model_file import LinearModel, ModelFileError, load_model
from bitstep.writing import whole_file

_SHOWN = 5                  # classes that a message lists


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "predict", help="apply a model file to a data set",
        description="Predict the labels of DATA with a model of `bitstep train --out`, and measure "
        "how well they fit.",
        epilog="Example: bitstep predict model.npz cadata --out predictions.txt")
    parser.add_argument("model", metavar="MODEL.npz", help="model of `bitstep train --out`")
    parser.add_argument("data", metavar="DATA", help="a file or a name, as for `bitstep train`, or "
                        "a file of `bitstep quantize` with the model's bits and encoding")
    add_options(parser, "label_column")
    parser.add_argument("--data-home", metavar="DIR", help="folder of named data sets")
    parser.add_argument("--out", metavar="FILE", help="write the predictions, one a line")
    add_quiet_option(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Predict piece after piece, print the measure, write the predictions."""
    check_writable(arguments.out, sources=[arguments.model, arguments.data])
    model = load_model(arguments.model)
    if len(model.coef) > 1 and not len(model.classes):
        raise ModelFileError(f"{arguments.model}: the model has {len(model.coef)} targets, and a "
                             "data set has one label a row; use LowPrecisionRegressor.load")
    named = model.classes.dtype.kind == "U"
    measure = _Classes(model) if len(model.classes) else _Values()
    with contextlib.ExitStack() as files:
        out = None
        if arguments.out:
            temporary = files.enter_context(whole_file(arguments.out))
            out = files.enter_context(temporary.open("w", encoding="utf-8"))
        bar = files.enter_context(Bar(None, "predicting", " rows"))
        done = 0
        for features, labels in _pieces(arguments, model):
            if labels.dtype.kind == "U" and not len(model.classes):
                raise ModelFileError(f"The model predicts values, the labels of {arguments.data} "
                                     f"are names ({_list(np.unique(labels))}): say which column "
                                     "holds the values (--label-column)")
            predictions = model.predict(features)
            measure.add(predictions, labels)
            done += len(labels)
            bar.to(done)
            if out is not None:
                out.write("".join(f"{value if named else repr(value)}\n"
                                  for value in predictions.tolist()))
        text = measure.text(arguments.data)
    print(text)
    if arguments.out:
        print(f"wrote {arguments.out}")
    return 0


def _pieces(arguments: argparse.Namespace,
            model: LinearModel) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features and labels of some rows after the other."""
    if is_quantized(arguments.data):
        pieces = _from_codes(arguments, model)
    else:
        table = open_table(arguments.data, data_home=arguments.data_home,
                           label_column=label_column(arguments), progress=not shown.quiet)
        if not isinstance(table, LibsvmTable) and table.path is not None:
            _check_columns(model, table)
        if isinstance(table, LibsvmTable):
            # Columns beyond the last one that is not zero in any row of this file count, too.
            table.fix_columns(model.n_features)
        pieces = ((piece.features, _labels(piece.labels, table)) for piece in table.pieces())
    size = max(1, CHUNK_VALUES // max(model.coef.shape))
    try:
        for features, labels in pieces:
            for start in range(0, len(labels), size):
                yield features[start:start + size], labels[start:start + size]
    except WidthError as error:
        raise ModelFileError(
            f"The model was trained on {model.n_features} features, the data have at least "
            f"{error.found}: use the data set it was trained for") from error


def _from_codes(arguments: argparse.Namespace,
                model: LinearModel) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features that rows stand for, as exactly as the file has them, and labels."""
    if arguments.label_column is not None:
        raise UsageError(f"--label-column needs a file of features, but {arguments.data} is "
                         "quantized already: leave it out")
    data = load_quantized(arguments.data)
    expected = [model.config.get(name) for name in ("bits", "encoding")]
    if expected != [data.bits, data.encoding]:
        raise ModelFileError(
            f"The model was trained with {expected[0]} bits {expected[1]}, {arguments.data} holds "
            f"{data.bits} bits {data.encoding}: quantize it like the model's data")
    for _, start, stop in row_blocks(data.n_rows, data.n_features):
        scaled, _ = data.rows.values(slice(start, stop))
        yield scaled * data.scaler.scale + data.scaler.centre, data.label_values(start, stop)


def _check_columns(model: LinearModel, table: Table) -> None:
    """Raise ModelFileError unless a file of columns has those of the model."""
    if not hasattr(table, "n_features"):        # of text the first rows tell
        next(table.pieces())
    if table.n_features != model.n_features:
        hint = "" if str(table.path).endswith(".npz") else \
            ", and say which column is the label if it is not the last (--label-column)"
        raise ModelFileError(
            f"The model was trained on {model.n_features} features, the data have "
            f"{table.n_features}: use the data set it was trained for{hint}")


def _labels(labels: np.ndarray, table: Table) -> np.ndarray:
    """Labels of a piece: numbers, or names of classes."""
    names = table.class_names
    return labels if names is None else np.array(names)[labels.astype(np.int64)]


class _Classes:
    """Accuracy of predicted classes."""

    def __init__(self, model: LinearModel):
        self._classes, self._right, self._count = model.classes, 0, 0
        self._known, self._unknown = False, None

    def add(self, predictions: np.ndarray, labels: np.ndarray) -> None:
        """Compare predictions with labels."""
        if predictions.dtype.kind == labels.dtype.kind:
            self._right += int((predictions == labels).sum())
        self._count += len(labels)
        if not self._known:
            found = np.unique(labels)
            same = found.dtype.kind == self._classes.dtype.kind
            self._known = same and bool(np.isin(found, self._classes).any())
            # As many as a message shows, and one more.
            self._unknown = (found if self._unknown is None else
                             np.union1d(self._unknown, found))[:_SHOWN + 1]

    def text(self, source: str) -> str:
        """The result; ModelFileError if no label is one of the model's."""
        if not self._known:
            raise ModelFileError(
                f"The model tells classes {_list(self._classes)} apart, the labels of "
                f"{source} are {_list(self._unknown)}: use the data set it was trained for")
        return (f"accuracy {100 * self._right / self._count:.2f} % on {self._count} rows "
                f"({self._right} of them right)")


class _Values:
    """Loss of predicted values."""

    def __init__(self):
        self._squares, self._labels = 0.0, Moments()

    def add(self, predictions: np.ndarray, labels: np.ndarray) -> None:
        """Compare predictions with labels."""
        self._squares += float(np.sum((predictions - labels) ** 2))
        self._labels.add(labels)

    def text(self, source: str) -> str:
        """The result."""
        mean, variance = self._squares / self._labels.count, self._labels.variance
        explained = f", R2 {1 - mean / variance:.4f}" if variance else ""
        return (f"loss {mean / 2:.6g} (1/(2K) sum of squared residuals){explained} on "
                f"{self._labels.count} rows")


def _list(values):
    return ", ".join(map(class_text, values[:_SHOWN])) + (
        ", ..." if len(values) > _SHOWN else "")
