"""The compiled board as a Python object."""

import ctypes
from pathlib import Path

import numpy as np

from bitstep.pipeline.results import DeviceError

BASE = 0x1000_0000          # address of the first byte of memory, so that 0 is outside of it

SLVERR, DECERR = 2, 3       # error responses of AXI

_HANDLE = ctypes.c_void_p
_SIGNATURES = {
    "create": (_HANDLE, [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_double,
                         ctypes.c_double, ctypes.c_uint64, ctypes.c_char_p]),
    "destroy": (None, [_HANDLE]),
    "memory": (_HANDLE, [_HANDLE]),
    "cycles": (ctypes.c_uint64, [_HANDLE]),
    "interrupt": (ctypes.c_bool, [_HANDLE]),
    "reset": (None, [_HANDLE, ctypes.c_uint64]),
    "run": (ctypes.c_uint64, [_HANDLE, ctypes.c_uint64]),
    "write": (ctypes.c_bool, [_HANDLE, ctypes.c_uint32, ctypes.c_uint32]),
    "read": (ctypes.c_bool, [_HANDLE, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)]),
    "restart_timing": (None, [_HANDLE]),
    "freeze": (None, [_HANDLE, ctypes.c_uint64]),
    "ports": (ctypes.c_char_p, [_HANDLE]),
    "set_fault": (None, [_HANDLE, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]),
    "write_all": (ctypes.c_bool, [_HANDLE, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32)]),
    "read_all": (ctypes.c_bool, [_HANDLE, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32),
                                 ctypes.POINTER(ctypes.c_uint32)]),
    "strays": (ctypes.c_uint64, [_HANDLE]),
    "first_stray": (ctypes.c_uint64, [_HANDLE]),
    "first_stray_port": (ctypes.c_char_p, [_HANDLE]),
    "violation": (ctypes.c_char_p, [_HANDLE]),
    "set_ranges": (None, [_HANDLE, ctypes.c_int, ctypes.c_uint64,
                          ctypes.POINTER(ctypes.c_uint64)]),
}


