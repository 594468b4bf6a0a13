"""Drawings of races: PNG and SVG, colours of Okabe and Ito, markers and dashes besides colour."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bitstep_lab.races.figures import new_figure, save_figure

FLOAT_COLOUR = "#000000"
PIPELINE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
CPU_COLOURS = ("#555555", "#888888", "#aaaaaa")
MARKERS = "osD^vP*X<>"
MAX_CURVES = 8              # pipelines in a drawing of curves; more would hide each other
LABELS = {
    "squared_error": "mean squared error / 2", "squared_hinge": "mean squared hinge / 2",
    "hinge": "mean hinge loss", "log_loss": "mean logistic loss"}


def draw(kind: str, race: dict[str, Any], stem: Path) -> bool:
    """Draw one kind of figure to ``stem.png`` and ``stem.svg``.

    Parameters
    ----------
    kind : str
        A key of :data:`KINDS`.
    race : dict
        What :func:`bitstep_lab.races.race.run_race` returns.

    Returns
    -------
    bool
        False if there is nothing to draw, because no run finished.
    """
    results = [result for result in race["results"] if result["status"] == "ok"]
    figure = new_figure(8.4, 4.2)
    if not results or not KINDS[kind](figure, race, results):
        return False
    save_figure(figure, stem)
    return True


def _epochs(figure, race, results):
    """Loss against epochs: pipelines."""
    axes = figure.add_subplot()
    chosen = _curves(results, cpu=False)
    for result in chosen:
        axes.plot(range(1, race["epochs"] + 1), _heights(race, result["losses"]),
                  label=result["name"], **_style(result, results))
    _finish_line(axes, race, chosen)
    axes.set_xlabel("epoch")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return _dress(figure, axes, race)


def _time(figure, race, results):
    """Loss against seconds: pipelines, and the fastest CPU runs."""
    axes = figure.add_subplot()
    chosen = _curves(results, cpu=True)
    for result in chosen:
        axes.plot(result["seconds"], _heights(race, result["losses"]),
                  label=result["name"], **_style(result, results))
    axes.set_xscale("log")
    _finish_line(axes, race, chosen)
    axes.set_xlabel(f"seconds (log scale): device time, profile {race['profile']['name']}"
                    + ("; CPU time of this machine" if any(
                        result["kind"] != "pipeline" for result in chosen) else ""))
    return _dress(figure, axes, race)


def _speedup(figure, race, results):
    """Time to the finishing line, as a speedup over the float pipeline."""
    bars = [result for result in results if result["speedup"]["float"]]
    if len(bars) < 2:
        return False
    figure.set_size_inches(8.4, 1.3 + 0.3 * len(bars))
    axes = figure.add_subplot()
    values = [result["speedup"]["float"] for result in bars]
    axes.barh(range(len(bars)), values, height=0.7,
              color=[_style(result, results)["color"] for result in bars])
    axes.axvline(1, color="black", linewidth=0.8, zorder=0)
    text = {"va": "center", "fontsize": 8, "xytext": (4, 0), "textcoords": "offset points",
            "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.8}}
    for at, (value, result) in enumerate(zip(values, bars, strict=True)):
        epochs = result["finish"][race["line"]]["epochs"]
        shown = f"{value:.3g}" if value < 100 else f"{value:.0f}"
        axes.annotate(f"{shown}x, {epochs} epoch{'s' * (epochs > 1)}", (value, at), **text)
    axes.set_yticks(range(len(bars)), [result["name"] for result in bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, max(values) * 1.22)
    axes.set_xlabel(f"speedup over the float pipeline, in time to {_line_text(race)}")
    return _titled(axes, race, grid="x")


def _widths(figure, race, results):
    """Loss at equal epochs against bits, one line for each encoding."""
    pipelines = [result for result in results if result["kind"] == "pipeline"
                 and result["lookahead"] == "auto"]
    quantized = [result for result in pipelines if result["bits"] <= 8]
    if len({result["bits"] for result in quantized}) < 2:
        return False
    axes = figure.add_subplot()
    # Losses span decades: so what is drawn is how far they are above the optimum.
    for at, encoding in enumerate(dict.fromkeys(result["encoding"] for result in quantized)):
        line = sorted((result for result in quantized if result["encoding"] == encoding),
                      key=lambda result: result["bits"])
        axes.plot([result["bits"] for result in line], _excess(race, line), color=PIPELINE_COLOURS[
            at % len(PIPELINE_COLOURS)], marker=MARKERS[at], label=encoding)
    floats = [result for result in pipelines if result["bits"] > 8]
    for value in _excess(race, floats):
        axes.axhline(value, color=FLOAT_COLOUR, linestyle="--", linewidth=1, label="float")
    axes.axhline(1, color="#888888", linestyle=":", label="1.01 x optimum")
    _log_scale(axes.yaxis, axes.set_yscale)
    axes.set_xticks(range(1, 9))
    axes.set_xlabel("stored bits per value")
    axes.set_ylabel(f"loss after {race['epochs']} epochs above\nthe optimum, in % of it (log "
                    "scale)")
    axes.legend(fontsize=8, frameon=False)
    return _titled(axes, race)


def _excess(race, results):
    return [_heights(race, result["losses"])[-1] if race["optimum"] > 0 else math.nan
            for result in results]


def _heights(race, losses):
    """Losses as they are drawn: their distance to the optimum, in % of it.

    Differences between contestants are small beside the loss itself. With an optimum of 0 losses
    stay as they are.
    """
    if race["optimum"] <= 0:
        return losses
    return [math.nan if loss is None else max(100 * (loss / race["optimum"] - 1), 1e-3)
            for loss in losses]


def _cycles(figure, race, results):
    """Cycles of an epoch against bits, with 32 / b of the float pipeline's beside them."""
    found = {result["bits"]: result["cycles"][-1] / race["epochs"] / race["outputs"]
             for result in results if result["kind"] == "pipeline"
             and result["lookahead"] == "auto" and not result["refetch"]
             and result["encoding"] in ("float", "compensated", "nearest")}
    if 32 not in found or len(found) < 2:
        return False
    axes = figure.add_subplot()
    widths = sorted(found)
    at = np.arange(len(widths))
    axes.bar(at, [found[bits] / 1e3 for bits in widths], color=PIPELINE_COLOURS[0], width=0.6,
             label="counted")
    axes.plot(at, [found[32] * bits / 32e3 for bits in widths], color=PIPELINE_COLOURS[1],
              marker="o", markersize=4, label="float's x bits / 32")
    axes.set_xticks(at, [str(bits) if bits < 32 else "32\nfloat" for bits in widths])
    for x, bits in zip(at, widths, strict=True):
        axes.annotate(f"{found[32] / found[bits]:.3g}x", (x, found[bits] / 1e3), ha="center",
                      va="bottom", fontsize=8, xytext=(0, 4), textcoords="offset points")
    axes.set_ylim(0, found[32] / 1e3 * 1.12)
    axes.set_xlabel("stored bits per value")
    axes.set_ylabel("thousand cycles an epoch"
                    + (", of an output" if race["outputs"] > 1 else ""))
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    return _titled(axes, race, grid="y")


