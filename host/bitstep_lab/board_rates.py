"""``python -m bitstep_lab.board_rates``: rows a second of every board's pipelines, by the cycle
model, beside one thread of this machine in the same run.
"""

import argparse
from dataclasses import replace
from statistics import median

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.pipeline.boards import FACTS, BoardFacts
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_lab.baselines.cpu import train_cpu
from bitstep_lab.markdown import print_header, print_row
from bitstep_lab.races.board_profiles import LATENCY_S

HEAD = ("board, pipeline, batch, features, million rows a second, of the memory's bandwidth, "
        "one thread here, board / thread")
BATCH = 64                  # of pipelines in which a batch enters one beat a cycle
ROWS = 100_000              # of an epoch, so that its start counts little
CPU_BYTES = 40_000_000      # of the rows that the thread trains on


def batch_of(config: PipelineConfig) -> int:
    """The batch that the table has of a pipeline."""
    return BATCH if config.update_interval == 1 else 1


def board_rate(facts: BoardFacts, config: PipelineConfig, n_features: int) -> tuple[float, float]:
    """Rows a second of a pipeline on a board, and the share of its memory's bandwidth.

    Parameters
    ----------
    facts : BoardFacts
        Clock and bandwidth are the board's, the latency that of the races.
    config : PipelineConfig
        Of codes or numbers; batches are :func:`batch_of`.
    n_features : int
        At most the pipeline's.
    """
    none, clock_hz = np.zeros(n_features, np.int32), 1e6 * facts.clock_mhz
    beats = config.rows.beats(n_features)
    job = TrainingJob(      # no row is looked at, so they need no memory
        config=config, n_features=n_features,
        rows=(np.broadcast_to(np.zeros(1, np.uint8), (ROWS, beats * config.rows.beat_bytes)),),
        labels=np.broadcast_to(np.zeros(1, np.uint8), (4 * ROWS,)), label_format=LabelFormat.INT32,
        label_shift=0, intercept_level=config.rows.intercept_limit, batch=batch_of(config),
        correction_period=0, coefficients=none, model=none, epochs=(EpochSteps(1, 1),))
    memory = Memory.of(clock_hz, round(LATENCY_S * clock_hz), facts.memory_gbps)
    counters, _ = count_epochs(job, memory)
    cycles, n_bytes = counters["cycles"], counters["bytes_read"]
    assert cycles is not None
    assert n_bytes is not None
    return ROWS / cycles * clock_hz, n_bytes / cycles * clock_hz / (facts.memory_gbps * 1e9)


def thread_rate(n_features: int) -> float:
    """Rows a second of float32 SGD on one thread, after each of which it updates its model: the
    median of 5 epochs, by processor time.
    """
    n_rows = max(CPU_BYTES // (4 * n_features), 1)
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (n_rows, n_features)).astype(np.float32)
    targets = rng.normal(size=n_rows).astype(np.float32)
    result = train_cpu(features, targets, method="sgd", loss=Loss.LEAST_SQUARES,
                       steps=[1e-5 / n_features] * 5)
    return n_rows / median(result.cpu_seconds)     # other programs may want the processor, too


def pipelines(facts: BoardFacts, bits: int) -> list[PipelineConfig]:
    """Of a board: the pipeline of float32; the default one of so many bits; if it has several
    ports, that of one; and the one that looks ahead, whose rows need no batches.
    """
    config = facts.config(bits)
    numbers = replace(config, bits=FLOAT_BITS, row_format="float32", lookahead=0).with_lookahead()
    one = replace(config, bus_width=facts.port_width, row_ports=1, lookahead=0).with_lookahead()
    ahead = replace(config, update_interval=4, lookahead=0).with_lookahead()
    return [numbers, config, *([one] if config.row_ports > 1 else []), ahead]


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.board_rates", description=__doc__)
    parser.add_argument("--bits", type=int, choices=(1, 2, 4, 8), default=4,
                        help="of the default pipelines (default: %(default)s)")
    parser.add_argument("--features", type=int, nargs="+", default=[16, 100, 1000], metavar="N",
                        help="lengths of rows (default: 16 100 1000)")
    chosen = parser.parse_args(arguments)
    most = min(facts.config(chosen.bits).max_features for facts in FACTS.values())
    if not all(1 <= one <= most for one in chosen.features):
        parser.error(f"--features must be from 1 to {most}, the most of these pipelines, not "
                     f"{' '.join(map(str, chosen.features))}")
    threads = {n_features: thread_rate(n_features) for n_features in chosen.features}
    print_header(HEAD)
    for facts in FACTS.values():
        for config in pipelines(facts, chosen.bits):
            for n_features, thread in threads.items():
                rate, share = board_rate(facts, config, n_features)
                print_row(facts.name, f"`{config.name}`", batch_of(config), n_features,
                          f"{rate / 1e6:.3g}", f"{share:.0%}", f"{thread / 1e6:.3g}",
                          f"{rate / thread:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
