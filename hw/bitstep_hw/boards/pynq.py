"""Boards that PYNQ runs on: what is on them, which pipelines their bitstreams hold, and the flow
that builds these with Vivado: ``python -m bitstep_hw.boards pynq-z2``.
"""

import argparse
import functools
import sys
from dataclasses import dataclass
from pathlib import Path

from bitstep.pipeline.boards import FACTS, ULTRASCALE_PORT_WIDTH, ZYNQ_PORT_WIDTH, BoardFacts
from bitstep.pipeline.config import AUX_WIDTH, PipelineConfig
from bitstep_hw.boards.vivado import ToolError
from bitstep_hw.boards.vivado.flow import build, collect, find_vivado, write_sources
from bitstep_sim.reports.area import XC7Z020

FOLDER = Path("build/vivado")
BITSTREAMS = Path("bitstreams")
REGISTERS_BYTES = 0x1_0000      # of address space for each slave
# Bits of the default pipelines: first the one that says most about a board, last the largest.
BUILD_ORDER = (4, 2, 8, 1)


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
        Memory ports, with ``{}`` for the number; address space and segments of each.
    memory_width : int
        Bits of a memory port.
    clock, reset, interrupt : str
        Pins.
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
    memory_width: int
    clock: str
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


ZYNQ = Family(
    name="zynq", cell="processing_system7", master="M_AXI_GP0", master_clock="M_AXI_GP0_ACLK",
    registers_address=0x43C0_0000, interrupts_address=0x4180_0000, memory="S_AXI_HP{}",
    memory_clock="S_AXI_HP{}_ACLK", memory_space="S_AXI_HP{}", memory_segment="HP{}_DDR_LOWOCM",
    memory_width=ZYNQ_PORT_WIDTH, clock="FCLK_CLK0", reset="FCLK_RESET0_N", interrupt="IRQ_F2P",
    first_interrupt=61, max_burst=16,       # AXI3
    dividers=("PCW_FCLK0_PERIPHERAL_DIVISOR0", "PCW_FCLK0_PERIPHERAL_DIVISOR1"),
    source=("PCW_FCLK0_PERIPHERAL_CLKSRC", "IO PLL"))
ZYNQ_ULTRASCALE = Family(
    name="zynquplus", cell="zynq_ultra_ps_e", master="M_AXI_HPM0_FPD",
    master_clock="maxihpm0_fpd_aclk", registers_address=0xA000_0000,
    interrupts_address=0xA001_0000, memory="S_AXI_HP{}_FPD", memory_clock="saxihp{}_fpd_aclk",
    memory_space="SAXIGP{}", memory_segment="HP{}_DDR_*", memory_width=ULTRASCALE_PORT_WIDTH,
    clock="pl_clk0", reset="pl_resetn0", interrupt="pl_ps_irq0", first_interrupt=121,
    max_burst=256,
    dividers=("PSU__CRL_APB__PL0_REF_CTRL__DIVISOR0", "PSU__CRL_APB__PL0_REF_CTRL__DIVISOR1"),
    source=("PSU__CRL_APB__PL0_REF_CTRL__SRCSEL", "IOPLL"))
# The memory ports HP0 to HP3 of Zynq UltraScale+ are the slaves GP2 to GP5 of its settings.
FIRST_GP = 2


@dataclass(frozen=True)
class PynqBoard:
    """A board and its bitstreams.

    Attributes
    ----------
    facts : BoardFacts
        Its name, clocks and memory.
    part : str
        Vivado's name of the device.
    family : Family
    bus_widths : dict of int to int
        For each default number of bits, the bus width of its bitstream.
    resources : dict of str to int
        LUT, FF, RAMB36 and DSP of the device.
    """

    facts: BoardFacts
    part: str
    family: Family
    bus_widths: dict[int, int]
    resources: dict[str, int]

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

    def config(self, bits: int) -> PipelineConfig:
        """Default pipeline for codes of ``bits`` bits: rows of any length never wait, and
        products in two stages (``recursion`` 4) for a fast clock.

        Raises
        ------
        ValueError
            If there is none.
        """
        if bits not in self.bus_widths:
            raise ValueError(f"The default bitstreams of {self.name} are for "
                             f"{', '.join(map(str, self.bus_widths))} bits, not {bits}; give a "
                             "whole configuration, such as bits=3,recursion=4")
        return PipelineConfig(bus_width=self.bus_widths[bits], bits=bits, recursion=4,
                              lookahead=0).with_lookahead()

    def check(self, config: PipelineConfig) -> None:
        """Raise ValueError unless the board's memory ports carry the pipeline's row bus."""
        if config.bus_width > self.family.memory_width:
            raise ValueError(f"The memory ports of {self.name} have {self.family.memory_width} "
                             f"bits, fewer than the row bus of {config.name}: choose a bus_width "
                             f"of at most {self.family.memory_width}")

    def ports(self, config: PipelineConfig) -> dict[str, tuple[int, int]]:
        """Number of the memory port and width in bits for each memory bus of the top."""
        names = ["m_axi_rows", "m_axi_aux"] + ["m_axi_full"] * config.refetch
        return {name: (number, config.bus_width if name == "m_axi_rows" else AUX_WIDTH)
                for number, name in enumerate(names)}


