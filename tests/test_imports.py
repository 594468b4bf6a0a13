"""Imports between packages and between rooms, as docs/architecture.md says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"bitstep": "host", "bitstep_lab": "host", "bitstep_hw": "hw", "bitstep_sim": "sim"}
MAY_IMPORT = {"bitstep": {"bitstep"}, "bitstep_lab": {"bitstep", "bitstep_lab"},
              "bitstep_hw": {"bitstep", "bitstep_hw"}, "bitstep_sim": set(FOLDERS)}


def imports(package):
    """Triples of file, package and room that the files of a package import."""
    folder = ROOT / FOLDERS[package] / package
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else \
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                first, _, rest = (name or "").partition(".")
                if first in FOLDERS:
                    yield file.relative_to(folder), first, rest.partition(".")[0]


def rooms(package):
    """Rooms of a package in the order of its table in docs/architecture.md."""
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    table = re.search(rf"^`{package}` .*:\n\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert table, package
    cells = [row.split("|")[1] for row in table[1].splitlines()[2:]]
    names = [re.split(r"[/.]", name)[0] for cell in cells for name in re.findall("`(.*?)`", cell)]
    return list(dict.fromkeys(names))


@pytest.mark.parametrize("package", FOLDERS)
def test_packages(package):
    wrong = [(str(file), other) for file, other, _ in imports(package)
             if other not in MAY_IMPORT[package]]
    assert wrong == []


@pytest.mark.parametrize("package", FOLDERS)
def test_rooms(package):
    order = rooms(package)
    folders = {file.parent.name for file in (ROOT / FOLDERS[package] / package).glob("*/*.py")}
    assert folders <= set(order)
    wrong = [(str(file), room) for file, other, room in imports(package)
             if other == package and room in order and file.parts[0].removesuffix(".py") in order
             and order.index(room) > order.index(file.parts[0].removesuffix(".py"))]
    assert wrong == []
