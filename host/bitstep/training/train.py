"""Training of whole models: one job for each output, results in the units of the features.

The command line and the estimators both train through :func:`train_model`; it needs NumPy alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bitstep.machine import available_memory
from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.results import (
    RangeOverflowError,
    TrainingInterrupted,
    stall_cycles,
    sum_counters,
)
from bitstep.quantization import (
    BitPlaneRows,
    LabelStream,
    QuantizedDataset,
    QuantizedRows,
    Scaler,
    sign_labels,
)
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.outputs import Kinds, train_centred
from bitstep.training.centred.smooth import SmoothRun
from bitstep.training.centred.softmax import SoftmaxRun
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.loop.growing import Growth, with_restarts
from bitstep.training.loop.loop import TrainingLoop
from bitstep.training.loop.precision import LADDER, PlaneChoice
from bitstep.training.loop.tracks import Track, first_error, results_of
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import Plan, plan
from bitstep.training.plans import collect_model, starts_of
from bitstep.training.scores.stopping import EarlyStopping
from bitstep.training.scores.watch import restarts_shown, words_shown
from bitstep.training.targets import class_targets
from bitstep.training.trained import TrainedModel

MODEL_BYTES = 32            # of a weight of each epoch's model, while models are collected
MAX_STEP_ERROR = 0.01       # a larger one can be that of updates that all vanish
_CENTRED = Kinds(BitCentredRun, SmoothRun, SoftmaxRun)


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
        See :meth:`bitstep.pipeline.device.Device.train`; epochs are summed over the outputs. An
        ``on_epoch`` of class :class:`bitstep.training.scores.watch.TrainingWatch` is shown models.
    checkpoint : CheckpointWriter or None
        Keeps every epoch in a file; those that it holds already are not trained again, and are
        part of the result. ``first_epoch`` must be 0.

    Returns
    -------
    TrainedModel
        On Ctrl-C the epochs that every output has finished, with ``interrupted`` set. Outputs
        share passes over the rows where the device has models side by side, and passes run
        ``device.workers`` at a time; with a checkpoint outputs are trained one after the other.

    Raises
    ------
    TrainingInterrupted
        On Ctrl-C before every output has finished an epoch, with the result of the one in training.
    MemoryError
        If the models of all epochs do not fit.
    DeviceError, ValueError
        See :meth:`bitstep.pipeline.device.Device.train` and ``plan``; an overflow names an output.
    """
    if training.exact:
        with device.keep_rows():
            return train_centred(_CENTRED, outputs, device, config, objective, training,
                                 initial=initial, first_epoch=first_epoch, timeout_s=timeout_s,
                                 on_epoch=on_epoch, checkpoint=checkpoint)
    if objective.multinomial:
        raise ValueError("multinomial needs solver 'bit-centred', not 'sgd', whose classes are "
                         "trained one-vs-rest")
    _check_memory(training, len(outputs), outputs[0].n_features)
    tracks = _tracks(outputs, config, [(objective, training)], initial, first_epoch)
    restarts = checkpoint.checkpoint.restarts if checkpoint else ()
    stopping = EarlyStopping(training.stopping) if training.stopping else None
    loop = TrainingLoop(
        device, tracks, Growth(tracks, restarts_shown(on_epoch), restarts), timeout_s=timeout_s,
        on_epoch=on_epoch, on_words=words_shown(on_epoch), checkpoint=checkpoint,
        stopping=stopping)
    loop.run()
    model = _collected(outputs[0].scaler, tracks, loop.interrupted)
    return replace(with_restarts(model, loop.growth.restarts), best=stopping and stopping.best)


def _check_memory(training: Training, models: int, n_features: int) -> None:
    """MemoryError unless so many models of every epoch fit the memory that is left. A training that
    may stop early has as many epochs as it has.
    """
    epochs, values = len(training.steps), models * n_features
    size, room = MODEL_BYTES * epochs * values, available_memory()
    if size > room and training.stopping is None:
        raise MemoryError(
            f"The models of all epochs must fit the memory, of which {room / 1e9:,.1f} GB are "
            f"left; {epochs:,} epochs of {values:,} weights take {size / 1e9:,.1f} GB; choose at "
            f"most {max(1, room // (2 * MODEL_BYTES * values)):,} epochs")


def _tracks(outputs, config, wishes, initial=None, first_epoch=0) -> list[Track]:
    """Jobs of all outputs, for each of some objectives and trainings."""
    if first_epoch and any(training.planes == "auto" for _, training in wishes):
        raise ValueError("Planes 'auto' depend on the epochs before, which a model does not hold; "
                         "give a list of planes to a training that goes on")

    def planner(objective: Objective, training: Training, data: QuantizedDataset, start: Any,
                model_range: float | None) -> tuple[Plan, PlaneChoice | None]:
        make = partial(plan, data, config, objective, initial=start, first_epoch=first_epoch,
                       between_epochs=True)
        if model_range is not None:
            training = replace(training, model_range=model_range)
        if training.planes != "auto":
            return make(training), None
        ladder = {planes: make(replace(training, planes=(planes,) * len(training.steps)))
                  for planes in LADDER}
        return ladder[LADDER[0]], PlaneChoice({
            planes: one.job.epochs for planes, one in ladder.items()})

    return [Track(partial(planner, objective, training, data, start),
                  training.model_range is None and not objective.rule.quadratic)
            for objective, training in wishes
            for data, start in zip(outputs, starts_of(outputs, initial), strict=True)]


