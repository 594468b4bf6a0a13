"""Text for people, and files that are written whole: tables, numbers, durations, JSON."""

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a temporary file beside ``path``, which takes its name when the block is over.

    After an error in the block, ``path`` is what it was before.

    Parameters
    ----------
    path : path
        The file to write; its folder must exist.

    Yields
    ------
    Path
        The temporary file, which the block must make.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a file, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON, with null for what is not finite (JSON has no NaN)."""
    write_text(path, json.dumps(_finite(value), indent=2, allow_nan=False) + "\n")


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def numbers(values: Sequence[float | None], digits: int = 6) -> list[str]:
    """Return the texts of a column of numbers, with the same decimals for all.

    Parameters
    ----------
    digits : int
        Significant digits of the number nearest to zero.
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    low, high = min(sizes, default=1.0), max(sizes, default=1.0)
    if high >= 1e7 or low < 1e-5 or high / low >= 1e5:
        style = f".{digits - 1}e"
    else:
        style = f".{max(0, digits - 1 - math.floor(math.log10(low)))}f"
    return ["-" if value is None else format(value, style) for value in values]


def duration(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    factor, unit = (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "us")
    return f"{seconds * factor:#.3g}".rstrip(".") + f" {unit}"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return aligned text, with columns of numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [all(_is_number(row[column]) for row in cells) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *cells]
    return "\n".join("  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(line, widths, right, strict=True)).rstrip()
        for line in lines)


def _cell(value):
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _is_number(text):
    # A figure, perhaps with its unit, but not a name such as "4 bits".
    return text == "-" or re.fullmatch(r"[+-]?\.?\d[\d.,e+%-]*( ?([munkMG]?(s|B|B/s|Hz)|x|%))?",
                                       text) is not None
