"""The number by which a driver recognises the hardware it was made for."""

import functools
import hashlib
from importlib import resources

from bitstep.config import PipelineConfig
from bitstep.registers import table

IDENTITY_BITS = 128


@functools.cache
def _sources_digest() -> bytes:
    """Hash of every module of this package, by name and content."""
    digest = hashlib.sha256()
    files = (file for file in resources.files("bitstep_hw").iterdir() if file.name.endswith(".py"))
    for file in sorted(files, key=lambda file: file.name):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.digest()


def identity(config: PipelineConfig) -> int:
    """Identity of the hardware for ``config``: 128 bits that change with the configuration, with
    any source in this package and with the register table.
    """
    parts = (config.digest(), _sources_digest(), table().encode())
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
    return int.from_bytes(digest[:IDENTITY_BITS // 8], "little")
