"""Print what the CPU baselines reach on this machine, as Markdown tables.

Methods take turns, several times over, so that what else runs on the machine meets all of them
alike; each figure is the median of all epochs. CPU time is that of the busiest thread, which is
what an epoch takes on a machine that does nothing else.
"""

import argparse
import os
import sys

import numpy as np

from bitstep.pipeline.registers import Loss
from bitstep.quantization import encode
from bitstep_lab.baselines import (
    memory_copy_ceiling,
    memory_read_ceiling,
    train_cpu,
    train_sklearn,
)

SHAPES = ("448000x90", "2000x90")
COLUMNS = ("method", "threads", "batch", "ms/epoch", "CPU ms/epoch", "GB/s", "GB/CPU s",
           "of reading", "CPU time / sgd")
STEP = 1e-3
ENCODED_ROWS = 10_000       # at a time: encoding needs float64


def main(arguments: list[str] | None = None) -> int:
    """Run the command; see ``python -m bitstep_lab.baselines --help``."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.baselines", description=__doc__,
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
    runs = {race: [] for race in races}
    ceilings = {(ceiling, threads): ([], []) for ceiling in (memory_read_ceiling,
                                                             memory_copy_ceiling)
                for threads in range(1, options.threads + 1)}
    for _ in range(options.turns):
        for race in races:
            method, threads, batch = race
            common = {"loss": loss, "steps": [STEP] * options.epochs}
            if method == "sklearn":
                run = train_sklearn(features, targets, **common)
            else:
                run = train_cpu(codes if method == "lowprec" else features, targets, method=method,
                                threads=threads, batch=batch, **common)
            runs[race].append(run)
        for (ceiling, threads), speeds in ceilings.items():
            for cpu_time in (False, True):
                speeds[cpu_time].append(ceiling(features.nbytes, threads=threads,
                                                cpu_time=cpu_time))
    lines = [f"**{n_rows} x {n_features}**, {features.nbytes / 1e6:.1f} MB in float32", "",
             "| " + " | ".join(COLUMNS) + " |", "| --- " * len(COLUMNS) + "|"]
    baseline = None
    for (method, threads, batch), turns in runs.items():
        wall = np.median(np.concatenate([run.seconds for run in turns]))
        cpu = np.median(np.concatenate([run.cpu_seconds for run in turns]))
        n_bytes, baseline = turns[0].bytes_per_epoch, baseline or cpu
        share = n_bytes / cpu / 1e9 / np.median(ceilings[memory_read_ceiling, threads][True])
        lines.append(f"| {method} | {threads} | {batch} | {wall * 1e3:.3g} | {cpu * 1e3:.3g} | "
                     f"{n_bytes / wall / 1e9:.1f} | {n_bytes / cpu / 1e9:.1f} | {share:.0%} | "
                     f"{cpu / baseline:.2f} |")
    names = {memory_read_ceiling: "reading", memory_copy_ceiling: "copying (read + written)"}
    lines += [f"| {names[ceiling]} | {threads} | | | | {np.median(wall):.1f} | "
              f"{np.median(cpu):.1f} | | |" for (ceiling, threads), (wall, cpu) in ceilings.items()]
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
