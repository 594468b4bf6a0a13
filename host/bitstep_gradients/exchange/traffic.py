"""Counters of the bytes that a rank sends and receives."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Count:
    """Bytes of a rank.

    Attributes
    ----------
    sent, received : int
        To and from other ranks.
    made : int
        Messages that the rank encoded, each once, however many ranks get it; nothing around them.
    """

    sent: int = 0
    received: int = 0
    made: int = 0

    def add(self, sent: int, received: int, made: int = 0) -> None:
        """Count more bytes."""
        self.sent += sent
        self.received += received
        self.made += made


class Traffic:
    """Bytes of a rank by tensor, of the last step and of all.

    A message to three ranks counts three times: so many bytes must leave, whether a network's own
    software sends them three times or lets other ranks hand them on. The name "" counts what
    belongs to no tensor: lengths of messages, agreement, statistics of codecs that adapt.

    Attributes
    ----------
    last_step : dict of str to Count
    all_steps : dict of str to Count
    n_steps : int
        Steps that are counted in ``all_steps``.
    """

    def __init__(self):
        self.last_step: dict[str, Count] = {}
        self.all_steps: dict[str, Count] = {}
        self.n_steps = 0

    def begin_step(self) -> None:
        """Begin a step: ``last_step`` is empty."""
        self.last_step = {}
        self.n_steps += 1

    def add(self, name: str, sent: int, received: int, made: int = 0) -> None:
        """Count bytes of a tensor."""
        for counts in (self.last_step, self.all_steps):
            counts.setdefault(name, Count()).add(sent, received, made)

    def add_frame(self, names: Sequence[str], messages: Sequence[bytes], size: int, *,
                  sent: int = 0, received: int = 0, own: bool = False) -> None:
        """Count a frame of some size, and the messages of tensors in it, as often as it was sent
        and received. ``own``: this rank made the messages.
        """
        for name, message in zip(names, messages, strict=True):
            length = len(message)
            self.add(name, sent * length, received * length, length if own else 0)
        rest = size - sum(map(len, messages))
        self.add("", sent * rest, received * rest)

    def step_total(self) -> Count:
        """Bytes of the last step in all."""
        return _total(self.last_step)

    def total(self) -> Count:
        """Bytes of all steps."""
        return _total(self.all_steps)


def _total(counts: dict[str, Count]) -> Count:
    total = Count()
    for count in counts.values():
        total.add(count.sent, count.received, count.made)
    return total
