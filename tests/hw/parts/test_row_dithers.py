# amaranth: UnusedElaboratable=no

import random

from support import put

from bitstep.golden.dither import dithers
from bitstep.pipeline.parts.stages import ROW_DITHER_CYCLES
from bitstep_hw.parts.row_dithers import RowDithers
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

KEYS = [0, 0xFFFF_FFFF, 0x1BD1_1BDA, 0x8000_0001]


@each("cycles", [10, 11, 16])
@each("gap", [0.0, 0.6])
@each("ends", [True, False])
def test_rows_of_epochs(gap, cycles, ends):
    """Rows in every cycle and with gaps, of epochs that begin within a block of the generator, as
    early as they may; with ``ends`` after the rows before have their bits, else after some of these
    rows were given up on the way.
    """
    dut, rng, taken = once(RowDithers, cycles=cycles), random.Random(gap), []

    async def testbench(ctx):
        for key in KEYS:
            put(ctx, dut.key, key)
            put(ctx, dut.restart, 1)
            await ctx.tick()
            put(ctx, dut.restart, 0)
            await ctx.tick().repeat(ROW_DITHER_CYCLES + 1 - cycles)
            rows = [rng.random() >= gap for _ in range(101)]
            found = []
            for row in [*rows, *[0] * cycles * ends]:
                put(ctx, dut.row, row)
                found.append(ctx.get(dut.o))
                await ctx.tick()
            put(ctx, dut.row, 0)
            taken.append([bits for bits, row in zip(found[cycles:], rows, strict=ends) if row])

    simulate(dut, testbench)
    for key, found in zip(KEYS, taken, strict=True):
        assert found == dithers(key, len(found)).tolist()
