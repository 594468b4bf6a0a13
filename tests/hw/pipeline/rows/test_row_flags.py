# amaranth: UnusedElaboratable=no

import random

import pytest
from support import trace

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD
from bitstep_hw.pipeline.rows.row_flags import RowFlags
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once

FLAGS = ["apply", "skip", "frozen", "freeze"]
QUIET = {"start": 0, "issue": 0, "row_ends": 0, "counted": 0, "idle_row": 0, "boundary": 0,
         "step_due": 0, "rows_left": 2}


def run(rows, *, every_cycle=False, looks_ahead=False, **constant):
    """Flags of each row of each epoch; ``rows`` are lists of 1 for a row with data, else 0."""
    cycles, last = [], []
    for epoch in rows:
        cycles += [QUIET, QUIET | {"start": 1}]
        for data in epoch:
            cycles += [QUIET | {"idle_row": not data},
                       QUIET | {"idle_row": not data, "row_ends": 1, "counted": data}]
            last.append(len(cycles) - 1)
    dut = once(RowFlags, every_cycle=every_cycle, looks_ahead=looks_ahead)
    recorded = trace(dut, cycles, FLAGS, tail=0, **constant)
    for cycle in last:      # the same in all slots of a row
        assert recorded[cycle - 1] == recorded[cycle]
    return [recorded[cycle] for cycle in last]


@pytest.mark.parametrize("batch, lookahead", [
    (1, 0), (1, 8), (2, 0), (4, 2), (3, 3), (10, 1), (45, MAX_LOOKAHEAD), (270, 2)])
@each("every_cycle", [False, True])
def test_rows(batch, lookahead, every_cycle):
    """Row D of a batch stores the model of its start; in every cycle the first row does."""
    rng = random.Random(batch)
    epochs = [[rng.random() < 0.9 for _ in range(count)] for count in (300, 9)]
    found = run(epochs, every_cycle=every_cycle, batch=batch, lookahead=lookahead)
    expected = []
    for epoch in epochs:
        for number, data in enumerate(epoch):
            position = sum(epoch[:number]) % batch
            expected.append({
                "apply": number > lookahead, "skip": min(position, MAX_LOOKAHEAD),
                "frozen": position > lookahead,
                "freeze": data and position == (0 if every_cycle else lookahead)})
    assert found == expected


@each("batch, lookahead, ahead", [(1, 8, 3), (4, 8, 3), (4, 8, 4), (3, 8, 8), (20, 9, 0),
                                  (270, MAX_LOOKAHEAD, 9)])
def test_rows_that_look_ahead(batch, lookahead, ahead):
    """The first row after them stores the model of the batch's start, if there is one."""
    found = run([[True] * 300, [True] * 9], every_cycle=True, looks_ahead=True, batch=batch,
                lookahead=lookahead, ahead=ahead)
    positions = [number % batch for count in (300, 9) for number in range(count)]
    assert [row["freeze"] for row in found] == [position == ahead for position in positions]
    assert [row["frozen"] for row in found] == [position > lookahead for position in positions]


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
@each("gap", [0, 1, 2])
def test_ends_of_batches(batch, gap):
    """Known as soon as the row before has ended, where rows may end in every cycle."""
    row = QUIET | {"row_ends": 1, "counted": 1}
    for every_cycle, pause in ((True, gap), (False, gap + 1)):
        cycles = [QUIET, QUIET, QUIET | {"start": 1}, QUIET]
        ends = []
        for _ in range(20):
            cycles += [*[QUIET] * pause, row]
            ends.append(len(cycles) - 1)
        recorded = trace(once(RowFlags, every_cycle=every_cycle), cycles, ["batch_ends"], tail=0,
                         batch=batch, lookahead=2)
        assert [recorded[cycle]["batch_ends"] for cycle in ends] == [
            row % batch == batch - 1 for row in range(20)]


@each("rows_before, inputs, misaligned", [
    (0, {"issue": 1, "boundary": 1}, 0),        # a period begins with a batch
    (2, {"issue": 1, "boundary": 1}, 1),        # within one
    (2, {"issue": 0, "boundary": 1}, 0),
    (2, {"issue": 1, "boundary": 0}, 0),
    (4, {"issue": 1, "boundary": 1}, 0),
    (3, {"counted": 1, "step_due": 1}, 0),      # a step after a batch
    (2, {"counted": 1, "step_due": 1}, 1),      # within one
    (2, {"counted": 0, "step_due": 1}, 0),
    (2, {"counted": 1, "step_due": 1, "rows_left": 1}, 0),     # after the epoch's last row
])
def test_misaligned(rows_before, inputs, misaligned):
    cycles = [QUIET, QUIET | {"start": 1}, *[QUIET | {"counted": 1}] * rows_before,
              QUIET | inputs, QUIET]
    recorded = trace(once(RowFlags), cycles, ["misaligned"], tail=0, batch=4, lookahead=2)
    assert [outputs["misaligned"] for outputs in recorded] == [0] * (len(cycles) - 1) + [misaligned]
