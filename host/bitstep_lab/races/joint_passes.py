"""Outputs of a race that share passes over the rows: their passes, and cycles by the cycle
model, whose counters are those of the RTL.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.devices.joint_runs import same_run
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.parts.widths import ceil_div
from bitstep.pipeline.results import sum_counters


def pass_sizes(n_outputs: int, models: int) -> list[int]:
    """Outputs of each pass: as few passes as there can be, whose sizes differ by at most 1."""
    count = ceil_div(n_outputs, models)
    return [(turn + 1) * n_outputs // count - turn * n_outputs // count for turn in range(count)]


def count_passes(jobs: Sequence[TrainingJob], config: PipelineConfig,
                 memory: Memory) -> tuple[dict[str, Any], np.ndarray]:
    """Counters of all passes, and cycles to the end of every epoch, the sum over the passes.

    Parameters
    ----------
    jobs : sequence of TrainingJob
        Of the same rows.
    config : PipelineConfig
        The pipeline, for ``models`` of them in a pass.
    memory : Memory

    Raises
    ------
    ValueError
        If the jobs cannot share runs.
    """
    if not all(same_run(jobs[0], job) for job in jobs[1:]):
        raise ValueError("Outputs that share a pass must have the same rows, epochs, batch, "
                         "periods and keys; these differ, so choose one model a pass")
    counters, ends, first = [], [], 0
    for size in pass_sizes(len(jobs), config.models):
        one, *others = jobs[first:first + size]
        counted, ended = count_epochs(one, memory, config=config, others=others)
        counters.append(counted)
        ends.append(ended)
        first += size
    return dict(sum_counters(counters)), np.sum(ends, axis=0)
