"""A board that PYNQ runs on: registers through AXI, buffers in the memory that both sides share.

Of pynq only what versions 3.0.1, 3.1.2 and 4.0.0 have in common is used: ``Overlay``, ``allocate``,
``flush``, ``invalidate``, ``freebuffer``, ``read`` and ``write`` of an IP, ``wait`` of an
interrupt, ``Clocks.fclk0_mhz``, ``PL.bitfile_name`` and ``MMIO``.
"""

import atexit
import contextlib
import os
import time
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.devices.base import seconds_of
from bitstep.devices.driver import check_identity
from bitstep.devices.pynq.bitstream import find_bitstream, manifests_of, read_bitstream
from bitstep.devices.pynq.clock import FpgaClock, set_clock, try_clock
from bitstep.devices.pynq.left import (
    end_left_run,
    ended,
    leave_mark,
    remove_mark,
    taken,
    unmarked,
)
from bitstep.devices.pynq.memory import PynqBuffer, contiguous
from bitstep.devices.pynq.waiter import Waiter
from bitstep.devices.register_device import RegisterDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import Manifest
from bitstep.pipeline.registers import OFFSETS, Control, Status
from bitstep.pipeline.results import DeviceError

IP_TYPE = "bitstep:user:bitstep_ip:"        # of the IP in the .hwh, without its version
INTERRUPT = "interrupt"                     # its pin
LOOK_S = 0.1                # longest sleep between two looks at a run, with or without interrupt
SHORTEST_SLEEP_S = 0.0005   # without an interrupt; grows with the time that has passed
# pynq loads all of its library with the first bitstream and reads the .hwh: perhaps half a minute
# on a Zynq-7000, so this is no sign of a fault before.
OPEN_TIMEOUT_S = 180.0
_NO_PYNQ = ("Device 'pynq' needs pynq, which cannot be imported here ({}): run this on the board, "
            "in the Python that came with its SD image (/usr/local/share/pynq-venv)")


