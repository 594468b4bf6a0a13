"""Rows and the times at which they enter, as :mod:`bitstep.cycles.rows` has them.

The arguments are those of :mod:`bitstep.cycles.rows.compiled.streams`; ``events`` has the rows
that are left open, ascending, and their outcomes.
"""

from bitstep.compiling import compiled, kernel, routine, uncounted
from bitstep.cycles.refetching import ACTIVE, BY_CODES
from bitstep.cycles.rows.compiled import places as p
from bitstep.cycles.rows.compiled.streams import advance, fetch, has_beat, has_label, release, step
from bitstep.cycles.rows.sequencer import (
    CORRECTION,
    FLUSH,
    LABELS,
    LOOKAHEAD,
    NEVER,
    RECURSION,
    REFETCH,
    ROWS,
)


@compiled
def oldest_end(s):
    """Cycle in which the row ``DEPTH`` before ended."""
    return s[p.ENDS + s[p.OLDEST]]


@compiled
def last_end(s):
    """Cycle in which the latest row ended."""
    return s[p.ENDS + (s[p.OLDEST] + s[p.DEPTH] - 1) % s[p.DEPTH]]


@compiled
def add_end(s, time):
    """Note the end of a row."""
    s[p.ENDS + s[p.OLDEST]] = time
    s[p.OLDEST] = (s[p.OLDEST] + 1) % s[p.DEPTH]


@compiled
def count(s, cause, cycles):
    """Count cycles for a cause."""
    s[p.COUNTS + cause] += cycles


@compiled
def wait(s, cause, until):
    """Count the cycles before ``until`` for a cause."""
    until = min(until, s[p.LIMIT])
    if until > s[p.TIME]:
        count(s, cause, until - s[p.TIME])
        s[p.TIME] = until


@routine
def open_gate(s):
    """Wait until the first slot of a row with data may enter, if its beat is there."""
    stuck = max(s[p.CORRECTED], s[p.DECIDED] + 1) if s[p.AT_BOUNDARY] else 0
    close = last_end(s) + s[p.DISTANCE]
    if s[p.BEATS] == 1:
        close = last_end(s) + max(s[p.UPDATE_INTERVALS], s[p.DISTANCE])
    updated = oldest_end(s) + s[p.LATENCY]
    if s[p.HELD]:
        first = s[p.HOLD_FIRST]
        wait(s, CORRECTION, min(stuck, first))
        wait(s, RECURSION, min(close, first))
        wait(s, LOOKAHEAD, min(updated, first))
        wait(s, REFETCH, s[p.HOLD_LAST] + 1)
        s[p.HELD] = 0
    wait(s, CORRECTION, stuck)
    wait(s, RECURSION, close)
    wait(s, LOOKAHEAD, updated)


@compiled
def end_of_row(s, end):
    """Note the last slot of any row in its period."""
    depth = s[p.DEPTH] - 1
    if s[p.SINCE] == depth and s[p.NEEDED]:
        s[p.CORRECTED] = end + s[p.CORRECTION_DELAY]
    s[p.FILL] = s[p.AT_BOUNDARY] and s[p.SINCE] < depth
    s[p.SINCE] = min(s[p.SINCE] + 1, depth + 1)


@compiled
def end_of_data_row(s, end):
    """Note the last slot of a row with data in its period."""
    rows_left = s[p.ROWS_LEFT]
    s[p.ROWS_LEFT] -= 1
    if not s[p.PERIOD]:
        return
    if s[p.AT_BOUNDARY]:
        s[p.SINCE] = 0
        s[p.NEEDED] = rows_left > s[p.PERIOD]
        s[p.TO_BOUNDARY] = s[p.PERIOD]
    s[p.TO_BOUNDARY] -= 1
    s[p.AT_BOUNDARY] = s[p.TO_BOUNDARY] == 0
    end_of_row(s, end)


