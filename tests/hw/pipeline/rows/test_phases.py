# amaranth: UnusedElaboratable=no

from support import trace

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.rows.phases import Phase, phases_of
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once

STROBES = ("start", "stop", "row_ends", "counted", "decided", "replay", "proximal_done")
OUTPUTS = ["phase", "entering", "carrying", "rows_left", "step_due", "replay_alone", "discard",
           "rewind", "proximal", "done"]
ROW, IDLE_ROW = {"counted": 1, "row_ends": 1}, {"row_ends": 1}
CONFIG = PipelineConfig(bits=8, max_features=40, lookahead=8, proximal=True, refetch=True)


def run(events, *, config=CONFIG, cycles=40, **constant):
    """Outputs in each cycle; ``events`` are inputs by cycle, of which strobes last one cycle."""
    quiet = dict.fromkeys(STROBES, 0)
    cycles = [quiet | events.get(cycle, {}) for cycle in range(cycles)]
    return trace(once(phases_of, config=config), cycles, OUTPUTS, tail=0, **{"first": 1} | constant)


def phases(recorded):
    """The phases in order, with the cycle in which each begins."""
    values = [outputs["phase"] for outputs in recorded]
    return [(cycle, value) for cycle, value in enumerate(values)
            if not cycle or value != values[cycle - 1]]


def cycles_of(recorded, name):
    """Cycles in which an output is 1."""
    return [cycle for cycle, outputs in enumerate(recorded) if outputs[name]]


def test_rows_then_flush_then_done():
    recorded = run({0: {"start": 1}, 2: ROW, 5: ROW, 7: IDLE_ROW, 9: IDLE_ROW | {"outstanding": 2},
                    13: {"outstanding": 1}, 16: {"outstanding": 0}}, rows=2, lookahead=1)
    assert phases(recorded) == [(0, Phase.IDLE), (1, Phase.ROWS), (6, Phase.FLUSH),
                                (10, Phase.SETTLE), (17, Phase.IDLE)]
    assert cycles_of(recorded, "done") == [16]
    assert cycles_of(recorded, "entering") == list(range(1, 6))
    assert cycles_of(recorded, "carrying") == list(range(6, 10))
    assert [recorded[cycle]["rows_left"] for cycle in (1, 2, 3, 5, 6)] == [2, 2, 1, 1, 0]


def test_epoch_of_one_row():
    """Its last row is known in the cycle after ``start``."""
    recorded = run({0: {"start": 1}, 1: ROW, 3: IDLE_ROW}, rows=1, lookahead=0)
    assert phases(recorded) == [(0, Phase.IDLE), (1, Phase.ROWS), (2, Phase.FLUSH),
                                (4, Phase.SETTLE), (5, Phase.IDLE)]


def test_proximal_steps():
    """After every second row, and after the last."""
    recorded = run({0: {"start": 1}, 2: ROW, 4: ROW, 6: IDLE_ROW, 12: {"proximal_done": 1},
                    15: ROW, 17: IDLE_ROW, 22: {"proximal_done": 1}},
                   rows=3, lookahead=0, proximal_period=2)
    assert phases(recorded) == [
        (0, Phase.IDLE), (1, Phase.ROWS), (5, Phase.FLUSH), (7, Phase.SETTLE),
        (8, Phase.PROXIMAL), (13, Phase.ROWS), (16, Phase.FLUSH), (18, Phase.SETTLE),
        (19, Phase.PROXIMAL), (23, Phase.IDLE)]
    assert cycles_of(recorded, "proximal") == [7, 18]
    assert cycles_of(recorded, "done") == [22]
    assert [recorded[cycle]["step_due"] for cycle in (2, 4)] == [0, 1]


def test_no_proximal_steps_without_the_part():
    config = PipelineConfig(bits=8, max_features=40, lookahead=8)
    recorded = run({0: {"start": 1}, 2: ROW, 4: ROW, 6: IDLE_ROW}, config=config, rows=2,
                   lookahead=0, proximal_period=1)
    assert cycles_of(recorded, "done") == [7]
    assert not cycles_of(recorded, "proximal") + cycles_of(recorded, "step_due")


EVERY_CYCLE = PipelineConfig(bits=8, max_features=40, lookahead=15, update_interval=1,
                             proximal=True)
LAST_ROW = ROW | {"batch_ends": 1}


AHEAD = PipelineConfig(bits=8, max_features=40, lookahead=15, update_interval=1, proximal=True,
                       batch_lookahead=7)


def run_batches(events, *, config=EVERY_CYCLE, **constant):
    """:func:`run` of batches whose rows enter one beat a cycle, with what begins a batch done at
    once.
    """
    quiet = {"batch_ends": 0, "will_correct": 0, "corrects": 0, "batch_ready": 1,
             "none_outstanding": 1}
    events = {cycle: quiet | event
              for cycle, event in ({cycle: {} for cycle in range(40)} | events).items()}
    return run(events, config=config, **constant)