class PynqDevice(RegisterDevice):
    """A Zynq board with PYNQ on its SD card: PYNQ-Z1, PYNQ-Z2, Ultra96, KV260.

    Runs on the board itself, as root, in the Python environment that has pynq. The first bitstream
    of a process can take half a minute.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline that the data need; the one on the board is that of the bitstream.
    bitfile : path, optional
        Bitstream, with its .hwh and .json beside it. Default: the one of
        :func:`bitstep.devices.pynq.bitstream.bitstream_folder` that can run such data.
    interrupt : bool
        Whether to wait for the pipeline's interrupt where pynq offers it; else, and where it
        does not, the registers are read at intervals.

    Attributes
    ----------
    bitstream : Bitstream
        What is loaded.
    clock : FpgaClock
        The clock that was wanted, found and set; ``clock_hz`` is the one that was set, as pynq
        reads it from the board.

    Raises
    ------
    DeviceError
        If pynq is not installed, finds no board, or the bitstream is missing or is not what its
        manifest says, the clock cannot be set, or a run of this program is open on the board.
    """

    name = "pynq"
    bit_planes = True                # where a bitstream has such a pipeline
    _process = 0                     # that opens it; a child by fork must end nothing of its parent

    @staticmethod
    def problem() -> str:
        """Return the reason why there can be no such device here; empty if none is known."""
        try:
            return "" if find_spec("pynq") else _NO_PYNQ.format("No module named 'pynq'")
        except (ImportError, ValueError) as error:
            return _NO_PYNQ.format(error)

    @staticmethod
    def manifests(options: dict[str, Any]) -> list[Manifest]:
        """Return the manifests of the bitstreams that options leave to choose from."""
        return manifests_of(options.get("bitfile"))

    def __init__(self, config: PipelineConfig, *, bitfile: str | Path | None = None,
                 interrupt: bool = True):
        pynq = _import_pynq()
        self.bitstream = read_bitstream(bitfile or find_bitstream(config))
        self.config = self.bitstream.manifest.config
        self.identity = self.bitstream.manifest.identity
        self._allocate = pynq.allocate
        self._buffers: list[PynqBuffer] = []
        self._waiter = Waiter()
        self._ip: Any = None
        self._confirmed = False             # that the registers are those of our pipeline
        self._mark = ""
        self.clock: FpgaClock
        self._offered: Any = None
        self._process = os.getpid()
        try:
            with contextlib.ExitStack() as idle:
                others = list(_OPEN)
                for other in others:            # there is one FPGA: loading ends what runs on it
                    idle.enter_context(other.turns.held(self.name))
                try:
                    self._ip, self._interrupt, self.clock = self._waiter.call(
                        lambda: self._open(pynq, interrupt), OPEN_TIMEOUT_S)
                finally:                        # also where loading fails on its way
                    for other in others:        # pynq waits for the interrupt of this one alone
                        other._interrupt = None
            self.clock_hz = self.clock.hz
            self._offered = self._interrupt     # stays when waiting no longer relies on it
            self._pynq, self._board = pynq, _active_device(pynq)
            check_identity(self)
            self._confirmed = True
            _OPEN.add(self)
            self._leave_mark()
        except BaseException:
            self.close()
            raise

    @property
    def uses_interrupt(self) -> bool:
        """True if the device waits by interrupt."""
        return self._interrupt is not None

    @property
    def manifest(self) -> Path:
        """The manifest of what is loaded."""
        return self.bitstream.path.with_suffix(".json")

    def facts(self) -> dict[str, str]:
        """Return facts that pynq and Linux tell, for a report."""
        board = getattr(self._board, "name", None)
        return {"bitstream": str(self.bitstream.path), "pynq's version of itself":
                str(getattr(self._pynq, "__version__", "unknown")),
                "pynq's name of the board": str(board or "unknown"),
                "contiguous memory": contiguous().strip() or "Linux does not say",
                "XRT": os.environ.get("XILINX_XRT", "not set up in this shell"),
                "interrupt": "offered by pynq" if self._offered is not None
                else "not offered by pynq"}

    def seconds(self) -> float:
        """Return the time on the board, of which pynq's device may have a clock."""
        return seconds_of(self._board)

    def try_clock(self, hz: float) -> float:
        """Set the clock that is next to ``hz``, be it faster than the bitstream is made for; return
        it as pynq reads it back, in Hz. Models may be wrong until ``clock.wanted_hz`` is set again.

        Raises
        ------
        DeviceError
            If pynq cannot tell or set the clock.
        """
        self._opened()
        self.clock_hz = try_clock(self._pynq, hz)[1]
        return self.clock_hz

    def await_interrupt(self, timeout_s: float) -> bool:
        """Wait for the interrupt alone; False if it does not come in time.

        Raises
        ------
        DeviceError
            If pynq does not offer it.
        """
        self._opened()
        if self._offered is None:
            raise DeviceError("pynq does not offer the interrupt of the pipeline (it finds no "
                              "file of Linux for it, /dev/uio*), or the device was opened with "
                              "interrupt=False")
        return self._waiter.wait(self._offered.wait, timeout_s)

    def _open(self, pynq, interrupt):
        """Load the bitstream, on the thread whose event loop the interrupt needs; return the IP,
        its interrupt or None, and the clock.
        """
        path = self.bitstream.path
        end_left_run(pynq)
        try:
            overlay = pynq.Overlay(str(path))
            names = [name for name, entry in overlay.ip_dict.items()
                     if str(entry.get("type", "")).startswith(IP_TYPE)]
            if len(names) != 1:
                raise DeviceError(f"{path.with_suffix('.hwh')} describes {len(names)} pipelines "
                                  f"(IP of type {IP_TYPE}*), not 1; take the .hwh that was made "
                                  "with the bitstream")
            ip = getattr(overlay, names[0])
            self._address = int(overlay.ip_dict[names[0]]["phys_addr"])
        except (RuntimeError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, DeviceError):
                raise
            raise DeviceError(
                f"pynq {getattr(pynq, '__version__', '')} cannot load {path}: "
                f"{type(error).__name__}: {error}. Run it on the board, as root, in an "
                "environment with XRT set up (a login shell: sudo -i); the bitstream must be for "
                f"this board ({self.bitstream.manifest.board} says its manifest)") from error
        return (ip, (getattr(ip, INTERRUPT, None) if interrupt else None),
                set_clock(pynq, self.bitstream.manifest.clock_hz))

    def _leave_mark(self):
        self._mark = leave_mark(self.bitstream.path, self._address, self.identity)

    def _opened(self):
        if self._ip is None:
            raise DeviceError("The device is closed")
        return self._ip

    def read(self, offset: int) -> int:
        """Read the 32-bit register at byte ``offset``."""
        return int(self._opened().read(offset))

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at byte ``offset``."""
        if offset == OFFSETS["CONTROL"] and value & Control.START and unmarked():
            self._leave_mark()      # another device, closed since, has taken its mark with it
        self._opened().write(offset, int(value) & 0xFFFF_FFFF)      # pynq takes int alone

    def allocate(self, n_bytes: int) -> PynqBuffer:
        """Allocate contiguous memory.

        Raises
        ------
        MemoryError
            If there is not so much; the message says how much Linux has for this purpose.
        """
        self._opened()
        if n_bytes < 1:
            raise ValueError(f"A buffer must have at least 1 byte, not {n_bytes}")
        try:
            made = self._allocate((n_bytes,), np.uint8)
        except (RuntimeError, MemoryError, OSError) as error:
            raise MemoryError(
                f"The board has no {n_bytes:,} contiguous bytes ({error}). {contiguous()}Free "
                "the buffers of other programs (notebooks keep theirs until their kernel is shut "
                "down), use fewer rows, bits or copies, or give "
                "Linux more with the boot argument cma=") from error
        buffer = PynqBuffer(made)
        self._buffers.append(buffer)
        return buffer

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``done()``, or for about ``timeout_s`` seconds.

        An interrupt only wakes this up, and ``done()`` decides: one too many costs nothing, one
        that is lost two tenths of a second, after which interrupts are no longer relied on.
        """
        started, woken = time.monotonic(), True
        while not (result := done()):
            passed = time.monotonic() - started
            if passed >= timeout_s:
                break
            woken = self._pause(min(LOOK_S, timeout_s - passed), passed)
        # No interrupt is to come before the run is over, and that of a run which ended between the
        # pause and the look is on its way.
        if result and not woken and not self.read(OFFSETS["STATUS"]) & Status.BUSY \
                and not self._pause(LOOK_S, 0):
            self._interrupt = None
        return result

    def _pause(self, longest_s, passed_s):
        """Wait a moment; False if it was for an interrupt that did not come."""
        if self._interrupt is not None:
            return self._waiter.wait(self._interrupt.wait, longest_s)
        # So short a run is noticed soon, and a long one costs the processor little.
        time.sleep(min(longest_s, max(SHORTEST_SLEEP_S, passed_s / 8)))
        return True

    def _settle(self):
        """Let the interrupt of the run that ended arrive if it was waited for: pynq would go on
        waiting, also while another device is open, and take the interrupts of that one.
        """
        if self._interrupt is not None and self._waiter.waits:
            self._waiter.wait(self._interrupt.wait, LOOK_S)

    def close(self) -> None:
        """End a run that is under way and free everything; twice is harmless. A run of whoever has
        the board since is left alone. Memory to which a run that does not end may write is not
        given back before the program ends.
        """
        if self._process != os.getpid():
            return
        safe = True
        if self._confirmed:
            safe = False
            with contextlib.suppress(DeviceError, RuntimeError, OSError):
                theirs = taken(self._mark)
                safe = theirs or ended(self)
                if safe and not theirs:
                    remove_mark()
                    self._settle()
            self._confirmed = False     # not before: after Ctrl-C in here the run may go on
            _OPEN.discard(self)
        if safe:
            for buffer in self._buffers:
                buffer.free()
        else:
            _WRITTEN.extend(self._buffers)
        self._buffers.clear()
        self._ip = self._interrupt = self._offered = None
        self._waiter.close()

    def __del__(self):
        # Its memory is given back now, to which a run would go on writing.
        if self._process:
            self.close()


_OPEN: "weakref.WeakSet[PynqDevice]" = weakref.WeakSet()
_WRITTEN: list[PynqBuffer] = []     # memory of closed devices that a pipeline may still write to


@atexit.register
def _close_all():
    """Close what is open: the end of a program is the end of its runs."""
    for device in list(_OPEN):
        device.close()


def _active_device(pynq: Any) -> Any:
    """Return the object by which pynq knows the board; None if it has none."""
    try:
        return pynq.Device.active_device
    except (AttributeError, RuntimeError):
        return None


def _import_pynq() -> Any:
    try:
        import pynq  # type: ignore
    except ImportError as error:
        raise DeviceError(_NO_PYNQ.format(error)) from error
    return pynq