@routine
def data_row(s, f, blocks):
    """Let a row with data enter. Return the slots that entered before the limit, all of them if the
    row ended.
    """
    slots, limit = s[p.BEATS] - 1, s[p.LIMIT]
    open_gate(s)
    if slots:
        start, taken = s[p.TIME], 0
        advance(s, f, blocks, start)
        while taken < slots and s[p.NOW] < limit:
            there = 1 if has_beat(s) else 0
            step(s, f, blocks, there, 0)
            taken += there
        s[p.TIME] = s[p.NOW]
        count(s, ROWS, s[p.TIME] - start - taken)
        if taken < slots:
            return taken
        wait(s, RECURSION, last_end(s) + s[p.UPDATE_INTERVALS])
    start = s[p.TIME]
    advance(s, f, blocks, start)
    while s[p.NOW] < limit and not has_beat(s):
        step(s, f, blocks, 0, 0)
    with_beat = s[p.NOW]
    while s[p.NOW] < limit and not has_label(s):
        step(s, f, blocks, 0, 0)
    end = s[p.NOW]
    if end < limit:
        step(s, f, blocks, 1, 1)
        if not s[p.KEEPING]:
            release(s, end + s[p.LATENCY])
    count(s, ROWS, with_beat - start)
    count(s, LABELS, end - with_beat)
    s[p.TIME] = end
    if end >= limit:
        return slots
    add_end(s, end)
    s[p.DECIDED] = end + s[p.LATENCY]
    s[p.TIME] = end + 1
    end_of_data_row(s, end)
    return s[p.BEATS]


@routine
def idle_row(s, slots):
    """Let a row without data enter, of which ``slots`` slots have entered. Return the slots that
    entered before the limit, all of them if the row ended; nothing is counted.
    """
    start = s[p.TIME]
    if not slots:
        start = max(start, last_end(s) + s[p.DISTANCE], oldest_end(s) + s[p.LATENCY])
    if s[p.HELD]:
        start = max(start, s[p.HOLD_LAST] + 1)
        s[p.HELD] = 0
    end = max(start + s[p.BEATS] - slots - 1, last_end(s) + s[p.UPDATE_INTERVALS])
    if end >= s[p.LIMIT]:
        s[p.TIME] = s[p.LIMIT]
        return slots + min(max(s[p.LIMIT] - start, 0), s[p.BEATS] - slots - 1)
    add_end(s, end)
    s[p.TIME] = end + 1
    if s[p.PERIOD]:
        end_of_row(s, end)
    return s[p.BEATS]


@compiled
def next_event(s, events):
    """Look for the next open row."""
    number = s[p.NEXT_EVENT]
    s[p.EVENT], s[p.OUTCOME] = NEVER, BY_CODES
    if number < len(events):
        s[p.EVENT], s[p.OUTCOME] = events[number, 0], events[number, 1]
        s[p.NEXT_EVENT] += 1


@routine
def decide(s, f, blocks, events):
    """Decide the open row, which is alone; return the cycle of its decision."""
    if s[p.OUTCOME] != BY_CODES:
        s[p.FETCHED] += 1
        s[p.DECIDED] = fetch(s, f, blocks, s[p.DECIDED], s[p.ROW] - 1, s[p.OUTCOME] == ACTIVE)
    next_event(s, events)
    return s[p.DECIDED]


@compiled
def count_row(s, f, blocks, events):
    """Count a row with data that has ended, and see whether it was left open."""
    s[p.ROW] += 1
    s[p.TO_STEP] -= 1
    s[p.FLUSH_FROM] = s[p.TIME]
    if s[p.ROW] <= s[p.EVENT] or s[p.LIMIT] != NEVER:
        return
    if s[p.DEPTH] > 1:
        s[p.LIMIT] = s[p.DECIDED]
        s[p.N_RELEASES] -= 1        # the row and those after it are kept, since they come again
        s[p.KEEPING] = 1
        return
    s[p.HOLD_FIRST] = s[p.DECIDED]
    s[p.HOLD_LAST] = decide(s, f, blocks, events)
    s[p.HELD] = s[p.HOLD_LAST] > s[p.HOLD_FIRST]


