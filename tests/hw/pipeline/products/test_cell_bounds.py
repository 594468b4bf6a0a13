# amaranth: UnusedElaboratable=no

import random
from types import SimpleNamespace

import numpy as np
import pytest
from support import in_rows, signed_numbers, trace

from bitstep.golden.integer import IntegerEpoch
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep_hw.pipeline.products.cell_bounds import CellBounds
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

CONFIGS = [PipelineConfig(bits=bits, max_features=features, lookahead=0, refetch=True)
           for bits, features in ((1, 128), (2, 64), (3, 63), (4, 80), (7, 27), (8, 8))]
LOWEST, HIGHEST = -1 << MODEL_WIDTH, (1 << MODEL_WIDTH) - 1     # a word and its correction


def undecided(config, cell, levels, words, dot, target, *, ends):
    """What the golden model says; without ends of the grid, what the sum of |X_j| says."""
    if not ends:
        reach = cell * sum(map(abs, words))
        active = {value < 2 * target if target > 0 else value > 2 * target
                  for value in (2 * dot - reach, 2 * dot + reach)}
        return len(active) == 2
    job = SimpleNamespace(config=config, cell_half_levels=cell, coefficients=np.zeros(0, np.int32))
    epoch = IntegerEpoch(job, None, np.array(words, dtype=np.int64), 0)
    return bool(epoch.undecided(np.array(levels, dtype=np.int64), dot, target))


def bounds(config, cell, levels, words, *, ends=True):
    """How far twice the row's dot product may be below and above that of its codes."""
    below = above = 0
    for level, word in zip(levels, words, strict=True):
        outwards = level * (1 if word > 0 else -1)
        below += cell * abs(word) * (not ends or outwards != -config.rows.level_limit)
        above += cell * abs(word) * (not ends or outwards != config.rows.level_limit)
    return below, above


