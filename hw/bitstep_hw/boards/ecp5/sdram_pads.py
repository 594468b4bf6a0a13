"""Pads of an SDRAM on ECP5: a register in each, and a clock that is late."""

from dataclasses import dataclass

from amaranth import C, ClockSignal, Instance, Module, Signal
from amaranth.hdl import IOPort
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.boards.serial.sdram.controller import SdramPins
from bitstep_hw.boards.serial.sdram.timing import DATA_WIDTH, SdramCycles

_OUTPUTS = {"cke": 1, "csn": 1, "rasn": 1, "casn": 1, "wen": 1, "a": 13, "ba": 2, "dqm": 2}
PADS = {"clk": 1, **_OUTPUTS}       # but for the data, which goes both ways

# Of pads, which nextpnr has no times of: a clock's way through a register to the pin, and by how
# much two such ways differ; what the register of an input needs before its clock and after.
TO_PIN_NS, SKEW_NS, FROM_PIN_NS, AFTER_NS = (2.0, 5.0), 0.5, 1.0, 0.5
_EARLY_NS = 2.65        # of the chip's clock, where data is taken by the second edge


@dataclass(frozen=True)
class ChipClock:
    """The chip's clock: how late it is, and which edge takes the data that it brings.

    Up to 55 MHz, with a CAS latency of 2, it is a quarter of a cycle late and the next edge of
    ``sync`` takes the data. At faster clocks, with 3, the second edge does, and the clock is some
    ns before the next one: late enough that data of the edge before has stayed.

    Parameters
    ----------
    cycles : SdramCycles
    second : int
        Cycles of the PLL's own oscillator in a cycle of the clock, the unit of what is late.

    Raises
    ------
    ValueError
        If a time would be too short at this clock.
    """

    cycles: SdramCycles
    second: int

    def __post_init__(self):
        name, left_ns = min(self.margins_ns.items(), key=lambda entry: entry[1])
        if left_ns < 0:
            raise ValueError(f"With SDRAM this board's clock must leave time for {name}, which "
                             f"lack {-left_ns:.1f} ns at {self.cycles.clock_hz / 1e6:g} MHz: "
                             "choose a multiple of 5 MHz up to 100")

    @property
    def edge(self) -> int:
        """Which edge of ``sync`` after one of the chip takes its data, 1 or 2."""
        return self.cycles.cas_latency - 1

    @property
    def period_ns(self) -> float:
        """A cycle."""
        return 1e9 / self.cycles.clock_hz

    @property
    def steps(self) -> int:
        """Cycles of the PLL's oscillator by which the clock is late."""
        if self.edge == 1:
            return self.second // 4
        return self.second - round(_EARLY_NS * self.second / self.period_ns)

    @property
    def margins_ns(self) -> dict[str, float]:
        """Time that is left, by what would be short."""
        timing, period = self.cycles.timing, self.period_ns
        late = self.steps * period / self.second
        return {
            "commands before the chip's clock": late - timing.input_setup_ns - SKEW_NS,
            "commands after the chip's clock": period - late - timing.input_hold_ns - SKEW_NS,
            "data on its way back": self.edge * period - late - TO_PIN_NS[1] - FROM_PIN_NS
            - self.cycles.access_ns,
            "data to stay": late + TO_PIN_NS[0] + timing.hold_ns - AFTER_NS
            - (self.edge - 1) * period,
        }


class SdramPads(wiring.Component):
    """Every pin of the chip has a register in its pad, clocked by ``sync``.

    Data that the first edge takes goes through a register more, which can lie anywhere: either way
    it is there ``PIN_DELAY`` cycles after a command, less the chip's latency.

    Parameters
    ----------
    chip_clock : ChipClock

    Members
    -------
    clock : In(1)
        The chip's clock.
    pins : In(SdramPins())
        The controller.
    clk, cke, csn, rasn, casn, wen, a, ba, dqm : Out
        The pins, but for ``sdram_d``.

    Attributes
    ----------
    sdram_d : IOPort(16)
        Pins of the data.
    """

    def __init__(self, chip_clock: ChipClock):
        self.chip_clock = chip_clock
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
            domain = m.d.sync if self.chip_clock.edge == 1 else m.d.comb
            domain += self.pins.d_i[bit].eq(held)
        return m


def _register(m, name, value, pin, *, first=0):
    """Register in a pad, with its first value."""
    kind, reset = ("OFS1P3BX", "i_PD") if first else ("OFS1P3DX", "i_CD")
    m.submodules[f"{name}_register"] = Instance(
        kind, i_SCLK=ClockSignal(), i_SP=C(1), i_D=value, o_Q=pin, **{reset: C(0)})
