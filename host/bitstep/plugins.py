"""Entry points of installed packages: devices and subcommands."""

import functools
import importlib.metadata
import sys


def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of a group by name, in the order of the names; none is imported.

    What is installed later in a process is not seen, unless ``sys.path`` has changed.
    """
    return {point.name: point for point in _points(group, tuple(sys.path))}


@functools.cache        # metadata of all packages are read for it, which takes 10 ms and more
def _points(group: str, _path: tuple[str, ...]) -> list[importlib.metadata.EntryPoint]:
    points = importlib.metadata.entry_points()
    chosen = points.select(group=group) if hasattr(points, "select") \
        else points.get(group, ())          # importlib_metadata before 3.6
    return sorted(chosen, key=lambda point: point.name)
