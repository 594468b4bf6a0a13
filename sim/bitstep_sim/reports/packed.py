"""Report: bits that packed rows use, and cycles of their pipeline, by the cycle model.

    python -m bitstep_sim.reports.packed

Runs have the size of cadata; no row is read, since cycles do not depend on values.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from bitstep.cycles import Memory, count_epochs
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.parts.widths import ceil_div
from bitstep.pipeline.registers import LabelFormat
from bitstep.writing import text_table
from bitstep_sim.reports.passes import Case, jobs_of

ROWS, FEATURES, BITS, BUS_WIDTH = 20_640, 8, 4, 512
SHAPES = ((8, 4), (9, 4), (13, 4), (24, 4), (8, 1), (13, 2))      # features and bits
MODELS = (1, 2, 4, 8, 12, 16)
BATCHES = (1, 4, 16, 64, 256)
EPOCHS = 4
SHARES = ("features", "bits", "row a beat", "rows in a beat", "bits used", "cycles")
CYCLES = ("models", "labels", "batch", "cycles an epoch", "a full beat", "a beat and model",
          "row a beat", "ratio")


def packed_pipeline(features: int, bits: int, models: int = 1) -> PipelineConfig:
    """Pipeline for packed rows of so many features; without corrections, as the batches here."""
    return PipelineConfig(bus_width=BUS_WIDTH, bits=bits, max_features=features, lookahead=0,
                          corrections=False, packed=True, models=models)


def shares() -> list[tuple[str, ...]]:
    """Share of a beat that holds codes, with a row a beat and with packed rows."""
    found = []
    for features, bits in SHAPES:
        config = packed_pipeline(features, bits)
        found.append((str(features), str(bits), f"{features * bits / BUS_WIDTH:.1%}",
                      str(config.rows.rows_per_beat), f"{config.rows.used_share:.1%}",
                      str(config.latency)))
    return found


def epoch_cycles(jobs: Sequence[TrainingJob], config: PipelineConfig) -> int:
    """Cycles of a run's last epoch."""
    _, ends = count_epochs(jobs[0], Memory(), config=config, others=jobs[1:])
    return ends[-1] - ends[-2]


def beside(jobs: Sequence[TrainingJob]) -> int:
    """Cycles of an epoch of the jobs in passes of up to 8 models, a row a beat."""
    config = PipelineConfig(bus_width=BUS_WIDTH, bits=BITS).with_lookahead(FEATURES)
    passes = ceil_div(len(jobs), 8)
    size = ceil_div(len(jobs), passes)
    return sum(epoch_cycles(jobs[first:first + size], replace(config, models=size))
               for first in range(0, len(jobs), size))


def cycles(models: int, batch: int, label_format: LabelFormat = LabelFormat.INT16, *,
           shared: bool = True) -> tuple[str, ...]:
    """Cycles of an epoch with so many models."""
    case = Case("packed", "cadata", (ROWS, FEATURES), label_format, shared, models)
    config = packed_pipeline(FEATURES, BITS, models)
    jobs = [replace(job, batch=batch) for job in jobs_of(case, config, EPOCHS)]
    taken, before = epoch_cycles(jobs, config), beside(jobs)
    beats = ROWS // config.rows.rows_per_beat
    labels = label_format.name + (", shared" if shared and models > 1 else "")
    return (str(models), labels, str(batch), f"{taken:,}", f"{taken / beats:.2f}",
            f"{taken / beats / models:.2f}", f"{before:,}", f"{before / taken:.1f}")


def main() -> int:
    """Print two tables."""
    argparse.ArgumentParser(description="Cycles of packed rows, beside rows of one beat, by the "
                            "cycle model.").parse_args()
    print(text_table(SHARES, shares()), end="\n\n")
    rows = [cycles(models, batch) for batch in BATCHES for models in MODELS]
    rows += [cycles(1, batch, LabelFormat.SIGN) for batch in (16, 256)]
    rows += [cycles(models, 16, LabelFormat.SIGN, shared=False) for models in (4, 12)]
    rows += [cycles(12, 16, shared=False)]
    print(text_table(CYCLES, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
