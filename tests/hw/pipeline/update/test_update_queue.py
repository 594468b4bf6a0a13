# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put, put_all_of, signed_number

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.update.update_queue import UpdateQueue
from bitstep_sim.testing.harness import simulate


@pytest.mark.parametrize("lookahead", [0, 1, 5, 8])
def test_updates_in_order(lookahead):
    """As many wait as the look-ahead lets, and each counts from its row's first slot on."""
    dut = UpdateQueue(config=PipelineConfig(bits=8, lookahead=lookahead))
    rng = random.Random(lookahead)

    async def testbench(ctx):
        for _ in range(3):
            waiting, expected = [], None
            for _ in range(300):
                slot = {"valid": rng.random() < 0.7, "first": rng.random() < 0.5,
                        "apply": bool(waiting) and rng.random() < 0.5}
                comes = len(waiting) <= lookahead + 1 and rng.random() < 0.5
                update = signed_number(rng, 32)
                put_all_of(ctx, dut, {"slot": slot, "i_valid": comes, "i": update})
                if slot["valid"] and slot["first"]:
                    expected = waiting.pop(0) if slot["apply"] else 0
                if comes:
                    waiting.append(update)
                await ctx.tick()
                assert expected is None or ctx.get(dut.o) == expected
            put_all_of(ctx, dut, {"slot": {"valid": 0}, "i_valid": 0, "clear": 1})
            await ctx.tick()
            put(ctx, dut.clear, 0)

    simulate(dut, testbench)
