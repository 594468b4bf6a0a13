"""Interrupts of pynq, waited for on an event loop of their own."""

import asyncio
import concurrent.futures
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

from bitstep.pipeline.results import DeviceError


@functools.cache
def _event_loop(process: int) -> asyncio.AbstractEventLoop:
    """Return an event loop on a thread of its own. Interrupts of pynq need a loop that runs, and
    that of a notebook is busy with the cell that trains. The loop lives as long as the process:
    pynq keeps an interrupt's file on the loop where it was first asked for.

    Parameters
    ----------
    process : int
        The process's number: a child by fork has none of its parent's threads.
    """
    del process
    loop = asyncio.new_event_loop()

    def run():
        asyncio.set_event_loop(loop)
        loop.run_forever()

    threading.Thread(target=run, name="bitstep-interrupts", daemon=True).start()
    return loop


class Waiter:
    """The actions of one device on the event loop."""

    def __init__(self):
        self._loop = _event_loop(os.getpid())
        self._waiting: Any = None

    def call(self, action: Callable[[], Any], timeout_s: float) -> Any:
        """Return the result of an action on the loop's thread.

        Raises
        ------
        DeviceError
            If it takes longer than ``timeout_s``.
        """
        async def run():
            return action()
        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError as error:
            raise DeviceError(f"pynq did not load the bitstream within {timeout_s:g} s: reboot "
                              "the board") from error

    def wait(self, start: Callable[[], Any], timeout_s: float) -> bool:
        """Wait for the end of a coroutine; return False if it takes longer.

        Parameters
        ----------
        start : callable
            Returns the coroutine. It is not called while an earlier coroutine goes on, which is
            waited for instead.
        timeout_s : float

        Raises
        ------
        DeviceError
            If the coroutine fails.
        """
        if self._waiting is None:
            self._waiting = asyncio.run_coroutine_threadsafe(start(), self._loop)
        try:
            self._waiting.result(timeout_s)
            self._waiting = None
            return True
        except Exception as error:
            if not self._waiting.done():
                return False                # the time is over
            self._waiting = None
            raise DeviceError(f"pynq could not wait for the interrupt: {error}; open the device "
                              "with interrupt=False") from error

    @property
    def waits(self) -> bool:
        """True while a coroutine goes on."""
        return self._waiting is not None

    def close(self) -> None:
        """Wait no longer; twice is harmless."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
