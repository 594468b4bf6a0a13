"""Read master with its queue, cycle by cycle."""

from collections import deque

from bitstep.cycles.shape import BURST
from bitstep.cycles.streams.bus import Address
from bitstep.cycles.streams.memory import SharedMemory


class Reader:
    """Read master with its queue.

    Parameters
    ----------
    memory : SharedMemory
    address : Address
    depth : int
        Beats of the queue.
    beat_bytes : int
    """

    def __init__(self, memory: SharedMemory, address: Address, depth: int, beat_bytes: int):
        self.memory, self.address = memory, address
        self.depth = self.room = depth
        self.beat_bytes = beat_bytes
        self.issued = 0             # beats of the burst of the last cycle
        self.bursts = deque()       # at the memory: cycle of the first beat, beats left
        self.valid = self.is_last = False
        self.inner = 0              # beats in the queue's memory
        self.out = False            # a beat at its output
        self.accepted = 0           # beats that came over the bus
        self.stopped = False

    def step(self, time, taken):
        """Pass a cycle; ``taken``: the beat at the output is taken."""
        memory, valid = self.memory, self.valid
        issued = self.issued
        self.issued = self.address.step(time, self.room, issued > 0, valid and self.is_last)
        self.room += taken - issued
        if issued:
            self.bursts.append([time + memory.latency, issued])
        read = self.inner and (taken or not self.out)
        if valid:
            self.accepted += 1
            if self.stopped:
                self.room += 1
            else:
                self.inner += 1
        if read:
            self.inner -= 1
            self.out = True
        elif taken:
            self.out = False
        self.valid = False
        if self.bursts and memory.available:
            burst = self.bursts[0]
            if burst[0] <= time + 1:
                memory.debt += self.beat_bytes
                self.valid = True
                burst[1] -= 1
                self.is_last = burst[1] == 0
                if self.is_last:
                    self.bursts.popleft()

    def stop(self):
        """Discard what comes from now on; what is stored must be taken."""
        self.stopped = True
        self.address.stop()

    @property
    def idle(self):
        """True if nothing is under way or stored."""
        return not self.address.left and not self.issued and self.room == self.depth

    @property
    def quiet(self):
        """True if nothing changes as long as nothing is taken."""
        address = self.address
        if self.issued or self.bursts or self.valid or (self.inner and not self.out):
            return False
        return not address.more or (self.room < BURST and address.left > 0 and not address.allowed)

    @property
    def spare(self):
        """Beats that may come and go before anything but their number changes."""
        if self.address.left:
            return max(self.address.left - 2 * BURST, 0)
        return max(self.inner - 2, 0) if self.quiet else 0

    def skip(self, beats):
        """Let beats come and go, at most ``spare``; if all have come, they only go."""
        assert beats <= self.spare, (beats, self.spare)     # else a run would never be over
        if self.address.left:
            self.address.left -= beats
            self.accepted += beats
        else:
            self.inner -= beats
            self.room += beats

    def state(self, time):
        """State that decides about the next cycles, without numbers that :meth:`skip` changes."""
        if self.quiet and not self.address.more:
            return (self.out, self.inner > 0)
        return (self.address.state(time), self.room, self.issued, self.valid, self.is_last,
                self.inner, self.out,
                tuple((max(due - time, 0), beats) for due, beats in self.bursts))

    def shift(self, cycles):
        """Move everything into the future."""
        for burst in self.bursts:
            burst[0] += cycles
        address = self.address
        if address.offered is not None:
            when, first, beats = address.offered
            address.offered = (when + cycles, first, beats)
        address.stored = deque((when + cycles, *rest) for when, *rest in address.stored)
