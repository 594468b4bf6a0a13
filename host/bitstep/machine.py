"""Facts about the machine that this process runs on."""

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")     # variables that limit threads


def available_cores() -> int:
    """Count the processor cores that this process may use, at least 1.

    The environment variables OMP_NUM_THREADS and NUMBA_NUM_THREADS limit them, as they do those of
    other numerical libraries.
    """
    # On Linux a process may be bound to some cores.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") \
        else os.cpu_count() or 1
    limits = [os.environ.get(name, "").split(",")[0].strip() for name in THREADS]
    return max(1, min([cores, *(int(limit) for limit in limits
                                if limit.isdecimal() and int(limit))]))


def in_threads(work: Callable[[Any], Any], parts: Sequence[Any],
               threads: int | None = None) -> Iterator[Any]:
    """Results of work on parts, in their order, by threads that work on a few parts ahead.

    Parameters
    ----------
    work : callable
        It should spend its time without Python's lock. NumPy does on errors what it does here.
    parts : sequence
    threads : int, optional
        At most so many; None: :func:`available_cores`.
    """
    threads = min(threads or available_cores(), len(parts))
    if threads <= 1:
        yield from map(work, parts)
        return

    def as_here(part: Any) -> Any:
        with np.errstate(**errors):     # which a thread does not have from another one
            return work(part)

    errors: Any = np.geterr()
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future] = deque()
        try:
            for part in parts:
                waiting.append(pool.submit(as_here, part))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()


_BLAS_LOCK = threading.Lock()
_BLAS_LIMITS: list[Any] = []        # one for each user; the first knows what was before


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Products of BLAS by one thread meanwhile, where threadpoolctl is there, as with scikit-learn.

    Threads gain little for products of up to some million numbers, and of a busy machine each of
    them waits for the others: a training of many such products would take ten times as long.
    """
    blas = _blas()
    if blas is None:
        yield
        return
    # The limit is that of the process, so the last of our threads that leaves takes it away.
    with _BLAS_LOCK:
        _BLAS_LIMITS.append(blas.limit(limits=1))
    try:
        yield
    finally:
        with _BLAS_LOCK:
            ended = _BLAS_LIMITS.pop()
            if not _BLAS_LIMITS:
                ended.restore_original_limits()


@functools.cache
def _blas() -> Any:
    """The libraries of BLAS, found once; None where threadpoolctl lacks."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


def available_memory() -> int:
    """Bytes of memory that this process may take without pushing others out, by the system's
    estimate; the limit of a container counts. Where nobody knows: 2^30.
    """
    found = [free for free in (_system_memory(), _container_memory()) if free is not None]
    return min(found, default=1 << 30)


def _system_memory() -> int | None:
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _container_memory() -> int | None:
    folder = Path("/sys/fs/cgroup")
    limit, used = (_read(folder / name).strip() for name in ("memory.max", "memory.current"))
    return max(0, int(limit) - int(used)) if limit.isdecimal() and used.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError:
        return ""
