"""The report of races of codecs: tables, drawings, and one page of them all."""

import csv
import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bitstep.cli.report import versions
from bitstep.writing import duration, write_json, write_text
from bitstep_gradients.lab import drawings
from bitstep_gradients.lab.outcome import PLACES, point_rows, summary, workers_text
from bitstep_gradients.lab.tasks import KINDS
from bitstep_gradients.lab.timing import Network
from bitstep_lab.races.report_page import html_figure, html_table, page_head
from bitstep_lab.races.run_store import machine

READING = """
<p>The workers of a race draw batches of the same rows, and send their gradients as messages of a
codec. All messages are decoded, and their mean, in the order of the ranks, is the step of SGD. The
step size is constant, tuned for uncompressed gradients (unless it was given), and the same for all
codecs. <b>Bytes</b> are the lengths of the messages of a rank, headers and scales included, and its
statistics for codecs that adapt.</p>
<p><b>Equal steps</b>: all codecs after the same number of steps. <b>Equal bytes</b>: all after the
same number of bytes of a rank; "&le;" marks a codec that has not used them up within the most
steps. Figures are means of the seeds, with the standard deviation after "&plusmn;".</p>
<p>In the <b>two-phase</b> exchange a slice of each tensor has an owner: a rank sends its messages
of the slices to their owners, and the owners send messages of the averages. A rank's bytes are
both. <b>Errors</b> are those of the first messages.</p>
<p><b>Network</b> is a model: ranks in a ring, a latency and a bandwidth for each turn. Floats are
added on their way (ring all-reduce) where that is faster, messages of codes are gathered whole
(ring all-gather).
<b>Codec</b> is the time that a rank needs to encode its own messages and to decode those of all,
measured on the machine below: the least of all steps. No other work of a step is counted.</p>
"""
COUNTED = """
<p>Counted by the exchange: bytes of a rank to and from other ranks in a step, with lengths,
agreement and statistics; mean of the ranks.</p>
"""


def write_report(out: Path, races: list[dict[str, Any]], networks: Sequence[Network]) -> Path:
    """Write everything: ``index.html``, ``points.csv``, ``summary.csv``, ``errors.csv``,
    ``levels.csv``, ``races.json`` and ``plots/``.

    Parameters
    ----------
    out : Path
        Folder, which exists.
    races : list of dict
        Of :func:`bitstep_gradients.lab.race.run_race`.
    networks : sequence of Network

    Returns
    -------
    Path
        The page.
    """
    (out / "plots").mkdir(exist_ok=True)
    write_json(str(out / "races.json"), races)
    _write_csv(out / "points.csv", (row for race in races for row in point_rows(race, networks)))
    _write_csv(out / "summary.csv", (row for race in races for row in _flat(race, networks)))
    _write_csv(out / "errors.csv", (row for race in races for row in _error_rows(race)))
    _write_csv(out / "levels.csv", (row for race in races for row in _level_rows(race)))
    title = "bitstep: gradient codecs"
    parts = [page_head(title), "<h2>How to read it</h2>", READING]
    for race in races:
        parts += _section(out, race, networks)
    for model in dict.fromkeys(race["model"] for race in races):
        some = [race for race in races if race["model"] == model]
        if drawings.draw_workers(some, networks, out / "plots" / f"{model}-workers"):
            parts += [f"<h2>{html.escape(KINDS[model].title)}: number of workers</h2>",
                      html_figure(out / "plots" / f"{model}-workers.png", "Workers",
                                  "Loss at equal steps against the number of workers, each with "
                                  "batches of the same size.")]
    write_text(out / "index.html", "\n".join([*parts, _about(), "</body></html>"]))
    return out / "index.html"


def _about():
    found = ", ".join(f"{name} {value}" for name, value in versions().items() if value)
    facts = machine()
    lines = [f"{html.escape(facts['cpu'])}, {facts['cores']} cores, {facts['system']}.",
             "What else the machine did meanwhile is not known.", f"Versions: {found}."]
    lines.append("Every point is in <code>points.csv</code>, every table in "
                 "<code>summary.csv</code>, every drawing in <code>plots/</code>, also as SVG.")
    return "<h2>What was run on what</h2><ul>" + "".join(
        f"<li>{line}</li>" for line in lines) + "</ul>"


