"""Boards that PYNQ runs on: the figures that host and hardware flow share.

The flow that builds bitstreams (:mod:`bitstep_hw.boards.zynq`) and the profiles of the races
(:mod:`bitstep_lab.races.board_profiles`) read them here.
"""

from dataclasses import dataclass

ZYNQ_PORT_WIDTH = 64            # bits of a memory port (HP) of a Zynq-7000
ULTRASCALE_PORT_WIDTH = 128     # the same of a Zynq UltraScale+


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
        Clock of the PLL (IO PLL, IOPLL) that the boot loader leaves, which is divided to
        ``clock_mhz``.
    port_width : int
        Bits of a memory port.
    memory_gbps : float
        Peak of the memory in 10^9 bytes per second, shared by processor and ports.
    memory : str
        The memory, for who reads ``memory_gbps``.
    """

    name: str
    title: str
    clock_mhz: int
    pll_mhz: int
    port_width: int
    memory_gbps: float
    memory: str


FACTS = {facts.name: facts for facts in (
    BoardFacts("pynq-z1", "Digilent PYNQ-Z1", 100, 1000, ZYNQ_PORT_WIDTH, 2.1,
               "16 bits of DDR3 at 1,050 MT/s"),
    BoardFacts("pynq-z2", "TUL PYNQ-Z2", 100, 1000, ZYNQ_PORT_WIDTH, 2.1,
               "16 bits of DDR3 at 1,050 MT/s"),
    BoardFacts("ultra96", "Avnet Ultra96-V2", 100, 1500, ULTRASCALE_PORT_WIDTH, 4.3,
               "32 bits of LPDDR4 at 1,066 MT/s"),
    BoardFacts("kv260", "AMD Kria KV260", 100, 1000, ULTRASCALE_PORT_WIDTH, 19.2,
               "64 bits of DDR4 at 2,400 MT/s"),
)}
