"""The report as one page: text, tables and drawings, with no other file needed."""

import base64
import html
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bitstep.cli.report import versions
from bitstep.writing import duration, write_text
from bitstep_lab.races.experiments import Experiment
from bitstep_lab.races.judging import rtl_sentence, seconds_an_epoch
from bitstep_lab.races.plot_styles import digits
from bitstep_lab.races.plots import CAPTIONS

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; margin-top: 3rem; border-top: 1px solid #ccc;
     padding-top: 1rem; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.45rem; border-bottom: 1px solid #ddd; text-align: right; }
th { vertical-align: bottom; } td { white-space: nowrap; }
th:first-child, td:first-child, .text td, .text th { text-align: left; white-space: normal; }
tr.float { font-weight: 600; } tr.other { color: #555; }
.wide { overflow-x: auto; } @media print { table { font-size: 0.62rem; } }
figure { margin: 1.5rem 0; } img, svg { max-width: 100%; height: auto; }
figcaption { font-size: 0.85rem; color: #444; } .facts { font-size: 0.9rem; color: #333; }
"""
READING = """
<p>Every contestant of a race goes over the same rows in the same order with the same steps: that of
an epoch is the first step divided by the epoch's number, and the first step is the one that suits
the <em>float</em> pipeline best (of 1/8 to 16 times bitstep's automatic step). Low precision is not
tuned for. All are judged by the same loss, in float64, on the features as they are, not as they
were quantized.</p>
<p><b>The finishing line</b> is 1.01 times the least loss that any linear model has on these rows
(least squares solved directly, the others by L-BFGS). Where the float pipeline does not get there
within the epochs, the line is 1.01 times the loss that it ends with, and the race says so. Times
are taken at ends of epochs.</p>
<p><b>Device time</b> of a pipeline is the number of clock cycles of the whole run, memory latency
and bandwidth included, divided by the profile's clock. Each race says where its cycles are from:
from the simulated RTL, or from the cycle model, which counts what the RTL counts and is compared
with it in one run of the race. No pipeline in RTL has a model or updates of few bits, so these have
no times.</p>
<p><b>CPU time</b> is that of compiled kernels on the machine named below: an epoch's is the least
of five runs (of fewer if they are long), because other work on the machine only ever adds to it.
Data that fit a cache flatter the CPU. <b>Host</b> is what comes before: quantizing (scaling, for
the CPU) here, and the transfer at the profile's bandwidth; <b>end to end</b> has it added to the
time to the line.</p>
"""
HEAD = ("", "least loss", "epochs to line", "time to line, ms", "x float", "x fastest CPU",
        "time an epoch, ms", "GB/s", "host, ms", "end to end, ms")


def write_page(out: Path, races: list[tuple[Experiment, dict[str, Any], list[str]]],
               about: dict[str, Any], sections: Sequence[tuple[Any, str]] = ()) -> Path:
    """Write ``index.html``.

    Parameters
    ----------
    out : Path
        Folder of the report, which has ``plots/``.
    races : list of (Experiment, race, kinds of plots that were drawn)
    about : dict
        ``quick``, ``machine``, ``code``, ``seconds``, ``skipped``, ``ceilings``.
    sections : sequence of (OtherRace, str)
        Races of another kind, and their parts of the page.

    Returns
    -------
    Path
    """
    title = "bitstep: speedup curves" + (" (quick)" if about["quick"] else "")
    parts = [page_head(title), "<h2>How to read it</h2>", READING, "<h2>Overview</h2>",
             _overview(races) if races or not sections else "",
             *(f"<p>{_link(other)}: {html.escape(other.text)}</p>" for other, _ in sections)]
    for experiment, race, drawn in races:
        parts += [_race(out, experiment, race, drawn)]
    parts += [text for _, text in sections]
    parts += ["<h2>Not here</h2><ul>", *(f"<li>{html.escape(line)}</li>" for line in about[
        "skipped"]), ("<li>Figure 3, levels of a distribution: <code>python -m "
        "bitstep_lab.level_points</code>; figure 7b, a network: <code>python -m "
        "bitstep_lab.quantized_networks</code>.</li>"),
        ("<li>Figure 9's Chebyshev polynomials, which are no pipeline: "
        "<code>python -m bitstep_lab.negative_results</code>.</li></ul>")]
    parts += ["<h2>What was run on what</h2>", _about(races, about), "</body></html>"]
    path = out / "index.html"
    write_text(path, "\n".join(parts))
    return path


def page_head(title: str) -> str:
    """Begin of a page, up to its title."""
    return (f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
            "<meta name='viewport' content='width=device-width'>"
            f"<style>{STYLE}</style></head><body><h1>{title}</h1>")


def _overview(races):
    """The fastest quantized pipeline of every race."""
    rows = []
    for experiment, race, _ in races:
        quantized = [result for result in race["results"]
                     if result["kind"] == "pipeline" and result["encoding"] != "float"
                     and (result["finish"][race["line"]] or {}).get("seconds")]
        if not quantized:
            rows.append([_link(experiment), race["data"], "none reaches the line", *[""] * 4])
            continue
        best = min(quantized, key=lambda result: result["finish"][race["line"]]["seconds"])
        speed = best["speedup"]
        rows.append([_link(experiment), race["data"], html.escape(best["name"]),
                     race["profile"]["name"],
                     "optimum" if race["line"] == "optimum" else "float", digits(speed["float"]),
                     digits(speed["cpu"])])
    head = ("race", "data", "fastest quantized pipeline", "profile", "line", "x float",
            "x fastest CPU")
    return html_table(head, [("", row) for row in rows], "text") + (
        "<p>Line: 1.01 x the optimum, or 1.01 x float's last loss where float does not reach "
        "that.</p>")


def _link(experiment):
    of = getattr(experiment, "figure", "")
    figure = f" (figure {of})" if of else ""
    return f"<a href='#{experiment.key}'>{html.escape(experiment.title)}</a>{figure}"


def _race(out, experiment, race, drawn):
    figure = f"<p class='facts'>Counterpart of figure {experiment.figure} of the ZipML paper.</p>" \
        if experiment.figure else ""
    board = race["profile"]
    limit = "no limit but the bus" if board["memory_gbps"] is None else \
        f"{board['memory_gbps']:g} GB/s"
    facts = [
        f"Data: {html.escape(race['data'])}.",
        f"Model: {race['model']}, {race['outputs']} output{'s' * (race['outputs'] > 1)}"
        + (f", l2 {race['l2']:g}" if race["l2"] else "") + ".",
        f"{race['epochs']} epochs, step of epoch k: first / k, first "
        + " and ".join(f"{step:.3g} (batches of {batch})" for batch, step in _steps(race))
        + (", tuned for float" if race["step_tuned"] else ", as asked for") + ".",
        (f"Profile {board['name']}: {board['bus_width']}-bit bus, {board['clock_hz'] / 1e6:g} MHz, "
        f"memory {limit}, latency {board['memory_latency']} cycles."),
        (f"Optimum {race['optimum']:.6g}; the line is {_line(race)}, "
        f"{race['targets'][race['line']]:.6g}."),
        html.escape(rtl_sentence(race["rtl"]))]
    if race["rows"] < race["all_rows"]:
        facts.append(f"<b>Reduced:</b> {race['rows']:,} of {race['all_rows']:,} rows.")
    failed = [f"<li>{html.escape(result['name'])}: {html.escape(result['status'])}</li>"
              for result in race["results"] if result["status"] != "ok"]
    parts = [f"<h2 id='{experiment.key}'>{html.escape(experiment.title)}</h2>", figure,
             f"<p>{html.escape(experiment.text)}</p>", f"<p class='facts'>{' '.join(facts)}</p>",
             html_table(HEAD, [_row(race, result) for result in race["results"]])]
    if failed:
        parts += ["<p>Without a result:</p><ul>", *failed, "</ul>"]
    for kind in drawn:
        parts.append(html_figure(out / "plots" / f"{experiment.key}-{kind}.png", experiment.title,
                                 CAPTIONS[kind]))
    return "\n".join(parts)


def html_figure(path: Path, title: str, caption: str) -> str:
    """A drawing, its bytes included, with its caption."""
    image = base64.b64encode(path.read_bytes()).decode()
    text = html.escape(f"{title}. {caption}", quote=True)
    return (f"<figure><img width='1080' alt='{text}' src='data:image/png;base64,{image}'>"
            f"<figcaption>{html.escape(caption)}</figcaption></figure>")


def _steps(race):
    return sorted({(result["batch"], result["step"]) for result in race["results"]})


def _row(race, result):
    finish, ok = result["finish"][race["line"]], result["status"] == "ok"
    kind = "float" if result.get("encoding") == "float" else \
        "" if result["kind"] == "pipeline" else "other"
    host = result.get("host")
    losses = [loss for loss in result["losses"] if loss is not None and math.isfinite(loss)] \
        if ok else []
    return kind, [
        html.escape(result["name"]), f"{min(losses):.5g}" if losses else "-",
        str(finish["epochs"]) if finish else "-", _milliseconds(finish and finish["seconds"]),
        digits(result["speedup"]["float"]), digits(result["speedup"]["cpu"]),
        _milliseconds(seconds_an_epoch(race, result)),
        digits(result["gbps"] if ok else None),
        _milliseconds(host and host["quantize_s"] + host["transfer_s"]),
        _milliseconds(finish and finish["end_to_end"])]


def _line(race):
    return "1.01 x the optimum" if race["line"] == "optimum" else \
        "1.01 x float's last loss (float does not reach 1.01 x the optimum)"


def _milliseconds(seconds):
    return digits(None if seconds is None else 1e3 * seconds)


def html_table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]],
               kind: str = "numbers") -> str:
    """A table of a page.

    Parameters
    ----------
    head : sequence of str
        HTML, as all cells.
    rows : iterable of (class, cells)
    kind : str
        Class of the table.
    """
    cells = "".join(f"<th>{name}</th>" for name in head)
    body = "\n".join(f"<tr class='{of}'>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
                     for of, row in rows)
    return f"<div class='wide'><table class='{kind}'><tr>{cells}</tr>\n{body}</table></div>"


def _about(races, about):
    machine = about["machine"]
    found = ", ".join(f"{name} {value}" for name, value in versions().items() if value)
    lines = [(f"Machine: {machine['cpu']}, {machine['cores']} cores that this process may use, "
             f"{machine['system']}. What else it did meanwhile is not known."),
             f"Versions: {found}. Sources of pipelines and simulation: {about['code']}."]
    if about["ceilings"]:
        lines.append("Memory of this machine, 268 MB: " + "; ".join(
            f"{what} {gbps:.3g} GB/s" for what, gbps in about["ceilings"].items()) + ".")
    lines.append(f"This call took {duration(about['seconds'])}; results of earlier calls with the "
                 "same inputs and sources were taken from <code>runs/</code>.")
    profiles = {race["profile"]["name"]: race["profile"]["source"] for _, race, _ in races}
    lines += [f"Profile {name}: {html.escape(source)}" for name, source in profiles.items()]
    lines.append("Every number of the drawings is in <code>curves.csv</code> and "
                 "<code>summary.csv</code>, every result in <code>races/</code>, and every drawing "
                 "in <code>plots/</code>, also as SVG.")
    return "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>"
