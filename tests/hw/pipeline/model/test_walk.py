# amaranth: UnusedElaboratable=no

import pytest
from beside_store import set_shape
from support import put, ticks

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.model.walk import ModelWalk
from bitstep_sim.testing.harness import simulate

EIGHT = PipelineConfig(bits=8, max_features=24)         # 8 lanes
ODD = PipelineConfig(bits=3, max_features=63)           # 21 lanes, 22 words a beat
FAST = PipelineConfig(bits=8, max_features=24, update_interval=4)     # whose store answers later


@pytest.mark.parametrize("config, n_features", [
    (EIGHT, 1), (EIGHT, 2), (EIGHT, 3), (EIGHT, 8), (EIGHT, 9), (EIGHT, 23), (EIGHT, 24),
    (FAST, 1), (FAST, 9), (FAST, 24),
    (ODD, 1), (ODD, 20), (ODD, 21), (ODD, 22), (ODD, 42), (ODD, 43), (ODD, 63)])
def test_order(config, n_features):
    """Every pair that holds a feature, in order and again, and the cycles before each beat."""
    walk = ModelWalk(config=config)
    places = {(feature // config.rows.lanes, feature % config.rows.lanes // 2)
              for feature in range(n_features)}

    async def testbench(ctx):
        set_shape(ctx, walk, config, n_features)
        put(ctx, walk.restart, 1)
        await ctx.tick()
        put(ctx, walk.restart, 0)
        for _ in range(2):
            for number, (index, pair) in enumerate(sorted(places)):
                if pair == 0:
                    for _ in range(1 + config.clock.fast):
                        assert not ctx.get(walk.ready)
                        assert ctx.get(walk.index) == index
                        await ctx.tick()
                assert ctx.get(walk.ready)
                assert (ctx.get(walk.index), ctx.get(walk.pair)) == (index, pair)
                assert ctx.get(walk.last) == (number == len(places) - 1)
                put(ctx, walk.advance, 1)
                await ctx.tick()
                put(ctx, walk.advance, 0)

    simulate(walk, testbench)


@pytest.mark.parametrize("config", [EIGHT, FAST], ids=lambda config: config.name)
def test_waits_and_restarts(config):
    walk = ModelWalk(config=config)

    async def testbench(ctx):
        set_shape(ctx, walk, config, 24)
        await ticks(ctx, 1 + config.clock.fast)
        for _ in range(6 + config.clock.fast):
            put(ctx, walk.advance, ctx.get(walk.ready))
            await ctx.tick()
        put(ctx, walk.advance, 0)
        for _ in range(3):
            assert (ctx.get(walk.index), ctx.get(walk.pair), ctx.get(walk.ready)) == (1, 1, 1)
            await ctx.tick()
        put(ctx, walk.restart, 1)
        put(ctx, walk.advance, 1)
        await ctx.tick()
        put(ctx, walk.restart, 0)
        put(ctx, walk.advance, 0)
        for ready in [0] * (1 + config.clock.fast) + [1]:
            assert (ctx.get(walk.index), ctx.get(walk.pair), ctx.get(walk.ready)) == (0, 0, ready)
            await ctx.tick()

    simulate(walk, testbench)
