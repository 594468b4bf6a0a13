"""``python -m bitstep_lab.exactness.inner_rows``: how many rows the inner passes of bit-centred
training need, by the outer steps that it takes to reach ``tol`` (docs/results/exactness.md).
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bitstep.devices import open_device
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep.quantization import (
    BitPlaneRows,
    QuantizedDataset,
    quantize_bit_planes,
    quantize_labels,
    sign_labels,
)
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.passes import BitCentred
from bitstep.training.centred.smooth import SmoothRun
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import centred_step

ROWS = 500_000
COUNTS = (0, 1 << 17, 1 << 16, 1 << 14)     # rows of inner passes; 0: all
TOL = 1e-4
MOST = 100                                  # outer steps
PLANES = 4
LOSS_LIST = (Loss.LEAST_SQUARES, Loss.LOGISTIC, Loss.SQUARED_HINGE)

Draw = Callable[[np.random.Generator, int], np.ndarray]


def _gaussian(width: int) -> Draw:
    return lambda rng, count: rng.standard_normal((count, width), np.float32)


def _correlated(rng: np.random.Generator, count: int) -> np.ndarray:
    """30 columns, each two of which have a correlation of .9."""
    common = rng.standard_normal((count, 1), np.float32)
    return np.sqrt(np.float32(0.9)) * common \
        + np.sqrt(np.float32(0.1)) * rng.standard_normal((count, 30), np.float32)


def _heavy_tails(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.exp(rng.standard_normal((count, 40), np.float32))


def _one_hot(rng: np.random.Generator, count: int) -> np.ndarray:
    """60 values of unequal frequency, and 4 Gaussian columns."""
    shares = 1 / (1 + np.arange(60)) ** 1.5
    codes = rng.choice(60, count, p=shares / shares.sum())
    return np.hstack([codes[:, None] == np.arange(60),
                      rng.standard_normal((count, 4))]).astype(np.float32)


def _powers(rng: np.random.Generator, count: int) -> np.ndarray:
    """6 columns, their squares and their cubes."""
    first = rng.standard_normal((count, 6), np.float32)
    return np.hstack([first, first ** 2, first ** 3])


# The number of rows was chosen on the first three; the others confirm it.
SETS: dict[str, Draw] = {
    "gaussian-10": _gaussian(10), "gaussian-100": _gaussian(100), "correlated-30": _correlated,
    "heavy-tails-40": _heavy_tails, "one-hot-64": _one_hot, "powers-18": _powers}


def drawn(name: str, count: int, loss: Loss, seed: int = 0) -> QuantizedDataset:
    """Rows of a set of :data:`SETS` with the labels of a linear or a logistic model."""
    rng = np.random.default_rng([seed, list(SETS).index(name)])
    features = SETS[name](rng, count)
    spread = features.std(axis=0)
    outputs = features @ (rng.standard_normal(features.shape[1])
                          / np.where(spread > 0, spread, 1) / np.sqrt(features.shape[1]))
    outputs -= outputs.mean()
    rows = quantize_bit_planes(features, seed=seed)
    if LOSSES[loss].signs:
        return QuantizedDataset(rows, sign_labels(np.where(
            2 * outputs + rng.logistic(size=count) > 0, 1.0, -1.0)))
    return QuantizedDataset(rows, quantize_labels(outputs + rng.standard_normal(count), count))


def outer_steps(data: QuantizedDataset, loss: Loss, counts: Sequence[int]
                ) -> Iterator[tuple[int, float]]:
    """Outer steps to ``tol``, and seconds, with so many rows in the first inner passes each.

    Parameters
    ----------
    data : QuantizedDataset
    loss : Loss
    counts : sequence of int
        0: all rows.
    """
    assert isinstance(data.rows, BitPlaneRows)
    objective = Objective(loss=loss, l2=1 / data.n_rows)
    config = pipeline_of(data.rows, objective)
    step = centred_step(data.rows, loss, float(objective.penalties(data.rows, True).max()))
    kind = BitCentredRun if objective.rule.quadratic else SmoothRun
    for count in counts:
        choice = BitCentred(planes=[PLANES] * MOST, tol=TOL, step=step,
                            inner_rows=count or data.n_rows)
        started = time.perf_counter()
        with open_device("cpu", config) as device:
            found = list(kind(data, device, config, objective, choice).steps())
        yield len(found), time.perf_counter() - started


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.exactness.inner_rows",
                                     description="Outer steps of bit-centred training to a gradient"
                                     f" of {TOL:g} of the first, and seconds, by the rows of its "
                                     "inner passes.")
    parser.add_argument("--rows", type=int, default=ROWS, help="of a set, default %(default)s")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET",
                        help=f"of {', '.join(SETS)} (default: all)")
    options = parser.parse_args()
    if options.rows < 1000:
        parser.error(f"--rows must be at least 1000, not {options.rows}")
    titles = [f"{count:,} rows" if count else "all rows" for count in COUNTS]
    print(f"| set | loss | {' | '.join(titles)} |")
    print("| --- |" + " --- |" * (len(titles) + 1))
    for name in options.sets:
        for loss in LOSS_LIST:
            data = drawn(name, options.rows, loss)
            next(outer_steps(data, loss, COUNTS))       # which loads compiled loops
            cells = [f"{steps}, {seconds:.2f} s" for steps, seconds in
                     outer_steps(data, loss, COUNTS)]
            print(f"| {name} | {LOSSES[loss].name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
