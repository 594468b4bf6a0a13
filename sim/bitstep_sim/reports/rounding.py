"""Training losses of default runs against float64 SGD over the same codes, with updates rounded by
their dither and, for comparison, to nearest.

``python -m bitstep_sim.reports.rounding [--features 256 4096] [--bits 8 4 1] [--batch 1 16 64 256]
[--model-range R]`` prints the tables of docs/results/rounding.md. The golden model trains: every
device gives the same models.
"""

import argparse
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from bitstep.devices.golden import GoldenDevice
from bitstep.options.models import MODELS
from bitstep.options.table import OPTIONS
from bitstep.quantization import QuantizedDataset, quantize
from bitstep.training.losses import mean_losses
from bitstep.training.objective import Objective, Training, loss_of
from bitstep.training.pipelines import pipeline_for
from bitstep.training.planning import plan, start_of
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep.writing import text_table
from bitstep_lab.float_sgd import sgd

N_ROWS = 1296
EPOCHS = 20
WIDTHS = (8, 4, 1)
BATCHES = (1, 16, 64, 256)
SIDES = {64: 8, 256: 16, 1024: 32, 4096: 64}
# A dither with which updates are rounded to nearest, ties up, but for 2^-17 of the last bit.
NEAREST = 0x8000
HINGE_RUNS = 5              # of which the table has the mean for the hinge loss


def images(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """The first 1,296 of scikit-learn's digits, drawn with more pixels.

    Parameters
    ----------
    n_features : {64, 256, 1024, 4096}

    Returns
    -------
    features : ndarray of float64, shape (1296, n_features)
    digits : ndarray of int64, shape (1296,)
    """
    from sklearn.datasets import load_digits
    bundle: Any = load_digits()
    side = SIDES[n_features]
    places = np.linspace(0, 7, side)
    # Linear interpolation between the 8 pixels of a line.
    weights = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(8)))
    pictures = weights @ bundle.images[:N_ROWS] @ weights.T
    return pictures.reshape(N_ROWS, -1), bundle.target[:N_ROWS]


def quantized(features: np.ndarray, digits: np.ndarray, *, model: str,
              bits: int) -> QuantizedDataset:
    """Quantize images to ``nearest`` codes; a classifier tells even digits from odd ones.

    Parameters
    ----------
    features : ndarray of float, shape (n_rows, n_features)
    digits : ndarray of int, shape (n_rows,)
    model : str
        A name of :data:`bitstep.options.models.MODELS`.
    bits : int
    """
    if MODELS[model].task == "regression":
        return quantize(features, digits.astype(float), bits=bits, encoding="nearest")
    return quantize(features, digits % 2, bits=bits, encoding="nearest", task="classification")


def ratios(data: QuantizedDataset, *, model: str, batch: int, epochs: int = EPOCHS,
           nearest: bool = False, model_range: float | None = None,
           runs: int = 1, share: float = 1.0) -> tuple[float, float]:
    """Final loss over the codes: that of float64 SGD, and the golden model's as its multiple.

    Parameters
    ----------
    data : QuantizedDataset
    model : str
        A name of :data:`bitstep.options.models.MODELS`.
    batch, epochs : int
    nearest : bool
        Round updates to nearest instead of by their dither.
    model_range : float or None
        See :func:`bitstep.training.planning.plan`.
    runs : int
        Runs with different seeds, against as many float64 runs whose steps differ by 0.1 %; the
        means are compared. The last model of SGD on the hinge loss depends that much on its steps.
    share : float
        First step, as a share of the automatic one: the shorter updates are, the more of them
        rounding cuts off.
    """
    loss = MODELS[model].loss
    config = pipeline_for(n_features=data.n_features, bits=data.bits, encoding=data.encoding,
                          loss=loss)
    steps = schedule_steps("inverse", step=share * automatic_step(data.rows, batch, loss=loss),
                           epochs=epochs)
    rows, _ = data.rows.levels(np.arange(data.n_rows))
    labels = data.stored_labels()
    targets = data.label_scale * labels[:, None].astype(float)
    changes = 1 + 1e-3 * (np.arange(runs) - runs // 2)
    objective = Objective(loss=loss)
    rule = loss_of(objective, [data])
    start = start_of(data, objective, Training(steps=steps))
    middle = 0.0 if start is None else start[1] - data.label_offset
    weights, intercepts = sgd(rows, targets - middle, np.outer(steps, changes), loss=rule,
                              batch=batch)
    exact = mean_losses(rule, rows, targets, weights[-1], intercepts[-1] + middle).mean()
    constant = mock.patch("bitstep.golden.sgd.dithers",
                          lambda key, n_rows: np.full(n_rows, NEAREST))
    trained = []
    for seed in range(runs):
        drawn = replace(data, rows=replace(data.rows, seed=seed))
        made = plan(drawn, config, objective,
                    Training(steps=steps, batch=batch, model_range=model_range))
        with constant if nearest else nullcontext():
            result = GoldenDevice(config).train(made.job)
        trained.append(mean_losses(rule, rows, targets,
                                   made.units.weights(result.models[-1])[None, None],
                                   made.units.weights(result.intercepts[-1:])[None])[0])
    return float(exact), float(np.mean(trained) / exact)


def main() -> None:
    """Print one row for each number of features, model and width, one column for each batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, nargs="+", choices=SIDES, default=[256, 4096])
    parser.add_argument("--bits", type=int, nargs="+", choices=range(1, 9), default=WIDTHS)
    parser.add_argument("--batch", type=OPTIONS["batch"].kind, nargs="+", default=BATCHES)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=tuple(MODELS))
    parser.add_argument("--model-range", type=OPTIONS["model_range"].kind,
                        help="default: automatic")
    arguments = parser.parse_args()
    rows = []
    for n_features in arguments.features:
        features, digits = images(n_features)
        for model in arguments.model:
            for bits in arguments.bits:
                data = quantized(features, digits, model=model, bits=bits)
                cells = []
                for batch in arguments.batch:
                    options = {"model": model, "batch": batch,
                               "model_range": arguments.model_range,
                               "runs": HINGE_RUNS if model == "svm" else 1}
                    _, dithered = ratios(data, **options)
                    _, nearest = ratios(data, nearest=True, **options)
                    cells.append(f"{dithered:.4f} ({nearest:.4f})")
                rows.append([n_features, model, bits, *cells])
                print(*rows[-1], file=sys.stderr)
    batches = (f"batch {batch}" for batch in arguments.batch)
    print(text_table(["features", "model", "bits", *batches], rows))


if __name__ == "__main__":
    main()
