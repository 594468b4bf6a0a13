"""Bytes from rank to rank by torch.distributed."""

from collections.abc import Sequence
from itertools import accumulate

import torch  # type: ignore
import torch.distributed as dist  # type: ignore

LENGTH_BYTES = 8        # of a slot: the length of a message
SHORT = 8               # longest message that travels in its slot
SLOT = LENGTH_BYTES + SHORT


class TorchTransport:
    """Transport over a process group of any backend.

    Every message has a slot of 16 bytes that goes first: its length, and the message itself if it
    has at most 8 bytes. The bytes behind it are sent without padding. All waiting has the time
    limit of the process group, and a rank that dies ends the others with torch's error.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        The default group if None.
    device : torch.device or str
        Where the tensors of the collectives live: the CPU for gloo, this rank's GPU for nccl.
    """

    overhead, short = SLOT, SHORT

    def __init__(self, group=None, device="cpu"):
        self.rank, self.world_size = dist.get_rank(group), dist.get_world_size(group)
        self._group, self._device = group, torch.device(device)

    def all_gather(self, message: bytes) -> list[bytes]:
        """Send a message to all; return the messages of all ranks, in their order."""
        slots = self._gather(_slot(message), SLOT)
        lengths = [_length(slot) for slot in slots]
        if max(lengths) <= SHORT:
            return [slot[LENGTH_BYTES:][:length]
                    for slot, length in zip(slots, lengths, strict=True)]
        if min(lengths) == max(lengths):
            return self._gather(message, len(message))
        return self._swap([message] * self.world_size, lengths)

    def all_to_all(self, messages: Sequence[bytes]) -> list[bytes]:
        """Send message i to rank i; return what each rank sent here, in their order."""
        if len(messages) != self.world_size:
            raise ValueError(f"there must be {self.world_size} messages, one a rank, not "
                             f"{len(messages)}")
        slots = self._swap([_slot(message) for message in messages], [SLOT] * self.world_size)
        return self._swap(messages, [_length(slot) for slot in slots])

    def _gather(self, message: bytes, length: int) -> list[bytes]:
        """Messages of one length, by ``all_gather``."""
        tensors = [torch.empty(length, dtype=torch.uint8, device=self._device)
                   for _ in range(self.world_size)]
        dist.all_gather(tensors, self._tensor(message), group=self._group)
        return [one.cpu().numpy().tobytes() for one in tensors]

    def _swap(self, messages: Sequence[bytes], lengths: Sequence[int]) -> list[bytes]:
        """Messages to each rank, and of each rank, by ``all_to_all_single``; the own one stays."""
        sent = [0 if rank == self.rank else len(one) for rank, one in enumerate(messages)]
        coming = [0 if rank == self.rank else length for rank, length in enumerate(lengths)]
        arrived = torch.empty(sum(coming), dtype=torch.uint8, device=self._device)
        joined = b"".join(one for rank, one in enumerate(messages) if rank != self.rank)
        dist.all_to_all_single(arrived, self._tensor(joined), coming, sent, group=self._group)
        ends = accumulate(coming)
        joined = arrived.cpu().numpy().tobytes()
        return [messages[self.rank] if rank == self.rank else joined[end - length:end]
                for rank, (end, length) in enumerate(zip(ends, coming, strict=True))]

    def _tensor(self, message: bytes):
        if not message:
            return torch.empty(0, dtype=torch.uint8, device=self._device)
        return torch.frombuffer(bytearray(message), dtype=torch.uint8).to(self._device)


def _slot(message: bytes) -> bytes:
    short = message if len(message) <= SHORT else b""
    return len(message).to_bytes(LENGTH_BYTES, "little") + short.ljust(SHORT, b"\0")


def _length(slot: bytes) -> int:
    return int.from_bytes(slot[:LENGTH_BYTES], "little")
