"""Several jobs in one run of a pipeline for several models."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import share_labels, share_rows
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.memory import pack_labels, pack_weighted_labels, place_packed
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.pipeline.results import DeviceError, Outcome, RangeOverflowError, RunResult
from bitstep.pipeline.shapes import label_bytes

# What a pipeline has once for all models; labels, their scale, steps, coefficients and first models
# are each model's own.
_COMMON = ("label_format", "intercept_level", "batch", "correction_period", "loss",
           "derivative_bound", "proximal_period", "box_limit", "cell_half_levels")


def same_run(one: TrainingJob, other: TrainingJob) -> bool:
    """True if one run of a pipeline for several models can train the models of two jobs.

    They share their rows (:func:`bitstep.pipeline.device.share_rows`), and what the pipeline has
    once: batch, loss and its bound, format of the labels, intercept's level, periods of corrections
    and proximal steps, box limit, and keys of the dither.
    """
    return share_rows(one, other) \
        and all(getattr(one, name) == getattr(other, name) for name in _COMMON) \
        and all(mine.key == others.key for mine, others in zip(one.epochs, other.epochs,
                                                               strict=True))


def runs_of(jobs: Sequence[TrainingJob], models: int) -> Iterator[list[TrainingJob]]:
    """Yield the jobs in runs of at most ``models`` neighbours that one run can train."""
    run: list[TrainingJob] = []
    for job in jobs:
        if run and (len(run) == models or not same_run(run[0], job)):
            yield run
            run = []
        run.append(job)
    if run:
        yield run


def option_registers(jobs: Sequence[TrainingJob], shared: bool,
                     to_the_end: bool) -> dict[str, int]:
    """Registers of weights, of several models, and of a model and updates of few bits; for every
    pipeline, or what another program left there would end its runs.
    """
    return {"WEIGHTED": jobs[0].weighted, "MODELS": len(jobs), "SHARED_LABELS": shared,
            "END_WITH_FIRST": not to_the_end,
            "MODEL_BITS": jobs[0].model_bits, "UPDATE_BITS": jobs[0].update_bits}


def stored_labels_of(jobs: Sequence[TrainingJob],
                     config: PipelineConfig) -> tuple[np.ndarray, bool]:
    """Labels of a run's jobs as memory holds them (docs/memory-layout.md), and whether all jobs
    have the same ones, which are then stored once.

    Raises
    ------
    bitstep.pipeline.results.DeviceError
        If a job without labels has format SIGN, whose values are +1 and -1 alone.
    """
    first = jobs[0]
    if first.label_format == LabelFormat.SIGN and not all(job.labels.size for job in jobs):
        raise DeviceError("A job without labels counts all as 0, so its label_format must be INT16 "
                          "or INT32, not SIGN, whose labels are +1 and -1")
    shared = share_labels(jobs)
    if config.packed or first.weights is not None:
        labels, weights = _side_by_side(jobs[:1], 1) if shared \
            else _side_by_side(jobs, config.rows.label_streams), first.weights
        labels = place_packed(labels, config, _unused_label(first.label_format))
        weights = None if weights is None else place_packed(weights, config, 0)
        return pack_labels(labels.reshape(-1), first.label_format) if weights is None \
            else pack_weighted_labels(labels, weights, first.label_format), shared
    if shared:
        if not first.labels.size:       # all count as 0
            return np.zeros(label_bytes(first.n_rows, first.label_format), np.uint8), True
        return first.labels, True
    labels = _side_by_side(jobs, config.rows.label_streams)
    return pack_labels(labels.reshape(-1), first.label_format), False


def _side_by_side(jobs, streams):
    """Labels of shape (n_rows, streams), a column for each job."""
    labels = np.full((jobs[0].n_rows, streams), _unused_label(jobs[0].label_format), np.int64)
    for number, job in enumerate(jobs):
        labels[:, number] = job.stored_labels(0, job.n_rows)
    return labels


def _unused_label(label_format):
    """Label of an unused place, one that the format has."""
    return -1 if label_format == LabelFormat.SIGN else 0


def table_of(jobs: Sequence[TrainingJob], config: PipelineConfig) -> np.ndarray:
    """Epoch table of a run's jobs: uint64, an entry of each job for every epoch."""
    several = config.models > 1
    return np.array([job.epochs[epoch].words(job.label_shift if several else 0)
                     for epoch in range(len(jobs[0].epochs)) for job in jobs], "<u8").reshape(-1)


def outcome_of(result: RunResult, written: np.ndarray, flags: int) -> Outcome:
    """What became of one model of a run.

    Parameters
    ----------
    result : RunResult
        Every epoch whose model was written, whether it counts or not.
    written : ndarray of int32, shape (epochs written,)
        Last word of each model: the flags of what had left its range until then.
    flags : int
        The same at the end of the run.
    """
    seen = np.append(written, flags)
    if not seen.any():
        return result
    good = int((seen != 0).argmax())
    result = replace(result, models=result.models[:good].copy(),
                     intercepts=result.intercepts[:good].copy())
    return RangeOverflowError(Overflow(int(seen[good])), result)