def test_rows_go_on_after_a_batch():
    """After D rows without data; after none if D is 0. The epoch's last batch is flushed."""
    recorded = run_batches({0: {"start": 1}, 3: ROW, 4: LAST_ROW, 6: IDLE_ROW, 7: IDLE_ROW, 8: ROW,
                            9: LAST_ROW, 10: IDLE_ROW, 11: IDLE_ROW, 12: LAST_ROW, 13: IDLE_ROW,
                            14: IDLE_ROW, 15: IDLE_ROW}, rows=5, lookahead=2)
    assert phases(recorded)[2:] == [
        (2, Phase.ROWS), (5, Phase.FLUSH), (8, Phase.ROWS), (10, Phase.FLUSH), (12, Phase.ROWS),
        (13, Phase.FLUSH), (16, Phase.SETTLE), (17, Phase.IDLE)]
    assert cycles_of(recorded, "done") == [16]
    recorded = run_batches({0: {"start": 1}, 3: LAST_ROW, 4: LAST_ROW, 6: LAST_ROW, 8: IDLE_ROW},
                           rows=3, lookahead=0)
    assert phases(recorded)[2:] == [(2, Phase.ROWS), (7, Phase.FLUSH), (9, Phase.SETTLE),
                                    (10, Phase.IDLE)]


def test_rows_that_look_ahead_go_on_sooner():
    """After fewer rows without data than D, or after none; the epoch's end is flushed by D + 1."""
    recorded = run_batches({0: {"start": 1}, 3: ROW, 4: LAST_ROW, 6: IDLE_ROW, 7: ROW,
                            8: LAST_ROW, 9: IDLE_ROW, 10: LAST_ROW, 11: IDLE_ROW,
                            12: IDLE_ROW, 13: IDLE_ROW}, rows=5, lookahead=2, idle_rows=1,
                           config=AHEAD)
    assert phases(recorded)[2:] == [
        (2, Phase.ROWS), (5, Phase.FLUSH), (7, Phase.ROWS), (9, Phase.FLUSH), (10, Phase.ROWS),
        (11, Phase.FLUSH), (14, Phase.SETTLE), (15, Phase.IDLE)]
    recorded = run_batches({0: {"start": 1}, 3: LAST_ROW, 4: LAST_ROW, 6: LAST_ROW, 8: IDLE_ROW,
                            9: IDLE_ROW}, rows=3, lookahead=1, idle_rows=0, config=AHEAD)
    assert phases(recorded)[2:] == [(2, Phase.ROWS), (7, Phase.FLUSH), (10, Phase.SETTLE),
                                    (11, Phase.IDLE)]


def test_batches_before_a_step_or_a_correction_are_flushed():
    """And so is one that the epoch's end cuts off."""
    flushed = {4: LAST_ROW, 5: IDLE_ROW, 6: IDLE_ROW, 8: {"proximal_done": 1}}
    recorded = run_batches({0: {"start": 1}, 3: ROW, **flushed}, rows=9, lookahead=1,
                           proximal_period=2)
    assert phases(recorded)[3:] == [(5, Phase.FLUSH), (7, Phase.SETTLE), (8, Phase.PROXIMAL),
                                    (9, Phase.BATCH), (10, Phase.ROWS)]
    flushed[4] = LAST_ROW | {"will_correct": 1}
    flushed[7] = {"corrects": 1}
    flushed[8] = IDLE_ROW
    recorded = run_batches({0: {"start": 1}, 3: ROW, **flushed}, rows=9, lookahead=1)
    assert phases(recorded)[3:] == [(5, Phase.FLUSH), (7, Phase.SETTLE), (8, Phase.BOUNDARY),
                                    (9, Phase.READY), (10, Phase.BATCH), (11, Phase.ROWS)]
    recorded = run_batches({0: {"start": 1}, 3: ROW, 4: ROW, 5: IDLE_ROW, 6: IDLE_ROW}, rows=2,
                           lookahead=1)
    assert phases(recorded)[3:] == [(5, Phase.FLUSH), (7, Phase.SETTLE), (8, Phase.IDLE)]


def test_rows_in_flight_settle():
    """Before an epoch's end, and between a boundary's row and its batch."""
    waits = {"none_outstanding": 0}
    recorded = run_batches({0: {"start": 1, "corrects": 1}, 1: IDLE_ROW | waits, 2: waits, 3: waits,
                            6: LAST_ROW | waits, 7: IDLE_ROW | waits, 8: waits, 9: waits},
                           rows=1, lookahead=0)
    assert phases(recorded) == [
        (0, Phase.IDLE), (1, Phase.BOUNDARY), (2, Phase.READY), (5, Phase.BATCH), (6, Phase.ROWS),
        (7, Phase.FLUSH), (8, Phase.SETTLE), (11, Phase.IDLE)]


