# amaranth: UnusedElaboratable=no
"""The shared memory of SDRAM with the model of the chip, which checks every command."""

import random
from dataclasses import replace

import numpy as np
import pytest
from amaranth import Cat
from memory_ports import host, random_traffic, send_burst, take_beats, write_burst

from bitstep_hw.boards.serial.memory_ports import RESP_DECERR
from bitstep_hw.boards.serial.sdram.controller import SdramController
from bitstep_hw.boards.serial.sdram.memory import RUN, SdramMemory
from bitstep_hw.boards.serial.sdram.timing import N_BYTES, SdramCycles, SdramTiming
from bitstep_hw.boards.serial.uart import MIN_DIVISOR
from bitstep_sim.board.sdram_chip import ALLIANCE_7, MICRON_75, SdramChip, SdramViolation
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

BASE, SIZE, ROW_BITS = 0x1000_0000, 1 << 16, 4
POWER_UP_NS = 500               # instead of 200 us, to save time
PINS = ("cke", "csn", "rasn", "casn", "wen", "a", "ba", "dqm", "d_o", "d_oe")
TIMING = SdramTiming(power_up_ns=POWER_UP_NS)


def cycles(mhz=50, timing=TIMING, cas_latency=0):
    return SdramCycles(timing, round(mhz * 1e6), cas_latency)


def memory(counts=None, **options):
    return once(SdramMemory, **{"n_bytes": SIZE, "base": BASE, "cycles": counts or cycles(),
                                "n_readers": 2, **options})


def chip_of(counts, part=MICRON_75, **options):
    return SdramChip(clock_hz=counts.clock_hz, part=part, row_bits=ROW_BITS,
                     power_up_ns=POWER_UP_NS, **options)


def connect(dut, chip, *, changed=None):
    """Testbench that is the chip, at the other end of the registers at the pins.

    ``changed`` changes what the chip gets of an edge, for faults.
    """
    signals = [getattr(dut.pins, name) for name in PINS]
    pins, command = Cat(*signals), Cat(dut.pins.rasn, dut.pins.casn, dut.pins.wen)
    active = ~(dut.pins.csn | command.all()) | dut.pins.d_oe

    async def process(ctx):
        cycle = data = busy = 0
        while True:
            _, _, value, is_active = await ctx.tick().sample(pins, active)
            ctx.set(dut.pins.d_i, data)
            # An edge without a command and without data on the pins need not be simulated.
            busy = 8 if is_active or changed else max(busy - 1, 0)
            if busy:
                edge = {}
                for name, signal in zip(PINS, signals, strict=True):
                    edge[name] = value & (1 << len(signal)) - 1
                    value >>= len(signal)
                data = chip.edge(cycle, **(changed(edge) if changed else edge))
            cycle += 1
    return process


def run(dut, *testbenches, counts=None, chip=None, background=(), **options):
    chip = chip or chip_of(counts or cycles())
    simulate(dut, *testbenches, background=[connect(dut, chip), *background], **options)
    return chip


@pytest.mark.parametrize(("mhz", "cas_latency", "part", "stall"), [
    (75, 3, ALLIANCE_7, 0.3),
    pytest.param(45, 2, MICRON_75, 0.0, marks=pytest.mark.slow),
    pytest.param(55, 2, MICRON_75, 0.5, marks=pytest.mark.slow),
    pytest.param(100, 3, MICRON_75, 0.0, marks=pytest.mark.slow),
    pytest.param(100, 2, ALLIANCE_7, 0.5, marks=pytest.mark.slow),
    pytest.param(133, 3, MICRON_75, 0.0, marks=pytest.mark.slow),
    pytest.param(20, 3, ALLIANCE_7, 0.5, marks=pytest.mark.slow),
])
def test_all_ports_at_once(mhz, cas_latency, part, stall):
    """The words lie in two pages; some ports read where others write."""
    counts = cycles(mhz, cas_latency=cas_latency)
    dut, chip = memory(counts), chip_of(counts, part)
    testbenches, processes = random_traffic(
        dut, base=BASE, stall=stall, seed=f"{mhz}-{stall}", first=1000, bursts=(18, 9, 12))
    run(dut, *testbenches, chip=chip, processes=processes, limit=40_000)
    assert chip.commands["LOAD MODE"] == 1
    gaps = np.diff(chip.refreshes[8:])
    assert max(gaps) <= counts.refresh + counts.refresh_delay
    assert len(gaps) > 5


