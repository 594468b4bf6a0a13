"""Options that subcommands share: their types, declarations, defaults and checks."""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.data import dataset_names
from bitstep.data.columns.labels import LAST
from bitstep.data.npz import has_arrays
from bitstep.options.models import MODELS
from bitstep.options.rules import Request
from bitstep.options.table import OPTIONS
from bitstep.options.types import Integer, Number
from bitstep.options.types import or_auto as or_auto
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.parts.formats import BIT_PLANES, FLOAT_BITS
from bitstep.quantization.labels import MAX_CLASSES, broken_class, distinct
from bitstep.writing import first_of


class UsageError(Exception):
    """Options that do not go together: usage is printed, and the exit code is 2."""


integer, number = Integer, Number      # types of options that are one command's


def add_options(group: Any, *names: str) -> None:
    """Declare options of the table.

    Parameters
    ----------
    group : ArgumentParser or argument group
    names : str
        Keys of :data:`bitstep.options.table.OPTIONS`.
    """
    for name in names:
        OPTIONS[name].declare(group)


def add_pipeline_options(parser: argparse.ArgumentParser, *, by_model: bool = True,
                         bus_width: str | None = None) -> None:
    """Options that say which pipeline reads the data.

    Parameters
    ----------
    by_model : bool
        Whether the command has an option ``--model``, on which the defaults depend.
    bus_width : str or None
        Default of ``--bus-width`` of a command that has no ``--device``, as its help says it.
    """
    usual = MODELS["linreg"]
    changes = {} if by_model else {
        "bits": {"default_text": str(usual.bits)},
        "encoding": {"default_text": f"{usual.encoding}; float with --bits {FLOAT_BITS}"}}
    if bus_width is not None:
        changes["bus_width"] = {"default_text": bus_width}
    for name in ("bits", "encoding", "levels", "bus_width"):
        OPTIONS[name].declare(parser, **changes.get(name, {}))


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
    corrected = encoding is not None and encoding_of(encoding).corrected
    return "ls-svm" if corrected else "logistic"


def asked_encoding(request: Request) -> str | None:
    """Encoding of the rows that the options ask for; None: open."""
    bit_planes = request["bit_planes"] or request["planes"] is not None \
        or request["solver"] == "bit-centred"
    return BIT_PLANES if bit_planes else request["encoding"]


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Options for reading, splitting and quantizing a data set."""
    parser.add_argument("data", metavar="DATA", help="a file (LIBSVM text, .csv, .tsv, .npy, .npz, "
                        ".parquet, .arrow), or a name: see `bitstep info --data`")
    add_options(parser, "label_column")
    parser.add_argument("--data-home", metavar="DIR", help="folder of named data sets (default: "
                        "$BITSTEP_DATA, else the cache folder)")
    add_options(parser, "model", "scaler", "train_rows", "shuffle", "copies", "seed")


def label_column(arguments: argparse.Namespace) -> str | int:
    """Column of the label that the options ask for."""
    asked = getattr(arguments, "label_column", None)
    return LAST if asked is None else asked


def is_quantized(path: str) -> bool:
    """Return True for a file of `bitstep quantize`: an .npz with a header and rows."""
    return has_arrays(path, "header", "rows_0")


def task_of(request: Request, source: str, name: str, task: str, labels: np.ndarray,
            class_names: Sequence[str] | None = None) -> str:
    """Task that the option ``--model`` asks for, or, without it, the data set's own.

    Parameters
    ----------
    request : Request
        Options.
    source : str
        The data as the user named them.
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
    model = request["model"] or default_model(task, asked_encoding(request))
    if MODELS[model].task == "regression":
        if class_names:
            raise ValueError(f"{name}: the labels are names ({first_of(class_names, 5)}), and "
                             f"{model} is a regression; leave --model out, or name the column of "
                             "numbers (--label-column)")
        return "regression"
    found = distinct(labels)
    # A file with more than two labels says nothing of its task; a name does.
    if source in dataset_names() and task == "regression":
        raise ValueError(f"{name} is a regression, {model} needs classes; use --model linreg, or "
                         "another data set (`bitstep info --data`)")
    if len(found) < 2:
        only = class_names[int(found[0])] if class_names else f"{found[0]:g}"
        raise ValueError(f"{name}: a classification must have two classes, but every label is "
                         f"{only}; check the labels, or how rows were split")
    if len(found) > MAX_CLASSES:
        raise ValueError(f"{name}: the labels take {len(found)} values, more than the "
                         f"{MAX_CLASSES} classes that {model} accepts; use --model linreg")
    if (broken := broken_class(found)) is not None:
        raise ValueError(f"{name}: labels of more than two classes must be whole numbers, not "
                         f"{broken:g}; use --model linreg if they are values, or number the "
                         "classes")
    return "classification"


def class_text(value: Any) -> str:
    """A class: its name, or a number without digits that it does not need."""
    if isinstance(value, str):
        return str(value)
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e16 \
        else repr(float(value))
