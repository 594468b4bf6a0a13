"""Digest of the code that generates RTL: the key under which identities of pipelines are kept."""

import ast
import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path

ROOT = "bitstep_hw.top"
PACKAGES = ("bitstep", "bitstep_hw")


@functools.cache
def code_digest(root: str = ROOT) -> str:
    """Return a digest of a module and all that it imports from ``PACKAGES``, directly or not.

    Comments, docstrings and the layout of lines do not count.

    Parameters
    ----------
    root : str
        Name of a module.
    """
    digest = hashlib.sha256()
    for name, tree in sorted(_modules(root).items()):
        digest.update(f"{name}\n{_code(tree)}\n".encode())
    return digest.hexdigest()[:32]


def _modules(root: str) -> dict[str, ast.Module]:
    """Modules by name; a package only where something is imported from it."""
    found: dict[str, ast.Module] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        path = None if name in found else _path(name)
        if path is None:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        found[name] = tree
        for node in ast.walk(tree):
            # A relative import would be missed: test_code.py allows none.
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                # What is imported from a package may be a module of it.
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


@functools.cache
def _path(name: str) -> Path | None:
    """Source of a module of ``PACKAGES``; None for others and for names that are no modules."""
    package, *inner = name.split(".")
    if package not in PACKAGES:
        return None
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise LookupError(f"{package} must be a package with source files")
    path = Path(spec.origin).parent.joinpath(*inner)
    for candidate in (path / "__init__.py", path.with_suffix(".py")):
        if candidate.exists():
            return candidate
    return None


def _code(tree: ast.Module) -> str:
    """Code of a module without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) \
                and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)
