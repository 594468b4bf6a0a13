"""Options that subcommands share: their types, declarations, defaults and checks."""

import argparse
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data import dataset_names
from bitstep.data.columns.labels import LAST
from bitstep.pipeline.parts.formats import FLOAT_BITS, MAX_DENSE_FEATURES, WOVEN
from bitstep.pipeline.parts.widths import BUS_WIDTHS, MAX_LOOKAHEAD
from bitstep.quantization import ENCODINGS, LEVELS
from bitstep.quantization.labels import MAX_CLASSES, distinct
from bitstep.quantization.scaling import SCALERS
from bitstep.training.models import MODELS


class UsageError(Exception):
    """Options that do not go together: usage is printed, and the exit code is 2."""


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    """Type of an option: an integer of at least ``low`` and at most ``high``."""
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            limits = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"must be an integer {limits}, not {text!r}")
        return value
    return parse


def number(low: float, *, above: bool = True) -> Callable[[str], float]:
    """Type of an option: a finite number above ``low``, or also ``low`` itself."""
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < low or (above and value == low):
            raise argparse.ArgumentTypeError(
                f"must be a number {'above' if above else 'of at least'} {low:g}, not {text!r}")
        return value
    return parse


def stored_bits(text: str) -> int:
    """Type of an option: bits of a code, or those of a floating-point number."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 8 and value != FLOAT_BITS:
        raise argparse.ArgumentTypeError(f"must be an integer from 1 to 8, or {FLOAT_BITS} for "
                                         f"floating-point rows, not {text!r}")
    return value


def or_auto(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Type of an option: ``auto``, or what ``parse`` takes."""
    return lambda text: text if text == "auto" else parse(text)


def add_pipeline_options(parser: argparse.ArgumentParser, *, by_model: bool = True) -> None:
    """Options that say which pipeline reads the data.

    Parameters
    ----------
    by_model : bool
        Whether the command has an option ``--model``, on which the defaults depend.
    """
    default = _defaults if by_model else lambda name: getattr(MODELS["linreg"], name)
    parser.add_argument("--bits", type=stored_bits, metavar="B",
                        help=f"stored bits per value, 1 to 8, or {FLOAT_BITS}: floating-point rows "
                        f"(default: {default('bits')})")
    parser.add_argument("--encoding", choices=tuple(ENCODINGS), metavar="E",
                        help=f"how values become codes: {', '.join(ENCODINGS)} (default: "
                        f"{default('encoding')}; float with --bits {FLOAT_BITS})")
    parser.add_argument("--levels", choices=LEVELS,
                        help="uniform: equally spaced; optimal: each column has a table of the "
                        "levels of least variance, for nearest, stochastic and compensated up to "
                        "5 bits (default: uniform)")
    parser.add_argument("--bus-width", type=int, choices=BUS_WIDTHS,
                        help="bits in a beat of the row bus (default: 64)")


def _defaults(name: str) -> str:
    """Defaults of an option, as a text that says for which models they hold."""
    models: dict[Any, list[str]] = {}
    for model, kind in MODELS.items():
        models.setdefault(getattr(kind, name), []).append(model)
    return "; ".join(f"{value} for {', '.join(names)}" for value, names in models.items())


def default_model(task: str, encoding: str | None) -> str:
    """Model of data for which none is asked.

    Parameters
    ----------
    task : {"regression", "classification"}
    encoding : str or None
        Encoding that is asked for, or that a file has.
    """
    if task == "regression":
        return "linreg"
    if encoding is None:
        return "logistic"
    return "ls-svm" if encoding == WOVEN or ENCODINGS[encoding].corrected else "logistic"


def asked_encoding(arguments: argparse.Namespace) -> str | None:
    """Encoding of the rows that the options ask for; None: no word of it."""
    woven = getattr(arguments, "woven", False) or getattr(arguments, "planes", None) is not None \
        or getattr(arguments, "solver", "sgd") == "bit-centred"
    return WOVEN if woven else arguments.encoding


def add_lookahead_option(parser: argparse.ArgumentParser) -> None:
    """Option for the look-ahead of the pipeline."""
    parser.add_argument("--lookahead", type=or_auto(integer(0, MAX_LOOKAHEAD)), default="auto",
                        metavar="N", help="rows of look-ahead, or auto: as many as the rows need "
                        "to never wait (default: auto)")


