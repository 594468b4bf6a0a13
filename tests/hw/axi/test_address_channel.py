# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put_all_of

from bitstep_hw.axi.address_channel import AddressChannel
from bitstep_hw.axi.buses import MAX_BURST
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, once, put_all, simulate


def bursts_of(jobs, data_width):
    """Bursts of blocks, from the definition: they end where 16 beats are aligned."""
    size = data_width // 8
    for job in jobs:
        first = job["address"] // size
        end = first + job["beats"]
        while first < end:
            beats = min(MAX_BURST - first % MAX_BURST, end - first)
            yield {"address": first * size, "length": beats - 1}
            first += beats


@pytest.mark.parametrize("data_width, max_outstanding", [(32, 1), (64, 3), (128, 8)])
@each("stall", [0.0, 0.6])
def test_bursts_in_order_and_within_limits(data_width, max_outstanding, stall):
    """No more bursts under way than allowed, none issued without room a cycle before."""
    dut = once(AddressChannel, data_width=data_width, max_outstanding=max_outstanding)
    seed, size = f"{data_width}-{stall}", data_width // 8
    rng = random.Random(seed)
    jobs = [{"address": rng.randrange(1 << 20) * size, "beats": rng.choice([1, 15, 16, 17, 70])}
            for _ in range(30)]
    expected, found, issued = list(bursts_of(jobs, data_width)), [], []
    most = 0

    async def send(ctx):
        await put_all(ctx, dut.i_job, jobs, rng=random.Random(f"{seed}-jobs"))

    async def receive(ctx):
        found.extend(await get_all(ctx, dut.o, len(expected), rng=random.Random(f"{seed}-bus"),
                                   stall=stall))

    async def memory(ctx):
        nonlocal most
        rng, under_way, may_issue = random.Random(f"{seed}-memory"), 0, False
        while len(issued) < len(expected) or under_way:
            room, more_room = (rng.random() >= stall / 2 for _ in range(2))
            ended = under_way and rng.random() < (0.5 if under_way == max_outstanding else 0.05)
            put_all_of(ctx, dut, {"has_room": room, "has_more_room": more_room, "ended": ended})
            assert ctx.get(dut.outstanding) == under_way <= max_outstanding
            issue = ctx.get(dut.issue)
            assert may_issue or not issue
            if issue:
                issued.append(ctx.get(dut.issue_length))
            may_issue = more_room if issue else room
            under_way += issue - ended
            most = max(most, under_way)
            await ctx.tick()

    simulate(dut, send, receive, memory, processes=[held(dut.o)])
    assert [{"address": burst.address, "length": burst.length} for burst in found] == expected
    assert issued == [burst["length"] for burst in expected]
    assert most == max_outstanding


def test_a_burst_a_cycle():
    """Addresses leave 2 cycles after their job, then one a cycle, also across jobs."""
    dut, valid = AddressChannel(data_width=64, max_outstanding=15), []
    jobs = [{"address": 0, "beats": 48}, {"address": 4096, "beats": 32}]

    async def send(ctx):
        put_all_of(ctx, dut, {"has_room": 1, "has_more_room": 1})
        ctx.set(dut.o.ready, 1)
        await ctx.tick()
        await put_all(ctx, dut.i_job, jobs, rng=random.Random(0))

    async def watch(ctx):
        await ctx.tick()
        for _ in range(12):
            valid.append(ctx.get(dut.o.valid))
            await ctx.tick()

    simulate(dut, send, watch)
    assert valid == [0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]


def test_stop():
    """What was issued stays on the bus; nothing else is issued, and the job is forgotten."""
    dut = once(AddressChannel, data_width=64, max_outstanding=4)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"has_room": 1, "has_more_room": 1})
        await ctx.tick()
        await put_all(ctx, dut.i_job, [{"address": 0, "beats": 64}], rng=random.Random(0))
        await ctx.tick()
        assert (ctx.get(dut.o.valid), ctx.get(dut.busy)) == (1, 1)
        ctx.set(dut.stop, 1)
        for _ in range(5):
            assert ctx.get(dut.o.valid)
            assert not ctx.get(dut.issue)
            await ctx.tick()
        assert (ctx.get(dut.outstanding), ctx.get(dut.busy)) == (1, 0)
        ctx.set(dut.o.ready, 1)
        await ctx.tick()
        assert not ctx.get(dut.o.valid)

    simulate(dut, testbench)


@each("options, message", [
    ({"data_width": 48, "max_outstanding": 4}, "Data width must be a power of two .* not 48"),
    ({"data_width": 64, "max_outstanding": 0}, "Outstanding bursts must be at least 1, not 0")])
def test_messages(options, message):
    with pytest.raises(ValueError, match=message):
        AddressChannel(**options)
