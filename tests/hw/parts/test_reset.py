# amaranth: UnusedElaboratable=no

from amaranth import ClockDomain, Elaboratable, Module, Mux, Signal
from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil

from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.parts.reset import SETTLE, in_long_reset, reset_register
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate


class Example(Elaboratable):
    """A counter from 5 on, and its value some cycles late, behind a reset that masks ``masked``."""

    def __init__(self, *, reset_less=False):
        self.count, self.late = Signal(16, init=5), Signal(16)
        self.held, self.masked = reset_register(), Signal(16)
        self.domain = ClockDomain("sync", reset_less=reset_less)

    def elaborate(self, platform):
        inner, m = Module(), Module()
        inner.d.sync += self.count.eq(self.count + 1)
        inner.d.comb += self.late.eq(delay(inner, self.count, 10, name="late"))
        m.domains.sync = self.domain
        inner.d.comb += self.masked.eq(Mux(self.held, 0, self.count))
        m.submodules.long = in_long_reset(inner, self.held)
        return m


def run(bench):
    """Run a test bench on an example."""
    dut = Example()

    async def testbench(ctx):
        await bench(ctx, dut)

    simulate(dut, testbench)


def test_no_reset_at_the_start():
    async def bench(ctx, dut):
        for cycle in range(20):
            assert ctx.get(dut.count) == 5 + cycle
            await ctx.tick()

    run(bench)


@each("length", [1, 2, 63, 64, 65, 200])
@each("again", [0, 1, 30, 63, 64, 65])
def test_reset_of_any_length(length, again):
    """Also one that comes while another is still held, or at its end."""
    async def bench(ctx, dut):
        for _ in range(50):
            await ctx.tick()
        for cycles, free in ((length, again), (length, 0)):
            ctx.set(dut.domain.rst, 1)
            for cycle in range(cycles):
                # The first edge of a reset sets its register alone.
                last = 5 if ctx.get(dut.held) else ctx.get(dut.count) + 1
                await ctx.tick()
                assert ctx.get(dut.masked) == 0
                assert ctx.get(dut.count) == (last if cycle == 0 else 5)
            ctx.set(dut.domain.rst, 0)
            for cycle in range(free):
                assert ctx.get(dut.masked) == (5 + cycle - SETTLE if cycle >= SETTLE else 0)
                await ctx.tick()
        for _ in range(SETTLE):
            assert ctx.get(dut.masked) == 0
            await ctx.tick()
            assert ctx.get(dut.count) == 5
        assert ctx.get(dut.late) == 5       # what it held is forgotten
        for cycle in range(9):
            assert ctx.get(dut.count) == ctx.get(dut.masked) == 5 + cycle
            await ctx.tick()

    run(bench)


@each("reset_less", [False, True])
def test_nothing_is_left_without_a_reset(reset_less):
    """As on boards whose FPGA is configured and never reset."""
    dut = Example(reset_less=reset_less)
    inputs = [dut.domain.clk] if reset_less else [dut.domain.clk, dut.domain.rst]
    text = rtlil.convert(dut, ports=[dut.late, *inputs], emit_src=False)
    yosys = find_yosys(lambda version: version >= (0, 40))
    found = yosys.run(["-q", "-"], f"read_rtlil <<rtlil\n{text}\nrtlil\n"
                      "proc; flatten; opt -full; write_rtlil")
    registers = sum("cell $" in line and "ff" in line for line in found.split("\n"))
    # The counter and its 10 delays; and what holds the reset, and counts.
    assert registers == (11 if reset_less else 13)