@routine
def enter(s, f, blocks, events):
    """Let rows enter up to a proximal step or the epoch's end, and those without data that carry
    their updates. Return False if rows must come again before.
    """
    while s[p.TO_STEP] and s[p.ROW] < s[p.N_ROWS]:
        if s[p.FILL]:
            began = s[p.TIME]
            s[p.SLOTS] = idle_row(s, 0)
            count(s, FLUSH, s[p.TIME] - began)
        else:
            s[p.SLOTS] = data_row(s, f, blocks)
            if s[p.SLOTS] == s[p.BEATS]:
                count_row(s, f, blocks, events)
        if s[p.SLOTS] < s[p.BEATS]:
            return False
    for _ in range(s[p.DEPTH]):
        s[p.SLOTS] = idle_row(s, 0)
        if s[p.SLOTS] < s[p.BEATS]:
            count(s, FLUSH, s[p.LIMIT] - s[p.FLUSH_FROM])
            return False
    return True


@routine
def replay(s, f, blocks, events):
    """Let the open row come again, alone: first all rows in the pipeline end, and rows without data
    carry the updates before it.
    """
    began = s[p.LIMIT]
    s[p.LIMIT] = NEVER
    again = s[p.ROW] - s[p.EVENT]
    s[p.ROW] -= again
    s[p.TO_STEP] += again
    s[p.ROWS_LEFT] += again
    if s[p.PERIOD]:
        s[p.TO_BOUNDARY] += again
        s[p.AT_BOUNDARY] = s[p.FILL] = 0
    s[p.TIME] = began + 1
    if s[p.SLOTS]:              # what has begun as a row with data ends as one without
        idle_row(s, s[p.SLOTS])
    for _ in range(s[p.DEPTH]):
        idle_row(s, 0)
    settled = last_end(s) + s[p.LATENCY]
    advance(s, f, blocks, settled + 1)
    s[p.ROWS_AHEAD], s[p.LABELS_AHEAD] = s[p.ROWS_HELD], s[p.LABELS_HELD]
    s[p.ROW_OFFERED] = s[p.LABEL_OFFERED] = s[p.KEEPING] = 0
    s[p.TIME] = settled + 1
    before = s[p.COUNTS:p.COUNTS + FLUSH + 1].copy()
    data_row(s, f, blocks)
    s[p.COUNTS:p.COUNTS + FLUSH + 1] = before       # all of this is one wait
    s[p.ROW] += 1
    s[p.TO_STEP] -= 1
    decided = decide(s, f, blocks, events)
    count(s, REFETCH, decided - began + 1)
    s[p.TIME] = s[p.FLUSH_FROM] = decided + 1


@kernel
def run_rows(s, f, blocks, events, start):
    """Run an epoch whose sequencer starts in the cycle ``start``; return the cycle in which every
    update is applied.
    """
    s, f, blocks, events = uncounted(s), uncounted(f), uncounted(blocks), uncounted(events)
    s[p.ROW] = s[p.NEXT_EVENT] = 0
    next_event(s, events)
    s[p.TO_STEP] = s[p.PROXIMAL_PERIOD] if s[p.PROXIMAL_PERIOD] else s[p.N_ROWS]
    s[p.TIME] = start + 1
    while True:
        while not enter(s, f, blocks, events):
            replay(s, f, blocks, events)
        time = last_end(s) + s[p.LATENCY] + s[p.PROXIMAL_CYCLES]
        count(s, FLUSH, time - s[p.FLUSH_FROM] + 1)
        s[p.TIME] = time + 1
        if s[p.ROW] == s[p.N_ROWS]:
            return time
        s[p.TO_STEP] = s[p.PROXIMAL_PERIOD]
