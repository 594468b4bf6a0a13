"""Compilation of kernels by numba, kept in the user's cache folder; importing this needs numba.

numba's own cache looks at the file of a function alone, so it would miss a change of a function
that is called from another file. Here the folder of the cache has a digest in its name, of all
sources beside the kernel's and of this file, so a stale function is never loaded.
"""

import hashlib
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.extending import intrinsic


def _cache_folder(kernel: Path) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in (Path(__file__), *sorted(kernel.parent.glob("*.py"))):
        digest.update(source.read_bytes())
    return str(Path(platformdirs.user_cache_dir("bitstep")) / "kernels" / digest.hexdigest()[:16])


def _uncounted(typing_context, array):
    """The same array without its owner: copies of it in a loop are not counted, which would cost
    some 5 ns each. The caller of the kernel keeps it.
    """
    def generate(context, builder, signature, arguments):
        result = context.make_array(signature.args[0])(context, builder, arguments[0])
        result.meminfo = result.meminfo.type(None)
        result.parent = result.parent.type(None)
        return result._getvalue()

    return array(array), generate


# Compiled code calls this without the typing context, which a type checker cannot know.
uncounted: Any = intrinsic(_uncounted)


def compiled(function: Any) -> Any:
    """Compile a function into the kernels that call it: a call with arrays costs 20 ns."""
    return numba.njit(nogil=True, forceinline=True)(function)


def routine(function: Any) -> Any:
    """Compile a function that kernels call from many places, once for all of them."""
    return numba.njit(nogil=True)(function)


def kernel(function: Any) -> Any:
    """Compile a function that Python calls, on its first call ever; then load it from the cache."""
    settings: Any = numba.config    # pyright: ignore[reportPrivateImportUsage]  # documented
    before = settings.CACHE_DIR
    settings.CACHE_DIR = _cache_folder(Path(function.__code__.co_filename))
    try:
        return numba.njit(nogil=True, cache=True)(function)
    finally:
        settings.CACHE_DIR = before
