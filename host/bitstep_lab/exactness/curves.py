"""Curves of the distance to the optimum by bytes of rows read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bitstep.devices import default_device, open_device
from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.losses import LOSSES
from bitstep.quantization import (
    BitPlaneRows,
    QuantizedDataset,
    QuantizedRows,
    quantize_bit_planes,
    quantize_labels,
    quantize_rows,
    sign_labels,
)
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.passes import BitCentred
from bitstep.training.centred.smooth import SmoothRun
from bitstep.training.choices import resolve_training
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import centred_step
from bitstep.training.train import train_model
from bitstep.training.trained import TrainedModel
from bitstep_lab.exactness import floats
from bitstep_lab.exactness.problems import Problem

MARKS = (1, 2, 5, 10, 20)           # float epochs whose bytes the table looks at
GOAL = 1e-4                         # distance to the optimum whose bytes are compared
FLOAT_EPOCHS = 60                   # of SGD; SVRG goes on
SVRG_EPOCHS = 120
FLOAT_BYTES = 4
BATCH_STEPS = 200                   # outer steps at most where batches are compared


@dataclass(frozen=True, eq=False)
class Curve:
    """Distance to the optimum after some amounts of bytes.

    Attributes
    ----------
    name : str
    epochs : ndarray of float64, shape (n_points,)
        Bytes of rows read, in float epochs: those of all values at 32 bits each.
    excess : ndarray of float64, shape (n_points,)
        (loss - optimum) / optimum, the mean over the outputs.
    choice : str
        What was chosen by its result; empty if nothing was.
    """

    name: str
    epochs: np.ndarray
    excess: np.ndarray
    choice: str = ""

    def at(self, epochs: float) -> float:
        """The last distance reached with the bytes of so many float epochs; NaN before the first
        point.
        """
        reached = np.flatnonzero(self.epochs <= epochs)
        return float(self.excess[reached[-1]]) if len(reached) else np.nan

    def goal(self, goal: float = GOAL) -> float:
        """Float epochs to a distance, infinite if it is not reached."""
        good = np.flatnonzero(self.excess <= goal)
        return float(self.epochs[good[0]]) if len(good) else np.inf


def curves(problem: Problem) -> Iterator[Curve]:
    """All curves of a problem, one after the other."""
    bit_planes = quantize_bit_planes(problem.features)
    outer = 30 if LOSSES[problem.loss].quadratic else 60
    for planes in (2, 3, 4):
        yield centred(problem, bit_planes, f"bit-centred, {planes} bits", [planes] * outer)
    yield centred(problem, bit_planes, "bit-centred, 2, 2, then 4 bits", [2, 2] + [4] * (outer - 2))
    yield schedule(problem, bit_planes)
    for bits in (4, 8) if LOSSES[problem.loss].quadratic else (8,):
        yield fixed(problem, bits)
    yield best_sgd(problem)
    yield best_svrg(problem)
    if not LOSSES[problem.loss].quadratic:
        yield best_saga(problem)


def labelled(problem: Problem, rows: QuantizedRows | BitPlaneRows) -> list[QuantizedDataset]:
    """Quantized rows with the labels of each output."""
    return [QuantizedDataset(rows, quantize_labels(column, rows.n_rows) if problem.regression
                             else sign_labels(column)) for column in problem.targets.T]


def _objective(problem: Problem) -> Objective:
    return Objective(loss=problem.loss, l2=problem.l2)


def batches(problem: Problem, sizes: Sequence[int]) -> Iterator[Curve]:
    """Bit-centred training by 4 bits whose inner passes have batches of so many rows."""
    rows = quantize_bit_planes(problem.features)
    for size in sizes:
        yield centred(problem, rows, f"batch {size}", [4] * BATCH_STEPS, batch=size)


def centred(problem: Problem, rows: BitPlaneRows, name: str, planes: Sequence[int], *,
            batch: int = 1) -> Curve:
    """Bit-centred training with default step, until far below the goal."""
    outputs, objective = labelled(problem, rows), _objective(problem)
    config = pipeline_of(rows, objective)
    kind = BitCentredRun if objective.rule.quadratic else SmoothRun
    found: list[list[np.ndarray]] = []
    read: list[list[int]] = []
    with open_device(default_device(), config) as device:
        for data in outputs:
            choice = BitCentred(planes=planes, tol=1e-9, batch=batch,
                                step=centred_step(rows, problem.loss, problem.l2))
            states = list(kind(data, device, config, objective, choice).steps())
            found.append([np.append(one.weights, one.intercept + data.label_offset)
                          for one in states])
            read.append([one.bytes_read for one in states])
    count = max(map(len, found))
    models = np.array([[one[min(point, len(one) - 1)] for one in found] for point in range(count)])
    bytes_read = np.array([[one[min(point, len(one) - 1)] for one in read]
                           for point in range(count)])
    return Curve(name, bytes_read.mean(axis=1) / _float_bytes(problem), problem.excess(models))


def schedule(problem: Problem, rows: BitPlaneRows) -> Curve:
    """SGD whose planes are chosen as it goes, with the automatic step."""
    outputs, objective = labelled(problem, rows), _objective(problem)
    training = resolve_training(rows, objective, epochs=FLOAT_EPOCHS, planes="auto")
    config = pipeline_of(rows, objective)
    with open_device(default_device(), config) as device:
        model = train_model(outputs, device, config, objective, training)
    assert model.planes is not None
    layout = BitPlaneLayout(rows.n_features)
    plane = layout.bytes_read(rows.n_rows, 1)
    return Curve("SGD, planes auto", plane * model.planes.cumsum(axis=0).mean(axis=1)
                 / _float_bytes(problem), problem.excess(models_of(model)))


def fixed(problem: Problem, bits: int) -> Curve:
    """SGD on codes of fixed bits, compensated or of the loss's default encoding, with the automatic
    step.
    """
    objective = _objective(problem)
    encoding = "compensated" if objective.rule.quadratic else "stochastic"
    rows = quantize_rows(problem.features, bits=bits, encoding=encoding)
    training = resolve_training(rows, objective, epochs=FLOAT_EPOCHS)
    config = pipeline_of(rows, objective)
    with open_device(default_device(), config) as device:
        model = train_model(labelled(problem, rows), device, config, objective, training)
    epoch = rows.stored[0].nbytes / _float_bytes(problem)
    return Curve(f"SGD, {bits} bits", epoch * np.arange(1, FLOAT_EPOCHS + 1),
                 problem.excess(models_of(model)))


def best_sgd(problem: Problem) -> Curve:
    """Float SGD, of all steps and schedules that with the least distance after 20 epochs."""
    found = []
    for step in _steps(problem):
        for decay in (False, True):
            models = floats.sgd(problem.design, problem.targets, step / step_unit(problem),
                                decay=decay, epochs=FLOAT_EPOCHS, loss=problem.loss,
                                l2=problem.l2)
            excess = problem.excess(models)
            found.append(Curve("float SGD", np.arange(1.0, FLOAT_EPOCHS + 1), excess,
                               f"step {step:g} / {_norm(problem)}{' / epoch' if decay else ''}"))
    return min(found, key=lambda curve: np.nan_to_num(curve.at(20), nan=np.inf))


def best_svrg(problem: Problem) -> Curve:
    """Float SVRG, of all steps and passes that which reaches the goal first."""
    found = []
    for step in _steps(problem):
        for inner in floats.INNER:
            models = floats.svrg(problem.design, problem.targets, step / step_unit(problem),
                                 inner=inner, epochs=SVRG_EPOCHS, loss=problem.loss,
                                 l2=problem.l2)
            found.append(Curve("float SVRG", (1.0 + inner) * np.arange(1, len(models) + 1),
                               problem.excess(models),
                               f"step {step:g} / {_norm(problem)}, {inner} inner passes"))
    return _first(found)


def best_saga(problem: Problem) -> Curve:
    """Float SAGA, of all steps that which reaches the goal first."""
    # The derivative of every row is read and written, too.
    epoch = 1 + 2 / problem.features.shape[1]
    return _first([Curve("float SAGA", epoch * np.arange(1, SVRG_EPOCHS + 1), problem.excess(
        floats.saga(problem.design, problem.targets, step / step_unit(problem), epochs=SVRG_EPOCHS,
                    loss=problem.loss, l2=problem.l2)), f"step {step:g} / {_norm(problem)}")
        for step in _steps(problem)])


def _first(found: list[Curve]) -> Curve:
    """The curve that reaches the goal first."""
    return min(found, key=lambda curve: (curve.goal(), np.nan_to_num(curve.at(20), nan=np.inf)))


def _steps(problem: Problem) -> tuple[float, ...]:
    return floats.STEPS if LOSSES[problem.loss].quadratic else floats.CLASS_STEPS


def _norm(problem: Problem) -> str:
    bend = LOSSES[problem.loss].curvature
    return "R" if bend == 1 else f"({bend:g} R)"


def models_of(model: TrainedModel) -> np.ndarray:
    """Weights of scaled features and intercept after every epoch."""
    return np.concatenate([model.weights, model.scaled_intercepts[..., None]], axis=2)


def step_unit(problem: Problem) -> float:
    """Curvature of the loss times the mean squared norm of a row."""
    return LOSSES[problem.loss].curvature * float((problem.design ** 2).sum(axis=1).mean())


def _float_bytes(problem: Problem) -> float:
    return FLOAT_BYTES * problem.features.size
