"""Identity of a pipeline: a hash of its configuration, its sources and the register table."""

import functools
import hashlib
from pathlib import Path

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import table

IDENTITY_BITS = 128


NO_PART = ("boards/", "command.py")     # builds and prints, makes no part of a pipeline


def sources() -> list[str]:
    """Paths of the sources that make a pipeline, below this package and in order; those of
    ``NO_PART`` are left out.
    """
    package = Path(__file__).parent
    paths = sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    return [path for path in paths if not path.startswith(NO_PART)]


@functools.cache
def _sources_digest() -> bytes:
    """Hash of :func:`sources`, by name and content."""
    digest = hashlib.sha256()
    for path in sources():
        content = (Path(__file__).parent / path).read_bytes()
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.digest()


def identity(config: PipelineConfig) -> int:
    """Identity of the hardware for ``config``: 128 bits that change with the configuration, with
    any of its :func:`sources` and with the register table.
    """
    parts = (config.digest(), _sources_digest(), table().encode())
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    return int.from_bytes(digest[:IDENTITY_BITS // 8], "little")
