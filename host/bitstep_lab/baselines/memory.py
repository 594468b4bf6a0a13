"""Bandwidth of this machine's memory, for comparison with the bytes that training streams."""

import time

import numpy as np

from bitstep_lab.baselines.runs import check_numbers
from bitstep_lab.baselines.threads import Team, load_kernels, split

REPEATS = 7                 # the median of so many


def memory_copy_ceiling(n_bytes: int, *, threads: int = 1, cpu_time: bool = False) -> float:
    """Speed of copying ``n_bytes`` from one array to another, read and written bytes both counted.

    The copy is NumPy's, which is the C library's ``memcpy``; threads copy disjoint parts. What a
    cache line's write reads first (write allocation) is not counted. Median of 7 after one that
    faults the pages in. Arrays that fit a cache give the speed of that cache.

    Parameters
    ----------
    n_bytes : int
        Size of one array; there are two. Choose that of the data that are compared.
    threads : int
    cpu_time : bool
        Count processor time of the busiest thread (:attr:`.CpuResult.cpu_seconds`), not the time
        that passes.

    Returns
    -------
    float
        2 ``n_bytes`` a second, in 10^9 bytes a second.

    Raises
    ------
    ValueError
        If a parameter is below 1.
    """
    check_numbers([1], 0, n_bytes=n_bytes, threads=threads)
    source, target = np.ones(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)

    def work(start, stop):
        np.copyto(target[start:stop], source[start:stop])

    return 2 * n_bytes / _median_seconds(work, n_bytes, threads, cpu_time) / 1e9


def memory_read_ceiling(n_bytes: int, *, threads: int = 1, cpu_time: bool = False) -> float:
    """Speed of reading ``n_bytes``: a vectorised sum, read bytes counted.

    SGD reads its rows and writes a model that stays in the cache, so this, not the speed of
    copying, is the limit that memory sets it. Parameters, median and errors as for
    :func:`memory_copy_ceiling`, but there is one array, and numba is needed.

    Returns
    -------
    float
        In 10^9 bytes a second.
    """
    check_numbers([1], 0, n_bytes=n_bytes, threads=threads)
    kernels = load_kernels()
    words = np.ones(-(-n_bytes // 4), np.float32)
    seconds = _median_seconds(lambda start, stop: kernels.total(words[start:stop]),
                              len(words), threads, cpu_time)
    return words.nbytes / seconds / 1e9


def _median_seconds(work, count, threads, cpu_time):
    clock, seconds = time.thread_time if cpu_time else time.perf_counter, []
    ranges = split(count, threads)
    with Team(threads) as team:
        for _ in range(1 + REPEATS):
            start = clock()
            others = team.run(work, ranges)
            elapsed = clock() - start
            seconds.append(max(elapsed, others))
    return float(np.median(seconds[1:]))
