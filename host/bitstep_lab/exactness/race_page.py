"""A race to the optimum as a part of a page: text, table and drawings."""

import html
import math
from pathlib import Path
from typing import Any

from bitstep_lab.races.figures import new_figure, save_figure
from bitstep_lab.races.plot_styles import (
    CPU_COLOURS,
    FLOAT_COLOUR,
    MARKERS,
    PIPELINE_COLOURS,
    digits,
    log_scale,
)
from bitstep_lab.races.report_page import html_figure, html_table

WIDTH = 9.6                 # inches of a drawing
GOAL_MARKERS = "osD"
GOAL_COLOURS = PIPELINE_COLOURS[:3]
READING = """
<p>Everybody starts from zeros on the same rows. A time is that to the first point whose loss, in
float64 on the features as they are, is at most so far above the least loss of any linear model, as
a share of it.</p>
<p><b>Pipelines</b>: cycles of the cycle model over the profile's clock. Bit-centred training has
the processor time of its host added, on the machine named below; <em>pipeline alone</em> is without
it. Its full passes count as passes of SGD, and its constants as nothing. <b>Host-driven SVRG on the
float pipeline is a model</b>: no such pipeline exists. It is the passes of SVRG in float64 at the
time of the float pipeline's epoch, and its host costs nothing.</p>
<p><b>CPU</b>: processor time of compiled loops and of scikit-learn, one thread, the least of three
runs. Float SGD and SVRG have the best of several steps; what was chosen is in the table.
Bit-centred training and fixed bits have their default steps. Transfers and quantizing are left
out.</p>
"""
HEAD_END = ("pipeline alone, ms", "step and passes that were chosen")


def section(text: str, race: dict[str, Any], drawn: list[tuple[Path, str]]) -> str:
    """The part of the page, HTML.

    Parameters
    ----------
    text : str
        What the race shows.
    race : dict
    drawn : list of (Path, str)
        Drawings and their captions.
    """
    head = ("", *(f"to {goal:g}, ms" for goal in race["goals"]),
            f"to {race['goals'][-1]:g}, {HEAD_END[0]}", HEAD_END[1])
    facts = [f"Data: {race['data']}, {race['rows']:,} x {race['features']:,} ({race['source']}).",
             *(f"Profile {board['name']}: {board['bus_width']}-bit bus, "
               f"{board['clock_hz'] / 1e6:g} MHz, memory {board['memory_gbps']:g} GB/s, latency "
               f"{board['memory_latency']} cycles." for board in race["profiles"])]
    parts = [f"<h2 id='{race['experiment']}'>{html.escape(race['title'])}</h2>",
             f"<p>{html.escape(text)}</p>", f"<p class='facts'>{html.escape(' '.join(facts))}</p>",
             READING, html_table(head, [_row(result) for result in race["results"]])]
    return "\n".join([*parts, *(html_figure(path, race["title"], caption)
                                for path, caption in drawn)])


def _row(result):
    kind = "float" if result["name"].startswith("float pipeline") else \
        "" if result["profile"] else "other"
    found = [*result["to_goals"], result["device_to_goals"][-1]]
    return kind, [html.escape(result["label"]),
                  *(digits(None if seconds is None else 1e3 * seconds) for seconds in found),
                  html.escape(result["choice"])]


def drawings(race: dict[str, Any], folder: Path) -> list[tuple[Path, str]]:
    """Draw the race.

    Returns
    -------
    list of (Path, str)
        PNG files, an SVG beside each, and their captions.
    """
    text = ("Time to three distances from the optimum; further left is faster. Pipelines by the "
            "cycle model, hollow: without the host's time.")
    found = [(folder / f"{race['experiment']}-goals.png", _draw_goals(race), text)]
    for board in race["profiles"]:
        text = (f"Distance to the optimum against time, pipelines of profile {board['name']} and "
                "this machine's processor.")
        found.append((folder / f"{race['experiment']}-time-{board['name']}.png",
                      _draw_times(race, board["name"]), text))
    for path, figure, _ in found:
        save_figure(figure, path.with_suffix(""))
    return [(path, caption) for path, _, caption in found]


def _title(race):
    made = "synthetic, shaped like " if race["source"].startswith("synthetic, shaped") else ""
    return f"{made}{race['data']}, {race['rows']:,} x {race['features']:,}"


