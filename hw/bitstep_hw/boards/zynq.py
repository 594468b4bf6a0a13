"""Zynq boards that PYNQ runs on: processing systems, and the pipelines of their bitstreams."""

from dataclasses import dataclass

from bitstep.pipeline.boards import FACTS, ULTRASCALE_PORT_WIDTH, ZYNQ_PORT_WIDTH, BoardFacts
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import AUX_WIDTH

REGISTERS_BYTES = 0x1_0000      # of address space for each slave


@dataclass(frozen=True)
class Family:
    """A processing system and the names that Vivado and pynq know its ports by.

    Attributes
    ----------
    name : str
        Of the devices, as IP-XACT spells it.
    cell : str
        IP of the processing system; ``{cell}_0`` is its instance.
    master, master_clock : str
        Port that reaches the registers.
    registers_address, interrupts_address : int
        Where the pipeline's registers and those of the interrupt controller are.
    memory, memory_clock, memory_space, memory_segment : str
        Memory ports, with ``{port}`` for the name, ``{clock}`` for that of its clock, and
        ``{place}`` for its place in ``ports``; address space and segments of each.
    used, data_width : str
        Parameters of the processing system, likewise: a port is there; its bits.
    memory_width : int
        Bits of a memory port.
    ports : tuple of str
        Memory ports, in the order of the processing system's settings.
    row_ports : dict of int to tuple of str
        For each number of ports that the rows come over, these, and those that are left for the
        other buses. Ports of rows have as much as possible to themselves of the way to the memory
        (docs/boards-pynq.md).
    clock, reset, interrupt : str
        Pins.
    clock_name : str
        Name of the clock of pin ``clock`` in Vivado's constraints and reports.
    first_interrupt : int
        Number of ``interrupt`` in Linux.
    max_burst : int
        Beats of the longest burst that a memory port takes.
    dividers : tuple of str
        Parameters of the processing system with the two dividers of ``clock``.
    source : tuple of str
        Parameter with the PLL that is divided, and the PLL that pynq's clocks are about.
    """

    name: str
    cell: str
    master: str
    master_clock: str
    registers_address: int
    interrupts_address: int
    memory: str
    memory_clock: str
    memory_space: str
    memory_segment: str
    used: str
    data_width: str
    memory_width: int
    ports: tuple[str, ...]
    row_ports: dict[int, tuple[str, ...]]
    clock: str
    clock_name: str
    reset: str
    interrupt: str
    first_interrupt: int
    max_burst: int
    dividers: tuple[str, str]
    source: tuple[str, str]

    @property
    def instance(self) -> str:
        """Name of the processing system in the block design."""
        return f"{self.cell}_0"

    def named(self, pattern: str, port: str) -> str:
        """Name of something that a memory port has, such as ``memory_clock``."""
        return pattern.format(port=port, clock=port.lower(), place=self.ports.index(port))


ZYNQ = Family(
    name="zynq", cell="processing_system7", master="M_AXI_GP0", master_clock="M_AXI_GP0_ACLK",
    registers_address=0x43C0_0000, interrupts_address=0x4180_0000, memory="S_AXI_{port}",
    memory_clock="S_AXI_{port}_ACLK", memory_space="S_AXI_{port}",
    memory_segment="{port}_DDR_LOWOCM", used="PCW_USE_S_AXI_{port}",
    data_width="PCW_S_AXI_{port}_DATA_WIDTH", memory_width=ZYNQ_PORT_WIDTH,
    ports=("HP0", "HP1", "HP2", "HP3"),
    row_ports={1: ("HP0", "HP1", "HP2"), 2: ("HP0", "HP2", "HP1", "HP3")},
    clock="FCLK_CLK0", clock_name="clk_fpga_0", reset="FCLK_RESET0_N", interrupt="IRQ_F2P",
    first_interrupt=61, max_burst=16,       # AXI3
    dividers=("PCW_FCLK0_PERIPHERAL_DIVISOR0", "PCW_FCLK0_PERIPHERAL_DIVISOR1"),
    source=("PCW_FCLK0_PERIPHERAL_CLKSRC", "IO PLL"))
