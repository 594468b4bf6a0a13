"""Any top behind three pins, so that its clock can be measured without its hundreds of ports."""

from amaranth import Cat, ClockDomain, ClockSignal, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class ClockHarness(wiring.Component):
    """A component whose inputs come out of one shift register and whose outputs enter another.

    Every path from or to a port begins or ends in a register that can lie anywhere, so the slowest
    path is one of the component itself. For measuring only: it does nothing useful.

    There is no reset: a configured FPGA has every register's first value, and a net to each of
    thousands of registers, which ECP5 tools route as any other, is in the way of all others.

    Parameters
    ----------
    top : wiring.Component
        What is measured; its ports must be plain signals.

    Members
    -------
    clk : In(1)
        Clock.
    i : In(1)
        Shifted into the inputs.
    load : In(1)
        Whether the outputs are taken, or shifted out.
    o : Out(1)
        Shifted out of the outputs.
    """

    def __init__(self, top):
        self.top = top
        super().__init__({"clk": In(1), "i": In(1), "load": In(1), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.d.comb += ClockSignal().eq(self.clk)
        m.submodules.top = top = self.top
        members = top.signature.members
        inputs = [getattr(top, name) for name, member in members.items() if member.flow == In]
        outputs = [getattr(top, name) for name, member in members.items() if member.flow == Out]
        shift = Signal(len(Cat(inputs)), reset_less=True)
        given = Signal.like(shift, reset_less=True)
        taken = Signal(len(Cat(outputs)), reset_less=True)
        load = Signal(reset_less=True)
        out = Signal.like(taken, reset_less=True)
        m.d.sync += [shift.eq(Cat(self.i, shift)), given.eq(shift), load.eq(self.load),
                     taken.eq(Cat(outputs)), out.eq(out >> 1)]
        with m.If(load):
            m.d.sync += out.eq(taken)
        m.d.comb += [Cat(inputs).eq(given), self.o.eq(out[0])]
        return m
