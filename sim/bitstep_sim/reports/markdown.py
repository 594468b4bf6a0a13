"""Markdown tables that appear row by row, as long runs finish; and what a report shall show."""

import argparse
from collections.abc import Iterable


def print_header(header: str) -> None:
    """Print the head of a table; commas separate the columns' names."""
    names = header.split(", ")
    print("\n| " + " | ".join(names) + " |\n|" + " --- |" * len(names), flush=True)


def print_row(*cells) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def add_choice(parser: argparse.ArgumentParser, name: str, known: Iterable[str],
               text: str = "") -> None:
    """Add arguments that are some of ``known``, all by default.

    Parameters
    ----------
    name : str
        Name of the list, which ends in ``s``.
    text : str
        More of the help.
    """
    names = list(known)

    def one(given: str) -> str:
        if given not in names:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(names)}, not {given!r}")
        return given

    parser.add_argument(name, nargs="*", metavar=name.upper()[:-1], type=one, default=names,
                        help=f"{', '.join(names)} (default: all){text}")
