"""The report as text and as one HTML file that needs no other."""

import html
import io
import textwrap
from typing import Any

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import BIT_PLANES, FLOAT_BITS
from bitstep.writing import duration, numbers, text_table
from bitstep_lab.board_report.boards import Board, largest_share
from bitstep_lab.races.report_page import html_table, page_head

RESOURCE_HEAD = ("resource", "used", "on the board", "share")
COLUMNS = 100
NO_RESOURCES = "No resources are recorded for this pipeline: it is not synthesized"


def title(found: dict[str, Any], board: Board) -> str:
    """One line that says what the report is about."""
    problem = found["problem"]
    data = problem.outputs[0]
    return (f"{problem.name}: {problem.model}, {width_name(found['bits'])} {found['encoding']}, "
            f"{data.n_rows:,} rows of {data.n_features:,} features, on {board.title}")


def width_name(bits: int) -> str:
    """Width of a value, as text."""
    return "floating point," if bits == FLOAT_BITS else f"{bits} bit{'s' * (bits > 1)}"


def pipeline_facts(found: dict[str, Any], board: Board) -> list[tuple[str, str]]:
    """Name and value of what is known of the pipeline and its time."""
    config, outputs = found["config"], len(found["problem"].outputs)
    seconds = found["epoch_cycles"] / board.clock_hz
    models = f" for {outputs} classes, one after the other" if outputs > 1 else ""
    beats = f"{found['beats']} {_unit(found)}{'s' * (found['beats'] > 1)}"
    epoch = f"{found['epoch_cycles']:,.0f} cycles, by the cycle model"
    least = max(found["beats"], config.update_interval)
    every = f"an update every {config.update_interval} cycles"
    rows = f"{found['row_cycles']:.4g}"
    latency = duration(config.latency / board.clock_hz)
    return [
        ("pipeline", config.name),
        ("lanes", f"{config.rows.lanes} values a cycle, on a bus of {config.bus_width} bits"),
        ("latency", f"{config.latency} cycles, {latency}, from a row's last beat to its update"),
        ("cycles a row", f"{rows}, start and end included; at least {least} ({beats}, {every})"),
        ("clock", f"{board.clock_hz / 1e6:g} MHz: {board.clock_source}"),
        ("an epoch", f"{duration(seconds)}{models} ({epoch})"),
        ("rows in memory", f"{found['row_bytes']:,} bytes"),
    ]


def resource_rows(resources: dict[str, Any]) -> list[list[str]]:
    """A line for each kind of resource; none where they are not known."""
    if resources["used"] is None:
        return []
    return [[kind, f"{used:,g}", f"{resources['available'][kind]:,}",
             f"{used / resources['available'][kind]:.0%}"]
            for kind, used in resources["used"].items()]


def width_table(widths: list[dict[str, Any]], board: Board) -> tuple[list[str], list[list[str]]]:
    """Head and lines of the table of all widths that could be trained."""
    good = [found for found in widths if found["status"] == "ok"]
    unit = f"{_unit(good[0])}s" if good else "beats"
    head = ["bits", "encoding", unit, "cycles a row", "an epoch", "train loss"]
    columns = [[_bits(found) for found in good], [found["encoding"] for found in good],
               [str(found["beats"]) for found in good],
               [f"{found['row_cycles']:.4g}" for found in good],
               [duration(found["epoch_cycles"] / board.clock_hz) for found in good],
               numbers([found["train_loss"] for found in good], 5)]
    if good and good[0]["accuracy"] is not None:
        head.append(_accuracy_name(good[0]))
        columns.append([f"{found['accuracy']:.2%}" for found in good])
    elif good and good[0]["test_metric"] is not None:
        head.append("test loss")
        columns.append(numbers([found["test_metric"] for found in good], 5))
    head.append("fullest part")
    columns.append([_fullest(board.resources(found["config"])) for found in good])
    return head, [list(line) for line in zip(*columns, strict=True)]


def _unit(found):
    """What a row is counted in: of bit-plane rows, whose planes differ, what all of them take."""
    return "slot" if found["config"].row_format == BIT_PLANES else "beat"


def _bits(found):
    return f"{found['bits']} (float)" if found["bits"] == FLOAT_BITS else str(found["bits"])


def _accuracy_name(found):
    problem = found["problem"]
    tested = problem.test_set is not None and problem.test_set.n_rows
    return "test accuracy" if tested else "train accuracy"


def _fullest(resources):
    share = largest_share(resources)
    return "not synthesized" if share is None else f"{share[0]} {share[1]:.0%}"


