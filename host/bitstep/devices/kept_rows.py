"""Rows that stay in a device's memory from one run to the next."""

from collections.abc import Sequence

import numpy as np

from bitstep.devices.base import Buffer


class KeptRows:
    """Rows of the last run, and the buffer that holds them.

    Attributes
    ----------
    buffer : Buffer or None
        None: there are none.
    """

    def __init__(self):
        self.buffer: Buffer | None = None
        self._copies: Sequence[np.ndarray] = ()

    def holds(self, copies: Sequence[np.ndarray]) -> bool:
        """True if the buffer holds these arrays, the same objects; a buffer of others is given
        back.
        """
        if self.buffer is not None and len(copies) == len(self._copies) \
                and all(one is other for one, other in zip(copies, self._copies, strict=True)):
            return True
        self.free()
        return False

    def keep(self, copies: Sequence[np.ndarray], buffer: Buffer) -> None:
        """Keep a buffer that holds these arrays."""
        self._copies, self.buffer = tuple(copies), buffer

    def free_unless_kept(self, buffer: Buffer) -> None:
        """Give a buffer back, unless it is the one that is kept."""
        if buffer is not self.buffer:
            buffer.free()

    def free(self) -> None:
        """Give the buffer back, if there is one."""
        buffer, self.buffer, self._copies = self.buffer, None, ()
        if buffer is not None:
            buffer.free()


def fill(buffer: Buffer, copies: Sequence[np.ndarray], kept: KeptRows | None) -> None:
    """Copy rows into a buffer, make them visible to the pipeline, and keep them if ``kept`` is
    given.
    """
    start = 0
    for copy in copies:
        buffer.array[start:start + copy.nbytes] = copy.reshape(-1)
        start += copy.nbytes
    buffer.to_device()
    if kept is not None:
        kept.keep(copies, buffer)
