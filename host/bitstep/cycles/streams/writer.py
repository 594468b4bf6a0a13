"""Way of a model from the store to memory, cycle by cycle."""

from collections import deque

from bitstep.cycles.shape import WORD_BYTES, Shape
from bitstep.cycles.streams.bus import Address
from bitstep.cycles.streams.memory import SharedMemory


class Writer:
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
        self.memory, self.late = memory, (late := int(shape.registered))
        self.address = Address(iter([(0, first, shape.models * shape.written_words)]), 8, 0)
        self.address.begin(time)
        self.shape, self.models_left = shape, shape.models
        self.from_cycle, self.to_ask = time + late, shape.written_words
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
            self.models_left -= 1
            if self.models_left:
                self.from_cycle = time + 1 + self.shape.next_model
                self.to_ask = self.shape.model_words
            else:
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
            memory.debt += WORD_BYTES
            if fired_last:
                self.answers.append(time + memory.latency)
                self.waiting.popleft()
        self.is_ready = bool(self.waiting) and memory.available
        self.answered = bool(self.answers) and self.answers[0] <= time + 1
