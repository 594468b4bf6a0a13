"""Tables in Markdown."""

from collections.abc import Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, with the bars of its cells escaped."""
    bodies = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *bodies]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
