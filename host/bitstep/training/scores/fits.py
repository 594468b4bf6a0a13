"""Parts of an estimator's ``fit``: rows that are held out, progress, and the entries of
``history_``.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from bitstep.checks import is_integer
from bitstep.data.views import RowView, rows_at
from bitstep.pipeline.device import Device
from bitstep.pipeline.losses import LossFunction
from bitstep.pipeline.registers import Loss
from bitstep.progress import Progress, StatusLine
from bitstep.quantization import Scaler
from bitstep.training.copies import Pass
from bitstep.training.losses import decide, measures
from bitstep.training.scores.scoring import SCORED_ROWS, ScoredRows, scored_features, spaced
from bitstep.training.scores.stopping import Stopping, check_stopping, held_out
from bitstep.training.scores.watch import TrainingWatch, rows_to_look_at
from bitstep.training.trained import TrainedModel
from bitstep.writing import numbers, shown_lines, text_table


class Held(NamedTuple):
    """Rows that are held out, in the units of the data.

    Attributes
    ----------
    features : ndarray of float or RowView, shape (n_rows, n_features)
    targets : ndarray of float64, shape (n_rows, n_outputs)
    weights : ndarray of uint16, shape (n_rows,), or None
        See :class:`bitstep.training.copies.Pass`.
    """

    features: Any
    targets: np.ndarray
    weights: np.ndarray | None = None


def hold_out(given: Pass, estimator: Any, *, classes: bool,
             draw_seed: Callable[[], int]) -> tuple[Pass, Held | None]:
    """Rows to train on, and those that ``early_stopping`` holds out.

    Parameters
    ----------
    given : Pass
    estimator : estimator
        Its parameters say what is asked for.
    classes : bool
        True of a classification.
    draw_seed : callable
        Seed of the choice.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are too few rows.
    """
    check_stopping(0.0 if estimator.tol == "auto" else estimator.tol, estimator.n_iter_no_change)
    if not estimator.early_stopping:
        return given, None
    features, targets, weights = given[:3]
    # Copies of a row, which weights make, stay together.
    sources = features.sources() if isinstance(features, RowView) else np.arange(len(targets))
    _, first, number = np.unique(sources, return_index=True, return_inverse=True)
    chosen = held_out(len(first), estimator.validation_fraction, draw_seed(),
                      decide(targets[first]) if classes else None)
    train, held = (np.flatnonzero(np.isin(number.reshape(-1), part)) for part in chosen)
    first, second = ((rows_at(features, part), targets[part],
                      None if weights is None else weights[part]) for part in (train, held))
    return Pass(*first, given.deviation, given.note, given.stands_for), Held(*second)


def stopping_of(estimator: Any, held: Held | None, features: Any, targets: np.ndarray,
                weights: np.ndarray | None, scaler: Scaler, loss: Loss | LossFunction, *,
                tol: float, classes: bool) -> Stopping | None:
    """The rule that an estimator's parameters ask of solver ``sgd``; None for all epochs.

    Parameters
    ----------
    estimator : estimator
    held : Held or None
        Rows that are held out.
    features, targets, weights, scaler
        Those to train on, as :func:`bitstep.training.scores.scoring.scored_features` takes them.
    tol : float
        Of the parameters; 0 of another solver.
    loss, classes
        See there.
    """
    if held is None and not tol:
        return None
    rows = scored_rows(features, targets, weights, scaler, loss, classes=classes,
                       count=SCORED_ROWS) \
        if held is None else scored_features(held.features, held.targets, scaler, loss,
                                             classes=classes, weights=held.weights)
    return Stopping(rows, held is not None, tol, estimator.n_iter_no_change)


def scored_rows(features: Any, targets: np.ndarray, weights: np.ndarray | None, scaler: Scaler,
                loss: Loss | LossFunction, *, classes: bool, count: int) -> ScoredRows:
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
            make_rows: Callable[..., ScoredRows]) -> Iterator[TrainingWatch | None]:
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
        Makes ``count`` rows to score models on.
    """
    if not verbose:
        yield None
        return
    n_rows, n_models = targets.shape
    scored = make_rows(count=rows_to_look_at(features.shape[1]))
    progress = Progress(epochs * n_rows, "training", " rows", keep=True)
    with TrainingWatch(progress, epochs, n_models, n_rows, device=device.name,
                       scored=scored) as watch:
        yield watch


def status_of(verbose: Any, name: str) -> StatusLine:
    """Progress of a device that is opened."""
    return StatusLine(name, quiet=not verbose)


def history_entries(trained: TrainedModel, loss: Loss | LossFunction, features: Any,
                    targets: np.ndarray, weights: np.ndarray | None, held: Held | None,
                    before: int, *,
                    classes: bool) -> list[dict[str, Any]]:
    """Entries of ``history_`` for the epochs after ``before`` ones.

    Parameters
    ----------
    trained : TrainedModel
    loss : Loss or LossFunction
    features, targets, weights
        Rows that were trained on, in the units of the data.
    held : Held or None
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
