"""Packets between a host and a board on a serial line.

A request is the magic byte, sequence number, command, number of words less 1, address (4 bytes)
and the CRC-32 of these; writes are followed by the words and the CRC-32 of the words. A reply is
the magic byte, sequence number, status, number of words less 1, the words of a read, and the
CRC-32 of all that. Numbers are little-endian, a word has 8 bytes. The board is never the first to
speak, and says nothing to a header that arrives damaged.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

REQUEST_MAGIC, REPLY_MAGIC = 0xB5, 0x5B
SIGNATURE = int.from_bytes(b"bitstep\x01", "little")     # the last byte is the protocol's version
HEADER_BYTES = 8            # of a request, without the checksum
REPLY_HEADER_BYTES = 4
CRC_BYTES = 4
WORD_BYTES = 8
MAX_WORDS = 256             # of a packet
INFORMATION_WORDS = 4


class Command(IntEnum):
    """Kinds of requests; their address counts bytes, that of READ_INFORMATION words."""

    READ_MEMORY = 1
    WRITE_MEMORY = 2
    READ_REGISTER = 3       # a word for each register of 32 bits
    WRITE_REGISTER = 4      # one
    READ_INFORMATION = 5


class Reply(IntEnum):
    """Status of a reply."""

    OK = 0
    DAMAGED = 1             # the checksum of the words was wrong; nothing but memory was written
    REFUSED = 2             # no such command, or outside of the memory


@dataclass(frozen=True)
class Information:
    """Facts that a board tells of itself.

    Attributes
    ----------
    base, n_bytes : int
        Address and size of the memory that host and pipeline share.
    clock_hz, baud : int
        Clock of the pipeline; bits per second on the line.
    gap_s : float
        Time without a byte after which the board gives up an unfinished request.
    """

    base: int
    n_bytes: int
    clock_hz: int
    baud: int
    gap_s: float


def information(*, base: int, n_bytes: int, clock_hz: int, baud: int, gap_s: float) -> list[int]:
    """Return the words of READ_INFORMATION; see :class:`Information`."""
    return [SIGNATURE, base | n_bytes << 32, clock_hz | baud << 32, round(gap_s * 1e6)]


def parse_information(words: list[int]) -> Information | None:
    """Return the facts in the words of READ_INFORMATION; None if they are not of this protocol."""
    if len(words) != INFORMATION_WORDS or words[0] != SIGNATURE:
        return None
    low = 0xFFFF_FFFF
    return Information(words[1] & low, words[1] >> 32, words[2] & low, words[2] >> 32,
                       (words[3] & low) / 1e6)


def request(sequence: int, command: Command, address: int, n_words: int,
            payload: bytes = b"") -> bytes:
    """Return the bytes of a request.

    Parameters
    ----------
    sequence : int
        Number of the request, 0 to 255.
    command : Command
    address : int
        See :class:`Command`.
    n_words : int
        Words to read or write, 1 to ``MAX_WORDS``.
    payload : bytes
        The ``8 * n_words`` bytes to write; empty for a read.
    """
    header = struct.pack("<BBBBI", REQUEST_MAGIC, sequence, command, n_words - 1, address)
    packet = header + struct.pack("<I", zlib.crc32(header))
    return packet + payload + struct.pack("<I", zlib.crc32(payload)) if payload else packet
