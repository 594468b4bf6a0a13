"""Requests to a board on a serial line, repeated until they arrive whole."""

import zlib

import numpy as np

from bitstep.devices.uart.protocol import (
    CRC_BYTES,
    INFORMATION_WORDS,
    MAX_WORDS,
    REPLY_HEADER_BYTES,
    REPLY_MAGIC,
    WORD_BYTES,
    Command,
    Information,
    Reply,
    parse_information,
    request,
)
from bitstep.devices.uart.transport import Transport
from bitstep.pipeline.results import DeviceError

_MIN_GAP_S = 0.05           # silence after a failure, before the board has told its own limit
_READS = (Command.READ_MEMORY, Command.READ_REGISTER, Command.READ_INFORMATION)


class UartLink:
    """Requests and their replies, repeated until they arrive whole.

    Parameters
    ----------
    transport : Transport
        The line.
    baud : int
        Bits per second, for how long a packet takes.
    timeout_s : float
        How long the board may take to answer, beyond the packets' own time.
    attempts : int
        How often a request is sent before it fails.
    """

    def __init__(self, transport: Transport, *, baud: int, timeout_s: float = 1.0,
                 attempts: int = 4):
        if not timeout_s > 0 or attempts < 1:
            raise ValueError("A link needs a timeout above 0 s and at least 1 attempt, not "
                             f"{timeout_s} and {attempts}")
        self.transport, self.baud = transport, baud
        self.timeout_s, self.attempts = timeout_s, attempts
        self.gap_s = _MIN_GAP_S
        self.repeated = 0           # requests that had to be sent again
        # The board's reset value is 0, and it would take a register written with it for repeated;
        # so the first request is one that writes nothing.
        self._sequence = 0

    def information(self) -> Information:
        """Return the facts that the board tells of itself.

        Raises
        ------
        DeviceError
            If there is no answer, or not one of a board with this protocol.
        """
        words = np.frombuffer(self.call(Command.READ_INFORMATION, 0, INFORMATION_WORDS), "<u8")
        found = parse_information([int(word) for word in words])
        if found is None:
            raise DeviceError(f"What answers on {self.transport.name} speaks another version of "
                              f"the protocol (signature {int(words[0]):016x}): load a bitstream "
                              "built with this version of bitstep")
        self.gap_s = found.gap_s
        return found

    def call(self, command: Command, address: int, n_words: int, payload: bytes = b"") -> bytes:
        """Send a request and return the words that it reads; empty for a write.

        Parameters
        ----------
        command : Command
        address : int
            See :class:`~bitstep.devices.uart.protocol.Command`.
        n_words : int
            Words to read or write.
        payload : bytes
            The words to write; empty for a read.

        Raises
        ------
        DeviceError
            If the board refuses, or no attempt gets a whole answer.
        """
        self._sequence = (self._sequence + 1) % 256
        packet = request(self._sequence, command, address, n_words, payload)
        expected = n_words * WORD_BYTES if command in _READS else 0
        problem = ""
        for attempt in range(self.attempts):
            if attempt:
                # Silence ends whatever the board believes to be in the middle of.
                self.repeated += 1
                self.transport.sleep(2 * self.gap_s)
                self.transport.discard()
            self.transport.write(packet)
            status, words, problem = self._receive(expected, len(packet))
            if status == Reply.REFUSED:
                raise DeviceError(f"The board on {self.transport.name} refused "
                                  f"{command.name} of {n_words} words at 0x{address:x}: the "
                                  "address is outside of its memory, or the bitstream is of "
                                  "another version of bitstep")
            if status == Reply.OK:
                return words
        raise DeviceError(
            f"The board on {self.transport.name} did not answer {command.name} in {self.attempts} "
            f"attempts ({problem}): check the cable, the port, that the bitstream is loaded and "
            f"that it was built for {self.baud} baud")

    def _receive(self, expected: int, sent: int) -> tuple[int | None, bytes, str]:
        """Status, words and what went wrong; None for no whole reply."""
        seconds = self.timeout_s + 10 * (sent + expected + REPLY_HEADER_BYTES + CRC_BYTES) \
            / self.baud
        header = self.transport.read(REPLY_HEADER_BYTES, seconds)
        if len(header) < REPLY_HEADER_BYTES:
            return None, b"", f"{len(header)} bytes within {seconds:.1f} s" if header \
                else f"nothing within {seconds:.1f} s"
        magic, sequence, status, _ = header
        if magic != REPLY_MAGIC or sequence != self._sequence:
            return None, b"", "not the reply to this request"
        length = expected if status == Reply.OK else 0
        rest = self.transport.read(length + CRC_BYTES, seconds)
        if len(rest) < length + CRC_BYTES:
            return None, b"", f"the reply ended after {len(header) + len(rest)} bytes"
        words = rest[:length]
        if zlib.crc32(header + words) != int.from_bytes(rest[length:], "little"):
            return None, b"", "the reply's checksum is wrong"
        return status, words, "the words' checksum is wrong" if status == Reply.DAMAGED else ""

    def read_memory(self, address: int, n_bytes: int) -> bytes:
        """Return bytes of the shared memory; address and number are multiples of 8."""
        parts = []
        for at in range(0, n_bytes, MAX_WORDS * WORD_BYTES):
            size = min(n_bytes - at, MAX_WORDS * WORD_BYTES)
            parts.append(self.call(Command.READ_MEMORY, address + at, size // WORD_BYTES))
        return b"".join(parts)

    def write_memory(self, address: int, content: bytes) -> None:
        """Write bytes into the shared memory; address and length are multiples of 8."""
        for at in range(0, len(content), MAX_WORDS * WORD_BYTES):
            part = content[at:at + MAX_WORDS * WORD_BYTES]
            self.call(Command.WRITE_MEMORY, address + at, len(part) // WORD_BYTES, part)
