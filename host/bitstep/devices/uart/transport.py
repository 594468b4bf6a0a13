"""Serial lines: the protocol of a line, and a serial port of this machine."""

import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from bitstep.pipeline.results import DeviceError

NO_PYSERIAL = "Device 'uart' needs pyserial, which is not installed: pip install \"bitstep[uart]\""


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
            raise DeviceError(NO_PYSERIAL) from error
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
