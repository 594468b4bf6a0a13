"""Rows of shards on the disk of their worker, where its memory would not hold them."""

import mmap
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
from distributed import get_worker

from bitstep.quantization import BitPlaneRows
from bitstep.training.shards.shard import Shard

FULL = 0.5                  # share of a worker's memory limit, from which on rows go to its disk


class MappedShards(list[Shard]):
    """Shards whose bit planes are mapped from a file without a name, which ends with them.

    Linux counts pages of a file that were read as memory of the process until they are given back,
    and Dask pauses workers by that count: see :meth:`give_back`. Pickled, by Dask for its own spill
    or for another worker, they have their planes with them; unpickled they are mapped again.

    Parameters
    ----------
    shards : sequence of Shard
    directory : str
        Of the files; it needs room for all planes.

    Raises
    ------
    OSError
        If a file cannot be written.
    """

    def __init__(self, shards: Sequence[Shard], directory: str):
        self._maps: list[mmap.mmap] = []
        self._directory = directory
        super().__init__(self._mapped(one, directory) for one in shards)

    def __reduce__(self):
        return _unpickled, (list(self), self._directory)

    def give_back(self) -> None:
        """Give back the memory of planes that were read; the next pass reads them again."""
        for one in self._maps:
            one.madvise(mmap.MADV_DONTNEED)

    def _mapped(self, shard: Shard, directory: str) -> Shard:
        planes = shard.rows.stored[0]
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(np.ascontiguousarray(planes).data)
            file.flush()
            mapped = mmap.mmap(file.fileno(), planes.nbytes, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        rows: BitPlaneRows = replace(shard.rows, stored=(
            np.frombuffer(mapped, planes.dtype).reshape(planes.shape),))
        return replace(shard, outputs=[replace(one, rows=rows) for one in shard.outputs])


def _unpickled(shards: list[Shard], directory: str) -> list[Shard]:
    """Shards, mapped where the directory is and has room: not on another machine."""
    try:
        return MappedShards(shards, directory)
    except OSError:
        return shards


def kept_shards(shards: list[Shard]) -> list[Shard]:
    """Shards as a task of a worker keeps them: their planes in a file of its ``local_directory`` if
    this process takes more than half of the worker's memory limit by now, else as they are.

    Raises
    ------
    MemoryError
        If the file cannot be written.
    """
    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    if not shards or not limit or psutil.Process().memory_info().rss <= FULL * limit:
        return shards
    try:
        return MappedShards(shards, worker.local_directory)
    except OSError as error:
        size = sum(one.rows.stored[0].nbytes for one in shards)
        raise MemoryError(f"its rows do not fit, and {size / 1e6:,.0f} MB of them cannot be "
                          f"written to its local directory {worker.local_directory} ({error})"
                          ) from error


def give_back(shards: Any) -> None:
    """Give back the memory of rows that are on the disk, after a pass over them."""
    if isinstance(shards, MappedShards):
        with suppress(OSError):
            shards.give_back()
