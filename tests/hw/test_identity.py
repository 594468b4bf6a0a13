import shutil
from pathlib import Path

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.identity import IDENTITY_BITS, NO_PART, PACKAGE, identity, sources

CONFIG = PipelineConfig(bits=8, max_features=40, lookahead=2)


@pytest.fixture
def copy(tmp_path):
    """``copy()`` copies the package's sources, ``copy(path)`` changes one of them."""
    def make(changed=None):
        name = "unchanged" if changed is None else changed.replace("/", "-")
        package = tmp_path / name
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        if changed is not None:
            with (package / changed).open("a", encoding="utf-8") as file:
                file.write("# changed\n")
        return package

    return make


def test_a_copy_has_the_same_identity(copy):
    assert identity(CONFIG, copy()) == identity(CONFIG)
    assert 0 <= identity(CONFIG) < 1 << IDENTITY_BITS


@pytest.mark.parametrize("path", [
    "top.py", "pipeline/pipeline.py", "pipeline/rows/sequencer.py", "axi/__init__.py",
    "shell/register_bank.py", "parts/arithmetic.py"])
def test_a_changed_source_has_another_identity(copy, path):
    assert identity(CONFIG, copy(path)) != identity(CONFIG)


@pytest.mark.parametrize("path", [
    "boards/pynq.py", "boards/serial/uart.py", "boards/vivado/flow.py", "command.py"])
def test_boards_and_commands_are_no_part_of_it(copy, path):
    assert identity(CONFIG, copy(path)) == identity(CONFIG)


def test_a_file_that_comes_goes_or_moves_counts(copy):
    found = {identity(CONFIG)}
    for number, change in enumerate((
            lambda package: (package / "pipeline" / "more.py").write_text(""),
            lambda package: (package / "parts" / "fsm.py").unlink(),
            lambda package: (package / "parts" / "fsm.py").rename(package / "axi" / "fsm.py"))):
        package = copy()
        change(package)
        moved = package.rename(package.with_name(f"changed-{number}"))
        found.add(identity(CONFIG, moved))
    assert len(found) == 4


def test_configurations_have_identities_of_their_own():
    assert identity(CONFIG) != identity(PipelineConfig(bits=8, max_features=40, lookahead=3))


def test_every_other_file_is_listed():
    files = {str(path.relative_to(PACKAGE).as_posix()) for path in Path(PACKAGE).rglob("*.py")}
    left_out = {path for path in files if path.split("/")[0] in {"boards", "command.py"}}
    assert NO_PART == ("boards/", "command.py")
    assert left_out
    assert sources() == sorted(files - left_out)


def test_another_version_of_the_register_map_has_another_identity(monkeypatch):
    before = identity(CONFIG)
    monkeypatch.setattr("bitstep_hw.identity.MAP_VERSION", 0)
    assert identity(CONFIG) != before
