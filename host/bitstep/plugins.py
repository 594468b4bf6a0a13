"""Entry points of installed packages: devices and subcommands."""

import importlib.metadata


def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Entry points of a group by name, in the order of the names; none is imported."""
    points = importlib.metadata.entry_points()
    chosen = points.select(group=group) if hasattr(points, "select") \
        else points.get(group, ())          # importlib_metadata before 3.6
    return {point.name: point for point in sorted(chosen, key=lambda point: point.name)}
