# amaranth: UnusedElaboratable=no

import random

from amaranth import Elaboratable, Module, ResetInserter, Signal

from bitstep.pipeline.registers import MAP_VERSION, OFFSETS, REGISTERS
from bitstep_hw.shell.register_bank import READABLE, WRITABLE, RegisterBank
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import held_channel, once, simulate

RW = [register for register in REGISTERS if register.access == "rw"]


class Host:
    """AXI4-Lite master with random gaps between its channels."""

    def __init__(self, ctx, bus, *, rng, stall=0.0):
        self.ctx, self.bus, self.rng, self.stall = ctx, bus, rng, stall

    async def write(self, offset, value, strobe=0b1111):
        """Write; address and data start in either order, and what was taken does not stay."""
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.awaddr, offset)
        ctx.set(bus.wdata, value)
        ctx.set(bus.wstrb, strobe)
        started = {"aw": False, "w": False, "b": False}
        done = dict(started)
        while not all(done.values()):
            for name, (signal, _) in self._write_channels().items():
                if not started[name] and self.rng.random() >= self.stall:
                    started[name] = True
                ctx.set(signal, started[name] and not done[name])
            *_, aw, w, b, response = await ctx.tick().sample(
                bus.awvalid & bus.awready, bus.wvalid & bus.wready, bus.bvalid & bus.bready,
                bus.bresp)
            for name, fired in (("aw", aw), ("w", w), ("b", b)):
                done[name] |= bool(fired)
            assert not b or (done["aw"] and done["w"] and response == 0)
            if aw:
                ctx.set(bus.awaddr, ~offset & 0x3FF)
            if w:
                ctx.set(bus.wdata, ~value & 0xFFFFFFFF)
                ctx.set(bus.wstrb, ~strobe & 0b1111)
        ctx.set(bus.bready, 0)

    def _write_channels(self):
        bus = self.bus
        return {"aw": (bus.awvalid, bus.awready), "w": (bus.wvalid, bus.wready),
                "b": (bus.bready, bus.bvalid)}

    async def read(self, offset):
        """Read."""
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.araddr, offset)
        ctx.set(bus.arvalid, 1)
        ready = False
        while not ready:
            *_, ready = await ctx.tick().sample(bus.arready)
        ctx.set(bus.arvalid, 0)
        while self.rng.random() < self.stall:
            await ctx.tick()
        ctx.set(bus.rready, 1)
        valid = False
        while not valid:
            *_, valid, data, response = await ctx.tick().sample(bus.rvalid, bus.rdata, bus.rresp)
        ctx.set(bus.rready, 0)
        assert response == 0
        return data


def run(test, *, stall=0.0, seed=0, choices=("row_weights", "row_ports"), **options):
    dut = once(RegisterBank, choices=choices)

    async def testbench(ctx):
        await test(ctx, dut, Host(ctx, dut.bus, rng=random.Random(seed), stall=stall))

    bus = dut.bus
    processes = [held_channel(bus.bvalid, bus.bready, bus.bresp),
                 held_channel(bus.rvalid, bus.rready, bus.rdata)]
    simulate(dut, testbench, processes=processes, **options)


def test_members():
    assert WRITABLE["rows_address"] == [r for r in REGISTERS if r.name.startswith("ROWS_ADDRESS")]
    dut = once(RegisterBank, choices=("row_weights", "row_ports"))
    assert (len(dut.identity), len(dut.cycles), len(dut.rows_address)) == (128, 64, 64)
    assert (len(dut.status), len(dut.warm_start), len(dut.beats_per_row)) == (3, 1, 20)
    assert not {"version", "control"} & {*READABLE, *WRITABLE}


@each("stall", [0.0, 0.6])
def test_written_values_are_kept(stall):
    async def test(ctx, dut, host):
        rng = random.Random(1)
        for value_of in (lambda: 0xFFFFFFFF, lambda: 0, lambda: rng.getrandbits(32)):
            expected = {}
            for register in rng.sample(RW, len(RW)):
                value = value_of()
                expected[register.name] = value & (1 << register.width) - 1
                await host.write(register.offset, value)
            for register in RW:
                assert await host.read(register.offset) == expected[register.name], register.name
            low, high = expected["COPY_STRIDE_LO"], expected["COPY_STRIDE_HI"]
            assert ctx.get(dut.copy_stride) == low | high << 32
            assert ctx.get(dut.batch) == expected["BATCH"]

    run(test, stall=stall)


