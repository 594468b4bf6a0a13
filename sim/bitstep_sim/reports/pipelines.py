"""Cycles of every pipeline: ``python -m bitstep_sim.reports.pipelines`` (``make pipelines``).

Prints the table of docs/results/performance.md, measured on the simulated board with ideal memory.
Cycles are exact and jobs are repeatable.
"""

import argparse
import sys
from collections.abc import Iterator

from bitstep.cli.options import integer
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.pipeline.registers import Loss
from bitstep_lab.markdown import add_choice, print_header, print_row
from bitstep_sim.board.device import SimDevice
from bitstep_sim.reports.speed import IDEAL_LATENCY
from bitstep_sim.testing.random_jobs import random_job

KINDS = ("one_level", "two_levels", "fast", "refetch", "logistic", "float32")
FEATURES = (8, 90, 1000)
ROWS = 10_000
EPOCHS = 2


def configurations(kinds: list[str], buses: list[int],
                   widths: list[int]) -> Iterator[tuple[str, PipelineConfig]]:
    """Pipelines to measure, each with a look-ahead with which no row ever waits.

    Parameters
    ----------
    kinds : list of str
        Of :data:`KINDS`.
    buses, widths : list of int
        Bits of a beat, and of a value for the kinds that have a choice.

    Yields
    ------
    str, PipelineConfig
        The kind and the pipeline.
    """
    for bus_width in buses:
        for kind in kinds:
            bits = {"one_level": widths, "two_levels": [width for width in widths if width > 1],
                    "fast": [width for width in widths if width in (1, 2, 4, 8)],
                    "float32": [32]}.get(kind, [8])
            options = {"two_levels": {"row_format": "two_levels"}, "fast": {"update_interval": 4},
                       "refetch": {"refetch": True},
                       "logistic": {"loss_family": "logistic", "update_interval": 6},
                       "float32": {"row_format": "float32", "update_interval": 4}}.get(kind, {})
            for width in bits:
                yield kind, PipelineConfig(bus_width=bus_width, bits=width,
                                           **options).with_lookahead()     # type: ignore[arg-type]


def main() -> int:
    """Measure the pipelines asked for."""
    parser = argparse.ArgumentParser(description="Cycles of every pipeline; prints a Markdown "
                                     "table.")
    add_choice(parser, "kinds", KINDS, "; fast is one_level with the registers of a fast clock")
    parser.add_argument("--bus-width", type=int, choices=BUS_WIDTHS, nargs="+",
                        default=[64, 512], metavar="W", help="(default: 64 512)")
    parser.add_argument("--bits", type=integer(1, 8), nargs="+", default=list(range(1, 9)),
                        metavar="B", help="widths of one_level and two_levels; of fast those "
                        "among 1, 2, 4 and 8 (default: 1 to 8)")
    parser.add_argument("--features", type=integer(1, PipelineConfig.max_features), nargs="+",
                        default=list(FEATURES), metavar="N",
                        help="features of a row (default: 8 90 1000)")
    parser.add_argument("--rows", type=integer(1), default=ROWS, metavar="N",
                        help="rows of an epoch (default: %(default)s)")
    arguments = parser.parse_args()
    cells = ", ".join(f"{count} features: look-ahead, cycles a row, beats a cycle, cycles an epoch"
                      for count in arguments.features)
    print_header(f"pipeline, bus, bits, latency, r, {cells}, most of 1.02 rows max(beats; r)")
    for kind, config in configurations(arguments.kinds, arguments.bus_width, arguments.bits):
        measure(kind, config, arguments.features, arguments.rows)
    return 0


def measure(kind: str, config: PipelineConfig, features: list[int], n_rows: int) -> None:
    """Measure one pipeline and print its row.

    Parameters
    ----------
    kind : str
    config : PipelineConfig
    features : list of int
        Features of a row, one job for each.
    n_rows : int
        Rows of an epoch.
    """
    device = SimDevice(config, memory_latency=IDEAL_LATENCY)
    loss = {"refetch": Loss.HINGE, "logistic": Loss.LOGISTIC}.get(kind, Loss.LEAST_SQUARES)
    cells, shares = [], []
    for n_features in features:
        # Cycles do not depend on values; a short step keeps the two independent samples of
        # ``two_levels`` from driving the model out of its range.
        job = random_job(config, n_features=n_features, n_rows=n_rows, epochs=EPOCHS, loss=loss,
                         speed=1e-4)
        cycles = device.train(job, timeout_s=3600).counters["cycles"]
        assert cycles is not None, "a board counts its cycles"
        epoch, beats = cycles / EPOCHS, config.rows.beats(n_features)
        cells += [config.ahead.of_rows(beats), f"{epoch / n_rows:.3f}",
                  f"{n_rows * beats / epoch:.3f}", f"{epoch:,.0f}"]
        shares.append(epoch / (1.02 * n_rows * max(beats, config.update_interval)))
    print_row(kind, config.bus_width, config.bits, config.latency, config.update_interval, *cells,
              f"{max(shares):.3f}")
    device.close()


if __name__ == "__main__":
    sys.exit(main())
