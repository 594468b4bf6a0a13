# amaranth: UnusedElaboratable=no
# pyright: reportGeneralTypeIssues=false
"""Products whose operands count in some cycles only, while they change in every one."""

import random

import pytest
from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.parts.arithmetic import multiply
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate


class Product(wiring.Component):
    """``a * b`` of the last cycle in which ``valid`` was 1."""

    def __init__(self, *, widths, stages):
        self.widths, self.stages = widths, stages
        super().__init__({"valid": In(1), "a": In(signed(widths[0])), "b": In(signed(widths[1])),
                          "o": Out(signed(sum(widths)))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(multiply(m, self.a, self.b, stages=self.stages, valid=self.valid,
                                       name="product", width=sum(self.widths)))
        m.d.sync += Signal(name="clocked").eq(1)
        return m


@pytest.mark.parametrize("widths", [(8, 12), (18, 33), (40, 34)])
@pytest.mark.parametrize("stages", [1, 2])
@each("gap", [0.0, 0.5, 0.9])
def test_product_of_the_valid_cycle(widths, stages, gap):
    dut = Product(widths=widths, stages=stages)
    rng = random.Random(f"{widths}-{stages}-{gap}")

    async def testbench(ctx):
        due = {}                    # cycle: product that is there from then on
        expected = None
        for cycle in range(200):
            a, b = (rng.randrange(-1 << width - 1, 1 << width - 1) for width in widths)
            valid = rng.random() >= gap
            ctx.set(dut.valid, valid)
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            if valid:
                due[cycle + stages] = a * b
            expected = due.get(cycle, expected)
            if expected is not None:
                assert ctx.get(dut.o) == expected
            await ctx.tick()

    simulate(dut, testbench, limit=300)
