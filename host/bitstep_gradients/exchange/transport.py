"""Ways from rank to rank: the interface, and one between threads of a process."""

import queue
from collections.abc import Sequence
from typing import Protocol

from bitstep.checks import check_integer


class Transport(Protocol):
    """Collective operations on bytes. Every rank must call the same ones in the same order.

    A transport may have an integer ``short``, too: messages of an ``all_gather`` that all have at
    most so many bytes travel within the overhead.
    """

    rank: int
    world_size: int
    overhead: int       # bytes that each message to another rank costs besides its own

    def all_gather(self, message: bytes) -> list[bytes]:
        """Send a message to all; return the messages of all ranks, in their order."""
        ...

    def all_to_all(self, messages: Sequence[bytes]) -> list[bytes]:
        """Send message i to rank i; return what each rank sent here, in their order."""
        ...


def gathered_sizes(transport: Transport, messages: Sequence[bytes]) -> list[int]:
    """Bytes that each message of an ``all_gather`` costs from its rank to one other rank."""
    is_within = max(map(len, messages)) <= getattr(transport, "short", 0)
    return [transport.overhead + (0 if is_within else len(one)) for one in messages]


class ThreadTransport:
    """Ranks that are threads of one process.

    Parameters
    ----------
    rank : int
    group : ThreadGroup
    """

    overhead = 0

    def __init__(self, rank: int, group: "ThreadGroup"):
        self.rank, self.world_size = rank, group.world_size
        self._group = group

    def all_gather(self, message):
        return self.all_to_all([message] * self.world_size)

    def all_to_all(self, messages):
        if len(messages) != self.world_size:
            raise ValueError(f"there must be {self.world_size} messages, one a rank, not "
                             f"{len(messages)}")
        return self._group.swap(self.rank, [bytes(message) for message in messages])


class ThreadGroup:
    """Queues between as many threads as there are ranks.

    Parameters
    ----------
    world_size : int
    timeout_s : float
        Seconds that a rank waits for a message.
    """

    def __init__(self, world_size: int, timeout_s: float = 60.0):
        check_integer("world_size", world_size, 1)
        self.world_size, self.timeout_s = world_size, timeout_s
        self._queues: list[list[queue.SimpleQueue[bytes | None]]] = [
            [queue.SimpleQueue() for _ in range(world_size)] for _ in range(world_size)]

    def transports(self) -> list[ThreadTransport]:
        """One for each rank."""
        return [ThreadTransport(rank, self) for rank in range(self.world_size)]

    def swap(self, rank: int, messages: list[bytes]) -> list[bytes]:
        """Send a message to each rank; return the messages to this one, by sender.

        Raises
        ------
        RuntimeError
            If a message did not come in time, or its sender left.
        """
        for receiver, message in enumerate(messages):
            self._queues[rank][receiver].put(message)
        found = []
        for sender in range(self.world_size):
            try:
                message = self._queues[sender][rank].get(timeout=self.timeout_s)
            except queue.Empty:
                raise RuntimeError(f"rank {rank} has waited {self.timeout_s:g} s for a message of "
                                   f"rank {sender}; every rank must do the same steps") from None
            if message is None:
                raise RuntimeError(f"rank {rank} waits for a message of rank {sender}, which has "
                                   "ended; see its error")
            found.append(message)
        return found

    def leave(self, rank: int) -> None:
        """End the waiting for further messages of a rank."""
        for line in self._queues[rank]:
            line.put(None)
