"""Contestants with few levels of weights, their table, and the report."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitstep.writing import write_json, write_text
from bitstep_lab.quantized_networks.quantizers import Quantizer
from bitstep_lab.quantized_networks.training import History, train_network, tuned_step
from bitstep_lab.races.figures import new_figure, save_figure
from bitstep_lab.races.report_page import html_figure, html_table, page_head
from bitstep_lab.samples import Samples

CONTESTANTS: dict[str, Quantizer | None] = {
    "full precision": None,
    "Optimal5, nearest": Quantizer("optimal", "nearest"),
    "XNOR5, nearest": Quantizer("uniform", "nearest"),
    "Optimal5, stochastic": Quantizer("optimal", "stochastic"),
    "XNOR5, stochastic": Quantizer("uniform", "stochastic")}
HEAD = ("weights", "step", "training cross-entropy", "test cross-entropy", "test accuracy")
CAPTION = ("Mean of the seeds after each epoch, from the lowest to the highest seed in the shade: "
           "cross-entropy of the training rows, and accuracy on the test rows.")


@dataclass(frozen=True, eq=False)
class Runs:
    """Trainings of a contestant.

    Parameters
    ----------
    name : str
        A key of :data:`CONTESTANTS`.
    step : float
    histories : list of History
        One for each seed.
    """

    name: str
    step: float
    histories: list[History]

    def column(self, what: str) -> np.ndarray:
        """A field of the histories, shape (seeds, epochs)."""
        return np.array([getattr(one, what) for one in self.histories])


def run_contestants(samples: Samples, *, epochs: int, seeds: int, step: float | None = None,
                    progress: Callable[[str], None] = lambda line: None) -> list[Runs]:
    """Train every contestant with every seed.

    Parameters
    ----------
    samples : Samples
    epochs, seeds : int
        At least 1.
    step : float, optional
        Of all contestants; default: for each the best of
        :data:`bitstep_lab.quantized_networks.training.GRID`, by its training loss with seed 0.
    progress : callable
        Called with a line of text before each contestant.
    """
    found = []
    for name, quantizer in CONTESTANTS.items():
        progress(name)
        chosen = tuned_step(samples, quantizer, epochs=epochs) if step is None else step
        found.append(Runs(name, chosen, [
            train_network(samples, quantizer, step=chosen, epochs=epochs, seed=seed)
            for seed in range(seeds)]))
    return found


def rows_of(runs: Sequence[Runs]) -> list[list[str]]:
    """Cells of the table, as :data:`HEAD` names them: mean and standard deviation of the seeds."""
    rows = []
    for one in runs:
        losses, tests, accuracy = (one.column(what)[:, -1]
                                   for what in ("losses", "test_losses", "accuracy"))
        if np.isnan(losses).any():
            rows.append([one.name, f"{one.step:g}", "diverged", "-", "-"])
            continue
        rows.append([one.name, f"{one.step:g}", *(
            f"{values.mean():.3f} ± {values.std():.3f}" for values in (losses, tests)),
            f"{100 * accuracy.mean():.1f} ± {100 * accuracy.std():.1f} %"])
    return rows


def conclusions(runs: Sequence[Runs]) -> list[str]:
    """Sentences that compare optimal with uniform levels, beside the paper's."""
    by_name, found = {one.name: one for one in runs}, []
    for rounding in ("nearest", "stochastic"):
        pair = [by_name.get(f"{name}, {rounding}") for name in ("Optimal5", "XNOR5")]
        if None in pair:
            continue
        optimal, uniform = (one for one in pair if one is not None)
        points = 100 * (optimal.column("accuracy")[:, -1] - uniform.column("accuracy")[:, -1])
        losses = [one.column("losses")[:, -1].mean() for one in (optimal, uniform)]
        if np.isnan(losses).any():
            continue
        found.append(
            f"Rounded {'to the nearest' if rounding == 'nearest' else 'stochastically'}, Optimal5 "
            f"ends with a training cross-entropy of {losses[0]:.3f}, XNOR5 with {losses[1]:.3f}; "
            f"Optimal5's accuracy is {points.mean():+.1f} points from XNOR5's (seeds: "
            f"{points.min():+.1f} to {points.max():+.1f}; the paper: more than +5).")
    return found


def write_report(out: Path, samples: Samples, runs: Sequence[Runs]) -> Path:
    """Write ``index.html``, ``epochs.png`` (also as SVG) and ``results.json``.

    Parameters
    ----------
    out : Path
        Folder, which exists.
    samples : Samples
    runs : sequence of Runs

    Returns
    -------
    Path
        The page.
    """
    _draw(runs, out / "epochs")
    write_json(out / "results.json", [{"weights": one.name, "step": one.step, **{
        what: one.column(what).tolist() for what in ("losses", "test_losses", "accuracy")}}
        for one in runs])
    title = "bitstep: networks with weights of few levels"
    facts = (f"{samples.name}: {len(samples.labels):,} rows to train on, "
             f"{len(samples.test_labels):,} to test; {len(runs[0].histories)} seeds.")
    parts = [page_head(title), f"<p class='facts'>{html.escape(facts)}</p>",
             html_table(HEAD, [("float" if row[0] == "full precision" else "",
                                [html.escape(cell) for cell in row]) for row in rows_of(runs)]),
             "<ul>", *(f"<li>{html.escape(line)}</li>" for line in conclusions(runs)), "</ul>",
             html_figure(out / "epochs.png", title, CAPTION), "</body></html>"]
    write_text(out / "index.html", "\n".join(parts))
    return out / "index.html"


def _draw(runs, stem):
    figure = new_figure(10, 4.2)
    for axes, what, label in zip(figure.subplots(1, 2), ("losses", "accuracy"), (
            "training cross-entropy", "test accuracy"), strict=True):
        for number, one in enumerate(runs):
            values = one.column(what)
            epochs = np.arange(1, values.shape[1] + 1)
            colour = "black" if one.name == "full precision" else f"C{number}"
            axes.plot(epochs, values.mean(axis=0), color=colour, label=one.name,
                      linestyle="--" if "stochastic" in one.name else "-")
            axes.fill_between(epochs, values.min(axis=0), values.max(axis=0), color=colour,
                              alpha=0.12, linewidth=0)
        axes.set_xlabel("epoch")
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    if any(np.isfinite(one.column("losses")).all(axis=0).any() for one in runs):
        figure.axes[0].set_yscale("log")        # it needs a number
    figure.axes[1].legend(fontsize=8, frameon=False)
    save_figure(figure, stem)
