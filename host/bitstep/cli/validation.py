"""Options of ``bitstep train`` that end a training early, and the rows that they hold out."""

from dataclasses import replace
from typing import Any

from bitstep.data import Dataset
from bitstep.options.rules import Request
from bitstep.options.table import PATIENCE, VALIDATION_FRACTION
from bitstep.training.scores.stopping import held_out


def stops(request: Request) -> bool:
    """True if a training of solver ``sgd`` may stop early."""
    return bool(request["early_stopping"] or (request["tol"] and request["solver"] == "sgd"))


def stopping_settings(request: Request) -> dict[str, Any]:
    """The options with their defaults filled in; None for those without effect."""
    asked, early = stops(request), request["early_stopping"]
    return {"tol": (request["tol"] or 0.0) if asked else request["tol"] or None,
            "early-stopping": True if early else None,
            "validation-fraction":
            (request["validation_fraction"] or VALIDATION_FRACTION) if early else None,
            "n-iter-no-change": (request["n_iter_no_change"] or PATIENCE) if asked else None}


def hold_out(request: Request, dataset: Dataset, task: str,
             seed: int) -> tuple[Dataset, Dataset | None]:
    """Rows to train on, and those that are held out; None if none are.

    Raises
    ------
    ValueError
        If there are too few rows.
    """
    if not request["early_stopping"]:
        return dataset, None
    train, held = (
        replace(dataset, features=dataset.features[rows], labels=dataset.labels[rows])
        for rows in held_out(dataset.n_rows, request["validation_fraction"] or VALIDATION_FRACTION,
                             seed, dataset.labels if task == "classification" else None))
    return train, held
