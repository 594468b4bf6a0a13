"""``bitstep deploy``: what a PYNQ board needs, copied and checked."""

import argparse
from pathlib import Path
from typing import Any

from bitstep.cli.options import UsageError, number
from bitstep.devices.deploy import (
    FOLDER,
    STEP_TIMEOUT_S,
    collect,
    deploy_local,
    deploy_remote,
    find_wheel,
)
from bitstep.pipeline.boards import FACTS


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "deploy", help="copy wheel, bitstreams and data to a PYNQ board",
        description="Copy this package, bitstreams and quantized data to a board by ssh, install "
        "them, compare checksums, and load every bitstream there to compare its identity.",
        epilog="Examples: bitstep deploy pynq-z2 xilinx@pynq --data cadata.npz; on the board "
        "itself: sudo bitstep deploy pynq-z2 --local --bitstream FILE.bit. docs/boards-pynq.md "
        "begins with a fresh SD card.")
    parser.add_argument("board", metavar="BOARD", choices=tuple(FACTS), help=", ".join(FACTS))
    parser.add_argument("host", metavar="HOST", nargs="?", help="where ssh finds it, such as "
                        "xilinx@192.168.2.99; it must let you in by key")
    parser.add_argument("--local", action="store_true", help="this machine is the board")
    parser.add_argument("--bitstream", action="append", default=[], type=Path, metavar="FILE.bit",
                        help="bitstream, with its .hwh and .json beside it; may be repeated "
                        "(default: all of the board in bitstreams/)")
    parser.add_argument("--data", action="append", default=[], type=Path, metavar="FILE.npz",
                        help="what `bitstep quantize` wrote; may be repeated")
    parser.add_argument("--wheel", type=Path, metavar="FILE.whl",
                        help="of this package (default: the newest in dist/)")
    parser.add_argument("--python", default="python3", metavar="COMMAND", help="the board's Python "
                        "with pynq, in a login shell of root (default: python3)")
    parser.add_argument("--folder", type=Path, default=FOLDER, metavar="DIR",
                        help="on the board, for bitstreams and data (default: %(default)s)")
    parser.add_argument("--no-check", dest="check", action="store_false",
                        help="do not load the bitstreams")
    # The system's waits end at 2^31 ms.
    parser.add_argument("--timeout", type=number(0, high=1e6), default=STEP_TIMEOUT_S, metavar="S",
                        help="limit of time for each step in seconds (default: 600)")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Deploy."""
    if arguments.local == (arguments.host is not None):
        raise UsageError("Either HOST or --local must be given, not "
                         + ("both" if arguments.local else "neither"))
    if (arguments.host or "").startswith("-"):      # ssh would take it for an option
        raise UsageError(f"HOST must be a name or an address, not {arguments.host!r}")
    payload = collect(arguments.board, arguments.bitstream, arguments.data)

    def tell(line: str) -> None:
        print(line, flush=True)

    if arguments.local:
        deploy_local(payload, arguments.folder, check=arguments.check, tell=tell)
    else:
        deploy_remote(payload, arguments.host, arguments.wheel or find_wheel(),
                      python=arguments.python, folder=arguments.folder, check=arguments.check,
                      timeout_s=arguments.timeout, tell=tell)
    return 0
