# amaranth: UnusedElaboratable=no

import dataclasses
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
    assert lookahead == 0 or beats <= CONFIG.ahead.line_depth(lookahead + 1)
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


@each("beats, lookahead, idle_rows", [
    (1, 15, 8), (1, 15, 12), (2, 8, 4), (3, 5, 2), (7, 3, 1), (8, 2, 1), (9, 2, 0), (10, 2, 0)])
def test_beats_of_rows_before(beats, lookahead, idle_rows):
    """Those before the last ``idle_rows``, up to the row to apply, at the same place in the row."""
    config = dataclasses.replace(CONFIG, batch_lookahead=7)
    dut, rng = once(BeatQueue, config=config), random.Random(f"{beats}-{lookahead}-{idle_rows}")
    n_rows, places = lookahead + 60 // beats + 4, range(lookahead - idle_rows)
    content = [[rng.getrandbits(64) for _ in range(beats)] for _ in range(n_rows)]
    found = 0

    async def testbench(ctx):
        nonlocal found
        put(ctx, dut.beats, beats)
        put(ctx, dut.idle_rows, idle_rows)
        put(ctx, dut.clear, 1)
        await ctx.tick().repeat(10)     # constant from a batch's start to the next
        put(ctx, dut.clear, 0)
        before = None
        for now in [*in_rows([beats] * n_rows, rng, gap=0.3), None]:
            put(ctx, dut.beat, rng.getrandbits(64) if before is None
                else content[before[0]][before[1]])
            for place in places:
                if before is not None and before[0] > idle_rows + place:
                    row, beat = before[0] - idle_rows - 1 - place, before[1]
                    assert ctx.get(dut.previous[place]) == content[row][beat], (before, place)
                    found += 1
            put(ctx, dut.slot, {"valid": now is not None,
                                "apply": now is not None and now[0] > lookahead})
            await ctx.tick()
            before = now

    simulate(dut, testbench)
    assert found > 80


@pytest.mark.parametrize("features, depth", [(8, 16), (80, 32), (8 * 300, 1024)])
def test_storage(features, depth):
    """As many beats as are in flight of the rows that have most of them."""
    config = PipelineConfig(bits=8, max_features=features, lookahead=15, update_interval=1)
    assert config.ahead.beats_in_flight <= BeatQueue(config=config).depth == depth
