"""One cycle of all streams between memory and pipeline."""

from collections import deque

from bitstep.cycles.shape import BURST, WORD_BYTES, Shape
from bitstep.cycles.streams.blocks import aux_blocks, row_blocks
from bitstep.cycles.streams.bus import Address
from bitstep.cycles.streams.memory import Memory, SharedMemory
from bitstep.cycles.streams.reader import Reader
from bitstep.cycles.streams.stages import Direct, Held, Queue, Register
from bitstep.cycles.streams.writer import DerivativeWriter, Writer

_LABELS_KEPT = 64       # labels in the queue out of which they can come again
_NEVER = 1 << 60


class StreamCycle:
    """Readers, writer, and the stages of rows and labels, which pass a cycle together.

    Parameters
    ----------
    shape : Shape
    memory : Memory
    """

    def __init__(self, shape: Shape, memory: Memory):
        self.shape, self.memory = shape, SharedMemory(memory)
        # Places of blocks in 16 beats count where nothing else makes epochs differ.
        self.exact = memory.is_ample(shape.config.rows.beat_bytes)
        config, self.late = shape.config, int(shape.registered)
        self.rows = Reader(self.memory, Address(self.row_blocks(), 15, self.late), 256,
                           config.rows.beat_bytes)
        self.aux = Reader(self.memory, Address(aux_blocks(shape), 8, self.late), 64, WORD_BYTES)
        self.readers = [self.rows, self.aux]
        self.release = 0
        if config.refetch:
            self.release = config.latency
            kept = 1 << (2 * config.rows.max_beats + 63).bit_length()
            self.row_stage, self.label_stage = Queue(kept), Queue(_LABELS_KEPT)
        elif self.late:
            self.row_stage, self.label_stage = Register(), Register()
        else:
            self.row_stage, self.label_stage = Direct(), Direct()
        self.table_stage = Held() if config.codebooks else Direct()
        self.aux_stage, self.word_stage = (
            (Register(), Register()) if self.late else (Direct(), Direct()))
        self.anchor = max(1 << (BURST // shape.beats).bit_length() >> 1, 1)
        self.steps = 0              # cycles that were simulated
        self.time = 0               # cycle that comes next
        self.beats_entered = 0
        self.labels = 0             # in the unpacker
        self.gathered = 0           # words of a row's labels that are not all there
        self.labels_from = _NEVER   # cycle from which words are labels
        self.words_left = 0         # of the epoch's labels
        self.restart = -1           # cycle in which labels are forgotten
        self.releases = deque()     # cycles in which rows are decided
        self.models = 0             # that were written
        self.keeping = False        # rows are not decided: they come again
        self.writer: Writer | None = None
        self.derivatives: DerivativeWriter | None = None     # the writer, if it writes these
        self.fine_rows: Reader | None = None     # of the row that is fetched again
        self.fine_taken = False             # one of its words is taken in this cycle
        self.fine_bytes = 0

    def row_blocks(self):
        """The blocks of the rows, for :class:`bitstep.cycles.streams.bus.Address`."""
        return row_blocks(self.shape)

    def step(self, beat=False, label=False, word=False):
        """Pass a cycle, in which a beat, a label or a word of a model or table may be taken."""
        time = self.time
        self.steps += 1
        self.memory.tick()
        if self.writer is not None and self.writer.step(time):
            self.writer = None
        released = bool(self.releases) and self.releases[0] == time
        if released:
            self.releases.popleft()
        entered = self.row_stage.takes(self.table_stage.offers(self.rows.out), beat)
        looked_up = self.table_stage.takes(self.rows.out, entered)
        self.row_stage.step(entered, beat, self.shape.beats * released)
        self.table_stage.step(looked_up, entered, 0)
        self.beats_entered += looked_up if self.shape.planes else entered
        self.rows.step(time, looked_up)
        restart = time == self.restart
        # From the last stage to the first, since each asks the one behind it for room.
        given = self.labels > 0 and not restart and self.label_stage.takes(True, label)
        whole = self.gathered == self.shape.words_per_label - 1
        room = not restart and (not whole or self.labels == 0 or (self.labels == 1 and given))
        is_label = self.words_left > 0 and time >= self.labels_from
        offered = is_label and self.aux_stage.offers(self.aux.out)
        moved = self.word_stage.takes(offered, room and self.word_stage.offers(offered))
        unpacked = room and self.word_stage.offers(offered)
        self.word_stage.step(moved, unpacked, 0)
        self.words_left -= moved
        self.label_stage.step(given, label, released)
        self.labels += self.shape.labels_per_word * (unpacked and whole) - given
        if unpacked:
            self.gathered = 0 if whole else self.gathered + 1
        if restart:
            self.labels = self.gathered = 0
            self.label_stage.clear()
        used = word or moved
        taken = self.aux_stage.takes(self.aux.out, used)
        self.aux_stage.step(taken, used, 0)
        self.aux.step(time, taken)
        if self.fine_rows is not None:
            self.fine_rows.step(time, self.fine_taken)
        self.time = time + 1

    def advance(self, time):
        """Pass the cycles before ``time``, in which nothing is taken."""
        before = None
        while self.time < time:
            self.step()
            if self.rows.quiet and self.aux.quiet and not self.releases and (
                    self.derivatives is None or self.derivatives.quiet):
                levels = self._levels()
                if levels == before:
                    self.memory.pass_idle(time - self.time)
                    self.time = time
                before = levels

    def _levels(self):
        """Fill of each stage, and what may still move by itself."""
        return (self.rows.room, self.rows.out, self.aux.room, self.aux.out, self.labels,
                self.gathered, self.words_left, self.table_stage.state(), self.row_stage.state(),
                self.label_stage.state(), self.aux_stage.state(),
                self.word_stage.state(), self.writer, self.fine_rows,
                self.time > self.restart, self.time > self.labels_from)

    @property
    def has_beat(self):
        """True if a beat is offered in this cycle."""
        return self.row_stage.offers(self.table_stage.offers(self.rows.out)) and not (
            self.derivatives is not None and self.derivatives.hold)

    @property
    def has_label(self):
        """True if a label is offered in this cycle."""
        return self.label_stage.offers(self.labels > 0 and self.time != self.restart)
