"""Tables in Markdown, whole or row by row, as long runs finish; and the choice of their rows."""

import argparse
from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, with the bars of its cells escaped."""
    bodies = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *bodies]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


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
