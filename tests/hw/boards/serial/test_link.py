# amaranth: UnusedElaboratable=no

import pytest

from bitstep.devices.uart.protocol import Command, Reply, request
from bitstep_hw.boards.serial.link import Link
from bitstep_sim.testing.harness import simulate

BASE, SIZE = 0x1000_0000, 4096


async def send(ctx, link, packet):
    """A packet, a byte every 16 cycles."""
    for byte in packet:
        ctx.set(link.i_byte, byte)
        ctx.set(link.i_valid, 1)
        await ctx.tick()
        ctx.set(link.i_valid, 0)
        await ctx.tick().repeat(15)


def serve(packets):
    """Registers that are written for these packets, as (address, value), and the replies' states.

    The host is silent until the reply to a packet has come.
    """
    link = Link(base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=100)
    written, replies = [], []

    async def host(ctx):
        ctx.set(link.o.ready, 1)
        for packet in packets:
            await send(ctx, link, packet)
            await ctx.tick().repeat(60)

    async def registers(ctx):
        """Take address and data, and answer some cycles later."""
        bus = link.bus
        while True:
            _, _, address, value, valid = await ctx.tick().sample(
                bus.awaddr, bus.wdata, bus.awvalid & bus.wvalid)
            if valid:
                written.append((address, value))
                for signal in (bus.awready, bus.wready):
                    ctx.set(signal, 1)
                await ctx.tick()
                for signal in (bus.awready, bus.wready):
                    ctx.set(signal, 0)
                await ctx.tick().repeat(3)
                ctx.set(bus.bvalid, 1)
                await ctx.tick()
                ctx.set(bus.bvalid, 0)

    async def listen(ctx):
        reply = []
        while True:
            *_, valid, byte = await ctx.tick().sample(link.o.valid, link.o.payload)
            if valid:
                reply.append(byte)
            elif len(reply) >= 8:       # a header and its checksum
                replies.append(Reply(reply[2]))
                reply.clear()

    simulate(link, host, background=[registers, listen])
    return written, replies


def write(sequence, address, value):
    return request(sequence, Command.WRITE_REGISTER, address, 1, value.to_bytes(8, "little"))


@pytest.mark.parametrize("times", [2, 3])
def test_a_repeated_register_write_is_carried_out_once(times):
    """The host repeats a request whose reply was lost, and a start must not start twice."""
    packets = [write(7, 0x004, 1)] * times + [write(8, 0x004, 1)] * times
    written, replies = serve(packets)
    assert written == [(0x004, 1)] * 2
    assert replies == [Reply.OK] * 2 * times


def test_what_arrived_damaged_is_carried_out_when_it_is_repeated():
    whole = write(7, 0x020, 99)
    damaged = whole[:-1] + bytes([whole[-1] ^ 1])
    written, replies = serve([damaged, whole, whole])
    assert written == [(0x020, 99)]
    assert replies == [Reply.DAMAGED, Reply.OK, Reply.OK]


@pytest.mark.parametrize("address, words, state", [
    (BASE + SIZE - 16, 2, Reply.OK), (BASE + SIZE - 8, 2, Reply.REFUSED),
    (BASE + SIZE - 8, 1, Reply.OK), (BASE + SIZE, 1, Reply.REFUSED),
    (BASE - 8, 1, Reply.REFUSED), (BASE + 4, 1, Reply.REFUSED), (BASE, 256, Reply.OK),
    (BASE + 2048 + 8, 256, Reply.REFUSED)])
def test_memory_from_end_to_end(address, words, state):
    """The answer to a write, whose words are taken even where they are refused."""
    link = Link(base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=100)
    packet = request(1, Command.WRITE_MEMORY, address, words, bytes(8 * words))
    asked, reply = set(), []

    async def host(ctx):
        ctx.set(link.o.ready, 1)
        ctx.set(link.memory_grant, 1)
        await send(ctx, link, packet)
        await ctx.tick().repeat(40)

    async def watch(ctx):
        while True:
            *_, memory, number, valid, byte = await ctx.tick().sample(
                link.memory_request & link.memory_write, link.memory_address, link.o.valid,
                link.o.payload)
            if memory:
                asked.add(number)
            if valid:
                reply.append(byte)

    simulate(link, host, background=[watch], limit=50_000)
    assert Reply(reply[2]) == state
    first = (address - BASE) // 8
    assert asked == (set(range(first, first + words)) if state == Reply.OK else set())