def _section(out, race, networks):
    setting = race["setting"]
    count = setting["n_workers"]
    title = title_of(race)
    facts = (f"{race['data']}; {race['n_values']:,} parameters; batches of {setting['batch']} a "
             f"worker; step {setting['step']:g} ({'tuned' if race['step_tuned'] else 'given'}); "
             f"{race['n_seeds']} seeds; {setting['n_steps']} steps, or "
             f"{setting['budget'] / 1e6:.4g} MB a rank and at most {setting['max_steps']} steps.")
    parts = [f"<h2>{html.escape(title)}</h2>", f"<p class='facts'>{html.escape(facts)}</p>",
             html_table(head(networks, html.escape), [
                 ("float" if row["codec"] == "none" else "", [html.escape(cell) for cell in cells])
                 for row, cells in ((row, cells_of(row)) for row in summary(race, networks))])]
    if traffic := traffic_of(summary(race, networks)):
        parts += [COUNTED, html_table([html.escape(text) for text in TRAFFIC_HEAD],
                                      [("", [html.escape(cell) for cell in cells])
                                       for cells in traffic])]
    for name in drawings.KINDS:
        stem = out / "plots" / f"{race['model']}-{count}-{name}"
        if drawings.draw(name, race, networks, stem):
            parts.append(html_figure(stem.with_suffix(".png"), title, drawings.CAPTIONS[name]))
    return parts


def title_of(race: dict[str, Any]) -> str:
    """Model, workers and exchange of a race."""
    return f"{KINDS[race['model']].title}, {workers_text(race)}"


TRAFFIC_HEAD = ["codec", "sent a step", "received a step"]


def traffic_of(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Rows of a table of the exchange's counters; none without an exchange."""
    return [[row["codec"], f"{row['sent_a_step']:,.0f}", f"{row['received_a_step']:,.0f}"]
            for row in rows if row["sent_a_step"] is not None]


def head(networks: Sequence[Network], dressed: Callable[[str], str] = str) -> list[str]:
    """Heads of the columns of :func:`cells_of`."""
    return [dressed(text) for text in (
        "codec", "bytes a step", "bits a value", "error", "loss", "accuracy", "steps, equal bytes",
        "loss, equal bytes", "accuracy, equal bytes",
        *(f"network, {network.gbits:g} Gbit/s" for network in networks), "codec time")]


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of :func:`bitstep_gradients.lab.outcome.summary` as texts."""
    at, equal = row["steps"], row["budget"]
    lost = f" ({row['diverged']} of {row['runs']} diverged)" if row["diverged"] else ""
    mark = "" if equal["used_up"] else "≤ "
    steps = "-" if equal["step"] is None else f"{mark}{equal['step']:.0f}"
    return [row["codec"] + lost,
            "-" if row["bytes_a_step"] is None else f"{row['bytes_a_step']:,.0f}",
            _figure(row["bits_a_value"], 3), _figure(row["error"], 3), _spread(at), _share(at),
            steps, _spread(equal), _share(equal),
            *("-" if seconds is None else duration(seconds) for seconds in row["network_s"]),
            "-" if row["codec_s"] is None else duration(row["codec_s"])]


def _figure(value, digits):
    return "-" if value is None else f"{value:.{digits}g}"


def _spread(at):
    return "-" if at["loss"] is None else f"{at['loss']:.3g} ± {at['loss_spread']:.1g}"


def _share(at):
    return "-" if at["accuracy"] is None else f"{100 * at['accuracy']:.1f} %"


def _flat(race, networks):
    """Rows of summary.csv."""
    for row in summary(race, networks):
        times = {f"network_s_{network.gbits:g}_gbits": seconds
                 for network, seconds in zip(networks, row.pop("network_s"), strict=True)}
        places = {f"{name}_at_equal_{'bytes' if where == 'budget' else where}": value
                  for where in PLACES for name, value in row.pop(where).items()}
        yield {"model": race["model"], "data": race["data"],
               "workers": race["setting"]["n_workers"], **row, **times, **places}


def _error_rows(race):
    probe = race["probe"]
    for text, errors in probe["errors"].items():
        for step, error, bits in zip(probe["steps"], errors, probe["bits"][text], strict=True):
            yield {"model": race["model"], "workers": race["setting"]["n_workers"],
                   "codec": text, "step": step, "error": error, "bits_a_value": bits}


def _level_rows(race):
    for result in race["results"]:
        for update in result["levels"]:
            for tensor, levels in update["levels"].items():
                yield {"model": race["model"], "workers": race["setting"]["n_workers"],
                       "codec": result["contestant"]["text"], "seed": result["seed"],
                       "step": update["step"], "tensor": tensor,
                       "levels": " ".join(f"{level:.7g}" for level in levels)}


def _write_csv(path, rows):
    rows = list(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["empty"])
        writer.writeheader()
        writer.writerows(rows)
