"""``bitstep bench --baselines``: speed of the CPU baselines, without a race."""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.cli.options import integer
from bitstep.machine import available_cores
from bitstep.pipeline.registers import Loss
from bitstep_lab.baselines import measure

SHAPES = ("448000x90", "2000x90")


class MeasureBaselines(argparse.Action):
    """An option that takes all that follows it, prints the tables and ends the program."""

    def __call__(self, parser, namespace, values: Any, option_string=None):
        """Print and exit."""
        try:
            print_baselines(values, prog=f"{parser.prog} {option_string}")
        except ImportError as error:
            parser.exit(1, f"{parser.prog}: error: {error}\n")
        parser.exit()


def print_baselines(arguments: Sequence[str], *, prog: str = "bitstep bench --baselines") -> None:
    """Print a Markdown table of the baselines for each shape of the data.

    Parameters
    ----------
    arguments : sequence of str
        Options of the command line.
    prog : str
        Name of the command in its help.
    """
    options = _parser(prog).parse_args(arguments)
    print(f"NumPy {np.__version__}, {available_cores()} processors, loss {options.loss}; "
          f"medians of {options.turns} turns of {options.epochs} epochs")
    for n_rows, n_features in options.shape or map(_shape, SHAPES):
        figures = measure.measure(n_rows, n_features, loss=Loss[options.loss.upper()],
                                  batches=options.batches, threads=options.threads,
                                  epochs=options.epochs, turns=options.turns)
        print(f"\n{figures}", flush=True)


def _parser(prog):
    parser = argparse.ArgumentParser(
        prog=prog, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Print what the CPU baselines reach on this machine, as Markdown tables.\n\n"
        + (measure.__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--shape", action="append", type=_shape, metavar="ROWSxFEATURES",
                        help=f"may be repeated (default: {' and '.join(SHAPES)})")
    parser.add_argument("--loss", choices=[loss.name.lower() for loss in Loss],
                        default="least_squares")
    parser.add_argument("--batches", type=integer(1), nargs="+", default=[16, 256], metavar="N",
                        help="mini-batches besides batches of 1 (default: 16 256)")
    parser.add_argument("--threads", type=integer(1), default=available_cores(), metavar="N",
                        help="largest number of threads (default: all processors)")
    parser.add_argument("--epochs", type=integer(1), default=4, metavar="N",
                        help="of a turn (default: 4)")
    parser.add_argument("--turns", type=integer(1), default=5, metavar="N",
                        help="of every method (default: 5)")
    return parser


def _shape(text):
    try:
        n_rows, n_features = (int(size) for size in text.split("x"))
    except ValueError:
        n_rows = n_features = 0
    if n_rows < 1 or n_features < 1:
        raise argparse.ArgumentTypeError(f"must be ROWSxFEATURES, such as 448000x90, not {text!r}")
    return n_rows, n_features
