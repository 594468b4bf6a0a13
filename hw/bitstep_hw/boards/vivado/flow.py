"""From a pipeline to a bitstream for a board with a Zynq, by Vivado.

What Vivado gets is written first (:mod:`bitstep_hw.boards.vivado.sources`). What it made is kept
under the checksum of that.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import FileSum, Manifest
from bitstep_hw.boards.vivado import IP_VLNV, ToolError
from bitstep_hw.boards.vivado.results import (
    check_bitstream,
    check_handoff,
    period_ns,
    read_report,
    slacks,
    utilization,
)
from bitstep_hw.boards.vivado.sources import (
    DECISIVE,
    NETLIST,
    code,
    digest,
    identity_of,
    kept_sources,
    sources,
    write_sources,
)
from bitstep_hw.boards.zynq import PynqBoard
from bitstep_hw.top import identity

TESTED = "2020.2 or later"      # what build.tcl is written for; nothing of it was run yet
OUTPUT = "output.txt"           # all that Vivado prints
RESULTS = ("bitstep.bit", "bitstep.hwh", "timing.rpt", "utilization.rpt")
RESULT = "result.txt"           # written last


@dataclass(frozen=True)
class Vivado:
    """A Vivado: its program and what it says its version is."""

    program: str
    version: str


def find_vivado(board: PynqBoard) -> Vivado:
    """Find Vivado on PATH.

    Raises
    ------
    ToolError
        If there is none, or it does not tell its version; with exit code 2.
    """
    program = shutil.which("vivado")
    if program is None:
        raise ToolError(
            f"A bitstream for {board.title} needs Vivado ({TESTED}; its free edition has "
            f"{board.part}), which is not on PATH. Install it and source its settings64.sh, or "
            "write the sources here and build on a machine that has it: "
            f"`python -m bitstep_hw.boards {board.name} --tcl-only DIR`", code=2)
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{program} -version failed: {error}", code=2) from error
    match = re.search(r"[Vv]ivado v?(\d{4}\.\d+)", said.stdout)
    if match is None:
        raise ToolError(f"{program} -version does not tell a version of Vivado but "
                        f"{(said.stdout + said.stderr).strip()[:200]!r}", code=2)
    if tuple(map(int, match[1].split("."))) < (2020, 2):
        raise ToolError(f"Vivado must be {TESTED}, not {match[1]}", code=2)
    return Vivado(program, match[1])


def build(board: PynqBoard, config: PipelineConfig, vivado: Vivado, *, folder: Path,
          target: Path, jobs: int, timeout_s: float,
          tell: Callable[[str], None] = lambda line: None) -> Path:
    """Build bitstream, .hwh and manifest into ``target``; return the path of the manifest.

    Parameters
    ----------
    board : PynqBoard
    config : PipelineConfig
    vivado : Vivado
    folder : Path
        Folder of finished builds.
    target : Path
        Folder of the results.
    jobs : int
        See :func:`settings`.
    timeout_s : float
        Limit of Vivado's time.
    tell : callable
        Called with the file to watch, before hours without a line, and with warnings.

    Raises
    ------
    ToolError
        If Vivado fails or takes too long, the clock is not met or the .hwh is not what the
        driver needs, or another process builds the same.
    """
    found = digest(sources(board, config, jobs=jobs))
    key = hashlib.sha256(f"{vivado.version} {found}".encode()).hexdigest()[:16]
    place = folder / key
    place.mkdir(parents=True, exist_ok=True)
    try:        # a second Vivado would delete what the first one works on
        with FileLock(place / "lock", timeout=0):
            work = write_sources(board, config, place, jobs=jobs)
            if not (work / RESULT).exists():
                tell(f"building {work.name} with Vivado {vivado.version}; watch {work / OUTPUT}")
                _run([vivado.program, "-mode", "batch", "-nojournal", "-log", "vivado.log",
                      "-notrace", "-source", "build.tcl"], work, timeout_s)
            return collect(board, config, work, target, tell=tell)
    except Timeout as error:
        raise ToolError(f"Another process builds in {place}: wait until it ends, then repeat the "
                        "command, which collects what it has made") from error


def collect(board: PynqBoard, config: PipelineConfig, work: Path, target: Path, *,
            tell: Callable[[str], None] = lambda line: None) -> Path:
    """Collect bitstream, .hwh and manifest into ``target`` from a folder that Vivado has finished,
    here or elsewhere; return the path of the manifest.

    Parameters
    ----------
    board : PynqBoard
    config : PipelineConfig
    work : Path
        The finished folder.
    target : Path
        Folder of the results.
    tell : callable
        Called with each warning.

    Raises
    ------
    ToolError
        If the folder is not finished or of other sources, a file is damaged, the clock is not met
        or the .hwh is not what the driver needs.
    """
    missing = [name for name in (*RESULTS, RESULT) if not (work / name).is_file()]
    if missing:
        raise ToolError(f"{work} must hold what Vivado built, but has no {', '.join(missing)}: run "
                        f"`vivado -mode batch -source build.tcl` in it to its end, and bring back "
                        f"{', '.join((*RESULTS, RESULT))}")
    lines = read_report(work / RESULT, "the last file that build.tcl writes").splitlines()
    result = {name: value.strip() for name, _, value in (line.partition(" ") for line in lines)}
    cut = [name for name in ("sources", "vivado") if not result.get(name)]
    if cut:
        raise ToolError(f"{work / RESULT} must tell sources and vivado, each in a line of its own, "
                        f"but does not tell {' and '.join(cut)}: bring back the whole file")
    _check_sources(board, config, work, result)
    slack_ns = _slacks(board, work / "timing.rpt", tell)
    for kind, value in slack_ns.items():
        if value < 0:
            raise ToolError(f"{config.name} misses {board.clock_mhz} MHz on {board.name}: its "
                            f"{kind} slack is {value:g} ns; see {work / 'timing.rpt'}; choose "
                            f"{faster_choices(config)}")
    used = utilization(work / "utilization.rpt")
    check_bitstream(work / "bitstep.bit")
    for warning in check_handoff(work / "bitstep.hwh", board):
        tell(f"warning: {warning}")
    stem = f"{board.name}-{config.name}"
    target.mkdir(parents=True, exist_ok=True)
    for suffix in (".bit", ".hwh"):
        shutil.copyfile(work / f"bitstep{suffix}", target / f"{stem}{suffix}")
    found = manifest(board, config, work / "bitstep.bit", work / "bitstep.hwh",
                     tools={"vivado": result["vivado"]}, slack_ns=slack_ns,
                     resources=used)
    path = target / f"{stem}.json"
    found.write(path)
    return path


def faster_choices(config: PipelineConfig) -> str:
    """What else of a pipeline reaches a faster clock, in words."""
    choices = ["fewer bits", "a smaller look-ahead"]
    if config.update_interval not in (1, 4):        # else it has the registers already
        choices.append("update_interval=4")
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _slacks(board, report, tell):
    """Return the slacks at the clock that the driver sets, which need not be the one that Vivado
    constrained the design to: where its own PLLs do not divide to that.
    """
    slack_ns = slacks(report)
    period, wanted = period_ns(report, board.family.clock_name), 1000 / board.clock_mhz
    if period is None:
        tell(f"warning: {report} does not tell the period of {board.family.clock_name}, so it is "
             f"taken to be {wanted:g} ns")
    else:
        slack_ns["setup"] = round(slack_ns["setup"] + wanted - period, 3)
    if slack_ns["setup"] >= wanted:     # no clock is so fast
        raise ToolError(f"{report} must tell a slack of setup below the period of {wanted:g} ns, "
                        f"not {slack_ns['setup']:g} ns: is it the report of the whole design?")
    return slack_ns


def _check_sources(board, config, work, result):
    """Raise ToolError unless Vivado was given what this version of bitstep writes, but for
    comments, and for names in the pipeline's netlist, which every version of Python chooses anew.
    """
    expected, given = sources(board, config), result["sources"]
    wanted, found = digest(expected), kept_sources(work)
    renamed = found is not None and wanted != given == digest(found) \
        and identity_of(found["settings.tcl"]) == identity(config)
    if given != wanted and not renamed:
        raise ToolError(f"{work / RESULT} must be of the sources that this version of bitstep "
                        f"writes for {config.name} on {board.name} ({wanted[:16]}), not of others "
                        f"({given[:16]}): collect it with the version of bitstep that wrote them "
                        f"(and, without {', '.join(DECISIVE)} beside it, of Python), or write them "
                        "again with --tcl-only and build again")
    for name, text in (found or {}).items():
        if code(name, text) != code(name, expected[name]) and not (
                renamed and name == NETLIST):
            raise ToolError(f"{work / name} was changed after it was written: build from the "
                            "sources as --tcl-only writes them, or make the same change in bitstep "
                            "(hw/bitstep_hw/boards/vivado) and build from that")


def _run(command, folder, timeout_s):
    with (folder / OUTPUT).open("w") as output:
        # Vivado starts other programs, which must end with it.
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            code = process.wait(timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise ToolError(f"Vivado took more than {timeout_s / 3600:g} hours in {folder}; "
                                "raise --timeout and repeat the command, which goes on from the "
                                "runs that ended") from error
            raise
    if code != 0 or not (folder / RESULT).exists():
        said = (folder / OUTPUT).read_text(encoding="utf-8", errors="replace")
        raise ToolError(f"Vivado failed with code {code} in {folder}; once the cause is removed, "
                        "repeat the command, which goes on from the runs that ended. Vivado said:\n"
                        f"{said[-3000:]}")


def manifest(board: PynqBoard, config: PipelineConfig, bitstream: Path, handoff: Path, *,
             tools: dict[str, str], slack_ns: dict[str, float] | None = None,
             resources: dict[str, Any] | None = None) -> Manifest:
    """Make the manifest of a bitstream, which the device ``pynq`` reads.

    Parameters
    ----------
    bitstream, handoff : Path
        The .bit and the .hwh, which must not be taken for those of another build.
    slack_ns : dict of str to float, or None
        See :func:`bitstep_hw.boards.vivado.results.slacks`; the clock's period could be shorter by
        ``setup``. None if nothing was placed and routed.
    """
    clock: dict[str, float] = {"constraint": board.clock_mhz}
    if slack_ns is not None:
        clock["achieved"] = round(1000 / (1000 / board.clock_mhz - slack_ns["setup"]), 2)
    return Manifest(
        board=board.name, config=config, identity=identity(config),
        system={"ip": IP_VLNV, "part": board.part}, clock_mhz=clock, slack_ns=slack_ns or {},
        resources=resources or {}, tools=tools, bitstream=FileSum.of(bitstream),
        handoff=FileSum.of(handoff))
