# amaranth: UnusedElaboratable=no

import random

import pytest
from support import STOPS

from bitstep_hw.axi.write_master import WriteMaster
from bitstep_sim.testing.axi_memory import DECERR, SLVERR, AxiMemory
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import held_channel, once, put_all, simulate

CORNERS = [  # (beat's index, beats); blocks do not overlap
    (0, 1), (511, 1), (5000, 3), (7, 16), (1024, 16), (2048, 17), (3071, 2), (500, 11), (512, 64),
]


def jobs_of(corners, beat_bytes):
    return [{"address": index * beat_bytes, "beats": beats} for index, beats in corners]


def setup(*, stall=0.0, latency=1, bad=None, seed=0, **parameters):
    dut = once(WriteMaster, **parameters)
    memory = AxiMemory(data_width=dut.data_width, rng=random.Random(f"{seed}-memory"),
                       stall=stall, latency=latency, bad=bad)
    bus = dut.bus

    async def serve(ctx):
        await memory.write(ctx, bus)

    async def count(ctx):
        count.errors = 0
        while True:
            *_, error, bready = await ctx.tick().sample(dut.error, bus.bready)
            assert bready
            count.errors += error

    processes = [
        serve, count,
        held_channel(bus.awvalid, bus.awready, bus.awaddr, bus.awlen),
        held_channel(bus.wvalid, bus.wready, bus.wdata, bus.wstrb, bus.wlast),
    ]
    return dut, memory, processes, count


async def wait_idle(ctx, dut):
    await ctx.tick()
    idle = False
    while not idle:
        *_, idle = await ctx.tick().sample(dut.idle)


def check(jobs, *, seed=0, job_stall=0.0, data_stall=0.0, **options):
    dut, memory, processes, count = setup(seed=seed, **options)
    rng = random.Random(f"{seed}-data")
    addresses = [job["address"] + memory.beat_bytes * i
                 for job in jobs for i in range(job["beats"])]
    beats = [rng.getrandbits(dut.data_width) for _ in addresses]

    async def issue(ctx):
        await put_all(ctx, dut.i_job, jobs, rng=random.Random(f"{seed}-jobs"), stall=job_stall)

    async def send(ctx):
        await put_all(ctx, dut.i, beats, rng=random.Random(f"{seed}-send"), stall=data_stall)
        await wait_idle(ctx, dut)

    simulate(dut, issue, send, processes=processes)
    assert memory.words == dict(zip(addresses, beats, strict=True))
    return memory, count.errors


@pytest.mark.parametrize("data_width", [64, pytest.param(512, marks=pytest.mark.slow)])
@each("stall", [0.0, 0.5])
@each("latency", [1, 30])
@each("data_stall", [0.0, 0.8])
def test_writes_blocks_in_order(data_width, stall, latency, data_stall):
    check(jobs_of(CORNERS, data_width // 8), data_width=data_width, stall=stall, latency=latency,
          job_stall=stall, data_stall=data_stall)


@each("index, beats", [(0, 1), (3, 5), (15, 2), (0, 40)])
def test_never_idle_between_a_job_and_its_last_response(index, beats):
    dut, _, processes, _ = setup(data_width=64, latency=9)

    async def testbench(ctx):
        assert ctx.get(dut.idle)
        await put_all(ctx, dut.i_job, jobs_of([(index, beats)], 8), rng=random.Random(0))
        ctx.set(dut.i.valid, 1)
        responses = 0
        while responses < -(-(index % 16 + beats) // 16):
            assert not ctx.get(dut.idle)
            *_, valid = await ctx.tick().sample(dut.bus.bvalid)
            responses += valid
        assert ctx.get(dut.idle)

    simulate(dut, testbench, processes=processes)


def test_two_outstanding():
    check(jobs_of([(16 * i, 1) for i in range(20)], 8), max_outstanding=2, latency=5)


def test_burst_shapes():
    memory, _ = check(jobs_of([(5, 40)], 8))
    assert memory.bursts == [(5 * 8, 11), (16 * 8, 16), (32 * 8, 13)]


def test_jobs_without_beats_vanish():
    memory, _ = check(jobs_of([(3, 0), (3, 2), (9, 0)], 8))
    assert memory.bursts == [(24, 2)]


@each("beats", [1, 5, 200])
def test_one_beat_per_cycle(beats):
    dut, _, processes, _ = setup()
    n_jobs = 400 // beats

    async def issue(ctx):
        jobs = jobs_of([(16 * i, beats) for i in range(n_jobs)], 8)
        await put_all(ctx, dut.i_job, jobs, rng=random.Random(0))

    async def send(ctx):
        ctx.set(dut.i.valid, 1)
        readies = []
        while sum(readies) < n_jobs * beats:
            *_, ready = await ctx.tick().sample(dut.i.ready)
            readies.append(ready)
        first = readies.index(1)
        assert first <= 6
        assert all(readies[first:])

    simulate(dut, issue, send, processes=processes, limit=2000)


def test_data_is_not_taken_without_a_job():
    dut, _, processes, _ = setup()

    async def testbench(ctx):
        ctx.set(dut.i.valid, 1)
        for _ in range(10):
            *_, ready = await ctx.tick().sample(dut.i.ready)
            assert not ready

    simulate(dut, testbench, processes=processes)


@each("responses", [(SLVERR,) * 2, (DECERR,) * 2, (DECERR, SLVERR)])
def test_errors_are_counted_per_burst(responses):
    bad = dict(zip((16 * 8, 64 * 8), responses, strict=True))
    _, errors = check(jobs_of([(0, 48), (64, 1)], 8), bad=bad)
    assert errors == 2


@each("after, stall", STOPS)
def test_stop_in_the_middle(after, stall):
    check_stop(after, stall)


@pytest.mark.slow
@each("after", range(60))
@each("stall", [0.0, 0.6])
def test_stop_in_any_cycle(after, stall):
    check_stop(after, stall)


def check_stop(after, stall):
    dut, memory, processes, _ = setup(stall=stall, latency=9, seed=after)

    async def testbench(ctx):
        ctx.set(dut.i_job.payload, {"address": 8, "beats": 1000})
        ctx.set(dut.i_job.valid, 1)
        ctx.set(dut.i.payload, 77)
        ctx.set(dut.i.valid, after % 2)
        for _ in range(after):
            await ctx.tick()
        ctx.set(dut.stop, 1)
        ctx.set(dut.i.payload, 88)
        idle = 0
        while idle < 40:        # and nothing comes late
            await ctx.tick()
            assert ctx.get(dut.i_job.ready)
            assert ctx.get(dut.i.ready)
            idle = idle + 1 if ctx.get(dut.idle) else 0
        assert set(memory.words.values()) <= {77}
        ctx.set(dut.i_job.valid, 0)
        ctx.set(dut.i.valid, 0)
        await ctx.tick()
        ctx.set(dut.stop, 0)
        await put_all(ctx, dut.i_job, jobs_of([(2000, 40)], 8), rng=random.Random(0))
        await put_all(ctx, dut.i, range(1000, 1040), rng=random.Random(0))
        await wait_idle(ctx, dut)
        assert [memory.words[8 * (2000 + i)] for i in range(40)] == list(range(1000, 1040))

    simulate(dut, testbench, processes=processes, limit=5000)


@each("parameters, message", [
    ({"data_width": 48}, "Data width must be a power of two from 32 to 1024, not 48"),
    ({"max_outstanding": 1}, "Outstanding bursts must be at least 2, not 1"),
])
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        WriteMaster(**parameters)
