"""Bit-centred training of every output."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bitstep.machine import one_blas_thread
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import Counters, RangeOverflowError, RunError, sum_counters
from bitstep.quantization import QuantizedDataset
from bitstep.training.centred.passes import BitCentred
from bitstep.training.centred.run import CentredRun, OuterStep
from bitstep.training.endings import named, nothing_kept
from bitstep.training.files.checkpoint import CentredState
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.objective import Objective, Training, check_data
from bitstep.training.plans import starts_of
from bitstep.training.ranges import largest_stored
from bitstep.training.trained import TrainedModel, in_feature_units


class Kinds(NamedTuple):
    """Classes of runs, by what they minimise.

    Attributes
    ----------
    quadratic, smooth : type
        Least squares, and other losses of one output, such as
        :class:`bitstep.training.centred.least_squares.BitCentredRun` and
        :class:`bitstep.training.centred.smooth.SmoothRun`.
    joint : type
        A multinomial model: a run takes all outputs and their starts
        (:class:`bitstep.training.centred.softmax.SoftmaxRun`).
    """

    quadratic: Callable[..., CentredRun]
    smooth: Callable[..., CentredRun]
    joint: Callable[..., CentredRun]


def train_centred(kinds: Kinds, outputs: Sequence[QuantizedDataset], device: Any,
                  config: PipelineConfig, objective: Objective, training: Training, *,
                  initial: tuple[np.ndarray, Any] | None, first_epoch: int = 0,
                  timeout_s: float, on_epoch: Callable[[int], None] | None,
                  checkpoint: CheckpointWriter | None, **options: Any) -> TrainedModel:
    """Train every output.

    Parameters
    ----------
    kinds : Kinds
    outputs, device, config, objective, training, initial, first_epoch, timeout_s
        See :func:`bitstep.training.train.train_model`; epochs are outer steps.
    on_epoch, checkpoint
        See there.
    options
        Others of a run.

    Raises
    ------
    DeviceError
        If the device has no pipeline for bit-plane rows, or a number left its range.
    TrainingInterrupted
        On Ctrl-C before every output had an outer step.
    """
    check_data(outputs[0], training)
    assert isinstance(training.planes, tuple)
    choice = BitCentred(planes=training.planes[first_epoch:], step=float(training.steps[0]),
                        tol=training.tol, fit_intercept=training.fit_intercept,
                        curvature=training.curvature)
    found: list[list[OuterStep]] = []
    interrupted = False
    counters: list[Mapping[str, int | None]] = []
    starts = starts_of(outputs, initial)
    if not training.fit_intercept:      # a model that has one goes on without
        starts = [start and (start[0], 0.0) for start in starts]
    kind = kinds.quadratic if objective.rule.quadratic else kinds.smooth
    runs: list[tuple[Any, Any]] = list(zip(outputs, starts, strict=True))
    if objective.rule.joint:
        kind, runs = kinds.joint, [(outputs, None if initial is None else starts)]
    for number, (data, start) in enumerate(runs):
        run = kind(data, start=start, device=device, config=config, objective=objective,
                   choice=choice, timeout_s=timeout_s, **options)
        found.append(run.found)
        run.counters = counters
        kept = None if checkpoint is None else checkpoint.centred(number)
        if kept is not None:
            run.restore(kept.numbers, kept.arrays)
            counters.append({})         # those of the runs before are not known
        try:
            with one_blas_thread():
                _run(run, number, checkpoint, on_epoch)
                run.settle()
        except KeyboardInterrupt:
            if number + 1 < len(runs) or not run.found:
                raise nothing_kept(number + 1, len(runs)) from None
            interrupted = True
        except RangeOverflowError as error:
            raise named(error, number, len(runs)) from None
        except RunError as error:
            error.say_where(f"in outer step {len(run.found) + 1}")
            raise
    return _collect(outputs, found, training, interrupted, config, sum_counters(counters))


def _run(run: CentredRun, number: int, checkpoint: CheckpointWriter | None,
         on_epoch: Callable[[int], None] | None) -> None:
    """Train an output, and keep its state in the checkpoint."""
    epochs = len(run.choice.planes)
    for _ in run.steps():
        if checkpoint is not None:
            numbers, arrays = run.kept()
            checkpoint.keep_centred(number, CentredState(
                numbers, arrays, run.ended or len(run.found) == epochs))
        if on_epoch:            # epochs of all outputs
            on_epoch(number * epochs + len(run.found) * len(run.outputs))


def _collect(outputs, found, training, interrupted, config, counters) -> TrainedModel:
    """The model of all outputs; one that stopped early keeps its last state."""
    epochs = len(found[-1]) if interrupted else max(map(len, found))
    # One that has stopped reads nothing more.
    padded = [steps[:epochs] + [replace(steps[-1], planes=0)] * (epochs - len(steps))
              for steps in found]
    points, gradients, gaps, planes, read = (
        np.array([[getattr(one, name) for one in steps] for steps in padded]).swapaxes(0, 1)
        for name in ("point", "gradient", "gap", "planes", "bytes_read"))
    points = points.reshape(epochs, len(outputs), -1)
    weights, intercepts = points[:, :, :-1], points[:, :, -1]
    read = read.sum(axis=1, dtype=np.int64)
    bytes_read = np.diff(read, prepend=0)
    beats = int(read[-1]) // config.rows.beat_bytes
    largest = max(data.label_scale * largest_stored(data) for data in outputs)
    bounded = training.certified and np.isfinite(gaps).any()
    return in_feature_units(
        outputs[0].scaler, weights, intercepts + [data.label_offset for data in outputs],
        steps=np.full(epochs, training.steps[0]),
        counters=Counters(functools.partial(_counters, counters, beats)),
        still=np.zeros(epochs, bool), step_error=0.0, interrupted=interrupted,
        model_range=float(np.abs(weights).max(initial=0.0) / largest), planes=planes,
        bytes_read=bytes_read, gradients=gradients, gaps=gaps if bounded else None)


def _counters(counters: Mapping[str, int | None], beats: int) -> dict[str, int | None]:
    """Counters of a training that read so many beats of rows without runs that were made again,
    which a pipeline counts, too.
    """
    found = {**counters, "overflows": 0, "refetched_rows": 0}
    return found | {"beats": beats} if found["cycles"] is None else found
