"""Resource counts of pipelines for Zynq-7000, by Yosys: ``python -m bitstep_sim.reports.area``.

Counts come from synthesis alone, without place and route: logic that the vendor's tools would
still merge is counted in full.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bitstep.cli.options import integer
from bitstep.pipeline.boards import XC7Z020
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES, MAX_CODEBOOK_BITS, ROW_FORMATS
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep_lab.markdown import print_header, print_row
from bitstep_sim.netlists import xc7

# Lookup tables that one cell occupies, where it is not one.
_LUTRAM = {"RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM32M": 4, "RAM64M": 4, "RAM256X1D": 8}


def count(cells: dict[str, int]) -> dict[str, float]:
    """LUT, FF, RAMB36 and DSP of a netlist, from its number of cells of each type."""
    used: dict[str, float] = defaultdict(float)
    for name, number in cells.items():
        if name.startswith("LUT") or name.startswith("SRL"):
            used["LUT"] += number
        elif name in _LUTRAM:
            used["LUT"] += _LUTRAM[name] * number
        elif name.startswith("FD"):
            used["FF"] += number
        elif name.startswith("RAMB36"):
            used["RAMB36"] += number
        elif name.startswith("RAMB18"):
            used["RAMB36"] += number / 2
        elif name.startswith("DSP48"):
            used["DSP"] += number
    return {name: used[name] for name in XC7Z020}


def synthesize(config: PipelineConfig) -> dict[str, float]:
    """Resources of the whole top for ``config`` (:func:`bitstep_sim.netlists.xc7.synthesize`).

    Raises
    ------
    RuntimeError
        If Yosys is missing, fails or takes 4 hours.
    """
    with tempfile.TemporaryDirectory() as folder:
        return count(xc7.synthesize(config, Path(folder)))


def configurations(bus_width: int, widths: list[int], row_format: str) -> list[PipelineConfig]:
    """For each width the stalling pipeline, and the one that never waits on one-beat rows.

    Parameters
    ----------
    bus_width : int
    widths : list of int
        Stored bits of a value.
    row_format : str
    """
    pairs = []
    for bits in widths:
        stalling = PipelineConfig(bus_width=bus_width, bits=bits, row_format=row_format,
                                  lookahead=0)
        pairs += [stalling, stalling.with_lookahead()]
    return pairs


def options(bus_width: int, bits: int) -> dict[str, PipelineConfig]:
    """For each option of the generator the base pipeline with it turned over, by name.

    The base pipeline, named "all defaults", has whole look-ahead, batches and corrections.

    Parameters
    ----------
    bus_width : int
    bits : int
        Stored bits of a value; with more than 5 there is no pipeline with codebooks.
    """
    base = PipelineConfig(bus_width=bus_width, bits=bits)

    def changed(**choices: Any) -> PipelineConfig:
        return replace(base, **choices).with_lookahead()

    table = {"all defaults": changed(), "no look-ahead": replace(base, lookahead=0),
             "no batches": changed(minibatch=False), "no corrections": changed(corrections=False),
             "4 cycles per update": changed(update_interval=4),
             "1 cycle per update": changed(update_interval=1),
             "proximal steps": changed(proximal=True),
             "logistic loss": changed(loss_family="logistic", update_interval=6),
             "rows fetched again": changed(refetch=True),
             "model of 4 bits": changed(model_bits=4),
             "updates of few bits": changed(rounded_updates=True),
             "model of 4 bits, updates of few bits": changed(model_bits=4, rounded_updates=True)}
    if bits >= 2:
        table["two samples a value"] = changed(row_format="two_levels")
    if bits <= MAX_CODEBOOK_BITS:
        table["codebooks"] = changed(codebooks=True)
    return table


def chosen(arguments: argparse.Namespace) -> dict[str, PipelineConfig]:
    """The pipelines that are asked for, by label."""
    if arguments.packed:
        return {f"`{config.name}`": config for config in (
            PipelineConfig(bus_width=arguments.bus_width, bits=arguments.bits[0], lookahead=0,
                           row_format=arguments.row_format, max_features=arguments.packed,
                           packed=True, models=models, corrections=corrections)
            for models in arguments.models or [1] for corrections in (False, True))}
    if arguments.models:
        base = PipelineConfig(bus_width=arguments.bus_width, bits=arguments.bits[0],
                              row_format=arguments.row_format).with_lookahead()
        return {f"`{config.name}`": config for config in
                (replace(base, models=models) for models in arguments.models)}
    if arguments.options:
        return options(arguments.bus_width, arguments.bits[0])
    return {f"`{config.name}`": config for config in
            configurations(arguments.bus_width, arguments.bits, arguments.row_format)}


def main() -> int:
    """Print a table, one line a configuration as soon as it is known."""
    parser = argparse.ArgumentParser(description="Resources of pipelines on Zynq-7000, by Yosys, "
                                     "with and without look-ahead (some minutes each).")
    parser.add_argument("--bus-width", type=int, choices=BUS_WIDTHS, default=64,
                        help="bits of a beat (%(default)s)")
    parser.add_argument("--bits", type=int, nargs="+", default=[1, 2, 4, 8],
                        help="stored bits per value (%(default)s)")
    parser.add_argument("--row-format", choices=(*ROW_FORMATS, BIT_PLANES), default="one_level",
                        help="(%(default)s); bit-plane rows have 16 bits")
    parser.add_argument("--options", action="store_true",
                        help="one pipeline for each option, of the first number of bits")
    parser.add_argument("--models", type=int, nargs="+", metavar="N",
                        help="one pipeline for each number of models in a pass, of the first "
                        "number of bits")
    parser.add_argument("--packed", type=integer(1), metavar="N",
                        help="pipelines for packed rows of N features, with and without "
                        "corrections, for each of --models (1)")
    parser.add_argument("--jobs", type=integer(1), default=1,
                        help="runs of Yosys at once (%(default)s)")
    arguments = parser.parse_args()
    try:
        rows = chosen(arguments)
    except ValueError as error:
        parser.error(str(error))
    try:
        xc7.package()           # before netlists are made, which takes long
        print_header("configuration, LUT, FF, RAMB36, DSP, of a xc7z020")
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for label, used in zip(rows, pool.map(synthesize, rows.values()), strict=True):
                share = max(used[name] / XC7Z020[name] for name in used)
                print_row(label, *(f"{count:,g}" for count in used.values()), f"{share:.0%}")
    except RuntimeError as error:
        raise SystemExit(f"error: {error}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
