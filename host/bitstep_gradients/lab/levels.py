"""Optimal levels: time of the solver; variance of codecs with levels on Gaussian buckets, and time
of their updates.

Times are processor times of one thread, the least of some runs, sorting included. The sort beside
them is NumPy's stable one of the same points.

    python -m bitstep_gradients.lab.levels
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from bitstep.cli.options import integer
from bitstep.levels import METHODS, level_cost, optimal_levels
from bitstep_gradients import make_codec
from bitstep_lab.markdown import print_header, print_row

SIZES = (65_536, 1_000_000)
N_LEVELS = 16
TURNS = 5
BUCKET = 8192
SEEDS = 12
CODECS = (("optimal", {}), ("alq-linf", {}), ("alq", {}), ("alq", {"symmetric": False}),
          ("alq", {"zero": True}), ("alq-gd", {}), ("amq", {}), ("nuqsgd", {}),
          ("nuqsgd", {"zero": False}))


def seconds(work: Callable[[], object], turns: int) -> float:
    """Least processor time of some runs, after one that compiles."""
    work()
    found = []
    for _ in range(turns):
        start = time.thread_time()
        work()
        found.append(time.thread_time() - start)
    return min(found)


def report_solver(sizes, turns: int) -> None:
    """Print a table of the methods' times and variances."""
    print_header("points, distribution, method, ms, / sort, variance / least")
    for size in sizes:
        normal = np.random.default_rng(1).normal(size=size)
        for name, points in (("normal", normal), ("lognormal", np.exp(normal))):
            sorting = seconds(lambda points=points: np.sort(points, kind="stable"), turns)
            least = level_cost(points, optimal_levels(points, N_LEVELS))
            for method in METHODS:
                def work(points=points, method=method):
                    return optimal_levels(points, N_LEVELS, method=method)
                spent = seconds(work, turns)
                print_row(f"{size:,}", name, f"`{method}`", f"{1000 * spent:.3g}",
                    f"{spent / sorting:.2g}", f"{level_cost(points, work()) / least:.4f}")


def report_codecs(bits: int) -> None:
    """Print a table of E|Q(v) - v|^2 / |v|^2 of Gaussian buckets, after an update by each."""
    print_header("codec, options, mean, least, most")
    vectors = [np.random.default_rng(seed).normal(size=BUCKET).astype(np.float32)
               for seed in range(SEEDS)]
    for name, options in CODECS:
        found = []
        for vector in vectors:
            codec = make_codec(name, bits=bits, **options)
            if codec.adapts:
                codec.update([codec.statistics(vector)])
            error = codec.expected_error(vector)
            assert error is not None
            found.append(error / np.sum(vector.astype(np.float64)**2))
        print_row(f"`{name}`", ", ".join(f"`{key}={value}`" for key, value in options.items()),
            *(f"{one:.4g}" for one in (np.mean(found), min(found), max(found))))


def report_updates(ranks: int = 4) -> None:
    """Print a table of the time of the first update, from the default samples of some ranks."""
    print_header("codec, 3 bits, 5 bits, 8 bits")
    vectors = [np.random.default_rng(rank).laplace(size=40 * BUCKET) for rank in range(ranks)]
    for name in ("alq", "alq-gd", "amq"):
        spent = []
        for bits in (3, 5, 8):
            codec = make_codec(name, bits=bits, bucket_size=BUCKET)
            statistics = [codec.statistics(vector) for vector in vectors]
            start = time.thread_time()
            codec.update(statistics)
            spent.append(time.thread_time() - start)
        print_row(f"`{name}`", *(f"{one:.2g}" for one in spent))


def main() -> None:
    """Print all tables in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n    ")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, choices=range(2, 9), default=3, metavar="B",
                        help="bits of the codecs (default: 3)")
    parser.add_argument("--shrink", type=integer(1), default=1, metavar="N",
                        help="divide the solver's points, for a look (default: 1)")
    options = parser.parse_args()
    print(f"Solver, {N_LEVELS} levels:")
    report_solver([max(size // options.shrink, 100) for size in SIZES], TURNS)
    print(f"\nCodecs, {SEEDS} buckets of {BUCKET:,} values, {options.bits} bits:")
    report_codecs(options.bits)
    print(f"\nSeconds of an update, 4 ranks with 20 buckets each of {BUCKET:,} values:")
    report_updates()


if __name__ == "__main__":
    main()
