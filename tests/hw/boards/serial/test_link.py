# amaranth: UnusedElaboratable=no

import random
import zlib

import pytest
from amaranth import Cat

from bitstep.devices.uart.protocol import (
    CRC_BYTES,
    INFORMATION_WORDS,
    REPLY_HEADER_BYTES,
    WORD_BYTES,
    Command,
    Reply,
    request,
)
from bitstep_hw.boards.serial.link import Link
from bitstep_sim.testing.harness import once, simulate

BASE, SIZE = 0x1000_0000, 4096
GAP = 100                   # cycles without a byte after which a request has broken off


async def send(ctx, link, packet, apart=16):
    """A packet, a byte every so many cycles."""
    for byte in packet:
        ctx.set(link.i_byte, byte)
        ctx.set(link.i_valid, 1)
        await ctx.tick()
        ctx.set(link.i_valid, 0)
        await ctx.tick().repeat(apart - 1)


def serve(packets):
    """Registers that are written for these packets, as (address, value), and the replies' states.

    The host is silent for so long after a packet that the reply has come, or that it has broken
    off.
    """
    link = once(Link, base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=GAP)
    written, replies = [], []

    async def host(ctx):
        ctx.set(link.o.ready, 1)
        for packet in packets:
            await send(ctx, link, packet)
            await ctx.tick().repeat(GAP + 20)

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

    simulate(link, host, background=[registers, listen], limit=200_000)
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


@pytest.mark.by_day(4)
@pytest.mark.parametrize("address, words, state", [
    (BASE + SIZE - 16, 2, Reply.OK), (BASE + SIZE - 8, 2, Reply.REFUSED),
    (BASE + SIZE - 8, 1, Reply.OK), (BASE + SIZE, 1, Reply.REFUSED),
    (BASE - 8, 1, Reply.REFUSED), (BASE + 4, 1, Reply.REFUSED), (BASE, 256, Reply.OK),
    (BASE + 2048 + 8, 256, Reply.REFUSED)])
def test_memory_from_end_to_end(address, words, state):
    """The answer to a write, whose words are taken even where they are refused."""
    link = once(Link, base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=GAP)
    packet = request(1, Command.WRITE_MEMORY, address, words, bytes(8 * words))
    asked, reply = set(), []

    async def host(ctx):
        ctx.set(link.o.ready, 1)
        ctx.set(link.memory_grant, 1)
        await send(ctx, link, packet, apart=4 if words > 2 else 16)
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


@pytest.mark.parametrize("command", [Command.READ_MEMORY, Command.WRITE_MEMORY])
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_memory_is_asked_once_for_a_word(command, delay):
    """However late it grants; until then the request is held, and no grant is taken before it."""
    link = once(Link, base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=GAP)
    words = [3 << 40, 5, 7 << 8]
    writes = command == Command.WRITE_MEMORY
    payload = b"".join(word.to_bytes(8, "little") for word in words) if writes else b""
    granted, reply = [], []

    async def host(ctx):
        ctx.set(link.o.ready, 1)
        await send(ctx, link, request(1, command, BASE + 16, 3, payload))
        await ctx.tick().repeat(150)

    async def memory(ctx):
        waited = 0
        while True:
            ctx.set(link.memory_grant, waited == delay)
            ctx.set(link.memory_valid, 0)
            *_, asks, what = await ctx.tick().sample(
                link.memory_request, Cat(link.memory_write, link.memory_address, link.memory_o))
            if asks and waited == delay:
                granted.append((what & 1, what >> 1 & 511, what >> 10))
                ctx.set(link.memory_grant, 0)
                # The request has gone in the very next cycle.
                assert not ctx.get(link.memory_request)
                ctx.set(link.memory_i, words[len(granted) - 1])
                ctx.set(link.memory_valid, 1)
                await ctx.tick()
                waited = 0
            else:
                waited = min(waited + 1, delay) if asks or delay == 0 else 0

    async def listen(ctx):
        while True:
            *_, valid, byte = await ctx.tick().sample(link.o.valid, link.o.payload)
            if valid:
                reply.append(byte)

    simulate(link, host, background=[memory, listen], limit=50_000)
    assert [(write, address) for write, address, _ in granted] == [(writes, 2), (writes, 3),
                                                                  (writes, 4)]
    assert Reply(reply[2]) == Reply.OK
    if writes:
        assert [word for _, _, word in granted] == words
    else:
        assert bytes(reply[REPLY_HEADER_BYTES:-CRC_BYTES]) == b"".join(
            word.to_bytes(8, "little") for word in words)


def test_every_byte_of_a_request_is_checked():
    """A header that is wrong gets no answer, words that are wrong one; neither writes."""
    whole, last = write(7, 0x020, 99), write(8, 0x024, 5)
    packets = [whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1:]
               for place in range(len(whole))]
    written, replies = serve([*packets, whole, last])
    assert written == [(0x020, 99), (0x024, 5)]
    assert replies == [Reply.DAMAGED] * (WORD_BYTES + CRC_BYTES) + [Reply.OK] * 2


def test_requests_that_break_off():
    """They write nothing, and the next one is served: whole, though it has the same number."""
    whole = write(7, 0x020, 99)
    for end in (1, 2, 8, 11, 12, 13, 19, 20, 23):
        assert serve([whole[:end], whole]) == ([(0x020, 99)], [Reply.OK]), end


