"""The command ``bitstep``: one module for each subcommand, with NumPy alone where that suffices."""

import argparse
import os
import sys
from collections.abc import Sequence

from bitstep.cli import (
    bench,
    curves,
    deploy,
    devices,
    doctor,
    info,
    predict,
    quantize,
    rtl,
    train,
)
from bitstep.cli.common import UsageError

COMMANDS = (train, bench, curves, quantize, predict, rtl, info, devices, deploy, doctor)

# What a user can cause: bad data and parameters (ValueError), devices, tools and runs
# (RuntimeError), files (OSError), data that are too large (MemoryError).
USER_ERRORS = (ValueError, RuntimeError, OSError, MemoryError)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="bitstep", description="Train dense linear models on FPGAs, or on a simulated board, "
        "from data streamed at 1 to 8 bits per value.",
        epilog="`bitstep COMMAND --help` explains a command. Exit code: 0, 1 (it failed), 2 (wrong "
        "use).")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        command = module.add_parser(commands)
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS,
                             help="show the traceback of an error")
        command.set_defaults(run=module.run, parser=command)
        # An error prints the usage: one line, not every option.
        positional = " ".join(
            f"[{action.metavar}]" if action.nargs == "?" else str(action.metavar)
            for action in command._actions if not action.option_strings)
        command.usage = f"{command.prog} {positional} [options]".replace("  ", " ")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        0, or 1 if the command failed.

    Raises
    ------
    SystemExit
        With code 2 for wrong use, and 0 after ``--help``.
    """
    parsed = build_parser().parse_args(arguments)
    try:
        code = parsed.run(parsed)
        sys.stdout.flush()
        return code
    except UsageError as error:
        parsed.parser.error(str(error))
    except BrokenPipeError:     # who read our output has seen enough, as in `bitstep ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except USER_ERRORS as error:
        if parsed.debug:
            raise
        print(f"bitstep {parsed.command}: error: {error or type(error).__name__}", file=sys.stderr)
    except KeyboardInterrupt as error:
        if parsed.debug:
            raise
        print(f"bitstep {parsed.command}: {error if str(error) else 'interrupted'}",
              file=sys.stderr)
    return 1
