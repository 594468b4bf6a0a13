"""The run that has a device's registers and memory: one at a time, whoever asks."""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol

from bitstep.pipeline.results import DeviceError


class Holder(Protocol):
    """Who may have the registers.

    Attributes
    ----------
    over : bool
        True if another one may take them from the thread that began this one.
    """

    over: bool


class _Look:
    """A look at registers that belongs to no run."""

    over = False


class Turns:
    """Who has a device's registers, in all threads of this process.

    A run has them until it is closed, or is over and another one is begun in the same thread. One
    that nobody refers to any more has lost them.
    """

    def __init__(self):
        self._lock = threading.Lock()       # for moments: nobody waits for another run
        self._holder: weakref.ref[Holder] | None = None
        self._thread = threading.current_thread()
        self._held: list[tuple[weakref.ref[Holder], contextlib.ExitStack]] = []
        self._left: list[contextlib.ExitStack] = []
        self._later: list[Callable[[], object]] = []

    def take(self, run: Holder, name: str) -> None:
        """Give the registers to a run of the device of this name.

        Raises
        ------
        DeviceError
            If another one has them.
        """
        with self._lock:
            other = self._other()
            here = threading.current_thread()
            if other is not None and not (other.over and self._thread is here):
                raise DeviceError(
                    f"Device '{name}' has one run at a time, and another one is open on it, begun "
                    f"in {'this thread' if self._thread is here else self._thread.name}: finish "
                    "and close that one first (on_epoch and other callbacks are called while it is "
                    "open, and threads must wait for each other), or open another device (a board "
                    "is only one)")
            self._holder, self._thread = weakref.ref(run), here

    def require(self, run: Holder, name: str) -> None:
        """Raise DeviceError unless a run has the registers."""
        if not self.has(run):
            raise DeviceError(
                f"The registers and models of device '{name}' are no longer those of this run: it "
                "was closed, or another one was begun after it. Take the outcomes of a run before, "
                "or begin it again")

    def has(self, run: Holder) -> bool:
        """True if a run has the registers."""
        return self._other() is run

    def release(self, run: Holder) -> None:
        """Take the registers from a run, if it has them, after what waits for its end."""
        with self._lock:
            if self.has(run):
                self._catch_up()
                self._holder = None

    def leave(self, run: Holder, stack: contextlib.ExitStack) -> None:
        """Take the registers from a run that the pipeline may still be at, and keep its memory, and
        what waits for its end, for :meth:`free_lost`.
        """
        with self._lock:
            self._left.append(stack)
            if self.has(run):
                self._holder = None

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Have the registers for a look at them; raises as :meth:`take`."""
        look = _Look()
        self.take(look, name)
        try:
            yield
        finally:
            self.release(look)

    def keep(self, run: Holder, stack: contextlib.ExitStack) -> None:
        """Remember what frees the memory of a run, which may be lost before it is closed."""
        with self._lock:
            self._held.append((weakref.ref(run), stack))

    def free_lost(self) -> None:
        """Free the memory of runs that nobody can close any more; the pipeline must be idle."""
        with self._lock:
            lost = [stack for run, stack in self._held if run() is None] + self._left
            self._left = []
            self._held = [entry for entry in self._held if entry[0]() is not None]
            self._catch_up()
        for stack in lost:
            stack.close()

    def afterwards(self, call: Callable[[], object]) -> None:
        """Give memory back by a call when no run needs it: now, or when the one that is open ends,
        or one that was left has been stopped.
        """
        with self._lock:
            self._later.append(call)
            other = self._other()
            if other is None or other.over:
                self._catch_up()

    def _other(self) -> Holder | None:
        return None if self._holder is None else self._holder()

    def _catch_up(self) -> None:
        while self._later and not self._left:
            self._later.pop(0)()
