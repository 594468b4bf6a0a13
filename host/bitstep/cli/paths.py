"""Files that commands read and write: checks before any long work."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from bitstep.cli.options import UsageError
from bitstep.writing import ReservedSpace

# Room that files need: at least, and that of a report with drawings.
LEAST_BYTES, REPORT_BYTES = 1 << 14, 1 << 18


def check_writable(*paths: str | None, sources: Sequence[str] = (),
                   n_bytes: int = LEAST_BYTES) -> None:
    """Raise :class:`UsageError` for a path that cannot be written, before any long work, and
    OSError if its disk is full.

    Parameters
    ----------
    paths : str or None
        Files that will be written; None is skipped.
    sources : sequence of str
        Files that must not be among them, because the command reads them.
    n_bytes : int
        Bytes of each that the disk must have room for: about those of the smallest such file.
    """
    seen = {Path(source).resolve() for source in sources}
    for path in paths:
        if path is None:
            continue
        full = Path(path).resolve()
        if not path:
            raise UsageError("'' cannot be written: it names no file")
        if full.is_dir():
            raise UsageError(f"{path} cannot be written: it is a folder")
        # Replacing /dev/null would be a bad surprise, and so would /dev/stdout: where standard
        # output goes to a file, that is what the name leads to.
        folder = Path(path).parent.resolve()
        if folder == Path("/dev") or Path("/proc") in folder.parents \
                or (full.exists() and not full.is_file()):
            raise UsageError(f"{path} cannot be written: it is no regular file")
        if not full.parent.is_dir():
            raise UsageError(f"{path} cannot be written: there is no folder {full.parent}")
        if not os.access(full.parent, os.W_OK):
            raise UsageError(f"{path} cannot be written: the folder {full.parent} is read-only")
        if full in seen:
            raise UsageError(f"{path} cannot be written: this command reads it, or writes it for "
                             "another option; choose another name")
        seen.add(full)
    ReservedSpace(dict.fromkeys(filter(None, paths), n_bytes)).release()


def check_folder(path: str) -> Path:
    """Make the folder of a report, ``--out DIR``, before any long work.

    Raises
    ------
    UsageError
        If it cannot be made or written.
    OSError
        If its disk is full.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out must be a folder, and {folder} is a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be made: {error.strerror}; choose another "
                         "folder") from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--out {folder} cannot be written: the folder is read-only")
    ReservedSpace({str(folder / "index.html"): REPORT_BYTES}).release()
    return folder


def report_folder(path: str) -> Path:
    """Type of an option of argparse for :func:`check_folder`."""
    try:
        return check_folder(path)
    except (UsageError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check_plot(path: str) -> None:
    """Check, before any long work, that a drawing can be written to ``path``.

    Raises
    ------
    UsageError
        If the suffix is that of no image file.
    RuntimeError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise RuntimeError("--plot needs matplotlib: pip install \"bitstep[sklearn]\"") from error
    suffix, known = Path(path).suffix[1:], FigureCanvasAgg.get_supported_filetypes()
    if suffix.lower() not in known:
        raise UsageError(f"--plot needs a file name that ends in .png, .pdf or .svg, not {path!r}")


def check_readable(**paths: Sequence[str | Path | None]) -> None:
    """Raise :class:`UsageError` for a file that cannot be read, before any long work.

    Parameters
    ----------
    paths : sequence of path or None
        Files by the option that names them; None is skipped.
    """
    for option, files in paths.items():
        for path in files:
            if path is None:
                continue
            if not Path(path).is_file():
                raise UsageError(f"--{option} needs the file {path or repr(path)}, which is not "
                                 "there; check the path")
            if not os.access(path, os.R_OK):
                raise UsageError(f"--{option} needs the file {path}, which may not be read; check "
                                 "its permissions")
