"""Sources on which compiled kernels depend."""

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