def failures(widths: list[dict[str, Any]]) -> list[str]:
    """A line for each width without a model."""
    return [f"{_bits(found)}: {found['status']}" for found in widths if found["status"] != "ok"]


def loss_sentence(found: dict[str, Any]) -> str:
    """The formula of the loss."""
    return f"Loss: {LOSSES[found['problem'].kind.loss].text} over K rows."


def text_report(found: dict[str, Any], widths: list[dict[str, Any]], board: Board,
                resources: dict[str, Any]) -> str:
    """The report as text.

    Parameters
    ----------
    found : dict
        Of :func:`bitstep_lab.board_report.widths.figures`, at the width of the report.
    widths : list of dict
        The same at all widths.
    board : Board
    resources : dict
        Of :meth:`Board.resources`.
    """
    facts = pipeline_facts(found, board)
    width = max(len(name) for name, _ in facts)
    lines = [_wrapped(title(found, board)), "",
             *(_wrapped(f"{name:{width}}  {value}", width + 2) for name, value in facts), ""]
    rows = resource_rows(resources)
    lines += [text_table(RESOURCE_HEAD, rows),
              _wrapped(f"Resources: {resources['source']}.")] if rows else [
        f"{NO_RESOURCES}."]
    lines += ["", text_table(*width_table(widths, board)), loss_sentence(found)]
    return "\n".join([*lines, *failures(widths)])


def _wrapped(text, indent=0):
    """Text in lines that fit a terminal; a path stays whole."""
    return textwrap.fill(text, COLUMNS, subsequent_indent=" " * indent, break_on_hyphens=False,
                         break_long_words=False)


def html_report(found: dict[str, Any], widths: list[dict[str, Any]], board: Board,
                resources: dict[str, Any]) -> str:
    """The report as a page; see :func:`text_report`."""
    rows = resource_rows(resources)
    facts = [(html.escape(name), html.escape(value)) for name, value in
             pipeline_facts(found, board)]
    head, lines = width_table(widths, board)
    parts = [page_head(html.escape(title(found, board))), "<h2>Pipeline</h2>",
             html_table(("", ""), [("", list(pair)) for pair in facts], "text"),
             "<h2>Resources</h2>"]
    parts += [html_table(RESOURCE_HEAD, [("", row) for row in rows]),
              f"<p class='facts'>Resources: {html.escape(resources['source'])}.</p>"] if rows else [
        f"<p>{NO_RESOURCES}.</p>"]
    parts += ["<h2>Every width on these data</h2>", _drawing(widths, board),
              html_table(head, [("float" if width["bits"] == found["bits"] else "",
                                 [html.escape(cell) for cell in line])
                                for width, line in zip(_good(widths), lines, strict=True)]),
              f"<p class='facts'>{html.escape(loss_sentence(found))}</p>"]
    if failures(widths):
        parts += ["<p>Without a result:</p><ul>",
                  *(f"<li>{html.escape(line)}</li>" for line in failures(widths)), "</ul>"]
    return "\n".join([*parts, "</body></html>"])


def _good(widths):
    return [found for found in widths if found["status"] == "ok"]


def _drawing(widths, board):
    """Loss, accuracy and time of an epoch by bits, as SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    good = _good(widths)
    codes = [found for found in good if found["bits"] != FLOAT_BITS]
    panels = [("training loss", lambda found: found["train_loss"]),
              ("time of an epoch in us", lambda found: 1e6 * found["epoch_cycles"]
               / board.clock_hz)]
    if good and good[0]["accuracy"] is not None:
        panels.insert(1, (f"{_accuracy_name(good[0])} in %", lambda found: 100 * found["accuracy"]))
    figure = Figure(figsize=(3.4 * len(panels), 2.8), layout="constrained")
    FigureCanvasSVG(figure)
    for axes, (label, value) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels,
                                    strict=True):
        axes.plot([found["bits"] for found in codes], [value(found) for found in codes],
                  color="#0072b2", marker="o", markersize=4, label="codes")
        for found in good:
            if found["bits"] == FLOAT_BITS:
                axes.axhline(value(found), color="#d55e00", linestyle="--", label="floating point")
        axes.set_xlabel("bits a value")
        axes.set_ylabel(label)
        axes.set_xticks(range(1, 9))
        axes.grid(alpha=0.3)
    figure.axes[0].legend(frameon=False, fontsize=8)
    # From 0, with room above the highest line.
    figure.axes[-1].set_ylim(0, 1.05 * max(panels[-1][1](found) for found in good))
    file = io.StringIO()
    figure.savefig(file, format="svg")
    drawn = file.getvalue()
    return f"<figure>{drawn[drawn.index('<svg'):]}</figure>"
