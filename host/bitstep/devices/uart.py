"""A board on a serial line: registers and on-chip memory through packets."""

import contextlib
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bitstep.devices.register_device import RegisterDevice
from bitstep.devices.uart_protocol import (
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
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import DeviceError

ALIGNMENT = 64              # of buffers, in bytes; more would be a waste of so little memory
POLL_S = 0.02               # between two looks at a run
_MIN_GAP_S = 0.05           # silence after a failure, before the board has told its own limit
_READS = (Command.READ_MEMORY, Command.READ_REGISTER, Command.READ_INFORMATION)


class Transport(Protocol):
    """A serial line: bytes, and the time that passes on it."""

    name: str

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def read(self, n_bytes: int, timeout_s: float) -> bytes:
        """Receive ``n_bytes``, or fewer if they do not come in time."""
        ...

    def discard(self) -> None:
        """Forget what was received and not read."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def close(self) -> None:
        """Release the line; calling it twice is harmless."""


class SerialTransport:
    """A serial port of this machine, by pyserial.

    Parameters
    ----------
    port : str
        Such as ``/dev/ttyUSB0`` or ``COM3``.
    baud : int
        Bits per second.

    Raises
    ------
    DeviceError
        If pyserial is not installed or the port cannot be opened; the message lists those that
        there are.
    """

    def __init__(self, port: str, baud: int):
        try:
            import serial
            from serial.tools import list_ports
        except ImportError as error:
            raise DeviceError("Device 'uart' needs pyserial, which is not installed: "
                              'pip install "bitstep[uart]"') from error
        self.name = port
        self._error = serial.SerialException
        try:
            self._port = serial.Serial(port, baud, timeout=0, write_timeout=10, exclusive=True)
        except (serial.SerialException, ValueError, OSError) as error:
            found = ", ".join(sorted(entry.device for entry in list_ports.comports())) or "none"
            raise DeviceError(
                f"The serial port {port} cannot be opened at {baud} baud: {error}; ports that "
                f"exist: {found}. If it is gone since a bitstream was loaded, unplug the board's "
                "USB cable and plug it in again; if it is denied, add yourself to the port's group "
                "(`sudo usermod -aG dialout $USER`, then log in again)") from error
        # An FTDI bridge else keeps the end of each answer for 16 ms. A port that is none, or
        # another system than Linux, does not know it.
        with contextlib.suppress(ValueError, OSError, AttributeError, NotImplementedError):
            self._port.set_low_latency_mode(True)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._call(lambda: self._port.write(data))

    def read(self, n_bytes: int, timeout_s: float) -> bytes:
        """Receive ``n_bytes``, or fewer if they do not come in time."""
        def receive():
            self._port.timeout = timeout_s
            return self._port.read(n_bytes)
        return self._call(receive)

    def discard(self) -> None:
        """Forget what was received and not read."""
        self._call(self._port.reset_input_buffer)

    def _call(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (self._error, OSError) as error:
            raise DeviceError(f"The serial port {self.name} failed: {error}; is the board still "
                              "connected?") from error

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close the port; twice is harmless."""
        self._port.close()


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
        """What the board tells of itself.

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
        """Words that a read gives; empty for a write.

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
        """Bytes of the shared memory; address and number are multiples of 8."""
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


class UartBuffer:
    """Memory of the board and the host's copy of it.

    Parameters
    ----------
    device : UartDevice
        The device that allocated it.
    address, n_bytes : int
        Where it is, and its size.
    """

    def __init__(self, device: "UartDevice", address: int, n_bytes: int):
        self._device: UartDevice | None = device
        self.address = address
        self._whole = np.zeros(-(-n_bytes // WORD_BYTES) * WORD_BYTES, np.uint8)
        self.array = self._whole[:n_bytes]

    def _link(self) -> UartLink:
        if self._device is None:
            raise DeviceError("The buffer was freed, or its device closed")
        return self._device.link

    def to_device(self) -> None:
        """Send what the host wrote."""
        self._link().write_memory(self.address, self._whole.tobytes())

    def from_device(self) -> None:
        """Fetch what the pipeline wrote."""
        content = self._link().read_memory(self.address, self._whole.size)
        self._whole[:] = np.frombuffer(content, np.uint8)

    def free(self) -> None:
        """Give the memory back; twice is harmless."""
        if self._device is not None:
            self._device._release(self)
            self._device = None


class UartDevice(RegisterDevice):
    """A board with an FPGA behind a serial port, such as a ULX3S.

    The shared memory is the FPGA's own, of some
    hundred KiB, so buffers are aligned to 64 bytes and not to pages.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline that the data needs; the one on the board is the manifest's.
    port : str
        Serial port, such as ``/dev/ttyUSB0``.
    manifest : path
        JSON file that was made with the bitstream (``bitstreams/``).
    timeout_s : float
        How long the board may take to answer a request.
    transport : Transport, optional
        A line to use instead of ``port``.

    Attributes
    ----------
    link : UartLink
        Requests to the board.
    memory_bytes : int
        Size of the shared memory.
    manifest : Path

    Raises
    ------
    DeviceError
        If the manifest or the port cannot be used, or no board of this protocol answers.
    """

    name = "uart"

    def __init__(self, config: PipelineConfig, *, port: str | None = None,
                 manifest: str | Path | None = None, timeout_s: float = 1.0,
                 transport: Transport | None = None):
        if manifest is None:
            raise DeviceError(
                "Device 'uart' must be told which bitstream is on the board: --manifest FILE.json, "
                "the file that was made with the bitstream (bitstreams/ holds them)")
        self.config, self.identity, baud = read_manifest(manifest)
        self.manifest = Path(manifest)
        if transport is None:
            if port is None:
                raise DeviceError("Device 'uart' must be told the board's serial port: "
                                  "--port PORT, such as /dev/ttyUSB0")
            transport = SerialTransport(port, baud)
        self.link = UartLink(transport, baud=baud, timeout_s=timeout_s)
        self._buffers: list[UartBuffer] = []
        try:
            found = self.link.information()
        except BaseException:
            transport.close()
            raise
        self.clock_hz = float(found.clock_hz)
        self.memory_bytes = found.n_bytes
        self._base = found.base

    def facts(self) -> dict[str, str]:
        """Return facts that the board told, for a report."""
        return {"line": f"{self.link.transport.name}, {self.link.baud:,} baud",
                "shared memory": f"{self.memory_bytes:,} bytes from 0x{self._base:x}",
                "requests sent again": str(self.link.repeated)}

    def seconds(self) -> float:
        """Return the time on the board: the host's clock, unless the line has one of its own, as
        a simulated one does.
        """
        own = getattr(self.link.transport, "seconds", None)
        return own() if own else time.monotonic()

    def read(self, offset: int) -> int:
        """Read the 32-bit register at byte ``offset``."""
        return int.from_bytes(self.link.call(Command.READ_REGISTER, offset, 1)[:4], "little")

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at byte ``offset``."""
        word = (value & 0xFFFF_FFFF).to_bytes(WORD_BYTES, "little")
        self.link.call(Command.WRITE_REGISTER, offset, 1, word)

    def allocate(self, n_bytes: int) -> UartBuffer:
        """Allocate memory of the board.

        Raises
        ------
        MemoryError
            If there is not so much; the message says how much there is and what would fit.
        """
        if n_bytes < 1:
            raise ValueError(f"A buffer must have at least 1 byte, not {n_bytes}")
        start, largest = self._base, 0
        taken = sorted((buffer.address, buffer._whole.size) for buffer in self._buffers)
        for address, size in [*taken, (self._base + self.memory_bytes, 0)]:
            largest = max(largest, address - start)
            if address - start >= n_bytes:
                buffer = UartBuffer(self, start, n_bytes)
                self._buffers.append(buffer)
                return buffer
            start = -(-(address + size) // ALIGNMENT) * ALIGNMENT
        used = sum(size for _, size in taken)
        raise MemoryError(
            f"The job needs a buffer of {n_bytes:,} bytes beside {used:,} others, and the board's "
            f"memory has {self.memory_bytes:,}, of which {largest:,} are free: "
            f"{largest / n_bytes:.0%} of it would fit. Use fewer rows (--train-rows), fewer "
            "--bits, fewer --copies, or fewer --epochs, each of which keeps a model")

    def _release(self, buffer: UartBuffer) -> None:
        self._buffers.remove(buffer)

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Look at the board until ``done()``, or for about ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        while not (result := done()):
            if time.monotonic() >= deadline:
                break
            self.link.transport.sleep(POLL_S)
        return result

    def close(self) -> None:
        """Close the line; twice is harmless."""
        for buffer in self._buffers:
            buffer._device = None
        self._buffers.clear()
        self.link.transport.close()


def read_manifest(path: str | Path) -> tuple[PipelineConfig, int, int]:
    """Configuration, identity and baud rate of a bitstream for a serial line.

    Raises
    ------
    DeviceError
        If it cannot be read or is of another kind of board.
    """
    try:
        manifest = json.loads(Path(path).read_text(encoding="utf-8"))
        return (PipelineConfig(**manifest["config"]), int(manifest["identity"], 16),
                int(manifest["system"]["baud"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeviceError(f"{path} is no manifest of a bitstream with a serial line: "
                          f"{type(error).__name__}: {error}; take the .json file that was made "
                          "beside the bitstream") from error
