"""Cycles of the streams, as :mod:`bitstep.cycles.streams` has them.

In all kernels ``s`` is the array of :mod:`bitstep.cycles.rows.compiled.places`, ``f`` has the debt
and the rate of the memory, and ``blocks`` has a row for each block of the run: cycles from when the
one before was taken to its offer, first beat, and beats.
"""

from bitstep.compiling import compiled, routine
from bitstep.cycles.rows.compiled import places as p
from bitstep.cycles.shape import BURST, WORD_BYTES


@compiled
def tick(s, f):
    """Begin a cycle of the memory."""
    rate, debt = f[p.RATE], f[p.DEBT]
    debt = debt - rate if debt > -rate else -2 * rate
    f[p.DEBT] = debt
    s[p.AVAILABLE] = debt < rate


@compiled
def next_block(s, at, blocks, time):
    """Offer the reader's next block."""
    number = s[at + p.NUMBER]
    s[at + p.OFFERED] = number < s[at + p.END_NUMBER]
    if s[at + p.OFFERED]:
        s[at + p.OFFERED_AT] = time + blocks[number, 0]
        s[at + p.OFFERED_FIRST] = blocks[number, 1]
        s[at + p.OFFERED_BEATS] = blocks[number, 2]
        s[at + p.NUMBER] = number + 1


@compiled
def store_block(s, at, blocks, time, taken):
    """The register between feeder and splitter."""
    full = s[at + p.N_STORED] == 2
    stored = at + p.STORED
    if taken and s[at + p.N_STORED] and s[stored] < time:
        s[at + p.LEFT] = s[stored + 2]
        s[at + p.FIRST] = s[stored + 1] % BURST
        for place in range(3):
            s[stored + place] = s[stored + 3 + place]
        s[at + p.N_STORED] -= 1
    if not full and s[at + p.OFFERED] and s[at + p.OFFERED_AT] <= time:
        stored += 3 * s[at + p.N_STORED]
        s[stored] = time
        s[stored + 1] = s[at + p.OFFERED_FIRST]
        s[stored + 2] = s[at + p.OFFERED_BEATS]
        s[at + p.N_STORED] += 1
        next_block(s, at, blocks, time)


@compiled
def step_address(s, at, blocks, issued, ended):
    """Return the beats of the burst that is issued in this cycle, 0 for none."""
    time, room, length = s[p.NOW], s[at + p.DEPTH_LEFT], 0
    taken = not s[at + p.LEFT]
    if s[at + p.LEFT] and s[at + p.ALLOWED]:
        length = min(s[at + p.LEFT], BURST - s[at + p.FIRST])
        s[at + p.LEFT] -= length
        s[at + p.FIRST] = 0
        taken = not s[at + p.LEFT]
        s[at + p.ALLOWED] = room >= (48 if issued else 32) \
            and s[at + p.UNDER_WAY] < s[at + p.MOST] - 1
        s[at + p.UNDER_WAY] += 1
    else:
        s[at + p.ALLOWED] = room >= (32 if issued else 16) \
            and s[at + p.UNDER_WAY] != s[at + p.MOST]
    s[at + p.UNDER_WAY] -= ended
    if s[p.LATE] and at != p.FINE:
        store_block(s, at, blocks, time, taken)
    elif taken and s[at + p.OFFERED] and s[at + p.OFFERED_AT] <= time:
        s[at + p.LEFT] = s[at + p.OFFERED_BEATS]
        s[at + p.FIRST] = s[at + p.OFFERED_FIRST] % BURST
        next_block(s, at, blocks, time)
    return length


@routine
def step_reader(s, f, blocks, at, taken):
    """Pass a cycle of a reader; ``taken``: the beat at its output is taken."""
    valid, issued = s[at + p.VALID], s[at + p.ISSUED]
    length = step_address(s, at, blocks, issued > 0, 1 if valid and s[at + p.IS_LAST] else 0)
    s[at + p.ISSUED] = length
    s[at + p.DEPTH_LEFT] += taken - issued
    bursts = at + p.BURSTS
    if issued:
        last = bursts + 2 * ((s[at + p.FIRST_BURST] + s[at + p.N_BURSTS]) % p.MOST_BURSTS)
        s[last] = s[p.NOW] + s[p.MEMORY_LATENCY]
        s[last + 1] = issued
        s[at + p.N_BURSTS] += 1
    read = s[at + p.INNER] and (taken or not s[at + p.OUT])
    if valid:
        s[at + p.ACCEPTED] += 1
        s[at + p.INNER] += 1
    if read:
        s[at + p.INNER] -= 1
        s[at + p.OUT] = 1
    elif taken:
        s[at + p.OUT] = 0
    s[at + p.VALID] = 0
    if s[at + p.N_BURSTS] and s[p.AVAILABLE]:
        burst = bursts + 2 * s[at + p.FIRST_BURST]
        if s[burst] <= s[p.NOW] + 1:
            f[p.DEBT] += s[at + p.BEAT_BYTES]
            s[at + p.VALID] = 1
            s[burst + 1] -= 1
            s[at + p.IS_LAST] = s[burst + 1] == 0
            if s[at + p.IS_LAST]:
                s[at + p.FIRST_BURST] = (s[at + p.FIRST_BURST] + 1) % p.MOST_BURSTS
                s[at + p.N_BURSTS] -= 1


