"""Print what the CPU baselines reach on this machine, as Markdown tables.

Methods take turns, several times over, so that what else runs on the machine meets all of them
alike; each figure is the median of all epochs.
"""

import argparse
import os
import sys

import numpy as np

from bitstep.baselines import (
    memory_copy_ceiling,
    memory_read_ceiling,
    train_cpu,
    train_sklearn,
)
from bitstep.quantization import encode
from bitstep.registers import Loss

SHAPES = ("448000x90", "2000x90")
STEP = 1e-3
ENCODED_ROWS = 10_000       # at a time: encoding needs float64


def main(arguments: list[str] | None = None) -> int:
    """Run the command; see ``python -m bitstep.baselines --help``."""
    parser = argparse.ArgumentParser(prog="python -m bitstep.baselines", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", type=_shape, metavar="ROWSxFEATURES",
                        help=f"may be repeated (default: {' and '.join(SHAPES)})")
    parser.add_argument("--loss", choices=[loss.name.lower() for loss in Loss],
                        default="least_squares")
    parser.add_argument("--batches", type=_count, nargs="+", default=[16, 256],
                        help="mini-batches besides batches of 1 (default: 16 256)")
    parser.add_argument("--threads", type=_count, default=_processors(),
                        help="largest number of threads (default: all processors)")
    parser.add_argument("--epochs", type=_count, default=4, help="of a turn (default: 4)")
    parser.add_argument("--turns", type=_count, default=5, help="of every method (default: 5)")
    options = parser.parse_args(arguments)
    print(f"NumPy {np.__version__}, {_processors()} processors, loss {options.loss}; medians of "
          f"{options.turns} turns of {options.epochs} epochs")
    for rows, features in options.shape or map(_shape, SHAPES):
        print(f"\n{_measure(rows, features, options)}", flush=True)
    return 0


def _measure(n_rows, n_features, options):
    """The table of a shape."""
    rng = np.random.default_rng(0)
    loss = Loss[options.loss.upper()]
    features = rng.random((n_rows, n_features), np.float32)
    features *= 2
    features -= 1
    targets = features @ rng.standard_normal(n_features, np.float32)
    if loss != Loss.LEAST_SQUARES:
        targets = np.where(targets > 0, 1, -1).astype(np.float32)
    codes = np.concatenate([encode(features[start:start + ENCODED_ROWS], bits=8,
                                   encoding="nearest")
                            for start in range(0, n_rows, ENCODED_ROWS)])
    races = _races(options)
    seconds = {race: [] for race in races}
    copies, reads = ({count: [] for count in range(1, options.threads + 1)} for _ in range(2))
    for _ in range(options.turns):
        for race in races:
            method, threads, batch = race
            common = {"loss": loss, "steps": [STEP] * options.epochs}
            if method == "sklearn":
                run = train_sklearn(features, targets, **common)
            else:
                run = train_cpu(codes if method == "lowprec" else features, targets, method=method,
                                threads=threads, batch=batch, **common)
            seconds[race].extend(run.seconds)
        for threads in copies:
            copies[threads].append(memory_copy_ceiling(features.nbytes, threads=threads))
            reads[threads].append(memory_read_ceiling(features.nbytes, threads=threads))
    baseline = np.median(seconds[races[0]])
    lines = [f"**{n_rows} x {n_features}**, {features.nbytes / 1e6:.1f} MB in float32", "",
             "| method | threads | batch | ms/epoch | GB/s | of reading | time / sgd |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for race in races:
        method, threads, batch = race
        median = np.median(seconds[race])
        n_bytes = (codes if method == "lowprec" else features).nbytes + targets.nbytes
        speed = n_bytes / median / 1e9
        share = speed / np.median(reads[threads])
        lines.append(f"| {method} | {threads} | {batch} | {median * 1e3:.3g} | {speed:.2f} | "
                     f"{share:.0%} | {median / baseline:.2f} |")
    for name, ceilings in (("memory, reading", reads),
                           ("memory, copying (read + written)", copies)):
        lines += [f"| {name} | {threads} | | | {np.median(values):.2f} | | |"
                  for threads, values in ceilings.items()]
    return "\n".join(lines)


def _races(options):
    """(method, threads, batch) of every line; the first is what the others are compared with."""
    counts, batches = range(1, options.threads + 1), [1, *options.batches]
    races = [("sgd", 1, batch) for batch in batches]
    races += [("hogwild", threads, batch) for threads in counts[1:] for batch in batches]
    races += [("minibatch", threads, batch) for threads in counts for batch in options.batches]
    races += [("lowprec", threads, batch) for threads in counts for batch in batches]
    try:
        import sklearn  # noqa: F401 (whether it is there)
    except ImportError:
        print("scikit-learn is not installed and left out", file=sys.stderr)
        return races
    return [*races, ("sklearn", 1, 1)]


def _processors():
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def _shape(text):
    rows, _, features = text.partition("x")
    try:
        return _count(rows), _count(features)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be ROWSxFEATURES, such as 448000x90, "
                                         f"not {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())
