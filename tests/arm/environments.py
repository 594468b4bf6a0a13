"""Runs what a board needs on ARM, in emulation: ``make test-arm``.

PYNQ-Z1 and Z2 run Linux of 32 bits, where C's long and NumPy's default integer have 32 bits.
Python, NumPy and pytest of that architecture come from where this machine's apt has its own
packages from. They are unpacked below ``build/arm``, not installed, and qemu runs them as programs
of this machine: that needs neither root nor chroot nor binfmt_misc, and the programs that tests
start run, too.

First the digests of ``cases.py`` are compared; then the driver trains there, on a simulated board
here (``board.py``); then tests run. Arguments go to pytest, but for ``--arch arm64``, which takes
64-bit ARM (PYNQ-ZU and Kria).
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from multiprocessing.connection import Listener
from pathlib import Path

from board import CONFIGS, KEY, serve

from bitstep.pipeline.config import PipelineConfig
from bitstep_sim.board.device import SimDevice

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "arm"
DRIVE_TIMEOUT_S = 900.0     # for the jobs of a configuration
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
PACKAGES = ("python3", "python3-numpy", "python3-pytest", "python3-hypothesis")
QEMU = {"armhf": ("qemu-arm-static", "qemu-arm"),
        "arm64": ("qemu-aarch64-static", "qemu-aarch64")}
# Below tests: readers of data, devices, golden model, files, and what was wrong before. Left out
# is what is not on a board (compiled loops, scikit-learn) or takes minutes in emulation; commands,
# checkpoints and the doctor's jobs are among the digests.
TESTS = (
    "host/test_integers.py", "host/test_numpy_alone.py", "host/data/test_tails.py",
    "host/devices/test_driver.py", "host/devices/test_pynq.py", "host/golden/test_dither.py",
    "host/golden/test_float.py", "host/golden/test_threefry.py",
    "host/training/files/test_model_file.py", "host/training/test_weights.py",
    "gradients/test_integers.py", "gradients/test_numpy_alone.py", "gradients/test_positions.py",
)
FACTS = """
import numpy, platform
print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {numpy.__version__}, "
      f"default integer {numpy.arange(1).dtype}", flush=True)
