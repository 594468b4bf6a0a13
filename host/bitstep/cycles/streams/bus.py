"""Address channel of a port, cycle by cycle."""

from collections import deque

from bitstep.cycles.shape import BURST


class Address:
    """Address channel: blocks of memory in, a burst a cycle out if it is allowed.

    Parameters
    ----------
    jobs : iterator of (int, int, int)
        Blocks: cycles from the one before was taken until this one is offered, number of its first
        beat, and beats.
    most : int
        Bursts that may be under way.
    late : int
        Cycles of the register in front of it.
    """

    def __init__(self, jobs, most, late):
        self.jobs, self.most, self.late = jobs, most, late
        self.stored = deque()       # in the register: blocks, with the cycle in which they are seen
        self.offered: tuple[int, int, int] | None = None    # block, from a cycle on
        self.left = self.first = 0
        self.allowed = True
        self.under_way = 0
        self.number = 0             # blocks that were offered

    def begin(self, time):
        """Start the feeder; the strobe arrives at ``time``."""
        self._next(time)

    def _next(self, time):
        job = next(self.jobs, None)
        self.number += job is not None
        self.offered = None if job is None else (time + job[0], job[1], job[2])

    def step(self, time, room, issued, ended):
        """Return the beats of the burst that is issued in this cycle, 0 for none.

        Parameters
        ----------
        time : int
        room : int
            Beats for which there is room, without the burst of the last cycle.
        issued, ended : bool
            A burst was issued in the last cycle; one has ended.
        """
        length = 0
        taken = not self.left
        if self.left and self.allowed:
            length = min(self.left, BURST - self.first)
            self.left -= length
            self.first = 0
            taken = not self.left
            self.allowed = room >= (48 if issued else 32) and self.under_way < self.most - 1
            self.under_way += 1
        else:
            self.allowed = room >= (32 if issued else 16) and self.under_way != self.most
        self.under_way -= ended
        if self.late:
            self._store(time, taken)
        elif taken and self.offered is not None and self.offered[0] <= time:
            _, first, self.left = self.offered
            self.first = first % BURST
            self._next(time)
        return length

    def _store(self, time, taken):
        """The register between feeder and splitter."""
        stored = self.stored
        full = len(stored) == 2
        if taken and stored and stored[0][0] < time:
            _, first, self.left = stored.popleft()
            self.first = first % BURST
        if not full and self.offered is not None and self.offered[0] <= time:
            stored.append((time, *self.offered[1:]))
            self._next(time)

    @property
    def more(self):
        """True if a burst will be issued some time."""
        return bool(self.left or self.offered is not None or self.stored)

    def skip(self, blocks):
        """Skip blocks that are as those before."""
        self.number += blocks
        for _ in range(blocks):
            next(self.jobs)

    def stop(self):
        """Forget all that is not issued."""
        self.left, self.offered = 0, None
        self.jobs = iter(())
        self.stored.clear()

    def state(self, time):
        """State that decides about the next cycles, without the length of the block at hand."""
        offered = None if self.offered is None else max(self.offered[0] - time, 0)
        return (self.left > 0, self.first, self.allowed, self.under_way, offered, len(self.stored))
