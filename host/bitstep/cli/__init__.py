"""The command ``bitstep``: each subcommand is a module that an entry point names.

A module has ``add_parser(commands)``, which declares the options and returns the parser, and
``run(arguments)``, which returns the exit code. Those of this package need NumPy alone.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import bitstep
from bitstep.cli.options import UsageError
from bitstep.cli.progress import shown
from bitstep.cli.signals import stop_signals
from bitstep.cli.words import in_options
from bitstep.options.rules import RuleError
from bitstep.plugins import entry_points
from bitstep.writing import NOT_WRITTEN, drop_output, open_streams, space_or

GROUP = "bitstep.commands"
FIRST = ("train", "quantize", "predict")    # in this order; the others follow by name

# What a user can cause: bad data and parameters (ValueError), devices, tools and runs
# (RuntimeError), files (OSError), data that are too large (MemoryError).
USER_ERRORS = (ValueError, RuntimeError, OSError, MemoryError)


class _Unavailable:
    """In place of a subcommand whose module cannot be imported."""

    def __init__(self, name: str, error: ImportError):
        self._name = name
        self._message = (f"the subcommand cannot be loaded, because {error}; install the package "
                         "that offers it again, with what it needs")

    def add_parser(self, commands):
        """Declare the subcommand, with no options."""
        return commands.add_parser(self._name, help=self._message, description=self._message)

    def run(self, arguments):
        """Raise the error that the import gave."""
        raise RuntimeError(self._message)


def subcommands(name: str | None = None) -> list[Any]:
    """Modules of the subcommands that installed packages offer, in the order of the help.

    Parameters
    ----------
    name : str or None
        Subcommand whose module alone is loaded, if there is one of that name: the others take time
        and memory.

    Raises
    ------
    SystemExit
        If bitstep is not installed.
    """
    points = entry_points(GROUP)
    if not points:
        raise SystemExit("bitstep: error: no subcommand is installed; found the sources of bitstep "
                         "without its package: pip install -e . where pyproject.toml is")
    names = [name] if name in points else [
        *(first for first in FIRST if first in points),
        *(other for other in points if other not in FIRST)]
    modules = []
    for each in names:
        try:
            modules.append(points[each].load())
        except ImportError as error:
            modules.append(_Unavailable(each, error))
    return modules


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; of one subcommand, see :func:`subcommands`."""
    modules = subcommands(only)
    parser = argparse.ArgumentParser(
        prog="bitstep", description="Train dense linear models on FPGAs, or on a simulated board, "
        "from data streamed at 1 to 8 bits per value.",
        epilog="`bitstep COMMAND --help` explains a command. Exit code: 0, 1 (it failed), 2 (wrong "
        "use), 130 (Ctrl-C), 143 (SIGTERM), 129 (closed terminal).")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("--version", action="version", version=f"bitstep {bitstep.__version__}",
                        help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in modules:
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
        0, 1 if the command failed, 130 after Ctrl-C, 143 after SIGTERM, or 129 after SIGHUP.

    Raises
    ------
    SystemExit
        With code 2 for wrong use, and 0 after ``--help``.
    """
    open_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    parsed = _parsed(arguments)
    shown.quiet = getattr(parsed, "quiet", False)
    with stop_signals, warnings.catch_warnings():
        warnings.showwarning = partial(_show_warning, parsed, warnings.showwarning)
        return _run(parsed)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Options of a command; some print something and end the process, as ``--help``.

    Raises
    ------
    SystemExit
        With code 1 if what they print cannot be written.
    """
    command = next((word for word in arguments if not word.startswith("-")), None)
    parser = build_parser(command)
    try:
        try:
            return parser.parse_args(arguments)
        finally:
            sys.stdout.flush()
    except OSError as error:
        drop_output()
        if not isinstance(error, BrokenPipeError):
            print(f"bitstep: error: {_text_of(error)}", file=sys.stderr)
    raise SystemExit(1)


def _show_warning(parsed: argparse.Namespace, show: Any, message: Any, category: Any,
                  *others: Any) -> None:
    """Print a warning of the library as one line; those of other packages as they are."""
    if category is not UserWarning:
        show(message, category, *others)
        return
    print(f"bitstep {parsed.command}: warning: {in_options(str(message), parsed.parser)}",
          file=sys.stderr)


def _text_of(error: Exception) -> str:
    """Message of an error; of a file that could not be written what, where, and what to do."""
    if not isinstance(error, OSError) or error.errno not in NOT_WRITTEN:
        return str(error)
    remedy = ("" if "; " in str(error.strerror) else
              f"; {space_or('write to another folder', error)}")
    return f"{error.filename or 'the output'} cannot be written: {error.strerror}{remedy}"


def _run(parsed: argparse.Namespace) -> int:
    try:
        code = parsed.run(parsed)
        sys.stdout.flush()
        return code
    except RuleError as error:
        if parsed.debug:
            raise
        parsed.parser.error(str(error))
    except UsageError as error:
        parsed.parser.error(in_options(str(error), parsed.parser))
    except BrokenPipeError:     # who read our output has seen enough, as in `bitstep ... | head`
        drop_output()
    except USER_ERRORS as error:
        if parsed.debug:
            raise
        # The error may be of what the signal left undone, but not once nothing is to be stopped.
        if stop_signals.dropped and not stop_signals.deferred:
            return _interrupted(parsed)
        text = in_options(_text_of(error), parsed.parser) or type(error).__name__
        print(f"bitstep {parsed.command}: error: {text}", file=sys.stderr)
        drop_output()
    except KeyboardInterrupt as error:
        if parsed.debug:
            raise
        return _interrupted(parsed, str(error))
    return 1


def _interrupted(parsed: argparse.Namespace, said: str = "") -> int:
    """Print that a signal has ended the command, or what was said of it; the exit code."""
    print(f"bitstep {parsed.command}: {said or 'interrupted'}", file=sys.stderr)
    return stop_signals.code
