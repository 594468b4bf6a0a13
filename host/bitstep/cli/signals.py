"""Ctrl-C and SIGTERM of a command: the first ends it in order, the second at once."""

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """SIGINT (Ctrl-C) and SIGTERM while a command runs, as a context manager.

    The first of them raises KeyboardInterrupt. From then on both have the system's own effect, so
    that a second one ends the process at once.

    Attributes
    ----------
    received : int or None
        Number of the first signal.
    deferred : bool
        True to only note the first signal, because what is left must not be interrupted.
    """

    def __init__(self):
        self.received: int | None = None
        self.deferred = False
        self._before: dict[int, Any] = {}

    @property
    def code(self) -> int:
        """Exit code of a command that was stopped, as shells have it: 130 after Ctrl-C, 143 after
        SIGTERM.
        """
        return 128 + (self.received or signal.SIGINT)

    def __enter__(self) -> "StopSignals":
        self.received, self.deferred, self._before = None, False, {}
        if threading.current_thread() is threading.main_thread():   # no other may set handlers
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:      # as of a shell's background job
                    self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.received = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        if not self.deferred:
            raise KeyboardInterrupt


stop_signals = StopSignals()        # there is one set of signals in a process
