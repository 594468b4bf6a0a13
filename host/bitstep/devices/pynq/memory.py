"""Contiguous memory of a board that PYNQ runs on."""

from pathlib import Path
from typing import Any

import numpy as np

from bitstep.pipeline.results import DeviceError


class PynqBuffer:
    """Contiguous memory that pynq allocated.

    Parameters
    ----------
    buffer : pynq.buffer.PynqBuffer
        Of bytes.
    """

    def __init__(self, buffer: Any):
        self._buffer = buffer
        self.address = int(buffer.device_address)
        self.array = np.asarray(buffer)

    def _held(self) -> Any:
        if self._buffer is None:
            raise DeviceError("The buffer was freed, or its device closed")
        return self._buffer

    def to_device(self) -> None:
        """Write the processor's caches back to the memory."""
        self._held().flush()

    def from_device(self) -> None:
        """Discard what the processor's caches hold of the memory."""
        self._held().invalidate()

    def free(self) -> None:
        """Give the memory back; twice is harmless."""
        if self._buffer is not None:
            buffer, self._buffer = self._buffer, None
            # Whoever still holds the array keeps no memory of the board.
            self.array = np.zeros(0, np.uint8)
            buffer.freebuffer()


def contiguous() -> str:
    """Return the size of Linux's contiguous memory as a sentence; empty if it is not known."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return ""
    kib = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()
           if line.startswith("Cma")}
    if not kib.get("CmaTotal"):
        return ""
    return (f"Linux has {kib['CmaTotal'] * 1024:,} bytes of contiguous memory, of which "
            f"{kib.get('CmaFree', 0) * 1024:,} are free. ")
