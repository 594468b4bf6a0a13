"""A board on a serial line: registers and memory through packets."""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.devices.base import seconds_of
from bitstep.devices.register_device import RegisterDevice
from bitstep.devices.uart.link import UartLink
from bitstep.devices.uart.protocol import WORD_BYTES, Command
from bitstep.devices.uart.transport import NO_PYSERIAL, SerialTransport, Transport
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import Manifest, read_manifest
from bitstep.pipeline.results import DeviceError

ALIGNMENT = 64              # of buffers, in bytes; more would be a waste where memory is on chip
POLL_S = 0.02               # between two looks at a run
KIND = "a bitstream with a serial line"


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

    The shared memory is the FPGA's own, of some hundred KiB, or an SDRAM beside it. Buffers are
    aligned to 64 bytes and not to pages.

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

    shows_models = False        # a model takes the line a while

    name = "uart"
    bit_planes = True                # where the bitstream has such a pipeline

    @staticmethod
    def problem() -> str:
        """Return the reason why there can be no such device here; empty if none is known."""
        try:
            return "" if find_spec("serial") else NO_PYSERIAL
        except (ImportError, ValueError):
            return NO_PYSERIAL

    @staticmethod
    def manifests(options: dict[str, Any]) -> list[Manifest]:
        """Return the manifest of the bitstream that options name."""
        manifest = options.get("manifest")
        return [] if manifest is None else [read_manifest(manifest, KIND, "baud")]

    def __init__(self, config: PipelineConfig, *, port: str | None = None,
                 manifest: str | Path | None = None, timeout_s: float = 1.0,
                 transport: Transport | None = None):
        if manifest is None:
            raise DeviceError(
                "Device 'uart' must be told which bitstream is on the board: give its manifest, "
                "the FILE.json that was made with the bitstream (bitstreams/ holds them)")
        found = read_manifest(manifest, KIND, "baud")
        self.config, self.identity = found.config, found.identity
        self.manifest = Path(manifest)
        if transport is None:
            if port is None:
                raise DeviceError("Device 'uart' must be told the board's serial port: "
                                  "give port, such as /dev/ttyUSB0")
            transport = SerialTransport(port, found.baud)
        self.link = UartLink(transport, baud=found.baud, timeout_s=timeout_s)
        self._buffers: list[UartBuffer] = []
        try:
            information = self.link.information()
        except BaseException:
            transport.close()
            raise
        self.clock_hz = float(information.clock_hz)
        self.memory_bytes = information.n_bytes
        self._base = information.base

    def facts(self) -> dict[str, str]:
        """Return facts that the board told, for a report."""
        return {"line": f"{self.link.transport.name}, {self.link.baud:,} baud",
                "shared memory": f"{self.memory_bytes:,} bytes from 0x{self._base:x}",
                "requests sent again": str(self.link.repeated)}

    def seconds(self) -> float:
        """Return the time on the board, of which the line may have a clock."""
        return seconds_of(self.link.transport)

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
            f"{largest / n_bytes:.0%} of it would fit. Use fewer rows, bits or copies, or fewer "
            "epochs, each of which keeps a model")

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
