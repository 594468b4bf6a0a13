"""Plans of all outputs of a model, and the model that results of their runs give."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import Ends, RunResult, sum_counters
from bitstep.quantization import QuantizedDataset, Scaler
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import Plan, plan
from bitstep.training.trained import TrainedModel, in_feature_units


def starts_of(outputs: Sequence[QuantizedDataset], initial: tuple[np.ndarray, Any] | None
              ) -> list[tuple[np.ndarray, float] | None]:
    """Weights for scaled features and intercept that each output starts from; None:
    :func:`bitstep.training.planning.start_of`.
    """
    if initial is None:
        return [None] * len(outputs)
    scaled = [data.scaler.scale_model(coef, intercept)
              for data, coef, intercept in zip(outputs, *initial, strict=True)]
    return [(weights, float(offset)) for weights, offset in scaled]


def plans_of(outputs: Sequence[QuantizedDataset], config: PipelineConfig, objective: Objective,
             training: Training) -> list[Plan]:
    """The plan of every output, from its first epoch on."""
    return [plan(data, config, objective, training, between_epochs=True) for data in outputs]


def collect_model(scaler: Scaler, plans: list[Plan], results: list[RunResult], interrupted: bool,
                  planes: Sequence[Sequence[int]]) -> TrainedModel:
    """The model of all outputs, after the epochs that every one has finished; ``planes`` are those
    of each output's epochs, 0 of rows without.
    """
    runs = list(zip(plans, results, strict=True))
    first = plans[0].job
    layout = BitPlaneLayout(first.n_features)
    epochs = min(result.epochs_done for result in results)
    weights = np.stack([made.units.weights(result.models)[:epochs] for made, result in runs],
                       axis=1)
    intercepts = np.stack([made.units.intercepts(result.intercepts)[:epochs]
                           for made, result in runs], axis=1)
    facts = {
        "planes": np.array([one[:epochs] for one in planes]).T.reshape(epochs, -1),
        "bytes_read": np.array([[layout.bytes_read(first.n_rows, taken) for taken in one[:epochs]]
                                for one in planes], np.int64).sum(axis=0)
    } if first.config.rows.planes else {}
    return in_feature_units(
        scaler, weights, intercepts, steps=plans[-1].steps[:epochs],
        counters=sum_counters([result.counters for result in results]),
        still=np.logical_and.reduce([_still(made.job, result)[:epochs] for made, result in runs]),
        step_error=max(made.step_error for made in plans),
        model_range=max(made.model_range for made in plans), interrupted=interrupted,
        ends=_ends(results, epochs), **facts)


def _ends(results, epochs):
    """Cycles to the end of each epoch, the sum over the runs; None where not known."""
    ends = [result.epoch_cycles for result in results]
    if any(run is None for run in ends):
        return None
    return Ends(lambda: [sum(one) for one in zip(*ends, strict=False)], epochs)


def _still(job, result):
    """Epochs that changed nothing, shape (epochs_done,)."""
    words = np.column_stack([np.vstack([job.model[None], result.models]),
                             np.append(job.intercept, result.intercepts)])
    return (np.diff(words, axis=0) == 0).all(axis=1)
