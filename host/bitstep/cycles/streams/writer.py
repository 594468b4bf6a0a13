"""Way of models and of derivatives to memory, cycle by cycle."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

from bitstep.cycles.shape import BURST, WORD_BYTES, Shape
from bitstep.cycles.streams.bus import Address
from bitstep.cycles.streams.memory import SharedMemory


class Writer(ABC):
    """Write master, and a queue of words in front of it.

    Parameters
    ----------
    memory : SharedMemory
    jobs : iterator of (int, int, int)
        See :class:`bitstep.cycles.streams.bus.Address`.
    shape : Shape
        Gives sizes and registers.
    """

    def __init__(self, memory: SharedMemory, jobs: Iterator[tuple[int, int, int]], shape: Shape):
        self.memory, self.late, self.shape = memory, int(shape.registered), shape
        self.address = Address(jobs, 8, 0)
        self.queue, self.out = 0, False
        self.register = 0
        self.lengths, self.length = deque(), 0       # lengths wait a cycle before they are seen
        self.issued, self.waiting, self.is_ready = 0, deque(), False
        self.valid, self.is_last = False, False
        self.answers, self.answered = deque(), False
        self.written = None         # cycle from which the end is looked for

    def step(self, time):
        """Pass a cycle; return True in the one in which all is known to be written."""
        if self.written is not None and time >= self.written and self.idle:
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
        put = self._put(time)
        read = self.queue and (taken or not self.out)
        self.queue += put - bool(read)
        self.out = bool(read) or (self.out and not taken)
        self._answer(time, fired, fired_last)
        return False

    @property
    def idle(self) -> bool:
        """True if nothing that was asked for is under way."""
        return not self.address.left and not self.address.under_way

    @abstractmethod
    def _put(self, time) -> bool:
        """Return whether a word comes into the queue in this cycle."""

    def _next_length(self, time):
        """The queue of the bursts' lengths."""
        if not self.length and self.lengths and self.lengths[0][0] < time:
            self.length = self.lengths.popleft()[1]

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
            memory.debt += WORD_BYTES
            if fired_last:
                self.answers.append(time + memory.latency)
                self.waiting.popleft()
        self.is_ready = bool(self.waiting) and memory.available
        self.answered = bool(self.answers) and self.answers[0] <= time + 1


class ModelWriter(Writer):
    """Model port and write master, of an epoch's models.

    Parameters
    ----------
    memory : SharedMemory
    time : int
        First cycle of the write.
    first : int
        Number of the first word, of which the place in a burst counts.
    shape : Shape
        Gives models, words of each, and registers.
    """

    def __init__(self, memory: SharedMemory, time: int, first: int, shape: Shape):
        super().__init__(memory, iter([(0, first, shape.models * shape.written_words)]), shape)
        self.address.begin(time)
        self.models_left = shape.models
        self.from_cycle, self.to_ask = time + self.late, shape.written_words
        # Room for what is being read already: the store answers 1 or 3 cycles later.
        self.coming = deque([False] * (1 + 2 * self.late))
        self.most = 7 - len(self.coming)

    def _put(self, time):
        asked = time >= self.from_cycle and self.to_ask > 0 \
            and self.queue + self.out < self.most
        self.to_ask -= asked
        if asked and not self.to_ask:
            self.models_left -= 1
            if self.models_left:
                self.from_cycle = time + 1 + self.shape.next_model
                self.to_ask = self.shape.model_words
            else:
                self.written = time + 1 + self.late + 1 + 4
        self.coming.append(asked)
        return self.coming.popleft()


class DerivativeWriter(Writer):
    """Writer of the derivatives of an epoch's rows
    (:class:`bitstep_hw.shell.derivative_writer.DerivativeWriter`).

    Parameters
    ----------
    memory : SharedMemory
    shape : Shape
        Gives rows, latency and registers.

    Attributes
    ----------
    hold : bool
        No row may enter.
    """

    DEPTH, ROOM = 64, 16        # as those of the hardware

    def __init__(self, memory: SharedMemory, shape: Shape):
        super().__init__(memory, iter(()), shape)
        self.rows_left, self.second, self.hold = shape.rows, False, False
        self.labels = deque()       # cycles in which they come
        self.in_no_block = 0        # words

    def row(self, time):
        """A row has ended."""
        self.labels.append(time + self.shape.config.latency)

    def finish(self, time):
        """Look for the end; ``time`` is the first cycle of that state."""
        self.written = time + 4

    @property
    def idle(self):
        """True if all words are in memory."""
        return super().idle and not self.rows_left and not self.queue and not self.out

    @property
    def quiet(self):
        """True if nothing changes as long as no row ends."""
        return not (self.labels or self.address.left or self.address.under_way or self._asks
                    or (self.queue and not self.out) or self.hold)

    @property
    def _asks(self):
        return self.in_no_block >= BURST or (self.in_no_block > 0 and not self.rows_left)

    def _put(self, time):
        self.hold = self.queue + self.out > self.DEPTH - self.ROOM
        if self._asks and self.address.offered is None:
            self.address.offered = (time, 0, min(self.in_no_block, BURST))
        label = bool(self.labels) and self.labels[0] == time
        put = label and (self.second or self.rows_left == 1)
        if label:
            self.labels.popleft()
            self.rows_left -= 1
            self.second = not self.second
        self.in_no_block += put
        return put

    def _answer(self, time, fired, fired_last):
        offered = self.address.offered
        super()._answer(time, fired, fired_last)
        if offered is not None and self.address.offered is None:
            self.in_no_block -= offered[2]

    def state(self, time):
        """State that decides about the next cycles, without the number of rows."""
        return (self.second, self.hold, self.in_no_block, self.queue, self.out, self.register,
                self.length, self.issued, self.is_ready, self.valid, self.is_last, self.answered,
                self.address.state(time), tuple(self.waiting),
                tuple(label - time for label in self.labels),
                tuple((max(when - time, -1), length) for when, length in self.lengths),
                tuple(answer - time for answer in self.answers))

    def skip(self, rows):
        """Skip rows that are as those before."""
        self.rows_left -= rows

    def shift(self, cycles):
        """Move everything into the future."""
        self.labels = deque(label + cycles for label in self.labels)
        self.lengths = deque((when + cycles, length) for when, length in self.lengths)
        self.answers = deque(answer + cycles for answer in self.answers)
        if self.address.offered is not None:
            when, *block = self.address.offered
            self.address.offered = (when + cycles, block[0], block[1])
