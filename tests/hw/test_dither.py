# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put, simulate

from bitstep.config import PipelineConfig
from bitstep.golden.dither import dithers
from bitstep_hw.dither import Dither

CONFIGS = [PipelineConfig(recursion=2), PipelineConfig(recursion=3), PipelineConfig(recursion=4),
           PipelineConfig(recursion=6, solver="logistic")]
KEYS = [0, 0xFFFF_FFFF, 0x1BD1_1BDA, 1]


def run(config, steps):
    """Bits that were taken in each of ``steps``: (key, first row, distances of the rows taken)."""
    dut, taken = Dither(config=config), []

    async def bench(ctx):
        for key, row, distances in steps:
            put(ctx, dut.key, key)
            put(ctx, dut.row, row)
            put(ctx, dut.restart, 1)
            await ctx.tick()
            put(ctx, dut.restart, 0)
            put(ctx, dut.row, random.Random(key).getrandbits(32))
            await ctx.tick().repeat(config.dither_cycles + 1)
            taken.append([])
            for distance in distances:
                assert ctx.get(dut.valid)
                taken[-1].append(ctx.get(dut.o))
                put(ctx, dut.take, 1)
                await ctx.tick()
                put(ctx, dut.take, 0)
                put(ctx, dut.row, random.Random(key).getrandbits(32))
                await ctx.tick().repeat(distance - 1) if distance > 1 else None

    simulate(dut, bench, limit=20_000)
    return taken


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"r{config.recursion}")
@pytest.mark.parametrize("key", KEYS)
def test_rows_at_full_rate(config, key):
    (taken,) = run(config, [(key, 0, [config.recursion] * 50)])
    assert taken == dithers(key, 50).tolist()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"r{config.recursion}")
@pytest.mark.parametrize("seed", range(3))
def test_restarts_at_any_row(config, seed):
    """A restart at any time, also while a block is being made; the row after it comes late."""
    rng = random.Random(seed)
    late = config.dither_cycles + 2
    steps = []
    for _ in range(25):
        distances = [late + rng.randrange(3)]
        distances += [config.recursion + rng.choice([0, 0, 1, 9]) for _ in range(rng.randrange(9))]
        steps.append((rng.choice(KEYS), rng.randrange(40), distances))
    for (key, row, distances), taken in zip(steps, run(config, steps), strict=True):
        assert taken == dithers(key, row + len(distances))[row:].tolist()


def test_the_last_rows_of_an_epoch():
    """Numbers of blocks beyond 2**29 are counted, too."""
    from bitstep.golden.threefry import threefry
    row = (1 << 32) - 4
    (taken,) = run(CONFIGS[0], [(5, row, [9] * 4)])
    first, second = (int(word) for word in threefry((5, 0), (row // 4, 0)))
    assert taken == [first & 0xFFFF, first >> 16, second & 0xFFFF, second >> 16]
