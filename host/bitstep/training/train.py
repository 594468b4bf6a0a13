"""Training of whole models: one job for each output, results in the units of the features.

The command line and the estimators both train through :func:`train_model`; it needs NumPy alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.results import (
    RunResult,
)
from bitstep.quantization import (
    LabelStream,
    QuantizedDataset,
    QuantizedRows,
    Scaler,
    WovenRows,
    sign_labels,
)
from bitstep.training.centred import train_centred
from bitstep.training.checkpoint_writer import CheckpointWriter
from bitstep.training.counters import sum_counters
from bitstep.training.epochs import runner_of
from bitstep.training.objective import Objective, Training
from bitstep.training.output_runs import OutputRun, run_in_turn, run_together
from bitstep.training.planning import Plan, plan
from bitstep.training.precision import LADDER, PrecisionRunner
from bitstep.training.trained import TrainedModel, in_feature_units

MAX_STEP_ERROR = 0.01       # a larger one can be that of updates that all vanish


def train_model(outputs: Sequence[QuantizedDataset], device: Device, config: PipelineConfig,
                objective: Objective, training: Training, *,
                initial: tuple[np.ndarray, Any] | None = None, first_epoch: int = 0,
                timeout_s: float = 60.0, on_epoch: Callable[[int], None] | None = None,
                checkpoint: CheckpointWriter | None = None) -> TrainedModel:
    """Train one linear model for each output.

    Parameters
    ----------
    outputs : sequence of QuantizedDataset
        The same rows, with the labels of each output (one-vs-rest: of each class).
    device : Device
        Its pipeline must be able to run jobs of ``config``.
    config, objective, training, first_epoch
        See :func:`bitstep.training.planning.plan`.
    initial : (ndarray of shape (n_outputs, n_features), ndarray of shape (n_outputs,)) or None
        Model to start from, in the units of the features.
    timeout_s, on_epoch
        See :meth:`bitstep.pipeline.device.Device.train`; epochs are summed over the outputs.
    checkpoint : CheckpointWriter or None
        Keeps every epoch in a file; those that it holds already are not trained again, and are
        part of the result. ``first_epoch`` must be 0.

    Returns
    -------
    TrainedModel
        On Ctrl-C the epochs that every output has finished, with ``interrupted`` set. Outputs are
        trained ``device.workers`` at a time, with a checkpoint one after the other.

    Raises
    ------
    TrainingInterrupted
        On Ctrl-C before every output has finished an epoch, with the result of the one in training.
    DeviceError
        See :meth:`bitstep.pipeline.device.Device.train`; a saturation names one of several outputs.
    ValueError
        See :func:`bitstep.training.planning.plan`.
    """
    starts = [None if initial is None else _scaled(data, initial[0][number], initial[1][number])
              for number, data in enumerate(outputs)]
    if training.solver == "bit-centred" or training.planes == "auto":
        _check_whole(training, first_epoch, checkpoint)
    if training.solver == "bit-centred":
        return train_centred(outputs, device, config, objective, training, starts=starts,
                             first_epoch=first_epoch, timeout_s=timeout_s, on_epoch=on_epoch)
    ladder = {planes: replace(training, planes=(planes,) * len(training.steps))
              for planes in LADDER} if training.planes == "auto" else {0: training}
    made_for = [{planes: plan(data, config, objective, one, first_epoch=first_epoch,
                              between_epochs=True, initial=start)
                 for planes, one in ladder.items()}
                for data, start in zip(outputs, starts, strict=True)]
    plans = [next(iter(one.values())) for one in made_for]
    runners = [runner_of(device, made) for made in plans]
    if training.planes == "auto":
        runners = [PrecisionRunner(runner, {bits: made.job.epochs for bits, made in one.items()})
                   for runner, one in zip(runners, made_for, strict=True)]
    runs = [_run(runner, made, number, timeout_s, checkpoint)
            for number, (runner, made) in enumerate(zip(runners, plans, strict=True))]
    if checkpoint is None and device.workers > 1 and len(runs) > 1:
        results, interrupted = run_together(device, runs, on_epoch)
    else:
        results, interrupted = run_in_turn(runs, on_epoch, len(training.steps) - first_epoch)
    model = _collect(outputs[0].scaler, plans, results, interrupted)
    if training.planes is None:
        return model
    taken = [runner.planes if isinstance(runner, PrecisionRunner)
             else training.planes[first_epoch:] for runner in runners]
    epochs = model.epochs_done
    return replace(model, planes=np.array([one[:epochs] for one in taken]).T.reshape(epochs, -1))


def _check_whole(training, first_epoch, checkpoint):
    """Raise ValueError for a training that is not one run from its first epoch to its last."""
    if checkpoint is not None or (first_epoch and training.planes == "auto"):
        raise ValueError("Solver 'bit-centred' and planes 'auto' need a training that runs at one "
                         "go, since they depend on epochs before; give no checkpoint, and a list "
                         "of planes to a training that goes on")


def _run(runner, made, number, timeout_s, checkpoint) -> OutputRun:
    """The run of an output's plan, kept in the checkpoint if there is one."""
    if checkpoint is None:
        return partial(runner.train, made.job, timeout_s=timeout_s)
    return partial(checkpoint.train, runner, number, made.job, timeout_s=timeout_s)


