# amaranth: UnusedElaboratable=no

import random

import pytest
from memory_ports import (
    host,
    random_traffic,
    read_channel,
    send_burst,
    take_beats,
    write_burst,
)

from bitstep_hw.boards.serial.memory_ports import RESP_DECERR
from bitstep_hw.boards.serial.shared_memory import SharedMemory
from bitstep_sim.testing.harness import simulate

BASE, SIZE = 0x1000_0000, 4096


def make(**options):
    return SharedMemory(**{"n_bytes": SIZE, "base": BASE, **options})


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_all_ports_at_once(stall):
    dut = make(n_readers=2)
    testbenches, processes = random_traffic(dut, base=BASE, stall=stall, seed=f"{stall}")
    simulate(dut, *testbenches, processes=processes, limit=40_000)


@pytest.mark.parametrize("port", ["rows", "aux"])
@pytest.mark.parametrize("beats", [1, 2, 16])
def test_a_word_each_cycle(port, beats):
    dut = make()
    bus = dut.rows if port == "rows" else dut.readers[0]

    async def addresses(ctx):
        for number in range(128 // beats):
            await send_burst(ctx, bus, "ar", BASE + 8 * beats * number, beats)

    async def words(ctx):
        ctx.set(bus.rready, 1)
        cycles = valids = 0
        while valids < 128:
            *_, valid = await ctx.tick().sample(bus.rvalid)
            valids += valid
            cycles += bool(valids)
        assert cycles == 128

    simulate(dut, addresses, words)


def test_first_word_after_4_cycles():
    dut = make()

    async def testbench(ctx):
        ctx.set(dut.rows.arvalid, 1)
        ctx.set(dut.rows.araddr, BASE)
        for cycle in range(5):
            assert ctx.get(dut.rows.rvalid) == 0, cycle
            await ctx.tick()
            ctx.set(dut.rows.arvalid, 0)
        assert ctx.get(dut.rows.rvalid) == 1

    simulate(dut, testbench)


@pytest.mark.parametrize("port", ["rows", "aux"])
def test_a_second_burst_is_taken_at_once_and_a_third_is_not(port):
    """Whatever the other ports do: the host asks in every cycle, so that no word is read."""
    dut = make()
    bus = dut.rows if port == "rows" else dut.readers[0]

    async def testbench(ctx):
        for number in range(8):
            await host(ctx, dut, number, 100 + number)
        if port == "aux":
            ctx.set(dut.host_write, 1)
            ctx.set(dut.host_address, 9)
            ctx.set(dut.host_request, 1)
        for start, beats in ((2, 3), (0, 2)):
            ctx.set(bus.araddr, BASE + 8 * start)
            ctx.set(bus.arlen, beats - 1)
            ctx.set(bus.arvalid, 1)
            assert ctx.get(bus.arready)
            await ctx.tick()
        ctx.set(bus.araddr, BASE + 56)
        ctx.set(bus.arlen, 0)
        assert not ctx.get(bus.arready)
        if port == "aux":
            for _ in range(5):
                await ctx.tick()
                assert not ctx.get(bus.arready)
            ctx.set(dut.host_request, 0)
            # A register: what is granted shows in the next cycle.
            assert not ctx.get(bus.arready)
        ready = False
        while not ready:
            *_, ready = await ctx.tick().sample(bus.arready)
        ctx.set(bus.arvalid, 0)
        found = await take_beats(ctx, bus, 6, random.Random(0), 0.0)
        assert found == [(102, 0, 0), (103, 0, 0), (104, 0, 1), (100, 0, 0), (101, 0, 1),
                         (107, 0, 1)]

    simulate(dut, testbench)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_addresses_ahead_of_words(stall):
    """Bursts of any length, inside and outside, are asked for before those before them ended."""
    dut, rng = make(n_readers=2), random.Random(f"{stall}")
    words = [rng.getrandbits(64) for _ in range(512)]
    started = []

    def bursts(name):
        mine = random.Random(f"{stall}-{name}-bursts")
        return [(mine.randrange(0, 600), mine.choice([1, 1, 2, 3, 16])) for _ in range(60)]

    def addresses(bus, name):
        async def process(ctx):
            mine = random.Random(f"{stall}-{name}-addresses")
            while not started:
                await ctx.tick()
            for start, beats in bursts(name):
                while mine.random() < stall:
                    await ctx.tick()
                await send_burst(ctx, bus, "ar", BASE + 8 * start, beats)
        return process

    def beats_of(bus, name):
        async def process(ctx):
            mine = random.Random(f"{stall}-{name}-words")
            while not started:
                await ctx.tick()
            for start, beats in bursts(name):
                found = await take_beats(ctx, bus, beats, mine, stall)
                for i, (word, response, last) in enumerate(found):
                    assert (response, last) == (RESP_DECERR if start >= 512 else 0, i == beats - 1)
                    assert start >= 512 or word == words[(start + i) % 512]
        return process

    async def everything(ctx):
        for number, word in enumerate(words):
            await host(ctx, dut, number, word)
        started.append(True)
        for _ in range(60):
            number = rng.randrange(512)
            assert await host(ctx, dut, number) == words[number]
            while rng.random() < stall:
                await ctx.tick()

    ports = {"rows": dut.rows, "aux": dut.readers[0], "fine": dut.readers[1]}
    simulate(dut, everything, *(make(bus, name) for name, bus in ports.items()
                                for make in (addresses, beats_of)),
             processes=[read_channel(bus) for bus in ports.values()], limit=40_000)


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
    ({"n_bytes": 2048}, "power of two from 4096 to 268435456 bytes .4 to 262144 KiB., not 2048"),
    ({"n_bytes": 5000}, "bytes .4 to 262144 KiB., not 5000 .4.88281 KiB."),
    ({"n_bytes": 1 << 29}, "to 262144 KiB., not 536870912"),
    ({"base": 8}, r"multiple of its size \(4096\), not 0x8"),
    ({"n_readers": 0}, "at least 1 more read port, not 0"),
])
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
