"""The clock of an ECP5 from its board's oscillator."""

from dataclasses import dataclass

from amaranth import C, ClockSignal, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

# Limits of the data sheet (FPGA-DS-02012, sysCLOCK PLL timing), in MHz.
_OSCILLATOR_MHZ = (400, 800)
_PHASE_DETECTOR_MHZ = (10, 400)
_MAX_DIVIDER = 128
_MAX_FEEDBACK_DIVIDER = 80


@dataclass(frozen=True)
class Dividers:
    """Settings of a PLL: its first output, divided by ``feedback``, follows the input; its second
    one is the clock.
    """

    feedback: int
    first: int
    second: int

    def oscillator_mhz(self, input_mhz: float) -> float:
        """Return the frequency of the PLL's own oscillator."""
        return input_mhz * self.feedback * self.first

    def mhz(self, input_mhz: float) -> float:
        """Return the frequency of the clock."""
        return self.oscillator_mhz(input_mhz) / self.second


def find_dividers(input_mhz: float, mhz: float) -> Dividers:
    """Dividers that give a clock, the oscillator near the middle of its range.

    Raises
    ------
    ValueError
        If there are none.
    """
    low, high = _OSCILLATOR_MHZ
    if not _PHASE_DETECTOR_MHZ[0] <= input_mhz <= _PHASE_DETECTOR_MHZ[1]:
        raise ValueError(f"The PLL's input must have 10 to 400 MHz, not {input_mhz:g}")
    candidates = []
    for feedback in range(1, _MAX_FEEDBACK_DIVIDER + 1):
        for first in range(1, _MAX_DIVIDER + 1):
            oscillator = input_mhz * feedback * first
            if low <= oscillator <= high:
                second = min(max(1, round(oscillator / mhz)), _MAX_DIVIDER)
                error = abs(oscillator / second - mhz)
                candidates.append((error, abs(oscillator - (low + high) / 2), feedback,
                                   Dividers(feedback, first, second)))
    best = min(candidates, key=lambda candidate: candidate[:3], default=None)
    if best is None or best[0] > mhz / 10_000:
        raise ValueError(f"No setting of the PLL gives {mhz:g} MHz from {input_mhz:g} MHz; choose "
                         "a multiple of 5 MHz from 10 to 160, 175 or 200")
    return best[3]


class Pll(wiring.Component):
    """Gives the domain ``sync`` its clock, from an oscillator, once the PLL is locked. The domain
    needs no reset: a configured FPGA has every register's first value, and a net to each of
    thousands of registers, which the tools route as any other, would be in the way of all others.

    Parameters
    ----------
    input_mhz, mhz : float
        The oscillator and the clock that is wanted.
    late : int, optional
        Cycles of the PLL's own oscillator by which a second clock is behind the first.

    Members
    -------
    oscillator : In(1)
        The pin.
    locked : Out(1)
        The clock is stable.
    late_clock : Out(1)
        The second clock, which runs before ``locked``, too; 0 without ``late``.
    """

    def __init__(self, *, input_mhz, mhz, late=None):
        self.input_mhz, self.late = input_mhz, late
        self.dividers = find_dividers(input_mhz, mhz)
        super().__init__({"oscillator": In(1), "locked": Out(1), "late_clock": Out(1)})

    def elaborate(self, platform):
        m = Module()
        dividers = self.dividers
        first = Signal()
        clock = Signal()
        late = {} if self.late is None else {
            "a_FREQUENCY_PIN_CLKOS2": f"{dividers.mhz(self.input_mhz):g}",
            "p_CLKOS2_ENABLE": "ENABLED", "p_CLKOS2_DIV": dividers.second,
            "p_CLKOS2_CPHASE": dividers.first // 2 + self.late,
            "p_CLKOS2_FPHASE": 0, "o_CLKOS2": self.late_clock,
        }
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{self.input_mhz:g}",
            a_FREQUENCY_PIN_CLKOP=f"{self.input_mhz * dividers.feedback:g}",
            a_FREQUENCY_PIN_CLKOS=f"{dividers.mhz(self.input_mhz):g}",
            # The loop filter, as Lattice's tools set it for these ranges.
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED", p_OUTDIVIDER_MUXA="DIVA", p_OUTDIVIDER_MUXB="DIVB",
            p_OUTDIVIDER_MUXC="DIVC", p_OUTDIVIDER_MUXD="DIVD",
            p_CLKI_DIV=1, p_CLKFB_DIV=dividers.feedback, p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=dividers.first,
            p_CLKOP_CPHASE=dividers.first // 2, p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED", p_CLKOS_DIV=dividers.second,
            p_CLKOS_CPHASE=dividers.first // 2, p_CLKOS_FPHASE=0,
            i_CLKI=self.oscillator, i_CLKFB=first, i_RST=C(0), i_STDBY=C(0),
            i_PHASESEL0=C(0), i_PHASESEL1=C(0), i_PHASEDIR=C(1), i_PHASESTEP=C(1),
            i_PHASELOADREG=C(1), i_PLLWAKESYNC=C(0), i_ENCLKOP=C(0),
            o_CLKOP=first, o_CLKOS=clock, o_LOCK=self.locked, **late)
        # That it opens between two edges is left to the gate; no board was at hand to see it.
        m.submodules.gate = Instance("DCCA", i_CLKI=clock, i_CE=self.locked,
                                     o_CLKO=ClockSignal("sync"))
        return m
