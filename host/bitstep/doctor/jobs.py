"""Small training jobs for an examination, and runs of them on any device."""

from dataclasses import replace
from typing import Any

import numpy as np

from bitstep.golden.sgd import train
from bitstep.options.models import model_of
from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.pipeline.bit_planes import ALIGNMENT, PLANES, BitPlaneLayout, to_bit_planes
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.losses import LOSSES, losses_of
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.widths import ceil_div
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import RangeOverflowError, RunResult
from bitstep.quantization import QuantizedDataset, fit_scaler, quantize_labels
from bitstep.quantization.weights import MAX_WEIGHT
from bitstep.training.choices import resolve
from bitstep.training.planning import plan

ENCODINGS = {"one_level": "nearest", "two_levels": "double", "float32": "float"}
EPOCHS = 3
_PLANES = (PLANES, 3, 1)    # of the epochs, in turn


def make_job(config: PipelineConfig, *, n_features: int, n_rows: int, epochs: int = EPOCHS,
             loss: Loss | None = None, refetch: bool = False, copies: int = 1, seed: int = 1,
             initial: bool = False, **options: Any) -> TrainingJob:
    """Make a training job on random rows, through the same functions as a user's.

    Parameters
    ----------
    loss : Loss or None
        None: the usual one of the pipeline's loss family.
    initial : bool
        True for a start from a random model.
    options
        Of :data:`bitstep.options.table.OPTIONS`, such as ``l2`` and ``batch``. Bit-plane rows have
        different planes in each epoch unless there are ``planes``. Rows of a pipeline with
        codebooks have optimal levels, and a pipeline that rounds the model rounds it to as many
        bits as it can.
    """
    rng = np.random.default_rng(seed)
    if loss is None:
        loss = next(iter(losses_of(config.loss_family)))
    features = rng.uniform(-1, 1, (n_rows, n_features))
    values = features @ rng.normal(size=n_features) + 0.1 * rng.normal(size=n_rows)
    classes = LOSSES[loss].signs
    if classes:
        values = np.where(values > np.median(values), 1.0, -1.0)
    task = "classification" if classes else "regression"
    planes = [_PLANES[number % len(_PLANES)] for number in range(epochs)]
    rows: dict[str, Any] = {"planes": planes} if config.rows.planes else {
        "bits": config.bits, "encoding": ENCODINGS[config.row_format],
        "levels": "optimal" if config.codebooks else "uniform"}
    resolved = resolve(Request(PYTHON, {
        **rows, "model": model_of(loss), "bus_width": config.bus_width, "seed": seed,
        "refetch": refetch, "model_bits": config.model_bits, **options}))
    data = QuantizedDataset(
        replace(resolved.rows, copies=copies).quantize(
            features, fit_scaler(features, "minmax"), seed=seed),
        quantize_labels(values, n_rows, task=task,
                        label_bits=encoding_of(resolved.rows.encoding).label_bits))
    start = None
    if initial:
        stored = data.stored_labels()
        largest = 0.1 * data.label_scale * float(np.abs(stored).max())
        start = (rng.uniform(-largest, largest, n_features),
                 data.label_offset + largest)
    objective = resolved.objective(n_rows)
    return plan(data, config, objective, resolved.training(data.rows, objective, epochs=epochs),
                initial=start).job


def features_of(config: PipelineConfig, beats: int) -> int:
    """Return the features of a row of at most ``beats`` beats, the last one nearly empty."""
    beats = min(beats, config.rows.max_beats)
    return (beats - 1) * config.rows.lanes + 1 if beats > 1 else config.rows.lanes


def training_jobs(config: PipelineConfig) -> dict[str, TrainingJob]:
    """Make short jobs that use everything that a pipeline has, by their titles; the first is
    plain.
    """
    jobs = {"plain": make_job(config, n_features=features_of(config, 3), n_rows=60)}
    changes = {title: change for title, change, has in (
        ("started from a model", ("initial", True), True),
        ("two copies", ("copies", 2), not config.rows.planes),
        ("batches of 4", ("batch", 4), config.minibatch),
        ("L2", ("l2", 0.01), config.corrections)) if has}
    options: dict[str, Any] = dict(changes.values())
    jobs[", ".join(changes)] = make_job(config, n_features=features_of(config, 2), n_rows=50,
                                        **options)
    for title, loss in (("hinge, labels of 1 bit", Loss.HINGE), ("clipped residuals", Loss.HUBER)):
        if loss in losses_of(config.loss_family):
            jobs[title] = make_job(config, n_features=config.rows.lanes, n_rows=70, loss=loss)
    if config.proximal:
        jobs["L1 and a box"] = make_job(config, n_features=features_of(config, 2), n_rows=50,
                                        l1=0.01, box=0.5)
    if config.rounded_updates:
        jobs["updates of 8 bits"] = make_job(config, n_features=features_of(config, 2), n_rows=50,
                                             update_bits=8)
    if config.refetch:
        jobs["rows read again"] = make_job(
            config, n_features=features_of(config, 2), n_rows=50, loss=Loss.HINGE, refetch=True)
    if config.row_weights:
        jobs |= {title: _with_weights(jobs[name]) for title, name in (
            ("rows with weights", "plain"), ("rows with weights read again", "rows read again"))
            if name in jobs}
    return jobs