def _collected(scaler: Scaler, tracks: Sequence[Track], interrupted: bool) -> TrainedModel:
    """The model of all outputs."""
    return collect_model(scaler, [one.plan for one in tracks], results_of(tracks), interrupted,
                         [one.planes.planes for one in tracks])


def train_candidates(outputs: Sequence[QuantizedDataset], device: Device, config: PipelineConfig,
                     candidates: Sequence[tuple[Objective, Training]], *, timeout_s: float = 60.0,
                     on_epoch: Callable[[int], None] | None = None
                     ) -> list[TrainedModel | RangeOverflowError]:
    """Train one model for each of several objectives and trainings, in as few passes over the rows
    as the device needs; those of solver ``bit-centred``, which all have or none, one by one. Each
    is bit for bit that of :func:`train_model`.

    Parameters
    ----------
    outputs, device, timeout_s, on_epoch
        See :func:`train_model`; epochs are summed over candidates and outputs.
    config : PipelineConfig
        Pipeline that can run all of them (:func:`bitstep.training.pipelines.pipeline_of`, of an
        objective with L1 or a box if one has).
    candidates : sequence of (Objective, Training)
        All with as many steps.

    Returns
    -------
    list of TrainedModel or RangeOverflowError
        One for each candidate; an error for one of which a number left its range.

    Raises
    ------
    TrainingInterrupted
        On Ctrl-C before every candidate had an epoch.
    DeviceError, ValueError
        See :func:`train_model`.
    """
    _check_shared_epochs([training for _, training in candidates])
    if candidates[0][1].exact:
        return _one_by_one(outputs, device, config, candidates, timeout_s, on_epoch)
    _check_memory(candidates[0][1], len(candidates) * len(outputs), outputs[0].n_features)
    tracks = _tracks(outputs, config, candidates)
    loop = TrainingLoop(device, tracks, Growth(tracks, restarts_shown(on_epoch)),
                        timeout_s=timeout_s, on_epoch=on_epoch, to_the_end=True)
    loop.run()
    if not all(track.error or track.done for track in tracks):
        raise TrainingInterrupted([next(one.result for one in tracks if not one.error)],
                                  "interrupted before every candidate had an epoch: no model was "
                                  "kept")
    found: list[TrainedModel | RangeOverflowError] = []
    count = len(outputs)
    for number in range(len(candidates)):
        first = number * count
        own, restarts = tracks[first:first + count], loop.growth.restarts_of(first, count)
        error = first_error(own)
        if error is not None:
            error.result = replace(error.result, counters=sum_counters(
                [one.counters for one in (*(track.result for track in own), *restarts)]))
            found.append(error)
            continue
        found.append(with_restarts(_collected(outputs[0].scaler, own, loop.interrupted),
                                   restarts))
    return found


def _one_by_one(outputs, device, config, candidates, timeout_s,
                on_epoch) -> list[TrainedModel | RangeOverflowError]:
    """Candidates of solver ``bit-centred``, each with passes of its own over the same rows."""
    found: list[TrainedModel | RangeOverflowError] = []
    with device.keep_rows():
        for number, (objective, training) in enumerate(candidates):
            done = number * len(outputs) * len(training.steps)
            shown = None if on_epoch is None else lambda epoch, done=done: on_epoch(done + epoch)
            try:
                model = train_model(outputs, device, config, objective, training,
                                    timeout_s=timeout_s, on_epoch=shown)
            except RangeOverflowError as error:
                found.append(error)
                continue
            if model.interrupted:
                raise TrainingInterrupted([], "interrupted before every candidate was trained: no "
                                          "model was kept")
            found.append(model)
    return found


def _check_shared_epochs(trainings):
    if len({len(training.steps) for training in trainings}) != 1:
        raise ValueError("All candidates must have as many epochs")
    for training in trainings:
        stopping = training.stopping
        Request(PYTHON, {
            "sweep": True, "solver": training.solver, "planes": training.planes,
            "early_stopping": stopping is not None and stopping.held_out,
            "tol": stopping.tol if stopping is not None else None}).check()


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


def class_outputs(rows: QuantizedRows | BitPlaneRows, labels: np.ndarray,
                  classes: np.ndarray) -> list[QuantizedDataset]:
    """The data sets of every output: the same stored rows, each with its own targets.

    Parameters
    ----------
    rows : QuantizedRows or BitPlaneRows
    labels, classes
        See :func:`class_targets`.
    """
    return target_outputs(rows, class_targets(labels, classes))


def target_outputs(rows: QuantizedRows | BitPlaneRows,
                   targets: np.ndarray) -> list[QuantizedDataset]:
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
        streams = [data.labels.stored]
    else:
        streams = [np.concatenate([
            pack_labels(np.where(part == number, 1, -1), LabelFormat.SIGN)
            for part in data.labels.blocks(data.n_rows)]) for number in range(count)]
    return [QuantizedDataset(data.rows, LabelStream(
        stored, LabelFormat.SIGN, 1.0, 0.0, np.array([-1.0, 1.0])),
        feature_names=data.feature_names) for stored in streams]


def report_counters(counters: Mapping[str, int | None]) -> dict[str, Any]:
    """Counters in the form of the run report (docs/report.md)."""
    return {
        "cycles": counters["cycles"], "beats": counters["beats"],
        "stall_cycles": stall_cycles(counters),
        "bytes_read": counters["bytes_read"], "overflows": counters["overflows"],
        "refetched_rows": counters["refetched_rows"]}
