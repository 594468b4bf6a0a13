# amaranth: UnusedElaboratable=no

import random

from support import put_all_of, ticks

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep_hw.shell.derivative_writer import DEPTH, ROOM, DerivativeWriter
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, once, simulate

CONFIG = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=64, lookahead=1)
ADDRESS = 0x1_2345_6780


def words_of(labels):
    """The words in memory: two labels each."""
    padded = [*labels, *[0] * (len(labels) % 2)]
    return [low | high << 32 for low, high in zip(padded[::2], padded[1::2], strict=True)]


def check(counts, *, busy, stall, seed=0):
    """Epochs of so many rows; rows come in while the writer does not hold them."""
    dut, rng = DerivativeWriter(config=CONFIG), random.Random(f"{seed}-{busy}-{stall}")
    epochs = [[rng.getrandbits(32) for _ in range(count)] for count in counts]
    seen = {"blocks": [], "held": 0}

    async def rows(ctx):
        for number, labels in enumerate(epochs):
            put_all_of(ctx, dut, {"start": 1, "rows": len(labels),
                                  "address": ADDRESS + (number << 16)})
            await ctx.tick()
            put_all_of(ctx, dut, {"start": 0})
            for label in labels:
                # As many rows as may be in a pipeline come after ``hold``.
                late = 0
                while rng.random() >= busy or (ctx.get(dut.hold) and late < ROOM):
                    seen["held"] += ctx.get(dut.hold)
                    late += 1
                    await ctx.tick()
                assert not ctx.get(dut.idle)
                put_all_of(ctx, dut, {"valid": 1, "label": label})
                await ctx.tick()
                put_all_of(ctx, dut, {"valid": 0, "label": rng.getrandbits(32)})
            for _ in range(5000):
                if ctx.get(dut.idle):
                    break
                await ctx.tick()
            assert ctx.get(dut.idle)

    async def memory(ctx):
        kept = []
        for labels in epochs:
            words = words_of(labels)
            taken = 0
            while taken < len(words):
                (block,) = await get_all(ctx, dut.job, 1, rng=rng, stall=stall)
                seen["blocks"].append((block.address, block.beats))
                kept += await get_all(ctx, dut.o, block.beats, rng=rng, stall=stall)
                taken += block.beats
        seen["words"] = kept

    simulate(dut, rows, memory, processes=[held(dut.job), held(dut.o)], limit=60_000)
    expected = [(ADDRESS + (number << 16) + 128 * block, min(16, size - 16 * block))
                for number, labels in enumerate(epochs)
                for size in [len(words_of(labels))] for block in range(-(-size // 16))]
    assert seen["blocks"] == expected
    assert seen["words"] == [word for labels in epochs for word in words_of(labels)]
    return seen["held"]


@each("busy, stall", [(0.9, 0.0), (0.3, 0.5)])
def test_labels_in_blocks(busy, stall):
    check([1, 2, 3, 31, 32, 33, 64, 150], busy=busy, stall=stall)


def test_rows_are_held_before_there_is_no_room():
    assert check([700], busy=1.0, stall=0.9)


def test_no_block_before_its_words():
    """15 words, of which no block is asked for until the rows have ended."""
    dut = once(DerivativeWriter, config=CONFIG)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"start": 1, "rows": 31})
        await ctx.tick()
        put_all_of(ctx, dut, {"start": 0, "valid": 1})
        for _ in range(30):
            assert not ctx.get(dut.job.valid)
            await ctx.tick()
        put_all_of(ctx, dut, {"valid": 0})
        await ticks(ctx, 5)
        assert not ctx.get(dut.job.valid)
        put_all_of(ctx, dut, {"valid": 1})
        await ctx.tick()
        put_all_of(ctx, dut, {"valid": 0})
        assert ctx.get(dut.job.valid)
        assert ctx.get(dut.job.payload.beats) == 16

    simulate(dut, testbench)


@each("count", [1, 40, 2 * (DEPTH - ROOM)])
def test_what_was_stopped_leaves_nothing(count):
    """After ``clear``, nothing of a run is left, whatever its place."""
    dut = once(DerivativeWriter, config=CONFIG)

    async def testbench(ctx):
        for _ in range(2):
            put_all_of(ctx, dut, {"start": 1, "rows": 1000, "address": ADDRESS})
            await ctx.tick()
            put_all_of(ctx, dut, {"start": 0, "valid": 1, "label": 7})
            await ticks(ctx, count)
            put_all_of(ctx, dut, {"valid": 0, "clear": 1})
            await ticks(ctx, 2)
            put_all_of(ctx, dut, {"clear": 0})
            for _ in range(70):
                assert ctx.get(dut.idle)
                assert not ctx.get(dut.job.valid)
                assert not ctx.get(dut.o.valid)
                await ctx.tick()
            put_all_of(ctx, dut, {"start": 1, "rows": 3, "address": 64})
            await ctx.tick()
            put_all_of(ctx, dut, {"start": 0})
            for label in (1, 2, 3):
                put_all_of(ctx, dut, {"valid": 1, "label": label})
                await ctx.tick()
            put_all_of(ctx, dut, {"valid": 0})
            rng = random.Random(0)
            (block,) = await get_all(ctx, dut.job, 1, rng=rng)
            assert (block.address, block.beats) == (64, 2)
            assert await get_all(ctx, dut.o, 2, rng=rng) == words_of([1, 2, 3])

    simulate(dut, testbench)
