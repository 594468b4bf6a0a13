"""Figures that matplotlib draws without a display, and their files."""

from pathlib import Path
from typing import Any


def new_figure(width: float, height: float) -> Any:
    """An empty figure of some inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, stem: Path) -> None:
    """Write a figure to ``stem.png`` and ``stem.svg``."""
    import matplotlib
    figure.savefig(f"{stem}.png", dpi=150)
    # A fixed salt and no date: the same race gives the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "bitstep", "svg.fonttype": "path"}):
        figure.savefig(f"{stem}.svg", metadata={"Date": None})
