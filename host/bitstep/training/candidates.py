"""Candidates: models of one data set with other steps or penalties, trained side by side."""

from collections.abc import Callable, Sequence

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.results import SaturationError
from bitstep.quantization import QuantizedDataset
from bitstep.training.epochs import runner_of
from bitstep.training.objective import Objective, Training
from bitstep.training.output_runs import passes_of, run_passes
from bitstep.training.train import TrainedModel, collect_model, plans_of


def train_candidates(outputs: Sequence[QuantizedDataset], device: Device, config: PipelineConfig,
                     candidates: Sequence[tuple[Objective, Training]], *, timeout_s: float = 60.0,
                     on_epoch: Callable[[int], None] | None = None
                     ) -> list[TrainedModel | SaturationError]:
    """Train one model for each of several objectives and trainings, in as few passes over the rows
    as the device needs. Each is bit for bit that of :func:`train_model`.

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
    list of TrainedModel or SaturationError
        One for each candidate; an error for one of which a number left its range.

    Raises
    ------
    TrainingInterrupted
        On Ctrl-C before every candidate had an epoch.
    DeviceError, ValueError
        See :func:`train_model`.
    """
    if len({len(training.steps) for _, training in candidates}) != 1:
        raise ValueError("All candidates must have as many epochs")
    plans = [plans_of(outputs, config, *candidate) for candidate in candidates]
    made = [one for part in plans for one in part]
    jobs = [one.job for one in made]
    passes = passes_of(device, [runner_of(device, one) for one in made], jobs, timeout_s,
                       to_the_end=True)
    runs = run_passes(device, passes, len(jobs), len(candidates[0][1].steps), on_epoch,
                      to_the_end=True)
    found: list[TrainedModel | SaturationError] = []
    for number, part in enumerate(plans):
        own = runs.part(number * len(part), len(part))
        error = own.error()
        found.append(error if error is not None else collect_model(
            outputs[0].scaler, part, own.results(), runs.interrupted))
    return found
