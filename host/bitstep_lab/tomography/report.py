"""Report of a reconstruction at all widths: table, images side by side, curves, one page."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitstep.writing import write_json, write_text
from bitstep_lab.races.figures import new_figure, save_figure
from bitstep_lab.races.report_page import html_figure, html_table, page_head
from bitstep_lab.tomography.projections import Scan
from bitstep_lab.tomography.reconstruction import (
    FLOAT,
    SCHEDULES,
    Reconstruction,
    Storage,
    reconstruct,
    stored_rows,
    tuned_step,
)

NEAR_DB = 0.5           # below full precision, within which quality counts as equal
PAPER_FACTOR = 2.7
WORDS = {"inverse": "step / epoch", "constant": "constant step"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """All widths on one scan, with each schedule of steps.

    Parameters
    ----------
    scan : Scan
    epochs : int
    steps : dict of str to float
        First step of each schedule.
    found : dict of str to list of Reconstruction
        For each schedule, floating-point rows first.
    """

    scan: Scan
    epochs: int
    steps: dict[str, float]
    found: dict[str, list[Reconstruction]]


def compare(scan: Scan, storages: Sequence[Storage], *, epochs: int, device: str = "cpu",
            progress: Callable[[str], None] = lambda line: None) -> Comparison:
    """Reconstruct with every storage and schedule; the step of each is tuned for floating point.

    Parameters
    ----------
    scan : Scan
    storages : sequence of Storage
        Floating-point rows are added in front if they are missing.
    epochs : int
        At least 1.
    device : str
        ``cpu`` or ``golden``.
    progress : callable
        Called with a line of text before each training.
    """
    storages = (FLOAT, *(one for one in storages if one != FLOAT))
    steps = {}
    for schedule in SCHEDULES:
        progress(f"step of the schedule {schedule}")
        steps[schedule] = tuned_step(scan, schedule=schedule, epochs=epochs, device=device)
    found: dict[str, list[Reconstruction]] = {schedule: [] for schedule in SCHEDULES}
    for storage in storages:
        progress(storage.name.replace("`", ""))
        data = stored_rows(scan, storage)
        for schedule in SCHEDULES:
            found[schedule].append(reconstruct(
                scan, storage, schedule=schedule, step=steps[schedule], epochs=epochs,
                device=device, data=data))
    return Comparison(scan, epochs, steps, found)


HEAD = ("stored rows", "MB", "less data than 32 bits",
        *(f"PSNR, {WORDS[schedule]}" for schedule in SCHEDULES))


def rows_of(comparison: Comparison) -> list[list[str]]:
    """Cells of the table, as :data:`HEAD` names them."""
    full = comparison.found[SCHEDULES[0]][0].n_bytes
    return [[runs[0].storage.name, f"{runs[0].n_bytes / 1e6:.3g}",
             f"{full / runs[0].n_bytes:.3g}", *(_decibels(run) for run in runs)]
            for runs in zip(*(comparison.found[schedule] for schedule in SCHEDULES), strict=True)]


def _decibels(run):
    if run.overflowed:
        return f"out of range in epoch {len(run.decibels) + 1}"
    return f"{run.decibels[-1]:.1f} dB"


def conclusion(comparison: Comparison, schedule: str) -> str:
    """A sentence on the least data with the quality of floating-point rows."""
    full, *others = comparison.found[schedule]
    near = [run for run in others if not run.overflowed
            and run.decibels[-1] >= full.decibels[-1] - NEAR_DB]
    if not near:
        return (f"With the schedule {schedule} no storage comes within {NEAR_DB} dB of "
                "floating-point rows.")
    least = min(near, key=lambda run: run.n_bytes)
    factor = full.n_bytes / least.n_bytes
    verdict = "at least" if factor >= PAPER_FACTOR else "less than"
    return (f"With the schedule {schedule}, {least.storage.name} has {least.decibels[-1]:.1f} dB, "
            f"where floating-point rows have {full.decibels[-1]:.1f} dB: {factor:.2f} times less "
            f"data, {verdict} the paper's {PAPER_FACTOR}.")


def write_report(out: Path, comparison: Comparison, reference: tuple[str, np.ndarray, float]
                 ) -> Path:
    """Write ``index.html``, ``images.png``, ``epochs.png`` (also as SVG) and ``results.json``.

    Parameters
    ----------
    out : Path
        Folder, which exists.
    comparison : Comparison
    reference : (str, ndarray of shape (side, side), float)
        Name, image and PSNR of another method.

    Returns
    -------
    Path
        The page.
    """
    scan = comparison.scan
    _draw_images(comparison, reference, out / "images")
    _draw_epochs(comparison, out / "epochs")
    write_json(out / "results.json", {
        "epochs": comparison.epochs, "steps": comparison.steps, "rays": scan.rays.shape[0],
        "pixels": scan.rays.shape[1], reference[0]: reference[2],
        "found": [{"schedule": schedule, "storage": run.storage.name, "bytes": run.n_bytes,
                   "misfit": run.misfit, "overflowed": run.overflowed,
                   "decibels": run.decibels.tolist()}
                  for schedule, runs in comparison.found.items() for run in runs]})
    title = "bitstep: an image from its projections"
    facts = (f"{len(scan.rays):,} rays, {scan.rays.shape[1]:,} pixels, {comparison.epochs} epochs "
             "of SGD with batches of 1; the first step of each schedule is tuned for "
             f"floating-point rows. {reference[0]}: {reference[2]:.1f} dB.")
    sentences = "".join(f"<li>{html.escape(conclusion(comparison, schedule))}</li>"
                        for schedule in SCHEDULES)
    parts = [page_head(title), f"<p class='facts'>{html.escape(facts)}</p>",
             f"<ul>{sentences}</ul>",
             html_table(HEAD, [("", [html.escape(cell) for cell in row])
                               for row in rows_of(comparison)], "text"),
             html_figure(out / "images.png", title, "The image that was projected, and what was "
                         "found from rows of each storage."),
             html_figure(out / "epochs.png", title, "Peak signal-to-noise ratio after each epoch."),
             "</body></html>"]
    write_text(out / "index.html", "\n".join(parts))
    return out / "index.html"


def _draw_images(comparison, reference, stem):
    """Images side by side: a row for each schedule."""
    scan, top = comparison.scan, comparison.scan.image.max()
    columns = 2 + len(comparison.found[SCHEDULES[0]])
    figure = new_figure(1.5 * columns, 2.0 * len(SCHEDULES))
    grid = figure.subplots(len(SCHEDULES), columns, squeeze=False)
    for axes, schedule in zip(grid, SCHEDULES, strict=True):
        shown = [("phantom", scan.image), (f"{reference[0]}\n{reference[2]:.1f} dB", reference[1]),
                 *((f"{_short(run.storage)}\n{_decibels(run)}", run.picture)
                   for run in comparison.found[schedule])]
        for place, (title, image) in zip(axes, shown, strict=True):
            place.imshow(image, cmap="gray", vmin=0, vmax=top, interpolation="nearest")
            place.set_title(title, fontsize=7)
            place.set_xticks([])
            place.set_yticks([])
        axes[0].set_ylabel(WORDS[schedule], fontsize=8)
    save_figure(figure, stem)


def _short(storage):
    """Name above an image: two lines of few letters."""
    what = storage.encoding if storage.levels == "uniform" else f"{storage.levels} levels"
    bits = f"{storage.bits} bit{'s' * (storage.bits > 1)}"
    return bits if storage.bits >= 16 else f"{bits}\n{what}"


def _draw_epochs(comparison, stem):
    """PSNR against epochs: a drawing for each schedule."""
    figure = new_figure(5.2 * len(SCHEDULES), 4.2)
    for axes, schedule in zip(figure.subplots(1, len(SCHEDULES), sharey=True), SCHEDULES,
                              strict=True):
        for number, run in enumerate(comparison.found[schedule]):
            axes.plot(np.arange(1, len(run.decibels) + 1), run.decibels, linewidth=1.2,
                      linestyle=("-", "--", "-.")[number % 3],
                      color="black" if run.storage == FLOAT else f"C{number % 10}",
                      label=run.storage.name.replace("`", ""))
        axes.set_xlabel("epoch")
        axes.set_title(WORDS[schedule], fontsize=10)
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("peak signal-to-noise ratio, dB")
    figure.axes[-1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, stem)
