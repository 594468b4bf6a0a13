# amaranth: UnusedElaboratable=no

import random

import pytest
from support import STOPS

from bitstep_hw.axi.burst_splitter import BurstSplitter
from bitstep_hw.axi.read_master import ReadMaster
from bitstep_sim.testing.axi_memory import DECERR, SLVERR, AxiMemory
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, held_channel, once, put_all, simulate

CORNERS = [  # (beat's index, beats)
    (0, 1), (511, 1), (510, 3), (7, 16), (0, 16), (0, 17), (15, 1), (15, 2), (500, 40), (1024, 64),
]


def jobs_of(corners, beat_bytes, base=0):
    return [{"address": base + index * beat_bytes, "beats": beats} for index, beats in corners]


def addresses_of(jobs, beat_bytes):
    return [job["address"] + beat_bytes * i for job in jobs for i in range(job["beats"])]


def setup(*, stall=0.0, latency=1, bad=None, seed=0, **parameters):
    dut = once(ReadMaster, **parameters)
    memory = AxiMemory(data_width=dut.data_width, rng=random.Random(f"{seed}-memory"),
                       stall=stall, latency=latency, bad=bad)
    bus = dut.bus

    async def serve(ctx):
        await memory.read(ctx, bus)

    processes = [serve, held_channel(bus.arvalid, bus.arready, bus.araddr, bus.arlen)]
    return dut, memory, processes


def check(jobs, *, seed=0, source_stall=0.0, sink_stall=0.0, limit=20_000, **options):
    dut, memory, processes = setup(seed=seed, **options)
    expected = [memory.word(at) for at in addresses_of(jobs, memory.beat_bytes)]
    received = []

    async def source(ctx):
        await put_all(ctx, dut.i_job, jobs, rng=random.Random(f"{seed}-source"),
                      stall=source_stall)

    async def sink(ctx):
        rng = random.Random(f"{seed}-sink")
        received.extend(await get_all(ctx, dut.o, len(expected), rng=rng, stall=sink_stall))
        await ctx.tick()
        assert ctx.get(dut.idle)

    async def count(ctx):
        count.accepted = count.errors = 0
        while True:
            *_, accepted, error, rready = \
                await ctx.tick().sample(dut.accepted, dut.error, dut.bus.rready)
            assert rready
            count.accepted += accepted
            count.errors += error

    simulate(dut, source, sink, processes=[*processes, held(dut.o), count], limit=limit)
    assert received == expected
    assert count.accepted == len(expected)
    return memory, count.errors


@pytest.mark.parametrize("data_width", [64, 512])
@each("stall", [0.0, 0.5])
@each("latency", [1, 30])
def test_reads_blocks_in_order(data_width, stall, latency):
    rng = random.Random(data_width)
    beat_bytes = data_width // 8
    corners = CORNERS + [(rng.randrange(4096), rng.randrange(1, 40)) for _ in range(10)]
    jobs = [*jobs_of(corners, beat_bytes),
            *jobs_of([(0, 20)], beat_bytes, base=(1 << 64) - 20 * beat_bytes)]
    check(jobs, data_width=data_width, stall=stall, latency=latency, source_stall=stall,
          sink_stall=stall)


@each("parameters", [
    {"fifo_depth": 32}, {"fifo_depth": 33, "max_outstanding": 1}, {"max_outstanding": 3}])
@each("sink_stall", [0.0, 0.9])
def test_small_parameters(parameters, sink_stall):
    check(jobs_of(CORNERS, 8), data_width=64, sink_stall=sink_stall, latency=10, **parameters)


def test_burst_shapes():
    memory, _ = check(jobs_of([(5, 40)], 8), data_width=64)
    assert memory.bursts == [(5 * 8, 11), (16 * 8, 16), (32 * 8, 13)]


@each("beats, latency", [
    (1, 1),                     # latency 1 only: each beat is one of the outstanding bursts
    (16, 1), (200, 1), (16, 60), (200, 60),
])
def test_one_beat_per_cycle(beats, latency):
    dut, _, processes = setup(data_width=64, latency=latency, max_outstanding=8)
    n_jobs = 400 // beats

    async def source(ctx):
        jobs = jobs_of([(16 * i, beats) for i in range(n_jobs)], 8)
        await put_all(ctx, dut.i_job, jobs, rng=random.Random(0))

    async def sink(ctx):
        ctx.set(dut.o.ready, 1)
        valids = []
        while sum(valids) < n_jobs * beats:
            *_, valid = await ctx.tick().sample(dut.o.valid)
            valids.append(valid)
        first = valids.index(1)
        assert first <= latency + 6
        assert all(valids[first:])

    simulate(dut, source, sink, processes=processes, limit=2000)


@pytest.mark.parametrize("most", [1, 7, 8, *(pytest.param(most, marks=pytest.mark.slow)
                                            for most in (2, 15))])