def add_dense_option(parser: argparse.ArgumentParser) -> None:
    """Option for a pipeline of dense rows."""
    parser.add_argument("--dense", action="store_true", help="rows without padding, several in a "
                        f"beat, for up to {MAX_DENSE_FEATURES} features that fit into one: faster "
                        "with batches of a beat's rows and more, and with several models in a "
                        "pass")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Options for reading, splitting and quantizing a data set."""
    parser.add_argument("data", metavar="DATA", help="a file (LIBSVM text, .csv, .tsv, .npy, .npz, "
                        ".parquet, .arrow), or a name: see `bitstep info --data`")
    add_label_column_option(parser)
    parser.add_argument("--data-home", metavar="DIR", help="folder of named data sets (default: "
                        "$BITSTEP_DATA, else the cache folder)")
    parser.add_argument("--model", choices=tuple(MODELS), metavar="M",
                        help="linreg: linear regression; classifiers: ls-svm (squared error), "
                        "l2-svm (squared hinge), svm (hinge), logistic (log loss), one-vs-rest "
                        "for more than two classes (default: linreg or logistic, by the labels; "
                        "ls-svm for classes with --encoding compensated or double-symmetric)")
    parser.add_argument("--scaler", choices=SCALERS,
                        help="how columns are taken to [-1, 1]: minmax from their range, maxabs "
                        "from their largest magnitude, quantile as minmax, but clipped at the "
                        "quantiles 0.1 %% and 99.9 %% where these at least halve the range "
                        "(default: quantile; minmax with --solver bit-centred)")
    parser.add_argument("--train-rows", type=integer(1), metavar="N", help="rows to train on; the "
                        "others are the test set (default: all rows)")
    parser.add_argument("--shuffle", action=argparse.BooleanOptionalAction,
                        help="draw the rows at random by the seed (default: yes)")
    parser.add_argument("--copies", type=integer(1, 255), metavar="C", help="independently drawn "
                        "copies of the rows, read in turn by the epochs (default: 1)")
    parser.add_argument("--seed", type=integer(0), metavar="K",
                        help="seed of shuffle, codes and the rounding of updates (default: 0)")


def add_label_column_option(parser: argparse.ArgumentParser) -> None:
    """Option that says which column of a file is the label."""
    parser.add_argument("--label-column", metavar="NAME|N", help="column of the label in a .csv, "
                        ".tsv, .npy, .parquet or .arrow file: its name, or its number from 0; -1 "
                        "is the last one (default: the last column)")


def label_column(arguments: argparse.Namespace) -> str | int:
    """Column of the label that the options ask for."""
    asked = getattr(arguments, "label_column", None)
    return LAST if asked is None else asked


def is_quantized(path: str) -> bool:
    """Return True for a file of `bitstep quantize`: an .npz with a header and rows."""
    if not Path(path).is_file():    # a pipe would be waited for, and emptied
        return False
    try:
        with zipfile.ZipFile(path) as file:
            return {"header.npy", "rows_0.npy"} <= set(file.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def task_of(arguments: argparse.Namespace, name: str, task: str, labels: np.ndarray,
            class_names: Sequence[str] | None = None) -> str:
    """Task that the option ``--model`` asks for, or, without it, the data set's own.

    Parameters
    ----------
    name : str
        Data set, or part of it, for messages.
    task : {"regression", "classification"}
        The data set's task.
    labels : ndarray
        Its labels.
    class_names : sequence of str or None
        Names of the classes, if labels are their numbers.

    Raises
    ------
    ValueError
        If the labels are no classes and the model needs some.
    """
    model = arguments.model or default_model(task, asked_encoding(arguments))
    if MODELS[model].task == "regression":
        if class_names:
            raise ValueError(f"{name}: the labels are names ({_named(class_names)}), and {model} "
                             "is a regression; leave --model out, or name the column of numbers "
                             "(--label-column)")
        return "regression"
    found = distinct(labels)
    # A file with more than two labels says nothing of its task; a name does.
    if arguments.data in dataset_names() and task == "regression":
        raise ValueError(f"{name} is a regression, {model} needs classes; use --model linreg, or "
                         "another data set (`bitstep info --data`)")
    if len(found) < 2:
        only = class_names[int(found[0])] if class_names else f"{found[0]:g}"
        raise ValueError(f"{name}: a classification must have two classes, but every label is "
                         f"{only}; check the labels, or how rows were split")
    if len(found) > MAX_CLASSES:
        raise ValueError(f"{name}: the labels take {len(found)} values, more than the "
                         f"{MAX_CLASSES} classes that {model} accepts; use --model linreg")
    broken = found[found != np.rint(found)]
    if len(found) > 2 and len(broken):
        raise ValueError(f"{name}: labels of more than two classes must be whole numbers, not "
                         f"{broken[0]:g}; use --model linreg if they are values, or number the "
                         "classes")
    return "classification"


def class_text(value: Any) -> str:
    """A class in a message: its name, or a number without digits that it does not need."""
    return str(value) if isinstance(value, str) else f"{value:g}"


def _named(values: Sequence[str]) -> str:
    """The first names, for a message."""
    return ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