def test_read_only_values():
    async def test(ctx, dut, host):
        rng = random.Random(2)
        values = {name: rng.getrandbits(len(getattr(dut, name))) for name in READABLE}
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        for name, registers in READABLE.items():
            value = 0
            for index, register in enumerate(registers):
                await host.write(register.offset, 0x5A5A5A5A)
                value |= await host.read(register.offset) << 32 * index
            assert value == values[name]
        assert await host.read(OFFSETS["VERSION"]) == MAP_VERSION

    run(test)


def test_unmapped_and_write_only_read_as_zero():
    async def test(ctx, dut, host):
        for register in RW:
            await host.write(register.offset, 0xFFFFFFFF)
        unmapped = sorted({*range(0, 1 << 10, 4)} - {r.offset for r in REGISTERS})
        for offset in [*unmapped, OFFSETS["CONTROL"]]:
            assert await host.read(offset) == 0
        for offset in unmapped:
            await host.write(offset, 0)
        for register in RW:
            assert await host.read(register.offset) == (1 << register.width) - 1

    run(test)


def test_register_of_a_choice_is_not_there_without_it():
    async def test(ctx, dut, host):
        await host.write(OFFSETS["WEIGHTED"], 1)
        assert await host.read(OFFSETS["WEIGHTED"]) == 0
        await host.write(OFFSETS["BATCH"], 7)
        assert await host.read(OFFSETS["BATCH"]) == 7

    run(test, choices=())


@each("strobe", range(16))
def test_strobes(strobe):
    async def test(ctx, dut, host):
        await host.write(OFFSETS["ROWS"], 0x11223344)
        await host.write(OFFSETS["ROWS"], 0xAABBCCDD, strobe)
        new = {i for i in range(4) if strobe >> i & 1}
        expected = sum((b"\xDD\xCC\xBB\xAA" if i in new else b"\x44\x33\x22\x11")[i] << 8 * i
                       for i in range(4))
        assert ctx.get(dut.rows) == expected

    run(test)


def test_nothing_is_accepted_in_reset():
    """A master that asks too early waits, and loses nothing."""
    class InReset(Elaboratable):
        def __init__(self):
            self.bank, self.reset = RegisterBank(), Signal(init=1)

        def elaborate(self, platform):
            m = Module()
            m.submodules.bank = ResetInserter(self.reset)(self.bank)
            return m

    dut = InReset()
    bus = dut.bank.bus

    async def testbench(ctx):
        for signal, value in ((bus.awaddr, OFFSETS["ROWS"]), (bus.wdata, 77), (bus.wstrb, 15),
                              (bus.awvalid, 1), (bus.wvalid, 1), (bus.arvalid, 1), (bus.bready, 1)):
            ctx.set(signal, value)
        for _ in range(10):
            assert not any(map(ctx.get, (bus.awready, bus.wready, bus.arready)))
            await ctx.tick()
            assert not any(map(ctx.get, (bus.bvalid, bus.rvalid)))
        ctx.set(dut.reset, 0)
        await ctx.tick()
        assert all(map(ctx.get, (bus.awready, bus.wready, bus.arready)))
        for _ in range(3):
            await ctx.tick()
        assert ctx.get(dut.bank.rows) == 77

    simulate(dut, testbench)


