"""The clock of an ECP5 from its board's oscillator."""

from dataclasses import dataclass

from amaranth import C, ClockSignal, Instance, Module, Signal
from amaranth.lib import cdc, wiring
from amaranth.lib.wiring import In, Out

# Limits of the data sheet (FPGA-DS-02012, table of sysCLOCK PLL timing), in MHz.
_PHASE_DETECTOR_MHZ = (10, 400)
_OSCILLATOR_MHZ = (400, 800)
_MAX_DIVIDER = 128
_MAX_FEEDBACK_DIVIDER = 80


@dataclass(frozen=True)
class Dividers:
    """Settings of a PLL whose output is fed back: ``input * feedback / reference``."""

    reference: int
    feedback: int
    output: int

    def mhz(self, input_mhz: float) -> float:
        """The clock that they give."""
        return input_mhz * self.feedback / self.reference


def find_dividers(input_mhz: float, mhz: float) -> Dividers:
    """Dividers that come nearest to a clock, the phase detector as fast as possible.

    Raises
    ------
    ValueError
        If none comes within 1 %.
    """
    low, high = _PHASE_DETECTOR_MHZ
    candidates = []
    for reference in range(1, _MAX_DIVIDER + 1):
        if not low <= input_mhz / reference <= high:
            continue
        for feedback in range(1, _MAX_FEEDBACK_DIVIDER + 1):
            reached = input_mhz * feedback / reference
            # The middle of the oscillator's range, as far from its limits as can be.
            output = min(max(1, round(sum(_OSCILLATOR_MHZ) / 2 / reached)), _MAX_DIVIDER)
            if _OSCILLATOR_MHZ[0] <= reached * output <= _OSCILLATOR_MHZ[1]:
                candidates.append((abs(reached - mhz), reference,
                                   Dividers(reference, feedback, output)))
    best = min(candidates, key=lambda candidate: candidate[:2], default=None)
    if best is None or best[0] > mhz / 100:
        raise ValueError(f"No setting of the PLL gives {mhz:g} MHz from {input_mhz:g} MHz; choose "
                         "a multiple of 5 MHz from 10 to 400")
    return best[2]


class Pll(wiring.Component):
    """Makes the domain ``sync`` from an oscillator, in reset until the PLL is locked.

    Parameters
    ----------
    input_mhz, mhz : float
        The oscillator and the clock that is wanted.

    Members
    -------
    oscillator, reset : In(1)
        The pin; 1 resets ``sync``.
    locked : Out(1)
        The clock is stable.
    """

    def __init__(self, *, input_mhz, mhz):
        self.input_mhz = input_mhz
        self.dividers = find_dividers(input_mhz, mhz)
        super().__init__({"oscillator": In(1), "reset": In(1), "locked": Out(1)})

    def elaborate(self, platform):
        m = Module()
        dividers, clock = self.dividers, Signal()
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{self.input_mhz:g}",
            a_FREQUENCY_PIN_CLKOP=f"{dividers.mhz(self.input_mhz):g}",
            # The loop filter, as Lattice's tools set it for these ranges.
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED", p_OUTDIVIDER_MUXA="DIVA", p_OUTDIVIDER_MUXB="DIVB",
            p_OUTDIVIDER_MUXC="DIVC", p_OUTDIVIDER_MUXD="DIVD",
            p_CLKI_DIV=dividers.reference, p_CLKFB_DIV=dividers.feedback, p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=dividers.output,
            p_CLKOP_CPHASE=dividers.output // 2, p_CLKOP_FPHASE=0,
            i_CLKI=self.oscillator, i_CLKFB=clock, i_RST=C(0), i_STDBY=C(0),
            i_PHASESEL0=C(0), i_PHASESEL1=C(0), i_PHASEDIR=C(1), i_PHASESTEP=C(1),
            i_PHASELOADREG=C(1), i_PLLWAKESYNC=C(0), i_ENCLKOP=C(0),
            o_CLKOP=clock, o_LOCK=self.locked)
        m.d.comb += ClockSignal("sync").eq(clock)
        m.submodules.synchronizer = cdc.ResetSynchronizer(self.reset | ~self.locked,
                                                          domain="sync")
        return m
