"""ULX3S with an LFE5U-85F: pins, clock and the system behind them."""

from amaranth import Cat, ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.boards.ecp5.pll import Pll
from bitstep_hw.boards.ecp5.tools import Target
from bitstep_hw.boards.serial.system import SerialSystem

OSCILLATOR_MHZ = 25
TARGET = Target(size="85k", package="CABGA381", speed=6)

_PINS = {
    "clk_25mhz": "G2", "ftdi_txd": "M1", "ftdi_rxd": "L4", "wifi_gpio0": "L2",
    **{f"led[{number}]": site for number, site in enumerate(
        ("B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3"))},
}
_OPTIONS = {"clk_25mhz": "PULLMODE=NONE", "ftdi_txd": "PULLMODE=UP",
            "ftdi_rxd": "PULLMODE=UP DRIVE=4", "wifi_gpio0": "PULLMODE=UP DRIVE=4"}


class Ulx3s(wiring.Component):
    """The board's top.

    Parameters
    ----------
    config : SystemConfig
        The system; its clock is what the PLL is set to.

    Members
    -------
    clk_25mhz : In(1)
        Oscillator.
    ftdi_txd : In(1), ftdi_rxd : Out(1)
        Serial line, named from the side of the USB bridge.
    led : Out(8)
        The system's lights; the seventh says that the PLL is not locked.
    wifi_gpio0 : Out(1)
        1, or the ESP32 beside the FPGA would load its own bitstream.
    """

    def __init__(self, config):
        self.config = config
        super().__init__({
            "clk_25mhz": In(1), "ftdi_txd": In(1), "ftdi_rxd": Out(1),
            "led": Out(8), "wifi_gpio0": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.pll = pll = Pll(input_mhz=OSCILLATOR_MHZ, mhz=self.config.clock_hz / 1e6)
        m.submodules.system = system = SerialSystem(self.config)
        m.d.comb += [
            pll.oscillator.eq(self.clk_25mhz),
            system.rx.eq(self.ftdi_txd), self.ftdi_rxd.eq(system.tx),
            self.led.eq(Cat(system.lights[:6], ~pll.locked)), self.wifi_gpio0.eq(1),
        ]
        return m


def constraints() -> str:
    """Pins and the oscillator's clock in the format LPF; the PLL's output follows from it."""
    lines = [f"FREQUENCY PORT \"clk_25mhz\" {OSCILLATOR_MHZ} MHZ;"]
    for port, site in _PINS.items():
        options = " ".join(filter(None, (_OPTIONS.get(port), "IO_TYPE=LVCMOS33")))
        lines += [f'LOCATE COMP "{port}" SITE "{site}";', f'IOBUF PORT "{port}" {options};']
    return "\n".join(lines) + "\n"