def test_a_write_shows_after_3_cycles_and_in_a_read_that_begins_with_its_response():
    """Data of a second write comes in the cycle in which the first one's reaches the register."""
    async def test(ctx, dut, host):
        bus, seen = dut.bus, []
        ctx.set(bus.awaddr, OFFSETS["ROWS"])
        ctx.set(bus.araddr, OFFSETS["ROWS"])
        ctx.set(bus.wdata, 77)
        for signal in (bus.wstrb, bus.awvalid, bus.wvalid, bus.bready, bus.rready):
            ctx.set(signal, 15 if signal is bus.wstrb else 1)
        await ctx.tick()        # the first cycle, in which nothing is accepted
        assert ctx.get(bus.awready & bus.wready)
        await ctx.tick()
        ctx.set(bus.wdata, 99)
        found = []
        for _ in range(8):
            ctx.set(bus.arvalid, ctx.get(bus.bvalid) & (not seen or 77 not in seen))
            if ctx.get(bus.rvalid):
                found.append(ctx.get(bus.rdata))
            seen.append(ctx.get(dut.rows))
            await ctx.tick()
        assert seen[:3] == [0, 0, 77]
        assert found == [77]
        assert seen[-1] == 99

    run(test)


@each("value, strobe, pulses", [
    (1, 15, (1, 0)), (2, 15, (0, 1)), (3, 1, (1, 1)), (0, 15, (0, 0)), (4, 15, (0, 0)),
    (3, 14, (0, 0)),
])
@each("locked", [0, 1])
def test_control_gives_single_pulses(value, strobe, pulses, locked):
    seen = [0, 0]

    async def test(ctx, dut, host):
        async def count(ticks):
            for _ in range(ticks):
                *_, start, abort = await ctx.tick().sample(dut.start, dut.abort)
                seen[0] += start
                seen[1] += abort

        bus = dut.bus
        await count(1)      # in the first cycle nothing is accepted
        ctx.set(dut.locked, locked)
        ctx.set(bus.awaddr, OFFSETS["CONTROL"])
        ctx.set(bus.wdata, value)
        ctx.set(bus.wstrb, strobe)
        ctx.set(bus.awvalid, 1)
        ctx.set(bus.wvalid, 1)
        await count(1)
        ctx.set(bus.awvalid, 0)
        ctx.set(bus.wvalid, 0)
        await count(10)
        assert ctx.get(bus.bvalid)

    run(test)
    assert tuple(seen) == pulses


def test_locked_registers_keep_their_value():
    async def test(ctx, dut, host):
        await host.write(OFFSETS["EPOCHS"], 5)
        ctx.set(dut.locked, 1)
        await host.write(OFFSETS["EPOCHS"], 6)
        assert await host.read(OFFSETS["EPOCHS"]) == 5
        ctx.set(dut.locked, 0)
        await host.write(OFFSETS["EPOCHS"], 6)
        assert ctx.get(dut.epochs) == 6

    run(test)


def test_counters_do_not_tear():
    async def test(ctx, dut, host):
        ctx.set(dut.cycles, 0x1_FFFFFFFF)
        assert await host.read(OFFSETS["CYCLES_LO"]) == 0xFFFFFFFF
        ctx.set(dut.cycles, 0x2_00000000)
        ctx.set(dut.beats, 0x7_00000000)
        assert await host.read(OFFSETS["BEATS_HI"]) == 7      # no low half was read: as it is
        assert await host.read(OFFSETS["CYCLES_HI"]) == 1
        assert await host.read(OFFSETS["CYCLES_HI"]) == 2     # the kept value serves once

    run(test)


def test_a_write_waits_until_the_response_before_is_taken():
    """Address and data of a second write are taken, but it has a response of its own."""
    async def test(ctx, dut, host):
        bus, values, responses = dut.bus, [3, 5], 0
        ctx.set(bus.awaddr, OFFSETS["ROWS"])
        ctx.set(bus.wstrb, 0b1111)
        for value in values:
            ctx.set(bus.wdata, value)
            for signal in (bus.awvalid, bus.wvalid):
                ctx.set(signal, 1)
            taken = False
            while not taken:
                *_, taken = await ctx.tick().sample(bus.awready & bus.wready)
            for signal in (bus.awvalid, bus.wvalid):
                ctx.set(signal, 0)
        for _ in range(8):
            await ctx.tick()
            assert ctx.get(dut.rows) == values[0]
        ctx.set(bus.bready, 1)
        for _ in range(8):
            *_, valid = await ctx.tick().sample(bus.bvalid)
            responses += valid
        assert responses == len(values)
        assert ctx.get(dut.rows) == values[1]

    run(test)