@each("period", [1, 2, 3, 5])
def test_steps_are_known_at_once(period):
    """Where rows may end in every cycle."""
    events = dict.fromkeys((4, 5, 6, 8, 9), ROW)
    recorded = run_batches({1: {"start": 1}, **events}, rows=20, lookahead=1,
                           proximal_period=period)
    due = [number for number, cycle in enumerate(events, 1) if recorded[cycle]["step_due"]]
    assert due == [period]      # rows that enter nevertheless, as none does after a batch, follow
    recorded = run_batches({1: {"start": 1}, 4: ROW, 5: IDLE_ROW, 6: IDLE_ROW,
                            8: {"proximal_done": 1}, 11: ROW, 12: ROW}, rows=20, lookahead=1,
                           proximal_period=1)
    assert [recorded[cycle]["step_due"] for cycle in (4, 5, 11, 12)] == [1, 0, 1, 0]


@each("rows", [1, 2, 3, 4])
def test_last_row_is_known_at_once(rows):
    """Where rows may end in every cycle."""
    recorded = run_batches({0: {"start": 1}, **{3 + row: ROW for row in range(rows)}}, rows=rows,
                           lookahead=5)
    assert phases(recorded)[3:] == [(3 + rows, Phase.FLUSH)]


@each("first", [0, 1])
def test_replay(first):
    """Two rows come again. A row that has begun ends as one without data, and counts as one more
    of those that flush.
    """
    recorded = run({0: {"start": 1}, 2: ROW, 4: ROW,
                    6: {"replay": 1, "replayed": 2, "first": first}, 7: {"replayed": 0, "first": 1},
                    8: IDLE_ROW, 10: IDLE_ROW, 12: {} if first else IDLE_ROW, 20: ROW,
                    25: {"decided": 1}, 30: ROW}, rows=4, lookahead=1)
    settled = 11 if first else 13
    assert phases(recorded) == [
        (0, Phase.IDLE), (1, Phase.ROWS), (7, Phase.FLUSH), (settled, Phase.SETTLE),
        (settled + 1, Phase.REPLAY), (21, Phase.DECISION), (26, Phase.ROWS)]
    assert cycles_of(recorded, "discard") == list(range(7, settled + 1))
    assert cycles_of(recorded, "rewind") == [settled]
    assert cycles_of(recorded, "replay_alone") == list(range(settled + 1, 26))
    assert not cycles_of(recorded, "done")
    assert [recorded[cycle]["rows_left"] for cycle in (6, 7, 21, 31)] == [2, 4, 3, 2]


def test_replay_of_the_last_row():
    """After its decision its update is flushed."""
    recorded = run({0: {"start": 1}, 2: ROW, 4: ROW, 5: {"replay": 1, "replayed": 1},
                    6: {"replayed": 0}, 7: IDLE_ROW, 8: IDLE_ROW, 12: ROW, 15: {"decided": 1},
                    17: IDLE_ROW, 19: IDLE_ROW}, rows=2, lookahead=1)
    assert phases(recorded)[-4:] == [(13, Phase.DECISION), (16, Phase.FLUSH), (20, Phase.SETTLE),
                                     (21, Phase.IDLE)]
    assert cycles_of(recorded, "done") == [20]


def test_rows_that_come_again_count_again_before_a_step():
    recorded = run({0: {"start": 1}, 2: ROW, 4: {"replay": 1, "replayed": 1}, 5: {"replayed": 0},
                    6: IDLE_ROW, 10: ROW, 12: {"decided": 1}, 15: ROW},
                   rows=9, lookahead=0, proximal_period=2)
    assert [recorded[cycle]["step_due"] for cycle in (2, 3, 5, 10, 11)] == [0, 1, 0, 0, 1]
    assert phases(recorded)[-2:] == [(13, Phase.ROWS), (16, Phase.FLUSH)]


def test_rows_are_alone_without_lookahead():
    assert all(outputs["replay_alone"] for outputs in run({}, lookahead=0, cycles=3))
    config = PipelineConfig(bits=8, max_features=40, lookahead=8)
    assert not any(outputs["replay_alone"] for outputs in
                   run({}, config=config, lookahead=0, cycles=3))


@each("after", [2, 6, 9, 12, 15, 19, 22])
def test_stop(after):
    """The next epoch is as the first."""
    events = {0: {"start": 1}, 2: ROW, 5: {"replay": 1, "replayed": 1}, 6: {"replayed": 0},
              8: IDLE_ROW, 10: IDLE_ROW, 14: ROW, 17: {"decided": 1}, 21: ROW}
    begun = {cycle: event for cycle, event in events.items() if cycle < after}
    again = {after + 5 + cycle: event for cycle, event in events.items()}
    recorded = run(begun | {after: {"stop": 1}} | again, rows=5, lookahead=1, cycles=60)
    for outputs in recorded[after + 1:after + 6]:
        assert outputs["phase"] == Phase.IDLE
        assert not any(outputs[name] for name in OUTPUTS[1:] if name != "rows_left")
    assert recorded[after + 6:after + 30] == run(events, rows=5, lookahead=1)[1:25]
