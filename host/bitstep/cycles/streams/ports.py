"""Readers and writer on their buses, cycle by cycle, and the memory behind them."""

from collections import deque

from bitstep.cycles.streams.memory import Memory

BURST = 16              # most beats of a burst, which ends where so many are aligned
_AUX_BYTES = 8


class SharedMemory:
    """Latency, and bandwidth that all ports share: in a cycle that begins with little debt every
    port may move a beat, which is put on the debt.
    """

    def __init__(self, memory: Memory):
        self.latency = memory.latency
        self.rate = memory.bytes_per_cycle or 0.0
        self.debt = -2 * self.rate      # what two idle cycles save is kept
        self.available = True

    def tick(self):
        """Begin a cycle."""
        rate = self.rate
        if rate:
            debt = self.debt
            self.debt = debt = debt - rate if debt > -rate else -2 * rate
            self.available = debt < rate


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
        """What decides about the next cycles, without the length of the block at hand."""
        offered = None if self.offered is None else max(self.offered[0] - time, 0)
        return (self.left > 0, self.first, self.allowed, self.under_way, offered, len(self.stored))


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
        if self.address.left:
            self.address.left -= beats
            self.accepted += beats
        else:
            self.inner -= beats
            self.room += beats

    def state(self, time):
        """What decides about the next cycles, without numbers that :meth:`skip` changes."""
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


class Writer:
    """Way of a model from the store through the write master, cycle by cycle.

    Parameters
    ----------
    memory : SharedMemory
    time : int
        First cycle of the write.
    first, words : int
        Number of the first word, of which the place in a burst counts, and words.
    late : int
        Cycles of registers and strobes.
    """

    def __init__(self, memory: SharedMemory, time: int, first: int, words: int, late: int):
        self.memory, self.late = memory, late
        self.address = Address(iter([(0, first, words)]), 8, 0)
        self.address.begin(time)
        self.from_cycle, self.to_ask = time + late, words
        # Room for what is being read already: the store answers 1 or 3 cycles later.
        self.coming = deque([False] * (1 + 2 * late))
        self.most = 7 - len(self.coming)
        self.queue, self.out = 0, False
        self.register = 0
        self.lengths, self.length = deque(), 0       # lengths wait a cycle before they are seen
        self.issued, self.waiting, self.is_ready = 0, deque(), False
        self.valid, self.is_last = False, False
        self.answers, self.answered = deque(), False
        self.written = None         # cycle from which the end is looked for

    def step(self, time):
        """Pass a cycle; return True in the one in which the model is known to be written."""
        if self.written is not None and time >= self.written and not self.address.left \
                and not self.address.under_way:
            return True
        ready = self.length and (not self.valid or self.is_ready)
        fired, fired_last = self.valid and self.is_ready, self.is_last
        if fired:
            self.valid = False
        if self.late:
            send = ready and self.register > 0
            taken = self.out and self.register < 2
            self.register += taken - bool(send)
        else:
            send = taken = ready and self.out
        if send:
            self.length -= 1
            self.valid, self.is_last = True, self.length == 0
        self._next_length(time)
        self._ask(time, taken)
        self._answer(time, fired, fired_last)
        return False

    def _next_length(self, time):
        """The queue of the bursts' lengths."""
        if not self.length and self.lengths and self.lengths[0][0] < time:
            self.length = self.lengths.popleft()[1]

    def _ask(self, time, taken):
        """The store's words into their queue."""
        asked = time >= self.from_cycle and self.to_ask > 0 \
            and self.queue + self.out < self.most
        self.to_ask -= asked
        if asked and not self.to_ask:
            self.written = time + 1 + self.late + 1 + 4
        self.coming.append(asked)
        read = self.queue and (taken or not self.out)
        self.queue += self.coming.popleft() - bool(read)
        self.out = bool(read) or (self.out and not taken)

    def _answer(self, time, fired, fired_last):
        """The bus and the memory."""
        memory = self.memory
        issued = self.issued
        self.issued = self.address.step(time, 1 << 30, False, self.answered)
        if self.issued:
            self.lengths.append((time, self.issued))
        if self.answered:
            self.answers.popleft()
        if issued:
            self.waiting.append(issued)
        if fired:
            memory.debt += _AUX_BYTES
            if fired_last:
                self.answers.append(time + memory.latency)
                self.waiting.popleft()
        self.is_ready = bool(self.waiting) and memory.available
        self.answered = bool(self.answers) and self.answers[0] <= time + 1
