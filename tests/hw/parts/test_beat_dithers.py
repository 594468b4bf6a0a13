# amaranth: UnusedElaboratable=no

import random

from support import put

from bitstep.golden.dither import DITHER_WIDTH, dithers
from bitstep.pipeline.parts.stages import PACKED_DITHER_STAGES
from bitstep_hw.parts.beat_dithers import BeatDithers
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, once, simulate

KEYS = [0, 0xFFFF_FFFF, 0x1BD1_1BDA]


def rows_of(beats, rows_per_beat):
    mask = (1 << DITHER_WIDTH) - 1
    return [beat >> DITHER_WIDTH * row & mask for beat in beats for row in range(rows_per_beat)]


@each("rows_per_beat", [1, 2, 3, 4, 5, 6, 9, 14, 16])
@each("stall", [0.0, 0.6])
def test_rows_of_every_beat(rows_per_beat, stall):
    """Of two epochs, the second of which begins while a beat is offered."""
    dut, taken = once(BeatDithers, rows_per_beat=rows_per_beat), []

    async def testbench(ctx):
        for key in KEYS[:2]:
            put(ctx, dut.key, key)
            put(ctx, dut.restart, 1)
            await ctx.tick()
            put(ctx, dut.restart, 0)
            taken.append(await get_all(ctx, dut.o, 12, rng=random.Random(7), stall=stall))

    simulate(dut, testbench)
    for key, beats in zip(KEYS, taken, strict=False):
        assert rows_of(beats, rows_per_beat) == dithers(key, 12 * rows_per_beat).tolist()


def test_a_beat_a_cycle_from_the_start_delay_on():
    dut, taken = BeatDithers(rows_per_beat=6), []

    async def testbench(ctx):
        put(ctx, dut.key, KEYS[2])
        put(ctx, dut.o.ready, 1)
        put(ctx, dut.restart, 1)
        await ctx.tick()
        put(ctx, dut.restart, 0)
        await ctx.tick().repeat(PACKED_DITHER_STAGES)
        for _ in range(10):
            assert ctx.get(dut.o.valid)
            taken.append(ctx.get(dut.o.payload))
            await ctx.tick()

    simulate(dut, testbench, processes=[held(dut.o)])
    assert rows_of(taken, 6) == dithers(KEYS[2], 60).tolist()
