# amaranth: UnusedElaboratable=no

import random

import pytest
from support import in_rows, put

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.rows.beat_queue import BeatQueue
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

CONFIG = PipelineConfig(bits=8, max_features=80, lookahead=15, update_interval=1)


@each("beats, lookahead", [(1, 11), (1, 1), (2, 5), (3, 3), (3, 0), (7, 1), (10, 1), (10, 0)])
@each("gap", [0.0, 0.5])
def test_beats_of_the_row_to_apply(beats, lookahead, gap):
    """In two epochs, the second of which knows nothing of the first."""
    assert lookahead == 0 or beats <= CONFIG.line_depth(lookahead + 1)
    dut, rng = once(BeatQueue, config=CONFIG), random.Random(f"{beats}-{lookahead}-{gap}")
    n_rows = lookahead + 40 // beats + 4

    async def epoch(ctx):
        content = [[rng.getrandbits(64) for _ in range(beats)] for _ in range(n_rows)]
        put(ctx, dut.clear, 1)
        await ctx.tick()
        put(ctx, dut.clear, 0)
        before = None
        # A row is applied when its update is there, so no sooner than 2 cycles after it.
        apart = 2 if lookahead == 0 else 1
        for now in [*in_rows([beats] * n_rows, rng, gap=gap, apart=apart), None]:
            put(ctx, dut.beat, rng.getrandbits(64) if before is None
                else content[before[0]][before[1]])
            if before is not None and before[0] > lookahead:
                assert ctx.get(dut.o) == content[before[0] - lookahead - 1][before[1]], before
            put(ctx, dut.slot, {"valid": now is not None,
                                "apply": rng.random() < 0.5 if now is None
                                else now[0] > lookahead})
            await ctx.tick()
            before = now

    async def testbench(ctx):
        await epoch(ctx)
        await epoch(ctx)

    simulate(dut, testbench)


@pytest.mark.parametrize("features, depth", [(8, 16), (80, 32), (8 * 300, 1024)])
def test_storage(features, depth):
    """As many beats as are in flight of the rows that have most of them."""
    config = PipelineConfig(bits=8, max_features=features, lookahead=15, update_interval=1)
    assert config.beats_in_flight <= BeatQueue(config=config).depth == depth
