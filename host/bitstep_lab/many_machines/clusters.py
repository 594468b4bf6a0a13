"""A cluster of processes on this machine, and what crosses between them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from distributed import Client, LocalCluster
from distributed.comm.tcp import TCP

_written = [0]
_messages = [0]


@contextmanager
def local_cluster(workers: int) -> Iterator[Client]:
    """Workers of one thread each; the scheduler and the client are in this process."""
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True,
                      dashboard_address=":0", silence_logs=50, memory_limit=0) as cluster, \
            Client(cluster) as client:
        client.run(count_writes)
        count_writes()
        yield client


def count_writes() -> None:
    """Count the bytes that this process writes to connections from now on."""
    if hasattr(TCP, "uncounted"):
        return
    write: Any = TCP.write

    async def counted(self: Any, *arguments: Any, **options: Any) -> int:
        found = await write(self, *arguments, **options)
        _written[0] += found
        _messages[0] += 1
        return found

    TCP.uncounted = write       # type: ignore[attr-defined]
    TCP.write = counted         # type: ignore[method-assign]


def written() -> int:
    """Bytes that this process has written."""
    return _written[0]


def bytes_between(client: Any) -> int:
    """Bytes that client, scheduler and workers have written so far, heartbeats among them."""
    return written() + sum(client.run(written).values())


def resident_mb() -> float:
    """Memory of this process, in MB."""
    return psutil.Process().memory_info().rss / 1e6