def _draw_goals(race):
    """A line for each contestant, with a mark for each goal."""
    results, goals = race["results"], race["goals"]
    figure = new_figure(WIDTH, 1.6 + 0.27 * len(results))
    axes = figure.add_subplot()
    for number, goal in enumerate(goals):
        style = {"marker": GOAL_MARKERS[number], "color": GOAL_COLOURS[number], "linestyle": ""}
        for name, filled in (("to_goals", True), ("device_to_goals", False)):
            places = [(1e3 * result[name][number], at) for at, result in enumerate(results)
                      if result[name][number] is not None]
            # Marks that fall on one another stay visible: the first goal's are the largest.
            axes.plot([one for one, _ in places], [at for _, at in places],
                      markersize=9 - 2 * number, label=f"{goal:g}" if filled else None,
                      markerfacecolor=style["color"] if filled else "none", **style)
    for at, result in enumerate(results):
        reached = [one for one in result["to_goals"] if one is not None]
        if missed := len(goals) - len(reached):
            first = goals[len(goals) - missed]
            place = (1e3 * max(reached), at) if reached else (0.02, at)
            axes.annotate(f"does not reach {first:g}", place, xytext=(8, 0), va="center",
                          xycoords="data" if reached else ("axes fraction", "data"),
                          textcoords="offset points", fontsize=8)
    for at in range(1, len(results)):
        if results[at]["profile"] != results[at - 1]["profile"]:
            axes.axhline(at - 0.5, color="#888888", linewidth=0.8)
    axes.set_yticks(range(len(results)), [result["label"] for result in results], fontsize=8)
    axes.invert_yaxis()
    log_scale(axes.xaxis, axes.set_xscale)
    axes.set_xlabel("milliseconds (log scale)")
    axes.set_title(f"Time to the optimum\n{_title(race)}: linreg", fontsize=10)
    axes.grid(axis="both", alpha=0.3)
    axes.plot([], [], marker="o", color="#555555", markerfacecolor="none", linestyle="",
              label="hollow: pipeline alone")
    figure.legend(fontsize=8, frameon=False, loc="outside lower right", ncols=len(goals) + 1,
                  title="(loss - optimum) / optimum", title_fontsize=8)
    return figure


def _draw_times(race, board):
    """Distance to the optimum against time, of a board's pipelines and the processor."""
    figure = new_figure(WIDTH, 4.8)
    axes = figure.add_subplot()
    chosen = [result for result in race["results"] if result["profile"] in (board, "")]
    lowest = race["goals"][-1] / 10
    colours = iter(PIPELINE_COLOURS)
    for number, result in enumerate(chosen):
        points = [(1e3 * seconds, max(excess, lowest)) for seconds, excess in zip(
            result["seconds"], result["excess"], strict=True) if excess is not None]
        # Below the last goal nothing is left to see.
        ends = next((at for at, (_, excess) in enumerate(points) if excess <= lowest), len(points))
        points = points[:ends + 1]
        style = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4, "linewidth": 1.3}
        if result["name"].startswith("float pipeline"):
            style |= {"color": FLOAT_COLOUR, "markerfacecolor": "none", "markersize": 7}
        elif result["profile"]:
            style |= {"color": next(colours)}
        else:
            style |= {"color": CPU_COLOURS[number % 3], "linestyle": ":"}
        axes.plot([one for one, _ in points], [excess for _, excess in points],
                  label=result["name"], **style)
    for goal in race["goals"]:
        axes.axhline(goal, color="#888888", linestyle="--", linewidth=0.7)
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        log_scale(axis, scale)
    highest = max(excess for result in chosen for excess in result["excess"] if excess is not None
                  and math.isfinite(excess))
    axes.set_ylim(lowest / 1.5, min(1.5 * highest, 1e3))
    axes.set_xlabel(f"milliseconds (log scale): device and host, profile {board}; CPU time of "
                    "this machine")
    axes.set_ylabel("(loss - optimum) / optimum (log scale)")
    axes.set_title(f"Distance to the optimum against time\n{_title(race)}: linreg, profile {board}",
                   fontsize=10)
    axes.grid(alpha=0.3)
    figure.legend(fontsize=8, frameon=False, loc="outside right upper")
    return figure
