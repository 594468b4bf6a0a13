"""What subcommands share: types of options, progress bars, text tables, files."""

import argparse
import json
import math
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.config import BUS_WIDTHS, MAX_LOOKAHEAD
from bitstep.quantization import ENCODINGS, Grid
from bitstep.quantization.scaling import SCALERS

MAX_CLASSES = 256           # more different labels than this are a regression's


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


def or_auto(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Type of an option: ``auto``, or what ``parse`` takes."""
    return lambda text: text if text == "auto" else parse(text)


def add_pipeline_options(parser: argparse.ArgumentParser) -> None:
    """Options that say which pipeline reads the data."""
    parser.add_argument("--bits", type=integer(1, 8), default=4, metavar="B",
                        help="stored bits per value, 1 to 8 (default: 4)")
    parser.add_argument("--encoding", choices=tuple(ENCODINGS), default="compensated",
                        help="how values become codes (default: compensated)")
    parser.add_argument("--bus-width", type=int, choices=BUS_WIDTHS, default=64,
                        help="bits in a beat of the row bus (default: 64)")


def add_lookahead_option(parser: argparse.ArgumentParser) -> None:
    """Option for the look-ahead of the pipeline."""
    parser.add_argument("--lookahead", type=or_auto(integer(0, MAX_LOOKAHEAD)), default="auto",
                        metavar="N", help="rows of look-ahead, or auto: as many as the rows need "
                        "to never wait (default: auto)")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Options for reading, splitting and quantizing a data set."""
    parser.add_argument("data", metavar="DATA", help="a file (LIBSVM, .csv, .npz), or a name: see "
                        "`bitstep info --data`")
    parser.add_argument("--data-home", metavar="DIR", help="folder of named data sets (default: "
                        "$BITSTEP_DATA, else the cache folder)")
    parser.add_argument("--model", choices=("linreg", "ls-svm"),
                        help="linear regression or least-squares SVM (default: by the labels)")
    parser.add_argument("--scaler", choices=SCALERS, default="minmax",
                        help="how columns are taken to [-1, 1] (default: minmax)")
    parser.add_argument("--train-rows", type=integer(1), metavar="N", help="rows to train on; the "
                        "others are the test set (default: all rows)")
    parser.add_argument("--shuffle", action=argparse.BooleanOptionalAction, default=True,
                        help="draw the rows at random by the seed (default: yes)")
    parser.add_argument("--copies", type=integer(1, 255), default=1, metavar="C", help="independent"
                        "ly drawn copies of the rows, read in turn by the epochs (default: 1)")
    parser.add_argument("--seed", type=integer(0), default=0, metavar="K",
                        help="seed of shuffle and codes (default: 0)")


def check_encoding(arguments: argparse.Namespace) -> None:
    """Raise :class:`UsageError` if the encoding does not exist at these bits."""
    try:
        Grid(arguments.encoding, arguments.bits)
    except ValueError as error:
        raise UsageError(str(error)) from error


def check_writable(*paths: str | None) -> None:
    """Raise :class:`UsageError` for a path that cannot be written, before any long work."""
    for path in filter(None, paths):
        folder = Path(path).resolve().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise UsageError(f"{path} cannot be written: there is no folder {folder} to write to")
        if Path(path).is_dir():
            raise UsageError(f"{path} cannot be written: it is a folder")


def is_quantized(path: str) -> bool:
    """Whether a file is one of `bitstep quantize`: an .npz with a header and rows."""
    try:
        with zipfile.ZipFile(path) as file:
            return {"header.npy", "rows_0.npy"} <= set(file.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def task_of(model: str | None, task: str, labels: np.ndarray, name: str) -> str:
    """Task that a model option and a data set's own task ask for."""
    wanted = {None: task, "linreg": "regression", "ls-svm": "classification"}[model]
    if wanted == "classification":
        n_classes = len(np.unique(labels))
        if n_classes < 2:
            raise ValueError(f"{name}: a classification must have two classes, but every label is "
                             f"{labels[0]:g}; check the labels, or how rows were split")
        if n_classes > MAX_CLASSES:
            raise ValueError(f"{name}: the labels take {n_classes} values, more than the "
                             f"{MAX_CLASSES} classes that ls-svm accepts; use --model linreg")
    return wanted


def write_text(path: str, text: str) -> None:
    """Write a file, whole or not at all."""
    temporary = Path(f"{path}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str, value: Any) -> None:
    """Write JSON, with null for what is not finite (JSON has no NaN)."""
    write_text(path, json.dumps(_finite(value), indent=2, allow_nan=False) + "\n")


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Aligned text; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [all(not isinstance(row[column], str) for row in rows) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *cells]
    return "\n".join("  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(line, widths, right, strict=True)).rstrip()
        for line in lines)


def _cell(value):
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Bar:
    """A progress bar on a terminal's standard error if tqdm is installed; else nothing."""

    def __init__(self, total: int, label: str, unit: str):
        self._bar = None
        if sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, desc=label, unit=unit, leave=False, file=sys.stderr)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_) -> None:
        if self._bar is not None:
            self._bar.close()

    def to(self, done: int) -> None:
        """Show that ``done`` of the total are done."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)


class StatusLine:
    """Lines of a device's progress on standard error.

    On a terminal each replaces the one before, and :meth:`clear` removes the last; elsewhere only
    the first of each stage (the text before a colon) is printed.
    """

    def __init__(self, label: str):
        self._label, self._stage = label, ""

    def __call__(self, line: str) -> None:
        """Show a line."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{self._label}: {line}", end="", file=sys.stderr, flush=True)
        elif line.partition(":")[0] != self._stage:
            print(f"{self._label}: {line}", file=sys.stderr)
        self._stage = line.partition(":")[0]

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._stage and sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
