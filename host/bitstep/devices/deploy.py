"""Copies what a PYNQ board needs, and checks it there: wheel, bitstreams, quantized data.

On a PC everything goes by ``ssh`` and ``scp`` into a temporary folder of the board, where
``bitstep deploy BOARD --local`` then does the rest. NumPy and the standard library alone.
"""

import contextlib
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bitstep.devices.pynq import (
    DEFAULT_FOLDER,
    Bitstream,
    PynqDevice,
    prepare_for_new_files,
    read_bitstream,
)
from bitstep.pipeline.boards import FACTS
from bitstep.pipeline.manifest import FileSum
from bitstep.writing import whole_file

FOLDER = DEFAULT_FOLDER.parent              # on the board
BITSTREAMS, DATA = "bitstreams", "data"     # below it
CONNECT_TIMEOUT_S = 15
STEP_TIMEOUT_S = 600.0
_SUFFIXES = (".bit", ".hwh", ".json")

Tell = Callable[[str], None]


class DeployError(RuntimeError):
    """A step failed; the message says which and what to do."""


@dataclass(frozen=True)
class Payload:
    """Files that go to a board.

    Attributes
    ----------
    board : str
        Its name, that of the bitstreams' manifests.
    bitstreams : tuple of Bitstream
    data : tuple of Path
        Files of ``bitstep quantize``.
    """

    board: str
    bitstreams: tuple[Bitstream, ...]
    data: tuple[Path, ...] = ()

    @property
    def files(self) -> list[tuple[Path, str]]:
        """Each file with the folder that it goes into."""
        return [*((found.path.with_suffix(suffix), BITSTREAMS) for found in self.bitstreams
                  for suffix in _SUFFIXES), *((path, DATA) for path in self.data)]


