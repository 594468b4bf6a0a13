"""``bitstep quantize``: from a data set to a file of stored codes that a board can load."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.columns import warn_of_waste
from bitstep.cli.options import (
    UsageError,
    add_data_options,
    add_options,
    add_pipeline_options,
    asked_encoding,
    default_model,
    is_quantized,
    label_column,
    task_of,
)
from bitstep.cli.paths import check_writable
from bitstep.cli.progress import Bar, add_quiet_option, shown
from bitstep.cli.request import request_of
from bitstep.data import open_table
from bitstep.data.tables.table import Survey, Table, task_of_labels
from bitstep.options.table import OPTIONS
from bitstep.pipeline.parts.formats import BIT_PLANES, FINE_WIDTH
from bitstep.pipeline.parts.widths import USUAL_BUS_WIDTH
from bitstep.quantization import BitPlaneOptions, label_bits_of, quantize_labels
from bitstep.quantization.encoder import RowOptions
from bitstep.quantization.streaming import Chosen, choose_rows, write_quantized
from bitstep.training.choices import Resolved, check_options, resolve


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
    add_pipeline_options(parser, bus_width=str(USUAL_BUS_WIDTH))
    add_options(parser, "fine_rows", "bit_planes")
    OPTIONS["intercept"].declare(
        parser, help="rows and labels for a training with an intercept; those for `bitstep train "
        "--no-intercept` have scaler maxabs, and labels of a regression around 0")
    parser.add_argument("--out", required=True, metavar="FILE.npz", help="file to write")
    add_quiet_option(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Quantize and write."""
    check_writable(arguments.out, sources=[arguments.data])
    asked = check_options(request_of(arguments))        # an error now, not after a long pass
    if is_quantized(arguments.data):
        raise UsageError(f"{arguments.data} is quantized already")
    table = open_table(arguments.data, data_home=arguments.data_home,
                       label_column=label_column(arguments), progress=not shown.quiet)
    survey, chosen = _survey(table, arguments.train_rows, asked["shuffle"], asked["seed"])
    own = table.task or task_of_labels(survey.labels)
    task = task_of(asked, arguments.data, table.name, own, survey.labels, table.class_names)
    resolved = resolve(asked.filled(model=default_model(task, asked_encoding(asked)))
                       .knowing(n_features=len(survey.low)))
    request, options = resolved.rows, _row_options(resolved)
    trained = chosen.labels(survey)
    task_of(asked, arguments.data, f"{table.name}, the rows to train on", own, trained,
            table.class_names)
    labels = quantize_labels(trained, chosen.count, task=task,
                             center_labels=bool(asked["intercept"]),
                             label_bits=label_bits_of(request.encoding))
    if labels.classes is not None and table.class_names is not None:
        names = np.array(table.class_names)
        labels = replace(labels, classes=names[labels.classes.astype(np.int64)])
    del trained
    survey = survey._replace(labels=np.zeros(0))      # which may be as large as the codes
    with Bar(chosen.count, "quantizing", " rows") as bar:
        stored = write_quantized(table, survey, chosen, labels, options, Path(arguments.out),
                                 bar.to, warn_of_waste)
    copies = f"{stored.copies} copies of " if stored.copies > 1 else ""
    kind = "a regression" if labels.classes is None else f"{len(labels.classes)} classes"
    print(f"{table.name}: {stored.n_rows} rows of {stored.n_features} features for {kind}, "
          f"{stored.bits} bits {stored.encoding}, {copies}{stored.row_bytes:,} bytes of rows"
          + (f", and a copy with {FINE_WIDTH} bits a value" if options.fine_rows else ""))
    print(f"wrote {arguments.out}, {Path(arguments.out).stat().st_size:,} bytes")
    return 0


def _row_options(resolved: Resolved) -> RowOptions | BitPlaneOptions:
    """Options of the rows to write."""
    rows, fine_rows = resolved.rows, resolved.request["fine_rows"]
    if rows.encoding == BIT_PLANES:
        return BitPlaneOptions(bus_width=rows.bus_width, scaler=rows.scaler, seed=rows.seed)
    return RowOptions(
        bits=rows.bits, encoding=rows.encoding, bus_width=rows.bus_width, scaler=rows.scaler,
        copies=rows.copies, seed=rows.seed, levels=rows.levels,
        fine_rows=rows.refetch if fine_rows is None else fine_rows)


def _survey(table: Table, train_rows: int | None, shuffle: bool,
            seed: int) -> tuple[Survey, Chosen]:
    """The first pass, and the rows to quantize."""
    if train_rows is None:
        with Bar(None if table.sequential else table.count_rows(), "reading", " rows") as bar:
            survey = table.survey(progress=bar.to)
        return survey, choose_rows(table.name, len(survey.labels), None, shuffle, seed)
    chosen = choose_rows(table.name, table.count_rows(), train_rows, shuffle, seed)
    total = None if table.sequential else chosen.count
    with Bar(total, "reading", " rows") as bar:
        return table.survey(chosen.numbers(), bar.to), chosen
