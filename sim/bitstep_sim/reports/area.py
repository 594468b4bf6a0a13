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
from bitstep.pipeline.boards import FACTS, XC7Z020, BoardFacts
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import MAX_CODEBOOK_BITS
from bitstep_hw.boards.choice import parse_config
from bitstep_lab.markdown import print_header, print_row
from bitstep_sim.netlists import xc7

# Rows of 1, 2, 4 and 8 bits, which wait for the row before, or look ahead and do not.
DEFAULT = [f"bits={bits}{waiting}" for bits in (1, 2, 4, 8) for waiting in (",lookahead=0", "")]
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


def default_pipelines(facts: BoardFacts) -> list[PipelineConfig]:
    """A board's default pipelines for codes, the same with look-ahead from row to row
    (``update_interval`` 4), and that for bit-plane rows.
    """
    waiting = [facts.config(bits) for bits in facts.bus_widths]
    ahead = [replace(config, update_interval=4, lookahead=0).with_lookahead()
             for config in waiting]
    return [*waiting, *ahead, facts.bit_plane_config()]


def options(base: PipelineConfig) -> dict[str, PipelineConfig]:
    """A pipeline with whole look-ahead, and by name the same with one option of the generator
    turned over; of more than 5 bits there is none with codebooks.
    """
    def changed(**choices: Any) -> PipelineConfig:
        return replace(base, **choices).with_lookahead()

    table = {"none": changed(), "no look-ahead": replace(base, lookahead=0),
             "no batches": changed(minibatch=False), "no corrections": changed(corrections=False),
             "4 cycles per update": changed(update_interval=4),
             "1 cycle per update": changed(update_interval=1),
             "proximal steps": changed(proximal=True),
             "logistic loss": changed(loss_family="logistic", update_interval=6),
             "rows fetched again": changed(refetch=True),
             "model of 4 bits": changed(model_bits=4),
             "updates of few bits": changed(rounded_updates=True),
             "model of 4 bits, updates of few bits": changed(model_bits=4, rounded_updates=True)}
    if base.bits >= 2:
        table["two samples a value"] = changed(row_format="two_levels")
    if base.bits <= MAX_CODEBOOK_BITS:
        table["codebooks"] = changed(codebooks=True)
    return table


def chosen(arguments: argparse.Namespace) -> dict[str, PipelineConfig]:
    """The pipelines that are asked for, by label.

    Raises
    ------
    ValueError
        If there is no such pipeline, or options of several are asked for.
    """
    configs = [parse_config(text) for text in arguments.configs]
    if arguments.options:
        if len(configs) != 1:
            raise ValueError(f"Options are of one CONFIG, not of {len(configs)}; give one, such "
                             "as bits=4")
        return options(configs[0])
    if not configs and arguments.board is not None:
        configs = default_pipelines(FACTS[arguments.board])
    return {f"`{config.name}`": config for config in configs or map(parse_config, DEFAULT)}


def main() -> int:
    """Print a table, one line a configuration as soon as it is known."""
    parser = argparse.ArgumentParser(description="Resources of pipelines on the FPGA of a board, "
                                     "by Yosys (some minutes each).")
    parser.add_argument("configs", metavar="CONFIG", nargs="*",
                        help="fields of a pipeline, such as bits=4,bus_width=128 (default: those "
                        "of --board, else 1, 2, 4 and 8 bits without and with look-ahead)")
    parser.add_argument("--board", choices=FACTS,
                        help="whose FPGA the share is of (the PYNQ boards' xc7z020), and whose "
                        "default pipelines are counted, those that look ahead from row to row too")
    parser.add_argument("--options", action="store_true",
                        help="CONFIG with each option turned over")
    parser.add_argument("--jobs", type=integer(1), default=1,
                        help="runs of Yosys at once (%(default)s)")
    arguments = parser.parse_args()
    try:
        rows = chosen(arguments)
    except ValueError as error:
        parser.error(str(error))
    facts = FACTS[arguments.board or "pynq-z1"]
    try:
        xc7.package()           # before netlists are made, which takes long
        print_header(f"configuration, {', '.join(facts.resources)}, of a {facts.device}")
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for label, used in zip(rows, pool.map(synthesize, rows.values()), strict=True):
                share = max(used[name] / facts.resources[name] for name in used)
                print_row(label, *(f"{count:,g}" for count in used.values()), f"{share:.0%}")
    except RuntimeError as error:
        raise SystemExit(f"error: {error}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
