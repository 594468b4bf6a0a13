"""``python -m bitstep_lab.quantized_networks``: weights with five levels while a network learns."""

import argparse
import sys
import time

from bitstep.cli.options import integer, number, or_auto
from bitstep.cli.paths import report_folder
from bitstep.data.dataset import DataError
from bitstep_lab.markdown import markdown_table
from bitstep_lab.samples import load_samples


def main() -> None:
    """Print the table, and write the report if a folder is given."""
    arguments = _parser().parse_args()
    try:
        import torch  # pyright: ignore[reportMissingImports]

        from bitstep_lab.quantized_networks import report
    except ImportError as error:
        raise SystemExit(f"error: the network needs torch ({error}): "
                         'pip install "bitstep[torch,sklearn]"') from None
    start = time.perf_counter()
    torch.set_num_threads(1)        # the layers are too small to share
    try:
        samples = load_samples("digits")
    except DataError as error:
        raise SystemExit(f"error: {error}") from None
    runs = report.run_contestants(
        samples, epochs=arguments.epochs, seeds=arguments.seeds,
        step=None if arguments.step == "auto" else arguments.step,
        progress=lambda line: print(line, file=sys.stderr, flush=True))
    print(markdown_table(report.HEAD, report.rows_of(runs)) + "\n")
    print("\n".join(report.conclusions(runs)))
    if arguments.out is not None:
        print(f"wrote {report.write_report(arguments.out, samples, runs)}")
    print(f"{time.perf_counter() - start:.0f} s")


def _parser():
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.quantized_networks",
                                     description=__doc__)
    parser.add_argument("--out", type=report_folder, metavar="DIR",
                        help="folder of the report; default: print the table alone")
    parser.add_argument("--epochs", type=integer(1), default=12, metavar="N",
                        help="default %(default)s")
    parser.add_argument("--seeds", type=integer(1, 1000), default=5, metavar="N",
                        help="runs of each contestant, default %(default)s")
    parser.add_argument("--step", type=or_auto(number(0)), default="auto", metavar="S",
                        help="step of all contestants, or auto: the best for each (default: auto)")
    return parser


if __name__ == "__main__":
    main()
