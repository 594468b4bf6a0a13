"""Pads of an SDRAM on ECP5: a register in each, and a clock a quarter of a cycle behind them."""

from amaranth import C, ClockSignal, Instance, Module, Signal
from amaranth.hdl import IOPort
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.boards.serial.sdram.controller import SdramPins
from bitstep_hw.boards.serial.sdram.timing import DATA_WIDTH, SdramTiming

_OUTPUTS = {"cke": 1, "csn": 1, "rasn": 1, "casn": 1, "wen": 1, "a": 13, "ba": 2, "dqm": 2}
PADS = {"clk": 1, **_OUTPUTS}       # but for the data, which goes both ways

# The longest way of a clock through a pad's register to its pin, and what the register of an input
# needs before its clock. No tool here confirms them: nextpnr has no times of pads.
TO_PIN_NS, FROM_PIN_NS = 5.0, 1.0
PHASE = 0.25            # of a cycle, by which the chip's clock is late


def check_clock(clock_hz: float) -> None:
    """Raise ValueError if data of the SDRAM would come back too late at a clock."""
    way_ns = TO_PIN_NS + SdramTiming().access_ns + FROM_PIN_NS
    fastest = (1 - PHASE) * 1e3 / way_ns
    if clock_hz > 1e6 * fastest:
        raise ValueError(f"With SDRAM the clock must be at most {fastest // 5 * 5:g} MHz on this "
                         f"board, not {clock_hz / 1e6:g}: data must be back within "
                         f"{1 - PHASE:g} cycles, and takes {way_ns:g} ns")


class SdramPads(wiring.Component):
    """Every pin of the chip has a register in its pad, clocked by ``sync``.

    The chip's clock is a quarter of a cycle behind: commands are there that long before its edge
    and stay for three quarters after it. Data that it drives after an edge is taken by the next
    edge of ``sync``, three quarters of a cycle later, and stays until a cycle after the next edge
    of the chip. A register more, which can lie anywhere, follows.

    Members
    -------
    clock : In(1)
        The clock a quarter of a cycle behind ``sync``.
    pins : In(SdramPins())
        The controller.
    clk, cke, csn, rasn, casn, wen, a, ba, dqm : Out
        The pins, but for ``sdram_d``.

    Attributes
    ----------
    sdram_d : IOPort(16)
        Pins of the data.
    """

    def __init__(self):
        self.sdram_d = IOPort(DATA_WIDTH, name="sdram_d")
        super().__init__({"clock": In(1), "pins": In(SdramPins()),
                          **{name: Out(width) for name, width in PADS.items()}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.clk = Instance("ODDRX1F", i_D0=C(1), i_D1=C(0), i_SCLK=self.clock, i_RST=C(0),
                                    o_Q=self.clk)
        for name in _OUTPUTS:
            inner, outer = getattr(self.pins, name), getattr(self, name)
            for bit in range(len(inner)):
                _register(m, f"{name}_{bit}", inner[bit], outer[bit],
                          first=inner.init >> bit & 1)
        for bit in range(DATA_WIDTH):
            driven, released, received, held = (Signal(name=f"{what}_{bit}") for what in (
                "driven", "released", "received", "held"))
            _register(m, f"d_o_{bit}", self.pins.d_o[bit], driven)
            _register(m, f"d_oe_{bit}", ~self.pins.d_oe, released, first=1)
            m.submodules[f"d_{bit}"] = Instance(
                "BB", i_I=driven, i_T=released, o_O=received, io_B=self.sdram_d[bit])
            m.submodules[f"d_i_{bit}"] = Instance(
                "IFS1P3DX", i_SCLK=ClockSignal(), i_SP=C(1), i_CD=C(0), i_D=received, o_Q=held)
            m.d.sync += self.pins.d_i[bit].eq(held)
        return m


def _register(m, name, value, pin, *, first=0):
    """Register in a pad, with its first value."""
    kind, reset = ("OFS1P3BX", "i_PD") if first else ("OFS1P3DX", "i_CD")
    m.submodules[f"{name}_register"] = Instance(
        kind, i_SCLK=ClockSignal(), i_SP=C(1), i_D=value, o_Q=pin, **{reset: C(0)})