def test_bursts_under_way(most):
    """As many as allowed with a far memory, and never more."""
    dut, _, processes = setup(data_width=64, latency=60, max_outstanding=most)
    bus, seen = dut.bus, set()

    async def source(ctx):
        await put_all(ctx, dut.i_job, jobs_of([(16 * i, 1) for i in range(60)], 8),
                      rng=random.Random(0))

    async def sink(ctx):
        await get_all(ctx, dut.o, 60, rng=random.Random(0))

    async def count(ctx):
        under_way = 0
        while True:
            *_, begun, ended = await ctx.tick().sample(
                bus.arvalid & bus.arready, bus.rvalid & bus.rready & bus.rlast)
            under_way += begun - ended
            seen.add(under_way)

    simulate(dut, source, sink, processes=[*processes, count])
    assert max(seen) == most


def test_valid_does_not_wait_for_ready():
    dut, _, processes = setup(data_width=64)

    async def testbench(ctx):
        await put_all(ctx, dut.i_job, jobs_of([(0, 1)], 8), rng=random.Random(0))
        for _ in range(10):
            await ctx.tick()
        assert ctx.get(dut.o.valid)
        assert not ctx.get(dut.idle)

    simulate(dut, testbench, processes=processes)


@each("index, beats", [(0, 1), (3, 5), (15, 2), (0, 40)])
def test_never_idle_between_a_job_and_its_last_beat(index, beats):
    dut, _, processes = setup(data_width=64, latency=9)

    async def testbench(ctx):
        assert ctx.get(dut.idle)
        await put_all(ctx, dut.i_job, jobs_of([(index, beats)], 8), rng=random.Random(0))
        ctx.set(dut.o.ready, 1)
        taken = 0
        while taken < beats:
            assert not ctx.get(dut.idle)
            *_, valid = await ctx.tick().sample(dut.o.valid)
            taken += valid
        assert ctx.get(dut.idle)

    simulate(dut, testbench, processes=processes)


def test_jobs_without_beats_vanish():
    jobs = jobs_of([(3, 0), (3, 2), (9, 0)], 8)
    memory, _ = check(jobs, data_width=64)
    assert memory.bursts == [(24, 2)]


@each("responses", [(SLVERR,) * 3, (DECERR,) * 3, (SLVERR, DECERR, SLVERR)])
def test_errors_are_counted_per_beat(responses):
    bad = dict(zip((8, 16, 39 * 8), responses, strict=True))
    _, errors = check(jobs_of([(0, 40)], 8), data_width=64, bad=bad)
    assert errors == 3


@each("response", [SLVERR, DECERR])
def test_an_error_is_told_while_data_is_discarded(response):
    """Not later than ``idle``, so that the end of a run cannot miss it."""
    dut, _, processes = setup(data_width=64, latency=9, bad={8 * 30: response})

    async def testbench(ctx):
        await put_all(ctx, dut.i_job, jobs_of([(0, 31)], 8), rng=random.Random(0))
        while not ctx.get(dut.accepted):
            await ctx.tick()
        ctx.set(dut.stop, 1)
        errors = ctx.get(dut.error)
        while not ctx.get(dut.idle):
            await ctx.tick()
            errors += ctx.get(dut.error)
        assert errors == 1

    simulate(dut, testbench, processes=processes, limit=200)


@each("after, stall", STOPS)
def test_stop_in_the_middle(after, stall):
    check_stop(after, stall)


@pytest.mark.slow
@each("after", range(60))
@each("stall", [0.0, 0.6])
def test_stop_in_any_cycle(after, stall):
    check_stop(after, stall)


def check_stop(after, stall):
    dut, memory, processes = setup(data_width=64, stall=stall, latency=9, seed=after)

    async def testbench(ctx):
        ctx.set(dut.i_job.payload, {"address": 8, "beats": 1000})
        ctx.set(dut.i_job.valid, 1)
        ctx.set(dut.o.ready, after % 2)
        for _ in range(after):
            await ctx.tick()
        ctx.set(dut.stop, 1)
        issued = None
        idle = 0
        while idle < 40:        # and nothing comes late
            await ctx.tick()
            assert ctx.get(dut.i_job.ready)
            assert not ctx.get(dut.o.valid)
            if issued is None and not ctx.get(dut.bus.arvalid):
                issued = len(memory.bursts)
            idle = idle + 1 if ctx.get(dut.idle) else 0
        assert len(memory.bursts) in (issued, issued + 1)    # what was accepted at this edge
        ctx.set(dut.i_job.valid, 0)
        await ctx.tick()
        ctx.set(dut.stop, 0)
        ctx.set(dut.o.ready, 0)
        await put_all(ctx, dut.i_job, jobs_of([(700, 72)], 8), rng=random.Random(0))
        received = await get_all(ctx, dut.o, 72, rng=random.Random(0))
        assert received == [memory.word(8 * (700 + i)) for i in range(72)]
        await ctx.tick()
        assert ctx.get(dut.idle)

    simulate(dut, testbench, processes=processes, limit=5000)


@each("parameters, message", [
    ({"data_width": 48}, "Data width must be a power of two from 32 to 1024, not 48"),
    ({"data_width": 64, "fifo_depth": 31}, "FIFO depth must be at least 32, not 31"),
    ({"data_width": 64, "max_outstanding": 0}, "Outstanding bursts must be at least 1, not 0"),
])
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        ReadMaster(**parameters)


def test_bad_splitter_width():
    with pytest.raises(ValueError, match=r"not 63$"):
        BurstSplitter(data_width=63)
