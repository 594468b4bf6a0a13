# amaranth: UnusedElaboratable=no

import random

import pytest
from memory_ports import host, random_traffic, send_burst, take_beats, write_burst

from bitstep_hw.boards.serial.shared_memory import RESP_DECERR, SharedMemory
from bitstep_sim.testing.harness import simulate

BASE, SIZE = 0x1000_0000, 4096


def make(**options):
    return SharedMemory(**{"n_bytes": SIZE, "base": BASE, **options})


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_all_ports_at_once(stall):
    dut = make(n_readers=2)
    testbenches, processes = random_traffic(dut, base=BASE, stall=stall, seed=f"{stall}")
    simulate(dut, *testbenches, processes=processes, limit=40_000)


def test_a_row_word_each_cycle():
    dut = make()

    async def addresses(ctx):
        for number in range(8):
            await send_burst(ctx, dut.rows, "ar", BASE + 128 * number, 16)

    async def words(ctx):
        ctx.set(dut.rows.rready, 1)
        cycles = valids = 0
        while valids < 128:
            *_, valid = await ctx.tick().sample(dut.rows.rvalid)
            valids += valid
            cycles += bool(valids)
        assert cycles == 128

    simulate(dut, addresses, words)


def test_a_burst_waits_until_the_response_before_is_taken():
    """Each of two bursts has a response of its own, also if the first one is outside."""
    dut, responses = make(), []
    bus = dut.writer

    async def testbench(ctx):
        for address in (0, BASE):
            ctx.set(bus.wdata, 7)
            ctx.set(bus.wstrb, 0xFF)
            ctx.set(bus.wlast, 1)
            await send_burst(ctx, bus, "aw", address, 1)
            ctx.set(bus.wvalid, 1)
            ready = False
            while not ready:
                *_, ready = await ctx.tick().sample(bus.wready)
            ctx.set(bus.wvalid, 0)

    async def take(ctx):
        for _ in range(20):
            await ctx.tick()
        ctx.set(bus.bready, 1)
        for _ in range(20):
            *_, valid, response = await ctx.tick().sample(bus.bvalid, bus.bresp)
            responses.extend([response] * valid)

    simulate(dut, testbench, take)
    assert responses == [RESP_DECERR, 0]


@pytest.mark.parametrize("address", [0, BASE - 128, BASE + SIZE, BASE | 1 << 40, (1 << 64) - 128])
def test_outside(address):
    dut = make()

    async def testbench(ctx):
        await host(ctx, dut, 0, 77)
        await host(ctx, dut, 496, 78)
        rng = random.Random(0)
        for bus in (dut.rows, dut.readers[0]):
            await send_burst(ctx, bus, "ar", address, 3)
            found = await take_beats(ctx, bus, 3, rng, 0.0)
            assert [(response, last) for _, response, last in found] == \
                [(RESP_DECERR, 0), (RESP_DECERR, 0), (RESP_DECERR, 1)]
        assert await write_burst(ctx, dut.writer, address, [1, 2], [0xFF, 0xFF]) == RESP_DECERR
        assert await host(ctx, dut, 0) == 77
        assert await host(ctx, dut, 496) == 78

    simulate(dut, testbench)


@pytest.mark.parametrize(("options", "message"), [
    ({"n_bytes": 2048}, "power of two of at least 4096 bytes, not 2048"),
    ({"n_bytes": 5000}, "power of two of at least 4096 bytes, not 5000"),
    ({"base": 8}, r"multiple of its size \(4096\), not 0x8"),
    ({"n_readers": 0}, "at least 1 more read port, not 0"),
])
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
