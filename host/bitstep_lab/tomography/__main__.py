"""``python -m bitstep_lab.tomography``: an image from its projections, by rows of few bits."""

import argparse
import sys
import time

from bitstep.cli.options import integer, number
from bitstep.cli.paths import report_folder
from bitstep.pipeline.results import DeviceError
from bitstep_lab.markdown import markdown_table
from bitstep_lab.tomography.phantom import MissingImages, filtered_back_projection, phantom_scan
from bitstep_lab.tomography.reconstruction import SCHEDULES, STORAGES, peak_ratio
from bitstep_lab.tomography.report import HEAD, compare, conclusion, rows_of, write_report

MAX_SIDE, MAX_ANGLES = 128, 1024        # not both: memory


def main() -> None:
    """Print the table, and write the report if a folder is given."""
    arguments = _parser().parse_args()
    start = time.perf_counter()
    try:
        scan = phantom_scan(arguments.side, arguments.angles, noise=arguments.noise,
                            seed=arguments.seed)
        comparison = compare(scan, STORAGES, epochs=arguments.epochs, device=arguments.device,
                             progress=lambda line: print(line, file=sys.stderr, flush=True))
    except (MissingImages, DeviceError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None
    direct = filtered_back_projection(scan, arguments.angles)
    ratio = peak_ratio(scan.image[scan.inside], direct[scan.inside])
    print(f"{len(scan.rays):,} rays, {scan.rays.shape[1]:,} pixels; filtered back projection: "
          f"{ratio:.1f} dB")
    print("\n" + markdown_table(HEAD, rows_of(comparison)) + "\n")
    for schedule in SCHEDULES:
        print(conclusion(comparison, schedule))
    if arguments.out is not None:
        page = write_report(arguments.out, comparison,
                            ("filtered back projection", direct, ratio))
        print(f"wrote {page}")
    print(f"{time.perf_counter() - start:.0f} s")


def _parser():
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.tomography", description=__doc__)
    parser.add_argument("--out", type=report_folder, metavar="DIR",
                        help="folder of the report with images; default: print the table alone")
    parser.add_argument("--side", type=integer(8, MAX_SIDE), default=64, metavar="N",
                        help="pixels on each side of the image, default %(default)s")
    parser.add_argument("--angles", type=integer(1, MAX_ANGLES), default=96, metavar="N",
                        help="angles of the projections, default %(default)s")
    parser.add_argument("--epochs", type=integer(1), default=100, metavar="N",
                        help="default %(default)s")
    parser.add_argument("--noise", type=number(0, above=False), default=0.0, metavar="F",
                        help="standard deviation of the readings' noise, as a share of the largest "
                        "reading, default %(default)s")
    parser.add_argument("--device", choices=("cpu", "golden"), default="cpu",
                        help="both give the same pixels; default %(default)s")
    parser.add_argument("--seed", type=integer(0), default=0, metavar="N", help="of the noise and "
                        "of the order of the rays, default %(default)s")
    return parser


if __name__ == "__main__":
    main()
