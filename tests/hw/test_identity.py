import shutil
import textwrap
from pathlib import Path

import pytest

import bitstep_hw.definitions
from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.definitions import definitions
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


LIBRARY = {
    "numbers": """
        from bitstep.others import SCALE, unused
        NAMES = {"a": 1}            # in NAMES
        NAMES["b"] = 2              # after NAMES
        LOW, HIGH = 1, 2            # LOW and HIGH
        OTHER = 3                   # OTHER
        class Shape:
            \"\"\"Docstring of Shape.\"\"\"
            width: int = HIGH       # in Shape
            @property
            def area(self):
                \"\"\"Docstring

                of area.\"\"\"
                return _square(self.width) * SCALE
        def _square(x): return x * x    # in _square
        def unused(): return OTHER      # in unused
        """,
    "others": """
        from math import pi
        SCALE: float = pi           # SCALE
        unused = 5                  # others.unused
        """}


@pytest.mark.parametrize("text, counts", [
    ("in NAMES", True), ("LOW and HIGH", True), ("in Shape", True), ("in _square", True),
    ("# SCALE", True), ("# OTHER", False), ("in unused", False), ("others.unused", False),
    ("Docstring of Shape", False), ("of area", False)])
def test_code_of_the_library_that_a_pipeline_is_made_from(tmp_path, monkeypatch, text, counts):
    """What is imported counts, and what this uses, in other modules too; docstrings do not."""
    def found(name, old="", new=""):
        folder = tmp_path / name
        folder.mkdir()
        for module, code in LIBRARY.items():
            assert not (old and LIBRARY["numbers"] + LIBRARY["others"]).count(old) > 1
            (folder / f"{module}.py").write_text(textwrap.dedent(code).replace(old, new))
        (folder / "pipeline.py").write_text("from bitstep.numbers import NAMES, Shape\n")
        monkeypatch.setattr(bitstep_hw.definitions, "_path",
                            lambda module: folder / f"{module.split('.')[1]}.py")
        return definitions([folder / "pipeline.py"])

    assert (found("one") == found("two", text, text + "!")) != counts
    assert list(found("three")) == [
        "bitstep.numbers.HIGH", "bitstep.numbers.LOW", "bitstep.numbers.NAMES",
        "bitstep.numbers.Shape", "bitstep.numbers._square", "bitstep.others.SCALE"]


def test_a_name_that_cannot_be_found(tmp_path):
    source = tmp_path / "pipeline.py"
    source.write_text("from bitstep.pipeline.config import no_such_name\n")
    with pytest.raises(LookupError, match="must define no_such_name at its top level"):
        definitions([source])


def test_registers_and_formulas_are_part_of_it():
    names = definitions(PACKAGE / path for path in sources())
    assert {"bitstep.pipeline.registers.REGISTERS", "bitstep.pipeline.registers.MAP_VERSION",
            "bitstep.pipeline.config.PipelineConfig", "bitstep.pipeline.config.solver_stages",
            "bitstep.golden.threefry.ROTATIONS"} <= set(names)


def test_every_other_file_is_listed():
    files = {str(path.relative_to(PACKAGE).as_posix()) for path in Path(PACKAGE).rglob("*.py")}
    left_out = {path for path in files if path.split("/")[0] in {"boards", "command.py"}}
    assert NO_PART == ("boards/", "command.py")
    assert left_out
    assert sources() == sorted(files - left_out)