class Board:
    """A top, its clock, its memory and its register bus; the clock runs only inside these methods.

    Parameters
    ----------
    library : Path
        What :func:`bitstep_sim.board.verilator.build` returned.
    memory_bytes : int
        Size of the memory at address ``BASE``; costs nothing until it is used.
    latency : int
        Cycles from an address to its first data (reads), from the last data to the response
        (writes); at least 1.
    bytes_per_cycle : float or None
        What all ports together may transfer; None does not limit it.
    stall_probability : float
        Probability, per cycle and channel, that the memory does nothing.
    stall_seed : int
        Seed of these stalls.
    wave : path or None
        FST file to write; the library must have been built with ``trace=True``.
    """

    def __init__(self, library: Path, *, memory_bytes: int, latency: int = 1,
                 bytes_per_cycle: float | None = None, stall_probability: float = 0.0,
                 stall_seed: int = 0, wave: str | Path | None = None):
        self._handle = None
        if latency < 1:
            raise ValueError(f"Memory latency must be at least 1 cycle, not {latency}")
        if bytes_per_cycle is not None and not bytes_per_cycle > 0:
            raise ValueError(f"Memory bandwidth must be above 0, not {bytes_per_cycle}")
        if not 0 <= stall_probability < 1:
            raise ValueError(f"Stall probability must be at least 0 and below 1, "
                             f"not {stall_probability}")
        self._library = ctypes.CDLL(str(library))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, f"board_{name}")
            function.restype, function.argtypes = result, arguments
        self._handle = self._library.board_create(
            BASE, memory_bytes, latency, bytes_per_cycle or 0.0, stall_probability,
            stall_seed % (1 << 64), None if wave is None else str(wave).encode())
        if self._handle is None:
            raise MemoryError(f"The system refused {memory_bytes:,} bytes for the board's memory")
        address = self._library.board_memory(self._handle)
        pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8))
        self.memory = np.ctypeslib.as_array(pointer, shape=(memory_bytes,))

    def _call(self, name, *arguments):
        if self._handle is None:
            raise DeviceError("The simulated board is closed")
        return getattr(self._library, f"board_{name}")(self._handle, *arguments)

    def close(self) -> None:
        """Free everything and finish the waveform; ``memory`` must not be used afterwards."""
        if self._handle is not None:
            self._library.board_destroy(self._handle)
            self._handle = None

    def __del__(self):
        self.close()

    def check(self) -> None:
        """Raise DeviceError if the top broke a rule of AXI."""
        violation = self._call("violation").decode()
        if violation:
            raise DeviceError(f"The simulated board found a violation of AXI: {violation}")

    def read(self, offset: int) -> int:
        """Read a register; takes a few cycles.

        Raises
        ------
        DeviceError
            If the register answers with an error or not at all, or a rule of AXI is broken.
        """
        value = ctypes.c_uint32()
        ok = self._call("read", offset, ctypes.byref(value))
        self.check()
        if not ok:
            raise DeviceError(f"Register {offset:#05x} could not be read: error or no answer")
        return value.value

    def write(self, offset: int, value: int) -> None:
        """Write a register; takes a few cycles.

        Raises
        ------
        DeviceError
            If the register answers with an error or not at all, or a rule of AXI is broken.
        """
        ok = self._call("write", offset, value & 0xFFFFFFFF)
        self.check()
        if not ok:
            raise DeviceError(f"Register {offset:#05x} could not be written: error or no answer")

    def write_all(self, values) -> None:
        """Write the registers of (offset, value) pairs, in order.

        Raises
        ------
        DeviceError
            If the register answers with an error or not at all, or a rule of AXI is broken.
        """
        flat = [number for pair in values for number in pair]
        ok = self._call("write_all", len(flat) // 2, (ctypes.c_uint32 * len(flat))(*flat))
        self.check()
        if not ok:
            raise DeviceError("A register could not be written: error or no answer")

    def read_all(self, offsets) -> list[int]:
        """Read registers, in order.

        Raises
        ------
        DeviceError
            If the register answers with an error or not at all, or a rule of AXI is broken.
        """
        values = (ctypes.c_uint32 * len(offsets))()
        ok = self._call("read_all", len(offsets), (ctypes.c_uint32 * len(offsets))(*offsets),
                        values)
        self.check()
        if not ok:
            raise DeviceError("A register could not be read: error or no answer")
        return list(values)

    def run(self, max_cycles: int) -> int:
        """Run until the interrupt rises, at most ``max_cycles``; return the cycles it took."""
        cycles = self._call("run", max_cycles)
        self.check()
        return cycles

    def reset(self, cycles: int = 4) -> None:
        """Reset the top for some cycles and forget every transfer; memory and statistics stay.

        Raises
        ------
        DeviceError
            If the top asks for something meanwhile.
        """
        self._call("reset", cycles)
        self.check()

    def restart_timing(self) -> None:
        """Begin the memory's timing anew, as on a new board.

        Its stalls begin again, and no bandwidth is saved or owed.
        """
        self._call("restart_timing")

    def freeze(self, cycles: int) -> None:
        """Let the memory do nothing for some cycles."""
        self._call("freeze", cycles)

    def set_fault(self, port: str, number: int, response: int) -> None:
        """Let an answer of a port be an error, whatever its address.

        Parameters
        ----------
        port : str
            One of ``ports``.
        number : int
            Which of its answers from now on, the next one is 1: beats of a read, bursts of a
            write. 0 is none.
        response : int
            ``SLVERR`` or ``DECERR``.
        """
        if port not in self.ports:
            raise ValueError(f"port must be one of {', '.join(self.ports)}, not {port!r}")
        self._call("set_fault", port.encode(), number, response)

    @property
    def ports(self) -> list[str]:
        """Names of the memory's ports, those of the rows by their slices: ``rows``, ``aux_read``,
        ``aux_write``, ``fine`` with ``refetch``, ``rows1`` to ``rows3``.
        """
        return self._call("ports").decode().split()

    @property
    def cycles(self) -> int:
        """Cycles since the board was made."""
        return self._call("cycles")

    @property
    def interrupt(self) -> bool:
        """The top's interrupt."""
        return self._call("interrupt")

    @property
    def stray_accesses(self) -> int:
        """Beats outside of the allocated ranges; they were answered with DECERR."""
        return self._call("strays")

    @property
    def first_stray(self) -> tuple[str, int] | None:
        """Port and address of the first of them."""
        if not self.stray_accesses:
            return None
        return self._call("first_stray_port").decode(), self._call("first_stray")

    def set_allocated(self, ranges) -> None:
        """Say which (address, bytes) may be accessed."""
        self._set_ranges(0, ranges)

    def set_broken(self, ranges) -> None:
        """Say which (address, bytes) answer with SLVERR."""
        self._set_ranges(1, ranges)

    def _set_ranges(self, kind, ranges):
        flat = [number for pair in ranges for number in pair]
        self._call("set_ranges", kind, len(flat) // 2, (ctypes.c_uint64 * len(flat))(*flat))