def _with_weights(job):
    """The job with a weight for each row."""
    weights = np.random.default_rng(1).integers(1, MAX_WEIGHT, job.n_rows, np.uint16, endpoint=True)
    return replace(job, weights=weights)


def side_by_side_runs(config: PipelineConfig) -> list[list[TrainingJob]]:
    """Make a run with a job for each model of a pass, which differ in their labels; none where a
    pass has one model.
    """
    if config.models == 1:
        return []
    job = make_job(config, n_features=features_of(config, 2), n_rows=50)
    stored = unpack_labels(job.labels, job.label_format, job.n_rows)
    return [[replace(job, labels=pack_labels(np.roll(stored, number), job.label_format))
             for number in range(config.models)]]


def still_job(config: PipelineConfig, *, n_features: int, n_rows: int,
              model: np.ndarray | None = None, epochs: int = 1) -> TrainingJob:
    """Make a job with steps of 0, which gives back the model that it starts from.

    Parameters
    ----------
    config : PipelineConfig
    n_features, n_rows, epochs : int
    model : ndarray of int32, shape (n_features,), optional
        Default: zeros.
    """
    blocks = ceil_div(n_rows, config.rows.block_rows(n_features))
    rows = np.zeros((blocks, config.rows.block_bytes(n_features)), np.uint8)
    job = make_job(config, n_features=n_features, n_rows=8)     # for the fields that it needs
    return replace(
        job, rows=(rows,), bit_plane_rows=n_rows * (config.rows.planes > 0), intercept=0,
        labels=np.zeros(ceil_div(n_rows, 64) * 8, np.uint8), label_format=LabelFormat.SIGN,
        epochs=(EpochSteps(0, 1, planes=config.rows.planes),) * epochs,
        model=np.zeros(n_features, np.int32) if model is None else model)


def read_bytes(config: PipelineConfig) -> int:
    """Bytes of rows that a job of :func:`beat_jobs` reads."""
    return config.rows.beats_read(1, config.rows.lanes, 1) * config.rows.beat_bytes


def beat_jobs(config: PipelineConfig) -> list[TrainingJob]:
    """Make 64 jobs that differ in the first bytes of their rows alone, the ones that they read:
    rows of one beat, or of bit-plane rows the first plane of as many as 64 bytes hold.
    """
    if not config.rows.planes:
        return single_rows(make_job(config, n_features=config.rows.lanes, n_rows=64))
    n_rows = 8 * ALIGNMENT // BitPlaneLayout(config.rows.lanes).row_bits
    job = make_job(config, n_features=config.rows.lanes, n_rows=n_rows, epochs=1, planes=(1,))
    rng = np.random.default_rng(2)
    return [replace(job, rows=(to_bit_planes(rng.integers(
        0, 1 << PLANES, (n_rows, config.rows.lanes), np.uint16)),)) for _ in range(64)]


def single_rows(job: TrainingJob) -> list[TrainingJob]:
    """Make a job of each row of a job alone; its model is that row times a number."""
    stored = unpack_labels(job.labels, job.label_format, job.n_rows)
    value = max(int(np.abs(stored).max()), 1)
    labels = pack_labels(np.array([value]), job.label_format)
    return [replace(job, rows=(job.rows[0][index:index + 1],), labels=labels,
                    epochs=job.epochs[:1]) for index in range(job.n_rows)]


def expected_of(job: TrainingJob) -> tuple[np.ndarray, np.ndarray]:
    """Return models of shape (epochs, n_features) and intercepts of the golden model."""
    epochs = list(train(job))
    assert not any(epoch.overflow for epoch in epochs), "a job that leaves the number range"
    return (np.array([epoch.model for epoch in epochs], np.int32),
            np.array([epoch.intercept for epoch in epochs], np.int32))


def difference(config: PipelineConfig, expected: tuple[np.ndarray, np.ndarray],
               result: RunResult | RangeOverflowError) -> str:
    """Describe the first epoch in which models differ, or the error in place of a result; empty if
    there is none.

    Parameters
    ----------
    config : PipelineConfig
    expected : tuple of ndarray
        Models of shape (epochs, n_features), and intercepts.
    result : RunResult or RangeOverflowError
    """
    if isinstance(result, RangeOverflowError):
        return str(result)
    for epoch, (model, other) in enumerate(zip(expected[0], result.models, strict=False)):
        wrong = np.flatnonzero(model != other)
        if len(wrong):
            first = int(wrong[0])
            lanes = sorted({int(feature) % config.rows.lanes for feature in wrong})
            where = f", all in lane {lanes[0]} of {config.rows.lanes}" \
                if len(lanes) == 1 and config.rows.lanes > 1 else ""
            return (f"after epoch {epoch + 1} of {len(expected[0])}, {len(wrong)} of {len(model)} "
                    f"weights differ{where}: feature {first} has {int(other[first])} instead "
                    f"of {int(model[first])}")
        if expected[1][epoch] != result.intercepts[epoch]:
            return (f"after epoch {epoch + 1} of {len(expected[0])}, the intercept is "
                    f"{int(result.intercepts[epoch])} instead of {int(expected[1][epoch])}")
    if len(expected[0]) != len(result.models):
        return f"{len(result.models)} models instead of {len(expected[0])}"
    return ""
