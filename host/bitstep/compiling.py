"""Compilation of kernels by numba, kept in the user's cache folder; importing this needs numba.

numba's own cache looks at the file of a function alone, so it would miss a change of a function or
constant that comes from another file. Here the folder of the cache has a digest in its name, of the
kernel's file and of all that it imports from the library, so a stale function is never loaded, and
the kernels are those of every environment with the same sources.
"""

import functools
import hashlib
import pickle
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core import caching
from numba.extending import intrinsic

_PACKAGES = Path(__file__).parents[1]       # the folder in which the packages are
# A division by zero is infinity, as NumPy's: to raise an error costs a loop its vectors.
_SETTINGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Wrappers for calls from Python take half as long to compile as a function itself.
_INNER: dict[str, Any] = _SETTINGS | {"no_cpython_wrapper": True}
_IMPORT = re.compile(r"^\s*from (bitstep[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


def sources(file: Path) -> set[Path]:
    """A file, and those of the library that it imports, directly or not."""
    found: set[Path] = set()
    waiting = {file}
    while waiting:
        found.add(one := waiting.pop())
        waiting |= _imported(one) - found
    return found


@functools.cache
def _imported(file: Path) -> set[Path]:
    paths = set()
    for package, names in _IMPORT.findall(file.read_text("utf-8")):
        # A name may be that of a module.
        for name in (package, *(f"{package}.{one}" for one in re.findall(r"\w+", names))):
            place = _PACKAGES.joinpath(*name.split("."))
            paths |= {place.with_suffix(".py"), place / "__init__.py"}
    return {path for path in paths if path.is_file()}


@functools.cache
def _cache_folder(kernel: Path) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted({Path(__file__)} | sources(kernel)):
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
    """Compile a function into the kernels that call it: a call with arrays costs 20 ns.

    Python cannot call it: that would end the process.
    """
    return numba.njit(**_INNER, forceinline=True)(function)


def routine(function: Any) -> Any:
    """Compile a function that kernels call from many places, once for all of them, and Python
    not at all, as :func:`compiled`.
    """
    return numba.njit(**_INNER)(function)


@compiled
def assign(target, values):
    """Write values to an array of the same length.

    ``target[:] = values`` would compile the text of an error about shapes, which takes seconds.
    """
    for place in range(target.size):
        target[place] = values[place]


def kernel(function: Any) -> Any:
    """Compile a function that Python calls, on its first call ever; then load it from the cache.

    Without a folder that can be written, each process compiles it, with a warning.
    """
    settings: Any = numba.config    # pyright: ignore[reportPrivateImportUsage]  # documented
    before = settings.CACHE_DIR
    settings.CACHE_DIR = folder = _cache_folder(Path(function.__code__.co_filename))
    made: Any = numba.njit(**_SETTINGS)(function)
    try:
        made.enable_caching()
    except RuntimeError:                # no folder at all can be written
        _warn(folder)
        return made
    finally:
        settings.CACHE_DIR = before
    if not Path(made._cache.cache_path).is_relative_to(folder):     # beside the source, undigested
        made._cache.disable()
        _warn(folder)
    else:
        _share(made._cache, Path(folder) / function.__module__)
    _survive_errors(made._cache)
    return made


class _Functions(caching.IndexDataCacheFile):
    """Compiled functions of a kernel, each in a file whose name follows from its types.

    numba numbers the files, and keeps an index of the numbers. Two processes that extend the index
    at once give one number to functions for different types, and a later process loads the wrong
    one of the two.
    """

    def save(self, key, data):
        """Keep a function; ``key``: all that it was compiled for."""
        self._save_data(self._name(key), (key, data))

    def load(self, key):
        """The function of a key; None if there is none, or its file is damaged."""
        try:
            found, data = self._load_data(self._name(key))
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return None
        return data if found == key else None

    def _name(self, key):
        return self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:16], 16))


def _share(cache: Any, place: Path) -> None:
    """Let a cache be in a folder of our digest alone; numba's would have the source's path, too.

    Where another version of numba has no such parts, the cache is as numba makes it.
    """
    with suppress(AttributeError, TypeError):
        shared = _Functions(
            cache_path=str(place), filename_base=cache._impl.filename_base,
            source_stamp=place.parent.name)
        cache._impl._locator._cache_path = cache._cache_path = str(place)
        cache._cache_file = shared


def _survive_errors(cache: Any) -> None:
    """Let a cache that cannot be read or written, as on a full disk, cost time alone."""
    load, save = cache.load_overload, cache.save_overload

    def tried(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return work(*arguments)
            except OSError as error:
                cache.disable()
                _warn(cache.cache_path, error)
        return call
    cache.load_overload, cache.save_overload = tried(load), tried(save)


def _warn(folder: str, error: OSError | None = None) -> None:
    kernels = Path(platformdirs.user_cache_dir("bitstep")) / "kernels"
    place = kernels if Path(folder).is_relative_to(kernels) else folder
    reason = "it cannot be written" if error is None else error.strerror
    warnings.warn(
        f"the compiled loops of device cpu cannot be kept in {place} ({reason}), so every process "
        "compiles them again; let it be written, or name another folder (the environment variable "
        "XDG_CACHE_HOME)", stacklevel=2)
