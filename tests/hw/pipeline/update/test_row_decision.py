# amaranth: UnusedElaboratable=no

import random

import pytest
from support import trace

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.update.row_decision import RowDecision
from bitstep_sim.testing.harness import once

FLAGS = ["o_decided", "o_undecided", "o_replay", "o_positive"]
QUIET = {"dot_valid": 0, "margin_valid": 0, "valid": 0}


def decide(rows, *, mantissa=0, update_interval=2, **constant):
    """Flags of each row, in FLAGS's order, with ``forgotten`` first; rows are
    ``update_interval`` cycles apart, and have ``mantissa`` unless they say another.
    """
    config = PipelineConfig(bits=4, max_features=48, lookahead=2,
                            update_interval=update_interval, refetch=True)
    judged = config.stages.solver.cycles - 1   # cycles from dot product to distance
    cycles = [dict(QUIET) for _ in range(len(rows) * update_interval + judged + 1)]
    for start, row in enumerate(rows):
        start *= update_interval
        cycles[start] |= {"dot_valid": 1, "dot_margin": row["dot_margin"]}
        cycles[start + 1] |= {"margin_valid": 1, "undecided": row["undecided"],
                              "mantissa": row.get("mantissa", mantissa)}
        cycles[start + judged] |= {name: row[name] for name in (
            "valid", "distance", "positive", "replay_alone", "discard")}
    dut = once(RowDecision, config=config)
    recorded = trace(dut, cycles, ["forgotten", *FLAGS], tail=2, **constant)
    return [(recorded[start + judged]["forgotten"],
             *(recorded[start + judged + 1][name] for name in FLAGS))
            for start in range(0, len(rows) * update_interval, update_interval)]


@pytest.mark.parametrize("update_interval", [2, 4])
def test_every_combination(update_interval):
    """Far from the margins and within them, for each flag."""
    rows, expected = [], []
    for number in range(1 << 6):
        valid, undecided, is_open, positive, alone, discard = (number >> bit & 1
                                                               for bit in range(6))
        rows.append({"dot_margin": 10, "undecided": undecided, "valid": valid,
                     "distance": 5 * (15 if is_open else 16) * (1 - 2 * positive),
                     "positive": positive, "replay_alone": alone, "discard": discard})
        counts = valid and not discard
        refetch, replay = counts and alone and undecided, counts and not alone and is_open
        expected.append((refetch or replay or discard, counts and not (refetch or replay),
                         refetch, replay, positive))
    assert decide(rows, update_interval=update_interval, mantissa=5, lookahead_margin=20,
                  refetching=1) == expected


@pytest.mark.parametrize("update_interval", [2, 4])
def test_margins_are_exact(update_interval):
    """At a margin a row is open, a step beyond it is not; each row has a margin of its own."""
    rng, rows, expected = random.Random(update_interval), [], []
    mantissa, lookahead_margin = (1 << 18) - 1, (1 << 40) + 1
    for _ in range(60):
        dot_margin = rng.choice([0, 1, rng.getrandbits(20)])
        half, odd = divmod(mantissa * (dot_margin + lookahead_margin), 2)
        distance = rng.choice([half, half + 1, half + 2, 0]) * rng.choice([-1, 1])
        rows.append({"dot_margin": dot_margin, "undecided": 0, "valid": 1, "distance": distance,
                     "positive": 0, "replay_alone": 0, "discard": 0})
        replay = 2 * abs(distance) <= 2 * half + odd
        expected.append((replay, not replay, 0, replay, 0))
    assert len(set(expected)) == 2
    assert decide(rows, update_interval=update_interval, mantissa=mantissa, refetching=1,
                  lookahead_margin=lookahead_margin) == expected


@pytest.mark.parametrize("update_interval", [2, 4])
def test_rows_with_mantissas_of_their_own(update_interval):
    """At the margin and beyond it, beside rows whose mantissa would decide otherwise."""
    rng, rows, expected = random.Random(update_interval), [], []
    for number in range(40):
        mantissa = [0, 1, (1 << 18) - 1, rng.getrandbits(18)][rng.randrange(4)]
        distance = mantissa * 500 + number % 2
        rows.append({"dot_margin": 700, "undecided": 0, "valid": 1, "mantissa": mantissa,
                     "distance": rng.choice([-1, 1]) * distance,
                     "positive": 0, "replay_alone": 0, "discard": 0})
        replay = distance <= mantissa * 500
        expected.append((replay, not replay, 0, replay, 0))
    assert decide(rows, update_interval=update_interval, refetching=1,
                  lookahead_margin=300) == expected


def test_no_row_is_replayed_where_none_is_fetched():
    row = {"dot_margin": 1000, "undecided": 0, "valid": 1, "distance": 0, "positive": 1,
           "replay_alone": 0, "discard": 0}
    assert decide([row], mantissa=1) == [(0, 1, 0, 0, 1)]
