"""Boards that PYNQ runs on: the figures that host and hardware flow share.

The flow that builds bitstreams (:mod:`bitstep_hw.boards.zynq`), the profiles of the races
(:mod:`bitstep_lab.races.board_profiles`) and the report of a configuration
(:mod:`bitstep_lab.board_report`) read them here.
"""

from dataclasses import dataclass

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, BIT_PLANES

ZYNQ_PORT_WIDTH = 64            # bits of a memory port (HP) of a Zynq-7000
ULTRASCALE_PORT_WIDTH = 128     # the same of a Zynq UltraScale+
# Ports that rows may come over; one is left for all else.
ZYNQ_ROW_PORTS, ULTRASCALE_ROW_PORTS = (1, 2), (1, 2, 4)


@dataclass(frozen=True)
class BoardFacts:
    """A board as its maker and its SD image have it, and the clock chosen for the pipeline.

    Attributes
    ----------
    name : str
        As ``make bitstream BOARD=`` and ``bitstep deploy`` take it.
    title : str
        As its maker calls it.
    clock_mhz : int
        Clock that bitstreams are placed and routed for, and that the driver sets.
    pll_mhz : int
        Clock of the PLL (IO PLL, IOPLL) that the boot loader leaves; a multiple of ``clock_mhz``,
        since it is divided to that by whole numbers.
    port_width : int
        Bits of a memory port.
    row_ports : tuple of int
        Numbers of memory ports that rows may come over.
    memory_gbps : float
        Peak of the memory in 10^9 bytes per second, shared by processor and ports.
    memory : str
        The memory, for who reads ``memory_gbps``.
    device : str
        The FPGA, in short.
    resources : dict of str to int
        LUT, FF, RAMB36 and DSP of the device.
    bus_widths : dict of int to int
        For each default number of bits, the bus width of its bitstream.
    bit_plane_bus_width : int
        The same for bit-plane rows.
    """

    name: str
    title: str
    clock_mhz: int
    pll_mhz: int
    port_width: int
    row_ports: tuple[int, ...]
    memory_gbps: float
    memory: str
    device: str
    resources: dict[str, int]
    bus_widths: dict[int, int]
    bit_plane_bus_width: int = ZYNQ_PORT_WIDTH

    def ports_for(self, bus_width: int) -> int:
        """Return the least number of ports that make a row bus.

        Raises
        ------
        ValueError
            If there are not so many.
        """
        for ports in self.row_ports:
            if bus_width <= ports * self.port_width:
                return ports
        most = max(self.row_ports)
        raise ValueError(f"The row bus must have at most the {most * self.port_width} bits of "
                         f"{most} memory ports of {self.name}, not {bus_width}; choose a narrower "
                         "bus_width")

    def config(self, bits: int) -> PipelineConfig:
        """Return the default pipeline for codes of ``bits`` bits: the rows of a batch enter one
        beat a cycle, whatever their length (``update_interval`` 1).

        Raises
        ------
        ValueError
            If there is none.
        """
        if bits not in self.bus_widths:
            widths = max(self.bus_widths.values())
            raise ValueError(
                f"The default bitstreams of {self.name} are for "
                f"{', '.join(map(str, self.bus_widths))} bits, not {bits}; for others give a whole "
                f"configuration, such as bits=3,bus_width={widths},row_ports="
                f"{self.ports_for(widths)},update_interval=1")
        bus_width = self.bus_widths[bits]
        return PipelineConfig(bus_width=bus_width, row_ports=self.ports_for(bus_width), bits=bits,
                              update_interval=1, lookahead=0).with_lookahead()

    def bit_plane_config(self) -> PipelineConfig:
        """Return the default pipeline for bit-plane rows: rows of any length never wait, and
        products have two stages (``update_interval`` 4) for a fast clock.
        """
        bus_width = self.bit_plane_bus_width
        return PipelineConfig(bus_width=bus_width, row_ports=self.ports_for(bus_width),
                              bits=BIT_PLANE_BITS, row_format=BIT_PLANES, update_interval=4,
                              lookahead=0).with_lookahead()


XC7Z020 = {"LUT": 53_200, "FF": 106_400, "RAMB36": 140, "DSP": 220}
XCZU3EG = {"LUT": 70_560, "FF": 141_120, "RAMB36": 216, "DSP": 360}
XCK26 = {"LUT": 117_120, "FF": 234_240, "RAMB36": 144, "DSP": 1_248}
# As wide as memory and device allow (docs/boards-pynq.md). 128 lanes take half of a
# KV260's lookup tables, and at 1 bit seven eighths of an Ultra96's.
_ZYNQ_BUSES = {1: 64, 2: 128, 4: 128, 8: 128}
_ULTRA96_BUSES = {1: 64, 2: 128, 4: 256, 8: 256}
_KV260_BUSES = {1: 128, 2: 256, 4: 512, 8: 512}
FACTS = {facts.name: facts for facts in (
    BoardFacts("pynq-z1", "Digilent PYNQ-Z1", 100, 1000, ZYNQ_PORT_WIDTH, ZYNQ_ROW_PORTS, 2.1,
               "16 bits of DDR3 at 1,050 MT/s", "xc7z020", XC7Z020, _ZYNQ_BUSES),
    BoardFacts("pynq-z2", "TUL PYNQ-Z2", 100, 1000, ZYNQ_PORT_WIDTH, ZYNQ_ROW_PORTS, 2.1,
               "16 bits of DDR3 at 1,050 MT/s", "xc7z020", XC7Z020, _ZYNQ_BUSES),
    BoardFacts("ultra96", "Avnet Ultra96-V2", 150, 1500, ULTRASCALE_PORT_WIDTH,
               ULTRASCALE_ROW_PORTS, 4.3,
               "32 bits of LPDDR4 at 1,066 MT/s", "xczu3eg", XCZU3EG, _ULTRA96_BUSES,
               ULTRASCALE_PORT_WIDTH),
    BoardFacts("kv260", "AMD Kria KV260", 125, 1000, ULTRASCALE_PORT_WIDTH,
               ULTRASCALE_ROW_PORTS, 19.2,
               "64 bits of DDR4 at 2,400 MT/s", "xck26", XCK26, _KV260_BUSES,
               ULTRASCALE_PORT_WIDTH),
)}
