# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put_all_of, ticks

from bitstep.pipeline.results import UPDATES_LIMIT
from bitstep_hw.pipeline.update.update_sum import UpdateSum
from bitstep_sim.testing.harness import simulate


@pytest.mark.parametrize("limit", [1 << 20, 1 << 33])
def test_sum_of_magnitudes(monkeypatch, limit):
    """The flag comes with the update that reaches the limit, and stays to the next epoch."""
    monkeypatch.setattr("bitstep_hw.pipeline.update.update_sum.UPDATES_LIMIT", limit)
    rng = random.Random(limit)
    dut = UpdateSum()

    async def testbench(ctx):
        for _ in range(3):
            put_all_of(ctx, dut, {"clear": 1, "valid": rng.getrandbits(1), "i": 77})
            await ctx.tick()
            put_all_of(ctx, dut, {"clear": 0, "valid": 0})
            await ticks(ctx, 2)
            assert not ctx.get(dut.overflowed)
            total = 0
            while total < 2 * limit:
                value = rng.choice([-1 << 31, (1 << 31) - 1, 0, -limit // 7, limit // 5, -3])
                if total < limit <= total + abs(value) < limit + 9:
                    continue
                valid = rng.getrandbits(1)
                put_all_of(ctx, dut, {"valid": valid, "i": value})
                await ctx.tick()
                put_all_of(ctx, dut, {"valid": 0})
                total += valid * abs(value)
                await ctx.tick()
                assert ctx.get(dut.overflowed) == (total >= limit)

    simulate(dut, testbench)


@pytest.mark.parametrize("last, overflowed", [(-1 << 31, True), ((1 << 31) - 1, False)])
def test_limit(monkeypatch, last, overflowed):
    """Exactly the limit is too much."""
    assert UPDATES_LIMIT == 1 << 47
    monkeypatch.setattr("bitstep_hw.pipeline.update.update_sum.UPDATES_LIMIT", 1 << 33)
    dut = UpdateSum()

    async def testbench(ctx):
        for value in (-1 << 31, -1 << 31, -1 << 31, last):
            put_all_of(ctx, dut, {"valid": 1, "i": value})
            await ctx.tick()
        put_all_of(ctx, dut, {"valid": 0})
        await ticks(ctx, 2)
        assert ctx.get(dut.overflowed) == overflowed

    simulate(dut, testbench)
