"""Persistent threads for kernels that release the GIL, and the extra that kernels need."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import ModuleType


def load_kernels() -> ModuleType:
    """Module :mod:`bitstep_lab.baselines.kernels`.

    Raises
    ------
    ImportError
        If numba is missing; the message says which extra to install.
    """
    try:
        from bitstep_lab.baselines import kernels
    except ImportError as error:
        raise ImportError(f"CPU baselines need numba ({error}): pip install "
                          '"bitstep[bench]"') from error
    return kernels


class Team:
    """A number of threads, the caller's among them, that work on disjoint ranges.

    Parameters
    ----------
    threads : int
        At least 1.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def __enter__(self):
        # A pool starts its threads with its first tasks; none of that belongs into a measurement.
        self.run(lambda start, stop: None, [(0, 0)] * self.threads)
        return self

    def __exit__(self, *exception):
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, work: Callable[[int, int], object], ranges: Sequence[tuple[int, int]]) -> float:
        """Call ``work(start, stop)`` for every range, one thread each, and wait for all.

        Returns
        -------
        float
            Processor time of the busiest thread besides the caller, in seconds; 0 if there is none.
        """
        others = [self._pool.submit(_timed, work, *span) for span in ranges[1:]] \
            if self._pool else []
        work(*ranges[0])
        return max((other.result() for other in others), default=0.0)


def _timed(work, start, stop):
    begin = time.thread_time()
    work(start, stop)
    return time.thread_time() - begin


def split(count: int, parts: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Split ``range(count)`` into ranges of nearly equal length, none of them empty.

    Parameters
    ----------
    count : int
    parts : int
        Largest number of ranges.
    multiple : int
        Each range starts at a multiple of this.

    Returns
    -------
    list of (int, int)
        Start and stop of each range.
    """
    groups = -(-count // multiple)
    parts = min(parts, groups)
    edges = [min(count, groups * part // parts * multiple) for part in range(parts + 1)]
    return list(pairwise(edges))
