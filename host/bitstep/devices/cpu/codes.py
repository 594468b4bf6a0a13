"""Codes of bit-plane rows as the kernels take them: an int16 a value, in the order of the features.

A code k of 16 bits is kept as ``k - 2^15``. The level of its first b bits is then
``2 (code >> 16 - b) + 1``, which compiles to vectors, where transposing a row takes some ten times
as long. So the rows that a device read last are kept decoded where memory has room for them, 2
bytes a value; of others a portion is transposed in every pass, of the planes that it reads.
"""

import threading
import weakref
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bitstep.compiling import compiled
from bitstep.devices.cpu.portions import portions, shares
from bitstep.devices.cpu.products import empty_codes
from bitstep.machine import available_cores, available_memory, in_threads
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.job import TrainingJob
from bitstep.quantization.kernels import unpacked_codes

SMALL = 1 << 22                 # bytes for which memory always has room
ROOM = 0.5                      # share of the free memory that decoded rows may take
PORTION_VALUES = 1 << 18        # values of a portion of rows that are not kept: 0.5 MB


@compiled
def write_levels(codes, row, drop, n_features, levels):
    """Write the levels of a row's first ``16 - drop`` planes: int32, of the features alone."""
    for j in range(n_features):
        levels[j] = (np.int32(codes[row, j]) >> drop) * np.int32(2) + np.int32(1)


class Portion(NamedTuple):
    """Rows of an epoch that are taken together.

    Attributes
    ----------
    codes : ndarray of int16, shape (rows, n_features)
        Some rows, those of the portion among them.
    place : int
        Place of the portion's first row in ``codes``.
    first, n_rows : int
        First row of the portion, and its rows.
    """

    codes: np.ndarray
    place: int
    first: int
    n_rows: int


def _all_of(codes: np.ndarray, parts: Iterator[tuple[int, int]]) -> Iterator[Portion]:
    return (Portion(codes, first, first, n_rows) for first, n_rows in parts)


class DecodedRows:
    """The rows that a device read last, decoded; several threads may read at a time."""

    def __init__(self):
        self._kept: dict[int, tuple[weakref.ref, int, np.ndarray]] = {}
        self._lock = threading.Lock()

    def portions(self, job: TrainingJob, number: int, planes: int) -> Iterator[Portion]:
        """Portions of all rows of a copy, in order.

        Parameters
        ----------
        job : TrainingJob
            Of bit-plane rows.
        number : int
            Of the copy.
        planes : int
            Planes of the codes that are asked for; their other bits may be anything.

        Yields
        ------
        Portion
            To be used before the next one is asked for, unless all rows are kept.
        """
        kept = self.kept(job, number)
        if kept is not None:
            yield from _all_of(kept, portions(job))
            return
        codes = empty_codes(0, job.n_features)
        for first, n_rows in portions(job, values=PORTION_VALUES):
            if len(codes) < n_rows:
                codes = empty_codes(n_rows, job.n_features)
            unpacked_codes(job.rows[number], planes, first, codes[:n_rows])
            yield Portion(codes, 0, first, n_rows)

    def shares(self, job: TrainingJob, number: int, threads: int) -> list[Portion] | None:
        """Portions for threads that use them at the same time, unless memory has no room for all
        rows.
        """
        kept = self.kept(job, number)
        return None if kept is None else list(_all_of(kept, shares(job, threads)))

    def kept(self, job: TrainingJob, number: int) -> np.ndarray | None:
        """All rows of a copy or more, decoded once; None where memory has no room for them."""
        stored = job.rows[number]
        kept = self._kept
        found = kept.get(id(stored))
        if len(kept) == len(job.rows) == 1 and found is not None \
                and found[0]() is stored and found[1] >= job.n_rows:
            return found[2]         # as of almost all passes
        with self._lock:
            self._kept = {key: entry for key, entry in self._kept.items()
                          if any(entry[0]() is copy for copy in job.rows)}
            found = self._kept.get(id(stored))
        if found is not None and found[1] >= job.n_rows:
            return found[2]
        size = 2 * job.n_rows * job.n_features
        if size > SMALL and size > ROOM * available_memory():
            return None
        codes = empty_codes(job.n_rows, job.n_features)
        parts = [slice(first, first + n_rows)
                 for first, n_rows in shares(job, available_cores())]
        for _ in in_threads(lambda part: unpacked_codes(stored, PLANES, part.start, codes[part]),
                            parts):
            pass
        with self._lock:
            self._kept[id(stored)] = weakref.ref(stored), job.n_rows, codes
        return codes

    def forget(self) -> None:
        """Give the memory back."""
        with self._lock:
            self._kept.clear()
