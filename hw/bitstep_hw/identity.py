"""Identity of a pipeline: a hash of its configuration, its sources and the register table."""

import functools
import hashlib
from pathlib import Path

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import MAP_VERSION, table

IDENTITY_BITS = 128
NO_PART = ("boards/", "command.py")     # builds and prints, makes no part of a pipeline
PACKAGE = Path(__file__).parent


def sources(package: Path = PACKAGE) -> list[str]:
    """Return the paths of the sources that make a pipeline, below ``package`` and in order;
    ``NO_PART`` is left out.
    """
    paths = sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    return [path for path in paths if not path.startswith(NO_PART)]


@functools.cache
def _sources_digest(package: Path) -> bytes:
    """Hash of :func:`sources`, by name and content."""
    digest = hashlib.sha256()
    for path in sources(package):
        content = (package / path).read_bytes()
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.digest()


def identity(config: PipelineConfig, package: Path = PACKAGE) -> int:
    """Return the identity of the hardware for ``config``: 128 bits that change with the
    configuration, with any of its sources, and with the register table and its version.

    Parameters
    ----------
    config : PipelineConfig
        Configuration of the pipeline.
    package : Path
        Folder of the sources that it is made from, read once; by default this package.
    """
    registers = f"version {MAP_VERSION}\n{table()}"
    parts = (config.digest(), _sources_digest(package), registers.encode())
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    return int.from_bytes(digest[:IDENTITY_BITS // 8], "little")
