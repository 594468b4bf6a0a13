"""Places of a run's numbers in one array, which every kernel takes.

The names are those of :mod:`bitstep.cycles.rows` and :mod:`bitstep.cycles.streams`. Most numbers
change from cycle to cycle. Those of the job's shape do not, and stand here so that a kernel has one
argument for all.
"""

from itertools import count

from bitstep.cycles.rows.sequencer import CAUSES

_free = count()


def _places(number: int) -> list[int]:
    """The next free places."""
    return [next(_free) for _ in range(number)]


# Sizes and distances of the job (Shape).
N_ROWS, BEATS, DEPTH, LATENCY, UPDATE_INTERVALS, DISTANCE = _places(6)
PERIOD, CORRECTION_DELAY, PROXIMAL_PERIOD, PROXIMAL_CYCLES = _places(4)
PAIRS, PAIRS_PER_BEAT, FINE_WORDS, FIRST_PAIR, INACTIVE_DELAY, ACTIVE_DELAY = _places(6)
LABELS_PER_WORD, LATE, MEMORY_LATENCY, ROWS_KEPT, LABELS_KEPT = _places(5)

# The epoch (EpochClock) and its sequencer (Sequencer).
ROW, TO_STEP, FLUSH_FROM, SLOTS, EVENT, OUTCOME, NEXT_EVENT, FETCHED = _places(8)
TIME, LIMIT, HELD, HOLD_FIRST, HOLD_LAST, DECIDED, OLDEST = _places(7)
COUNTS = _places(len(CAUSES))[0]

# Periods of corrections (CorrectionPeriods).
ROWS_LEFT, TO_BOUNDARY, SINCE, AT_BOUNDARY, FILL, NEEDED, CORRECTED = _places(7)

# Streams (StreamCycle) and the memory that they share (SharedMemory).
NOW, AVAILABLE, BEATS_ENTERED, LABELS, LABELS_FROM, WORDS_LEFT, RESTART, KEEPING = _places(8)
ROWS_HELD, ROWS_AHEAD, ROW_OFFERED, LABELS_HELD, LABELS_AHEAD, LABEL_OFFERED = _places(6)
AUX_ITEMS, WORD_ITEMS, FETCHING, FINE_TAKEN, FINE_BYTES = _places(5)

# A ring of cycles in which rows are decided.
MOST_RELEASES = 256
N_RELEASES, FIRST_RELEASE = _places(2)
RELEASES = _places(MOST_RELEASES)[0]

# Fill of every stage in the cycle before.
N_LEVELS = 15
LEVELS = _places(N_LEVELS)[0]

# A reader and its address channel (Reader, Address), counted from the place of the reader on.
MOST_BURSTS = 16
(MOST, LEFT, FIRST, ALLOWED, UNDER_WAY, NUMBER, END_NUMBER, OFFERED, OFFERED_AT, OFFERED_FIRST,
 OFFERED_BEATS, N_STORED) = range(12)
STORED = 12                     # two blocks: when stored, first beat, beats
DEPTH_LEFT, ISSUED, VALID, IS_LAST, INNER, OUT, ACCEPTED, BEAT_BYTES, N_BURSTS, FIRST_BURST = \
    range(STORED + 6, STORED + 16)
BURSTS = STORED + 16            # a ring: cycle of the first beat, beats left
_SIZE = BURSTS + 2 * MOST_BURSTS

ROWS, AUX, FINE = (_places(_SIZE)[0] for _ in range(3))

# A ring of the cycles in which the last ``DEPTH`` rows ended follows all of these.
ENDS = next(_free)

# Numbers of the memory that need not be integers, in an array of their own.
DEBT, RATE = range(2)