@compiled
def has_beat(s):
    """True if a beat is offered in this cycle."""
    return s[p.ROW_OFFERED] != 0


@compiled
def has_label(s):
    """True if a label is offered in this cycle."""
    return s[p.LABEL_OFFERED] != 0


@compiled
def step_rows(s, f, blocks, beat):
    """Pass a cycle of the rows' stages; return True if a row is decided in it."""
    released = 0
    if s[p.N_RELEASES] and s[p.RELEASES + s[p.FIRST_RELEASE]] == s[p.NOW]:
        released = 1
        s[p.FIRST_RELEASE] = (s[p.FIRST_RELEASE] + 1) % p.MOST_RELEASES
        s[p.N_RELEASES] -= 1
    entered = 1 if s[p.ROWS + p.OUT] and s[p.ROWS_HELD] != s[p.ROWS_KEPT] else 0
    ahead = s[p.ROWS_AHEAD] - beat
    s[p.ROW_OFFERED] = ahead > 0
    s[p.ROWS_AHEAD] = ahead + entered
    s[p.ROWS_HELD] += entered - s[p.BEATS] * released
    s[p.BEATS_ENTERED] += entered
    step_reader(s, f, blocks, p.ROWS, entered)
    return released


@compiled
def step_labels(s, label, released):
    """Pass a cycle of the labels' stages; return 1 if a word of the auxiliary stream is taken."""
    restart = s[p.NOW] == s[p.RESTART]
    given = 1 if s[p.LABELS] > 0 and not restart and s[p.LABELS_HELD] != s[p.LABELS_KEPT] else 0
    room = not restart and (s[p.LABELS] == 0 or (s[p.LABELS] == 1 and given))
    is_label = s[p.WORDS_LEFT] > 0 and s[p.NOW] >= s[p.LABELS_FROM]
    if s[p.LATE]:
        offered = is_label and s[p.AUX_ITEMS] > 0
        moved = 1 if offered and s[p.WORD_ITEMS] < 2 else 0
        unpacked = 1 if room and s[p.WORD_ITEMS] > 0 else 0
        s[p.WORD_ITEMS] += moved - unpacked
    else:
        offered = is_label and s[p.AUX + p.OUT] != 0
        moved = unpacked = 1 if room and offered else 0
    s[p.WORDS_LEFT] -= moved
    ahead = s[p.LABELS_AHEAD] - label
    s[p.LABEL_OFFERED] = ahead > 0
    s[p.LABELS_AHEAD] = ahead + given
    s[p.LABELS_HELD] += given - released
    s[p.LABELS] += s[p.LABELS_PER_WORD] * unpacked - given
    if restart:
        s[p.LABELS] = s[p.LABELS_HELD] = s[p.LABELS_AHEAD] = s[p.LABEL_OFFERED] = 0
    if not s[p.LATE]:
        return moved
    taken = 1 if s[p.AUX + p.OUT] and s[p.AUX_ITEMS] < 2 else 0
    s[p.AUX_ITEMS] += taken - moved
    return taken


@routine
def step(s, f, blocks, beat, label):
    """Pass a cycle, in which a beat or a label may be taken."""
    tick(s, f)
    released = step_rows(s, f, blocks, beat)
    step_reader(s, f, blocks, p.AUX, step_labels(s, label, released))
    if s[p.FETCHING]:
        step_reader(s, f, blocks, p.FINE, s[p.FINE_TAKEN])
    s[p.NOW] += 1


