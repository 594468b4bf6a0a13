"""One examination of one device: registers, time and waits for every check."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bitstep.devices.base import seconds_of
from bitstep.devices.driver import ABORT_TIMEOUT_S, RegisterRun
from bitstep.doctor.report import Report
from bitstep.pipeline.registers import OFFSETS, Control, Error, Status
from bitstep.pipeline.results import DeviceError, RunResult, run_error

STUCK_REMEDY = ("configure the FPGA again (load the bitstream, or switch the board off and on), "
                "then run bitstep doctor again; if it stays, send this report")


class NotDone(Exception):
    """A check cannot be done because of something that another one has reported."""


class Session:
    """A device under examination.

    Parameters
    ----------
    device : Device
        What :func:`bitstep.devices.open_device` returns. Checks use what it may have besides:
        ``manifest``, ``clock``, ``facts``, ``seconds``, ``try_clock``, ``await_interrupt`` (see
        :class:`bitstep.devices.pynq.PynqDevice`).
    report : Report
    timeout_s : float
        Longest time without progress of a run.
    memory_bytes : int
        Size of the largest buffer to test; less where there is less.

    Attributes
    ----------
    results : dict
        Values that a check leaves for those after it.
    safe : set of str
        Of ``identity``, ``bits`` and ``addresses``, the tests of registers that passed.
    held : ExitStack or None
        Buffers of a run that does not stop, which must not be given to anybody else.
    """

    def __init__(self, device: Any, report: Report, *, timeout_s: float, memory_bytes: int):
        self.device, self.report = device, report
        self.config = device.config
        self.timeout_s, self.memory_bytes = timeout_s, memory_bytes
        self.results: dict[str, Any] = {}
        self.held: contextlib.ExitStack | None = None
        self.safe: set[str] = set()
        self._stuck = False

    def seconds(self) -> float:
        """Return the time on the board: the host's clock, unless the device has one of its own."""
        return seconds_of(self.device)

    def read(self, name: str) -> int:
        """Read a register."""
        return self.device.read(OFFSETS[name])

    def write(self, name: str, value: int) -> None:
        """Write a register."""
        self.device.write(OFFSETS[name], value)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the pipeline is not busy; False if it takes longer."""
        return self.device.wait(lambda: not self.read("STATUS") & Status.BUSY, timeout_s)

    def wait_done(self, timeout_s: float) -> bool:
        """Wait until a run is over; False if it takes longer."""
        return self.device.wait(lambda: bool(self.read("STATUS") & Status.DONE), timeout_s)

    def stop(self) -> bool:
        """Stop a run; False if it goes on, which is a finding when it is first seen."""
        status = self.read("STATUS")
        if not status & Status.BUSY:
            self._stuck = False
            return True
        self.write("CONTROL", Control.ABORT)
        # Who did not stop once is not waited for again.
        stopped = self.wait_idle(0.1 if self._stuck else ABORT_TIMEOUT_S)
        if not stopped and not self._stuck:
            self.report.fail("the pipeline stops when it is told to",
                             expected=f"a run that is over within {ABORT_TIMEOUT_S:g} s",
                             found=f"STATUS 0x{status:x} before, 0x{self.read('STATUS'):x} after "
                             "that time", remedy=STUCK_REMEDY)
        self._stuck = not stopped
        return stopped

    def need_idle(self) -> None:
        """Raise NotDone unless the pipeline can take a run."""
        if not self.stop():
            raise NotDone("the pipeline is busy with a run that does not stop")

    def need_runs(self) -> None:
        """Raise NotDone unless the pipeline can take a run, and its registers are right: with a
        wrong address it would write anywhere in the board's memory.
        """
        if self.safe != {"identity", "bits", "addresses"}:
            raise NotDone("the register test did not pass, and with a wrong register a run could "
                          "write to any address of the board's memory")
        self.need_idle()

    def run_to_end(self, run: RegisterRun, what: str) -> None:
        """Start a run that is loaded and wait for its end.

        Raises
        ------
        DeviceError
            If it does not end in time, and is aborted, or ends with an error.
        """
        run.start()
        if not self.wait_done(self.timeout_s):
            status, beats = self.read("STATUS"), self.read("BEATS_LO")
            stopped = "it was aborted" if self.stop() else "it was told to abort and did not"
            raise DeviceError(f"{what} did not end within {self.timeout_s:g} s (STATUS "
                              f"0x{status:x}, {beats} beats read); {stopped}: {STUCK_REMEDY}")
        error = self.read("ERROR")
        if error != Error.NONE:
            nothing = RunResult(np.zeros((0, 1), np.int32), np.zeros(0, np.int32))
            raise DeviceError(f"{what}: {run_error(error, self.read('OVERFLOW'), nothing, 1)}")

    def largest(self, wanted: int) -> int:
        """Return the bytes of the largest buffer that there is, to 64, and at most ``wanted``.

        Raises
        ------
        MemoryError
            If there is not even 1 KiB.
        """
        size, step = wanted, 0
        while not self._fits(size):
            if size < 2048:
                raise MemoryError(f"device '{self.device.name}' has no buffer of {size} bytes")
            size = step = size // 2 // 64 * 64
        while step >= 128:
            step = step // 2 // 64 * 64
            if self._fits(size + step):
                size += step
        return size

    def _fits(self, size):
        try:
            self.device.allocate(size).free()
        except MemoryError:
            return False
        return True

    def guard(self, check: Callable[["Session"], None], title: str) -> None:
        """Do a check; an error in it is a finding, and the next check follows."""
        try:
            check(self)
        except NotDone as reason:
            self.report.skip(title, f"not done: {reason}")
        except Exception as error:          # whatever a driver or a library raises
            kind = "" if isinstance(error, DeviceError) else f"{type(error).__name__}: "
            self.report.fail(title, expected="a check that comes to its end",
                             found=f"{kind}{error}",
                             remedy="as the message says; if it says nothing, send this report")