def test_memory_is_written_up_to_where_a_request_breaks_off():
    """Words that have come whole, and none after them."""
    packet = request(1, Command.WRITE_MEMORY, BASE + 8, 3, bytes(range(24)))
    head = len(packet) - 3 * WORD_BYTES - CRC_BYTES
    for end in (head, head + 7, head + 8, head + 23, head + 24, len(packet) - 1):
        link = once(Link, base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=GAP)
        asked, replied = {}, []

        async def host(ctx, link=link, end=end):
            ctx.set(link.memory_grant, 1)
            await send(ctx, link, packet[:end])
            await ctx.tick().repeat(GAP + 20)
            assert not ctx.get(link.active)

        async def watch(ctx, link=link, asked=asked, replied=replied):
            while True:
                *_, memory, number, word, valid = await ctx.tick().sample(
                    link.memory_request & link.memory_write, link.memory_address, link.memory_o,
                    link.o.valid)
                if memory:
                    asked[number] = word
                if valid:
                    replied.append(1)

        simulate(link, host, background=[watch])
        words = (end - head) // WORD_BYTES
        assert asked == {1 + number: int.from_bytes(bytes(range(8 * number, 8 * number + 8)),
                                                    "little") for number in range(words)}
        assert not replied


def replies_beside(noise, times):
    """Replies, as bytes, to requests for information, each beside bytes that nobody asked for."""
    link = once(Link, base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=GAP)
    length = REPLY_HEADER_BYTES + INFORMATION_WORDS * WORD_BYTES + CRC_BYTES
    rng, replies = random.Random(0), []

    async def host(ctx):
        for number in range(times):
            reply = []
            await send(ctx, link, request(number, Command.READ_INFORMATION, 0, INFORMATION_WORDS))
            wait = rng.randrange(16)
            while len(reply) < length:
                # The line takes a byte now and then, and one comes at the same time.
                ready = rng.random() < 0.5
                wait = wait - 1 if wait else rng.randrange(16, 20)
                ctx.set(link.o.ready, ready)
                ctx.set(link.i_valid, wait == 0 and len(reply) < length - 2)
                ctx.set(link.i_byte, noise)
                *_, valid, byte = await ctx.tick().sample(link.o.valid, link.o.payload)
                if valid and ready:
                    reply.append(byte)
            ctx.set(link.i_valid, 0)
            ctx.set(link.o.ready, 0)
            replies.append(bytes(reply))
            await ctx.tick().repeat(GAP + 20)

    simulate(link, host, limit=20_000)
    return replies


@pytest.mark.parametrize("noise", [0x00, 0xB5])
def test_bytes_that_come_during_a_reply_change_nothing(noise):
    """Those of a second request among them: its host has to wait for the reply."""
    for number, reply in enumerate(replies_beside(noise, 12)):
        assert reply[1:3] == bytes([number, Reply.OK])
        assert zlib.crc32(reply[:-CRC_BYTES]) == int.from_bytes(reply[-CRC_BYTES:], "little"), \
            f"the checksum of reply {number} is wrong"


def test_a_second_request_without_a_wait_for_the_first_reply():
    """It may get lost, in whole or in part, but writes only what it says, and that once."""
    link = once(Link, base=BASE, n_bytes=SIZE, clock_hz=1_000_000, baud=100_000, gap_cycles=GAP)
    first, second, written = write(1, 0x020, 1), write(2, 0x024, 2), []

    async def host(ctx):
        await send(ctx, link, first + second)
        await ctx.tick().repeat(200)
        await send(ctx, link, second)
        await ctx.tick().repeat(200)

    async def line(ctx):
        """As slow as the host's bytes."""
        while True:
            for cycle in range(16):
                ctx.set(link.o.ready, cycle == 0)
                await ctx.tick()

    async def registers(ctx):
        for signal in (link.bus.awready, link.bus.wready, link.bus.bvalid):
            ctx.set(signal, 1)
        while True:
            *_, valid, address, value = await ctx.tick().sample(
                link.bus.awvalid & link.bus.wvalid, link.bus.awaddr, link.bus.wdata)
            if valid:
                written.append((address, value))

    simulate(link, host, background=[line, registers])
    assert written == [(0x020, 1), (0x024, 2)]


@pytest.mark.parametrize(("base", "size"), [((1 << 32) - SIZE, SIZE), (BASE, 32 << 20)])
@pytest.mark.parametrize("before_end, words, state", [
    (None, 1, Reply.OK), (8, 1, Reply.OK), (8, 2, Reply.REFUSED), (80, 10, Reply.OK),
    (2040, 256, Reply.REFUSED)])
def test_ends_of_the_memory(base, size, before_end, words, state):
    """Where it ends at 4 GiB, the address behind its last word has more bits than a request's."""
    first = 0 if before_end is None else size - before_end
    link = once(Link, base=base, n_bytes=size, clock_hz=1_000_000, baud=100_000, gap_cycles=GAP)
    packet, reply = request(1, Command.READ_MEMORY, base + first, words), []
    asked = []

    async def host(ctx):
        ctx.set(link.o.ready, 1)
        ctx.set(link.memory_grant, 1)
        ctx.set(link.memory_valid, 1)
        await send(ctx, link, packet)
        await ctx.tick().repeat(40 + 20 * words)

    async def watch(ctx):
        while True:
            *_, memory, number, valid, byte = await ctx.tick().sample(
                link.memory_request & ~link.memory_write, link.memory_address, link.o.valid,
                link.o.payload)
            if memory:
                asked.append(number)
            if valid:
                reply.append(byte)

    simulate(link, host, background=[watch], limit=50_000)
    assert Reply(reply[2]) == state
    assert asked == ([first // 8 + number for number in range(words)] if state == Reply.OK else [])
