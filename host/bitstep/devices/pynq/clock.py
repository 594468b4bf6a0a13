"""The clock of the FPGA on a board that PYNQ runs on: set, read back, and judged.

pynq writes dividers of the .hwh when it loads a bitstream (3.0, 3.1), or a frequency (4.0). Those
dividers are for PLLs as Vivado believes them to be, which need not be the board's.
"""

from dataclasses import dataclass
from typing import Any

from bitstep.pipeline.results import DeviceError

# Crystals are as exact as that. pynq reckons with 33.333 MHz where it is 33.3333.
ABOVE = 1e-4
# PLLs are divided by whole numbers, the least of which is a KV260's: 1,000 MHz by 8 to 125. Another
# PLL may have to be divided by 8.5, and is by 9, so the next clock is at most this much slower. A
# slower clock than that was not set at all.
BELOW = 0.06


@dataclass(frozen=True)
class FpgaClock:
    """The pipeline's clock in Hz.

    Attributes
    ----------
    wanted_hz : float
        The constraint that the bitstream was placed and routed for.
    found_hz : float
        The clock that pynq read after it had loaded the bitstream.
    hz : float
        The clock that pynq read after it had been told to set the wanted one.
    """

    wanted_hz: float
    found_hz: float
    hz: float


def set_clock(pynq: Any, wanted_hz: float) -> FpgaClock:
    """Set the clock that a bitstream is made for, and read it back.

    Parameters
    ----------
    pynq : module
        With a bitstream loaded.
    wanted_hz : float
        The clock that the bitstream is made for.

    Raises
    ------
    DeviceError
        If pynq cannot tell or set the clock, if it is faster than wanted, or far slower.
    """
    clock = FpgaClock(wanted_hz, *try_clock(pynq, wanted_hz))
    _check(clock)
    return clock


def try_clock(pynq: Any, hz: float) -> tuple[float, float]:
    """Set the clock that is next to ``hz``; return those that pynq reads before and after, in Hz.

    Raises
    ------
    DeviceError
        If pynq cannot tell or set the clock.
    """
    try:
        before = 1e6 * float(pynq.Clocks.fclk0_mhz)
        pynq.Clocks.fclk0_mhz = hz / 1e6
        return before, 1e6 * float(pynq.Clocks.fclk0_mhz)
    except (RuntimeError, OSError, ValueError, TypeError, KeyError, AttributeError,
            ArithmeticError) as error:
        raise DeviceError(
            f"pynq {getattr(pynq, '__version__', '')} cannot set the clock of the FPGA to "
            f"{hz / 1e6:g} MHz: {type(error).__name__}: {error}. Without the right clock "
            "models may be wrong; run this as root, on the board's own SD image") from error


def _check(clock):
    mhz, wanted_mhz, found_mhz = (f"{value / 1e6:.6g}" for value in
                                  (clock.hz, clock.wanted_hz, clock.found_hz))
    said = (f"The clock of the FPGA must be {wanted_mhz} MHz, for which the bitstream was placed "
            f"and routed, but pynq reads {mhz} MHz after setting it ({found_mhz} MHz before)")
    if not clock.hz <= (1 + ABOVE) * clock.wanted_hz:
        raise DeviceError(
            f"{said}. Models could be wrong without a sign at a faster clock: boot the board with "
            "the SD card's own boot files, whose PLL divides to it, or build a bitstream for this "
            "clock (clock_mhz in host/bitstep/pipeline/boards.py)")
    if clock.hz < (1 - BELOW) * clock.wanted_hz:
        raise DeviceError(
            f"{said}. Whole dividers come within {BELOW:.0%}, so it was not set: run this as root, "
            "on the board's own SD image")
