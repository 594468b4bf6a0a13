"""Bytes over a serial line: 8 data bits, no parity, one stop bit."""

from amaranth import Cat, Module, Signal
from amaranth.lib import cdc, stream, wiring
from amaranth.lib.wiring import In, Out

MIN_DIVISOR = 8         # cycles of a bit; below, sampling in the middle of a bit means little


def check_divisor(divisor: int) -> None:
    """Raise ValueError unless a bit may take so many cycles."""
    if not MIN_DIVISOR <= divisor < 1 << 16:
        raise ValueError(f"A bit must take from {MIN_DIVISOR} to 65535 cycles, not {divisor}; "
                         "choose another clock or baud rate")


class UartReceiver(wiring.Component):
    """Bytes from a serial line.

    Each bit is sampled once, in its middle. A byte whose stop bit is 0 is dropped, and none is
    begun before the line is idle again: whoever checks the packet will miss it. A byte leaves in
    the middle of its stop bit. Stores a byte.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, at least 8.

    Members
    -------
    rx : In(1)
        The line, asynchronous; 1 while idle.
    valid : Out(1), byte : Out(8)
        Pulse, and the byte that came. It cannot be refused.
    """

    def __init__(self, *, divisor):
        check_divisor(divisor)
        self.divisor = divisor
        super().__init__({"rx": In(1, init=1), "valid": Out(1), "byte": Out(8)})

    def elaborate(self, platform):
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = cdc.FFSynchronizer(self.rx, line, init=1)
        timer = Signal(range(self.divisor * 3 // 2))
        bits_left = Signal(range(9))
        m.d.sync += [self.valid.eq(0), timer.eq(timer - 1)]
        with m.FSM():
            with m.State("Idle"):
                m.d.sync += [timer.eq(self.divisor * 3 // 2 - 2), bits_left.eq(8)]
                with m.If(~line):
                    m.next = "Data"
            with m.State("Data"):
                with m.If(timer == 0):
                    m.d.sync += [timer.eq(self.divisor - 1), bits_left.eq(bits_left - 1)]
                    with m.If(bits_left != 0):
                        m.d.sync += self.byte.eq(Cat(self.byte[1:], line))
                    with m.Elif(line):
                        m.d.sync += self.valid.eq(1)
                        m.next = "Idle"
                    with m.Else():
                        m.next = "Broken"
            with m.State("Broken"):
                with m.If(line):
                    m.next = "Idle"
        return m


class UartTransmitter(wiring.Component):
    """Bytes to a serial line, one after the other without gaps if there are any. Stores a byte.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, at least 8.

    Members
    -------
    i : In(stream.Signature(8))
        Bytes.
    tx : Out(1)
        The line; 1 while idle.
    """

    def __init__(self, *, divisor):
        check_divisor(divisor)
        self.divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        timer = Signal(range(self.divisor))
        bits = Signal(9, init=0x1FF)        # what follows on the line; ones after the stop bit
        bits_left = Signal(range(10))
        with m.If(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Elif(bits_left != 0):
            m.d.sync += [self.tx.eq(bits[0]), bits.eq(Cat(bits[1:], 1)),
                         bits_left.eq(bits_left - 1), timer.eq(self.divisor - 1)]
        with m.Elif(self.i.valid):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += [self.tx.eq(0), bits.eq(Cat(self.i.payload, 1)), bits_left.eq(9),
                         timer.eq(self.divisor - 1)]
        return m
