"""Training jobs in which every combination of three options' values meets.

A covering array has a fraction of the rows of random draws: faults that a configuration and two
options make together are found by the row in which they meet.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from covertable import make

from bitstep.golden.sgd import EpochModel, train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import MODEL_LIMIT, TrainingJob
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_sim.testing.random_jobs import random_job

LINEAR = (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER)

_OPTIONS = {
    "features": ("one", "lanes", "lanes + 1", "capacity - 1", "capacity"),
    "lookahead": ("0", "some", "most"),
    "rows": ("one", "d + 1", "2 d + 3", "many"),
    "batch": ("one", "2", "d + 2", "most rows"),
    "period": (0, 1, 2, 7),
    "labels": tuple(LabelFormat),
    "loss": (0, 1, 2, 3),      # number among those of the configuration
    "epochs": (1, 3),
    "copies": (1, 3),
    "intercept": (False, True),
    "warm": (False, True),
    "memory": ({}, {"memory_latency": 100}, {"memory_latency": 7, "memory_gbps": 0.05},
               {"memory_latency": 3, "stall_probability": 0.5}),
}


def cover(configs: list[PipelineConfig], *, salt: str = "") -> list[dict]:
    """Rows of values by option, with a configuration for each, ``config``.

    Every three values of options meet in a row, unless a configuration lacks one of them. Rows
    go to the configurations in equal numbers, to the one that lacks most of a row's values first;
    those with weights go to configurations that have them.

    Parameters
    ----------
    configs : list of PipelineConfig
        Configurations with the same options, but that some may lack weights.
    salt : str
        Another one gives other rows.
    """
    factors: dict = {name: list(values) for name, values in _OPTIONS.items()}
    if any(config.proximal for config in configs):
        factors["proximal"] = [0, 1, 5]
    if any(config.refetch for config in configs):
        factors["cell"] = [0, 1, 2, 4]
        factors["box"] = ["narrow", "wide"]
    if any(config.row_weights for config in configs):
        factors["weighted"] = [False, True]
    rows: Any = make({name: list(range(len(values))) for name, values in factors.items()},
                     strength=3, salt=salt)
    counts, met = dict.fromkeys(configs, 0), {config: set() for config in configs}
    covered = []
    for row in rows:
        weighted = "weighted" in row and factors["weighted"][row["weighted"]]
        able = [config for config in configs if config.row_weights or not weighted]
        least = min(counts[config] for config in able)
        config = max((config for config in able if counts[config] == least),
                     key=lambda config: len(set(row.items()) - met[config]))
        counts[config] += 1
        met[config] |= set(row.items())
        values = {name: factors[name][number] for name, number in row.items()}
        covered.append({"config": config, **values})
    return covered


def allowed_lookahead(config: PipelineConfig, beats: int) -> list[int]:
    """Values of LOOKAHEAD that the pipeline takes for rows of ``beats`` beats."""
    return [d for d in range(config.lookahead + 1) if beats <= config.ahead.line_depth(d + 1)]


def job_of(row: dict, seed: int, golden: Callable[[TrainingJob], Iterable[EpochModel]] = train
           ) -> tuple[TrainingJob, int]:
    """A job with the options of a row, and its look-ahead; all of its numbers stay in range.
    ``golden`` gives the epochs of the golden model, and may keep them.
    """
    for attempt in range(20):
        job, lookahead = _draw(row, seed + (attempt << 20))
        if not any(epoch.overflow for epoch in golden(job)):
            return job, lookahead
    raise ValueError(f"Every job of {row} leaves the range of its numbers")


def _draw(row, seed):
    config = row["config"]
    losses = (Loss.LOGISTIC,) if config.loss_family == "logistic" else LINEAR
    loss = losses[row["loss"] % len(losses)]
    lanes, capacity = config.rows.lanes, config.rows.capacity
    n_features = {"one": 1, "lanes": lanes, "lanes + 1": lanes + 1,
                  "capacity - 1": capacity - 1, "capacity": capacity}[row["features"]]
    n_features = min(n_features, capacity)
    allowed = allowed_lookahead(config, config.rows.beats(n_features))
    d = {"0": allowed[0], "some": allowed[len(allowed) // 2], "most": allowed[-1]}[row["lookahead"]]
    cell = row.get("cell", 0) if loss == Loss.HINGE else 0
    n_rows = {"one": 1, "d + 1": d + 1, "2 d + 3": 2 * d + 3,
              "many": 150 if cell or config.max_features >= 256 else 45}[row["rows"]]
    batch = {"one": 1, "2": 2, "d + 2": d + 2, "most rows": max(1, n_rows - 3)}[row["batch"]]
    if cell or not config.minibatch:
        batch = 1
    period = row["period"] * config.corrections
    if config.row_format == "float32":      # look-ahead is part of the meaning of such rows
        config = replace(config, lookahead=d)
        if period and batch * period <= d:
            period += d
    job = random_job(
        config, n_features=n_features, n_rows=n_rows, batch=batch,
        correction_period=batch * period,
        proximal_period=batch * row.get("proximal", 0) * config.proximal, seed=seed,
        loss=loss, cell_half_levels=cell, epochs=row["epochs"], label_format=row["labels"],
        copies=row["copies"], intercept=row["intercept"], warm=row["warm"],
        weighted=row.get("weighted", False))
    if cell and job.proximal_period and row["box"] == "wide":   # a narrow one leaves few undecided
        job = replace(job, box_limit=MODEL_LIMIT)
    return job, job.lookahead if config.row_format == "float32" else d


def jobs_of(config: PipelineConfig, rows: list[dict], seed: int,
            golden: Callable[[TrainingJob], Iterable[EpochModel]] = train) -> Iterator[tuple]:
    """Rows of a configuration with their jobs: (row, job, look-ahead). See :func:`job_of`."""
    for number, row in enumerate(rows):
        if row["config"] == config:
            yield (row, *job_of(row, seed + number, golden))
