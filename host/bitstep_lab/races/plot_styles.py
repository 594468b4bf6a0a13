"""Looks of contestants and numbers: colours of Okabe and Ito, markers and dashes besides colour."""

import math
from typing import Any

FLOAT_COLOUR = "#000000"
PIPELINE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
CPU_COLOURS = ("#555555", "#888888", "#aaaaaa")
MARKERS = "osD^vP*X<>"


def style_of(result: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return colour, marker and dash of a contestant, the same in every drawing of a race.

    Parameters
    ----------
    result : dict
    results : list of dict
        All results of the race, ``result`` among them.
    """
    if result["kind"] != "pipeline":
        others = [other for other in results if other["kind"] != "pipeline"]
        at = others.index(result)
        return {"color": CPU_COLOURS[at % 3], "marker": MARKERS[at % len(MARKERS)], "markersize": 4,
                "linestyle": ":", "linewidth": 1.2}
    pipelines = [other for other in results if other["kind"] == "pipeline"
                 and other["encoding"] != "float"]
    if result["encoding"] == "float":
        floats = [other for other in results if other.get("encoding") == "float"]
        # Low precision often follows float exactly: a hollow ring stays visible around it.
        return {"color": FLOAT_COLOUR, "marker": "o" if result is floats[0] else "s",
                "markersize": 9, "markerfacecolor": "none", "linewidth": 1.0,
                "linestyle": "-" if result is floats[0] else "--"}
    at = pipelines.index(result)
    return {"color": PIPELINE_COLOURS[at % len(PIPELINE_COLOURS)],
            "marker": MARKERS[at % len(MARKERS)], "markersize": 5, "linewidth": 1.4,
            "linestyle": ("-", "--", "-.")[at // len(PIPELINE_COLOURS) % 3]}


def log_scale(axis: Any, set_scale: Any) -> None:
    """Give an axis a logarithmic scale with numbers as people write them."""
    from matplotlib.ticker import LogFormatter
    set_scale("log")
    axis.set_major_formatter(lambda value, _: f"{value:,.7g}")
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))


def line_text(race: dict[str, Any]) -> str:
    """Return the name of the finishing line."""
    return "1.01 x the optimum" if race["line"] == "optimum" else "1.01 x float's last loss"


def digits(value: float | None) -> str:
    """Return a number with at least three digits, and no more after the point; None as "-"."""
    if value is None:
        return "-"
    after = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(after, 0)}f}"
