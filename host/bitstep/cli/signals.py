"""Ctrl-C, SIGTERM and a closed terminal end a command in order; a second signal ends it at once."""

import os
import signal
import stat
import sys
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.05      # from an exception that Python has dropped to the next


class StopSignals:
    """SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed) while a command runs, as a
    context manager.

    The first of them raises KeyboardInterrupt. From then on SIGINT and SIGTERM have the system's
    own effect, so that a second one ends the process at once. A terminal that is closed may send
    several SIGHUP, so others are ignored, and what is printed to it is dropped.

    Python drops an exception that is raised in a finalizer or in a callback from C, as of a
    compiler, and goes on. KeyboardInterrupt is then raised again, until it is outside of them.

    Attributes
    ----------
    received : int or None
        Number of the first signal.
    deferred : bool
        True to only note the first signal, because what is left must not be interrupted.
    dropped : bool
        True from the time that Python has dropped KeyboardInterrupt until it is raised again: an
        error in between may follow from what was left undone.
    """

    def __init__(self):
        self.received: int | None = None
        self.deferred = self.dropped = False
        self._before: dict[int, Any] = {}
        self._alarm: Any = None         # handler of SIGALRM before, once something was dropped
        self._hook: Any = None

    @property
    def code(self) -> int:
        """Exit code of a command that was stopped, as shells have it: 130 after Ctrl-C, 143 after
        SIGTERM, 129 after SIGHUP.
        """
        return 128 + (self.received or signal.SIGINT)

    def __enter__(self) -> "StopSignals":
        self.received, self.deferred, self.dropped, self._before = None, False, False, {}
        if threading.current_thread() is threading.main_thread():   # no other may set handlers
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:      # as of a shell's background job
                    self._before[number] = signal.signal(number, self._stop)
        self._alarm, self._hook = None, sys.unraisablehook
        sys.unraisablehook = self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        if self._alarm is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._alarm)
        sys.unraisablehook = self._hook
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.received = number
        for each in self._before:
            signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else signal.SIG_DFL)
        if number == signal.SIGHUP:
            _leave_terminal()
        self._raise()

    def _raise(self, *_: object) -> None:
        self.dropped = False
        if not self.deferred:
            raise KeyboardInterrupt

    def _unraisable(self, what: Any) -> None:
        """Take in an exception that Python drops (:data:`sys.unraisablehook`)."""
        if self.received is None or not issubclass(what.exc_type, KeyboardInterrupt) \
                or threading.current_thread() is not threading.main_thread():
            self._hook(what)
            return
        self.dropped = True
        # By a timer, since one that is raised here is dropped, too.
        before = signal.signal(signal.SIGALRM, self._raise)
        self._alarm = before if self._alarm is None else self._alarm
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def _leave_terminal() -> None:
    """Drop what is printed to a terminal, which gives an error once it is closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)


stop_signals = StopSignals()        # there is one set of signals in a process
