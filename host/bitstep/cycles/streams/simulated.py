"""Streams of any memory, simulated cycle by cycle."""

from collections import deque

from bitstep.cycles.refetching import decision_delay, first_take
from bitstep.cycles.shape import WORD_BYTES
from bitstep.cycles.streams.bus import Address
from bitstep.cycles.streams.cycle import StreamCycle
from bitstep.cycles.streams.reader import Reader
from bitstep.cycles.streams.writer import DerivativeWriter, ModelWriter

# A bandwidth that is no simple number of bytes has long periods or none. From so many simulated
# cycles on, states count as the same if debts differ by less than so many beats (0: if about as
# many beats are stored), and if they are so many cycles apart. One cycle in 8,192 is 0.01 %. A
# memory that takes several cycles a word has as many times as many: in a period a burst of labels
# more or less then counts as little.
_TOLERANCES = ((16384, 0, 8192), (8192, 1 / 64, 1024), (0, 1e-4, 0))


class SimulatedStreams(StreamCycle):
    """Streams as :class:`bitstep.cycles.streams.ample.AmpleStreams`, for every memory.

    Parameters
    ----------
    shape : Shape
    memory : Memory
    """

    constant = False        # what is waited for depends on the time

    def begin(self, time):
        """Start the readers; the strobe arrives at ``time``."""
        self.advance(time)
        for reader in self.readers:
            reader.address.begin(time)

    def words(self, time, number):
        """Take words of the auxiliary stream from ``time`` on; return the cycle of the last."""
        self.advance(time)
        while True:
            there = self.aux_stage.offers(self.aux.out)
            self.step(word=there)
            number -= there
            if not number:
                return self.time - 1

    def load_tables(self, time, number):
        """Take so many words of the codebooks; return the cycle of the last."""
        end = self.words(time, number)
        self.table_stage.open()
        return end

    def start_epoch(self, time):
        """Let labels pass; ``time`` is the cycle of the strobe in the control of the run."""
        self.labels_from, self.words_left = time + 1, self.shape.label_words
        self.restart = time + self.late
        if self.shape.derivatives:
            self.writer = self.derivatives = DerivativeWriter(self.memory, self.shape)

    def beats(self, time, number, limit):
        """Take beats from ``time`` on, before ``limit``; return the next cycle, and the beats that
        were taken.
        """
        self.advance(time)
        taken = 0
        while taken < number and self.time < limit:
            there = self.has_beat
            self.step(beat=there)
            taken += there
        return self.time, taken

    def last(self, time, limit):
        """Take a row's last beat and its label; return ``time`` and the cycles without a beat, and
        the cycle in which both are taken, ``limit`` if that is before.
        """
        self.advance(time)
        with_beat = self.time
        while self.time < limit and not (self.has_beat and self.has_label):
            with_beat += not self.has_beat
            self.step()
        end = self.time
        if end < limit:
            self.step(beat=True, label=True)
            if self.derivatives is not None:
                self.derivatives.row(end)
            if self.release and not self.keeping:
                self.releases.append(end + self.release)
        return with_beat, end

    def keep(self):
        """Keep the latest row and those after it, since they come again."""
        self.releases.pop()
        self.keeping = True

    def rewind(self, time):
        """Return to the oldest row that is not decided."""
        self.advance(time + 1)
        self.row_stage.rewind()
        self.label_stage.rewind()
        self.keeping = False

    def fetch(self, time, row, active):
        """Fetch a fine row, asked for at ``time``; return the cycle in which it is
        decided and, if it is ``active``, applied.
        """
        shape = self.shape
        self.releases.pop()
        self.advance(time)
        words = shape.fine_words
        reader = Reader(self.memory, Address(iter([(1, row * words, words)]), 8, 0), 64, WORD_BYTES)
        reader.address.begin(time)
        ready, pairs, per_beat = first_take(shape, time), 0, shape.config.rows.model_lanes // 2
        self.fine_rows = reader
        while True:
            self.fine_taken = False
            taken = self.time >= ready and reader.out
            if taken:
                pairs += 1
                self.fine_taken = pairs % 2 == 0 or pairs == shape.pairs
                if pairs % per_beat == 0:
                    ready = first_take(shape, self.time)
            self.step()
            if pairs == shape.pairs:
                break
        self.fine_rows = None
        self.fine_bytes += words * WORD_BYTES
        end = self.time - 1 + decision_delay(shape, active)
        self.releases.append(end)
        return end

    def write_models(self, time):
        """Write the models of an epoch; ``time`` is the first cycle of the write. Return the cycle
        in which all of it is known to be in memory.
        """
        self.advance(time)
        if self.derivatives is not None:
            self.derivatives.finish(time)
        else:
            self.writer = ModelWriter(self.memory, time, self.models * self.shape.all_model_words,
                                      self.shape)
        self.models += 1
        while self.writer is not None:
            self.step()
        return self.time - 1

    def end(self, time):
        """Stop at ``time``; return the first cycle in which it is known that no bus is in use."""
        self.advance(time)
        if all(reader.idle for reader in self.readers):
            return time
        self.step()
        for reader in self.readers:
            reader.stop()
        while not all(reader.idle for reader in self.readers):
            self.memory.tick()
            for reader in self.readers:
                reader.step(self.time, reader.out)
            self.time += 1
        return self.time + 1        # known a cycle late

    @property
    def bytes_read(self):
        """Bytes that came over all buses."""
        return self.fine_bytes + sum(reader.accepted * reader.beat_bytes for reader in self.readers)

    @property
    def asked(self):
        """Blocks that were asked for: rows before and after the end of one are no period, since its
        last burst is shorter.
        """
        return self.rows.address.number, self.aux.address.number

    def state(self, time):
        """State in cycle ``time`` that decides about what follows."""
        aux = self.aux.state(time) if self._tolerance[0] else ()
        return (self.labels, self.gathered, self.words_left > 0, aux, self.aux_stage.state(),
                self.word_stage.state(), self.rows_state(time)[1:])

    def rows_state(self, time):
        """The same as long as the label that is wanted is there."""
        self.advance(time)
        stages = self.table_stage.state(), self.row_stage.state(), self.label_stage.state()
        quantum = self._tolerance[0] * self.rows.beat_bytes
        if not quantum:
            return self.words_left, stages, self.rows.inner // 8, self.rows.address.left > 0
        return (self.words_left, stages, self.rows.state(time),
                round(self.memory.debt / quantum), self.memory.available,
                tuple(release - time for release in self.releases))

    @property
    def _tolerance(self):
        """Debt that counts as none, in beats of rows, and least cycles of a period."""
        # Of an ample memory states come again soon, and the words read ahead depend on the phase.
        steps = 0 if self.exact else self.steps
        slowness = max(WORD_BYTES / self.memory.rate, 1)
        return next((debt, slowness * window) for least, debt, window in _TOLERANCES
                    if steps >= slowness * least)

    @property
    def window(self):
        """Least cycles of a period that may be multiplied."""
        return self._tolerance[1]

    def epoch_state(self, time):
        """State in cycle ``time``, before an epoch's entry of the table is taken, that decides
        about the epochs that follow.
        """
        # These are forgotten, and not a part of it.
        self.words_left = self.labels = self.gathered = 0
        address, aux = self.rows.address, self.aux.address
        place = (self.models % 16, self.models % self.shape.copies) if self.exact else ()
        return (place, self.state(time), address.left, address.number - self.models, aux.left,
                aux.number - 2 * self.models)

    @property
    def totals(self):
        """Numbers that are counted cycle by cycle."""
        return self.rows.accepted, self.aux.accepted, self.beats_entered

    @property
    def epochs_left(self):
        """Epochs that may be skipped before the readers have no further blocks."""
        return self.shape.epochs - 2 - max(self.rows.address.number, self.aux.address.number // 2)

    def skip_epochs(self, epochs, totals):
        """Skip epochs, with what they count."""
        self.rows.accepted += totals[0]
        self.aux.accepted += totals[1]
        self.beats_entered += totals[2]
        self.models += epochs
        self.aux.address.skip(2 * epochs)
        self.skip_row_blocks(epochs)

    def skip_row_blocks(self, epochs):
        """Skip the blocks of the rows of some epochs."""
        self.rows.address.skip(epochs)

    def shift(self, cycles):
        """Move everything into the future."""
        self.time += cycles
        if self.derivatives is not None:
            self.derivatives.shift(cycles)
        for reader in self.readers:
            reader.shift(cycles)
        self.releases = deque(release + cycles for release in self.releases)

    def steady_rows(self, time):
        """Rows that may be skipped from ``time`` on if a state was there before. The streams go on
        until then first: what is stored then is what may be skipped.
        """
        self.advance(time)
        words = min(self.aux.spare, self.words_left - 2)
        return max(min(self.rows.spare // self.shape.beats, words * self.shape.labels_per_word
                       // self.shape.words_per_label), 0)

    def label_rows(self, time):
        """Rows that may be skipped from ``time`` on until another word of labels is taken, if only
        the rows' state was there before.
        """
        self.advance(time)
        if not self.aux.quiet or self.labels < 3:
            return 0
        return min(self.rows.spare // self.shape.beats, self.labels - 2)

    def skip(self, rows, *, labels=False):
        """Skip rows that are as those before; ``labels``: no word is taken."""
        beats = rows * self.shape.beats
        self.rows.skip(beats)
        self.beats_entered += beats
        if labels:
            self.labels -= rows
        else:
            words = rows * self.shape.words_per_label // self.shape.labels_per_word
            self.aux.skip(words)
            self.words_left -= words
