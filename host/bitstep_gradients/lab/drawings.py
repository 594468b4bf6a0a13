"""Drawings of races of codecs: PNG and SVG."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitstep_gradients.lab.outcome import by_contestant, curve, summary, workers_text
from bitstep_gradients.lab.timing import Network
from bitstep_lab.races.figures import new_figure, save_figure
from bitstep_lab.races.plot_styles import FLOAT_COLOUR, MARKERS, PIPELINE_COLOURS

DASHES = ("-", "--", ":", "-.")
HEADROOM = 3.0              # a loss beyond so many times the first one is cut off


def draw(kind: str, race: dict[str, Any], networks: Sequence[Network], stem: Path) -> bool:
    """Draw one kind of figure to ``stem.png`` and ``stem.svg``.

    Parameters
    ----------
    kind : str
        A key of :data:`KINDS`.
    race : dict
        Of :func:`bitstep_gradients.lab.race.run_race`.
    networks : sequence of Network
        Time is that of the first one.

    Returns
    -------
    bool
        False if there is nothing to draw.
    """
    figure = new_figure(12.5, 4.8)
    if not KINDS[kind](figure, race, networks):
        return False
    save_figure(figure, stem)
    return True


def _styles(race):
    """Colour, dash and marker of every contestant, the same in every drawing of a race."""
    found, at = {}, 0
    for text in by_contestant(race):
        if text == "none":
            found[text] = {"color": FLOAT_COLOUR, "linewidth": 2.2}
            continue
        dash, colour = divmod(at, len(PIPELINE_COLOURS))
        turn, dash = divmod(dash, len(DASHES))
        found[text] = {"color": PIPELINE_COLOURS[colour], "linestyle": DASHES[dash],
                       "linewidth": 1.3, "marker": MARKERS[turn - 1] if turn else None,
                       "markersize": 4}
        at += 1
    return found


def _progress(what, label):
    """A drawing of a figure against steps, bytes and time, side by side."""
    def paint(figure, race, networks):
        panels = figure.subplots(1, 3, sharey=True)
        styles, n_workers, drawn = _styles(race), race["setting"]["n_workers"], []
        for text, results in by_contestant(race).items():
            steps, sent, means, spreads = curve(results, what)
            if len(steps) < 2:
                continue
            name = results[0]["contestant"]["name"]
            seconds = np.array([step * networks[0].step_s(name, n_bytes / max(step, 1), n_workers,
                                                          race["setting"]["exchange"])
                                for step, n_bytes in zip(steps, sent, strict=True)])
            drawn.append(means)
            for axes, places in zip(panels, (steps, sent / 1e6, seconds), strict=True):
                # Nothing was sent before the first step: no place for it on a logarithmic scale.
                first = 0 if axes is panels[0] else 1
                style = styles[text] if len(places) - first > 1 else {**styles[text], "marker": "o"}
                axes.plot(places[first:], means[first:], label=text, **style)
                axes.fill_between(places[first:], (means - spreads)[first:],
                                  (means + spreads)[first:], color=styles[text]["color"],
                                  alpha=0.1, linewidth=0)
        if not drawn:
            return False
        _limit(panels[0], what, drawn)
        panels[0].set_ylabel(label)
        names = ("step", "MB of a rank's messages\n(log scale)",
                 f"seconds of network (log scale)\n{networks[0].title}")
        for axes, text in zip(panels, names, strict=True):
            axes.set_xlabel(text)
            axes.grid(alpha=0.3)
        for axes in panels[1:]:
            if n_workers > 1 or axes is panels[1]:
                axes.set_xscale("log")
                _number(axes.xaxis)
        panels[0].axvline(race["setting"]["n_steps"], color="#888888", linewidth=0.8)
        if race["setting"]["budget"]:
            panels[1].axvline(race["setting"]["budget"] / 1e6, color="#888888", linewidth=0.8)
        return _finish(figure, panels[0], race)
    return paint


def _limit(axes, what, drawn):
    """Range of the heights: one contestant that explodes must not press the others flat."""
    if what == "accuracy":
        axes.set_ylim(max(min(one.min() for one in drawn) - 0.02, 0), 1.01)
        return
    low, first = min(one.min() for one in drawn), max(one[0] for one in drawn)
    high = min(max(one.max() for one in drawn), HEADROOM * first)
    axes.set_yscale("log")
    axes.set_ylim(max(low, 1e-6) / 1.15, high * 1.15)


def _number(axis):
    """Numbers on a logarithmic axis, at powers of its base; at others where it has not two."""
    low, high = axis.get_view_interval()
    axis.set_minor_formatter("")        # they would touch
    if sum(low <= place <= high for place in axis.get_majorticklocs()) < 2:
        from matplotlib.ticker import MaxNLocator
        axis.set_major_locator(MaxNLocator(3))
        axis.set_major_formatter("{x:g}")


def _tradeoff(figure, race, networks):
    """Loss at equal steps, and at equal bytes, against the bits of a value."""
    rows = [row for row in summary(race, networks) if row["bits_a_value"]]
    styles, panels = _styles(race), figure.subplots(1, 2, sharey=True)
    for axes, where in zip(panels, ("steps", "budget"), strict=True):
        for at, row in enumerate(rows):
            if row[where]["loss"] is None:
                continue
            axes.errorbar(row["bits_a_value"], max(row[where]["loss"], 1e-6),
                          yerr=min(row[where]["loss_spread"], 0.99 * row[where]["loss"]),
                          marker=MARKERS[at % len(MARKERS)], markersize=7, linestyle="none",
                          color=styles[row["codec"]]["color"], label=row["codec"], elinewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        _number(axes.xaxis)
        axes.set_yscale("log")
        axes.set_xlabel("bits of a value (log scale)")
        axes.grid(alpha=0.3)
    if not panels[0].lines:
        return False
    setting = race["setting"]
    panels[0].set_ylabel("training loss (log scale)")
    panels[0].set_title(f"after {setting['n_steps']} steps", fontsize=9)
    panels[1].set_title(f"after {setting['budget'] / 1e6:.3g} MB a rank, at most "
                        f"{setting['max_steps']} steps", fontsize=9)
    return _finish(figure, panels[0], race)


def _errors(figure, race, _):
    """Relative squared error of every codec on the same gradients."""
    probe, axes = race["probe"], figure.subplots()
    styles = _styles(race)
    for text, values in probe["errors"].items():
        if values and max(values) > 0:
            axes.plot(probe["steps"], np.maximum(values, 1e-12), label=text, **styles[text])
    if not axes.lines:
        return False
    axes.set_yscale("log")
    axes.set_xlabel("step of the uncompressed training")
    axes.set_ylabel("|decoded - gradient|$^2$ / |gradient|$^2$ (log scale)")
    axes.grid(alpha=0.3)
    return _finish(figure, axes, race)


def _bits(figure, race, _):
    """Bits of a value from step to step, where they change; else nothing."""
    axes, styles = figure.subplots(), _styles(race)
    for text, results in by_contestant(race).items():
        points = results[0]["points"]
        sent = np.array([point["bytes"] for point in points])
        steps = np.array([point["step"] for point in points])
        if len(steps) < 4:
            continue
        bits = 8 * np.diff(sent) / np.diff(steps) / race["n_values"]
        if bits.max() > 1.02 * bits.min():
            axes.step(steps, np.append(bits[0], bits), where="pre", label=text, **styles[text])
    if not axes.lines:
        return False
    axes.set_xlabel("step")
    axes.set_ylabel("bits of a value, whole messages (seed 0)")
    axes.set_ylim(0)
    axes.grid(alpha=0.3)
    return _finish(figure, axes, race)


def _levels(figure, race, _):
    """Levels of the largest tensor over time, one panel a codec that fits them."""
    found = {}
    for text, results in by_contestant(race).items():
        history = results[0]["levels"]
        if len(history) > 1:
            found[text] = history
    if not found:
        return False
    tensor = next(iter(next(iter(found.values()))[0]["levels"]))
    columns = min(len(found), 4)
    rows = -(-len(found) // columns)
    figure.set_size_inches(11, 0.8 + 2.6 * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).reshape(-1)
    for axes, (text, history) in zip(panels, found.items(), strict=False):
        table = np.array([one["levels"][tensor] for one in history])
        steps = [one["step"] for one in history]
        axes.step(steps, table, where="post", color=PIPELINE_COLOURS[0], linewidth=1)
        smallest = np.abs(table[table != 0]).min()
        axes.set_yscale("symlog", linthresh=max(smallest, 1e-6))
        axes.set_title(text.replace(":", ":\n", 1), fontsize=6)
        axes.grid(alpha=0.3)
    for axes in panels[len(found):]:
        axes.set_visible(False)
    figure.supxlabel(f"step (seed 0, {tensor})", fontsize=9)
    figure.supylabel("level, in units of the norm", fontsize=9)
    return True


KINDS: dict[str, Callable[[Any, dict[str, Any], Sequence[Network]], bool]] = {
    "loss": _progress("loss", "training loss (log scale)"),
    "accuracy": _progress("accuracy", "accuracy on the test rows"),
    "tradeoff": _tradeoff, "errors": _errors, "bits": _bits, "levels": _levels}
CAPTIONS = {
    "loss": "Loss over all rows to train on: mean of the seeds, with one standard deviation. Grey "
            "lines: where codecs are compared.",
    "accuracy": "The same for the share of test rows that the model finds right.",
    "tradeoff": "Bits of a value, whole messages, against the loss at equal steps and at equal "
                "bytes.",
    "errors": "Squared error that one message of each rank has, on the same gradients for all "
              "codecs: those of an uncompressed training.",
    "bits": "Bits of a value over time, for codecs whose messages change in length.",
    "levels": "Levels of the first tensor after every update."}


def draw_workers(races: Sequence[dict[str, Any]], networks: Sequence[Network], stem: Path) -> bool:
    """Draw the loss at equal steps against the number of workers, of races of one model.

    Returns
    -------
    bool
        False if there are not two numbers of workers.
    """
    if len(races) < 2:
        return False
    figure = new_figure(8.4, 4.6)
    axes, lines = figure.subplots(), {}
    for race in races:
        for row in summary(race, networks):
            if row["steps"]["loss"] is not None:
                lines.setdefault(row["codec"], []).append(
                    (race["setting"]["n_workers"], max(row["steps"]["loss"], 1e-6)))
    styles = _styles(races[0])
    for text, points in lines.items():
        dots = {"marker": "o", "markersize": 4, **styles[text]}
        dots["marker"] = dots["marker"] or "o"
        axes.plot(*zip(*sorted(points), strict=True), label=text, **dots)
    axes.set_xscale("log", base=2)
    counts = sorted({race["setting"]["n_workers"] for race in races})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_yscale("log")
    axes.set_xlabel("workers")
    axes.set_ylabel(f"training loss after {races[0]['setting']['n_steps']} steps (log scale)")
    axes.grid(alpha=0.3)
    _legend(figure, axes)
    _title(figure, f"{races[0]['model']}, {races[0]['data']}")
    save_figure(figure, stem)
    return True


def _finish(figure, axes, race) -> bool:
    _legend(figure, axes)
    _title(figure, f"{race['model']}, {workers_text(race)}, {race['data']}")
    return True


def _legend(figure, axes):
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, fontsize=7.5, frameon=False, loc="outside right upper")


def _title(figure, text):
    """A title that begins at the left, for the legend is at the right."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=10)
