# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put, put_all_of, ticks

from bitstep_hw.pipeline.rows.replay import Replay
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

WIDTH = 16


class Reader:
    """A plain model of the queue: every item that came, and how far the reader is."""

    def __init__(self):
        self.items, self.came = [], []
        self.oldest = self.wanted = self.cycle = 0
        self.rewound = False

    def offers(self):
        """Whether an item must be offered in this cycle: it came at least 2 cycles ago."""
        return not self.rewound and self.wanted < len(self.items) \
            and self.came[self.wanted] <= self.cycle - 2

    def tick(self, *, item=None, takes=False, release=0, rewind=False):
        """What happened in this cycle."""
        if item is not None:
            self.items.append(item)
            self.came.append(self.cycle)
        self.wanted += takes
        self.oldest += release
        self.wanted = self.oldest if rewind else self.wanted
        self.rewound = rewind
        self.cycle += 1


def run(depth, cycles, *, offer=0.7, ready=0.7, release=0.2, rewind=0.05, clear=0.0, seed=0):
    """Everything at random; every output in every cycle must be the model's. Returns how often
    the queue was full and how many items were taken, again after a rewind too.
    """
    dut, rng = once(Replay, shape=WIDTH, depth=depth), random.Random(f"{depth}-{seed}")
    full, taken = [], []

    async def testbench(ctx):
        model, number = Reader(), 0
        for _ in range(cycles):
            put_all_of(ctx, dut, {"release": 0, "rewind": 0, "amount": rng.randrange(depth),
                                  "clear": rng.random() < clear})
            offered, wants = rng.random() < offer, rng.random() < ready
            put_all_of(ctx, dut.i, {"valid": offered, "payload": number})
            put(ctx, dut.o.ready, wants)
            amount = 0
            if rng.random() < rewind:
                put(ctx, dut.rewind, 1)
            elif rng.random() < release and model.wanted > model.oldest:
                amount = rng.randint(1, min(model.wanted - model.oldest, depth - 1))
                put_all_of(ctx, dut, {"release": 1, "amount": amount})
            clears, rewinds = ctx.get(dut.clear), ctx.get(dut.rewind)
            room = len(model.items) - model.oldest < depth
            full.append(not room)
            assert ctx.get(dut.i.ready) == (room and not clears)
            assert ctx.get(dut.o.valid) == model.offers()
            takes = wants and model.offers()
            if model.offers():
                assert ctx.get(dut.o.payload) == model.items[model.wanted]
            if takes:
                taken.append(model.items[model.wanted])
            enters = offered and room and not clears
            model.tick(item=number if enters else None, takes=takes, release=amount,
                       rewind=bool(rewinds))
            number = (number + enters) % (1 << WIDTH)
            if clears:
                model = Reader()
            await ctx.tick()

    simulate(dut, testbench, limit=cycles + 10)
    return sum(full), taken


@pytest.mark.by_day(1)
@pytest.mark.parametrize("depth", [4, 8, 64])
@each("seed", range(3))
@each("clear", [0.0, 0.02])
def test_as_the_model(depth, seed, clear):
    full, taken = run(depth, 1500, clear=clear, seed=seed)
    assert taken
    assert clear or sorted(taken) != taken, "nothing came again"
    assert depth > 8 or full


@pytest.mark.parametrize("options", [
    {"release": 0.02, "rewind": 0.02},              # mostly full
    {"offer": 0.1, "release": 0.9},                 # mostly empty
    {"ready": 1.0, "offer": 1.0, "rewind": 0.3},    # goes back again and again
], ids=str)
def test_full_empty_and_again(options):
    full, taken = run(8, 1500, **options)
    assert taken
    assert full or options.get("offer") == 0.1


def test_one_item_a_cycle():
    """Also across the end of the memory, and again after a rewind."""
    dut = once(Replay, shape=WIDTH, depth=8)

    async def testbench(ctx):
        put_all_of(ctx, dut.i, {"valid": 1})
        put(ctx, dut.o.ready, 1)
        expected = 0
        for cycle in range(40):
            put(ctx, dut.i.payload, cycle)
            assert ctx.get(dut.i.ready)
            assert ctx.get(dut.o.valid) == (cycle >= 2)
            if cycle >= 2:
                assert ctx.get(dut.o.payload) == expected
                expected += 1
            # What was taken in the cycle before is let go, but for the last five of all.
            put_all_of(ctx, dut, {"release": 3 <= cycle < 38, "amount": 1})
            await ctx.tick()
        put_all_of(ctx, dut, {"release": 0, "rewind": 1})
        put(ctx, dut.i.valid, 0)
        put(ctx, dut.o.ready, 0)
        await ctx.tick()
        put(ctx, dut.rewind, 0)
        put(ctx, dut.o.ready, 1)
        assert not ctx.get(dut.o.valid)
        await ctx.tick()
        for item in range(35, 40):
            assert ctx.get(dut.o.valid)
            assert ctx.get(dut.o.payload) == item
            await ctx.tick()
        assert not ctx.get(dut.o.valid)

    simulate(dut, testbench)


def test_payload_is_held_until_it_is_taken():
    dut = once(Replay, shape=WIDTH, depth=4)

    async def testbench(ctx):
        put(ctx, dut.i.valid, 1)
        for number in range(12):
            put(ctx, dut.i.payload, 100 + number)
            if number >= 2:
                assert ctx.get(dut.o.valid)
                assert ctx.get(dut.o.payload) == 100
            assert ctx.get(dut.i.ready) == (number < 4)
            await ctx.tick()

    simulate(dut, testbench)


def test_release_of_several():
    dut = once(Replay, shape=WIDTH, depth=4)

    async def testbench(ctx):
        put_all_of(ctx, dut.i, {"valid": 1, "payload": 7})
        put(ctx, dut.o.ready, 1)
        await ticks(ctx, 6)
        assert not ctx.get(dut.i.ready)
        put_all_of(ctx, dut, {"release": 1, "amount": 3})
        await ctx.tick()
        put(ctx, dut.release, 0)
        for _ in range(3):
            assert ctx.get(dut.i.ready)
            await ctx.tick()
        assert not ctx.get(dut.i.ready)

    simulate(dut, testbench)


@pytest.mark.parametrize("depth", [0, 2, 3, 6, -4])
def test_bad_depth(depth):
    with pytest.raises(ValueError, match=f"power of two of at least 4, not {depth}$"):
        Replay(shape=WIDTH, depth=depth)
