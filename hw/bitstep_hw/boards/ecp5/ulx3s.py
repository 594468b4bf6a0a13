"""ULX3S with an LFE5U-85F: pins, clock and the system behind them."""

from amaranth import Cat, ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.axi.buses import connect_flat
from bitstep_hw.boards.ecp5.pll import Pll, find_dividers
from bitstep_hw.boards.ecp5.sdram_pads import PADS, ChipClock, SdramPads
from bitstep_hw.boards.ecp5.tools import Target
from bitstep_hw.boards.serial.system import SerialSystem

OSCILLATOR_MHZ = 25
TARGET = Target(size="85k", package="CABGA381", speed=6)

_PINS = {
    "clk_25mhz": "G2", "ftdi_txd": "M1", "ftdi_rxd": "L4", "wifi_gpio0": "L2",
    **{f"led[{number}]": site for number, site in enumerate(
        ("B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3"))},
}
# As the board's public constraints have them (ulx3s_v20.lpf).
_SDRAM_PINS = {
    "sdram_clk": "F19", "sdram_cke": "F20", "sdram_csn": "P20", "sdram_wen": "T20",
    "sdram_rasn": "R20", "sdram_casn": "T19",
    **{f"sdram_{name}[{number}]": site for name, sites in {
        "a": "M20 M19 L20 L19 K20 K19 K18 J20 J19 H20 N19 G20 G19", "ba": "P19 N20",
        "dqm": "U19 E20",
        "d": "J16 L18 M18 N18 P18 T18 T17 U20 E19 D20 D19 C20 E18 F18 J18 J17",
    }.items() for number, site in enumerate(sites.split())},
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
    sdram_* : Out, sdram_d : IOPort(16)
        With this memory: the chip (:class:`bitstep_hw.boards.ecp5.sdram_pads.SdramPads`).

    Raises
    ------
    ValueError
        If the SDRAM cannot be used at the clock.
    """

    def __init__(self, config):
        self.config = config
        self._has_sdram = config.memory == "sdram"
        dividers = find_dividers(OSCILLATOR_MHZ, config.clock_hz / 1e6)     # or says there are none
        if self._has_sdram:
            self._chip_clock = ChipClock(config.sdram, dividers.second)
        super().__init__({
            "clk_25mhz": In(1), "ftdi_txd": In(1), "ftdi_rxd": Out(1),
            "led": Out(8), "wifi_gpio0": Out(1),
            **({f"sdram_{name}": Out(width) for name, width in PADS.items()}
               if self._has_sdram else {}),
        })

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.pll = pll = Pll(input_mhz=OSCILLATOR_MHZ, mhz=self.config.clock_hz / 1e6,
                                     late=self._chip_clock.steps if self._has_sdram
                                     else None)
        m.submodules.system = system = SerialSystem(self.config)
        m.d.comb += [
            pll.oscillator.eq(self.clk_25mhz),
            system.rx.eq(self.ftdi_txd), self.ftdi_rxd.eq(system.tx),
            self.led.eq(Cat(system.lights[:6], ~pll.locked)), self.wifi_gpio0.eq(1),
        ]
        if self._has_sdram:
            m.submodules.sdram_pads = pads = SdramPads(self._chip_clock)
            m.d.comb += [
                pads.clock.eq(pll.late_clock), *connect_flat(system, "sdram", pads.pins),
                *(getattr(self, f"sdram_{name}").eq(getattr(pads, name)) for name in PADS),
            ]
        return m


def constraints(*, sdram: bool = False) -> str:
    """Pins and the oscillator's clock in the format LPF; the PLL's output follows from it.

    Parameters
    ----------
    sdram : bool
        Those of the SDRAM, too.
    """
    lines = [f"FREQUENCY PORT \"clk_25mhz\" {OSCILLATOR_MHZ} MHZ;"]
    for port, site in {**_PINS, **(_SDRAM_PINS if sdram else {})}.items():
        option = "PULLMODE=NONE DRIVE=4" if port in _SDRAM_PINS else _OPTIONS.get(port)
        options = " ".join(filter(None, (option, "IO_TYPE=LVCMOS33")))
        lines += [f'LOCATE COMP "{port}" SITE "{site}";', f'IOBUF PORT "{port}" {options};']
    return "\n".join(lines) + "\n"
