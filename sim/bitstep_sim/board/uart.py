"""A board on a serial line, simulated down to the bits on it."""

import ctypes
import functools
import hashlib
from importlib import resources
from pathlib import Path

from bitstep.devices.uart.protocol import WORD_BYTES
from bitstep.pipeline.results import DeviceError
from bitstep.writing import write_text
from bitstep_hw.boards.serial.sdram.controller import WORD_BITS
from bitstep_hw.boards.serial.system import SerialSystem, SystemConfig
from bitstep_hw.top import to_rtlil
from bitstep_sim.board import code, verilator
from bitstep_sim.board.sdram_chip import SdramChip, SdramViolation
from bitstep_sim.board.verilog import simple_form, simplified, tools

MAIN = Path(str(resources.files("bitstep_sim.board") / "uart_cpp" / "uart_board.cpp"))

_HANDLE = ctypes.c_void_p
_CHIP = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_uint64, *[ctypes.c_uint32] * 3)
_SIGNATURES = {
    "create": (_HANDLE, [ctypes.c_uint32]),
    "destroy": (None, [_HANDLE]),
    "connect": (None, [_HANDLE, _CHIP]),
    "cycles": (ctypes.c_uint64, [_HANDLE]),
    "framing_errors": (ctypes.c_uint64, [_HANDLE]),
    "lights": (ctypes.c_uint8, [_HANDLE]),
    "sending": (ctypes.c_bool, [_HANDLE]),
    "run": (ctypes.c_uint64, [_HANDLE, ctypes.c_uint64, ctypes.c_uint64]),
    "send": (None, [_HANDLE, ctypes.c_char_p, ctypes.c_uint64]),
    "receive": (ctypes.c_uint64, [_HANDLE, ctypes.c_char_p, ctypes.c_uint64]),
}
_CONTROL = ("cke", "csn", "rasn", "casn", "wen", "d_oe")    # bits of what C++ hands to the chip


@functools.cache
@verilator.kept_files()
def _rtl(config: SystemConfig) -> str:
    """Verilog of a system, from the cache folder if the code is the one that made it."""
    parts = (repr(config), code.code_digest(SerialSystem.__module__), tools(), simple_form())
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
    path = verilator.cache_folder() / f"line-{key}.v"
    with verilator.locked(path, None, f"generates {config.pipeline.name} on a line"):
        if not path.exists():
            write_text(path, simplified(to_rtlil(SerialSystem(config))))
        return path.read_text()


class UartBoard:
    """A :class:`~bitstep_hw.boards.serial.system.SerialSystem` compiled by Verilator, and the other
    end of its line: a :class:`bitstep.devices.uart.Transport`.

    Time is the board's: a second is ``clock_hz`` cycles, and passes only inside these methods. So
    that a timeout of a second does not take minutes, give the system a clock of about 1 MHz.

    Parameters
    ----------
    config : SystemConfig
        The system.

    Attributes
    ----------
    chip : SdramChip or None
        The SDRAM, if the system has one.
    """

    name = "the simulated line"

    def __init__(self, config: SystemConfig):
        self._handle = None
        self.config = config
        self.chip = None
        library = verilator.build(_rtl(config), main=MAIN,
                                  label=f"{config.pipeline.name} on a line")
        self._library = ctypes.CDLL(str(library))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, f"uart_{name}")
            function.restype, function.argtypes = result, arguments
        self._handle = self._library.uart_create(config.divisor)
        self._violation = None
        self._callback = _CHIP(self._at_chip)           # as long as the board
        if config.memory == "sdram":
            words = config.memory_bytes // WORD_BYTES
            self.chip = SdramChip(clock_hz=config.clock_hz,
                                  row_bits=words.bit_length() - 3 - WORD_BITS)
            self._library.uart_connect(self._handle, self._callback)

    def _at_chip(self, cycle, control, a, d_o):
        bits = [control >> bit & 1 for bit in range(6)]
        assert self.chip is not None
        try:
            return self.chip.edge(
                cycle, **dict(zip(_CONTROL, bits, strict=True)), a=a, d_o=d_o,
                dqm=control >> 6 & 3, ba=control >> 8 & 3)
        except SdramViolation as violation:     # which C++ would not hand on
            self._violation = self._violation or violation
            return 0

    def _call(self, name, *arguments):
        if self._handle is None:
            raise DeviceError("The simulated line is closed")
        result = getattr(self._library, f"uart_{name}")(self._handle, *arguments)
        if self._violation is not None:
            raise self._violation
        return result

    def write(self, data: bytes) -> None:
        """Queue bytes; they travel while the clock runs."""
        self._call("send", data, len(data))

    def read(self, n_bytes: int, timeout_s: float) -> bytes:
        """Run the clock until ``n_bytes`` have come, or the time is over."""
        self._call("run", round(timeout_s * self.config.clock_hz), n_bytes)
        buffer = ctypes.create_string_buffer(n_bytes)
        count = self._call("receive", buffer, n_bytes)
        return buffer.raw[:count]

    def discard(self) -> None:
        """Forget what was received and not read."""
        buffer = ctypes.create_string_buffer(4096)
        while self._call("receive", buffer, len(buffer)):
            pass

    def sleep(self, seconds: float) -> None:
        """Run the clock."""
        self._call("run", round(seconds * self.config.clock_hz), 0)

    def seconds(self) -> float:
        """Time on the board."""
        return self.cycles / self.config.clock_hz

    @property
    def cycles(self) -> int:
        """Cycles since the reset."""
        return self._call("cycles")

    @property
    def framing_errors(self) -> int:
        """Bytes from the board without a stop bit."""
        return self._call("framing_errors")

    @property
    def lights(self) -> int:
        """The board's lights."""
        return self._call("lights")

    def close(self) -> None:
        """Free everything; twice is harmless."""
        if self._handle is not None:
            self._library.uart_destroy(self._handle)
            self._handle = None

    def __del__(self):
        self.close()
