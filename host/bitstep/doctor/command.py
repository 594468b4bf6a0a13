"""``bitstep doctor``: an examination of a device, as a report that its owner can send."""

import argparse
from pathlib import Path
from typing import Any

from bitstep.cli.configuration import add_configuration_options, configuration
from bitstep.cli.device import add_device_options, device_options
from bitstep.cli.options import integer, number
from bitstep.cli.paths import check_writable
from bitstep.devices import open_device
from bitstep.writing import write_text


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "doctor", help="examine a device: versions, clock, registers, memory, interrupt, training, "
        "speed",
        description="Examine a device and print a report: versions, clock, registers, memory, "
        "interrupt, short trainings against the golden model, an abort, counters, speed. The exit "
        "code is 1 if something is wrong.",
        epilog="Examples: bitstep doctor --device pynq --out report.txt; bitstep doctor --device "
        "uart --port /dev/ttyUSB0 --manifest bitstreams/FILE.json. The report is explained in "
        "docs/doctor.md. No other program may use the device meanwhile.")
    device = parser.add_argument_group("device")
    add_device_options(device, default="sim")
    examination = parser.add_argument_group("examination")
    examination.add_argument("--memory-mib", type=integer(1, 1 << 16), default=16, metavar="N",
                             help="size of the large buffer of the memory test (default: 16; "
                             "where there is less, a half of it and so on)")
    examination.add_argument("--timeout", type=number(0), default=10.0, metavar="S",
                             help="limit of time for each short run in seconds (default: 10)")
    examination.add_argument("--clock-sweep", action="store_true",
                             help="at the end, find the fastest clock at which this board still "
                             "trains right (device pynq); a clock that is too fast may write "
                             "anywhere in the board's memory: save your work before")
    examination.add_argument("--out", metavar="FILE.txt", help="write the report, too")
    add_configuration_options(parser.add_argument_group(
        "pipeline", "For sim, golden, and to choose a bitstream; where a manifest is given, the "
        "pipeline is the manifest's."))     # type: ignore[arg-type]
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Examine, print and write."""
    from bitstep.doctor import examine
    check_writable(arguments.out, arguments.wave, sources=[
        path for path in (arguments.manifest, arguments.bitfile) if path])
    options = device_options(arguments)
    config = configuration(arguments)
    manifest = arguments.manifest
    if arguments.bitfile:
        manifest = Path(arguments.bitfile).with_suffix(".json")

    def opening():
        try:
            return open_device(arguments.device, config, **options)
        finally:
            if "progress" in options:
                options["progress"].clear()

    printer = _Printer(lasting=arguments.out is not None)
    report = examine(opening, manifest=manifest, tell=printer, timeout_s=arguments.timeout,
                     memory_bytes=arguments.memory_mib << 20, clock_sweep=arguments.clock_sweep)
    if arguments.out:
        write_text(arguments.out, report.text)
        printer(f"\nwrote {arguments.out}")
    printer.check()
    return 1 if report.failed else 0


class _Printer:
    """Prints text at once, as long as it can be written.

    Parameters
    ----------
    lasting : bool
        True if the text is for a file, too, so that what reads it may end and nothing be raised
        before :meth:`check`.
    """

    def __init__(self, *, lasting: bool):
        self._lasting = lasting
        self._error: OSError | None = None

    def __call__(self, text: str) -> None:
        """Print a part."""
        if self._error is not None:
            return
        try:
            print(text, flush=True)
        except OSError as error:
            if not self._lasting:
                raise
            self._error = error

    def check(self) -> None:
        """Raise the first OSError of a part that could not be printed."""
        if self._error is not None:
            raise self._error
