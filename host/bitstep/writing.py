"""Text for people, where it is printed, and files that are written whole: tables, numbers,
durations, JSON.
"""

import contextlib
import errno
import io
import json
import math
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

MOST_LINES = 50             # of the table of a training's epochs

# Errors of a disk that takes no more.
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)

# Of these, what space mends.
_FULL = (errno.ENOSPC, errno.EDQUOT)

# Answers of file systems that reserve nothing in advance.
_CANNOT_RESERVE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


def open_streams() -> None:
    """Give a closed standard output or error (``>&-``) a place to write to: nowhere. What their
    encoding does not have, as in names of files, is written as an escape.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))     # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def space_or(other: str, error: OSError) -> str:
    """What to do about a folder that took no file: free some space, if that is what it lacks, or
    ``other``.
    """
    return f"free some space there, or {other}" if error.errno in _FULL else other


def drop_output() -> None:
    """Drop what is printed and cannot be written, which Python would say again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a temporary file beside ``path``, which takes its name when the block is over.

    After an error in the block, or a power cut at any moment, ``path`` is what it was before, or
    the whole new file. Of a link the file that it names is replaced, and not the link.

    Parameters
    ----------
    path : path
        The file to write; its folder must exist.

    Yields
    ------
    Path
        The temporary file, which the block must make.

    Raises
    ------
    OSError
        If the file cannot be written, with the name of ``path``.
    """
    target = Path(path).resolve()
    # Longest names have room for no more.
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        with temporary.open("r+b") as file:     # before its name, which could be on the disk first
            os.fsync(file.fileno())
        temporary.replace(target)
        with contextlib.suppress(OSError):      # not every system can do this
            _fsync_folder(target.parent)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary), temporary):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with contextlib.suppress(OSError):      # of the block's error this would hide the reason
            temporary.unlink(missing_ok=True)


def _fsync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


class ReservedSpace:
    """Space on disks that is kept free for files, as a context manager.

    Nameless files hold the space, so nothing is left behind however the process ends.

    Parameters
    ----------
    sizes : mapping of str to int
        Bytes for each file; the folders must exist.

    Raises
    ------
    OSError
        If there is not so much space; it names the file.
    """

    def __init__(self, sizes: Mapping[str, int]):
        self._files: dict[str, BinaryIO] = {}
        for path, n_bytes in sizes.items():
            try:
                self._files[path] = _reserve(Path(path).resolve().parent, n_bytes)
            except OSError as error:
                self.release()
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise OSError(error.errno, error.strerror, path) from error
                raise OSError(error.errno, f"{error.strerror}: {n_bytes:,} bytes are needed; free "
                              "some, or choose another folder", path) from error

    def release(self, path: str | None = None) -> None:
        """Give the space of a file back, or, without a name, all of it; twice is harmless."""
        for name in [path] if path is not None else list(self._files):
            if name in self._files:
                self._files.pop(name).close()

    def __enter__(self) -> "ReservedSpace":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _reserve(folder: Path, n_bytes: int) -> BinaryIO:
    file: Any = tempfile.TemporaryFile(dir=folder)      # noqa: SIM115  # stays open
    try:
        if not _allocate(file, n_bytes):
            file.write(bytes(n_bytes))
            file.flush()
    except BaseException:
        with contextlib.suppress(OSError):      # closing tries to write again
            file.close()
        raise
    return file


def _allocate(file: BinaryIO, n_bytes: int) -> bool:
    """Allocate space without writing to it; False if this system cannot."""
    try:
        os.posix_fallocate(file.fileno(), 0, max(n_bytes, 1))
    except AttributeError:
        return False
    except OSError as error:
        if error.errno not in _CANNOT_RESERVE:
            raise
        return False
    return True


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


def text_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return aligned text, with columns of numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [all(_is_number(row[column]) for row in cells) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *cells]
    return "\n".join("  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(line, widths, right, strict=True)).rstrip()
        for line in lines)


def first_of(values: Any, most: int, text: Callable[[Any], str] = str) -> str:
    """Values of a sequence or array as a list in a sentence; of more than ``most`` the first ones.

    Examples
    --------
    >>> first_of("abc", 3), first_of([1, 2, 3], 2)
    ('a, b, c', '1, 2, ...')
    """
    return ", ".join([*map(text, values[:most]), *["..."] * (len(values) > most)])


def shown_lines(count: int, most: int = MOST_LINES, also: Sequence[int] = ()) -> list[int]:
    """Numbers of lines to show of ``count``: all, or at most about so many evenly spaced ones, the
    first and the last among them.

    Parameters
    ----------
    count, most : int
        At least 1, and 2.
    also : sequence of int
        Lines that are shown in any case.

    Examples
    --------
    >>> shown_lines(3), shown_lines(9, most=3), shown_lines(9, most=3, also=[5])
    ([0, 1, 2], [0, 4, 8], [0, 4, 5, 8])
    """
    if count <= most:
        return list(range(count))
    return sorted({*(number * (count - 1) // (most - 1) for number in range(most)), *also})


def _cell(value):
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _is_number(text):
    # A figure, perhaps with its unit, but not a name such as "4 bits".
    return text == "-" or re.fullmatch(r"[+-]?\.?\d[\d.,e+%-]*( ?([munkMG]?(s|B|B/s|Hz)|x|%))?",
                                       text) is not None
