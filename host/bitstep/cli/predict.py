"""``bitstep predict``: a model file on a data set."""

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.class_labels import ClassLabels
from bitstep.cli.options import UsageError, add_options, class_text, is_quantized
from bitstep.cli.paths import check_writable
from bitstep.cli.progress import Bar, add_quiet_option, shown
from bitstep.data import open_table
from bitstep.data.blocks import row_blocks
from bitstep.data.columns.labels import LAST, NoLabel, label_position
from bitstep.data.dataset import DataError, NoLabelError
from bitstep.data.libsvm import WidthError
from bitstep.data.tables.table import Table
from bitstep.data.tables.texts import LibsvmTable
from bitstep.quantization import load_quantized
from bitstep.training.files.model_file import (
    INDEX_NAMES,
    LinearModel,
    ModelFileError,
    load_model,
    plain_names,
)
from bitstep.training.losses import CHUNK_VALUES, Moments
from bitstep.writing import first_of, whole_file

_SHOWN = 5                  # classes that a message lists


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "predict", help="apply a model file to a data set",
        description="Predict the labels of DATA with a model of `bitstep train --out`, and measure "
        "how well they fit, if DATA has labels. Columns with names may be in any order, if the "
        "model was trained on columns with these names: the one that is no feature of it is then "
        "the label.",
        epilog="Examples: bitstep predict model.npz cadata --out predictions.txt; bitstep predict "
        "model.npz new-rows.csv --no-label --out predictions.txt")
    parser.add_argument("model", metavar="MODEL.npz", help="model of `bitstep train --out`, or of "
                        "an estimator's save")
    parser.add_argument("data", metavar="DATA", help="a file or a name, as for `bitstep train`, or "
                        "a file of `bitstep quantize` with the model's bits and encoding")
    add_options(parser, "label_column")
    parser.add_argument("--no-label", action="store_true", help="DATA has no labels, or none to "
                        "compare with: a column of --label-column, if given, is not read, and all "
                        "others are features; needed unless the names of the columns tell")
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
    source, text_of, measure = _Source(arguments, model), repr, _Values()
    if len(model.classes):
        classes = ClassLabels(model)
        text_of, measure = classes.texts.__getitem__, _Classes(model, classes)
        if arguments.out:
            _check_lines(arguments.model, classes.texts.values())
    with contextlib.ExitStack() as files:
        out = None
        if arguments.out:
            temporary = files.enter_context(whole_file(arguments.out))
            out = files.enter_context(temporary.open("w", encoding="utf-8"))
        bar = files.enter_context(Bar(None, "predicting", " rows"))
        done = 0
        for features, labels in source.pieces():
            if labels is not None and labels.dtype.kind == "U" and not len(model.classes):
                raise ModelFileError(f"The model predicts values, the labels of {arguments.data} "
                                     f"are names ({_list(np.unique(labels))}): say which column "
                                     "holds the values (--label-column), or that there are none "
                                     "to compare with (--no-label)")
            predictions = model.predict(features)
            if labels is not None:
                measure.add(predictions, labels)
            elif out is None:
                raise UsageError(f"--out must name a file for the predictions, since {source.name} "
                                 "has no labels to compare them with")
            done += len(features)
            bar.to(done)
            if out is not None:
                out.write("".join(f"{text_of(value)}\n" for value in predictions.tolist()))
        text = measure.text(arguments.data) if measure.count else f"{done} rows without labels"
    print(text)
    if arguments.out:
        print(f"wrote {arguments.out}")
    return 0