def _refetched(figure, race, results):
    """Share of the rows that were fetched again, against bits."""
    found = sorted((result["bits"], 100 * result["refetched"]) for result in results
                   if result.get("refetched") is not None)
    if not found:
        return False
    axes = figure.add_subplot()
    axes.bar([str(bits) for bits, _ in found], [share for _, share in found], width=0.6,
             color=PIPELINE_COLOURS[0])
    for at, (_, share) in enumerate(found):
        axes.annotate(f"{share:.2g} %" if share < 99.5 else "100 %", (at, share), ha="center",
                      va="bottom", fontsize=9)
    axes.set_ylim(0, max(share for _, share in found) * 1.12)
    axes.set_xlabel("stored bits per value")
    axes.set_ylabel(f"rows fetched again in {race['epochs']} epochs, %")
    return _titled(axes, race, grid="y")


KINDS: dict[str, Callable[[Any, dict[str, Any], list[dict[str, Any]]], bool]] = {
    "epochs": _epochs, "time": _time, "speedup": _speedup, "widths": _widths, "cycles": _cycles,
    "refetched": _refetched}
CAPTIONS = {
    "epochs": "Loss after every epoch, as its distance from the least loss of any linear model.",
    "time": "The same against time. Points are ends of epochs.",
    "speedup": "Time to the finishing line against that of the float pipeline; longer is faster. "
               "Who is missing did not get there.",
    "widths": "Bits per value against the loss after the same number of epochs.",
    "cycles": "Cycles of an epoch, and what they would be if they fell as the bits do. Above the "
              "bars: how many times fewer than the float pipeline's.",
    "refetched": "Share of the visited rows that were read again with 16 bits a value."}


