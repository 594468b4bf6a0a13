# amaranth: UnusedElaboratable=no

import random

import pytest

from bitstep_hw.axi.split_reader import SplitReader
from bitstep_sim.testing.axi_memory import SLVERR, AxiMemory
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, held_channel, once, put_all, simulate

PAGE = 4096
BASE, STRIDE = 0x1_0000_0000, 3         # across 4 GiB from the first slice to the next


def setup(ports, *, stalls, latencies, bad=None, width=64, seed=0):
    """The reader, and a memory for each port, as slow as it should be."""
    dut = once(SplitReader, data_width=ports * width, ports=ports, fifo_depth=64,
               max_outstanding=4)
    memories = [AxiMemory(data_width=width, rng=random.Random(f"{seed}-{number}"), stall=stall,
                          latency=latency, bad=bad if number == ports - 1 else None)
                for number, (stall, latency) in enumerate(zip(stalls, latencies, strict=True))]

    def server(memory, bus):
        async def serve(ctx):
            await memory.read(ctx, bus)
        return serve

    processes = [server(*pair) for pair in zip(memories, dut.buses, strict=True)]
    processes += [held_channel(bus.arvalid, bus.arready, bus.araddr, bus.arlen)
                  for bus in dut.buses]
    return dut, memories, processes


def expected_of(memories, jobs, width):
    """Beats by the layout: part k of each in slice k."""
    beats = []
    for offset, count in jobs:
        for index in range(count):
            place = offset // len(memories) + index * width // 8
            beats.append(sum(
                memory.word(BASE - PAGE + number * STRIDE * PAGE + place) << number * width
                for number, memory in enumerate(memories)))
    return beats


def check(ports, jobs, *, width=64, source_stall=0.0, sink_stall=0.0, seed=0, **options):
    dut, memories, processes = setup(ports, width=width, seed=seed, **options)
    expected, received, counted = expected_of(memories, jobs, width), [], []

    async def source(ctx):
        ctx.set(dut.base, BASE - PAGE)
        ctx.set(dut.stride, STRIDE)
        await ctx.tick().repeat(2)
        await put_all(ctx, dut.i_job, [{"address": offset, "beats": count}
                                       for offset, count in jobs],
                      rng=random.Random(f"{seed}-source"), stall=source_stall)

    async def sink(ctx):
        received.extend(await get_all(ctx, dut.o, len(expected),
                                      rng=random.Random(f"{seed}-sink"), stall=sink_stall))
        await ctx.tick()
        assert ctx.get(dut.idle)

    async def count(ctx):
        while True:
            *_, accepted, error = await ctx.tick().sample(dut.accepted, dut.error)
            counted.append((accepted, error))

    simulate(dut, source, sink, processes=[*processes, held(dut.o), count], limit=20_000)
    assert received == expected
    assert sum(accepted for accepted, _ in counted) == ports * len(expected)
    return sum(error for _, error in counted)


@pytest.mark.parametrize("ports, width", [(2, 64), (4, 64), (2, 128)])
@each("case", [
    {"stalls": (0.0, 0.0), "latencies": (1, 1)}, {"stalls": (0.0, 0.0), "latencies": (1, 40)},
    {"stalls": (0.0, 0.0), "latencies": (40, 1)}, {"stalls": (0.6, 0.1), "latencies": (3, 9)},
    {"stalls": (0.0, 0.9), "latencies": (9, 3), "sink_stall": 0.5},
    {"stalls": (0.2, 0.2), "latencies": (9, 9), "source_stall": 0.8}])
def test_a_late_port_tears_no_beat(ports, width, case):
    beat = ports * width // 8
    jobs = [(0, 1), (16 * beat, 40), (5 * beat, 16), (7 * beat, 3), (200 * beat, 64)]
    pairs = {key: value * (ports // 2) if isinstance(value, tuple) else value
             for key, value in case.items()}
    check(ports, jobs, width=width, **pairs)


@each("stall", [0.0, 0.5])
def test_an_error_of_one_port(stall):
    last = BASE - PAGE + STRIDE * PAGE
    errors = check(2, [(0, 20), (0, 20)], stalls=(stall, stall), latencies=(1, 1),
                   bad={last + 8 * 3: SLVERR})
    assert errors == 2


@each("moment", range(1, 40, 3))
def test_stop_and_on_again(moment):
    """What was read before a stop is forgotten by every port, also where one is far ahead."""
    dut, memories, processes = setup(2, stalls=(0.0, 0.7), latencies=(1, 12))
    jobs, later = [(0, 60)], [(1600, 9)]
    expected = expected_of(memories, later, 64)

    async def test(ctx):
        ctx.set(dut.base, BASE - PAGE)
        ctx.set(dut.stride, STRIDE)
        await ctx.tick().repeat(2)
        await put_all(ctx, dut.i_job, [{"address": at, "beats": count} for at, count in jobs],
                      rng=random.Random(0), stall=0)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(moment)
        ctx.set(dut.o.ready, 0)
        ctx.set(dut.stop, 1)
        await ctx.tick()
        for _ in range(400):
            if ctx.get(dut.idle):
                break
            await ctx.tick()
        assert ctx.get(dut.idle)
        ctx.set(dut.stop, 0)
        await put_all(ctx, dut.i_job, [{"address": at, "beats": count} for at, count in later],
                      rng=random.Random(0), stall=0)
        assert await get_all(ctx, dut.o, len(expected), rng=random.Random(0), stall=0) == expected

    simulate(dut, test, processes=processes, limit=5000)


def test_parameters():
    for ports in (1, 3):
        with pytest.raises(ValueError, match="power of two of at least 2"):
            SplitReader(data_width=128, ports=ports, fifo_depth=64, max_outstanding=4)
