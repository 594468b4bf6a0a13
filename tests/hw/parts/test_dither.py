# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put, simulate

from bitstep.golden.dither import dithers
from bitstep.golden.threefry import threefry
from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.parts.dither import Dither
from bitstep_sim.testing.cases import each

CONFIGS = [PipelineConfig(update_interval=2), PipelineConfig(update_interval=4),
           PipelineConfig(update_interval=6, loss_family="logistic")]
KEYS = [0, 0xFFFF_FFFF, 0x1BD1_1BDA, 1]


def run(config, steps):
    """Bits that were taken in each of ``steps``: (key, first row, distances of the rows taken)."""
    dut, taken = Dither(config=config), []

    async def testbench(ctx):
        for key, row, distances in steps:
            put(ctx, dut.key, key)
            put(ctx, dut.row, row)
            put(ctx, dut.restart, 1)
            await ctx.tick()
            put(ctx, dut.restart, 0)
            put(ctx, dut.row, random.Random(key).getrandbits(32))
            await ctx.tick().repeat(config.stages.dither.cycles + 1)
            taken.append([])
            for distance in distances:
                assert ctx.get(dut.valid)
                taken[-1].append(ctx.get(dut.o))
                put(ctx, dut.take, 1)
                await ctx.tick()
                put(ctx, dut.take, 0)
                put(ctx, dut.row, random.Random(key).getrandbits(32))
                await ctx.tick().repeat(distance - 1) if distance > 1 else None

    simulate(dut, testbench, limit=20_000)
    return taken


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"r{config.update_interval}")
@each("key", KEYS)
def test_rows_at_full_rate(config, key):
    (taken,) = run(config, [(key, 0, [config.update_interval] * 50)])
    assert taken == dithers(key, 50).tolist()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"r{config.update_interval}")
@each("seed", range(3))
def test_restarts_at_any_row(config, seed):
    """A restart at any time, also while a block is being made; the row after it comes late."""
    rng = random.Random(seed)
    late = config.stages.dither.cycles + 2
    steps = []
    for _ in range(25):
        distances = [late + rng.randrange(3)]
        distances += [config.update_interval + rng.choice([0, 0, 1,
                                                             9]) for _ in range(rng.randrange(9))]
        steps.append((rng.choice(KEYS), rng.randrange(40), distances))
    for (key, row, distances), taken in zip(steps, run(config, steps), strict=True):
        assert taken == dithers(key, row + len(distances))[row:].tolist()


def of_blocks(key, blocks):
    """The bits of the rows of some blocks, by the generator alone."""
    bits = []
    for block in blocks:
        for word in threefry((key, 0), (block, 0)):
            bits += [int(word) & 0xFFFF, int(word) >> 16]
    return bits


@each("bit", [8, 10, 16, 24, 29])
def test_every_bit_of_the_number_of_a_block_counts(bit):
    """Rows go on from one block to the next where the number gets a bit more."""
    block = (1 << bit) - 2
    (taken,) = run(CONFIGS[0], [(5, 4 * block, [2] * 16)])
    assert taken == of_blocks(5, range(block, block + 4))


def test_the_last_rows_of_an_epoch():
    """Numbers of blocks beyond 2**29 are counted, too."""
    row = (1 << 32) - 4
    (taken,) = run(CONFIGS[0], [(5, row, [9] * 4)])
    assert taken == of_blocks(5, [row // 4])
