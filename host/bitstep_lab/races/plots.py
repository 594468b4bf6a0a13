"""Drawings of races: PNG and SVG, with every contestant that has something to show."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bitstep_lab.races.figures import new_figure, save_figure
from bitstep_lab.races.plot_styles import (
    FLOAT_COLOUR,
    MARKERS,
    PIPELINE_COLOURS,
    digits,
    line_text,
    log_scale,
    style_of,
)

WIDTH, HEIGHT = 9.6, 4.8         # inches of a drawing; bars have as many as they need
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
    figure = new_figure(WIDTH, HEIGHT)
    if not results or not KINDS[kind](figure, race, results):
        return False
    figure.axes[0].set_title(f"{TITLES[kind]}\n{_race_text(race)}", fontsize=10)
    save_figure(figure, stem)
    return True


def _epochs(figure, race, results):
    """Loss against epochs: pipelines."""
    axes = figure.add_subplot()
    chosen = [result for result in race["results"] if result["kind"] == "pipeline"]
    _curves(axes, race, chosen, lambda result: range(1, race["epochs"] + 1))
    axes.set_xlabel("epoch")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return _dress(figure, axes, race)


def _time(figure, race, results):
    """Loss against seconds: everybody."""
    axes = figure.add_subplot()
    _curves(axes, race, [one for one in race["results"] if one["status"] != "ok" or one["seconds"]],
            lambda result: [1e3 * seconds for seconds in result["seconds"]])
    log_scale(axes.xaxis, axes.set_xscale)
    axes.set_xlabel(f"milliseconds (log scale): device time, profile {race['profile']['name']}"
                    + ("; CPU time of this machine" if any(
                        result["kind"] != "pipeline" for result in results) else ""))
    return _dress(figure, axes, race)


def _curves(axes, race, results, times):
    """Losses of all of these runs; one without a result has an entry in the legend."""
    ok = [result for result in results if result["status"] == "ok"]
    for result in results:
        style = style_of(result, race["results"])
        if result in ok:
            axes.plot(times(result), _heights(race, result["losses"]), label=result["name"],
                      **style)
        else:
            axes.plot([], [], label=f"{result['name']}: no result", **style)
    _finish_line(axes, race, ok)


def _speedup(figure, race, results):
    """Time to the finishing line, as a speedup over the float pipeline."""
    speeds = [result["speedup"]["float"] for result in race["results"]]
    if sum(speed is not None for speed in speeds) < 2:
        return False
    texts = []
    for result, speed in zip(race["results"], speeds, strict=True):
        if speed is None:
            texts.append("does not reach the line" if result["status"] == "ok" else "no result")
            continue
        epochs = result["finish"][race["line"]]["epochs"]
        texts.append(f"{digits(speed)}x, {epochs} epoch{'s' * (epochs > 1)}")
    axes = _bars(figure, race, race["results"], [speed or 0 for speed in speeds], texts)
    axes.axvline(1, color="black", linewidth=0.8, zorder=0)
    axes.set_xlabel(f"speedup over the float pipeline, in time to {line_text(race)}")
    return _grid(axes, "x")


def _bars(figure, race, results, values, texts, places=None):
    """A horizontal bar for each result, with a text at its end or at its place."""
    figure.set_size_inches(WIDTH, 1.5 + 0.26 * len(results))
    axes = figure.add_subplot()
    axes.barh(range(len(results)), values, height=0.7,
              color=[style_of(result, race["results"])["color"] for result in results])
    axes.margins(y=0.02)
    for at, (value, text) in enumerate(zip(places or values, texts, strict=True)):
        axes.annotate(text, (value, at), va="center", fontsize=8, xytext=(4, 0),
                      textcoords="offset points",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
    axes.set_yticks(range(len(results)), [result["name"] for result in results], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, max(values) * 1.22)
    return axes


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
    log_scale(axes.yaxis, axes.set_yscale)
    axes.set_xticks(range(1, 9))
    axes.set_xlabel("stored bits per value")
    axes.set_ylabel(f"loss after {race['epochs']} epochs above\nthe optimum, in % of it (log "
                    "scale)")
    axes.legend(fontsize=8, frameon=False)
    return _grid(axes)


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
    """Cycles of an epoch of every pipeline, with 32 / b of the float pipeline's beside them."""
    found = [result for result in results if result["kind"] == "pipeline" and result["cycles"]]
    cycles = [result["cycles"][-1] / race["epochs"] / race["outputs"] for result in found]
    base = next((count for count, result in zip(cycles, found, strict=True)
                 if result["encoding"] == "float"), None)
    if base is None or len(found) < 2:
        return False
    strokes = [base * result["bits"] / 32 for result in found]
    axes = _bars(figure, race, found, [count / 1e3 for count in cycles],
                 [f"{digits(base / count)}x" for count in cycles],
                 [max(pair) / 1e3 for pair in zip(cycles, strokes, strict=True)])
    axes.plot([stroke / 1e3 for stroke in strokes], range(len(found)), "|", color="#888888",
              markersize=13, markeredgewidth=2, label="float's x bits / 32")
    axes.set_xlabel("thousand cycles an epoch"
                    + (", of an output" if race["outputs"] > 1 else ""))
    figure.legend(fontsize=8, frameon=False, loc="outside lower right")
    return _grid(axes, "x")


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
    return _grid(axes, "y")


TITLES = {
    "epochs": "Loss after every epoch", "time": "Loss against time",
    "speedup": "Speedup in time to the finishing line", "widths": "Loss at the end against bits",
    "cycles": "Cycles of an epoch", "refetched": "Rows that were fetched again"}
KINDS: dict[str, Callable[[Any, dict[str, Any], list[dict[str, Any]]], bool]] = {
    "epochs": _epochs, "time": _time, "speedup": _speedup, "widths": _widths, "cycles": _cycles,
    "refetched": _refetched}
CAPTIONS = {
    "epochs": "Loss after every epoch, as its distance from the least loss of any linear model.",
    "time": "The same against time. Points are ends of epochs.",
    "speedup": "Time to the finishing line against that of the float pipeline; longer is faster.",
    "widths": "Bits per value against the loss after the same number of epochs. Look-ahead changes "
              "no loss; a run without a result has no point.",
    "cycles": "Cycles of an epoch, and what they would be if they fell as the bits do (strokes). "
              "Beside the bars: how many times fewer than the float pipeline's.",
    "refetched": "Share of the visited rows that were read again with 16 bits a value."}


def _finish_line(axes, race, results):
    target, = _heights(race, [race["targets"][race["line"]]])
    axes.axhline(target, color="#888888", linestyle=":", linewidth=1, label=line_text(race))
    values = np.array([height for result in results
                       for height in _heights(race, result["losses"]) if height is not None])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    low = min(values.min(), target)
    # One contestant that diverges must not press all others to the floor.
    high = min(values.max(), 1e6 * max(np.median(values), target))
    if high > 5 * low:
        log_scale(axes.yaxis, axes.set_yscale)
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
    return _grid(axes)


def _grid(axes, lines="both"):
    """Give a drawing its grid, behind bars; True, for it is drawn."""
    axes.grid(axis=lines, alpha=0.3)
    axes.set_axisbelow(True if lines != "both" else "line")
    return True


def _race_text(race):
    """Data, model and profile of a race."""
    rows = f"{race['rows']:,} x {race['n_features']:,}"
    made = "synthetic, shaped like " if race["source"].startswith("synthetic, shaped") else ""
    return f"{made}{race['key']}, {rows}: {race['model']}, profile {race['profile']['name']}"
