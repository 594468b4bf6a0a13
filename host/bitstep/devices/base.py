"""Registers and memory of a device."""

import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from bitstep.pipeline.config import PipelineConfig


class Buffer(Protocol):
    """Memory that host and pipeline share.

    Attributes
    ----------
    address : int
        Where the pipeline finds it, in bytes; aligned to at least 64.
    array : ndarray of uint8, shape (n_bytes,)
        The host's view.
    """

    address: int
    array: np.ndarray

    def to_device(self) -> None:
        """Make what the host wrote visible to the pipeline."""

    def from_device(self) -> None:
        """Make what the pipeline wrote visible to the host."""

    def free(self) -> None:
        """Give the memory back; ``array`` must not be used afterwards."""


class KeptRows:
    """Rows of the last run, and the buffer that holds them; labels that a run wrote, and theirs.

    Attributes
    ----------
    buffer : Buffer or None
        None: there are none.
    """

    def __init__(self):
        self.buffer: Buffer | None = None
        self._copies: Sequence[np.ndarray] = ()
        self._labels: tuple[np.ndarray, Buffer] | None = None
        self._taken: weakref.WeakSet[Buffer] = weakref.WeakSet()    # kept now or before

    def held(self, copies: Sequence[np.ndarray]) -> Buffer | None:
        """The buffer if it holds these arrays, the same objects; a buffer of others is given back.
        """
        if self.buffer is not None and len(copies) == len(self._copies) \
                and all(one is other for one, other in zip(copies, self._copies, strict=True)):
            return self.buffer
        self.free()
        return None

    def keep(self, copies: Sequence[np.ndarray], buffer: Buffer) -> None:
        """Keep a buffer that holds these arrays."""
        self._copies, self.buffer = tuple(copies), buffer
        self._taken.add(buffer)

    def held_labels(self, labels: np.ndarray) -> Buffer | None:
        """The buffer that holds these labels, the same object."""
        return self._labels[1] if self._labels and self._labels[0] is labels else None

    def keep_labels(self, labels: np.ndarray, buffer: Buffer) -> None:
        """Keep a buffer that holds these labels, which must not change."""
        labels.flags.writeable = False
        self._labels = labels, buffer
        self._taken.add(buffer)

    def free_labels(self) -> None:
        """Give the labels' buffer back, if there is one."""
        kept, self._labels = self._labels, None
        if kept is not None:
            kept[1].free()

    def free_unless_kept(self, buffer: Buffer) -> None:
        """Give a buffer back, unless it was kept: then this gives it back, or has done so."""
        if buffer not in self._taken:
            buffer.free()

    def free_all(self) -> None:
        """Give all buffers back."""
        self.free_labels()
        self.free()

    def free(self) -> None:
        """Give the rows' buffer back, if there is one."""
        buffer, self.buffer, self._copies = self.buffer, None, ()
        if buffer is not None:
            buffer.free()


def labels_buffer(kept: KeptRows | None, labels: np.ndarray,
                  allocate: Callable[[str, int], Buffer]) -> Buffer:
    """The buffer of these labels that was kept, or a new one that holds them."""
    if kept is not None and (held := kept.held_labels(labels)):
        return held
    buffer = allocate("labels", labels.nbytes)
    buffer.array[:labels.nbytes] = labels
    buffer.to_device()
    return buffer


class RegisterAccess(Protocol):
    """Registers and shared memory of a pipeline (docs/registers.md).

    Attributes
    ----------
    name : str
        Name of the kind of device, such as ``sim``.
    config : PipelineConfig
        The pipeline that is on it.
    identity : int
        The value that the IDENTITY registers must read, 128 bits.
    kept_rows : KeptRows or None
        Rows that stay in memory from run to run; None: every run has its own.
    """

    name: str
    config: PipelineConfig
    identity: int
    kept_rows: KeptRows | None = None

    @abstractmethod
    def read(self, offset: int) -> int:
        """Read the 32-bit register at byte ``offset``."""
        ...

    @abstractmethod
    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at byte ``offset``."""

    @abstractmethod
    def allocate(self, n_bytes: int) -> Buffer:
        """Allocate at least ``n_bytes`` of shared memory.

        Raises
        ------
        MemoryError
            If there is not so much; the message gives both sizes.
        """
        ...

    @abstractmethod
    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Let the pipeline run until ``done()`` or for about ``timeout_s`` seconds of the host's
        clock; return the last ``done()``. ``done`` reads registers and may report progress; it is
        called at intervals short enough for Ctrl-C and progress bars (at most 0.2 s).
        """
        ...


def seconds_of(source: Any) -> float:
    """Return the time on a device, a board or a line: the host's clock, unless it has one of its
    own, as a simulated one does.
    """
    own = getattr(source, "seconds", None)
    return own() if own else time.monotonic()
