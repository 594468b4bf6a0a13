# amaranth: UnusedElaboratable=no

import random

from support import put

from bitstep.pipeline.parts.formats import PACKED_COUNT_CYCLES
from bitstep_hw.shell.beat_count import BeatCount
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate


@each("rows_per_beat", [1, 2, 3, 5, 14, 16, 64, 512])
def test_rows_divided_by_those_of_a_beat(rows_per_beat):
    dut, rng = BeatCount(rows_per_beat=rows_per_beat), random.Random(rows_per_beat)
    rows = [1, rows_per_beat, rows_per_beat + 1, 20_640, (1 << 32) - 1, rng.getrandbits(32)]

    async def testbench(ctx):
        for number in rows:
            put(ctx, dut.rows, number)
            put(ctx, dut.start, 1)
            await ctx.tick()
            put(ctx, dut.start, 0)
            put(ctx, dut.rows, rng.getrandbits(32))
            for _ in range(PACKED_COUNT_CYCLES):
                assert not ctx.get(dut.ready)
                await ctx.tick()
            assert ctx.get(dut.ready)
            assert ctx.get(dut.beats) == -(-number // rows_per_beat)

    simulate(dut, testbench)
