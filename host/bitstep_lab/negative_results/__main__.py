"""``python -m bitstep_lab.negative_results``: the tables of docs/results/negative-results.md."""

import argparse
import time

from bitstep_lab.negative_results.tables import EPOCHS, RADII, SEEDS, problems, tables


def main() -> None:
    """Print the tables and the time they took."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.negative_results",
                                     description=__doc__)
    parser.add_argument("--own-step", action="store_true",
                        help="give every method its own best step instead of float64's")
    parser.add_argument("--radii", type=float, nargs="+", default=RADII, metavar="R",
                        help="limits of the margins with which polynomials are tried, "
                        f"default {' '.join(f'{radius:g}' for radius in RADII)}")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="default %(default)s")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs to average, default "
                        "%(default)s")
    arguments = parser.parse_args()
    for name in ("epochs", "seeds"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1, not {getattr(arguments, name)}")
    if not all(0 < radius < float("inf") for radius in arguments.radii):
        parser.error("--radii must be positive and finite, not "
                     f"{' '.join(map(str, arguments.radii))}")
    start = time.perf_counter()
    print(tables(problems(), own_step=arguments.own_step, radii=arguments.radii,
                 epochs=arguments.epochs, seeds=arguments.seeds))
    print(f"\n{time.perf_counter() - start:.0f} s, of which {time.process_time():.0f} s computing")


if __name__ == "__main__":
    main()
