"""``bitstep quantize``: from a data set to a file of packed codes that a board can load."""

import argparse
from pathlib import Path
from typing import Any

from bitstep.cli.options import (
    UsageError,
    add_data_options,
    add_pipeline_options,
    check_writable,
    is_quantized,
    task_of,
)
from bitstep.cli.problem import rows_of
from bitstep.cli.request import request_rows
from bitstep.data import load, split
from bitstep.pipeline.config import FINE_WIDTH
from bitstep.pipeline.losses import LOSSES
from bitstep.quantization import (
    ENCODINGS,
    QuantizedDataset,
    quantize_labels,
    save_quantized,
)
from bitstep.training.models import MODELS


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "quantize", help="quantize and pack a data set into one file",
        description="Scale, quantize and pack DATA into one file, which `bitstep train` takes in "
        "its place, on a board without scikit-learn, too.",
        epilog="Examples: bitstep quantize cadata --bits 3 --out cadata-3.npz; bitstep quantize "
        "cod-rna --model svm --out cod-rna.npz")
    add_data_options(parser)
    add_pipeline_options(parser)
    parser.add_argument("--fine-rows", action=argparse.BooleanOptionalAction,
                        help="add a copy with 16 bits a value, from which `bitstep train --model "
                        "svm` reads rows again (default: yes with --model svm and --encoding "
                        "nearest or stochastic)")
    parser.add_argument("--out", required=True, metavar="FILE.npz", help="file to write")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Quantize and write."""
    check_writable(arguments.out, sources=[arguments.data])
    request = request_rows(arguments)
    if is_quantized(arguments.data):
        raise UsageError(f"{arguments.data} is quantized already")
    cells = bool(ENCODINGS[request.encoding].cell)
    if arguments.fine_rows and not cells:
        raise UsageError("--fine-rows needs --encoding nearest or stochastic, whose codes bound "
                         f"the value, not {request.encoding}")
    fine_rows = LOSSES[MODELS[arguments.model or "linreg"].loss].one_sided and cells \
        if arguments.fine_rows is None else arguments.fine_rows
    dataset = load(arguments.data, data_home=arguments.data_home, progress=True)
    task = task_of(arguments, dataset)
    train, _ = split(dataset, arguments.train_rows, bool(request.shuffle), request.seed)
    task_of(arguments, dataset, train.labels)
    labels = quantize_labels(train.labels, train.n_rows, task=task,
                             label_bits=ENCODINGS[request.encoding].label_bits)
    data = QuantizedDataset(rows_of(request, train, fine_rows=fine_rows), labels)
    save_quantized(data, arguments.out)
    copies = f"{data.rows.copies} copies of " if data.rows.copies > 1 else ""
    kind = "a regression" if data.classes is None else f"{len(data.classes)} classes"
    print(f"{dataset.name}: {data.n_rows} rows of {data.n_features} features for {kind}, "
          f"{data.bits} bits {data.encoding}, {copies}{data.rows.packed[0].nbytes:,} bytes of rows"
          + ("" if data.fine_rows is None else f", and a copy with {FINE_WIDTH} bits a value"))
    print(f"wrote {arguments.out}, {Path(arguments.out).stat().st_size:,} bytes")
    return 0