def _scaled(data, coef, intercept):
    weights, offset = data.scaler.scale_model(coef, intercept)
    return weights, float(offset)


def _collect(scaler: Scaler, plans: list[Plan], results: list[RunResult],
             interrupted: bool) -> TrainedModel:
    """The model of all outputs, after the epochs that every one has finished."""
    runs = list(zip(plans, results, strict=True))
    epochs = min(result.epochs_done for result in results)
    weights = np.stack([made.units.weights(result.models)[:epochs] for made, result in runs],
                       axis=1)
    intercepts = np.stack([made.units.intercepts(result.intercepts)[:epochs]
                           for made, result in runs], axis=1)
    return in_feature_units(
        scaler, weights, intercepts, steps=plans[-1].steps[:epochs],
        counters=sum_counters([result.counters for result in results]),
        still=np.logical_and.reduce([_still(made.job, result)[:epochs] for made, result in runs]),
        step_error=max(made.step_error for made in plans),
        model_range=max(made.model_range for made in plans), interrupted=interrupted,
        epoch_cycles=_epoch_cycles(results, epochs))


def _epoch_cycles(results, epochs):
    """Cycles to the end of each epoch, the sum over the runs; None where not known."""
    ends = [result.epoch_cycles for result in results]
    if any(run is None for run in ends):
        return None
    return np.array([run[:epochs] for run in ends], np.int64).sum(axis=0)


def lost_updates(model: TrainedModel, losses: np.ndarray) -> str | None:
    """A sentence that says in which epochs every update vanished; None if there are none.

    Parameters
    ----------
    model : TrainedModel
    losses : array of float, shape (epochs_done,)
        Training loss of every epoch.
    """
    losses = np.asarray(losses)
    idle = model.still & (losses > 1e-9 * losses.max(initial=0.0))
    if model.step_error < MAX_STEP_ERROR or not idle.any():
        return None
    first = int(np.argmax(idle)) + 1
    return (f"the model did not change in {int(idle.sum())} of {model.epochs_done} epochs (epoch "
            f"{first} is the first): its updates are below 2**-17 of the last bit of a model "
            "word; choose a larger step, a smaller batch or a smaller model range")


def class_targets(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Targets of every output: of classes +1 and -1.

    Parameters
    ----------
    labels : ndarray, shape (n_rows,)
        Elements of ``classes``; of a regression any numbers.
    classes : ndarray, shape (n_classes,)
        Empty for a regression, whose labels are the targets of its output.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        One output for two classes (+1 is ``classes[1]``), one for each class if there are more.
    """
    if not len(classes):
        return labels[:, None]
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(labels[:, None] == positive, 1.0, -1.0)


def class_outputs(rows: QuantizedRows | WovenRows, labels: np.ndarray,
                  classes: np.ndarray) -> list[QuantizedDataset]:
    """The data sets of every output: the same packed rows, each with its own targets.

    Parameters
    ----------
    rows : QuantizedRows or WovenRows
    labels, classes
        See :func:`class_targets`.
    """
    return target_outputs(rows, class_targets(labels, classes))


def target_outputs(rows: QuantizedRows | WovenRows, targets: np.ndarray) -> list[QuantizedDataset]:
    """:func:`class_outputs`, from the targets of :func:`class_targets`."""
    return [QuantizedDataset(rows, sign_labels(signs)) for signs in targets.T]


def stored_outputs(data: QuantizedDataset) -> list[QuantizedDataset]:
    """:func:`class_outputs`, from stored labels: bits of signs, with no label unpacked for long.

    Parameters
    ----------
    data : QuantizedDataset
        A classification.
    """
    count = len(data.classes) if data.classes is not None else 0
    if count == 2:
        streams = [data.labels.packed]
    else:
        streams = [np.concatenate([
            pack_labels(np.where(part == number, 1, -1), LabelFormat.SIGN)
            for part in data.labels.blocks(data.n_rows)]) for number in range(count)]
    return [QuantizedDataset(data.rows, LabelStream(
        packed, LabelFormat.SIGN, 1.0, 0.0, np.array([-1.0, 1.0]))) for packed in streams]


def report_counters(counters: dict[str, int | None]) -> dict[str, Any]:
    """Counters in the form of the run report (docs/report.md)."""
    causes = ("stall_rows", "stall_labels", "stall_lookahead", "stall_recursion",
              "stall_correction", "stall_refetch", "flush", "model_io")
    return {
        "cycles": counters["cycles"], "beats": counters["beats"],
        "stall_cycles": {cause.removeprefix("stall_"): counters[cause] for cause in causes},
        "bytes_read": counters["bytes_read"], "saturations": counters["saturations"],
        "refetched_rows": counters["refetched_rows"]}


def _still(job, result):
    """Epochs that changed nothing, shape (epochs_done,)."""
    words = np.column_stack([np.vstack([job.model[None], result.models]),
                             np.append(job.intercept, result.intercepts)])
    return (np.diff(words, axis=0) == 0).all(axis=1)

