"""Compilation of the kernels by numba, kept in the user's cache folder.

numba's own cache looks at the file of a function alone, so it would miss a change of a function
that is called from another file. Here the folder of the cache has a digest of all kernel sources
in its name, so a stale function is never loaded.
"""

import hashlib
from pathlib import Path
from typing import Any

import numba
import platformdirs

_FOLDER = Path(__file__).parent


def _cache_folder() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(_FOLDER.glob("*.py")):
        digest.update(source.read_bytes())
    return str(Path(platformdirs.user_cache_dir("bitstep")) / "kernels" / digest.hexdigest()[:16])


def compiled(function: Any) -> Any:
    """Compile a function that kernels call; the interpreter's lock is released while it runs."""
    return numba.njit(nogil=True)(function)


def kernel(function: Any) -> Any:
    """Compile a function that Python calls, on its first call ever; then load it from the cache."""
    settings: Any = numba.config    # pyright: ignore[reportPrivateImportUsage]  # documented
    before = settings.CACHE_DIR
    settings.CACHE_DIR = _cache_folder()
    try:
        return numba.njit(nogil=True, cache=True)(function)
    finally:
        settings.CACHE_DIR = before
