"""Ports of a shared memory, driven as the pipeline and the host drive them."""

import random

from bitstep_sim.testing.harness import held_channel


async def host(ctx, dut, word, value=None):
    """Write a word as the host, or read it."""
    ctx.set(dut.host_request, 1)
    ctx.set(dut.host_write, value is not None)
    ctx.set(dut.host_address, word)
    ctx.set(dut.host_i, value or 0)
    granted = False
    while not granted:
        *_, granted = await ctx.tick().sample(dut.host_grant)
    ctx.set(dut.host_request, 0)
    valid = value is not None
    while not valid:
        *_, valid, value = await ctx.tick().sample(dut.host_valid, dut.host_o)
    return value


async def send_burst(ctx, bus, prefix, address, beats):
    ctx.set(getattr(bus, f"{prefix}addr"), address)
    ctx.set(getattr(bus, f"{prefix}len"), beats - 1)
    ctx.set(getattr(bus, f"{prefix}valid"), 1)
    ready = False
    while not ready:
        *_, ready = await ctx.tick().sample(getattr(bus, f"{prefix}ready"))
    ctx.set(getattr(bus, f"{prefix}valid"), 0)


async def take_beats(ctx, bus, count, rng, stall):
    """(word, response, last) of each beat."""
    beats = []
    while len(beats) < count:
        ctx.set(bus.rready, rng.random() >= stall)
        ready = ctx.get(bus.rready)
        *_, valid, word, response, last = await ctx.tick().sample(
            bus.rvalid, bus.rdata, bus.rresp, bus.rlast)
        if valid and ready:
            beats.append((word, response, last))
    ctx.set(bus.rready, 0)
    return beats


async def write_burst(ctx, bus, address, words, strobes):
    """Response of a burst."""
    await send_burst(ctx, bus, "aw", address, len(words))
    ctx.set(bus.bready, 1)
    for number, (word, strobe) in enumerate(zip(words, strobes, strict=True)):
        ctx.set(bus.wdata, word)
        ctx.set(bus.wstrb, strobe)
        ctx.set(bus.wlast, number == len(words) - 1)
        ctx.set(bus.wvalid, 1)
        ready = False
        while not ready:
            *_, ready = await ctx.tick().sample(bus.wready)
        ctx.set(bus.wvalid, 0)
    valid = False
    while not valid:
        *_, valid, response = await ctx.tick().sample(bus.bvalid, bus.bresp)
    return response


def read_channel(bus):
    return held_channel(bus.rvalid, bus.rready, bus.rdata, bus.rresp, bus.rlast)


def random_traffic(dut, *, base, stall, seed, first=0, bursts=(40, 20, 20)):
    """Testbenches and processes that use all ports of a memory with 2 readers at once, and compare
    each word with a plain list.

    Parameters
    ----------
    dut : SharedMemory or SdramMemory
    base : int
        Address of its first byte.
    stall : float
        How often a master is not ready.
    seed : str
    first : int
        First of the 256 words that are used.
    bursts : tuple of int
        Of the rows' port, of each other reader, of the writer.
    """
    rng = random.Random(seed)
    words = [rng.getrandbits(64) for _ in range(256)]
    expected = list(words)
    started, finished = [], []

    def reader(bus, name, count):
        async def process(ctx):
            mine = random.Random(f"{seed}-{name}")
            for _ in range(count):
                beats = mine.randrange(1, 17)
                # The last quarter belongs to the writer.
                start = mine.randrange(0, 192 - beats)
                await send_burst(ctx, bus, "ar", base + 8 * (first + start), beats)
                found = await take_beats(ctx, bus, beats, mine, stall)
                assert found == [(words[start + i], 0, i == beats - 1) for i in range(beats)]
            finished.append(name)
        return process

    async def write(ctx):
        mine = random.Random(f"{seed}-writer")
        for _ in range(bursts[2]):
            beats = mine.randrange(1, 17)
            start = mine.randrange(192, 256 - beats)
            given = [mine.getrandbits(64) for _ in range(beats)]
            strobes = [mine.choice([0xFF, 0, 0x0F, mine.randrange(256)]) for _ in range(beats)]
            address = base + 8 * (first + start)
            assert await write_burst(ctx, dut.writer, address, given, strobes) == 0
            for i, (word, strobe) in enumerate(zip(given, strobes, strict=True)):
                mask = sum(0xFF << 8 * lane for lane in range(8) if strobe >> lane & 1)
                expected[start + i] = expected[start + i] & ~mask | word & mask
        finished.append("writer")

    async def everything(ctx):
        for number, word in enumerate(words):
            await host(ctx, dut, first + number, word)
        started.append(True)
        while len(finished) < 4:
            number = rng.randrange(192)
            assert await host(ctx, dut, first + number) == words[number]
            await ctx.tick()
        for number, word in enumerate(expected):
            assert await host(ctx, dut, first + number) == word

    def later(process):
        async def waits(ctx):
            while not started:
                await ctx.tick()
            await process(ctx)
        return waits

    testbenches = [everything, later(reader(dut.rows, "rows", bursts[0])),
                   later(reader(dut.readers[0], "aux", bursts[1])),
                   later(reader(dut.readers[1], "fine", bursts[1])), later(write)]
    processes = [read_channel(dut.rows), read_channel(dut.readers[0]),
                 held_channel(dut.writer.bvalid, dut.writer.bready, dut.writer.bresp)]
    return testbenches, processes