class _Source:
    """Rows to predict, with their columns in the order of the model.

    Parameters
    ----------
    arguments : Namespace
    model : LinearModel
    """

    def __init__(self, arguments: argparse.Namespace, model: LinearModel):
        self.name: str = arguments.data
        self._arguments, self._model = arguments, model
        self._labelled, self._columns = not arguments.no_label, None
        self._told = False

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Features, and labels if there are some, of some rows after the other."""
        pieces = self._from_codes() if is_quantized(self.name) else self._from_table()
        size = max(1, CHUNK_VALUES // max(self._model.coef.shape))
        try:
            for features, labels in pieces:
                for start in range(0, len(labels), size):
                    part = features[start:start + size]
                    yield (part if self._columns is None else np.take(part, self._columns, axis=1),
                           labels[start:start + size] if self._labelled else None)
        except NoLabelError as error:
            raise DataError(f"{error}; or predict without labels (--no-label)") from error
        except WidthError as error:
            raise ModelFileError(
                f"The model was trained on {self._model.n_features} features, the data have at "
                f"least {error.found}: use the data set it was trained for") from error

    def _from_table(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Features and labels of a file of features, or of a named data set."""
        table = open_table(self.name, data_home=self._arguments.data_home,
                           label_column=self._choose, progress=not shown.quiet)
        if not isinstance(table, LibsvmTable) and table.path is not None:
            self._check_width(table)
        if isinstance(table, LibsvmTable):
            # Columns beyond the last one that is not zero in any row of this file count, too.
            table.fix_columns(self._model.n_features)
        elif table.path is None:
            self._columns = self._columns_in(table.feature_names)
        for piece in table.pieces():
            yield piece.features, _labels(piece.labels, table)

    def _choose(self, names: tuple[str, ...] | None) -> str | int | NoLabel:
        """The label's column among columns of these names, as readers of data take it.

        Raises
        ------
        ModelFileError
            If the other columns do not have the names of the model's features.
        """
        column: str | int | None = self._arguments.label_column
        if column is None and names is not None and self._model.feature_names is not None:
            own, found = (plain_names(some) for some in (self._model.feature_names, names))
            others = [number for number, name in enumerate(found) if name not in own]
            if len(others) == 1 and found[others[0]] not in INDEX_NAMES \
                    and len(found) == len(own) + 1:
                column = others[0]
                self._tell(found, column)
            elif found[-1] in own:
                self._labelled = False
        chosen = NoLabel(column) if not self._labelled else LAST if column is None else column
        if names is not None:
            label = label_position(chosen, len(names), names, Path(self.name))
            self._columns = self._columns_in(tuple(
                name for number, name in enumerate(names) if number != label))
        return chosen

    def _tell(self, names: tuple[str, ...], column: int) -> None:
        """Say once which column is the label, if it is not where labels are by default."""
        if self._labelled and not self._told and column != len(names) - 1:
            self._told = True
            print(f"bitstep predict: note: the label is column {names[column]!r}, which is no "
                  "feature of the model; --no-label predicts without it", file=sys.stderr)

    def _check_width(self, table: Table) -> None:
        """Raise ModelFileError unless columns without names are as many as those of the model."""
        if not hasattr(table, "n_features"):        # of text the first rows tell
            next(table.pieces())
        found, wanted = table.n_features, self._model.n_features
        if found == wanted or None not in (table.feature_names, self._model.feature_names):
            return
        hint = ""
        if not self.name.endswith(".npz"):
            hint = ", and leave --no-label out if a column is the label"
            if self._labelled:
                hint = ", and say which column is the label if it is not the last (--label-column)"
                hint += ", or that there is none (--no-label)" * (found + 1 == wanted)
        raise ModelFileError(f"The model was trained on {wanted} features, the data have {found}: "
                             f"use the data set it was trained for{hint}")

    def _columns_in(self, names: tuple[str, ...] | None) -> np.ndarray | None:
        """Columns that are the model's features; see :meth:`LinearModel.columns_in`."""
        try:
            return self._model.columns_in(names)
        except ModelFileError as error:
            raise ModelFileError(
                f"{self.name}: {error}; say which column is the label, if there is one "
                "(--label-column), and leave other columns out") from None

    def _from_codes(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Features that rows stand for, as exactly as the file has them, and labels."""
        if self._arguments.label_column is not None:
            raise UsageError(f"--label-column needs a file of features, but {self.name} is "
                             "quantized already: leave it out")
        data = load_quantized(self.name)
        expected = [self._model.config.get(name) for name in ("bits", "encoding")]
        if expected != [data.bits, data.encoding]:
            raise ModelFileError(
                f"The model was trained with {expected[0]} bits {expected[1]}, {self.name} holds "
                f"{data.bits} bits {data.encoding}: quantize it like the model's data")
        try:
            self._columns = self._model.columns_in(data.feature_names)
        except ModelFileError as error:
            raise ModelFileError(f"{self.name}: {error}; quantize data with the columns of the "
                                 "model's") from None
        for _, start, stop in row_blocks(data.n_rows, data.n_features):
            scaled, _ = data.rows.values(slice(start, stop))
            yield scaled * data.scaler.scale + data.scaler.centre, data.label_values(start, stop)


def _check_lines(path: str, texts: Iterable[str]) -> None:
    """Raise ModelFileError if a class takes more than one line of --out."""
    for text in texts:
        if len(text.splitlines()) > 1:
            raise ModelFileError(f"{path}: each class must be one line of the file of --out, and "
                                 f"the model has the class {text!r}: predict in Python "
                                 "(LowPrecisionClassifier.load), or train it on classes without "
                                 "line breaks")


def _labels(labels: np.ndarray, table: Table) -> np.ndarray:
    """Labels of a piece: numbers, or names of classes."""
    names = table.class_names
    return labels if names is None else np.array(names)[labels.astype(np.int64)]


class _Classes:
    """Accuracy of predicted classes."""

    def __init__(self, model: LinearModel, classes: ClassLabels):
        self._model, self._classes, self._unknown = model, classes, None
        self._right = self._others = self.count = 0

    def add(self, predictions: np.ndarray, labels: np.ndarray) -> None:
        """Compare predictions with labels."""
        numbers = self._classes.numbers(labels)
        self._right += int((numbers == self._classes.places(predictions)).sum())
        self._others += int((numbers < 0).sum())
        self.count += len(labels)
        if self._others == self.count:
            found = np.unique(labels)
            # As many as a message shows, and one more.
            self._unknown = (found if self._unknown is None else
                             np.union1d(self._unknown, found))[:_SHOWN + 1]

    def text(self, source: str) -> str:
        """The result; ModelFileError if no label is one of the model's."""
        if self._others == self.count:
            raise ModelFileError(
                f"The model tells classes {_list(self._model.classes)} apart, the labels of "
                f"{source} are {_list(self._unknown)}: use the data set it was trained for, say "
                "which column is the label (--label-column), or add --no-label to predict without "
                "labels (--label-column then names the column that is not read)")
        others = f"; {self._others} are of classes that the model was not trained on" \
            if self._others else ""
        return (f"accuracy {100 * self._right / self.count:.2f} % on {self.count} rows "
                f"({self._right} of them right{others})")


class _Values:
    """Loss of predicted values."""

    def __init__(self):
        self._squares, self._labels = 0.0, Moments()

    def add(self, predictions: np.ndarray, labels: np.ndarray) -> None:
        """Compare predictions with labels."""
        self._squares += float(np.sum((predictions - labels) ** 2))
        self._labels.add(labels)

    @property
    def count(self) -> int:
        """Rows that were compared."""
        return self._labels.count

    def text(self, source: str) -> str:
        """The result."""
        mean, variance = self._squares / self._labels.count, self._labels.variance
        share = 1 - mean / variance if variance else 0.0
        explained = f", R2 {share:{'.4f' if abs(share) < 1e4 else '.4g'}}" if variance else ""
        return (f"loss {mean / 2:.6g} (1/(2K) sum of squared residuals){explained} on "
                f"{self._labels.count} rows")


def _list(values):
    return first_of(values, _SHOWN, class_text)
