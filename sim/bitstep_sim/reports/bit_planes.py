"""Cycles of bit-plane rows beside pipelines of fixed bits: ``python -m
bitstep_sim.reports.bit_planes``.

The cycle model counts them, whose counters are those of the RTL on the simulated board.
"""

import argparse
import sys

import numpy as np

from bitstep.cli.options import integer
from bitstep.cycles import count_epochs
from bitstep.pipeline.bit_planes import PLANES, BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.shapes import label_bytes
from bitstep_lab.markdown import print_header, print_row

FEATURES = (24, 64, 256, 1000, 4096)


def epoch_cycles(config: PipelineConfig, n_features: int, n_rows: int, planes: int,
                 gradient: bool = False, derivatives: bool = False) -> int:
    """Cycles of an epoch, with the entry of the table and the model, of rows without corrections.

    Parameters
    ----------
    config : PipelineConfig
    n_features, n_rows : int
    planes : int
        Planes of bit-plane rows, 0 for others.
    gradient, derivatives : bool
        True: of a run that sums the gradient of all rows, or with both writes their derivatives,
        from its start to its end.
    """
    layout = BitPlaneLayout(n_features)
    shape = (layout.blocks(n_rows), layout.block_bytes) if planes \
        else (n_rows, config.rows.beats(n_features) * config.rows.beat_bytes)
    logistic = config.loss_family == "logistic"
    labels = LabelFormat.SIGN if derivatives or logistic else LabelFormat.INT16
    job = TrainingJob(
        config=config, n_features=n_features, rows=(np.broadcast_to(np.uint8(0), shape),),
        labels=np.zeros(label_bytes(n_rows, labels), np.uint8),
        label_format=labels, label_shift=36 if planes else 0,
        loss=Loss.LOGISTIC if logistic else Loss.LEAST_SQUARES, intercept_level=0, batch=1,
        correction_period=0, coefficients=np.zeros(n_features, np.int32),
        epochs=(EpochSteps(1, 1, planes=planes),) * (1 if gradient else 2),
        model=np.zeros(n_features, np.int32), bit_plane_rows=n_rows if planes else 0)
    counters, ends = count_epochs(job, gradient=gradient, derivatives=derivatives)
    if gradient:
        assert counters["cycles"] is not None
        return counters["cycles"]
    return ends[1] - ends[0]


def row_cycles(config: PipelineConfig, n_features: int, n_rows: int, planes: int,
               **run: bool) -> list[float]:
    """Cycles of a row in the middle of an epoch, and those of a whole epoch by its rows."""
    rows = BitPlaneLayout(n_features).block_rows
    some, more = (epoch_cycles(config, n_features, blocks * rows, planes, **run)
                  for blocks in (40, 80))
    return [(more - some) / (40 * rows),
            epoch_cycles(config, n_features, n_rows, planes, **run) / n_rows]


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Cycles a row of bit-plane rows, by planes, and "
                                     "of pipelines of as many fixed bits.")
    parser.add_argument("--bus-width", type=int, choices=BUS_WIDTHS, default=64,
                        help="bits of a beat (%(default)s)")
    parser.add_argument("--rows", type=integer(1), default=10_000,
                        help="rows of an epoch (%(default)s)")
    arguments = parser.parse_args()
    width = arguments.bus_width
    bit_planes = PipelineConfig(row_format=BIT_PLANES, bits=16, bus_width=width).with_lookahead()
    logistic = PipelineConfig(row_format=BIT_PLANES, bits=16, bus_width=width, update_interval=6,
                              loss_family="logistic").with_lookahead()
    print_header("features, planes, beats a row, slots a row, cycles a row, of an epoch by rows, "
                 "pipeline of as many bits")
    for n_features in FEATURES:
        for planes in (1, 2, 4, 8, 16):
            row, whole = row_cycles(bit_planes, n_features, arguments.rows, planes)
            beats = BitPlaneLayout(n_features).row_bits * planes / width
            fixed = "-"
            if planes <= 8:
                config = PipelineConfig(bits=planes, bus_width=width).with_lookahead()
                fixed = f"{row_cycles(config, n_features, arguments.rows, 0)[0]:.2f}"
            print_row(n_features, planes, f"{beats:.2f}", bit_planes.rows.beats(n_features),
                      f"{row:.2f}",
                      f"{whole:.2f}", fixed)
        for name, config, planes, derivatives in (
                ("gradient", bit_planes, PLANES, False),
                ("gradient, logistic", logistic, PLANES, False),
                ("derivatives of 4", bit_planes, 4, True)):
            row, whole = row_cycles(config, n_features, arguments.rows, planes, gradient=True,
                                    derivatives=derivatives)
            beats = BitPlaneLayout(n_features).row_bits * planes / width
            print_row(n_features, name, f"{beats:.2f}", bit_planes.rows.beats(n_features),
                      f"{row:.2f}",
                      f"{whole:.2f}", "-")
    return 0


if __name__ == "__main__":
    sys.exit(main())
