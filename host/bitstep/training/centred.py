"""Bit-centred training of the outputs of a model, one after the other."""

from collections.abc import Callable, Sequence

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    RunResult,
    SaturationError,
    TrainingInterrupted,
)
from bitstep.quantization import QuantizedDataset
from bitstep.training.bit_centred import BitCentred, BitCentredRun, OuterStep
from bitstep.training.objective import Objective, Training
from bitstep.training.planes import check_planes
from bitstep.training.ranges import largest_stored
from bitstep.training.trained import TrainedModel, in_feature_units


def train_centred(outputs: Sequence[QuantizedDataset], device: Device, config: PipelineConfig,
                  objective: Objective, training: Training, *,
                  starts: Sequence[tuple[np.ndarray, float] | None], first_epoch: int,
                  timeout_s: float, on_epoch: Callable[[int], None] | None) -> TrainedModel:
    """Train every output by :class:`bitstep.training.bit_centred.BitCentredRun`.

    Parameters
    ----------
    outputs, device, config, objective, training, first_epoch, timeout_s, on_epoch
        See :func:`bitstep.training.train.train_model`; epochs are outer steps.
    starts : sequence of (ndarray of float64, float) or None
        Weights for scaled features and intercept that each output starts from.

    Raises
    ------
    DeviceError
        If the device has no pipeline for woven rows, or a number left its range.
    TrainingInterrupted
        On Ctrl-C before every output had an outer step.
    """
    check_planes(outputs[0].encoding, training.planes, len(training.steps))
    if not training.fit_intercept and outputs[0].label_offset != 0:
        raise ValueError("A model without an intercept needs labels that are not centred; quantize "
                         "with center_labels=False")
    assert isinstance(training.planes, tuple)
    choice = BitCentred(planes=training.planes[first_epoch:], step=float(training.steps[0]),
                        tol=training.tol,
                        fit_intercept=training.fit_intercept)
    found: list[list[OuterStep]] = []
    interrupted = False
    for number, (data, start) in enumerate(zip(outputs, starts, strict=True)):
        run = BitCentredRun(data, device, config, objective, choice, start, timeout_s)
        found.append([])
        try:
            for state in run.steps():
                found[-1].append(state)
                if on_epoch:
                    on_epoch(number * len(choice.planes) + len(found[-1]))
        except KeyboardInterrupt:
            if number + 1 < len(outputs) or not found[-1]:
                none = RunResult(np.empty((0, data.n_features), np.int32), np.empty(0, np.int32))
                raise TrainingInterrupted(none) from None
            interrupted = True
        except SaturationError as error:
            of = f"Class {number + 1} of {len(outputs)}: " if len(outputs) > 1 else ""
            error.args = (f"{of}{error.args[0]}",)
            raise
    return _collect(outputs, found, training, interrupted, config)


def _collect(outputs, found, training, interrupted, config) -> TrainedModel:
    """The model of all outputs; one that stopped early keeps its last state."""
    epochs = len(found[-1]) if interrupted else max(map(len, found))
    table = [[steps[min(epoch, len(steps) - 1)] for steps in found] for epoch in range(epochs)]
    planes = [[steps[epoch].planes if epoch < len(steps) else 0 for steps in found]
              for epoch in range(epochs)]
    read = sum(steps[min(epochs, len(steps)) - 1].bytes_read for steps in found)
    weights = np.array([[one.weights for one in row] for row in table])
    intercepts = np.array([[one.intercept + data.label_offset for one, data in
                            zip(row, outputs, strict=True)] for row in table])
    largest = max(data.label_scale * largest_stored(data) for data in outputs)
    return in_feature_units(
        outputs[0].scaler, weights, intercepts, steps=np.full(epochs, training.steps[0]),
        counters=dict.fromkeys(COUNTER_NAMES) | {
            "beats": read // config.beat_bytes, "saturations": 0, "refetched_rows": 0},
        still=np.zeros(epochs, bool), step_error=0.0, interrupted=interrupted,
        model_range=float(np.abs(weights).max(initial=0.0) / largest), planes=np.array(planes))
