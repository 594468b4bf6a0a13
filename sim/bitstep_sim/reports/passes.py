"""Report: cycles of pipelines for several models, by the cycle model.

    python -m bitstep_sim.reports.passes

Runs have the sizes of real ones; no row is read, since cycles do not depend on values.
"""

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.pipeline.boards import FACTS
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat
from bitstep.writing import text_table
from bitstep_lab.races.board_profiles import PROFILES

PASSES = (1, 2, 3, 4, 8)    # models of a pass
HEAD = ("models", "data", "profile", "bits", "K", "passes", "cycles", "s", "beside one model",
        "beside one pass each")


@dataclass(frozen=True)
class Case:
    """A training of several models.

    Attributes
    ----------
    name, data : str
    shape : tuple of int
        Rows and features.
    label_format : LabelFormat
    shared_labels : bool
        All models have the same labels, as in a sweep.
    count : int
        Models.
    """

    name: str
    data: str
    shape: tuple[int, int]
    label_format: LabelFormat
    shared_labels: bool
    count: int


SWEEP = Case("sweep of 8 steps", "cadata", (18_576, 8), LabelFormat.INT16, True, 8)
TARGETS = replace(SWEEP, name="8 targets", shared_labels=False)
CLASSES = Case("10 classes", "MNIST's shape", (10_000, 784), LabelFormat.SIGN, False, 10)


def jobs_of(case: Case, config: PipelineConfig, epochs: int = 10) -> list[TrainingJob]:
    """Jobs of the sizes of a case; the values mean nothing."""
    n_rows, n_features = case.shape
    rows = np.zeros((n_rows, config.rows.beats(n_features) * config.rows.beat_bytes), np.uint8)
    jobs = []
    for number in range(case.count):
        labels = np.ones(n_rows, np.int64)
        labels[:number * (not case.shared_labels)] = -1     # so that no two are the same
        jobs.append(TrainingJob(
            config=config, n_features=n_features, rows=(rows,),
            labels=pack_labels(labels, case.label_format), label_format=case.label_format,
            label_shift=0, intercept_level=config.rows.intercept_limit, batch=1,
            correction_period=0,
            coefficients=np.zeros(n_features, np.int32), epochs=(EpochSteps(1, 1),) * epochs,
            model=np.zeros(n_features, np.int32), intercept=0))
    return jobs


def cycles_of(jobs: list[TrainingJob], models: int, memory: Memory) -> tuple[int, int]:
    """Passes, whose sizes differ by at most one, and their cycles."""
    config = replace(jobs[0].config, models=models)
    passes, cycles = -(-len(jobs) // models), 0
    for turn in range(passes):
        first, *others = jobs[turn * len(jobs) // passes:(turn + 1) * len(jobs) // passes]
        counted, _ = count_epochs(first, memory, config=config, others=others)
        cycles += counted["cycles"] or 0
    return passes, cycles


def lines(case: Case, profile: str, config: PipelineConfig) -> list[tuple[str, ...]]:
    """Lines of the table: one model alone, and the case with some numbers of models a pass."""
    board = PROFILES[profile]
    memory = Memory.of(board.clock_hz, board.memory_latency, board.memory_gbps)
    jobs = jobs_of(case, config)
    (_, one), (_, first), found = cycles_of(jobs[:1], 1, memory), cycles_of(jobs, 1, memory), []
    for models in PASSES:
        passes, cycles = cycles_of(jobs, models, memory)
        found.append((case.name, case.data, profile, str(config.bits), str(models), str(passes),
                      f"{cycles:,}", f"{cycles / board.clock_hz:.4f}", f"{cycles / one:.2f}",
                      f"{cycles / first:.3f}"))
    return found


def main() -> int:
    """Print a table."""
    argparse.ArgumentParser(description="Cycles of models that share passes in pipelines, by the "
                            "cycle model; some minutes.").parse_args()
    wide = {bits: PipelineConfig(bus_width=512, bits=bits) for bits in (1, 4, 8)}
    rows = []
    for case in (SWEEP, TARGETS):
        rows += lines(case, "paper", wide[4].with_lookahead(8))
        rows += lines(case, "paper-ideal", wide[4].with_lookahead(8))
    for bits in (1, 4, 8):
        rows += lines(CLASSES, "paper", wide[bits].with_lookahead(784))
    rows += lines(CLASSES, "pynq-z1", replace(FACTS["pynq-z1"].config(1), update_interval=4,
                                              lookahead=0).with_lookahead())
    print(text_table(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
