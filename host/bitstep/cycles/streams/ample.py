"""Beats and labels of a memory that never keeps the pipeline waiting but at the start of a run."""

from bitstep.cycles.refetching import decision_delay, first_take
from bitstep.cycles.shape import WORD_BYTES, Shape

# Cycles from a reader's job to its first beat, less the memory's latency: splitter, register in
# front of the bus, queue (2).
READ_CYCLES = 4


class AmpleStreams:
    """Streams whose items are there when they are wanted, from the first one on.

    Methods take and return cycles since the run's first.

    Parameters
    ----------
    shape : Shape
    latency : int
        The memory's latency, at most what the readers' queues cover.
    """

    def __init__(self, shape: Shape, latency: int):
        self.shape, self.latency = shape, latency
        self.late = late = int(shape.registered)       # cycles of a register between streams
        # Queues out of which rows come again take 2 cycles, registers one.
        self.queue = 2 if shape.config.refetch else late
        self.label_delay = 2 + late + self.queue        # two in the unpacker
        self.first_job = 1 if shape.warm else 2 if shape.correction_period else 3
        self.fetched = 0        # fine rows
        self.anchor = shape.lookahead + 1       # rows after which a state may come again
        self.window = 0                         # least cycles of a period that is multiplied
        self.words_from = self.rows_from = self.labels_from = 0

    def begin(self, time):
        """Start the readers; the strobe arrives at ``time``."""
        read = READ_CYCLES + self.latency + self.late      # with a register for the jobs
        tables = int(self.shape.config.codebooks)        # a stage of a cycle
        self.rows_from = time + 1 + read + tables + self.queue
        self.words_from = time + self.first_job + read + self.late

    def words(self, time, number):
        """Take words of the auxiliary stream from ``time`` on; return the cycle of the last."""
        return max(time, self.words_from) + number - 1

    def load_tables(self, time, number):
        """Take so many words of the codebooks; return the cycle of the last."""
        end = self.words(time, number)
        self.rows_from = max(self.rows_from, end + 3 + self.queue)
        return end

    def start_epoch(self, time):
        """Let labels pass; ``time`` is the cycle of the strobe in the control of the run."""
        self.labels_from = time + self.label_delay

    def beats(self, time, number, limit):
        """Take beats from ``time`` on, before ``limit``; return the next cycle, and the beats that
        were taken.
        """
        time = min(max(time, self.rows_from), limit)
        number = min(number, limit - time)
        return time + number, number

    def last(self, time, limit):
        """Take a row's last beat and its label; return the first cycle that has the beat, and the
        cycle in which both are taken, ``limit`` if that is before.
        """
        with_beat = min(max(time, self.rows_from), limit)
        return with_beat, min(max(with_beat, self.labels_from), limit)

    def rewind(self, time):
        """Return to the oldest row that is not decided."""
        self.rows_from = self.labels_from = time + 2

    def write_models(self, time):
        """Write the models of an epoch; ``time`` is the first cycle of the write. Return the cycle
        in which all of it is known to be in memory.
        """
        shape = self.shape
        between = (shape.models - 1) * shape.next_model
        return time + 4 + 4 * self.late + shape.all_model_words + between + self.latency

    def fetch(self, time, row, active):
        """Fetch a fine row, asked for at ``time``; return the cycle in which it is
        decided and, if it is ``active``, applied.
        """
        self.fetched += 1
        first = time + 1 + READ_CYCLES + self.latency
        shape = self.shape
        breaks = (shape.beats - 1) * (first_take(shape, 0) - 1)     # between beats
        last = max(first, first_take(shape, time)) + shape.pairs - 1 + breaks
        return last + decision_delay(shape, active)

    constant = True         # nothing that is waited for depends on the time
    asked = None            # nor on blocks of memory

    def skip_fetches(self, number):
        """Count rows that are fetched as those before."""
        self.fetched += number

    def keep(self):
        """Keep the latest row and those after it, since they come again."""

    def end(self, time):
        """Stop at ``time``; return the first cycle in which it is known that no bus is in use."""
        return time

    def skip(self, rows, *, labels=False):
        """Nothing is counted here."""

    @property
    def beats_entered(self):
        """Beats of a whole run."""
        return self.shape.epochs * self.shape.row_beats

    @property
    def bytes_read(self):
        """Bytes of a whole run on all buses."""
        shape = self.shape
        loads = shape.warm + (shape.correction_period > 0)
        words = shape.epochs * (2 * shape.models + shape.label_words) \
            + loads * shape.all_model_words + shape.codebook_words + self.fetched * shape.fine_words
        return self.beats_entered * shape.config.rows.beat_bytes + words * WORD_BYTES

    def state(self, time):
        """Nothing: what decides here is constant."""
        return ()

    def steady_rows(self, time):
        """Rows that may be skipped if a state was there before: any number."""
        return 1 << 60

    def label_rows(self, time):
        """None: there is no state of the rows alone."""
        return 0

    def epoch_state(self, time):
        """State that decides about later epochs: the first one waits for what it reads."""
        return time > max(self.rows_from, self.words_from)

    totals = ()             # what is counted cycle by cycle
    epochs_left = 1 << 60   # epochs that may be skipped

    def skip_epochs(self, epochs, totals):
        """Nothing is counted here."""

    def shift(self, cycles):
        """Nothing depends on the time any more."""
