"""Report: models that share passes on device ``cpu``, beside one pass each and float32 SGD.

    python -m bitstep_sim.reports.models [CASE ...]

All times are processor times of one thread, the least of some turns: what else runs on the machine
is not in them. A turn trains all models together, then each by itself; the models are compared, bit
for bit. Float32 SGD (:mod:`bitstep_lab.baselines`) takes the same steps on the features, one model
after the other, until the mean loss of the models is within 1 % of that of the codes.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset, quantize, quantize_rows
from bitstep.training.losses import squared_losses
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.planning import Plan
from bitstep.training.plans import plans_of
from bitstep.training.schedules import automatic_step
from bitstep.training.train import class_outputs
from bitstep.writing import text_table
from bitstep_lab.baselines import train_cpu
from bitstep_lab.markdown import add_choice

EPOCHS, TURNS = 10, 3
CLOSE = 1.01            # loss that counts as equal
HEAD = ("data", "models", "rows", "batch", "together ms", "one each ms", "ratio", "sgd ms",
        "sgd epochs", "one each / sgd", "together / sgd")


@dataclass(frozen=True)
class Case:
    """Models on the same rows.

    Attributes
    ----------
    name, rows : str
        Data, and their bits and encoding.
    batch : int
    features : ndarray of float64, shape (n_rows, n_features)
        Scaled.
    targets : ndarray of float64, shape (n_rows, n_models)
    plans : list of Plan
    steps : list of ndarray
        Steps of every model.
    """

    name: str
    rows: str
    batch: int
    features: np.ndarray
    targets: np.ndarray
    plans: list[Plan]
    steps: list[np.ndarray]


def classes(bits: int, encoding: str, batch: int) -> Case:
    """Ten classes of MNIST's shape: prototypes with noise, a fifth of the features differing."""
    rng, shape = np.random.default_rng(0), (10_000, 784)
    prototypes = rng.normal(size=(10, shape[1])) * (rng.random((10, shape[1])) < 0.2)
    labels = rng.integers(0, 10, shape[0])
    features = np.clip(prototypes[labels] + rng.normal(size=shape), 0, 2)
    rows = quantize_rows(features, bits=bits, encoding=encoding, bus_width=512, seed=1)
    steps = automatic_step(rows, batch, True) / np.arange(1, EPOCHS + 1)
    config = pipeline_of(rows, Objective())
    plans = plans_of(class_outputs(rows, labels, np.arange(10)), config, Objective(),
                     Training(steps=steps, batch=batch))
    targets = np.where(labels[:, None] == np.arange(10), 1.0, -1.0)
    return Case(f"10 classes, {shape[0]:,} x {shape[1]}", f"{bits} {encoding}", batch,
                rows.scaler.transform(features), targets, plans, [steps] * 10)


def sweep(bits: int, encoding: str, batch: int) -> Case:
    """Eight steps on a regression of cadata's shape."""
    rng, shape = np.random.default_rng(0), (16_512, 8)
    features = rng.uniform(-1, 1, shape)
    labels = features @ rng.normal(size=shape[1]) + 0.3 * rng.normal(size=shape[0])
    data: QuantizedDataset = quantize(features, labels, bits=bits, encoding=encoding,
                                      bus_width=512, seed=1)
    first = automatic_step(data.rows, batch, True) / np.arange(1, EPOCHS + 1)
    steps = [first / 2 ** number for number in range(8)]
    config = pipeline_of(data.rows, Objective())
    plans = [plan for part in steps
             for plan in plans_of([data], config, Objective(), Training(steps=part, batch=batch))]
    return Case(f"8 steps, {shape[0]:,} x {shape[1]}", f"{bits} {encoding}", batch,
                data.scaler.transform(features), np.tile(labels[:, None], 8), plans, steps)


def row(case: Case) -> tuple:
    """Figures of a case."""
    jobs = [made.job for made in case.plans]
    device = CpuDevice(jobs[0].config)
    device.train_models(jobs)           # compiles, or loads, the kernels
    device.train(jobs[0])
    together, alone = np.inf, np.inf
    for _ in range(TURNS):
        seconds, found = _timed(lambda: device.train_models(jobs))
        together = min(together, seconds)
        seconds, expected = _timed(lambda: [device.train(job) for job in jobs])
        alone = min(alone, seconds)
        assert all(np.array_equal(own.models, other.models)
                   for own, other in zip(found, expected, strict=True))
    goal = float(np.mean([_loss(case, number, made.units.weights(one.models)[-1:],
                                made.units.intercepts(one.intercepts)[-1:])[0]
                          for number, (made, one) in enumerate(
                              zip(case.plans, expected, strict=True))]))
    sgd, epochs = _float_sgd(case, goal)
    return (case.name, len(jobs), case.rows, case.batch, f"{1e3 * together:.1f}",
            f"{1e3 * alone:.1f}", f"{alone / together:.2f}", f"{1e3 * sgd:.1f}", epochs,
            f"{alone / sgd:.2f}", f"{together / sgd:.2f}")


def _timed(work: Callable[[], list]) -> tuple[float, list]:
    began = time.thread_time()
    found = work()
    return time.thread_time() - began, found


def _float_sgd(case: Case, goal: float) -> tuple[float, int]:
    """Processor seconds and epochs in which float32 SGD reaches a loss; all epochs if it does
    not.
    """
    features, turns = case.features.astype(np.float32), []
    for _ in range(TURNS):
        turns.append([train_cpu(
            features, case.targets[:, number].astype(np.float32), batch=case.batch,
            method="sgd" if case.batch == 1 else "minibatch", loss=Loss.LEAST_SQUARES,
            steps=steps.tolist()) for number, steps in enumerate(case.steps)])
    losses = np.mean([_loss(case, number, run.weights, run.intercepts)
                      for number, run in enumerate(turns[0])], axis=0)
    close = losses <= CLOSE * goal
    epochs = int(np.argmax(close)) + 1 if close.any() else EPOCHS
    return min(sum(float(run.cpu_seconds[:epochs].sum()) for run in turn)
               for turn in turns), epochs


def _loss(case, number, weights, intercepts):
    """Loss of one model after every epoch."""
    return squared_losses(case.features, case.targets[:, number:number + 1], weights[:, None],
                          intercepts[:, None])


CASES: dict[str, Callable[[], Case]] = {
    "classes-4": lambda: classes(4, "compensated", 1),
    "classes-1": lambda: classes(1, "stochastic", 1),
    "sweep-1": lambda: sweep(4, "compensated", 1),
    "classes-8": lambda: classes(8, "stochastic", 1),
    "sweep-16": lambda: sweep(4, "compensated", 16),
    "classes-4-64": lambda: classes(4, "compensated", 64),
}


def main() -> int:
    """Print the table, or the rows of some cases."""
    parser = argparse.ArgumentParser(description="Processor time of models that share passes on "
                                     "device cpu, beside one pass each and float32 SGD.")
    add_choice(parser, "cases", CASES)
    print(text_table(HEAD, [row(CASES[name]()) for name in parser.parse_args().cases]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
