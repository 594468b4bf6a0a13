"""A reset that lasts until nothing moves any more."""

from amaranth import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal

# Cycles: longer than anything may still move in the pipeline once its inputs have ended. Registers
# without a reset, such as those of delays, need them to forget what they held.
SETTLE = 64


def in_long_reset(inner):
    """Return a module that consists of ``inner`` and keeps it in reset for ``SETTLE`` cycles more
    than the domain ``sync`` is.

    Without a reset nothing holds ``inner``: a configured FPGA has every register's first value. In
    a domain without a reset nothing is left of this.
    """
    m = Module()
    m.domains.settled = ClockDomain(local=True)
    reset = ResetSignal("sync", allow_reset_less=True)
    left, held = Signal(range(SETTLE), init=SETTLE - 1), Signal(reset_less=True)
    with m.If(reset):
        m.d.sync += held.eq(1)
    with m.Elif(left == 0):
        m.d.sync += held.eq(0)
    with m.If(held):
        m.d.sync += left.eq(left - 1)
    # Not ``held`` alone: buses are quiet from the first edge of a reset on.
    m.d.comb += [ClockSignal("settled").eq(ClockSignal()), ResetSignal("settled").eq(reset | held)]
    m.submodules.inner = DomainRenamer("settled")(inner)
    return m