def check(config, cell, rows, rng, *, gap=0.0, targets=None, ends=True):
    """Rows of (levels, words), whose targets lie on the bounds, just beside, or as given.

    Returns the verdicts.
    """
    lanes, late = config.rows.lanes, config.stages.dot.tree + 2
    outcomes, cycles = {}, []
    for place in in_rows([len(levels) // lanes for levels, _ in rows], rng, gap=gap):
        cycle = {"valid": 0, "first": rng.getrandbits(1), "last": rng.getrandbits(1),
                 "levels": signed_numbers(rng, config.rows.level_width, lanes),
                 "words": signed_numbers(rng, MODEL_WIDTH + 1, lanes)}
        if place is not None:
            row, beat, first, last = place
            levels, words = (part[beat * lanes:(beat + 1) * lanes] for part in rows[row])
            cycle |= {"valid": 1, "first": first, "last": last, "levels": levels, "words": words}
            if last:
                outcomes[len(cycles) + late] = row
        cycles.append(cycle)
    cycles += [{"valid": 0} for _ in range(late + 2)]
    expected, verdicts = [], []
    for number, cycle in enumerate(cycles):
        cycle |= {"target": rng.choice([-1, 1]) << rng.randrange(40),
                  "dot": rng.getrandbits(config.rows.dot_width - 2)}
        if number in outcomes:
            levels, words = rows[outcomes[number]]
            dot = sum(a * b for a, b in zip(levels, words, strict=True))
            below, above = bounds(config, cell, levels, words, ends=ends)
            near = rng.choice([2 * dot - below, 2 * dot + above]) // 2 + rng.choice([-1, 0, 1])
            cycle["target"] = targets[outcomes[number]] if targets else near or 1
            cycle["dot"] = dot
            verdicts.append(undecided(config, cell, levels, words, dot, cycle["target"],
                                      ends=ends))
            if verdicts[-1]:
                expected.append(number + 1)
    recorded = trace(once(CellBounds, config=config), cycles, ["undecided", "dot_margin"],
                     cell=cell, ends=ends)
    for number, row in outcomes.items():
        if not ends:
            assert recorded[number]["dot_margin"] == cell * sum(map(abs, rows[row][1]))
    assert [number for number, cycle in enumerate(recorded) if cycle["undecided"]] == expected
    return verdicts


def random_row(config, rng, beats):
    """Levels, often at the ends of the grid, and words."""
    limit, count = config.rows.level_limit, beats * config.rows.lanes
    levels = [rng.choice([-limit, limit, rng.randint(-limit, limit)]) for _ in range(count)]
    if config.bits == 1:
        levels = [rng.choice([-1, 1]) for _ in range(count)]
    width = rng.randint(2, MODEL_WIDTH + 1)
    return levels, signed_numbers(rng, width, count)


@pytest.mark.by_day(15)
@pytest.mark.covering(2)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("cell", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("gap", [0.0, 0.5])
@pytest.mark.parametrize("ends", [True, False])
def test_on_the_bounds(config, cell, gap, ends):
    rng = random.Random(f"{config.name}-{cell}-{gap}")
    most = config.rows.max_beats
    beats = [1, 1, most, 1, *(rng.randint(1, most) for _ in range(40))]
    verdicts = check(config, cell, [random_row(config, rng, count) for count in beats], rng,
                     gap=gap, ends=ends)
    assert any(verdicts) == (cell > 0)
    assert not all(verdicts)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@each("word", [LOWEST, HIGHEST, 0])
def test_extremes(config, word):
    """Levels at either end and, where there are others, between, with the largest sums."""
    limit, rng = config.rows.level_limit, random.Random(0)
    for level in {-limit, limit, 0 if config.bits > 1 else limit}:
        row = [level] * config.rows.capacity, [word] * config.rows.capacity
        for ends in (True, False):
            check(config, 4, [row] * 12, rng, ends=ends)


@each("level, target, verdict", [
    # X = 10 and -6, level (3, level) of at most 7, cell 1: 2 Z = 60 - 12 level, plus or minus 16.
    (1, 32, True), (1, 31, True), (1, 17, True), (1, 16, False), (1, 33, False), (1, -1, False),
    # The level of -6 is at the end that makes its part smallest, then largest.
    (7, -17, True), (7, -4, False), (7, -5, True), (7, -18, False),
    (-7, 64, False), (-7, 77, True), (-7, 78, False), (-7, 65, True),
])
def test_by_hand(level, target, verdict):
    config = PipelineConfig(bits=4, max_features=16, lookahead=0, refetch=True)
    rest = [0] * 14
    assert check(config, 1, [([3, level, *rest], [10, -6, *rest])], random.Random(0),
                 targets=[target]) == [verdict]


def test_lanes_without_a_feature_add_nothing():
    """Whatever their level is (one code bit has no level 0), since their words are 0."""
    config = CONFIGS[0]
    levels, words = random_row(config, random.Random(0), 1)
    words[5:] = [0] * (config.rows.lanes - 5)
    rng = random.Random(1)
    for cell in (1, 4):
        below, above = bounds(config, cell, levels[:5], words[:5])
        dot = sum(a * b for a, b in zip(levels[:5], words[:5], strict=True))
        targets = [(2 * dot + side) // 2 + step
                   for side in (-below, above) for step in (-1, 0, 1)]
        check(config, cell, [(levels, words)] * 6, rng, targets=[t or 1 for t in targets])


def test_rows_decide_alike_with_every_value_in_their_cells():
    """The bounds are those of the values: the golden model's rule against every value."""
    config = PipelineConfig(bits=2, max_features=32, lookahead=0, refetch=True)
    dut = once(CellBounds, config=config)
    assert config.rows.level_limit == 1
    cases = [(levels, words, target) for levels in ((0, 1), (-1, 0), (1, 1), (-1, 1))
             for words in ((3, 2), (-3, 2), (0, -2), (5, 0)) for target in (-4, -2, 2, 4)]

    async def testbench(ctx):
        ctx.set(dut.cell, 1)
        ctx.set(dut.ends, 1)
        for levels, words, target in cases:
            rest = [0] * (config.rows.lanes - 2)
            for lane, (level, word) in enumerate(zip([*levels, *rest], [*words, *rest],
                                                     strict=True)):
                ctx.set(dut.levels[lane], level)
                ctx.set(dut.words[lane], word)
            ctx.set(dut.target, target)
            ctx.set(dut.dot, sum(a * b for a, b in zip(levels, words, strict=True)))
            for name in ("valid", "first", "last"):
                ctx.set(getattr(dut, name), 1)
            await ctx.tick()
            ctx.set(dut.valid, 0)
            for _ in range(config.stages.dot.tree + 2):
                await ctx.tick()
            # A linear function is largest and smallest in corners of the cells.
            corners = [[value for value in (level - 0.5, level + 0.5, float(level))
                        if -1 <= value <= 1] for level in levels]
            dots = [a * words[0] + b * words[1] for a in corners[0] for b in corners[1]]
            active = {dot < target if target > 0 else dot > target for dot in dots}
            assert ctx.get(dut.undecided) == (len(active) == 2)

    simulate(dut, testbench)
