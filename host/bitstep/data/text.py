"""Text files in chunks of whole lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bitstep.data.dataset import DataError

CHUNK_BYTES = 1 << 20       # of text; bounds the memory for tokens


def line_chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Chunks of whole lines, each with the number of its first line (from 1)."""
    line = 1
    while text := file.read(CHUNK_BYTES):
        if not text.endswith(b"\n"):
            text += file.readline()
        if line == 1 and text.startswith(b"\xef\xbb\xbf"):
            text = text[3:]     # a byte order mark says nothing in UTF-8
        yield text, line
        line += text.count(b"\n")


def check_line_ends(text: bytes, path: Path) -> None:
    """Raise DataError for the first chunk of a text whose lines end in CR alone: it is one line."""
    if b"\r" in text.strip() and b"\n" not in text:
        raise DataError(f"{path}: lines must end in LF, or in CR and LF, not in CR alone; write "
                        "them anew, as `tr '\\r' '\\n'` does")
