"""Speed of the native device, beside the golden model, float32 SGD and scikit-learn's SGD.

All train a linear regression on one thread, on the same rows, which are larger than the caches; an
epoch's time is the processor time of that thread. Methods take turns, and each figure is the median
of all epochs.

    python -m bitstep_sim.reports.native
"""

import argparse
import time
from collections import defaultdict
from functools import partial

import numpy as np

from bitstep.cli.options import integer
from bitstep.devices import open_device
from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.planning import plan
from bitstep_lab.baselines import train_cpu
from bitstep_lab.baselines.sklearn_sgd import train_sklearn

SHAPES = {8: 4_000_000, 90: 1_000_000, 1000: 100_000}       # rows for each number of features
GOLDEN_ROWS = 2000
STEP = 1e-4
TURNS, EPOCHS = 3, 3


def epoch_seconds(device: str, data, epochs: int) -> list[float]:
    """Processor time of each epoch of a job on a device."""
    config = pipeline_of(data.rows, Objective())
    job = plan(data, config, Objective(), Training(steps=np.full(epochs, STEP))).job
    with open_device(device, config) as opened:
        ends = []
        opened.train(job, timeout_s=3600, on_epoch=lambda done: ends.append(time.thread_time()))
    # The first epoch also has the checks and the compiling before it.
    return np.diff(ends).tolist()


def rates(n_features: int, n_rows: int, widths: list[int]) -> dict[str, float]:
    """Rows a second of every method, for rows of a number of features."""
    rng = np.random.default_rng(n_features)
    features = rng.uniform(-1, 1, (n_rows, n_features)).astype(np.float32)
    targets = (features @ rng.standard_normal(n_features)).astype(np.float32)
    data = {bits: quantize(features, targets, bits=bits) for bits in widths}
    some = quantize(features[:GOLDEN_ROWS], targets[:GOLDEN_ROWS], bits=4)
    seconds = defaultdict(list)
    for _ in range(TURNS):
        for bits, rows in data.items():
            seconds[f"cpu, {bits} bit{'s' * (bits > 1)}"] += epoch_seconds("cpu", rows, EPOCHS + 1)
        for name, train in (("float32 SGD", partial(train_cpu, method="sgd")),
                            ("scikit-learn", train_sklearn)):
            run = train(features, targets, loss=Loss.LEAST_SQUARES, steps=[STEP] * EPOCHS)
            seconds[name] += run.cpu_seconds.tolist()
    golden = epoch_seconds("golden", some, 3)
    return {name: n_rows / float(np.median(times)) for name, times in seconds.items()} \
        | {"golden, 4 bits": GOLDEN_ROWS / float(np.median(golden))}


def main() -> None:
    """Print a Markdown table of millions of rows a second, and their ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n    ")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, nargs="+", choices=range(1, 9), default=[1, 4, 8],
                        metavar="B", help="widths (default: 1 4 8)")
    parser.add_argument("--shrink", type=integer(1, min(SHAPES.values())), default=1, metavar="N",
                        help="divide the rows, for a look (default: 1)")
    options = parser.parse_args()
    print("| features | rows | method | million rows a second | / float32 SGD | / scikit-learn "
          "| / golden |\n" + "| --- " * 7 + "|")
    for n_features, n_rows in SHAPES.items():
        n_rows //= options.shrink
        found = rates(n_features, n_rows, options.bits)
        for name, rate in found.items():
            ratios = (rate / found[base] for base in
                      ("float32 SGD", "scikit-learn", "golden, 4 bits"))
            print(f"| {n_features:,} | {n_rows:,} | {name} | {rate / 1e6:.3g} | "
                  + " | ".join(f"{ratio:.3g}" for ratio in ratios) + " |", flush=True)


if __name__ == "__main__":
    main()
