"""Content of buffers, as it was written and as it is found, compared a chunk at a time: a board has
little memory beside the contiguous one that is examined.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bitstep.pipeline.parts.widths import ceil_div

CHUNK = 1 << 16             # bytes that are made or compared at a time
LINE = 32                   # bytes of the shortest line of a cache
FEW_BITS = 8                # in which all wrong words differ, at most, to be called stuck


def pattern(address: int, n_bytes: int) -> np.ndarray:
    """Make bytes that differ from word to word, by the word's address."""
    words = np.arange(address // 8, address // 8 + ceil_div(n_bytes, 8), dtype=np.uint64)
    for factor, shift in ((0x9E37_79B9_7F4A_7C15, 29), (0xBF58_476D_1CE4_E5B9, 32)):
        words *= np.uint64(factor)
        words ^= words >> np.uint64(shift)
    return words.view(np.uint8)[:n_bytes]


def chunks(n_bytes: int) -> Iterator[slice]:
    """Yield the parts of a buffer."""
    for start in range(0, n_bytes, CHUNK):
        yield slice(start, min(start + CHUNK, n_bytes))


class Image:
    """Content that a buffer must have: a pattern, and what was written over it.

    Parameters
    ----------
    buffer : Buffer
        Of the device.
    inverted : bool
        True: every bit of the pattern is the other one.
    """

    def __init__(self, buffer: Any, *, inverted: bool = False):
        self.buffer, self.flip = buffer, np.uint8(0xFF * inverted)
        self._written: list[tuple[int, np.ndarray]] = []

    def base(self, part: slice) -> np.ndarray:
        """Return the pattern alone."""
        skipped = part.start % 8
        found = pattern(self.buffer.address + part.start - skipped,
                        part.stop - part.start + skipped)[skipped:]
        found ^= self.flip
        return found

    def read(self, part: slice) -> np.ndarray:
        """Return the content."""
        found = self.base(part)
        for start, values in self._written:
            overlay(found, part, start, values)
        return found

    def write(self, start: int, values: np.ndarray) -> None:
        """Note bytes that are written over the content."""
        self._written.append((start, values))

    def fill(self) -> None:
        """Write the content to the buffer."""
        for part in chunks(self.buffer.array.size):
            self.buffer.array[part] = self.read(part)


def overlay(target: np.ndarray, part: slice, start: int, values: Any) -> None:
    """Put into a chunk what bytes from ``start`` on have of it."""
    first, last = max(start, part.start), min(start + len(values), part.stop)
    if first < last:
        target[first - part.start:last - part.start] = values[first - start:last - start]


class Digests:
    """Digests of the lines of a buffer, by which content of before is known again: an eighth of
    its bytes.

    Parameters
    ----------
    content : callable
        Returns the bytes of a part.
    n_bytes : int
    """

    def __init__(self, content: Any, n_bytes: int):
        self._found = np.empty(ceil_div(n_bytes, LINE), np.uint32)
        for part in chunks(n_bytes):
            self._found[self._lines(part)] = _digests(content(part))

    @staticmethod
    def _lines(part):
        return slice(part.start // LINE, ceil_div(part.stop, LINE))

    def same(self, part: slice, content: np.ndarray, wrong: np.ndarray) -> bool:
        """Return True if all lines of a chunk that have one of the wrong bytes are as before."""
        lines = np.unique(wrong // LINE)
        return bool((_digests(content)[lines] == self._found[self._lines(part)][lines]).all())


_FACTORS = pattern(8, LINE).view(np.uint64) | np.uint64(1)


def _digests(content):
    whole = np.zeros(ceil_div(len(content), LINE) * LINE, np.uint8)
    whole[:len(content)] = content
    mixed = (whole.view(np.uint64).reshape(-1, LINE // 8) * _FACTORS).sum(axis=1, dtype=np.uint64)
    return (mixed >> np.uint64(32)).astype(np.uint32)


@dataclass
class Difference:
    """Wrong bytes of a buffer.

    Attributes
    ----------
    count : int
    first, expected, found : int
        Offset of the first wrong byte, the byte that belongs there and the one that is there.
    bits, ones : int
        Of words of 64 bits that have wrong bytes, those bits that are wrong in any, and those that
        are one in any.
    as_before : bool
        True while all wrong bytes are of the content before.
    """

    count: int = 0
    first: int = -1
    expected: int = 0
    found: int = 0
    bits: int = 0
    ones: int = 0
    as_before: bool = field(default=True)

    def add(self, part: slice, expected: np.ndarray, found: np.ndarray, wrong: np.ndarray) -> None:
        """Add the wrong bytes of a chunk."""
        if self.first < 0:
            at = int(wrong[0])
            self.first, self.expected = part.start + at, int(expected[at])
            self.found = int(found[at])
        self.count += len(wrong)
        whole = len(found) // 8 * 8
        places = np.unique(wrong[wrong < whole] // 8)
        ours, theirs = (words[:whole].view(np.uint64)[places] for words in (expected, found))
        self.bits |= int(np.bitwise_or.reduce(ours ^ theirs, initial=0))
        self.ones |= int(np.bitwise_or.reduce(theirs, initial=0))

    def __str__(self):
        return f"0x{self.found:02x} instead of 0x{self.expected:02x}"


def compare(buffer: Any, image: Image, before: Digests) -> Difference:
    """Compare a buffer with the content that it must have.

    Parameters
    ----------
    buffer : Buffer
    image : Image
    before : Digests
        Of its content before that was written.
    """
    difference = Difference()
    for part in chunks(buffer.array.size):
        expected, found = image.read(part), buffer.array[part].copy()
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            difference.add(part, expected, found, wrong)
            difference.as_before &= before.same(part, found, wrong)
    return difference


def find_word(word: bytes, images: list[Image]) -> int | None:
    """Return the address that a word of 64 bits belongs to; None if it belongs nowhere."""
    value = np.frombuffer(word, np.uint64)[0]
    for image in images:
        for part in chunks(image.buffer.array.size // 8 * 8):
            at = np.flatnonzero(image.read(part).view(np.uint64) == value)
            if len(at):
                return image.buffer.address + part.start + 8 * int(at[0])
    return None


def stuck(bits: int, ones: int, width: int) -> str:
    """Name the wrong bits of words, if they are few and the same in each."""
    wrong = [bit for bit in range(64) if bits >> bit & 1]
    if not wrong or len(wrong) > FEW_BITS:
        return ""
    said = ", ".join(f"{bit} (reads {ones >> bit & 1})" for bit in wrong)
    return f"; of each word of {width} bits these bits are wrong: {said}"
