"""Times and bandwidths of all baselines on this machine.

Methods take turns, several times over, so that what else runs on the machine meets all of them
alike; each figure is the median of all epochs. CPU time is that of the busiest thread, which is
what an epoch takes on a machine that does nothing else.
"""

import sys
from collections.abc import Sequence

import numpy as np

from bitstep.pipeline.registers import Loss
from bitstep.quantization import encode
from bitstep_lab.baselines.cpu import train_cpu
from bitstep_lab.baselines.memory import memory_copy_ceiling, memory_read_ceiling
from bitstep_lab.baselines.runs import CpuResult
from bitstep_lab.baselines.sklearn_sgd import train_sklearn

COLUMNS = ("method", "threads", "batch", "ms/epoch", "CPU ms/epoch", "GB/s", "GB/CPU s",
           "of reading", "CPU time / sgd")
CEILINGS = {"reading": memory_read_ceiling, "copying (read + written)": memory_copy_ceiling}
STEP = 1e-3
ENCODED_ROWS = 10_000       # at a time: encoding needs float64


def measure(n_rows: int, n_features: int, *, loss: Loss, batches: Sequence[int], threads: int,
            epochs: int, turns: int) -> str:
    """Train random data by every method and return the figures as a Markdown table.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the data.
    loss : Loss
    batches : sequence of int
        Rows of the batches beside batches of one row.
    threads : int
        Largest number of threads.
    epochs, turns : int
        Epochs of a turn, and turns of every method.

    Raises
    ------
    ImportError
        If numba or threadpoolctl is missing.
    """
    features, targets, codes = _data(n_rows, n_features, loss)
    runs = {method: [] for method in _methods(batches, threads)}
    ceilings = {(name, count): ([], []) for name in CEILINGS for count in range(1, threads + 1)}
    for _ in range(turns):
        for (method, count, batch), finished in runs.items():
            if method == "sklearn":
                run = train_sklearn(features, targets, loss=loss, steps=[STEP] * epochs)
            else:
                run = train_cpu(codes if method == "lowprec" else features, targets, method=method,
                                threads=count, batch=batch, loss=loss, steps=[STEP] * epochs)
            finished.append(run)
        for (name, count), speeds in ceilings.items():
            for cpu_time in (False, True):
                speeds[cpu_time].append(CEILINGS[name](features.nbytes, threads=count,
                                                       cpu_time=cpu_time))
    lines = [f"**{n_rows} x {n_features}**, {features.nbytes / 1e6:.1f} MB in float32", "",
             "| " + " | ".join(COLUMNS) + " |", "| --- " * len(COLUMNS) + "|"]
    return "\n".join([*lines, *_run_lines(runs, ceilings), *_ceiling_lines(ceilings)])


def _data(n_rows, n_features, loss):
    """Random features and targets in float32, and the features' codes of 8 bits."""
    rng = np.random.default_rng(0)
    features = rng.random((n_rows, n_features), np.float32)
    features *= 2
    features -= 1
    targets = features @ rng.standard_normal(n_features, np.float32)
    if loss != Loss.LEAST_SQUARES:
        targets = np.where(targets > 0, 1, -1).astype(np.float32)
    codes = np.concatenate([encode(features[start:start + ENCODED_ROWS], bits=8,
                                   encoding="nearest")
                            for start in range(0, n_rows, ENCODED_ROWS)])
    return features, targets, codes


def _methods(batches, threads):
    """(method, threads, batch) of every line; the others are compared with the first."""
    counts, batches = range(1, threads + 1), [1, *batches]
    methods = [("sgd", 1, batch) for batch in batches]
    methods += [("hogwild", count, batch) for count in counts[1:] for batch in batches]
    methods += [("minibatch", count, batch) for count in counts for batch in batches[1:]]
    methods += [("lowprec", count, batch) for count in counts for batch in batches]
    try:
        import sklearn  # noqa: F401 (whether it is there)
    except ImportError:
        print("scikit-learn is not installed and left out", file=sys.stderr)
        return methods
    return [*methods, ("sklearn", 1, 1)]


def _run_lines(runs: dict[tuple[str, int, int], list[CpuResult]], ceilings):
    """A row of the table for each method."""
    lines, baseline = [], None
    for (method, threads, batch), turns in runs.items():
        wall = np.median(np.concatenate([run.seconds for run in turns]))
        cpu = np.median(np.concatenate([run.cpu_seconds for run in turns]))
        n_bytes, baseline = turns[0].bytes_per_epoch, baseline or cpu
        share = n_bytes / cpu / 1e9 / np.median(ceilings["reading", threads][True])
        lines.append(f"| {method} | {threads} | {batch} | {wall * 1e3:.3g} | {cpu * 1e3:.3g} | "
                     f"{n_bytes / wall / 1e9:.1f} | {n_bytes / cpu / 1e9:.1f} | {share:.0%} | "
                     f"{cpu / baseline:.2f} |")
    return lines


def _ceiling_lines(ceilings):
    """A row of the table for each ceiling and number of threads."""
    return [f"| {name} | {threads} | | | | {np.median(wall):.1f} | {np.median(cpu):.1f} | | |"
            for (name, threads), (wall, cpu) in ceilings.items()]
