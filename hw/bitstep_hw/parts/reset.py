"""A reset that lasts until nothing moves any more."""

from amaranth import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal

# Cycles: longer than anything may still move in the pipeline once its inputs have ended. Registers
# without a reset, such as those of delays, need them to forget what they held.
SETTLE = 64
# Registers that one copy of the reset may reach, for Vivado, which makes as many copies.
_MOST_REACHED = 400


def reset_register():
    """Return the signal for :func:`in_long_reset`: 1 from a reset's first edge on, as long as it is
    held.
    """
    return Signal(reset_less=True, name="held", attrs={"max_fanout": _MOST_REACHED})


def in_long_reset(inner, held):
    """Return a module that consists of ``inner`` and keeps it in reset for ``SETTLE`` cycles more
    than the domain ``sync`` is.

    The reset is a register, ``held``, since it reaches thousands of them. So the first edge of a
    reset sets it alone, and ``inner`` goes on for a cycle: whatever may not be seen of that must be
    masked with ``held``.

    Without a reset nothing holds ``inner``: a configured FPGA has every register's first value. In
    a domain without a reset nothing is left of this.
    """
    m = Module()
    m.domains.settled = ClockDomain(local=True)
    reset = ResetSignal("sync", allow_reset_less=True)
    left = Signal(range(SETTLE), init=SETTLE - 1)
    with m.If(reset):
        m.d.sync += held.eq(1)
    with m.Elif(left == 0):
        m.d.sync += held.eq(0)
    with m.If(held):
        m.d.sync += left.eq(left - 1)
    m.d.comb += [ClockSignal("settled").eq(ClockSignal()), ResetSignal("settled").eq(held)]
    m.submodules.inner = DomainRenamer("settled")(inner)
    return m