def _curves(results, cpu):
    """Results that fit one drawing: float, then widths from most to fewest, and the fastest CPU."""
    pipelines = [result for result in results if result["kind"] == "pipeline"]
    while len(pipelines) > MAX_CURVES:      # thin out the widths, keep float and every encoding
        widths = [result for result in pipelines if result["encoding"] == "compensated"]
        odd = [result for result in widths if result["bits"] % 2] or widths[1:-1]
        if not odd:
            break
        pipelines.remove(odd[-1])
    if not cpu:
        return pipelines
    others = [result for result in results if result["kind"] == "cpu"]
    others = sorted(others, key=lambda result: result["seconds"][-1])[:2]
    return pipelines + others + [result for result in results if result["kind"] == "sklearn"]


def _style(result, results):
    """Colour, marker and dash of a contestant, the same in every drawing of a race."""
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


def _log_scale(axis, set_scale):
    """A logarithmic scale with numbers as people write them."""
    from matplotlib.ticker import LogFormatter
    set_scale("log")
    axis.set_major_formatter(lambda value, _: f"{value:,.7g}")
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))


def _line_text(race):
    return "1.01 x the optimum" if race["line"] == "optimum" else "1.01 x float's last loss"


def _finish_line(axes, race, results):
    target, = _heights(race, [race["targets"][race["line"]]])
    axes.axhline(target, color="#888888", linestyle=":", linewidth=1, label=_line_text(race))
    values = np.array([height for result in results
                       for height in _heights(race, result["losses"]) if height is not None])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    low = min(values.min(), target)
    # One contestant that diverges must not press all others to the floor.
    high = min(values.max(), 1e6 * max(np.median(values), target))
    if high > 5 * low:
        _log_scale(axes.yaxis, axes.set_yscale)
        axes.set_ylim(low / 1.2, high * 1.2)
    else:
        axes.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))


def _dress(figure, axes, race):
    scale = " (log scale)" if axes.get_yscale() == "log" else ""
    penalty = " + penalty" if race["l2"] else ""
    what = f"{LABELS[race['loss']]}{penalty}"
    axes.set_ylabel(f"{what}\nabove the optimum, in % of it{scale}" if race["optimum"] > 0
                    else what + scale)
    figure.legend(fontsize=8, frameon=False, loc="outside right upper")
    return _titled(axes, race)


def _titled(axes, race, grid="both"):
    """Give a drawing its grid, behind bars, and its title; True, for it is drawn."""
    axes.grid(axis=grid, alpha=0.3)
    axes.set_axisbelow(True if grid != "both" else "line")
    rows = f"{race['rows']:,} x {race['n_features']:,}"
    made = "synthetic, shaped like " if race["source"].startswith("synthetic, shaped") else ""
    axes.set_title(f"{made}{race['key']}, {rows}: {race['model']}, profile "
                   f"{race['profile']['name']}", fontsize=10)
    return True