@compiled
def is_quiet(s, at):
    """True if nothing changes in a reader as long as nothing is taken."""
    if s[at + p.ISSUED] or s[at + p.N_BURSTS] or s[at + p.VALID] \
            or (s[at + p.INNER] and not s[at + p.OUT]):
        return False
    if not (s[at + p.LEFT] or s[at + p.OFFERED] or s[at + p.N_STORED]):
        return True
    return s[at + p.DEPTH_LEFT] < BURST and s[at + p.LEFT] > 0 and not s[at + p.ALLOWED]


@compiled
def level(s, place, value):
    """Keep a level; return 1 if it has changed."""
    changed = 1 if s[p.LEVELS + place] != value else 0
    s[p.LEVELS + place] = value
    return changed


@compiled
def levels_change(s):
    """Return how many levels have changed since the last call."""
    return (level(s, 0, s[p.ROWS + p.DEPTH_LEFT]) + level(s, 1, s[p.ROWS + p.OUT])
            + level(s, 2, s[p.AUX + p.DEPTH_LEFT]) + level(s, 3, s[p.AUX + p.OUT])
            + level(s, 4, s[p.LABELS]) + level(s, 5, s[p.WORDS_LEFT])
            + level(s, 6, s[p.ROWS_HELD]) + level(s, 7, s[p.ROWS_AHEAD])
            + level(s, 8, s[p.ROW_OFFERED]) + level(s, 9, s[p.LABELS_HELD])
            + level(s, 10, s[p.LABELS_AHEAD]) + level(s, 11, s[p.LABEL_OFFERED])
            + level(s, 12, 4 * s[p.AUX_ITEMS] + s[p.WORD_ITEMS])
            + level(s, 13, s[p.NOW] > s[p.RESTART]) + level(s, 14, s[p.NOW] > s[p.LABELS_FROM]))


@routine
def advance(s, f, blocks, time):
    """Pass the cycles before ``time``, in which nothing is taken."""
    while s[p.NOW] < time:
        step(s, f, blocks, 0, 0)
        if is_quiet(s, p.ROWS) and is_quiet(s, p.AUX) and not s[p.N_RELEASES] \
                and not levels_change(s):
            while s[p.NOW] < time and f[p.DEBT] > -2 * f[p.RATE]:
                tick(s, f)
                s[p.NOW] += 1
            s[p.NOW] = max(s[p.NOW], time)


@compiled
def begin_fine_row(s, time, row):
    """Offer a fine row to its reader."""
    for place in range(p.FINE, p.FINE + p.BURSTS):
        s[place] = 0
    s[p.FINE + p.MOST], s[p.FINE + p.BEAT_BYTES] = 8, WORD_BYTES
    s[p.FINE + p.DEPTH_LEFT], s[p.FINE + p.ALLOWED], s[p.FINE + p.OFFERED] = 64, 1, 1
    s[p.FINE + p.OFFERED_AT] = time + 1
    s[p.FINE + p.OFFERED_FIRST] = row * s[p.FINE_WORDS]
    s[p.FINE + p.OFFERED_BEATS] = s[p.FINE_WORDS]


@routine
def fetch(s, f, blocks, time, row, active):
    """Fetch a fine row, asked for at ``time``; return the cycle in which it is decided and, if it
    is ``active``, applied.
    """
    s[p.N_RELEASES] -= 1
    advance(s, f, blocks, time)
    begin_fine_row(s, time, row)
    s[p.FETCHING] = 1
    ready, pairs = time + s[p.FIRST_PAIR], 0
    while pairs != s[p.PAIRS]:
        s[p.FINE_TAKEN] = 0
        if s[p.NOW] >= ready and s[p.FINE + p.OUT]:
            pairs += 1
            s[p.FINE_TAKEN] = pairs % 2 == 0 or pairs == s[p.PAIRS]
            if pairs % s[p.PAIRS_PER_BEAT] == 0:
                ready = s[p.NOW] + s[p.FIRST_PAIR]
        step(s, f, blocks, 0, 0)
    s[p.FETCHING] = 0
    s[p.FINE_BYTES] += s[p.FINE_WORDS] * WORD_BYTES
    end = s[p.NOW] - 1 + (s[p.ACTIVE_DELAY] if active else s[p.INACTIVE_DELAY])
    release(s, end)
    return end


@compiled
def release(s, time):
    """Decide the latest row in the cycle ``time``."""
    s[p.RELEASES + (s[p.FIRST_RELEASE] + s[p.N_RELEASES]) % p.MOST_RELEASES] = time
    s[p.N_RELEASES] += 1
