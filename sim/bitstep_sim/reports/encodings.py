"""Training losses of runs with step / epoch at every width, against least squares and float64 SGD.

``python -m bitstep_sim.reports.encodings`` prints a table of docs/results/encodings.md. The native
device trains: every device gives the same models.
"""

import argparse
import sys

import numpy as np

from bitstep.data import DataError, Dataset, load, split
from bitstep.devices import default_device, open_device
from bitstep.pipeline.parts.formats import MAX_CODEBOOK_BITS
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import RangeOverflowError
from bitstep.quantization import ENCODINGS, Scaler, fit_scaler, quantize
from bitstep.quantization.codebooks import check_levels
from bitstep.training.losses import accuracies, squared_losses
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep.training.train import class_outputs, class_targets, train_model
from bitstep.writing import text_table
from bitstep_lab.float_sgd import sgd

NAMES = ("cadata", "cpusmall", "diabetes", "breast_cancer", "digits", "synthetic-100")
EPOCHS = 20


def main() -> None:
    """Print one row for each data set and kind of figure, one column for each width."""
    parser = argparse.ArgumentParser(description="Losses of 20 epochs at every width, against "
                                     "least squares and float64 SGD with the same steps.")
    parser.add_argument("encoding", nargs="?", choices=sorted(ENCODINGS), default="compensated",
                        help="(%(default)s)")
    parser.add_argument("levels", nargs="?", choices=("uniform", "optimal"), default="uniform",
                        help="(%(default)s)")
    parser.add_argument("--sets", nargs="+", default=NAMES, metavar="NAME",
                        help=f"data sets ({' '.join(NAMES)})")
    arguments = parser.parse_args()
    encoding, levels = arguments.encoding, arguments.levels
    try:
        check_levels(levels, encoding, ENCODINGS[encoding].min_bits)
    except ValueError as error:
        parser.error(str(error))
    most = ENCODINGS[encoding].max_bits if levels == "uniform" else MAX_CODEBOOK_BITS
    widths = range(ENCODINGS[encoding].min_bits, most + 1)
    rows = []
    for name in arguments.sets:
        try:
            dataset = split(load(name))[0]
        except DataError as error:
            raise SystemExit(f"error: {error}") from None
        rows += _rows(dataset, encoding, levels, widths)
        print(f"{name} is done", file=sys.stderr)
    columns = [f"{bits} bit{'s' * (bits > 1)}" for bits in widths]
    print(text_table(["data set", "figure", "float64", *columns], rows))


def _rows(dataset: Dataset, encoding: str, levels: str, widths: range) -> list[list]:
    classification = dataset.task == "classification"
    classes = np.unique(dataset.labels) if classification else np.zeros(0)
    targets = class_targets(dataset.labels, classes)
    scaler = fit_scaler(dataset.features, "minmax")
    u = np.hstack([scaler.transform(dataset.features), np.ones((dataset.n_rows, 1))])
    optimum = float(np.mean((u @ np.linalg.lstsq(u, targets, rcond=None)[0] - targets) ** 2) / 2)
    losses, scores, steps = [], [], []
    for bits in widths:
        data = quantize(dataset.features, dataset.labels, bits=bits, encoding=encoding,
                        levels=levels)
        outputs = class_outputs(data.rows, dataset.labels, classes) if classification else [data]
        steps.append(schedule_steps("inverse", step=automatic_step(data.rows), epochs=EPOCHS))
        config = pipeline_of(data.rows, Objective())
        try:
            with open_device(default_device(), config) as device:
                model = train_model(outputs, device, config, Objective(),
                                    Training(steps=steps[-1]))
        except RangeOverflowError as error:
            losses.append(f"left range, epoch {error.epoch}")
            scores.append("-")
            continue
        last = model.coefs[-1:], model.intercepts[-1:]
        losses.append(float(squared_losses(dataset.features, targets, *last)[0]))
        if classification:
            share = float(accuracies(dataset.features, dataset.labels, classes, *last)[0])
            scores.append(f"{100 * share:.1f} %")
        else:
            scores.append(f"{1 - 2 * losses[-1] / np.var(dataset.labels):.4f}")
    reference = _float_losses(dataset, scaler, targets, np.array(steps))
    rows = [[dataset.name, "loss / least squares", optimum,
             *(_ratio(loss, optimum) for loss in losses)],
            ["", "loss / float SGD", "-",
             *(_ratio(loss, float(other)) for loss, other in zip(losses, reference, strict=True))]]
    return [*rows, ["", "accuracy" if classification else "R2", "-", *scores]]


def _ratio(loss, other: float) -> str:
    return loss if isinstance(loss, str) else f"{loss / other:.3f}"


def _float_losses(dataset: Dataset, scaler: Scaler, targets: np.ndarray,
                  steps: np.ndarray) -> np.ndarray:
    """Training loss of float64 SGD for each list of steps: same scaling, order and start."""
    rows = scaler.transform(dataset.features)
    offset = 0.0 if dataset.task == "classification" else (targets.min() + targets.max()) / 2
    weights, intercepts = sgd(rows, targets - offset, steps.T, loss=Loss.LEAST_SQUARES)
    return squared_losses(rows, targets - offset, weights[-1], intercepts[-1])


if __name__ == "__main__":
    main()
