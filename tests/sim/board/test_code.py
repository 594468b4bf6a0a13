"""Digest of the code that generates RTL."""

import ast
import textwrap

import pytest

from bitstep_sim.board import code
from bitstep_sim.board.code import code_digest

MODULES = {
    "bitstep_hw.top": '''
        """Docstring of the top."""
        from math import pi
        from bitstep.facts import WIDTH     # a comment
        from bitstep import levels

        class Top:
            """Docstring of the class."""

            width = WIDTH

            def elaborate(self):
                """Docstring of the method."""
                return self.width * levels.COUNT
        ''',
    "bitstep.facts": "from bitstep.deeper import WIDTH\n",
    "bitstep.deeper": "WIDTH = 8\n",
    "bitstep": "",
    "bitstep.levels": "COUNT = 3\n",
    "bitstep.unused": "X = 1\n"}


@pytest.fixture
def digest(monkeypatch, tmp_path):
    """``digest(module, old, new)``: digest of MODULES after a replacement in one of them."""
    def changed(module="bitstep_hw.top", old="", new=""):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, text in MODULES.items():
            text = textwrap.dedent(text)
            assert name != module or old in text
            (folder / f"{name}.py").write_text(text.replace(old, new) if name == module else text)

        def path(name):
            found = folder / f"{name}.py"
            return found if found.exists() else None

        monkeypatch.setattr(code, "_path", path)
        return code_digest.__wrapped__()
    return changed


@pytest.mark.parametrize("module, old, new", [
    ("bitstep_hw.top", "a comment", "another"),
    ("bitstep_hw.top", "# a comment", ""),
    ("bitstep_hw.top", "Docstring of the top.", "Another."),
    ("bitstep_hw.top", '"""Docstring of the class."""', '"""Two\n\n    lines."""'),
    ("bitstep_hw.top", "Docstring of the method.", "Another."),
    ("bitstep_hw.top", "\n\n", "\n\n\n\n"),
    ("bitstep.unused", "X", "Y")])
def test_what_does_not_count(digest, module, old, new):
    assert digest(module, old, new) == digest()


@pytest.mark.parametrize("module, old, new", [
    ("bitstep_hw.top", "width *", "width +"),
    ("bitstep.deeper", "8", "9"),
    ("bitstep.levels", "3", "4")])
def test_what_counts(digest, module, old, new):
    assert digest(module, old, new) != digest()


def test_components_and_the_register_table_are_among_the_modules():
    modules = code._modules(code.ROOT)
    assert {"bitstep_hw.top", "bitstep_hw.pipeline.rows.sequencer", "bitstep_hw.packed.pipeline",
            "bitstep_hw.bit_planes.transpose", "bitstep.pipeline.registers",
            "bitstep.pipeline.config",
            "bitstep.golden.threefry"} <= set(modules)
    assert not [name for name in modules if name.startswith(("bitstep_hw.boards", "numpy"))]


def test_no_import_is_relative():
    """The digest would miss what is imported so."""
    for name, tree in code._modules(code.ROOT).items():
        levels = [node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(levels), name
