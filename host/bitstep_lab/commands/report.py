"""``bitstep report``: a configuration on a board, with the user's data."""

import argparse
from pathlib import Path
from typing import Any

from bitstep.cli import train
from bitstep.cli.options import (
    UsageError,
    add_data_options,
    add_pipeline_options,
    is_quantized,
)
from bitstep.cli.paths import REPORT_BYTES, check_writable
from bitstep.cli.progress import Bar, add_quiet_option
from bitstep.options.table import BY_SGD, OPTIONS
from bitstep.pipeline.boards import FACTS
from bitstep.pipeline.parts.formats import BIT_PLANES, FLOAT_BITS
from bitstep.quantization import load_quantized
from bitstep.writing import write_text

WIDTHS = (*range(1, 9), FLOAT_BITS)
DEFAULT_BOARD = "pynq-z2"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "report", help="show a pipeline on a board: resources, latency, time, loss by bits",
        description="Train on DATA at 1 to 8 bits and in floating point, on device cpu, and show "
        "what the pipeline of a board does with them: lanes, latency, cycles a row, clock, "
        "resources against those of the board, time of an epoch, loss and accuracy.",
        epilog="Examples: bitstep report digits --board pynq-z2 --train-rows 1200; bitstep report "
        "data.csv --bits 4 --out report.html. How to read it: docs/board-report.md.")
    board = parser.add_argument_group("board")
    board.add_argument("--board", choices=tuple(FACTS), metavar="BOARD",
                       help=f"{', '.join(FACTS)} (default: {DEFAULT_BOARD})")
    board.add_argument("--manifest", metavar="FILE.json", help="a bitstream that was built, "
                       "instead of a board: its pipeline, clock and resources")
    board.add_argument("--synthesize", action="store_true", help="count the resources of the "
                       "pipeline by Yosys where no figure is recorded; some minutes")
    add_data_options(parser)
    add_pipeline_options(parser, bus_width="that of the board's default bitstream for the width, "
                         "else of one memory port")
    parser.add_argument("--compare", type=OPTIONS["bits"].kind, nargs="+", metavar="B",
                        default=WIDTHS, help="widths to train at (default: 1 to 8, and 32: "
                        "floating point)")
    training = parser.add_argument_group("training")
    for name in train.TRAINING:
        OPTIONS[name].declare(training, **BY_SGD.get(name, {}))
    OPTIONS["planes"].declare(training, default_text="auto; for a file of `bitstep quantize "
                              "--bit-planes` alone")
    parser.add_argument("--out", metavar="FILE", help="write the report, as .html or .txt")
    add_quiet_option(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Train at every width, print the report and write it."""
    from bitstep_lab.board_report.boards import board_named, board_of
    from bitstep_lab.board_report.page import html_report, text_report
    from bitstep_lab.board_report.widths import figures
    _check(arguments)
    board = board_of(arguments.manifest) if arguments.manifest else \
        board_named(arguments.board or DEFAULT_BOARD)
    chosen = _chosen(arguments, board)
    first = figures(arguments, board, chosen, chosen)
    if first["status"] != "ok":
        raise ValueError(f"{arguments.data}: {first['status']}; choose other --bits, or a smaller "
                         "--step")
    chosen = first["bits"]      # the model's own if nobody asked for a width
    compared = {chosen} if is_quantized(arguments.data) else {chosen, *arguments.compare}
    found = {chosen: first}
    with Bar(len(compared), "widths", " widths") as bar:
        for done, bits in enumerate(sorted(compared - {chosen}), start=1):
            bar.to(done)
            found[bits] = figures(arguments, board, bits, chosen)
    resources = board.resources(first["config"], count=arguments.synthesize)
    widths = [found[bits] for bits in sorted(found)]
    text = text_report(first, widths, board, resources)
    if arguments.out:           # before it is printed: who reads that may have seen enough
        page = html_report(first, widths, board, resources) \
            if arguments.out.endswith(".html") else text + "\n"
        write_text(arguments.out, page)
    print(text)
    if arguments.out:
        print(f"wrote {arguments.out}")
    return 0


def _check(arguments):
    """Raise UsageError for options that cannot be carried out, before any training."""
    if arguments.board and arguments.manifest:
        raise UsageError("--board and --manifest must not both be given: a manifest says which "
                         "board it is for; leave one out")
    if arguments.out and Path(arguments.out).suffix not in (".html", ".txt"):
        raise UsageError(f"--out must be a file name that ends in .html or .txt, not "
                         f"{arguments.out!r}")
    check_writable(arguments.out, sources=[arguments.data], n_bytes=REPORT_BYTES)
    if arguments.out and arguments.out.endswith(".html"):
        try:
            import matplotlib  # noqa: F401
        except ImportError as error:
            raise RuntimeError("a report as .html needs matplotlib: pip install "
                               '"bitstep[sklearn]"; a .txt does not') from error


def _chosen(arguments, board):
    """The width that the report is about; None: that of the model, which the data may decide."""
    if is_quantized(arguments.data):
        data = load_quantized(arguments.data)
        if arguments.planes is not None and data.encoding != BIT_PLANES:
            raise _no_planes(arguments.data)
        return data.bits
    if arguments.planes is not None:
        raise _no_planes(arguments.data)
    if board.manifest is not None and board.manifest.config.row_format == BIT_PLANES:
        raise UsageError(f"{arguments.manifest} is of a pipeline for bit-plane rows, which "
                         f"{arguments.data} has not: give a file of `bitstep quantize "
                         "--bit-planes`, or another manifest")
    if arguments.bits is None and board.manifest is not None:
        return board.manifest.config.bits
    return arguments.bits


def _no_planes(path):
    return UsageError(f"--planes needs a file of bit-plane rows, which {path} is not: write one "
                      "with `bitstep quantize --bit-planes`, or leave --planes out")