def collect(board: str, bitstreams: Sequence[Path], data: Sequence[Path] = (),
            source: Path = Path("bitstreams")) -> Payload:
    """Check the files that go to a board.

    Parameters
    ----------
    board : str
        Such as ``pynq-z2``.
    bitstreams : sequence of Path
        .bit files; if empty, all of this board in ``source``.
    data : sequence of Path
        Files of ``bitstep quantize``.

    Raises
    ------
    DeployError
        If there is no such board or no bitstream, one is for another board, or a file is missing.
    DeviceError
        If a bitstream does not agree with its manifest.
    """
    if board not in FACTS:
        raise DeployError(f"There is no board {board!r}; there are {', '.join(FACTS)}")
    chosen = list(bitstreams) or sorted(source.glob(f"{board}-*.bit"))
    if not chosen:
        raise DeployError(f"There is no bitstream for {board} in {source}: build it with `make "
                          f"bitstream BOARD={board}` where Vivado is, or name one with "
                          "--bitstream FILE.bit")
    found = tuple(map(read_bitstream, chosen))
    for entry in found:
        if entry.manifest.board != board:
            raise DeployError(f"{entry.path} is for {entry.manifest.board}, not for {board}")
    for path in data:
        if not path.is_file():
            raise DeployError(f"The data {path} do not exist: make them with `bitstep quantize`")
    names = [path.name for path, _ in Payload(board, found, tuple(data)).files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeployError(f"Files must have different names on the board, not two {twice[0]}")
    return Payload(board, found, tuple(data))


def find_wheel(folder: Path = Path("dist")) -> Path:
    """Return the newest wheel of this project in a folder.

    Raises
    ------
    DeployError
        If there is none.
    """
    wheels = sorted(folder.glob("bitstep-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        raise DeployError(f"There is no wheel in {folder}: build it with `make wheel`, or name one "
                          "with --wheel FILE.whl")
    return wheels[-1]


def deploy_local(payload: Payload, folder: Path = FOLDER, *, check: bool = True,
                 tell: Tell = print) -> None:
    """Put the files in place on this board, and load every bitstream to compare its identity.

    Parameters
    ----------
    folder : Path
        Where ``bitstreams`` and ``data`` are.
    check : bool
        Whether to load the bitstreams.
    tell : callable
        Called with a line for each thing that is done.

    Raises
    ------
    DeployError
        If a file cannot be written, or reads back differently.
    DeviceError
        If a bitstream cannot be loaded or is another.
    """
    prepare_for_new_files()
    for path, kind in payload.files:
        target = folder / kind / path.name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not (target.exists() and path.samefile(target)):
                with whole_file(target) as temporary:
                    shutil.copyfile(path, temporary)
        except PermissionError as error:
            raise DeployError(f"{target} cannot be written: {error}; run this as root (sudo), or "
                              "choose another folder with --folder and set BITSTEP_BITSTREAMS to "
                              f"its {BITSTREAMS}") from error
        except OSError as error:
            raise DeployError(f"{target} cannot be written: {error}") from error
        if FileSum.of(target) != FileSum.of(path):
            raise DeployError(f"{target} reads back differently from what was written: the SD card "
                              "may be full or failing")
        tell(f"in place: {target}")
    if check:
        for found in payload.bitstreams:
            path = folder / BITSTREAMS / found.path.name
            with contextlib.closing(PynqDevice(found.manifest.config, bitfile=path)) as device:
                tell(f"loaded: {path.name}, {device.config.name}, "
                     f"{device.clock_hz / 1e6:g} MHz, identity {device.identity:032x}")


def deploy_remote(payload: Payload, host: str, wheel: Path, *, python: str = "python3",
                  folder: Path = FOLDER, check: bool = True, timeout_s: float = STEP_TIMEOUT_S,
                  tell: Tell = print) -> None:
    """Copy everything to a board, compare checksums there, install the wheel and deploy.

    Parameters
    ----------
    host : str
        As ssh takes it: ``xilinx@pynq``, or a name of ssh's configuration.
    wheel : Path
        Of this project.
    python : str
        The board's Python with pynq, in a login shell of root.
    folder, check, tell
        As of :func:`deploy_local`.
    timeout_s : float
        Limit of time for each step.

    Raises
    ------
    DeployError
        If a step fails or takes too long.
    """
    if host.startswith("-"):
        raise DeployError(f"The host must be a name or USER@NAME, not {host!r}")
    if not wheel.is_file():
        raise DeployError(f"The wheel {wheel} does not exist: build it with `make wheel`")
    board = _Remote(host, timeout_s)
    with board.folder() as stage:
        files = [wheel, *(path for path, _ in payload.files)]
        board.copy(files, stage)
        _compare(board, stage, files)
        tell(f"copied to {host}: {len(files)} files, checksums agree")
        board.root("installing the wheel", f"{python} -m pip install --quiet --no-index --no-deps "
                   f"--force-reinstall {stage}/{shlex.quote(wheel.name)}")
        tell(f"installed: {wheel.name}")
        command = [*shlex.split(python), "-m", "bitstep", "deploy", payload.board, "--local",
                   "--folder", str(folder), *(["--no-check"] * (not check))]
        for option, paths in (("--bitstream", [found.path for found in payload.bitstreams]),
                              ("--data", payload.data)):
            for path in paths:
                command += [option, f"{stage}/{path.name}"]
        tell(board.root("deploying on the board", shlex.join(command)).rstrip())
        tell(board.root("listing its devices", f"{python} -m bitstep devices").rstrip())


def _compare(board, stage, files):
    names = " ".join(shlex.quote(path.name) for path in files)
    said = board.run("comparing checksums", f"cd {stage} && sha256sum -- {names}")
    there = {}
    for line in said.splitlines():
        digest, _, name = line.partition("  ")
        there[name] = digest.lstrip("\\")
    for path in files:
        if there.get(path.name) != FileSum.of(path).sha256:
            raise DeployError(f"{path.name} arrived damaged on {board.host}: repeat the command; "
                              "is the board's SD card full (df -h)?")


class _Remote:
    """Commands on a board by ssh; nobody is asked for anything."""

    def __init__(self, host, timeout_s):
        self.host, self.timeout_s = host, timeout_s
        self.options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}"]

    def run(self, what: str, command: str) -> str:
        """Standard output of a command."""
        return self._call(what, ["ssh", *self.options, "--", self.host, command])

    def root(self, what: str, command: str) -> str:
        """The same as root, in a login shell: there pynq's environment and XRT are set up."""
        return self.run(what, f"sudo -n bash -lc {shlex.quote(command)}")

    def copy(self, files: Sequence[Path], target: str) -> None:
        """Copy files into a folder of the board."""
        self._call("copying files", ["scp", "-q", *self.options, "--",
                                     *(str(path.absolute()) for path in files),
                                     f"{self.host}:{target}/"])

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """A folder on the board that is removed at the end."""
        name = f"/tmp/bitstep-{uuid.uuid4().hex}"
        self.run("making a temporary folder", f"mkdir -m 700 {name}")
        try:
            yield name
        finally:
            # What went wrong before is what matters.
            with contextlib.suppress(DeployError):
                self.run("removing the temporary folder", f"rm -rf {name}")

    def _call(self, what, command):
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  stdin=subprocess.DEVNULL, timeout=self.timeout_s)
        except FileNotFoundError as error:
            raise DeployError(f"{command[0]} is not on PATH: install OpenSSH's client "
                              "(openssh-client), or copy the files by other means and run "
                              "`bitstep deploy BOARD --local` on the board") from error
        except subprocess.TimeoutExpired as error:
            raise DeployError(f"{what} on {self.host} took more than {self.timeout_s:g} s: is the "
                              "board still reachable? A longer limit: --timeout") from error
        if done.returncode == 0:
            return done.stdout
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing")[-2000:]
        raise DeployError(f"{what} on {self.host} failed (exit code {done.returncode}): {said}"
                          f"{_remedy(done.returncode, said, self.host)}")


def _remedy(code, said, host):
    """Return the remedy for a usual failure of ssh or sudo, as the end of a message."""
    if "a password is required" in said:
        return (f". Nobody can type a password here: deploy as root@{host.rpartition('@')[2]}, or "
                "allow the user sudo without a password (visudo)")
    if "Permission denied" in said and code == 255:
        return f". The board asks for a password: give it your key once with `ssh-copy-id {host}`"
    if "Host key verification failed" in said:
        return f". Log in once with `ssh {host}` to see and accept the board's key"
    if code == 255:
        return ". Is the board on and in this network, and its name or address right?"
    if "No module named" in said or "not found" in said:
        return (". Name the board's Python that has pynq with --python, such as "
                "/usr/local/share/pynq-venv/bin/python3")
    return ""
