"""Definitions of the host library that a pipeline is made from: constants, formulas, the register
table.
"""

import ast
import functools
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

LIBRARY = "bitstep"
_WITH_DOCSTRING = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def definitions(files: Iterable[Path]) -> dict[str, str]:
    """Return what files import from the library, and all that this is made from there.

    Parameters
    ----------
    files : iterable of Path
        Python sources.

    Returns
    -------
    dict from str to str
        Code by full name, in order, without docstrings, which change no pipeline.

    Raises
    ------
    LookupError
        If a name is imported that its module does not define by itself.
    """
    found: dict[str, str] = {}
    waiting = sorted({one for file in files for one in _imported(file).values()})
    while waiting:
        module, name = waiting.pop()
        if f"{module}.{name}" in found:
            continue
        path = _path(module)
        imported, statements = _imported(path), _statements(path).get(name, [])
        if name in imported:
            waiting.append(imported[name])
            continue
        if not statements:
            raise LookupError(f"{path} must define {name} at its top level, where the identity of "
                              "a pipeline looks for it")
        lines = path.read_text("utf-8").splitlines()
        found[f"{module}.{name}"] = "\n".join(_code(one, lines) for one in statements)
        used = {node.id for one in statements for node in ast.walk(one)
                if isinstance(node, ast.Name)}
        waiting += [(module, one) for one in sorted(used & _statements(path).keys())]
        waiting += [imported[one] for one in sorted(used & imported.keys())]
    return dict(sorted(found.items()))


def _path(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise LookupError(f"{module} must be a module with a source file")
    return Path(spec.origin)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def _imported(path: Path) -> dict[str, tuple[str, str]]:
    """Module and name in it of each name that a file imports from the library."""
    return {alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(_tree(path))
            if isinstance(node, ast.ImportFrom) and node.module
            and node.module.split(".")[0] == LIBRARY for alias in node.names}


@functools.cache
def _statements(path: Path) -> dict[str, list[ast.stmt]]:
    """Statements at the top level of a file that define each name."""
    found: dict[str, list[ast.stmt]] = {}
    for one in _tree(path).body:
        if isinstance(one, _WITH_DOCSTRING):
            found.setdefault(one.name, []).append(one)
        elif isinstance(one, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                for node in ast.walk(target):
                    if isinstance(node, ast.Name):
                        found.setdefault(node.id, []).append(one)
    return found


def _code(statement: ast.stmt, lines: list[str]) -> str:
    """Lines of a statement without those of docstrings; the same in every version of Python."""
    decorators = getattr(statement, "decorator_list", [])
    first = min(one.lineno for one in (statement, *decorators))
    kept = dict(enumerate(lines[first - 1:statement.end_lineno], first))
    for node in ast.walk(statement):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            for number in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1):
                kept.pop(number, None)
    return "\n".join(kept.values())
