# amaranth: UnusedElaboratable=no

import pytest
from support import put_all_of, trace

from bitstep_hw.pipeline.rows.correction_periods import CorrectionPeriods
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

QUIET = {"start": 0, "row_ends": 0, "counted": 0, "idle_row": 0, "replay": 0, "corrected": 0,
         "replayed": 0, "open_rows": 0}
FLAGS = ("boundary", "correct", "commit", "sample")


def run(*epochs, lookahead, slow=0):
    """Rows of epochs, each (rows, period), as words of a flag's first letter each (b: boundary, c:
    correct, w: commit, s: sample), with ``-`` before those without data. Corrections are ready
    ``slow`` cycles after they are asked for; until then the row behind is stuck.
    """
    dut, found = CorrectionPeriods(), []

    async def tick(ctx, **inputs):
        put_all_of(ctx, dut, QUIET | inputs)
        flags = {name: ctx.get(getattr(dut, name)) for name in (*FLAGS, "fill", "stuck")}
        await ctx.tick()
        return flags

    async def testbench(ctx):
        for rows, period in epochs:
            put_all_of(ctx, dut, {"rows": rows, "period": period, "lookahead": lookahead})
            await tick(ctx)
            await tick(ctx)
            await tick(ctx, start=1, rows_left=rows)
            left, flush, ready, words = rows, lookahead + 1, None, []
            while flush:
                flags = await tick(ctx, rows_left=left)
                if ready is not None:
                    assert flags["stuck"] == (left and flags["boundary"])
                    for _ in range(slow):
                        await tick(ctx, rows_left=left)
                    await tick(ctx, rows_left=left, corrected=1)
                    assert not (await tick(ctx, rows_left=left))["stuck"]
                    ready = None
                idle = flags["fill"] or not left
                flags = await tick(ctx, rows_left=left, idle_row=idle)
                again = await tick(ctx, rows_left=left, idle_row=idle, row_ends=1,
                                   counted=not idle)
                assert flags == again
                words.append("-" * idle + "".join(
                    "bcws"[place] for place, name in enumerate(FLAGS) if flags[name]))
                flush -= not left
                left -= not idle
                if flags["sample"]:
                    ready = True
            found.append(" ".join(word or "." for word in words))

    simulate(dut, testbench)
    return found


@pytest.mark.parametrize("rows, period, lookahead, expected", [
    (4, 0, 1, ". . . . - -"),
    (4, 4, 1, "b . . . - -"),
    (5, 4, 1, "b s . . bc -cw -"),
    (7, 3, 1, "b s . bc cws . bc -cw -"),
    (3, 1, 0, "bs bcws bcw -"),
    # A period of one row: one without data makes it long enough.
    (3, 1, 1, "b -s bc -cws bc -cw -"),
    (4, 2, 2, "b . -s bc c -cw - -"),
])
@each("slow", [0, 5])
def test_rows_by_hand(rows, period, lookahead, expected, slow):
    assert run((rows, period), lookahead=lookahead, slow=slow) == [expected]


def test_epochs_do_not_know_of_each_other():
    first, second, third = run((7, 3), (4, 0), (7, 3), lookahead=1)
    assert second == ". . . . - -"
    assert first == third


def test_boundaries_are_known_a_row_before():
    """In the cycle in which the row before ends, in every cycle if need be; with a row without data
    before each, as where batches begin with an empty pipeline.
    """
    row, opens = QUIET | {"counted": 1, "row_ends": 1}, QUIET | {"opens": 1, "row_ends": 1}
    for period, places in ((1, [0, 1, 2, 3, 4, 5]), (2, [1, 3, 5]), (3, [2, 5])):
        cycles, ends = [QUIET | {"opens": 0}, QUIET | {"start": 1}], []
        for number in range(6):
            if number % period == 0:
                cycles += [opens, QUIET | {"opens": 0}]
            cycles.append(row)
            ends.append(len(cycles) - 1)
        recorded = trace(once(CorrectionPeriods, drains=True, carries_on=True), cycles,
                         ["will_correct"], tail=0, rows=9, period=period, lookahead=1)
        assert places == [number for number, end in enumerate(ends)
                          if recorded[end]["will_correct"]]


def test_boundary_waits_for_the_rows_before():
    cycles = [QUIET, QUIET | {"start": 1}, QUIET | {"open_rows": 2}, QUIET,
              QUIET | {"counted": 1, "row_ends": 1}, QUIET | {"open_rows": 2}]
    recorded = trace(once(CorrectionPeriods), cycles, ["stuck"], tail=0, rows=9, period=3,
                     lookahead=1)
    assert [outputs["stuck"] for outputs in recorded] == [0, 0, 1, 0, 0, 0]


def test_rows_that_come_again_do_not_count_twice():
    """The boundary is where it was; one that comes again itself is none."""
    row = QUIET | {"counted": 1, "row_ends": 1}
    again = QUIET | {"replay": 1, "replayed": 2}
    cycles = [QUIET, QUIET | {"start": 1}, row, row, again, row, row, QUIET, row, QUIET]
    recorded = trace(once(CorrectionPeriods), cycles, ["boundary"], tail=0, rows=9, period=3,
                     lookahead=1)
    assert [outputs["boundary"] for outputs in recorded] == [0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    cycles = [*cycles[:2], row, row, row, row, QUIET | {"replay": 1, "replayed": 1}, row, row, row,
              QUIET]
    recorded = trace(once(CorrectionPeriods), cycles, ["boundary"], tail=0, rows=9, period=3,
                     lookahead=1)
    assert [outputs["boundary"] for outputs in recorded] == [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1]
