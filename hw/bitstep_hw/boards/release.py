"""Files of a release beside the wheel: ``python -m bitstep_hw.boards release``.

For each board with a Zynq an archive of sources, of which Vivado makes its bitstreams in one
command; for the ULX3S the bitstreams that were built here, with the manifests of ``bitstreams/``.
"""

import argparse
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bitstep import __version__
from bitstep.pipeline.manifest import read_manifest
from bitstep.pipeline.results import DeviceError
from bitstep_hw.boards.ecp5 import flow as ecp5
from bitstep_hw.boards.pynq import BITSTREAMS, BUILD_ORDER
from bitstep_hw.boards.vivado.sources import write_sources
from bitstep_hw.boards.zynq import BOARDS, PynqBoard

DATE = (1980, 1, 1, 0, 0, 0)    # of all entries, so that the same sources give the same archive
SCRIPT = "build.sh"
_BUILD = """#!/bin/sh
# Builds the bitstream of every folder here, or of those that are named; hours. Needs Vivado 2020.2
# or later on PATH. What is finished is not built again.
cd "$(dirname "$0")" || exit 1
[ $# -gt 0 ] || set -- */
failed=
for folder in "$@"; do
    [ -f "$folder/result.txt" ] && continue
    (cd "$folder" && vivado -mode batch -nojournal -log vivado.log -notrace -source build.tcl) \\
        || failed="$failed $folder"
done
[ -z "$failed" ] || { echo "failed:$failed; see vivado.log there" >&2; exit 1; }
"""
_READ = """Bitstreams of bitstep {version} for {title}: what Vivado needs to make them.

1. Where Vivado 2020.2 or later is on PATH:  sh build.sh
   One pipeline alone:                       sh build.sh {first}
2. In a folder of yours, here or elsewhere:  pip install "bitstep[hw]=={version}"
                                             python -m bitstep_hw.boards {board} --collect {folder}
   which checks what Vivado made, and writes bitstreams/ there.
3. Onto the board:                           bitstep deploy {board} xilinx@pynq

The documentation (boards-pynq.md) has every step from an empty SD card on.
"""


def vivado_archive(board: PynqBoard, folder: Path) -> Path:
    """Write the archive of a board's default pipelines, that of bit-plane rows among them.

    Parameters
    ----------
    board : PynqBoard
    folder : Path
        Where the archive is written.

    Returns
    -------
    Path
        The archive.
    """
    stem = f"bitstep-{__version__}-{board.name}-vivado"
    configs = [board.facts.config(bits) for bits in BUILD_ORDER if bits in board.facts.bus_widths]
    with TemporaryDirectory() as made:
        parts = [write_sources(board, config, Path(made))
                 for config in (*configs, board.facts.bit_plane_config())]
        files = {f"{stem}/{path.relative_to(made)}": path.read_bytes()
                 for part in parts for path in sorted(part.iterdir())}
        said = _READ.format(version=__version__, title=board.title, board=board.name, folder=stem,
                            first=parts[0].name)
    files |= {f"{stem}/{SCRIPT}": _BUILD.encode(), f"{stem}/README.txt": said.encode()}
    return _write(folder / f"{stem}.zip", files)


def ulx3s_archive(built: Path, manifests: Path, folder: Path) -> Path:
    """Write the archive of the ULX3S's bitstreams.

    Parameters
    ----------
    built : Path
        Folder of the .bit files.
    manifests : Path
        Folder of the manifests.
    folder : Path
        Where the archive is written.

    Raises
    ------
    FileNotFoundError
        If a manifest's bitstream was not built, or there is no manifest.
    ValueError
        If a file is not the bitstream of its manifest.
    """
    files = {}
    for path in sorted(manifests.glob(f"{ecp5.BOARD}-*.json")):
        bitstream = built / f"{path.stem}.bit"
        if not bitstream.is_file():
            raise FileNotFoundError(
                f"{bitstream} must be there for {path}: build it, with --check, as "
                "docs/boards-ecp5.md says")
        found = read_manifest(path, "a bitstream", "bitstream").bitstream
        if found is None or not found.matches(bitstream):
            raise ValueError(f"{bitstream} must be the bitstream of {path}, and has another "
                             "checksum: build it again")
        files |= {bitstream.name: bitstream.read_bytes(), path.name: path.read_bytes()}
    if not files:
        raise FileNotFoundError(f"{manifests} must hold a manifest of {ecp5.BOARD}, and has none")
    stem = f"bitstep-{__version__}-{ecp5.BOARD}"
    return _write(folder / f"{stem}.zip", {f"{stem}/{name}": of for name, of in files.items()})


def _write(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(SCRIPT) else 0o644) << 16
            archive.writestr(entry, content)
    return path


def archives(boards: list[str], built: Path, folder: Path) -> Iterator[Path]:
    """Write and yield the archive of each board."""
    for name in boards:
        yield ulx3s_archive(built, BITSTREAMS, folder) if name == ecp5.BOARD \
            else vivado_archive(BOARDS[name], folder)


def main(arguments: list[str] | None = None) -> int:
    """Write the archives; the exit code is 1 if a bitstream is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m bitstep_hw.boards release",
        description="Write what a release has beside the wheel: sources for Vivado of each Zynq "
        "board's default pipelines (some minutes), and the bitstreams of the ULX3S that were built "
        "here and have a manifest in bitstreams/.")
    known = [*BOARDS, ecp5.BOARD]

    def board(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(known)}, not {text!r}")
        return text

    parser.add_argument("boards", nargs="*", metavar="BOARD", type=board,
                        help=f"some of {', '.join(known)} (default: all)")
    parser.add_argument("--built", type=Path, default=ecp5.FOLDER,
                        help="folder of the ULX3S's .bit files (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("dist"),
                        help="folder of the archives (%(default)s)")
    chosen = parser.parse_args(arguments)
    try:
        for path in archives(chosen.boards or known, chosen.built, chosen.out):
            print(f"wrote {path}: {path.stat().st_size:,} bytes", flush=True)
    except (FileNotFoundError, ValueError, DeviceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
