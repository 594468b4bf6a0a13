"""Report: cycles of batches whose rows enter one beat a cycle, by the cycle model.

    python -m bitstep_sim.reports.batches

Beside pipelines that look ahead from a batch to the next, and those that look ahead within batches,
which take as many cycles with every batch. No row is read, since cycles do not depend on values.
"""

import argparse
import sys
from collections.abc import Sequence

from bitstep.cli.options import integer
from bitstep.cycles import count_epochs
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.pipeline.registers import Loss
from bitstep.writing import text_table
from bitstep_sim.testing.random_jobs import random_job

FEATURES = (4, 30, 90, 300, 1000, 4096)
BATCHES = (1, 4, 16, 64, 256)
DRAIN = 20          # cycles that a batch may take beyond its beats, if the pipeline drains
LOOP = {"linear": 4, "logistic": 6}     # the same, if it looks ahead: r of a fast clock
ROWS = 1024
CHOICES = {"linear": (1, 2, 4), "logistic": (1, 6)}      # update intervals, drained first


def cycles_a_row(config: PipelineConfig, n_features: int, batch: int) -> float:
    """Cycles of a row inside an epoch, without those of its begin and end.

    Parameters
    ----------
    config : PipelineConfig
    n_features : int
    batch : int
        A divisor of :data:`ROWS`.
    """
    loss = Loss.LOGISTIC if config.loss_family == "logistic" else Loss.LEAST_SQUARES
    counts = []
    for rows in (ROWS, 2 * ROWS):
        job = random_job(config, n_features=n_features, n_rows=rows, batch=batch, epochs=1,
                         loss=loss)
        counts.append(count_epochs(job, config=config)[0]["cycles"] or 0)
    return (counts[1] - counts[0]) / ROWS


def ratio(config: PipelineConfig, n_features: int, batch: int) -> float:
    """Cycles of a row over those of the bound: its beats, and its share of :data:`DRAIN`, or of
    :data:`LOOP` where the pipeline looks ahead from a batch to the next.
    """
    more = LOOP[config.loss_family] if config.batch_lookahead else DRAIN
    return cycles_a_row(config, n_features, batch) / (config.rows.beats(n_features) + more / batch)


def line(family: str, bus_width: int, bits: int, n_features: int) -> list[str]:
    """A line of the table."""
    drained, *within = (PipelineConfig(
        bus_width=bus_width, bits=bits, loss_family=family, lookahead=0,
        update_interval=cycles).with_lookahead() for cycles in CHOICES[family])
    ahead = drained.with_batch_lookahead()
    return [family, str(bus_width), str(bits), str(n_features), str(drained.rows.beats(n_features)),
            *(cell for one, batches in ((drained, BATCHES), (ahead, BATCHES[:4])) for cell in (
                *(f"{cycles_a_row(one, n_features, batch):.2f}" for batch in batches),
                f"{max(ratio(one, n_features, batch) for batch in BATCHES[1:]):.2f}")),
            "; ".join(f"{cycles_a_row(one, n_features, 16):.2f}" for one in within)]


def table(families: Sequence[str], buses: Sequence[int], widths: Sequence[int],
          features: Sequence[int]) -> list[list[str]]:
    """Lines of the table, without those whose features fit no beat more than those before."""
    lines = []
    for family in families:
        for bus_width in buses:
            for bits in widths:
                seen = set()
                for n_features in features:
                    beats = -(-n_features // (bus_width // bits))
                    if beats not in seen:
                        lines.append(line(family, bus_width, bits, n_features))
                    seen.add(beats)
    return lines


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Cycles a row of batches without waiting, drained "
                                     "and looking ahead from a batch to the next, and of pipelines "
                                     "that look ahead within batches.")
    parser.add_argument("--family", choices=CHOICES, nargs="+", default=list(CHOICES),
                        help="loss families (default: all)")
    parser.add_argument("--bus-width", type=int, choices=BUS_WIDTHS, nargs="+",
                        default=list(BUS_WIDTHS), metavar="W", help="(default: all)")
    parser.add_argument("--bits", type=integer(1, 8), nargs="+", default=[1, 2, 4, 8],
                        metavar="B", help="(default: 1 2 4 8)")
    parser.add_argument("--features", type=integer(1, PipelineConfig.max_features), nargs="+",
                        default=list(FEATURES), metavar="N",
                        help="features of a row (default: 4 to 4,096)")
    arguments = parser.parse_args()
    heads = ["losses", "bus", "bits", "features", "beats",
             *(f"drained, {batch}" for batch in BATCHES), f"worst over beats + {DRAIN} / batch",
             *(f"ahead, {batch}" for batch in BATCHES[:4]), "worst over beats + r / batch",
             "within, r = 2; 4 (6)"]
    lines = table(arguments.family, arguments.bus_width, arguments.bits, arguments.features)
    print(text_table(heads, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