_ALL_64 = {1: 64, 2: 64, 4: 64, 8: 64}
# The models of 128 lanes of 1 bit take 183 block memories (docs/boards-pynq.md): more than a KV260
# has, nearly all of an Ultra96's.
_WIDE = {1: 64, 2: 128, 4: 128, 8: 128}
BOARDS = {board.name: board for board in (
    PynqBoard(FACTS["pynq-z1"], "xc7z020clg400-1", ZYNQ, _ALL_64, XC7Z020),
    PynqBoard(FACTS["pynq-z2"], "xc7z020clg400-1", ZYNQ, _ALL_64, XC7Z020),
    PynqBoard(FACTS["ultra96"], "xczu3eg-sbva484-1-i", ZYNQ_ULTRASCALE, _WIDE,
              {"LUT": 70_560, "FF": 141_120, "RAMB36": 216, "DSP": 360}),
    PynqBoard(FACTS["kv260"], "xck26-sfvc784-2LV-c", ZYNQ_ULTRASCALE, _WIDE,
              {"LUT": 117_120, "FF": 234_240, "RAMB36": 144, "DSP": 1_248}),
)}


def _parse(board: PynqBoard, text: str) -> PipelineConfig:
    """Default configuration of some bits, or a configuration as the flow for ECP5 takes it."""
    from bitstep_hw.boards.ecp5.flow import parse_config
    config = board.config(int(text)) if text.isdecimal() else parse_config(text)
    board.check(config)
    return config


def main(name: str, arguments: list[str] | None = None) -> int:
    """Build the bitstreams of a board; the exit code is 2 where there is no Vivado, and 1 if one
    of them failed.
    """
    board = BOARDS[name]
    parser = _parser(board)
    chosen = parser.parse_args(arguments)
    defaults = [str(bits) for bits in BUILD_ORDER if bits in board.bus_widths]
    try:
        configs = [_parse(board, text) for text in chosen.configs or defaults]
    except ValueError as error:
        parser.error(str(error))
    if chosen.tcl_only is not None:
        for config in configs:
            print(f"wrote {write_sources(board, config, chosen.tcl_only, jobs=chosen.jobs)}: run "
                  "`vivado -mode batch -source build.tcl` in it, bring its files back, then "
                  f"`python -m bitstep_hw.boards {name} --collect {chosen.tcl_only}`")
        return 0
    try:
        if chosen.collect is not None:
            folders = _finished(board, configs, chosen.collect, bool(chosen.configs))
            actions = {config: functools.partial(collect, board, config, folder, BITSTREAMS)
                       for config, folder in folders.items()}
        else:
            vivado = find_vivado(board)
            actions = {config: functools.partial(
                build, board, config, vivado, folder=chosen.folder, target=BITSTREAMS,
                jobs=chosen.jobs, timeout_s=chosen.timeout * 3600, tell=_tell)
                for config in configs}
    except ToolError as error:
        print(error, file=sys.stderr)
        return error.code
    return _run_all(actions)


def _parser(board):
    parser = argparse.ArgumentParser(
        prog=f"python -m bitstep_hw.boards {board.name}",
        description=f"Bitstream, .hwh and manifest for {board.title} by Vivado, which must be on "
        "PATH. What was built before is not built again. If one fails, the others are built "
        "nevertheless.")
    parser.add_argument(
        "configs", nargs="*", metavar="CONFIG",
        help="bits of a default pipeline, or field=value,... (default: "
        f"{' '.join(map(str, BUILD_ORDER))})")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--tcl-only", type=Path, metavar="DIR",
                       help="only write the sources for Vivado, each pipeline's into a folder of "
                       "its own in DIR; needs no Vivado")
    where.add_argument("--collect", type=Path, metavar="DIR",
                       help="check and take over what Vivado built elsewhere from the sources in "
                       "DIR; needs no Vivado")
    parser.add_argument("--folder", type=Path, default=FOLDER,
                        help="where Vivado works (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="of Vivado at once (%(default)s)")
    parser.add_argument("--timeout", type=float, default=6.0, metavar="HOURS",
                        help="limit of time for each bitstream (%(default)s)")
    return parser


def _tell(line):
    print(line, flush=True)


def _finished(board, configs, folder, named):
    """Folder of each configuration in ``folder``; of those that nobody named, of what there is."""
    folders = {config: folder / f"{board.name}-{config.name}" for config in configs}
    present = {config: path for config, path in folders.items() if path.is_dir()}
    if not present:
        raise ToolError(f"{folder} must hold a folder that --tcl-only wrote, such as "
                        f"{next(iter(folders.values())).name}, and has none")
    return folders if named else present


def _run_all(actions):
    """Carry out what is to be done for each configuration, whatever becomes of the others."""
    failed = {}
    for config, action in actions.items():
        try:
            _tell(f"wrote {action()}, .bit and .hwh")
        except ToolError as error:
            failed[config.name] = error
            print(error, file=sys.stderr, flush=True)
    if failed:
        print(f"{len(failed)} of {len(actions)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
