"""``bitstep quantize``: from a data set to a file of packed codes that a board can load."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.columns import warn_of_waste
from bitstep.cli.options import (
    UsageError,
    add_data_options,
    add_pipeline_options,
    asked_encoding,
    default_model,
    is_quantized,
    label_column,
    task_of,
)
from bitstep.cli.paths import check_writable
from bitstep.cli.progress import Bar, add_quiet_option, shown
from bitstep.cli.request import RowRequest, request_rows
from bitstep.data import open_table
from bitstep.data.tables.table import Survey, Table, task_of_labels
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import FINE_WIDTH
from bitstep.quantization import ENCODINGS, WovenOptions, label_bits_of, quantize_labels
from bitstep.quantization.encoder import RowOptions
from bitstep.quantization.streaming import Chosen, choose_rows, write_quantized
from bitstep.training.models import MODELS


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "quantize", help="quantize and pack a data set into one file",
        description="Scale, quantize and pack DATA into one file, which `bitstep train` takes in "
        "its place, on a board without scikit-learn, too. A file is read in two passes, in blocks, "
        "so it may be larger than memory (docs/data-files.md).",
        epilog="Examples: bitstep quantize cadata --bits 3 --out cadata-3.npz; bitstep quantize "
        "cod-rna --model svm --out cod-rna.npz")
    add_data_options(parser)
    add_pipeline_options(parser)
    parser.add_argument("--fine-rows", action=argparse.BooleanOptionalAction,
                        help="add a copy with 16 bits a value, from which `bitstep train --model "
                        "svm` reads rows again (default: yes with --model svm and --encoding "
                        "nearest or stochastic)")
    parser.add_argument("--woven", action="store_true", help="write woven rows: one copy of 16 "
                        "bits a value, stored bit plane by bit plane, from which `bitstep train "
                        "--planes` and `--solver bit-centred` read as many bits as they want")
    parser.add_argument("--out", required=True, metavar="FILE.npz", help="file to write")
    add_quiet_option(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Quantize and write."""
    check_writable(arguments.out, sources=[arguments.data])
    request, _ = _resolved(arguments, arguments.model)      # an error now, not after a long pass
    if is_quantized(arguments.data):
        raise UsageError(f"{arguments.data} is quantized already")
    table = open_table(arguments.data, data_home=arguments.data_home,
                       label_column=label_column(arguments), progress=not shown.quiet)
    survey, chosen = _survey(table, arguments.train_rows, request)
    own = table.task or task_of_labels(survey.labels)
    task = task_of(arguments, table.name, own, survey.labels, table.class_names)
    request, options = _resolved(
        arguments, arguments.model or default_model(task, asked_encoding(arguments)))
    trained = chosen.labels(survey)
    task_of(arguments, f"{table.name}, the rows to train on", own, trained, table.class_names)
    labels = quantize_labels(trained, chosen.count, task=task,
                             label_bits=label_bits_of(request.encoding))
    if labels.classes is not None and table.class_names is not None:
        names = np.array(table.class_names)
        labels = replace(labels, classes=names[labels.classes.astype(np.int64)])
    del trained
    survey = survey._replace(labels=np.zeros(0))      # which may be as large as the codes
    with Bar(chosen.count, "quantizing", " rows") as bar:
        packed = write_quantized(table, survey, chosen, labels, options, Path(arguments.out),
                                 bar.to, warn_of_waste)
    copies = f"{packed.copies} copies of " if packed.copies > 1 else ""
    kind = "a regression" if labels.classes is None else f"{len(labels.classes)} classes"
    print(f"{table.name}: {packed.n_rows} rows of {packed.n_features} features for {kind}, "
          f"{packed.bits} bits {packed.encoding}, {copies}{packed.row_bytes:,} bytes of rows"
          + (f", and a copy with {FINE_WIDTH} bits a value" if options.fine_rows else ""))
    print(f"wrote {arguments.out}, {Path(arguments.out).stat().st_size:,} bytes")
    return 0


def _resolved(arguments: argparse.Namespace, model: str | None
              ) -> tuple[RowRequest, RowOptions | WovenOptions]:
    """Options of the rows, for a model or, if that is not known yet, any."""
    request = request_rows(arguments, model=model)
    if arguments.fine_rows and arguments.woven:
        raise UsageError("--fine-rows does not go together with --woven, whose rows have 16 bits a "
                         "value")
    if arguments.woven:
        return request, WovenOptions(bus_width=request.bus_width, scaler=request.scaler,
                                     seed=request.seed)
    cells = bool(ENCODINGS[request.encoding].cell) and request.levels == "uniform"
    if arguments.fine_rows and request.levels != "uniform":
        raise UsageError("--fine-rows needs --levels uniform, since refetching needs equally "
                         "spaced levels")
    if arguments.fine_rows and not cells:
        raise UsageError("--fine-rows needs --encoding nearest or stochastic, whose codes bound "
                         f"the value, not {request.encoding}")
    fine_rows = LOSSES[MODELS[model or "linreg"].loss].one_sided and cells \
        if arguments.fine_rows is None else arguments.fine_rows
    return request, RowOptions(
        bits=request.bits, encoding=request.encoding, bus_width=request.bus_width,
        scaler=request.scaler, copies=request.copies, seed=request.seed, fine_rows=fine_rows,
        levels=request.levels)


def _survey(table: Table, train_rows: int | None, request: RowRequest) -> tuple[Survey, Chosen]:
    """The first pass, and the rows to quantize."""
    shuffle, seed = bool(request.shuffle), request.seed
    if train_rows is None:
        with Bar(None if table.sequential else table.count_rows(), "reading", " rows") as bar:
            survey = table.survey(progress=bar.to)
        return survey, choose_rows(table.name, len(survey.labels), None, shuffle, seed)
    chosen = choose_rows(table.name, table.count_rows(), train_rows, shuffle, seed)
    total = None if table.sequential else chosen.count
    with Bar(total, "reading", " rows") as bar:
        return table.survey(chosen.numbers(), bar.to), chosen