def test_every_address_is_its_own():
    """A word in each corner of the memory, and in each page."""
    numbers = [0, 1, 127, 128, 129, SIZE // 8 - 1, *range(5, SIZE // 8, 127)]
    dut = memory()

    async def testbench(ctx):
        for number in numbers:
            await host(ctx, dut, number, number * 0x1_0001_0001)
        for number in numbers:
            assert await host(ctx, dut, number) == number * 0x1_0001_0001

    chip = run(dut, testbench, limit=20_000)
    # The lowest bits are the column, then come bank and row.
    assert chip.content[1, 0, 4] == 129
    assert chip.content[3, 15, 508] == (SIZE // 8 - 1) & 0xFFFF


def test_refreshes_come_at_every_place_of_an_access():
    """An access that closes and opens a page, writes, and reads begins at every distance from a
    refresh that is due.
    """
    counts = cycles(timing=replace(TIMING, refresh_ns=2000))
    # With so many more refreshes the chip asks for so many more, too.
    chip = chip_of(counts, replace(MICRON_75, refresh=2000 * 8192))
    dut, due = memory(counts), []

    async def testbench(ctx):
        for late in range(counts.refresh_delay + 5):
            before = len(chip.refreshes)
            while len(chip.refreshes) == before:
                await ctx.tick()
            for _ in range(counts.refresh - counts.refresh_delay - 5 + late):
                await ctx.tick()
            due.append(len(chip.refreshes))
            await host(ctx, dut, 512 * (late % 2), late << 32 | 0xABCD)
            assert await host(ctx, dut, 512 * (late % 2)) == late << 32 | 0xABCD
            due.append(len(chip.refreshes))

    run(dut, testbench, chip=chip, limit=20_000)
    assert set(np.diff(due)[::2]) == {0, 1}             # before and within an access
    gaps = np.diff(chip.refreshes[8:])
    assert counts.refresh < max(gaps) <= counts.refresh + counts.refresh_delay
    assert min(gaps) < counts.refresh


def test_initialisation():
    """Nothing before its time, the mode, 8 refreshes, and no data on the pins."""
    counts, seen = cycles(), []
    dut, chip = memory(counts), chip_of(counts)

    async def watch(ctx):
        signals = [getattr(dut.pins, name) for name in ("csn", "dqm", "d_oe", "cke")]
        while True:
            seen.append((await ctx.tick().sample(*signals))[2:])

    async def testbench(ctx):
        await host(ctx, dut, 3, 5)
        assert await host(ctx, dut, 3) == 5

    run(dut, testbench, chip=chip, background=[watch])
    assert len(chip.refreshes) == 8
    assert all(edge[:3] == (1, 3, 0) for edge in seen[:counts.power_up])
    assert all(edge[3] for edge in seen[1:])
    assert chip.content[0, 0, 12] == 5


def faults():
    def without(command):
        def change(edge):
            levels = {"REFRESH": (0, 0, 1), "PRECHARGE": (0, 1, 0), "LOAD MODE": (0, 0, 0)}[command]
            if (edge["rasn"], edge["casn"], edge["wen"]) == levels and not edge["csn"]:
                return {**edge, "csn": 1}
            return edge
        return change

    yield "initialisation", without("LOAD MODE"), {}
    yield "initialisation", without("PRECHARGE"), {}
    yield "initialisation", without("REFRESH"), {}
    yield "write data", lambda edge: {**edge, "d_oe": 0}, {}
    yield "contention", lambda edge: {**edge, "d_oe": 1}, {}
    for rule, ns in (("rcd", 45), ("rp", 45), ("ras", 300), ("rc", 400), ("rfc", 90), ("wr", 90),
                     ("mrd", 90)):
        yield f"t{rule.upper()}", None, {rule: ns}
    yield "initialisation", None, {"power_up": 600}
    yield "tREF", None, {"refresh": 4e6}


@pytest.mark.by_day(7)
@pytest.mark.parametrize(("rule", "changed", "slower"), list(faults()))
def test_the_chip_sees_a_controller_that_is_wrong(rule, changed, slower):
    """A command is lost, or the chip needs a little more than the controller was told."""
    counts, dut = cycles(), memory()
    part = replace(MICRON_75, **slower)
    chip = SdramChip(clock_hz=counts.clock_hz, part=part, row_bits=ROW_BITS,
                     power_up_ns=slower.get("power_up", POWER_UP_NS))

    async def testbench(ctx):
        for number in range(12):
            await host(ctx, dut, 512 * (number % 2), number)
        await host(ctx, dut, 0)
        await host(ctx, dut, 512)
        for _ in range(700):
            await ctx.tick()
        await host(ctx, dut, 0)

    with pytest.raises(SdramViolation, match=f"{rule}: "):
        simulate(dut, testbench, background=[connect(dut, chip, changed=changed)])


class Stream:
    """A master that reads or writes bursts of 16 beats, one behind the other, while others do.

    Attributes
    ----------
    words : int
        Beats so far.
    longest : int
        Cycles from an address to its first beat, or between two, at most.
    """

    def __init__(self, bus, first, n_words, *, pause=0):
        self.bus, self.first, self.n_words, self.pause = bus, first, n_words, pause
        self.words = self.longest = 0

    def address(self, number):
        return BASE + 8 * (self.first + 16 * number % self.n_words)

    async def addresses(self, ctx):
        number = 0
        while True:
            await send_burst(ctx, self.bus, "ar", self.address(number), 16)
            for _ in range(self.pause):
                await ctx.tick()
            number += 1

    async def beats(self, ctx):
        waited = 0
        ctx.set(self.bus.rready, 1)
        while True:
            *_, valid = await ctx.tick().sample(self.bus.rvalid)
            self.words += valid
            waited = 0 if valid else waited + 1
            self.longest = max(self.longest, waited)

    async def writes(self, ctx):
        number = 0
        while True:
            await write_burst(ctx, self.bus, self.address(number), [number] * 16, [0xFF] * 16)
            self.words += 16
            for _ in range(self.pause):
                await ctx.tick()
            number += 1


def processes_of(streams, dut):
    return [method for stream in streams for method in (
        (stream.writes,) if stream.bus is dut.writer else (stream.addresses, stream.beats))]


def bandwidth(mhz, *, streams, n_cycles=2000):
    """Share of the chip's bandwidth, 2 bytes a cycle, that each stream has."""
    counts = cycles(mhz)
    dut, chip = memory(counts), chip_of(counts)
    streams = streams(dut)

    async def testbench(ctx):
        while chip.commands["READ"] < 20:
            await ctx.tick()
        before = [stream.words for stream in streams]
        for _ in range(n_cycles):
            await ctx.tick()
        taken.extend(stream.words - words for stream, words in zip(streams, before, strict=True))

    taken = []
    run(dut, testbench, chip=chip, background=processes_of(streams, dut), limit=3 * n_cycles)
    assert len(chip.refreshes) >= 8 + n_cycles // (counts.refresh + counts.refresh_delay)
    return [4 * words / n_cycles for words in taken], counts


@pytest.mark.parametrize("mhz", [75, *(pytest.param(mhz, marks=pytest.mark.slow)
                                       for mhz in (45, 100))])
def test_rows_are_streamed_with_most_of_the_bandwidth(mhz, capsys):
    """Rows of 48 bytes (90 features of 4 bits) with a label of 2 bytes each, and a model of 1,024
    features written meanwhile: 16 words of labels for 384 of rows, and more models than there are.
    """
    shares, _ = bandwidth(mhz, n_cycles=4800, streams=lambda dut: [
        Stream(dut.rows, 0, 4096), Stream(dut.readers[0], 5000, 1024, pause=1536),
        Stream(dut.writer, 7000, 512, pause=1000)])
    with capsys.disabled():
        print(f"\nat {mhz} MHz rows have {shares[0]:.1%} of the bandwidth of the SDRAM, labels "
              f"{shares[1]:.1%}, models {shares[2]:.1%}")
    assert shares[0] >= 0.8
    assert min(shares[1:]) > 0.01
    assert sum(shares) <= 1


def test_rows_alone():
    shares, _ = bandwidth(45, streams=lambda dut: [Stream(dut.rows, 0, 4096)])
    assert 0.9 < shares[0] < 1


def test_no_port_starves():
    """All ports ask for all that they get, each in another page of the same bank: each has a fair
    share, waits no longer than for a turn of each of the others, and the host for two words.
    """
    counts, waits, n_cycles = cycles(45), [], 5000
    dut = memory(counts)
    streams = [Stream(bus, 512 * number, 128) for number, bus in enumerate(
        [dut.rows, *dut.readers, dut.writer])]

    chip = chip_of(counts)

    async def ask(ctx):
        """Ask at every distance from a refresh that is due, a few cycles apart."""
        for late in range(-16, 12, 3):
            before = len(chip.refreshes)
            while len(chip.refreshes) < max(before + 1, 9):
                await ctx.tick()
            for _ in range(counts.refresh + late):
                await ctx.tick()
            ctx.set(dut.host_request, 1)
            ctx.set(dut.host_address, 2048 + 512 * (late % 3))
            waited, granted = 0, False
            while not granted:
                *_, granted = await ctx.tick().sample(dut.host_grant)
                waited += 1
            ctx.set(dut.host_request, 0)
            waits.append(waited)

    async def testbench(ctx):
        for _ in range(n_cycles):
            await ctx.tick()

    run(dut, testbench, chip=chip, background=[ask, *processes_of(streams, dut)])
    shares = [4 * stream.words / n_cycles for stream in streams]
    assert min(shares) > 0.1, shares
    # A turn has its words, a page to open, another one where its pages end, a refresh, and a word
    # of the host.
    turn = RUN * 4 + 3 * counts.word + counts.refresh_delay + counts.rfc
    assert max(stream.longest for stream in streams) <= 3 * turn
    assert len(waits) > 5
    assert max(waits) <= counts.wait


def test_a_burst_waits_until_the_response_before_is_taken():
    """Each of two bursts has a response of its own, also if the first one is outside."""
    dut, responses = memory(), []

    async def testbench(ctx):
        for address in (0, BASE):
            responses.append(await write_burst(ctx, dut.writer, address, [7], [0xFF]))
        assert await host(ctx, dut, 0) == 7

    run(dut, testbench)
    assert responses == [RESP_DECERR, 0]


@pytest.mark.parametrize("address", [0, BASE - 128, BASE + SIZE, BASE | 1 << 40, (1 << 64) - 128])
def test_outside(address):
    dut = memory()

    async def testbench(ctx):
        last = SIZE // 8 - 16
        await host(ctx, dut, 0, 77)
        await host(ctx, dut, last, 78)
        rng = random.Random(0)
        for bus in (dut.rows, dut.readers[0]):
            await send_burst(ctx, bus, "ar", address, 3)
            found = await take_beats(ctx, bus, 3, rng, 0.0)
            assert [(response, last) for _, response, last in found] == \
                [(RESP_DECERR, 0), (RESP_DECERR, 0), (RESP_DECERR, 1)]
        assert await write_burst(ctx, dut.writer, address, [1, 2], [0xFF, 0xFF]) == RESP_DECERR
        assert await host(ctx, dut, 0) == 77
        assert await host(ctx, dut, last) == 78

    run(dut, testbench)


def test_cycles_by_hand():
    """At 50 MHz, 20 ns a cycle, and at 100 MHz."""
    found = {mhz: SdramCycles(SdramTiming(), mhz * 1_000_000) for mhz in (50, 100)}
    names = ("power_up", "rcd", "rp", "ras", "rc", "rrd", "rfc", "mrd", "wr")
    assert [getattr(found[50], name) for name in names] == [10_000, 2, 2, 3, 4, 1, 4, 2, 2]
    assert [getattr(found[100], name) for name in names] == [20_000, 3, 3, 5, 7, 2, 7, 2, 2]
    assert [found[mhz].cas_latency for mhz in (50, 100)] == [2, 3]
    assert [found[mhz].access_ns for mhz in (50, 100)] == [7.5, 5.4]
    assert found[50].turnaround == 7
    for mhz, period in ((50, 390), (100, 781)):         # of 7,812.5 ns
        assert found[mhz].refresh + found[mhz].refresh_delay == period


@each("mhz", range(6, 101))
def test_the_host_has_its_word_before_the_next_byte(mhz):
    """The fastest line has 8 cycles a bit, 10 bits a byte; the link does not listen meanwhile."""
    assert SdramCycles(SdramTiming(), mhz * 1_000_000).wait < 10 * MIN_DIVISOR


def test_no_timing_is_shorter_than_a_chip_needs():
    """The controller's timings are those of the slowest chip in each."""
    timing = SdramTiming()
    for part in (MICRON_75, ALLIANCE_7):
        assert timing.power_up_ns >= part.power_up
        assert timing.refresh_ns * 8192 <= part.refresh
        for name in ("rcd", "rp", "ras", "rc", "rrd", "rfc", "wr", "mrd"):
            assert getattr(timing, f"{name}_ns") >= getattr(part, name)


@pytest.mark.parametrize(("build", "message"), [
    (lambda: cycles(cas_latency=4), "CAS latency must be 2 or 3, not 4"),
    (lambda: cycles(101, cas_latency=2),
     "CAS latency of 2 the SDRAM's clock must be at most 100 MHz, not 101"),
    (lambda: cycles(134, cas_latency=3), "latency of 3 .* at most 133 MHz, not 134"),
    (lambda: cycles(1), "refreshed every 7812 ns, .* at least 6 MHz, not 1"),
    (lambda: SdramController(cycles=cycles(), row_bits=14), "1 to 13, not 14"),
    (lambda: SdramMemory(n_bytes=4096, base=0, cycles=cycles()),
     "power of two from 8192 to 33554432 bytes .8 to 32768 KiB., not 4096"),
    (lambda: SdramMemory(n_bytes=2 * N_BYTES, base=0, cycles=cycles()), "not 67108864"),
    (lambda: SdramMemory(n_bytes=3 << 20, base=0, cycles=cycles()), "not 3145728"),
    (lambda: SdramMemory(n_bytes=SIZE, base=8, cycles=cycles()),
     r"multiple of its size \(65536\), not 0x8"),
    (lambda: SdramMemory(n_bytes=SIZE, base=0, cycles=cycles(), n_readers=0),
     "at least 1 more read port, not 0"),
])
def test_bad_parameters(build, message):
    with pytest.raises(ValueError, match=message):
        build()