ZYNQ_ULTRASCALE = Family(
    name="zynquplus", cell="zynq_ultra_ps_e", master="M_AXI_HPM0_FPD",
    master_clock="maxihpm0_fpd_aclk", registers_address=0xA000_0000,
    interrupts_address=0xA001_0000, memory="S_AXI_{port}_FPD", memory_clock="saxi{clock}_fpd_aclk",
    memory_space="SAXIGP{place}", memory_segment="{port}_DDR_*", used="PSU__USE__S_AXI_GP{place}",
    data_width="PSU__SAXIGP{place}__DATA_WIDTH", memory_width=ULTRASCALE_PORT_WIDTH,
    ports=("HPC0", "HPC1", "HP0", "HP1", "HP2", "HP3"),
    row_ports={1: ("HP0", "HP1", "HP2"), 2: ("HP0", "HP3", "HP1", "HP2"),
               4: ("HP0", "HP1", "HP2", "HP3", "HPC0", "HPC1")},
    clock="pl_clk0", clock_name="clk_pl_0", reset="pl_resetn0", interrupt="pl_ps_irq0",
    first_interrupt=121, max_burst=256,
    dividers=("PSU__CRL_APB__PL0_REF_CTRL__DIVISOR0", "PSU__CRL_APB__PL0_REF_CTRL__DIVISOR1"),
    source=("PSU__CRL_APB__PL0_REF_CTRL__SRCSEL", "IOPLL"))


@dataclass(frozen=True)
class PynqBoard:
    """A board and its bitstreams.

    Attributes
    ----------
    facts : BoardFacts
        Its name, clocks, memory, resources and default pipelines.
    part : str
        Vivado's name of the device.
    family : Family
    """

    facts: BoardFacts
    part: str
    family: Family

    @property
    def name(self) -> str:
        """Name of the board for commands."""
        return self.facts.name

    @property
    def title(self) -> str:
        """Name that its maker gave it."""
        return self.facts.title

    @property
    def clock_mhz(self) -> int:
        """Clock of the pipeline, which the driver sets."""
        return self.facts.clock_mhz

    @property
    def pll_mhz(self) -> int:
        """Clock of the PLL that it is divided from, as the boot loader leaves it."""
        return self.facts.pll_mhz

    def check(self, config: PipelineConfig) -> None:
        """Raise ValueError unless the board's memory ports carry the pipeline's row bus."""
        width = self.family.memory_width
        if config.row_ports not in self.family.row_ports:
            raise ValueError(f"{self.title} must have a memory port for each of row_ports and one "
                             f"more, and has none left with {config.row_ports}: choose a row_ports "
                             f"of at most {max(self.family.row_ports)}")
        if config.port_width > width:
            most = max(self.family.row_ports)
            raise ValueError(
                f"The memory ports of {self.name} have {width} bits, fewer than those of "
                f"{config.name}: choose a bus_width of at most {config.row_ports * width} for "
                f"row_ports={config.row_ports}, or of {most * width} for row_ports={most}")

    def ports(self, config: PipelineConfig) -> dict[str, tuple[str, int]]:
        """Return the name of the memory port and the width in bits for each memory bus of the top.
        """
        buses = dict.fromkeys(config.row_buses, config.port_width) \
            | dict.fromkeys(["m_axi_aux", *config.fine_buses], AUX_WIDTH)
        ports = self.family.row_ports[config.row_ports]
        return {bus: (port, width)
                for (bus, width), port in zip(buses.items(), ports, strict=False)}


BOARDS = {board.name: board for board in (
    PynqBoard(FACTS["pynq-z1"], "xc7z020clg400-1", ZYNQ),
    PynqBoard(FACTS["pynq-z2"], "xc7z020clg400-1", ZYNQ),
    PynqBoard(FACTS["ultra96"], "xczu3eg-sbva484-1-i", ZYNQ_ULTRASCALE),
    PynqBoard(FACTS["kv260"], "xck26-sfvc784-2LV-c", ZYNQ_ULTRASCALE),
)}
