"""Parts of a training: rows that are held out, progress, and the entries of ``history_``."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bitstep.checks import is_integer
from bitstep.data.views import rows_at
from bitstep.pipeline.device import Device
from bitstep.pipeline.losses import LossFunction
from bitstep.pipeline.registers import Loss
from bitstep.progress import Progress, StatusLine
from bitstep.quantization import Scaler
from bitstep.training.copies import Pass
from bitstep.training.losses import measures
from bitstep.training.scores.scoring import ScoredRows, scored_features, spaced
from bitstep.training.scores.stopping import held_out
from bitstep.training.scores.watch import TrainingWatch, rows_to_look_at
from bitstep.training.trained import TrainedModel
from bitstep.writing import numbers, shown_lines, text_table


def hold_out(given: Pass, fraction: float, seed: int,
             groups: np.ndarray | None) -> tuple[Pass, Pass]:
    """Rows to train on, and those that ``early_stopping`` holds out.

    Parameters
    ----------
    given : Pass
    fraction, seed
        See :func:`bitstep.training.scores.stopping.held_out`.
    groups : ndarray, shape (n_rows,), or None
        Class of each row; None of a regression.

    Raises
    ------
    ValueError
        If the fraction is out of range, or there are too few rows.
    """
    features, targets, weights = given[:3]
    # Copies of a row, which weights make, stay together.
    places = np.arange(len(targets)) if given.places is None else given.places
    _, first, number = np.unique(places, return_index=True, return_inverse=True)
    chosen = held_out(len(first), fraction, seed, None if groups is None else groups[first])

    def part(numbers: np.ndarray) -> Pass:
        rows = np.flatnonzero(np.isin(number.reshape(-1), numbers))
        return given._replace(features=rows_at(features, rows), targets=targets[rows],
                              weights=None if weights is None else weights[rows], places=None)

    return part(chosen[0]), part(chosen[1])


def scored_rows(features: Any, targets: np.ndarray, weights: np.ndarray | None, scaler: Scaler,
                loss: Loss | LossFunction, count: int, *, classes: bool) -> ScoredRows:
    """At most so many rows, evenly spaced; see
    :func:`bitstep.training.scores.scoring.scored_features`.
    """
    pick = spaced(len(targets), count)
    return scored_features(rows_at(features, pick), targets[pick], scaler, loss, classes=classes,
                           weights=None if weights is None else weights[pick])


def check_verbose(verbose: Any) -> None:
    """Raise ValueError unless a parameter can be ``verbose``."""
    if not isinstance(verbose, (bool, np.bool_)) and not is_integer(verbose, 0):
        raise ValueError(f"verbose must be 0, 1 or 2, not {verbose!r}")


@contextmanager
def watched(verbose: Any, device: Device, epochs: int, features: Any, targets: np.ndarray,
            make_rows: Callable[[int], ScoredRows]) -> Iterator[TrainingWatch | None]:
    """Progress of a training, if ``verbose`` asks for it.

    Parameters
    ----------
    verbose : int
        0: none.
    device : Device
    epochs : int
        Those to train.
    features, targets
        Rows to train on.
    make_rows : callable
        Makes at most so many rows to score models on.
    """
    if not verbose:
        yield None
        return
    n_rows, n_models = targets.shape
    scored = make_rows(rows_to_look_at(features.shape[1]))
    progress = Progress(epochs * n_rows, "training", " rows", keep=True)
    with TrainingWatch(progress, epochs, n_models, n_rows, device=device.name,
                       scored=scored) as watch:
        yield watch


def status_of(verbose: Any, name: str) -> StatusLine:
    """Progress of a device that is opened."""
    return StatusLine(name, quiet=not verbose)


def history_entries(trained: TrainedModel, loss: Loss | LossFunction, features: Any,
                    targets: np.ndarray, weights: np.ndarray | None, held: Pass | None,
                    before: int, *,
                    classes: bool) -> list[dict[str, Any]]:
    """Entries of ``history_`` for the epochs after ``before`` ones.

    Parameters
    ----------
    trained : TrainedModel
    loss : Loss or LossFunction
    features, targets, weights
        Rows that were trained on, in the units of the data.
    held : Pass or None
        Rows that were held out, with values that a model clips clipped.
    before : int
    classes : bool
        True of a classification, which has accuracies, too.
    """
    columns: dict[str, Any] = {"step": trained.steps}
    for name, rows in (("train", (features, targets, weights)), ("validation", held)):
        if rows is not None:
            losses, shares = measures(loss, *rows[:2], trained.coefs, trained.intercepts,
                                      classes=classes, weights=rows[2])
            columns |= {f"{name}_loss": losses}
            columns |= {f"{name}_accuracy": shares} if classes else {}
    entries: list[dict[str, Any]] = [
        {"epoch": before + epoch + 1,
         **{name: float(values[epoch]) for name, values in columns.items()}}
        for epoch in range(trained.epochs_done)]
    return [entry | facts for entry, facts in zip(entries, trained.facts(), strict=True)]


def print_solver(verbose: int, solver: str, reason: str | None) -> None:
    """Say on standard error which solver was chosen, and why, if ``verbose`` asks for it."""
    if verbose and reason:
        print(f"Solver: {solver} ({reason})", file=sys.stderr)


def print_history(entries: list[dict[str, Any]]) -> None:
    """Print entries of ``history_`` as a table."""
    columns = {"epoch": [str(entry["epoch"]) for entry in entries],
               "step": numbers([entry["step"] for entry in entries], 4)}
    for part in ("train", "validation"):
        if f"{part}_loss" in entries[0]:
            columns[f"{part} loss"] = numbers([entry[f"{part}_loss"] for entry in entries])
        if f"{part}_accuracy" in entries[0]:
            columns[f"{part} accuracy"] = [f"{100 * entry[f'{part}_accuracy']:.2f} %"
                                           for entry in entries]
    lines = list(zip(*columns.values(), strict=True))
    print(text_table(list(columns), [lines[number] for number in shown_lines(len(lines))]),
          flush=True)
