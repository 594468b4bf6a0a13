"""Sources on which compiled kernels depend."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")
from bitstep import compiling, devices

CPU = Path(devices.__file__).parent / "cpu"


def names(kernel):
    root = Path(compiling.__file__).parent
    return {str(file.relative_to(root)) for file in compiling.sources(CPU / kernel)}


def test_constants_of_other_folders_count():
    found = names("integer.py")
    assert {"devices/cpu/integer.py", "devices/cpu/words.py", "devices/cpu/arithmetic.py",
            "compiling.py", "pipeline/config.py"} <= found


def test_callers_do_not_count():
    assert not {"devices/cpu/device.py", "devices/cpu/joint.py", "cli/train.py"} \
        & names("integer.py")


def test_modules_that_are_imported_by_name(tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text("from bitstep.devices.cpu import (  # both\n    words,\n    arithmetic)\n")
    found = compiling.sources(kernel)
    assert {kernel, CPU / "words.py", CPU / "arithmetic.py"} <= found
    assert CPU / "device.py" not in found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for compiled functions."""
    monkeypatch.setattr(compiling, "_cache_folder", lambda _: str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_full_disk_costs_time_alone(folder, monkeypatch):
    from numba.core import caching

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as change:
        change.setattr(caching.IndexDataCacheFile, "_save_data", full)
        with pytest.warns(UserWarning, match=r"cannot be kept in .*cache.* \(No space left on "
                                             r"device\), so every process .*XDG_CACHE_HOME"):
            assert compiling.kernel(add_one)(1) == 2
    assert compiling.kernel(add_one)(1) == 2
    assert list(folder.rglob("*.nbc"))


def test_processes_that_compile_at_once_do_not_mix_up_types(folder):
    """Each begins with an empty cache. All functions stay, but of numba's indices the first alone:
    with them both functions have one number.
    """
    first, second = folder.with_name("first"), folder.with_name("second")
    for number, kept in ((1, first), (1.5, second)):
        compiling.kernel(add_one)(number)
        folder.rename(kept)
    shutil.copytree(second, first, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.nbi"))
    first.rename(folder)
    for number in (1, 1.5):
        again = compiling.kernel(add_one)
        assert repr(again(number)) == repr(number + 1)
        assert sum(again.stats.cache_hits.values()) == 1


def test_another_process_finds_what_was_compiled(folder):
    """Names of files hold no places in memory."""
    program = ("import sys\n"
               "from bitstep import compiling\n"
               "compiling._cache_folder = lambda _: sys.argv[1]\n"
               f"from {__name__} import add_one\n"
               "print(compiling.kernel(add_one)(1))\n")
    run = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True,
                         text=True, timeout=120, check=True, cwd=Path(__file__).parents[2])
    assert run.stdout == "2\n"
    found = compiling.kernel(add_one)
    assert found(1) == 2
    assert sum(found.stats.cache_hits.values()) == 1


def test_a_damaged_file_is_compiled_again(folder):
    compiling.kernel(add_one)(1)
    file, = folder.rglob("*.nbc")
    whole = file.read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], b"none"):
        file.write_bytes(damaged)
        assert compiling.kernel(add_one)(1) == 2
        again = compiling.kernel(add_one)       # the file is whole, but not always the same
        assert again(1) == 2
        assert sum(again.stats.cache_hits.values()) == 1


def test_no_folder_to_write(folder, monkeypatch):
    from numba.core import caching

    def none(*_):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(caching.FunctionCache, "__init__", none)
    with pytest.warns(UserWarning, match=r"cannot be kept in .* \(it cannot be written\)"):
        assert compiling.kernel(add_one)(1) == 2


def test_never_beside_the_source(folder, monkeypatch):
    """There a function would be found again whose imports have changed."""
    from numba.core import caching
    name = "UserProvidedCacheLocator"
    locator = getattr(caching, name, None) or getattr(caching, f"_{name}")      # before numba 0.61
    monkeypatch.setattr(locator, "from_function", lambda *_: None)
    with pytest.warns(UserWarning, match=r"cannot be kept in .* \(it cannot be written\)"):
        assert compiling.kernel(add_one)(1) == 2
    assert not list(Path(__file__).parent.rglob("test_compiling.add_one*.nb[ic]"))


def add_one(number):
    return number + 1
