# amaranth: UnusedElaboratable=no

import random

from support import put

from bitstep.golden.dither import dithers
from bitstep.pipeline.parts.stages import ROW_DITHER_STAGES
from bitstep_hw.parts.row_dithers import RowDithers
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

KEYS = [0, 0xFFFF_FFFF, 0x1BD1_1BDA, 0x8000_0001]


@each("cycles", [ROW_DITHER_STAGES, ROW_DITHER_STAGES + 3])
@each("gap", [0.0, 0.6])
def test_rows_of_epochs(gap, cycles):
    """Rows in every cycle and with gaps, of epochs that begin within a block of the generator."""
    dut, rng, taken = once(RowDithers, cycles=cycles), random.Random(gap), []

    async def testbench(ctx):
        for key in KEYS:
            put(ctx, dut.key, key)
            put(ctx, dut.restart, 1)
            await ctx.tick()
            put(ctx, dut.restart, 0)
            rows = [rng.random() >= gap for _ in range(101)]
            found = []
            for row in [*rows, *[0] * cycles]:
                put(ctx, dut.row, row)
                found.append(ctx.get(dut.o))
                await ctx.tick()
            taken.append([bits for bits, row in
                          zip(found[cycles:], rows, strict=True) if row])

    simulate(dut, testbench)
    for key, found in zip(KEYS, taken, strict=True):
        assert found == dithers(key, len(found)).tolist()
