"""Structure of the sources: directions of imports, floors and circles.

A room is a file or a folder beside others. It stands one floor above the highest room that it
imports. Every import counts: in functions and for type checkers too.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("host", "hw", "sim")
# A folder of a package that may import more than the rest of it is a package of its own here.
MAY_IMPORT = {
    "bitstep": set(),
    "bitstep_gradients": {"bitstep"},
    "bitstep_gradients.torch": {"bitstep", "bitstep_gradients"},
    "bitstep_gradients.lab": {"bitstep", "bitstep_gradients", "bitstep_gradients.torch",
                              "bitstep_lab"},
    "bitstep_lab": {"bitstep"},
    "bitstep_hw": {"bitstep"},
    "bitstep_sim": {"bitstep", "bitstep_lab", "bitstep_hw"}}
MAX_FLOORS = 7
FLOORS = {
    "bitstep": ["checks compiling", "pipeline data plugins machine writing levels progress",
                "golden quantization cycles options",
                "training devices", "estimators search cli", "doctor dask __init__ __main__"],
    "bitstep_gradients": ["errors kernels vectors", "keys wire", "codecs", "control registry",
                          "exchange __init__", "torch", "lab"],
    "bitstep_hw": ["parts axi", "pipeline bit_planes", "shell packed", "top",
                   "boards command __init__"]}
OUTSIDERS = {
    "dask": ("host/bitstep/dask/", "host/bitstep_lab/many_machines/"),
    "distributed": ("host/bitstep/dask/", "host/bitstep_lab/many_machines/"),
    "pynq": ("host/bitstep/devices/pynq", "sim/bitstep_sim/pynq_board/"),
    "torch": ("host/bitstep_gradients/torch/", "host/bitstep_gradients/lab/",
              "host/bitstep_lab/quantized_networks/"),
    "amaranth": ("hw/bitstep_hw/", "sim/bitstep_sim/")}


@dataclass(frozen=True)
class Import:
    """An import statement, or one name of it."""

    file: str
    line: int
    module: str
    is_late: bool

    def __str__(self):
        return f"{self.file}:{self.line} imports {self.module.removesuffix('.__init__')}"


class Tree:
    """Modules below some folders, by name (a folder's is ``name.__init__``), and their imports."""

    def __init__(self, root, sources=("",)):
        self.root = root
        self.paths = {".".join(path.relative_to(root / source).with_suffix("").parts): path
                      for source in sources for path in sorted((root / source).rglob("*.py"))}

    @cached_property
    def imports(self) -> dict[str, list[Import]]:
        """Imports of every module, which takes seconds to read."""
        return {name: list(self._imports(path)) for name, path in self.paths.items()}

    def folders(self, package) -> list[str]:
        """The package and every folder in it that has an ``__init__``."""
        return [name.removesuffix(".__init__") for name in self.paths
                if f"{name}.".startswith(f"{package}.") and name.endswith(".__init__")]

    def arrows(self, folder) -> dict[tuple[str, str], Import]:
        """Imports between the rooms of a folder, one for each pair; none of its own __init__."""
        arrows = {}
        for name, imports in self.imports.items():
            for one in imports:
                source, target = _room(name, folder), _room(one.module, folder)
                if source and target and target not in (source, "__init__"):
                    arrows.setdefault((source, target), one)
        return arrows

    def rooms(self, folder) -> set[str]:
        """Names of the files and folders in a folder."""
        return {room for name in self.paths if (room := _room(name, folder))}

    def _imports(self, path) -> Iterator[Import]:
        for node, is_late in _statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}:{node.lineno}: a relative import"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in dict.fromkeys(map(self._module, names)):
                yield Import(path.relative_to(self.root).as_posix(), node.lineno, name, is_late)

    def _module(self, name) -> str:
        """The module that holds what is imported; a name from outside stays as it is."""
        parts = name.split(".")
        for end in (len(parts), len(parts) - 1):
            for module in (".".join(parts[:end]), ".".join((*parts[:end], "__init__"))):
                if module in self.paths:
                    return module
        return name