"""


class MissingError(Exception):
    """What this machine lacks, and what to do."""


def find_programs(architecture: str) -> str:
    """The emulator; raise MissingError unless everything is there."""
    qemu = next(filter(None, map(shutil.which, QEMU[architecture])), None)
    lacks = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if lacks:
        raise MissingError(f"make test-arm needs {' and '.join(lacks)}: run it on Debian")
    if qemu is None:
        raise MissingError(f"make test-arm needs {QEMU[architecture][0]}; on Debian:\n\n"
                           "    sudo apt-get install qemu-user-static\n")
    return qemu


def download(architecture: str, folder: Path) -> list[Path]:
    """Packages and what they depend on, for an architecture, by the sources of this machine's apt.

    Its state is in a folder of its own, so that the machine's stays as it is.
    """
    archives = folder / "cache" / "archives"
    for path in (folder / "state" / "lists" / "partial", archives / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text("")          # nothing is installed there
    options = {"Dir::State": folder / "state", "Dir::State::status": folder / "status",
               "Dir::Cache": folder / "cache", "APT::Architecture": architecture,
               "APT::Architectures::": architecture, "APT::Sandbox::User": ""}
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    # Sources of others may have nothing for ARM: whether there is enough shows in the next step.
    subprocess.run([*apt, "update"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    said = subprocess.run([*apt, "--yes", "--no-install-recommends", "--download-only", "install",
                           *PACKAGES], text=True, capture_output=True)
    if said.returncode:
        raise MissingError(
            f"{said.stderr.strip()}\nThe sources of this machine's apt must have the packages "
            f"{', '.join(PACKAGES)} for {architecture}. Debian's have; on Ubuntu, add its mirror "
            "for ARM to the sources")
    return sorted(archives.glob("*.deb"))


def make_root(architecture: str, qemu: str, folder: Path) -> Path:
    """A folder with Python for an architecture; returns the program that starts it."""
    root = folder / "root"
    python = root / "usr" / "bin" / "python-emulated"
    if python.exists():
        return python
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for package in download(architecture, folder):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    for name in ("lib", "bin"):
        if not (root / name).exists():          # a package that is not unpacked makes this link
            (root / name).symlink_to(f"usr/{name}")
    # Links that installing would make.
    for library in root.glob("usr/lib/*/*/lib[bl]*.so.3"):
        link = library.parents[1] / library.name
        if library.parent.name in ("blas", "lapack") and not link.exists():
            link.symlink_to(f"{library.parent.name}/{library.name}")
    # Named as the program, so that sys.executable starts the emulator again.
    written = python.with_suffix(".new")
    written.write_text(f'#!/bin/sh\nexec "{qemu}" -L "{root}" -0 "$0" '
                       f'"{root}/usr/bin/python3" "$@"\n')
    written.chmod(0o755)
    written.rename(python)
    return python


def unpack_wheel(folder: Path) -> Path:
    """A folder with this project, as ``bitstep deploy`` brings it to a board."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run([sys.executable, *PIP, "wheel", "--no-deps", "-w", str(folder), str(ROOT)],
                   check=True)
    wheel, = folder.glob("bitstep-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    wheel.unlink()
    return folder


def digests(python: str, environment: dict[str, str], out: Path) -> dict[str, str]:
    """Digests of ``cases.py`` by a Python."""
    subprocess.run([python, str(Path(__file__).with_name("cases.py")), str(out)], check=True,
                   env=environment)
    return json.loads(out.read_text())


def compare(own: dict[str, str], found: dict[str, str]) -> list[str]:
    """Names of the cases that differ, or are on one side alone."""
    return sorted(name for name in own.keys() | found.keys()
                  if own.get(name) != found.get(name))


def drive_boards(python: str, environment: dict[str, str]) -> bool:
    """Train by the driver in a Python, on simulated boards in this one; True if all is right."""
    right = True
    for number, options in enumerate(CONFIGS):
        with SimDevice(PipelineConfig(**options)) as device, \
                Listener(("127.0.0.1", 0), authkey=KEY) as listener:
            port = listener.address[1]
            threading.Thread(target=serve, args=(device, listener), daemon=True).start()
            done = subprocess.run(
                [python, str(Path(__file__).with_name("board.py")), str(port), str(number)],
                env=environment, timeout=DRIVE_TIMEOUT_S)
            right &= done.returncode == 0
    return right


def examine(architecture: str, arguments: list[str]) -> int:
    """Compare digests and run the tests; return the exit code."""
    qemu = find_programs(architecture)
    folder = FOLDER / architecture
    folder.mkdir(parents=True, exist_ok=True)
    python = str(make_root(architecture, qemu, folder))
    site = unpack_wheel(folder / "site")
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("PYTHON")}
    environment |= {"PYTHONPATH": str(site), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    subprocess.run([python, "-c", FACTS], check=True, env=environment)
    own = digests(sys.executable, environment, folder / "own.json")
    found = digests(python, environment, folder / "found.json")
    differing = compare(own, found)
    print(f"{len(own) - len(differing)} of {len(own)} digests are those of this machine",
          flush=True)
    for name in differing:
        print(f"differs: {name}: {found.get(name, 'missing')}, here {own.get(name, 'missing')}",
              flush=True)
    driven = drive_boards(python, environment)
    # Debian's pytest does not know all options of pyproject.toml; an unknown one would end it.
    run = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                          "-W", "ignore:Unknown config option", *arguments,
                          *(str(ROOT / "tests" / name) for name in TESTS)],
                         cwd=ROOT, env=environment)
    return 1 if differing or not driven or run.returncode else 0


def main(arguments: list[str]) -> int:
    """Examine an architecture; what else is given goes to pytest."""
    architecture = "armhf"
    if arguments[:1] == ["--arch"]:
        architecture, arguments = arguments[1], arguments[2:]
    try:
        return examine(architecture, arguments)
    except MissingError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
