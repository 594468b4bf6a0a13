"""Markdown tables that appear row by row, as long runs finish."""


def table(header: str) -> None:
    """Print the head of a table; commas separate the columns' names."""
    names = header.split(", ")
    print("\n| " + " | ".join(names) + " |\n|" + " --- |" * len(names), flush=True)


def row(*cells) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
