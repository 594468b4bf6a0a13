# amaranth: UnusedElaboratable=no

import random

import numpy as np
import pytest
from support import in_rows, trace

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.products.correlator import Correlator
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once

CONFIGS = [
    PipelineConfig(bits=1, max_features=128, lookahead=1),
    PipelineConfig(bits=4, max_features=80, lookahead=4),
    PipelineConfig(bits=5, max_features=60, lookahead=2),
    PipelineConfig(bits=4, row_format="two_levels", max_features=40, lookahead=3),
    PipelineConfig(bits=8, max_features=32, lookahead=8),
    PipelineConfig(bits=8, max_features=32, lookahead=3, update_interval=4),
    PipelineConfig(bits=4, max_features=48, lookahead=3, update_interval=4),
]


def slots_of(config, rows, rng, *, gap, extreme=False):
    """Input cycles, and for each row its last cycle, its two factors and its skip."""
    limit = config.rows.level_limit
    shape = (config.lookahead, config.rows.lanes)

    def levels(*size):
        if extreme:
            return np.full(size, limit)
        return np.array([rng.randint(-limit, limit) for _ in range(int(np.prod(size)))]).reshape(
            size)

    cycles, expected = [], []
    for place in in_rows(rows, rng, gap=gap):
        dot, previous = levels(config.rows.lanes), levels(*shape)     # noise where there is no slot
        cycle = {"valid": 0, "first": rng.getrandbits(1), "last": rng.getrandbits(1),
                 "skip": rng.randrange(33), "dot": dot.tolist(),
                 "previous_levels": previous.tolist()}
        if place is not None:
            _, _, first, last = place
            if first:
                skip, total = rng.choice([0, 0, 1, config.lookahead, 32]), 0
            total = total + (dot * previous).sum(axis=1)
            cycle |= {"valid": 1, "first": first, "last": last, "skip": skip}
            if last:
                expected.append((len(cycles), skip, total))
        cycles.append(cycle)
    return cycles, expected


def check(config, cycles, expected, *, lookahead, square):
    recorded = trace(once(Correlator, config=config), cycles, ["o_valid", "products"],
                     lookahead=lookahead, intercept_square=square)
    latency = config.stages.dot.tree + 4
    finished = [cycle for cycle, outputs in enumerate(recorded) if outputs["o_valid"]]
    assert finished == [last + latency for last, _, _ in expected]
    for last, skip, total in expected:
        counted = [int(value) + square if skip < d <= lookahead else 0
                   for d, value in enumerate(total, start=1)]
        assert recorded[last + latency]["products"] == counted


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@each("gap", [0.0, 0.5])
def test_products_with_the_rows_before(config, gap):
    rng = random.Random(f"{config.name}-{gap}")
    most = config.rows.max_beats
    rows = [1, 1, most, 1, *(rng.randint(1, most) for _ in range(12))]
    cycles, expected = slots_of(config, rows, rng, gap=gap)
    check(config, cycles, expected, lookahead=config.lookahead, square=config.rows.level_limit ** 2)


@pytest.mark.parametrize("lookahead", [0, 1, 3])
def test_look_ahead_of_the_run(lookahead):
    config = CONFIGS[1]
    rng = random.Random(lookahead)
    cycles, expected = slots_of(config, [2, 1, 5, 3], rng, gap=0.2)
    check(config, cycles, expected, lookahead=lookahead, square=0)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_largest_products_fit(config):
    rng = random.Random(0)
    cycles, expected = slots_of(config, [config.rows.max_beats] * 2, rng, gap=0.0, extreme=True)
    assert expected[0][2][0] == config.rows.capacity * config.rows.level_limit ** 2
    check(config, cycles, expected, lookahead=config.lookahead, square=config.rows.level_limit ** 2)
