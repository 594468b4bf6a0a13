"""``bitstep rtl``: Verilog of a pipeline."""

import argparse
from typing import Any

from bitstep import __version__
from bitstep.cli.configuration import add_configuration_options, configuration
from bitstep.cli.paths import check_writable
from bitstep.cli.progress import StatusLine
from bitstep.options.table import OPTIONS
from bitstep.pipeline.parts.widths import USUAL_BUS_WIDTH
from bitstep.writing import write_text


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "rtl", help="write the Verilog of a pipeline",
        description="Generate the RTL of one pipeline as Verilog; the top is bitstep_top.",
        epilog="Example: bitstep rtl --bits 4 --bus-width 512 --out bitstep_top.v")
    add_configuration_options(parser, bus_width=str(USUAL_BUS_WIDTH))
    OPTIONS["bit_planes"].declare(parser,
                                  help="take bit-plane rows (`bitstep quantize --bit-planes`): "
                             "each run chooses how many bit planes an epoch reads")
    parser.add_argument("--out", default="bitstep_top.v", metavar="FILE.v",
                        help="file to write (default: bitstep_top.v)")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Generate and write."""
    check_writable(arguments.out)
    config = configuration(arguments)
    try:
        from bitstep_hw.top import identity, verilog_of
    except ImportError as error:
        raise RuntimeError(f'RTL needs Amaranth ({error}): pip install "bitstep[hw]"') from error
    status = StatusLine("rtl")          # rows of a million features take minutes
    status(f"generating {config.name}")
    try:
        text = verilog_of(config)
    finally:
        status.clear()
    number = f"{identity(config):032x}"
    text = (f"// bitstep {__version__}, pipeline {config.name}, identity {number}\n"
            f"// SPDX-License-Identifier: Apache-2.0\n{text}")
    write_text(arguments.out, text)
    print(f"wrote {arguments.out}: {config.name}, {len(text):,} characters, identity {number}")
    return 0