def _statements(block, is_late=False) -> Iterator[tuple[ast.stmt, bool]]:
    """Statements of a block and of those in it, and whether each is inside a function."""
    is_late |= isinstance(block, (ast.FunctionDef, ast.AsyncFunctionDef))
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(block, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner, is_late
            yield from _statements(inner, is_late)


def _room(module, folder):
    """The room of a folder that a module is in, or None."""
    return module[len(folder) + 1:].split(".")[0] if module.startswith(f"{folder}.") else None


def find_circle(arrows) -> list[Import]:
    """Imports that lead from a room back to it; none if there are none."""
    def search(path):
        for source, target in arrows:
            if source == path[-1]:
                if target in path:
                    return [*path[path.index(target):], target]
                if target not in done and (circle := search([*path, target])):
                    return circle
        done.add(path[-1])
        return []

    done = set()
    for room in dict.fromkeys(source for source, _ in arrows):
        if circle := search([room]):
            return [arrows[pair] for pair in pairwise(circle)]
    return []


def count_floors(arrows) -> int:
    """Floors of a folder without circles."""
    @cache
    def floor(room):
        return 1 + max((floor(target) for source, target in arrows if source == room), default=0)
    return max((floor(source) for source, _ in arrows), default=1)


def climbing(tree, folder, floors) -> list[str]:
    """Imports that do not run down, and rooms that have no floor."""
    height = {room: number for number, names in enumerate(floors) for room in names.split()}
    lost = [f"{folder} has a room {room} without a floor"
            for room in sorted(tree.rooms(folder) - set(height))]
    return lost + [str(one) for (source, target), one in tree.arrows(folder).items()
                   if source in height and target in height and height[source] <= height[target]]


TREE = Tree(ROOT, SOURCES)
FOLDERS = list(dict.fromkeys(folder for package in MAY_IMPORT for folder in TREE.folders(package)))


def package_of(module) -> "str | None":
    """The package of :data:`MAY_IMPORT` that a module is in; None for one from outside."""
    return max((one for one in MAY_IMPORT if f"{module}.".startswith(f"{one}.")), key=len,
               default=None)


def all_imports(*packages) -> Iterator[Import]:
    """Imports of all modules of the packages; of all packages if none is named."""
    for name, imports in TREE.imports.items():
        if package_of(name) in (packages or MAY_IMPORT):
            yield from imports


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_in_one_direction(package):
    allowed = {None, package, *MAY_IMPORT[package]}
    assert not [str(one) for one in all_imports(package) if package_of(one.module) not in allowed]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_circle_and_few_floors(folder):
    arrows = TREE.arrows(folder)
    assert not [str(one) for one in find_circle(arrows)]
    assert count_floors({(source, target): one for (source, target), one in arrows.items()
                         if f"{folder}.{source}" not in MAY_IMPORT}) <= MAX_FLOORS


@pytest.mark.parametrize("package", FLOORS)
def test_imports_run_down(package):
    assert not climbing(TREE, package, FLOORS[package])


@pytest.mark.parametrize("outsider", OUTSIDERS)
def test_who_imports_a_package_from_outside(outsider):
    assert not [str(one) for one in all_imports() if one.module.split(".")[0] == outsider
                and not one.file.startswith(OUTSIDERS[outsider])]


def test_tests_with_torch_are_where_they_run():
    """Elsewhere they would be skipped in both environments."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ntest-torch:")[2]
    folders = tuple(re.findall(r"\btests/\S+", recipe.partition("\n\n")[0]))
    assert len(folders) == 2
    needs = re.compile(r"^\s*(?:import|from) torch\b|importorskip\(.torch", re.MULTILINE)
    found = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")
             if needs.search(path.read_text(encoding="utf-8"))]
    assert len(found) > 5
    assert [name for name in found if not name.startswith(folders)] == []


def test_plots_and_scikit_learn_are_imported_when_they_are_used():
    library = ("bitstep", "bitstep_gradients", "bitstep_gradients.torch")
    assert not [str(one) for one in all_imports(*library)
                if one.module.split(".")[0] in ("matplotlib", "sklearn") and not one.is_late
                and not one.file.startswith((
                    "host/bitstep/estimators/", "host/bitstep/search.py", "host/bitstep/dask/"))]


# The test's own means

def house(root, **files):
    """A tree of a package ``house``; double underscores in a name stand for a folder."""
    for name, text in {"init": "", **files}.items():
        path = root / "house" / name.replace("__", "/").replace("init", "__init__")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return Tree(root)


def test_circle_is_named_by_file_and_line(tmp_path):
    tree = house(tmp_path, a="import os\nfrom house import b\n",
                 b="def f():\n    from house.c.d import g\n", c__init="",
                 c__d="if TYPE_CHECKING:\n    import house.a\n")
    assert [str(one) for one in find_circle(tree.arrows("house"))] == [
        "house/a.py:2 imports house.b", "house/b.py:2 imports house.c.d",
        "house/c/d.py:2 imports house.a"]
    assert tree.folders("house") == ["house", "house.c"]
    assert find_circle(tree.arrows("house.c")) == []


def test_imports_up_and_sideways(tmp_path):
    tree = house(tmp_path, a="import house.b\nfrom house.d import x, y\n",
                 b="from house import c\n", c="import house\n", d="",
                 init="from house.a import b\n")
    floors = ["d", "c", "a b", "__init__"]
    assert climbing(tree, "house", floors) == ["house/a.py:1 imports house.b"]
    assert climbing(tree, "house", ["d", "a", "b c"]) == [
        "house has a room __init__ without a floor", "house/a.py:1 imports house.b",
        "house/b.py:1 imports house.c"]
    arrows = tree.arrows("house")
    assert find_circle(arrows) == []        # the import of the folder itself in c is no arrow
    assert count_floors(arrows) == 4
    assert [one.is_late for one in tree.imports["house.b"]] == [False]
